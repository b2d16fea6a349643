# Copyright 2026 The hyper_parallel partial-sound fork authors
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""A framework call under layouts against the same call on replicas: values, labels, shapes and gradients."""
from __future__ import annotations

import itertools

import numpy as np
from mindspore import Tensor

from hyper_parallel import (
    DTensor, HyperParallelError, Partial, Replicate, Shard, distribute_tensor, init_device_mesh, simulate,
    value_and_grad,
)
from hyper_parallel.core.dtensor.denotation import shards
from hyper_parallel.core.dtensor.layout_value import placements_to_value
from tests.common.tensors import value_of


MOST = 300  # layouts on one axis of which those on several are made


def choices(array) -> list:
    """The placements of one operand on one mesh axis."""
    pending = [Partial("sum"), Partial("avg"), Partial("max")] if array.dtype == np.float32 else []
    return [Replicate(), *(Shard(d) for d in range(array.ndim)), *pending]


def distributed(mesh, array, placements):
    """The array under placements; no rank of a pending axis holds the answer."""
    layout = placements_to_value(mesh, placements, array.ndim)
    wholes = {(): array}
    for axis, op in enumerate(layout.partial):
        wholes = {(*key, c): part for key, value in wholes.items()
                  for c, part in enumerate(_addends(value, op, mesh.mesh_shape[axis]))}
    spec = layout.spec(array.shape)
    parts = [shards(wholes[c], spec)[rank] for rank, c in enumerate(np.ndindex(*mesh.mesh_shape))]
    return DTensor.from_local([Tensor(np.ascontiguousarray(p).reshape(p.shape)) for p in parts], mesh, placements,
                              shape=array.shape)


def _addends(value, op, n: int) -> list:
    """n parts that reduce to the value, small enough for float32."""
    if op is None:
        return [value] * n
    shift = np.where(np.arange(value.size).reshape(value.shape) % 2, 6, -12).astype(value.dtype)
    parts = [value - (c + 1) if op == "max" else shift * (c + 1) for c in range(n - 1)]
    last = {"sum": value - sum(parts), "avg": n * value - sum(parts), "max": value}[op]
    return [part.astype(value.dtype) for part in (*parts, last)]


def outputs(result) -> tuple:
    """The results of a call, one or several."""
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def close(got, want, atol: float = 1e-5) -> bool:
    """Equal up to the rounding of float32."""
    got, want = np.asarray(got, "float64"), np.asarray(want, "float64")
    return got.shape == want.shape and np.allclose(got, want, rtol=1e-5, atol=atol, equal_nan=True)


def gradients(mesh, function, operands) -> list:
    """Gradients of sum(weights * y) over floating results y, for every floating operand; none without either."""
    where = [i for i, t in enumerate(operands) if _floats(t)]
    if not where or not any(map(_floats, outputs(function(*operands)))):
        return []
    replicas = [Replicate()] * mesh.ndim

    def loss(*moving):
        full = list(operands)
        for i, t in zip(where, moving):
            full[i] = t
        total = 0
        for k, y in enumerate(filter(_floats, outputs(function(*full)))):
            weights = (np.arange(y.numel()) % 5 - 2 + k).reshape(y.shape).astype("float32")
            total = total + (y.redistribute(mesh, replicas) * distribute_tensor(weights, mesh, replicas)).sum()
        return total

    _, grads = value_and_grad(loss, grad_position=tuple(range(len(where))))(*[operands[i] for i in where])
    return [value_of(g) for g in outputs(grads)]


def _floats(value) -> bool:
    return isinstance(value, DTensor) and "Float" in str(value.dtype)


class Call:
    """A function on arrays, and what it gives on replicas of a mesh.

    Args:
        mesh: of a simulation.
        function: of DTensors.
        arrays: its operands.
        differentiable: compare gradients, too.
    """

    def __init__(self, mesh, function, arrays, differentiable: bool = True):
        self.mesh, self.function, self.arrays = mesh, function, arrays
        whole = [distribute_tensor(a, mesh, [Replicate()] * mesh.ndim) for a in arrays]
        self.values = [value_of(o) for o in outputs(function(*whole))]
        self.gradients = gradients(mesh, function, whole) if differentiable else []

    def agrees(self, layouts) -> bool:
        """True when the call is right with one tuple of placements per operand, False when it is refused.

        Raises:
            AssertionError: when it is wrong.
        """
        operands = [distributed(self.mesh, a, p) for a, p in zip(self.arrays, layouts)]
        try:
            outs = outputs(self.function(*operands))
        except HyperParallelError:
            return False
        for out, right in zip(outs, self.values, strict=True):
            assert out.shape == right.shape and close(value_of(out), right), (layouts, out.placements)
        if self.gradients:
            found = gradients(self.mesh, self.function, operands)
            # The CPU's tanh is off by 1e-5, by more or less depending on where in memory an element is.
            right = all(close(f, g, 1e-4) for f, g in zip(found, self.gradients, strict=True))
            assert right, (layouts, found, self.gradients)
        return True


def right_layouts(function, arrays, ranks: int, truth=None, differentiable: bool = True) -> int:
    """How many layouts on one axis a call takes, all of them right.

    Args:
        function: of DTensors.
        arrays: its operands.
        ranks: size of the mesh.
        truth: numpy's values; None where the replicas' are the truth.
        differentiable: compare gradients, too.
    """
    with simulate(ranks):
        call = Call(init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",)), function, arrays, differentiable)
        assert truth is None or all(close(w, t) for w, t in zip(call.values, outputs(truth), strict=True))
        return sum(call.agrees([(p,) for p in layouts]) for layouts in itertools.product(*map(choices, arrays)))


def right_grids(function, arrays, shape: tuple, draws: int, differentiable: bool = True) -> int:
    """How many of some random layouts on a mesh of several axes a call takes; all of them right.

    Args:
        function: of DTensors.
        arrays: its operands.
        shape: of the mesh.
        draws: how many layouts are tried; on every axis they are what the call takes on one axis alone.
        differentiable: compare gradients, too.
    """
    rng = np.random.default_rng(7)
    combinations = list(itertools.product(*map(choices, arrays)))
    if len(combinations) > MOST:
        combinations = [combinations[0], *(combinations[i] for i in rng.choice(len(combinations), MOST, replace=False))]
    with simulate(2):
        call = Call(init_device_mesh("cpu", (2,)), function, arrays, differentiable=False)
        taken = [layouts for layouts in combinations if call.agrees([(p,) for p in layouts])]
    with simulate(int(np.prod(shape))):
        call = Call(init_device_mesh("cpu", shape), function, arrays, differentiable)
        drawn = [[taken[rng.integers(len(taken))] for _ in shape] for _ in range(draws)]
        layouts = [[tuple(axis[i] for axis in axes) for i in range(len(arrays))] for axes in drawn]
        return sum(call.agrees(operands) for operands in layouts if all(map(_is_layout, operands)))


def _is_layout(placements: tuple) -> bool:
    """Pending reductions of two families would depend on their order."""
    extrema = {p.reduce_op == "max" for p in placements if p.is_partial()}
    return len(extrema) < 2

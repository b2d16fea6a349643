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
"""Boundaries: the functions whose backward differs from what the framework would derive (design, section 4).

A boundary takes the local values of all positions flat (one in a real process, N in a simulation). Its forward and
backward are written once, per gradient convention; the framework's own autograd does everything in between.
"""
from __future__ import annotations

import abc

from mindspore import mint
from mindspore.common._grad_function import _Function
from mindspore.common.api import _pynative_executor

from hyper_parallel.core.dtensor.convention import SINGLE_LOSS, gradient_convention
from hyper_parallel.platform.mindspore.fresh import fresh_copy
from hyper_parallel.platform.platform import current_platform
from hyper_parallel.platform.recorder import phase

_grad_flag = _pynative_executor.grad_flag
_enable_grad = _pynative_executor.enable_grad


def grad_enabled() -> bool:
    """True while the framework records operations for differentiation."""
    return _grad_flag() and _enable_grad()


class Boundary(abc.ABC):
    """A pair of maps on the positions' values; `single` tells which gradient convention holds.

    Attributes:
        mesh: the device mesh.
        single: True under single_loss.
        coordinates: mesh coordinate of every position.
    """

    def __init__(self, mesh):
        self.mesh = mesh
        self.platform = current_platform()
        self.single = gradient_convention() == SINGLE_LOSS
        self.coordinates = [mesh.coordinate_of(rank) for rank in self.platform.positions(mesh)]

    @abc.abstractmethod
    def forward(self, values: list, ctx=None) -> list:
        """Values after the boundary; `ctx` keeps what backward needs, None when nothing is recorded."""

    @abc.abstractmethod
    def backward(self, grads: list, ctx) -> list:
        """Gradients before the boundary."""

    def sum_over(self, values: list, axes) -> list:
        """All-reduce (sum) over several axes, one after the other."""
        for axis in axes:
            values = self.platform.all_reduce(values, self.mesh, axis, "sum")
        return values

    def keep_first(self, values: list, axes) -> list:
        """Values of positions at coordinate 0 of all axes; fresh zeros elsewhere (never a product: inf * 0 is nan)."""
        return [v if all(c[a] == 0 for a in axes) else zeros(v) for v, c in zip(values, self.coordinates)]


def zeros(value):
    """Zeros of the value's shape and type."""
    return mint.zeros(tuple(value.shape), dtype=value.dtype)


class _Recorded(_Function):
    """Runs a boundary under the framework's autograd."""

    @staticmethod
    def forward(ctx, boundary, *values):
        ctx.boundary = boundary
        outputs = boundary.forward(list(values), ctx)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @staticmethod
    def backward(ctx, *grads):
        with phase("backward"):
            return (None, *ctx.boundary.backward(list(grads), ctx))


def apply(boundary: Boundary, values: list) -> list:
    """The boundary's values; recorded for differentiation only while the framework records."""
    if not grad_enabled():
        return boundary.forward(values)
    outputs = _Recorded.apply(boundary, *values)
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


class Enter(Boundary):
    """A replica that meets sharded or pending work: varying on some axes, entering once on others."""

    def __init__(self, mesh, varying: tuple, once: tuple):
        super().__init__(mesh)
        self.varying, self.once = varying, once

    def forward(self, values, ctx=None):
        return self.keep_first(values, self.once) if self.once else values

    def backward(self, grads, ctx):
        if self.single:
            return self.sum_over(grads, self.varying)
        return self.keep_first(grads, self.once) if self.once else grads


class Identity(Boundary):
    """Forward identity whose gradient is converted by `convert(grads) -> grads`."""

    def __init__(self, mesh, convert):
        super().__init__(mesh)
        self.convert = convert

    def forward(self, values, ctx=None):
        return values

    def backward(self, grads, ctx):
        return self.convert(grads)


class NoGradient(Boundary):
    """Forward identity whose gradient is zero, whatever arrives: never a product with zero (inf * 0 is nan)."""

    def forward(self, values, ctx=None):
        return values

    def backward(self, grads, ctx):
        return [zeros(g) for g in grads]


class FanIn(Boundary):
    """The one value of equal replicas: the first position's in a simulation, its own in a real process."""

    def forward(self, values, ctx=None):
        return values[:1]

    def backward(self, grads, ctx):
        """One logical loss reaches every replica; per-rank parts reach the one replica that was read."""
        rest = [grads[0]] if self.single else [zeros(grads[0])]
        return grads + rest * (len(self.coordinates) - 1)


class FanOut(Boundary):
    """One whole value to every position: each its own copy in a simulation, itself in a real process."""

    def forward(self, values, ctx=None):
        return values + [fresh_copy(values[0]) for _ in self.coordinates[1:]]

    def backward(self, grads, ctx):
        """Every replica's gradient is complete, so one of them is the value's; per-rank parts are summed."""
        return [grads[0]] if self.single else [sum(grads[1:], grads[0])]

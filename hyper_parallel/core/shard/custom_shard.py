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
"""`custom_shard`: run a function on local tensors, with placements stated for what goes in and what comes out."""
from __future__ import annotations

from mindspore import Tensor

from hyper_parallel.core.dtensor.assembly import layout_from
from hyper_parallel.core.dtensor.boundaries import grad_enabled
from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.core.dtensor.dtensor_base import plain, values_of, wrap
from hyper_parallel.core.dtensor.placement_types import Placement
from hyper_parallel.core.shard.contract import varying
from hyper_parallel.errors import LayoutError
from hyper_parallel.platform.platform import current_platform


def custom_shard(func, device_mesh, out_placements, in_placements=None, redistribute_inputs=True):
    """A function of DTensors that runs `func` on their local tensors.

    A replicated input that meets sharded or pending inputs or outputs becomes varying, so that its gradient is
    complete; inside, gradients are the framework's own on local tensors.

    Args:
        func: function of local tensors.
        device_mesh: the mesh of the outputs.
        out_placements: placements of the output; a tuple of them for several outputs, None for a non-tensor output.
        in_placements: per argument its placements, or None for an argument that is not a DTensor.
        redistribute_inputs: bring DTensor arguments to `in_placements` first; otherwise they must have them.

    Raises:
        ValueError: when the numbers of placements and of arguments or outputs differ.
        RuntimeError: when an argument is a DTensor and `in_placements` is None.
        TypeError: when a DTensor has no placements, or something else has.

    Examples:
        >>> from hyper_parallel import simulate, init_device_mesh, Shard, Partial, distribute_tensor
        >>> with simulate(2):
        ...     mesh = init_device_mesh("cpu", (2,))
        ...     x = distribute_tensor(Tensor([1.0, 2.0, 4.0, 5.0]), mesh, [Shard(0)])
        ...     total = custom_shard(lambda v: v.sum(), mesh, (Partial(),), ((Shard(0),),))
        ...     total(x).full_tensor().item()
        12.0
    """

    def sharded(*args, **kwargs):
        if not any(isinstance(a, DTensor) for a in args):
            return func(*args, **kwargs)
        locals_ = _inputs(args, in_placements, device_mesh, redistribute_inputs, out_placements)
        count = len(current_platform().positions(device_mesh))
        results = [func(*[_at(v, p) for v in locals_], **kwargs) for p in range(count)]
        return _outputs(results, device_mesh, out_placements)

    return sharded


def _at(value, p: int):
    return value[p] if isinstance(value, _Values) else value


class _Values(list):
    """Local values of one DTensor argument, one per position."""


def _busy(mesh, *given) -> list:
    """Mesh axes on which some placements shard or leave pending."""
    return sorted({axis for places in given for axis in _busy_in(mesh, places)})


def _busy_in(mesh, places) -> list:
    if isinstance(places, Placement):
        places = (places,)
    if not isinstance(places, (tuple, list)):
        return []
    if places and all(isinstance(p, Placement) for p in places):
        return [axis for axis, p in enumerate(places) if not p.is_replicate()]
    if any(isinstance(p, str) for p in places):
        return [a for a, dim in enumerate(layout_from(mesh, places, len(places)).axis_dim) if dim is not None]
    return _busy(mesh, *places)


def _inputs(args, in_placements, mesh, redistribute: bool, out_placements) -> list:
    if in_placements is None:
        raise RuntimeError("custom_shard: an argument is a DTensor, so in_placements must say the placements of every "
                           "argument: in_placements=((Shard(0),), None, ...).")
    if len(in_placements) != len(args):
        raise ValueError(f"custom_shard: in_placements has {len(in_placements)} entries for {len(args)} arguments.")
    locals_, busy = [], _busy(mesh, in_placements, out_placements)
    for i, (arg, placements) in enumerate(zip(args, in_placements)):
        if isinstance(arg, DTensor) != (placements is not None):
            kind = "a DTensor without placements" if placements is None else f"a {type(arg).__name__} with placements"
            raise TypeError(f"custom_shard: argument {i} is {kind}. Give placements to DTensors and None to all else.")
        locals_.append(arg if placements is None else _local(arg, placements, mesh, redistribute, i, busy))
    return locals_


def _local(arg, placements, mesh, redistribute: bool, i: int, busy: list) -> _Values:
    layout = layout_from(mesh, placements, len(arg.shape))
    if layout is not arg.layout.value and not redistribute:
        raise LayoutError(f"custom_shard: argument {i} is {arg.layout.value} and in_placements says {layout}. "
                          f"Redistribute it, or leave redistribute_inputs=True.")
    moved = arg.redistribute(mesh, layout.placements)
    return _Values(values_of(varying(moved, busy) if grad_enabled() else moved))


def _outputs(results: list, mesh, out_placements):
    many = isinstance(results[0], (tuple, list))
    rows = [tuple(r) if many else (r,) for r in results]
    placements = tuple(out_placements) if many else (out_placements,)
    if len(rows[0]) != len(placements):
        raise ValueError(f"custom_shard: {len(rows[0])} outputs and {len(placements)} out_placements.")
    made = []
    for column, places in zip(zip(*rows), placements):
        if isinstance(column[0], Tensor) != (places is not None):
            raise TypeError("custom_shard: give placements to every tensor output and None to all else.")
        made.append(column[0] if places is None else _wrapped(list(column), mesh, places))
    return tuple(made) if many else made[0]


def _wrapped(values: list, mesh, placements):
    layout = layout_from(mesh, placements, values[0].ndim)
    sizes = mesh.mesh_shape
    shape = list(values[0].shape)
    for dim, axes in enumerate(layout.dims):
        for axis in axes:
            shape[dim] *= sizes[axis]
    current_platform().expect_equal(mesh, [tuple(v.shape) for v in values])
    return wrap([plain(v) for v in values], layout.spec(tuple(shape)))

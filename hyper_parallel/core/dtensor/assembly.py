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
"""Putting DTensors together from local values: layouts from placements, and every check on what the parts may be."""
from __future__ import annotations

import numpy as np
from mindspore import Tensor
from mindspore import dtype as mstype

from hyper_parallel.core.dtensor.boundaries import Identity, apply
from hyper_parallel.core.dtensor.convention import SINGLE_LOSS, gradient_convention
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.dtensor_base import DTensorBase, values_of, wrap_shared
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.layout_value import LayoutValue, placements_to_value
from hyper_parallel.core.dtensor.placement_types import Placement
from hyper_parallel.core.dtensor.planner import plan
from hyper_parallel.core.dtensor.steps import run_steps
from hyper_parallel.errors import LayoutError, MeshError
from hyper_parallel.platform import recorder
from hyper_parallel.platform.platform import current_platform


def local_values(local) -> list:
    """The local values that a user passes: one tensor, or in a simulation one per rank."""
    if current_platform().simulated:
        if not isinstance(local, (tuple, list)):
            raise LayoutError("In a simulation a local value is a tuple with one tensor per rank of the mesh. "
                              f"Got {type(local).__name__}.")
        values = [v if isinstance(v, Tensor) else Tensor(v) for v in local]
        if len({v.dtype for v in values}) > 1:
            raise LayoutError(f"Local tensors of one DTensor must have one element type. "
                              f"Got {[str(v.dtype) for v in values]}.")
        return values
    if not isinstance(local, Tensor):
        raise TypeError(f"A local value must be a mindspore.Tensor. Got {type(local).__name__}: Tensor(value).")
    return [local]


def layout_from(mesh: DeviceMesh, placements, ndim: int) -> LayoutValue:
    """The layout of placements (one per mesh axis) or of axis names (one entry per tensor dim)."""
    if mesh is None or placements is None:
        raise LayoutError("A DTensor needs a device mesh and placements.")
    placements = tuple(placements) if isinstance(placements, (tuple, list)) else (placements,)
    if placements and not any(isinstance(p, Placement) for p in placements) \
            and all(isinstance(p, (str, tuple)) for p in placements):
        if len(placements) != ndim:
            raise LayoutError(f"Axis names are given per tensor dimension: {ndim} are needed. Got {placements}.")
        return Layout.from_device_mesh(mesh)(*placements).value
    return placements_to_value(mesh, placements, ndim)


def check_same(tensor: DTensorBase, mesh, placements, layout) -> None:
    """A DTensor is copied as it is; other placements are a redistribution."""
    if mesh is None and layout is None:
        return
    asked = layout.value if layout is not None else layout_from(mesh, placements, len(tensor.shape))
    if asked is not tensor._spec.layout:
        raise LayoutError(f"DTensor(x) of a DTensor is a copy with its own layout {tensor._spec.layout}. Got {asked}: "
                          f"use x.redistribute(mesh, placements).")


def check_dtype(layout: LayoutValue, dtype) -> None:
    """Refuse pending reductions that have no meaning for the element type."""
    for op in filter(None, layout.partial):
        if (op == "all") != (dtype == mstype.bool_):
            raise LayoutError(f"A pending {op} of {dtype} has no meaning: bool is pending under 'all' only, and "
                              f"'all' of bool only. Cast first: x.to(mindspore.int32).")
        if op == "avg" and not dtype.is_floating_point:
            raise LayoutError(f"A pending avg of {dtype} is not exact. Cast first: x.to(mindspore.float32), or use "
                              f"Partial('sum').")


def equal_shards(layout: LayoutValue, local_shape: tuple) -> tuple:
    """Global shape when every rank holds an equal shard."""
    sizes = layout.mesh.mesh_shape
    parts = (int(np.prod([sizes[a] for a in axes], dtype=int)) for axes in layout.dims)
    return tuple(size * count for size, count in zip(local_shape, parts))


def assembled(values: list, layout: LayoutValue, shape, cls) -> DTensorBase:
    """A DTensor around local values; their shapes must be what layout and global shape say."""
    check_dtype(layout, values[0].dtype)
    shape = equal_shards(layout, tuple(values[0].shape)) if shape is None else tuple(shape)
    spec = layout.spec(shape)
    ranks = current_platform().positions(layout.mesh)
    if len(ranks) != len(values):
        raise LayoutError(f"The mesh has {len(ranks)} simulated ranks, so {len(ranks)} local tensors are needed. "
                          f"Got {len(values)}.")
    for rank, value in zip(ranks, values):
        coordinate = layout.mesh.coordinate_of(rank)
        if coordinate is None:
            raise MeshError(f"Rank {rank} is not in the mesh {layout.mesh}, so it holds no part of this tensor.")
        expected = spec.local_shape(coordinate)
        if tuple(value.shape) != expected:
            raise LayoutError(f"Rank {rank} holds a part of shape {tuple(value.shape)}, but {layout} of a tensor of "
                              f"shape {shape} gives it {expected}. Pass the true global shape: shape=...; shards are "
                              f"ceil-size chunks, the tail short or empty.")
    return wrap_shared(values, spec, cls)


def check_replicas(tensor: DTensorBase) -> None:
    """Refuse, on every rank alike, replicas whose values differ from coordinate 0's."""
    mesh, platform = tensor._spec.mesh, current_platform()
    values = values_of(tensor)
    with recorder.phase("check"):
        firsts = values
        for axis, placement in enumerate(tensor.placements):
            if placement.is_replicate() and mesh.mesh_shape[axis] > 1:
                firsts = platform.broadcast(firsts, mesh, axis, 0)
        wrong = [Tensor(np.array([not np.array_equal(_array(v), _array(f))], np.int32)) for v, f in zip(values, firsts)]
        for axis in range(mesh.ndim):
            if mesh.mesh_shape[axis] > 1:
                wrong = platform.all_reduce(wrong, mesh, axis, "max")
    if wrong[0].asnumpy().any():
        raise LayoutError(f"DTensor.from_local(run_check=True): the replicas of {tensor._spec.layout} differ between "
                          f"ranks. Make them equal first: distribute_tensor(value, mesh, placements, src_data_rank=0).")


def _array(value):
    """The value as an array that numpy compares; bfloat16 as float32."""
    return (value.to(mstype.float32) if value.dtype == mstype.bfloat16 else value).asnumpy()


def implied_gradient_layout(layout: LayoutValue) -> LayoutValue:
    """Layout of the gradient that a tensor's own layout implies under single_loss."""
    labels = {"sum": None, "avg": "sum", "max": "sum", "min": "sum", "prod": "sum"}
    return layout.replace(partial=tuple(labels.get(op) for op in layout.partial))


def with_gradient(tensor: DTensorBase, grad_placements, forwards: bool) -> list:
    """Local values whose gradient is converted between the given placements and the tensor's own gradient layout."""
    spec = tensor._spec
    given = placements_to_value(spec.mesh, tuple(grad_placements), len(spec.shape))
    own = implied_gradient_layout(spec.layout)
    source, target = (given, own) if forwards else (own, given)
    if gradient_convention() != SINGLE_LOSS:
        return values_of(tensor)
    for rank in current_platform().positions(spec.mesh):
        coordinate = spec.mesh.coordinate_of(rank)
        if given.spec(spec.shape).local_shape(coordinate) != spec.local_shape(coordinate):
            raise LayoutError(f"grad_placements {given} give rank {rank} a gradient of shape "
                              f"{given.spec(spec.shape).local_shape(coordinate)}, but its local tensor has shape "
                              f"{spec.local_shape(coordinate)}. A gradient has the shape of its tensor: cut the same "
                              f"dims.")
    steps = plan(source, target, spec.shape)
    return apply(Identity(spec.mesh, lambda grads: run_steps(steps, grads)), values_of(tensor))

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
"""The frozen, interned meaning of a layout: which mesh axes cut which tensor dimension, in which order, and what is
still to be reduced. Caches, keys and DTensors hold this value; users see it through the `Layout` handle.
"""
from __future__ import annotations

import functools

from hyper_parallel.core.dtensor.cuts import nested_chunk
from hyper_parallel.core.dtensor.placement_types import (
    REDUCE_FAMILIES, REDUCE_OPS, Partial, Placement, Replicate, Shard, StridedShard,
)
from hyper_parallel.errors import LayoutError, UnsupportedOpError

_VALUES: dict[tuple, LayoutValue] = {}


class LayoutValue:
    """One layout of tensors with `len(dims)` dimensions on `mesh`. Made by `layout_value`, compared by identity.

    Attributes:
        mesh: the device mesh.
        dims: for every tensor dimension the mesh axes (indices) that cut it, outermost first.
        partial: for every mesh axis the pending reduce op, or None.
        axis_dim: for every mesh axis the tensor dimension that it cuts, or None.
    """

    __slots__ = ("mesh", "dims", "partial", "axis_dim", "_specs", "__dict__")

    def __init__(self, mesh, dims, partial):
        self.mesh, self.dims, self.partial = mesh, dims, partial
        where = {axis: d for d, axes in enumerate(dims) for axis in axes}
        self.axis_dim = tuple(where.get(axis) for axis in range(mesh.ndim))
        self._specs: dict[tuple, TensorSpec] = {}

    @property
    def ndim(self) -> int:
        """Number of tensor dimensions."""
        return len(self.dims)

    @functools.cached_property
    def is_partial(self) -> bool:
        """True when some axis is still to be reduced."""
        return any(self.partial)

    @functools.cached_property
    def placements(self) -> tuple[Placement, ...]:
        """One placement per mesh axis; a cut order that differs from mesh order shows as StridedShard."""
        return tuple(self._placement(axis) for axis in range(self.mesh.ndim))

    def _placement(self, axis: int) -> Placement:
        if self.partial[axis]:
            return Partial(self.partial[axis])
        dim = self.axis_dim[axis]
        if dim is None:
            return Replicate()
        order = self.dims[dim]
        factor = 1
        for earlier in order[:order.index(axis)]:
            factor *= self.mesh.mesh_shape[earlier] if earlier > axis else 1
        return Shard(dim) if factor == 1 else StridedShard(dim, factor)

    def short(self, axis: int) -> str:
        """Placement of one axis in letters, as messages show it: R, S(0), P(sum)."""
        op = self.partial[axis]
        return f"P({op})" if op else str(self.placements[axis])

    def __str__(self):
        return "[" + ", ".join(self.short(axis) for axis in range(self.mesh.ndim)) + "]"

    def __repr__(self):
        return f"LayoutValue({self}, ndim={self.ndim}, mesh={self.mesh.mesh_shape})"

    def __reduce__(self):
        return layout_value, (self.mesh, self.dims, self.partial)

    def replace(self, dims=None, partial=None) -> LayoutValue:
        """The value with other cuts or other pending reductions."""
        return layout_value(self.mesh, self.dims if dims is None else dims,
                            self.partial if partial is None else partial)

    def unreduced_axes(self) -> tuple:
        """Indices of the axes with a pending reduction."""
        return tuple(axis for axis, op in enumerate(self.partial) if op)

    def spec(self, shape) -> TensorSpec:
        """The interned pair of this layout and a global shape."""
        found = self._specs.get(shape)
        if found is None:
            if len(shape) != self.ndim:
                raise LayoutError(f"A layout of {self.ndim} tensor dimensions does not fit the shape {tuple(shape)}.")
            found = self._specs.setdefault(tuple(shape), TensorSpec(self, tuple(shape)))
        return found


class TensorSpec:
    """A layout together with a global shape; interned per layout, so identity is equality."""

    __slots__ = ("layout", "shape", "__dict__")

    def __init__(self, layout: LayoutValue, shape: tuple):
        self.layout, self.shape = layout, shape

    @property
    def mesh(self):
        """The device mesh."""
        return self.layout.mesh

    @functools.cached_property
    def has_cuts(self) -> bool:
        """True when some tensor dimension is cut."""
        return any(self.layout.dims)

    def area(self, coordinate) -> tuple:
        """(begin, length) per tensor dimension of the part that the rank at this mesh coordinate holds."""
        shape = self.mesh.mesh_shape
        return tuple(nested_chunk(size, [shape[a] for a in axes], [coordinate[a] for a in axes]) if axes else (0, size)
                     for size, axes in zip(self.shape, self.layout.dims))

    def local_shape(self, coordinate) -> tuple:
        """Shape of the local tensor at this mesh coordinate."""
        return tuple(length for _, length in self.area(coordinate)) if self.has_cuts else self.shape

    def __repr__(self):
        return f"TensorSpec({self.layout}, shape={self.shape})"


def layout_value(mesh, dims, partial=None) -> LayoutValue:
    """The interned layout of these cuts and pending reductions.

    Args:
        mesh: a DeviceMesh.
        dims: per tensor dimension a tuple of mesh axis indices, outermost cut first.
        partial: per mesh axis a reduce op or None; default: nothing pending.

    Raises:
        LayoutError: when an axis is used twice, is both cut and pending, or pending ops are of different families.
    """
    partial = (None,) * mesh.ndim if partial is None else tuple(partial)
    dims = tuple(tuple(axes) for axes in dims)
    key = (mesh.identity, dims, partial)
    found = _VALUES.get(key)
    if found is None:
        _check(mesh, dims, partial)
        found = _VALUES.setdefault(key, LayoutValue(mesh, dims, partial))
    return found


def _check(mesh, dims, partial) -> None:
    used = [axis for axes in dims for axis in axes]
    for axis in used:
        if not 0 <= axis < mesh.ndim:
            raise LayoutError(f"Mesh axis {axis} does not exist on a {mesh.ndim}-D mesh.")
        if used.count(axis) > 1:
            raise LayoutError(f"Mesh axis {mesh.axis_name(axis)!r} can cut only one tensor dimension, once.")
        if partial[axis]:
            raise LayoutError(f"Mesh axis {mesh.axis_name(axis)!r} cuts a tensor dimension, so nothing can be pending "
                              f"on it: a Partial axis holds whole (replicate-shaped) addends.")
    pending = {op for op in partial if op}
    for op in pending:
        if op not in REDUCE_OPS:
            raise LayoutError(f"A pending reduce op must be one of {', '.join(REDUCE_OPS)}. Got {op!r}.")
    if len({REDUCE_FAMILIES[op] for op in pending}) > 1:
        raise LayoutError(f"All Partials of one layout must come from one family ({{sum, avg}}, max, min, prod or "
                          f"all); the value of {sorted(pending)} would depend on the order of reduction. "
                          f"Reduce one axis first: x.redistribute(mesh, placements).")


def placements_to_value(mesh, placements, ndim: int) -> LayoutValue:
    """The layout of one placement per mesh axis for a tensor of `ndim` dimensions.

    Raises:
        LayoutError: for a wrong number of placements, a shard dim out of range, or a split factor that disagrees.
        UnsupportedOpError: for RaggedShard.
    """
    placements = tuple(placements)
    if len(placements) != mesh.ndim:
        raise LayoutError(f"A mesh of shape {mesh.mesh_shape} needs {mesh.ndim} placements, one per axis. "
                          f"Got {len(placements)}: {placements}.")
    orders: list[list[int]] = [[] for _ in range(ndim)]
    partial: list = [None] * mesh.ndim
    for axis in reversed(range(mesh.ndim)):
        placement = placements[axis]
        if isinstance(placement, Partial):
            partial[axis] = placement.reduce_op
        elif isinstance(placement, (Shard, StridedShard)):
            order = orders[_tensor_dim(placement, ndim, mesh, axis)]
            order.insert(_insertion_point(placement, order, mesh, axis), axis)
        elif not isinstance(placement, Placement):
            raise LayoutError(f"{placement!r} on axis {mesh.axis_name(axis)!r} is not a placement. "
                              f"Use Shard(dim), Replicate() or Partial(op).")
        elif placement.is_ragged_shard():
            raise UnsupportedOpError(f"{placement!r} on axis {mesh.axis_name(axis)!r}: ragged shards have no layout "
                                     f"yet. Use Shard(dim), which may be uneven.")
    return layout_value(mesh, orders, partial)


def _tensor_dim(placement, ndim: int, mesh, axis: int) -> int:
    if not -ndim <= placement.dim < ndim:
        raise LayoutError(f"{placement!r} on axis {mesh.axis_name(axis)!r} is out of range for a tensor of {ndim} "
                          f"dimensions: dim must be in [{-ndim}, {ndim - 1}].")
    return placement.dim % ndim


def _insertion_point(placement, order, mesh, axis: int) -> int:
    """Where the axis cuts among the later mesh axes: after those whose sizes multiply to its split factor."""
    factor = getattr(placement, "split_factor", 1)
    product = 1
    for point in range(len(order) + 1):
        if product == factor:
            return point
        if point < len(order):
            product *= mesh.mesh_shape[order[point]]
    raise LayoutError(f"{placement!r} on axis {mesh.axis_name(axis)!r}: split_factor {factor} disagrees with the order "
                      f"of cuts; later mesh axes that cut this dim have sizes {[mesh.mesh_shape[a] for a in order]}.")

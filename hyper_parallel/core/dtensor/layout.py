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
"""`Layout`: the handle through which users build, read and change layouts. The meaning is a frozen `LayoutValue`."""
from __future__ import annotations

import numpy as np

from hyper_parallel.core.dtensor.cuts import nested_chunk
from hyper_parallel.core.dtensor.device_mesh import VIRTUAL_AXIS, DeviceMesh, init_device_mesh
from hyper_parallel.core.dtensor.layout_value import LayoutValue, layout_value, placements_to_value
from hyper_parallel.core.dtensor.placement_types import REDUCE_OPS, Placement
from hyper_parallel.errors import LayoutError

NONE = "None"


class Layout:
    """A thin handle on a layout value; setters rebind this handle only, never a tensor or another handle.

    Args:
        mesh_shape: sizes of the mesh axes.
        alias_name: names of the mesh axes.
        rank_list: flat ranks of the mesh; default: the block around this process.
        init_backend: start the framework's process group when a launcher provides one.

    Raises:
        LayoutError: see `__call__`.
        MeshError: when shape, names and ranks do not fit.

    Examples:
        >>> layout = Layout((2, 4), ("dp", "tp"), init_backend=False)
        >>> x = layout("dp", ("tp", "None"))
        >>> x.tensor_map, x.placements
        ((1, (0, -1)), (Shard(dim=0), Shard(dim=1)))
    """

    __hash__ = None

    def __init__(self, mesh_shape, alias_name, rank_list=None, init_backend=True):
        self._mesh = init_device_mesh("npu", tuple(mesh_shape), mesh_dim_names=tuple(alias_name),
                                      rank_list=rank_list, init_backend=init_backend)
        self._reset(None)

    def _reset(self, value: LayoutValue | None) -> None:
        self._value = value
        self._pending: tuple | None = None  # placements given before the number of tensor dims is known
        self._map: tuple | None = None  # the tensor map as written, with "None" inside tuples kept
        self.tensor_shape = self.tensor_stride = self.tensor_dtype = None

    @classmethod
    def from_device_mesh(cls, mesh: DeviceMesh) -> Layout:
        """A template on an existing mesh."""
        layout = cls.__new__(cls)
        layout._mesh = mesh
        layout._reset(None)
        return layout

    @classmethod
    def of(cls, value: LayoutValue, shape=None) -> Layout:
        """A new handle on a layout value, with the global tensor shape if known."""
        layout = cls.from_device_mesh(value.mesh)
        layout._value = value
        layout.tensor_shape = shape
        return layout

    # -- building -----------------------------------------------------------------------------------------------------

    def __call__(self, *entries) -> Layout:
        """A new layout on this mesh.

        Args:
            entries: per tensor dimension an axis name, "None" or a tuple of names (outermost cut first); or per mesh
                axis a Placement (also as one tuple), to be followed by `placement_to_tensor_map(ndim)`.

        Raises:
            LayoutError: for an unknown axis, an axis used twice, or a wrong number of placements.
        """
        if len(entries) == 1 and isinstance(entries[0], (tuple, list)) and entries[0] \
                and all(isinstance(e, Placement) for e in entries[0]):
            entries = tuple(entries[0])
        made = Layout.from_device_mesh(self._mesh)
        if entries and all(isinstance(e, Placement) for e in entries):
            made.set_placements(entries)
        else:
            made.set_alias_tensor_map(entries)
        return made

    def set_placements(self, placements) -> None:
        """Store one placement per mesh axis; `placement_to_tensor_map(ndim)` completes the layout."""
        placements = tuple(placements)
        if len(placements) != self._mesh.ndim:
            raise LayoutError(f"A mesh of shape {self.mesh_shape} needs {self._mesh.ndim} placements. "
                              f"Got {len(placements)}: {placements}.")
        self._reset(None)
        self._pending = placements

    def placement_to_tensor_map(self, dim: int) -> tuple:
        """Complete the layout for a tensor of `dim` dimensions and return its tensor map."""
        if dim < 0:
            raise LayoutError(f"A tensor has at least 0 dimensions. Got {dim}.")
        placements = self.placements
        if placements is None:
            raise LayoutError("This layout has neither placements nor a tensor map. Call it first: layout(...).")
        self._reset(placements_to_value(self._mesh, placements, dim))
        return self.tensor_map

    def tensor_map_to_placement(self) -> tuple:
        """The placements, one per mesh axis."""
        return self.value.placements

    def set_alias_tensor_map(self, entries) -> None:
        """Rebind to the cuts that axis names give, one entry per tensor dimension."""
        names = [entry if isinstance(entry, tuple) else (entry,) for entry in entries]
        for entry in names:
            for name in entry:
                if not isinstance(name, str) or (name != NONE and name not in (self.alias_name or ())):
                    raise LayoutError(f"The mesh has no axis {name!r}; its axes are {self.alias_name}. "
                                      f'Write "None" for a dimension that is not cut.')
        self._reset(layout_value(self._mesh, [[self._mesh.axis(n) for n in e if n != NONE] for e in names]))
        self._map = tuple(tuple(self._mesh.axis_id(n) for n in e) if isinstance(entry, tuple) else
                          self._mesh.axis_id(entry) for e, entry in zip(names, entries))

    def set_tensor_map(self, tensor_map) -> None:
        """Rebind to the cuts of a map of reversed axis indices (-1: not cut)."""
        last = self._mesh.ndim - 1
        dims = [[last - i for i in (e if isinstance(e, tuple) else (e,)) if i != -1] for e in tensor_map]
        self._reset(layout_value(self._mesh, dims))
        self._map = tuple(tensor_map)

    # -- what it says -------------------------------------------------------------------------------------------------

    @property
    def value(self) -> LayoutValue:
        """The frozen layout.

        Raises:
            LayoutError: when the handle is still a template.
        """
        if self._value is None:
            raise LayoutError("This layout is a template without tensor dimensions. Call it: layout('dp', 'None'), or "
                              "layout(Shard(0), ...) followed by placement_to_tensor_map(ndim).")
        return self._value

    @property
    def mesh(self) -> DeviceMesh:
        """The device mesh."""
        return self._mesh

    @property
    def mesh_shape(self) -> tuple:
        """Sizes of the mesh axes."""
        return self._mesh.mesh_shape

    @property
    def alias_name(self) -> tuple | None:
        """Names of the mesh axes."""
        return self._mesh.mesh_dim_names

    @property
    def rank_list(self) -> tuple:
        """Flat ranks of the mesh."""
        return self._mesh.rank_list

    @rank_list.setter
    def rank_list(self, ranks) -> None:
        mesh = DeviceMesh(self._mesh.device_type, np.array(ranks).reshape(self.mesh_shape),
                          mesh_dim_names=self.alias_name, _init_backend=False)
        self._mesh = mesh
        if self._value is not None:
            self._value = layout_value(mesh, self._value.dims, self._value.partial)

    @property
    def placements(self) -> tuple | None:
        """One placement per mesh axis; None on a template."""
        return self._pending if self._value is None else self._value.placements

    alias_placements = placements

    @property
    def tensor_map(self) -> tuple | None:
        """Per tensor dimension the reversed index of its axis, -1, or a tuple of them; None on a template."""
        if self._map is None and self._value is not None:
            last = self._mesh.ndim - 1
            self._map = tuple(-1 if not axes else last - axes[0] if len(axes) == 1 else tuple(last - a for a in axes)
                              for axes in self._value.dims)
        return self._map

    @property
    def alias_tensor_map(self) -> tuple | None:
        """The tensor map with axis names and "None"."""
        if self.tensor_map is None:
            return None
        last = self._mesh.ndim - 1
        return tuple(tuple(self._name(last, i) for i in e) if isinstance(e, tuple) else self._name(last, e)
                     for e in self.tensor_map)

    def _name(self, last: int, reversed_index: int) -> str:
        return NONE if reversed_index == -1 else self._mesh.axis_name(last - reversed_index)

    @property
    def partial(self) -> list:
        """Per mesh axis the pending reduce op, or None."""
        return [None] * self._mesh.ndim if self._value is None else list(self._value.partial)

    # -- pending reductions -------------------------------------------------------------------------------------------

    def set_partial_by_dev_axis(self, axis_name, op) -> None:
        """Rebind this handle with `op` (None clears) pending on an axis.

        Raises:
            LayoutError: for an unknown op, an axis that cuts a tensor dimension, or a mix of reduce families.
        """
        axis, name = self._mesh.axis(axis_name), op.lower() if isinstance(op, str) else op
        if name is not None and name not in REDUCE_OPS:
            raise LayoutError(f"A pending reduce op must be one of {', '.join(REDUCE_OPS)}, or None. Got {op!r}.")
        partial = list(self.value.partial)
        partial[axis] = name
        if name and self.value.axis_dim[axis] is not None:
            raise LayoutError(f"Axis {axis_name!r} cuts tensor dimension {self.value.axis_dim[axis]}; "
                              f"a partial dim must be replicate.")
        self._value = self.value.replace(partial=partial)

    def get_partial_by_dev_id(self, axis_name) -> str | None:
        """The reduce op pending on an axis, or None."""
        return self.partial[self._mesh.axis(axis_name)]

    def is_partial(self) -> bool:
        """True when some axis has a pending reduction."""
        return any(self.partial)

    def reset_partial(self) -> None:
        """Rebind this handle without pending reductions."""
        self._value = self.value.replace(partial=(None,) * self._mesh.ndim)

    # -- questions ----------------------------------------------------------------------------------------------------

    def is_dev_axis_apply_shard(self, axis_name) -> bool:
        """True when the axis cuts some tensor dimension."""
        return self.get_dev_axis_apply_shard_axis(axis_name) is not None

    def get_dev_axis_apply_shard_axis(self, axis_name) -> int | None:
        """The tensor dimension that the axis cuts, or None."""
        return self.value.axis_dim[self._mesh.axis(axis_name)]

    def get_dim_split_num(self, dim: int) -> int:
        """Number of parts that a tensor dimension is cut into."""
        return int(np.prod([self.mesh_shape[a] for a in self.value.dims[dim]], dtype=int))

    def get_split_id(self, dim: int) -> int:
        """Index of this rank's part of a tensor dimension."""
        axes = self.value.dims[dim]
        if not axes:
            return 0
        coordinate = self._mesh.coordinate_of(self._mesh.rank)
        return int(np.ravel_multi_index([coordinate[a] for a in axes], [self.mesh_shape[a] for a in axes]))

    def repeat_num(self) -> int:
        """Number of ranks that hold each part: all ranks over the parts. A pending axis counts as repeated."""
        return self._mesh.size() // int(np.prod([self.get_dim_split_num(d) for d in range(self.value.ndim)], dtype=int))

    def get_global_shape(self, local_shape) -> tuple:
        """The global shape, as recorded or of equal shards of this local shape."""
        return self.tensor_shape or self._mesh.get_global_shape(local_shape, self.tensor_map)

    def set_tensor_meta(self, shape, stride=None, dtype=None) -> None:
        """Record the global shape (and stride, dtype) on this handle."""
        self.tensor_shape, self.tensor_stride, self.tensor_dtype = tuple(shape), stride, dtype

    def get_devices_for_axis(self, axis, rank) -> list:
        """Ranks that differ from `rank` only along the axis."""
        return self._mesh.get_devices_for_axis(axis, rank)

    def get_comm_group_by_axis(self, axis):
        """The communication group along an axis."""
        return self._mesh.get_comm_group_by_axis(axis)

    def update_mesh(self, init_backend=True) -> None:
        """Start the process group if a launcher provides one; groups are made on first use."""
        if init_backend:
            self._mesh = DeviceMesh(self._mesh.device_type, self._mesh._ranks, mesh_dim_names=self.alias_name)

    def to_dict(self) -> dict:
        """Mesh shape, tensor map, virtual-axis flag, axis names and ranks."""
        if self.tensor_map is None:
            raise LayoutError("A template has no tensor map to export. Call it first: layout(...).")
        names = self.alias_name or ()
        return {"mesh_shape": self.mesh_shape, "tensor_map": self.tensor_map,
                "interleaved_parallel": VIRTUAL_AXIS in names, "alias_name": self.alias_name,
                "rank_list": self.rank_list}

    @property
    def compact_str(self) -> str:
        """A short string that tells layouts on one mesh apart."""
        return f"{self.tensor_map}{self.partial}@{self._mesh.identity}"

    def update_compact_str(self) -> None:
        """Kept for compatibility: the string always follows the value."""

    def to_string(self) -> str:
        """Mesh, cuts and pending reductions on one line."""
        axes = ", ".join(f"{self._mesh.axis_name(a)}={n}" for a, n in enumerate(self.mesh_shape))
        shown = "template" if self._value is None else f"{self.alias_tensor_map}, placements {self._value}"
        return f"Layout({axes}; {shown})"

    __str__ = to_string
    __repr__ = to_string

    def __eq__(self, other):
        return isinstance(other, Layout) and self._mesh == other._mesh and self._pending == other._pending and (
            self._value is other._value or (None not in (self._value, other._value)
                                            and self._value.dims == other._value.dims
                                            and self._value.partial == other._value.partial))

    def __deepcopy__(self, memo):
        made = Layout.from_device_mesh(self._mesh)
        made.__dict__.update(self.__dict__)
        return made


def _infer_slice_area_by_rank(mesh_shape, tensor_map, rank_idx, full_shape) -> list:
    """(begin, end) per tensor dimension of the part of the mesh position `rank_idx`, by ceil-size cuts."""
    coordinate = np.unravel_index(rank_idx, mesh_shape)[::-1]
    area = []
    for size, entry in zip(full_shape, tensor_map):
        ids = [i for i in (entry if isinstance(entry, tuple) else (entry,)) if i != -1]
        begin, length = nested_chunk(size, [mesh_shape[::-1][i] for i in ids], [int(coordinate[i]) for i in ids])
        area.append((begin, begin + length))
    return area

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
"""Device meshes: ranks arranged in named axes. Pure data: no framework, no process group until a group is asked for."""
from __future__ import annotations

import functools
import threading

import numpy as np

from hyper_parallel.core.dtensor.sub_meshes import SubMeshes
from hyper_parallel.errors import MeshError
from hyper_parallel.platform.platform import current_platform

DEVICE_TYPES = ("cpu", "cuda", "npu")
VIRTUAL_AXIS = "interleaved_parallel"
_IDENTITIES: dict[tuple, int] = {}
_INIT_CACHE: dict[tuple, DeviceMesh] = {}


def _as_ranks(mesh) -> np.ndarray:
    if hasattr(mesh, "asnumpy"):
        mesh = mesh.asnumpy()
    if not isinstance(mesh, (list, tuple, np.ndarray)):
        raise TypeError(f"DeviceMesh takes its ranks as a tensor, list, tuple or ndarray. Got {type(mesh).__name__}.")
    ranks = np.array(mesh)
    if ranks.size == 0 or not np.issubdtype(ranks.dtype, np.integer):
        raise MeshError(f"DeviceMesh ranks must be ints, at least one. Got {mesh!r}.")
    if ranks.ndim == 0:
        raise MeshError("DeviceMesh ranks must have at least one axis. Got a 0-d value: write [rank].")
    if ranks.min() < 0 or len(np.unique(ranks)) != ranks.size:
        raise MeshError(f"DeviceMesh ranks must be distinct and not negative. Got {ranks.tolist()}.")
    return ranks.astype(np.int32)


def _check_names(names, ndim: int) -> tuple | None:
    if names is None:
        return None
    names = tuple(names)
    if len(names) != ndim:
        raise MeshError(f"mesh_dim_names needs one name per axis. Got {len(names)} names {names} for {ndim} axes.")
    if any(not isinstance(name, str) or not name for name in names):
        raise MeshError(f"mesh_dim_names must be non-empty strings. Got {names}.")
    if len(set(names)) != ndim:
        raise MeshError(f"mesh_dim_names must be unique. Got {names}.")
    if VIRTUAL_AXIS in names[:-1]:
        raise MeshError(f"The axis name {VIRTUAL_AXIS!r} is only allowed last. Got {names}.")
    return names


class DeviceMesh(SubMeshes):
    """Ranks arranged in named axes; a sub-mesh keeps the ranks that share this rank's other coordinates.

    Args:
        device_type: "npu", "cpu" or "cuda"; names intent, programs written for "npu" run on a CPU host too.
        mesh: nested list, tuple, ndarray or tensor of global ranks; None means all ranks in one axis.
        mesh_dim_names: one unique name per axis, or None.

    Raises:
        MeshError: for an unknown device type, repeated ranks, or names that do not fit.
        TypeError: when `mesh` is of another type.

    Examples:
        >>> mesh = DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
        >>> mesh.mesh_shape, mesh["tp"].rank_list, mesh.axis_index("tp")
        ((2, 2), (0, 1), 1)
    """

    def __init__(self, device_type, mesh=None, *, mesh_dim_names=None, _init_backend=True, _root=None, _root_dims=None):
        if device_type not in DEVICE_TYPES:
            raise MeshError(f"device_type must be one of {', '.join(DEVICE_TYPES)}. Got {device_type!r}.")
        if _init_backend and _root is None:
            current_platform().ensure_process_group(device_type)
        if mesh is None:
            mesh = list(range(current_platform().world_size()))
        self.device_type = device_type
        self._ranks = _as_ranks(mesh)
        self.mesh_dim_names = _check_names(mesh_dim_names, self._ranks.ndim)
        self.mesh_shape = self._ranks.shape
        self._root = _root
        # For each axis, the axes of the root mesh that it spans (several after flatten), outermost first.
        self._root_dims = _root_dims or tuple((i,) for i in range(self.ndim))
        self._flattened: dict[str, tuple] = {}  # at a root: name -> the root axes that the flattened axis spans
        self._flat_meshes: dict[tuple, DeviceMesh] = {}  # (name, rank that asked) -> its mesh
        self.identity = self._intern()
        if _root is None:
            current_platform().check_ranks(self)

    def _intern(self) -> int:
        # Simulated and real meshes stay apart: plans cached for one must never serve the other.
        root = self.root_mesh
        key = (current_platform().simulated, self.device_type, self.mesh_shape, self.mesh_dim_names,
               self._ranks.tobytes(), None if root is self else (root.identity, self._root_dims))
        return _IDENTITIES.setdefault(key, len(_IDENTITIES))

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple:
        """Sizes of the axes."""
        return self.mesh_shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._ranks.ndim

    @property
    def mesh(self):
        """The ranks as an int32 tensor of the framework."""
        return current_platform().tensor(self._ranks)

    @functools.cached_property
    def rank_list(self) -> tuple:
        """All ranks, flat, last axis fastest."""
        return tuple(int(r) for r in self._ranks.ravel())

    @property
    def rank(self) -> int:
        """The global rank of this process."""
        return current_platform().rank()

    @property
    def root_mesh(self) -> DeviceMesh:
        """The mesh that this one was cut from; itself when it was not."""
        return self._root or self

    @property
    def sub_mesh(self) -> dict:
        """The flattened meshes registered at the root, by name."""
        return self.get_flatten_mapping()

    def size(self, mesh_dim=None) -> int:
        """Number of ranks in all, or along one axis (index or name)."""
        return int(self._ranks.size) if mesh_dim is None else self.mesh_shape[self.axis(mesh_dim)]

    def matches(self, other: DeviceMesh) -> bool:
        """True when both meshes have the same shape, names and ranks."""
        return self.identity == other.identity or (
            self.mesh_shape == other.mesh_shape and self.mesh_dim_names == other.mesh_dim_names
            and np.array_equal(self._ranks, other._ranks))

    def __eq__(self, other):
        return self is other or (isinstance(other, DeviceMesh) and self.matches(other))

    def __hash__(self):
        return hash((self.mesh_shape, self.mesh_dim_names))

    def to_hash(self) -> tuple:
        """A key that tells meshes apart: shape, names and all ranks."""
        return self.mesh_shape, self.mesh_dim_names, self.rank_list

    def __repr__(self):
        names = "" if self.mesh_dim_names is None else f", mesh_dim_names={self.mesh_dim_names}"
        return f"DeviceMesh({self.device_type!r}, {self._ranks.tolist()}{names})"

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _rebuild, (self.device_type, self._ranks, self.mesh_dim_names, self._root, self._root_dims)

    # -- axes ---------------------------------------------------------------------------------------------------------

    def axis(self, dim) -> int:
        """Index of an axis given by index (negative counts from the end) or name.

        Raises:
            MeshError: for an unknown name or an index out of range.
        """
        if isinstance(dim, str):
            if self.mesh_dim_names is None:
                raise MeshError(f"This mesh has no axis names, so {dim!r} is unknown. Use an index, or name the axes: "
                                f"init_device_mesh({self.device_type!r}, {self.mesh_shape}, mesh_dim_names=(...)).")
            if dim not in self.mesh_dim_names:
                raise MeshError(f"The mesh has no axis {dim!r}; its axes are {self.mesh_dim_names}.")
            return self.mesh_dim_names.index(dim)
        count = len(self.mesh_shape)
        if isinstance(dim, bool) or not isinstance(dim, int) or not -count <= dim < count:
            raise MeshError(f"A mesh axis must be a name or an index below {self.ndim}. Got {dim!r}.")
        return dim % self.ndim

    def axis_name(self, axis: int) -> str:
        """Name of an axis; `dim_<n>` when the mesh has no names."""
        return f"dim_{axis}" if self.mesh_dim_names is None else self.mesh_dim_names[axis]

    def axis_index(self, name) -> int:
        """Index of the axis of this name."""
        return self.axis(name)

    def axis_id(self, name) -> int:
        """Reversed index of an axis: 0 is the last axis; "None" gives -1."""
        return -1 if name == "None" else self.ndim - 1 - self.axis(name)

    def get_device_num_along_axis(self, name) -> int:
        """Size of the axis."""
        return self.mesh_shape[self.axis(name)]

    # -- where ranks sit ----------------------------------------------------------------------------------------------

    def coordinate_of(self, rank: int) -> tuple | None:
        """Coordinate of a global rank, or None when it is not in the root mesh.

        A rank outside a sub-mesh has the coordinate that it has in its own copy of that sub-mesh.
        """
        return self._coordinates.get(rank)

    @functools.cached_property
    def _coordinates(self) -> dict:
        root = self.root_mesh
        index = np.indices(root.mesh_shape).reshape(root.ndim, -1)
        columns = [np.ravel_multi_index([index[a] for a in dims], [root.mesh_shape[a] for a in dims])
                   for dims in self._root_dims]
        return {int(r): tuple(int(c) for c in coord) for r, coord in zip(root._ranks.ravel(), zip(*columns))}

    def get_coordinate(self) -> tuple | None:
        """Coordinate of this process, or None when it is not in the mesh."""
        return self.coordinate_of(self.rank) if self.rank in self.rank_list else None

    def get_local_rank(self, mesh_dim=None) -> int:
        """Coordinate of this process along one axis, which may be left out on a 1-D mesh."""
        coordinate = self.get_coordinate()
        if coordinate is None:
            raise MeshError(f"Rank {self.rank} is not in the mesh of ranks {self.rank_list}.")
        return coordinate[self._only_axis(mesh_dim, "get_local_rank")]

    def _only_axis(self, mesh_dim, caller: str) -> int:
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(f"{caller} needs an axis on a {self.ndim}-D mesh: one of {self.mesh_dim_names}.")
        return self.axis(0 if mesh_dim is None else mesh_dim)

    def ranks_along(self, axis: int, rank: int) -> tuple:
        """Ranks that differ from `rank` only along `axis`, in axis order."""
        root, dims = self.root_mesh, self._root_dims[axis]
        where = np.argwhere(root._ranks == rank)
        if where.size == 0:
            raise MeshError(f"Rank {rank} is not in the mesh of ranks {root.rank_list}.")
        index = tuple(slice(None) if a in dims else int(i) for a, i in enumerate(where[0]))
        kept = [a for a in range(root.ndim) if a in dims]
        return tuple(int(r) for r in root._ranks[index].transpose([kept.index(a) for a in dims]).ravel())

    def get_rank_list_along_axis(self, name) -> list:
        """Ranks that differ from this process only along the axis."""
        return list(self.ranks_along(self.axis(name), self.rank))

    def get_devices_for_axis(self, dim, rank) -> list:
        """Ranks that differ from `rank` only along the axis."""
        return list(self.ranks_along(self.axis(dim), rank))

    # -- groups -------------------------------------------------------------------------------------------------------

    def get_group(self, mesh_dim=None):
        """The communication group of this process along an axis; made on first use.

        Raises:
            RuntimeError: when the axis is left out on an N-D mesh, or no process group is initialised.
        """
        if isinstance(mesh_dim, str) and mesh_dim in self.root_mesh._flattened:
            return self.root_mesh._flat(mesh_dim).get_group()
        axis = self._only_axis(mesh_dim, "get_group")
        return current_platform().group(self.ranks_along(axis, self.rank))

    def get_all_groups(self) -> list:
        """The communication groups of this process along all axes."""
        return [self.get_group(axis) for axis in range(self.ndim)]

    def get_comm_group_by_axis(self, dim):
        """The communication group along a named (or numbered) axis of this very mesh."""
        return current_platform().group(self.ranks_along(self.axis(dim), self.rank))

    @staticmethod
    def from_group(group, device_type, mesh=None, mesh_dim_names=None) -> DeviceMesh:
        """A mesh over the ranks of existing groups; a list of groups needs the N-D `mesh` of ranks."""
        groups = list(group) if isinstance(group, (list, tuple)) else [group]
        ranks = mesh if mesh is not None else current_platform().group_ranks(groups[0])
        made = DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
        if isinstance(group, (list, tuple)) and (mesh is None or made.ndim != len(groups)):
            raise MeshError(f"from_group with {len(groups)} groups needs `mesh` with as many axes.")
        for axis, one in enumerate(groups):
            current_platform().adopt_group(made.ranks_along(axis, made.rank), one)
        return made

    def get_global_shape(self, local_shape, tensor_map) -> tuple:
        """Global shape of equal shards: each dim times the sizes of the axes in its (reversed-index) map entry."""
        if tensor_map is None or len(local_shape) != len(tensor_map):
            raise MeshError(f"Local shape {tuple(local_shape)} does not fit the tensor map {tensor_map}.")
        sizes = self.mesh_shape[::-1]
        entries = [entry if isinstance(entry, tuple) else (entry,) for entry in tensor_map]
        return tuple(s * int(np.prod([sizes[i] for i in e if i >= 0])) for s, e in zip(local_shape, entries))

    # -- current mesh -------------------------------------------------------------------------------------------------

    def __enter__(self):
        _mesh_resources.stack.append(self)
        return self

    def __exit__(self, *exc):
        _mesh_resources.stack.pop()


class _MeshResources(threading.local):
    """The thread's stack of meshes entered by `with mesh:`."""

    def __init__(self):
        super().__init__()
        self.stack: list[DeviceMesh] = []

    def get_current_mesh(self) -> DeviceMesh:
        """The innermost mesh entered by `with mesh:`.

        Raises:
            RuntimeError: when there is none.

        Examples:
            >>> with init_device_mesh("cpu", (2,)) as mesh:
            ...     get_current_mesh() is mesh
            True
        """
        if not self.stack:
            raise RuntimeError("No device mesh is active. Enter one: `with mesh:`, or pass device_mesh.")
        return self.stack[-1]


_mesh_resources = _MeshResources()
get_current_mesh = _mesh_resources.get_current_mesh


def _rebuild(device_type, ranks, names, root, root_dims) -> DeviceMesh:
    return DeviceMesh(device_type, ranks, mesh_dim_names=names, _init_backend=False, _root=root, _root_dims=root_dims)


def _check_mesh_shape(mesh_shape) -> tuple:
    if not isinstance(mesh_shape, tuple):
        raise TypeError(f"mesh_shape must be a tuple. Got {type(mesh_shape).__name__}: write ({mesh_shape},).")
    if not mesh_shape or any(isinstance(s, bool) or not isinstance(s, int) or s < 1 for s in mesh_shape):
        raise MeshError(f"mesh_shape must hold positive ints. Got {mesh_shape}.")
    return mesh_shape


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, rank_list=None, init_backend=True) -> DeviceMesh:
    """The mesh of this shape over the block of ranks that holds this process; the same object on repeat.

    Args:
        device_type: "npu", "cpu" or "cuda"; names intent.
        mesh_shape: tuple of axis sizes.
        mesh_dim_names: one unique name per axis, or None.
        rank_list: flat global ranks, last axis fastest; default: the block of consecutive ranks around this one.
        init_backend: start the framework's process group when a launcher provides one.

    Raises:
        MeshError: when sizes, names and ranks do not fit.
        TypeError: when `mesh_shape` is not a tuple, or names are neither tuple nor list.

    Examples:
        >>> init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")).rank_list
        (0, 1, 2, 3)
    """
    size = int(np.prod(_check_mesh_shape(mesh_shape)))
    if mesh_dim_names is not None and not isinstance(mesh_dim_names, (tuple, list)):
        raise TypeError(f"mesh_dim_names must be a tuple or list. Got {type(mesh_dim_names).__name__}.")
    if init_backend:
        current_platform().ensure_process_group(device_type)
    if rank_list is None:
        base = current_platform().rank() // size * size
        rank_list = range(base, base + size)
    ranks = tuple(int(r) for r in rank_list)
    if len(ranks) != size:
        raise MeshError(f"A mesh of shape {mesh_shape} needs {size} ranks. Got {len(ranks)}: {ranks}.")
    names = None if mesh_dim_names is None else tuple(mesh_dim_names)
    key = (current_platform().simulated, device_type, mesh_shape, names, ranks)
    if key not in _INIT_CACHE:
        _INIT_CACHE[key] = DeviceMesh(device_type, np.array(ranks).reshape(mesh_shape), mesh_dim_names=mesh_dim_names,
                                      _init_backend=False)
    mesh = _INIT_CACHE[key]
    current_platform().check_ranks(mesh)
    return mesh

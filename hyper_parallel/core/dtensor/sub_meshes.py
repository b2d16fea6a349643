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
"""Meshes made from a mesh: sub-meshes by name, flattened axes, axes taken apart, sub-meshes joined."""
# pylint: disable=protected-access,no-member  # a mixin of DeviceMesh
from __future__ import annotations

import numpy as np

from hyper_parallel.errors import MeshError


class SubMeshes:
    """The methods of DeviceMesh that derive other meshes; all of them share its root."""

    def _own_rank(self) -> int:
        return self.rank if self.rank in self.root_mesh._coordinates else self.rank_list[0]

    def _derive(self, root_dims: tuple, names) -> SubMeshes:
        root = self.root_mesh
        coordinate = root.coordinate_of(self._own_rank())
        flat = [a for dims in root_dims for a in dims]
        index = tuple(slice(None) if a in flat else coordinate[a] for a in range(root.ndim))
        order = sorted(flat)
        ranks = root._ranks[index].transpose([order.index(a) for a in flat])
        shape = [int(np.prod([root.mesh_shape[a] for a in dims])) for dims in root_dims]
        return type(self)(self.device_type, ranks.reshape(shape), mesh_dim_names=names,
                          _root=root, _root_dims=tuple(root_dims))

    def _dims_of(self, name: str) -> tuple:
        if name in self.mesh_dim_names:
            return self._root_dims[self.mesh_dim_names.index(name)]
        if name in self.root_mesh._flattened:
            return self.root_mesh._flattened[name]
        raise KeyError(f"The mesh has no axis {name!r}; its axes are {self.mesh_dim_names}.")

    def __getitem__(self, names) -> SubMeshes:
        """The sub-mesh of the named axes that holds this process; names keep the order of the mesh."""
        if self.mesh_dim_names is None:
            raise RuntimeError("A mesh without axis names has no sub-meshes by name. Pass mesh_dim_names.")
        if not isinstance(names, (str, tuple)):
            raise TypeError(f"A sub-mesh is asked for by a name or a tuple of names. Got {type(names).__name__}.")
        names = (names,) if isinstance(names, str) else names
        if not names:
            raise MeshError("A sub-mesh needs at least one axis name.")
        if names == self.mesh_dim_names:
            return self
        dims = tuple(self._dims_of(name) for name in names)
        flat = [a for d in dims for a in d]
        if len(set(flat)) != len(flat):
            raise RuntimeError(f"The axes {names} overlap.")
        if [d[0] for d in dims] != sorted(d[0] for d in dims):
            raise MeshError(f"Sub-mesh names must keep the order of the mesh {self.mesh_dim_names}. Got {names}.")
        return self._derive(dims, names)

    def flatten(self, mesh_dim_name: str | None = None) -> SubMeshes:
        """This mesh as one axis, registered at the root under its name (default: names joined by `_`)."""
        if mesh_dim_name is None:
            mesh_dim_name = "_".join(self.axis_name(a) for a in range(self.ndim))
        if self.ndim == 1 and self.mesh_dim_names == (mesh_dim_name,):
            return self
        root = self.root_mesh
        if root.mesh_dim_names is not None and mesh_dim_name in root.mesh_dim_names:
            raise MeshError(f"{mesh_dim_name!r} is already an axis of the mesh {root.mesh_dim_names}.")
        dims = tuple(a for d in self._root_dims for a in d)
        if root._flattened.setdefault(mesh_dim_name, dims) != dims:
            raise MeshError(f"{mesh_dim_name!r} already names another flattened mesh of this root.")
        return root._flat(mesh_dim_name)

    def _flat(self, name: str) -> SubMeshes:
        """The flattened mesh of this name that holds this process."""
        key = (name, self._own_rank())
        if key not in self._flat_meshes:
            self._flat_meshes[key] = self._derive((self._flattened[name],), (name,))
        return self._flat_meshes[key]

    _flatten = flatten

    def _unflatten(self, dim, mesh_sizes, mesh_dim_names, backend_override=None) -> SubMeshes:
        del backend_override  # groups are made on first use, whatever their backend
        axis = self.axis(dim)
        if int(np.prod(mesh_sizes)) != self.mesh_shape[axis]:
            raise MeshError(f"Cannot unflatten an axis of size {self.mesh_shape[axis]} into {tuple(mesh_sizes)}.")
        shape = self.mesh_shape[:axis] + tuple(mesh_sizes) + self.mesh_shape[axis + 1:]
        old = self.mesh_dim_names or tuple(self.axis_name(a) for a in range(self.ndim))
        names = old[:axis] + tuple(mesh_dim_names) + old[axis + 1:]
        return type(self)(self.device_type, self._ranks.reshape(shape), mesh_dim_names=names, _init_backend=False)

    @staticmethod
    def concatenate(meshes) -> SubMeshes:
        """Join sub-meshes of one root, with disjoint axes in root order, into one mesh."""
        meshes = list(meshes)
        names = tuple(name for mesh in meshes for name in (mesh.mesh_dim_names or ()))
        if not meshes or any(mesh.mesh_dim_names is None or mesh.root_mesh != meshes[0].root_mesh for mesh in meshes):
            raise MeshError("concatenate needs named sub-meshes of one root mesh.")
        dims = tuple(d for mesh in meshes for d in mesh._root_dims)
        flat = [a for d in dims for a in d]
        if flat != sorted(set(flat)):
            raise MeshError(f"concatenate needs disjoint axes in root order. Got {names}.")
        return meshes[0]._derive(dims, names)

    def get_flatten_mapping(self) -> dict:
        """The flattened meshes of the root, by name."""
        root = self.root_mesh
        return {name: root._flat(name) for name in root._flattened}

    def add_flatten_mapping(self, name: str, mesh: SubMeshes) -> None:
        """Register a 1-D mesh of the same root as a flattened axis.

        Raises:
            MeshError: when the mesh is of another root or has several axes.
        """
        if mesh.root_mesh != self.root_mesh or mesh.ndim != 1:
            raise MeshError(f"A flattened axis must be a 1-D mesh of the same root. Got {mesh}.")
        root = self.root_mesh
        root._flattened[name] = mesh._root_dims[0]
        root._flat_meshes[name, root._own_rank()] = mesh

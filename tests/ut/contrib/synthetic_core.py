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
"""Text of synthetic checkouts: mesh and layout, with the interface that the public library documents, and the op base.

Written from facts about names, signatures and behaviour alone, as small as the tool's tests allow.
"""

HEADER = """# Copyright {years} The Example Authors
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
# http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
# ============================================================================
"""

# The device layer of a host without the framework.
PLATFORM = '''"""Synthetic device layer."""
raise ModuleNotFoundError("No module named 'mindspore'", name="mindspore")
'''

PACKAGE = '''"""Synthetic package: importing it would start the device layer."""
from {layout} import Layout
from hyper_parallel.platform import get_platform
'''

MESH = '''"""Synthetic meshes."""
{framework}

_DEVICE_MESH_MAP = {{}}


class DeviceMesh:
    """Ranks in a grid, as one rank sees them."""

    def __init__(self, mesh_shape, mesh_dim_names, rank_list):
        self.mesh_shape, self.mesh_dim_names = tuple(mesh_shape), tuple(mesh_dim_names)
        self.rank_list = tuple(rank_list)
        self.rank = {rank}

    def get_coordinate(self):
        """Coordinates of this rank, or None."""
        if self.rank not in self.rank_list:
            return None
        place, found = self.rank_list.index(self.rank), []
        for size in reversed(self.mesh_shape):
            found.append(place % size)
            place //= size
        return tuple(reversed(found))

    def get_local_rank(self, mesh_dim=None):
        """Coordinate along one axis."""
        if self.get_coordinate() is None:
            raise ValueError(f"rank {{self.rank}} is not in the mesh")
        return self.get_coordinate()[self.mesh_dim_names.index(mesh_dim)]


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, rank_list=None, init_backend=True):
    """A mesh, made once."""
    key = (device_type, tuple(mesh_shape), tuple(mesh_dim_names), tuple(rank_list))
    if key not in _DEVICE_MESH_MAP:
        _DEVICE_MESH_MAP[key] = DeviceMesh(mesh_shape, mesh_dim_names, rank_list)
    return _DEVICE_MESH_MAP[key]
'''

LAYOUT = '''"""Synthetic layouts."""
from {package}.device_mesh import init_device_mesh

_OPS = ("sum", "max", "min", "avg", "prod", "all", None)


class Layout:
    """How a tensor lies on a mesh."""

    def __init__(self, mesh_shape, alias_name, rank_list=None, init_backend=True):
        self.mesh = init_device_mesh("npu", mesh_shape, mesh_dim_names=alias_name, rank_list=rank_list,
                                     init_backend=init_backend)
        self.alias_tensor_map = None
        self.partial = [None] * len(self.mesh_shape)

    mesh_shape = property(lambda self: self.mesh.mesh_shape)
    alias_name = property(lambda self: self.mesh.mesh_dim_names)
    rank_list = property(lambda self: self.mesh.rank_list)

    def __call__(self, *entries):
        made = Layout(self.mesh_shape, self.alias_name, self.rank_list)
        used = [name for entry in entries for name in (entry if isinstance(entry, tuple) else (entry,))]
        used = [name for name in used if name != "None"]
        if len(set(used)) != len(used) or not set(used) <= set(self.alias_name):
            raise ValueError(f"axes {{used}} are unknown or used twice")
        made.alias_tensor_map = tuple(entries)
        return made

    def is_dev_axis_apply_shard(self, axis):
        """True when the axis cuts a dimension."""
        return any(axis in (entry if isinstance(entry, tuple) else (entry,)) for entry in self.alias_tensor_map)

    def set_partial_by_dev_axis(self, axis, op):
        """Mark a reduction as pending."""
        if op not in _OPS:
            raise ValueError(f"unknown reduction {{op}}")
        if self.is_dev_axis_apply_shard(axis):
            raise ValueError(f"the partial dim must be replicate, and {{axis}} cuts a dimension")
        self.partial[self.alias_name.index(axis)] = op

    def get_partial_by_dev_id(self, axis):
        """The pending reduction of an axis."""
        return self.partial[self.alias_name.index(axis)]

    def is_partial(self):
        """True when some reduction is pending."""
        return any(self.partial)

    def reset_partial(self):
        """Clear all of them, in place."""
        for i in range(len(self.partial)):
            self.partial[i] = None
'''

BASE = '''"""Synthetic base of distributed operations."""


class DistributedOp:
    """A layout rule, registered under a name."""

    def __init__(self, op_name):
        self.op_name = op_name
{preprocess}
    def infer_layout(self, {params}):
        """Layout of the result, if there is one."""
        return None

    def get_expand_impl(self, func, {expand}):
        """The kernel itself."""
        return None

    def _check_partial_inputs(self, layouts):
        for i, layout in enumerate(layouts):
            if layout is not None and layout.is_partial():
                raise ValueError(f"{{self.op_name}}: input {{i}} is partial")
'''

PREPROCESS = '''
    def preprocess(self, args, kwargs):
        """Local arguments, and what the rule sees of the call."""
        values = [getattr(arg, "layout", arg) for arg in args]
        return tuple(arg.to_local() if hasattr(arg, "layout") else arg for arg in args), kwargs, values
'''

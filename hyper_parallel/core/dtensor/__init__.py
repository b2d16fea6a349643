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
"""DTensor, meshes, layouts, placements. Names load on first use, so that layouts need no framework."""
from __future__ import annotations

import importlib

_MODULES = {
    "dtensor": ("DTensor", "distribute_tensor", "SkipDTensorDispatch"),
    "module": ("distribute_module",),
    "factories": ("ones", "zeros", "empty", "full", "rand", "randn"),
    "layout": ("Layout",),
    "device_mesh": ("DeviceMesh", "init_device_mesh"),
    "placement_types": ("Placement", "Shard", "StridedShard", "RaggedShard", "Replicate", "Partial"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)

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
"""Meshes of tests of tensors, rules and dispatch."""
import pytest

from hyper_parallel import init_device_mesh, simulate
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from tests.common.tensors import CUBE, CUBE_NAMES


@pytest.fixture(name="mesh")
def _mesh():
    """Two simulated ranks on the axis "tp"."""
    with simulate(2):
        yield init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))


@pytest.fixture(name="grid")
def _grid():
    """Four simulated ranks on the axes "dp" and "tp"."""
    with simulate(4):
        yield init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


@pytest.fixture(name="cube")
def _cube():
    """A (2, 3, 2) mesh as rank 7 = (1, 0, 1) of 12 sees it."""
    with simulate(12, rank=7):
        yield DeviceMesh("npu", CUBE, mesh_dim_names=CUBE_NAMES)

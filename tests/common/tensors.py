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
"""DTensors in and out of tests: an array under placements, and the value that the locals of all ranks denote."""
import numpy as np

from hyper_parallel import DTensor, Layout, denote, distribute_tensor
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh

CUBE, CUBE_NAMES = np.arange(12).reshape(2, 3, 2), ("dp", "cp", "tp")


def bare_mesh(shape, names=("dp", "cp", "tp"), ranks=None):
    """A mesh that no job runs on, over ranks 0, 1, ... or the given ones."""
    ranks = np.arange(int(np.prod(shape))) if ranks is None else np.array(ranks)
    names = None if names is None else names[:len(shape)]
    return DeviceMesh("npu", ranks.reshape(shape), mesh_dim_names=names, _init_backend=False)


def template(shape=(2, 3, 4), names=("dp", "cp", "tp")):
    """A layout without dimensions, to be called with them."""
    return Layout.from_device_mesh(bare_mesh(shape, names))


def put(mesh, array, *placements):
    """The array under placements, one per mesh axis."""
    return distribute_tensor(array, mesh, placements)


def value_of(tensor):
    """The whole value of a DTensor of a simulation, pending or not."""
    assert isinstance(tensor, DTensor)
    return denote(tensor.numpy_locals(), tensor.layout)

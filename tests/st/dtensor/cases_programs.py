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
"""The same programs on real processes and on simulated ranks, compared rank by rank; worker side."""
from __future__ import annotations

import numpy as np

from hyper_parallel import init_device_mesh, simulate
from hyper_parallel.platform.platform import current_platform
from tests.common.case import case
from tests.common.programs import PROGRAMS, ROUNDED


def _meshes() -> list:
    world = current_platform().world_size()
    return [((world,), ("tp",))] + ([((2, 2), ("tp", "dp"))] if world == 4 else [])


@case(program=list(PROGRAMS))
def same_on_processes_and_in_simulation(program):
    """Every DTensor of the program has the same labels and, on this rank, the same local value bit for bit."""
    platform = current_platform()
    rank, world, run = platform.rank(), platform.world_size(), PROGRAMS[program]
    for shape, names in _meshes():
        real = run(init_device_mesh("cpu", shape, mesh_dim_names=names))
        real = {name: (t.placements, t.shape, t.numpy_locals()[0]) for name, t in real.items()}
        with simulate(world, rank):
            ideal = run(init_device_mesh("cpu", shape, mesh_dim_names=names))
            ideal = {name: (t.placements, t.shape, t.numpy_locals()[rank]) for name, t in ideal.items()}
        assert real.keys() == ideal.keys()
        for name, (placements, size, value) in real.items():
            assert (placements, size) == ideal[name][:2], name
            want = ideal[name][2]
            assert value.dtype == want.dtype and value.shape == want.shape, name
            if run in ROUNDED:
                assert np.allclose(value, want, rtol=world * np.finfo(np.float32).eps, atol=0), name
            else:
                assert np.array_equal(value, want), (name, value, want)

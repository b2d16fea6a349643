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
"""Cases on real workers of which one dies while the others wait for it."""
from __future__ import annotations

import os

import mindspore

from hyper_parallel.core.dtensor.device_mesh import init_device_mesh
from hyper_parallel.platform.platform import current_platform
from tests.common.case import case


def reduce_over_all() -> list:
    """The sum of rank + 1 over all ranks."""
    platform = current_platform()
    mesh = init_device_mesh("cpu", (platform.world_size(),))
    return platform.all_reduce([mindspore.Tensor([platform.rank() + 1])], mesh, 0, "sum")[0].asnumpy().tolist()


def fall_over() -> None:
    """End this process as a crash in native code would."""
    os.abort()


@case
def everyone_is_there():
    """All ranks reduce."""
    assert reduce_over_all() == [10]


@case
def rank_two_falls_over():
    """Rank 2 dies; the others wait for it in a collective."""
    if current_platform().rank() == 2:
        fall_over()
    reduce_over_all()


@case
def after_the_fall():
    """Never reached."""
    assert reduce_over_all() == [10]

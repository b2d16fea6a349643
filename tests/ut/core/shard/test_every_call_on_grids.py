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
"""Calls on meshes of two axes, where ranks hold parts that are empty along one dimension or two."""
from __future__ import annotations

import pytest

from tests.ut.core.shard import test_every_call, test_every_call_more
from tests.ut.core.shard.every_call import right_grids

CALLS = {**{f"more {name}": (call[0], *call[2:]) for name, call in test_every_call_more.CALLS.items()},
         **test_every_call.CALLS}


@pytest.mark.proof
@pytest.mark.parametrize("mesh", [(2, 3), (5, 3)])
@pytest.mark.parametrize("name", list(CALLS))
def test_a_call_is_right_or_refused_on_two_axes(name, mesh):
    """
    Feature: dispatch.
    Description: six random layouts on 2 x 3 and 5 x 3 ranks, of what the call takes on one axis.
    Expectation: the value and the gradients of the replicas, whatever a rank lacks; something is taken.
    """
    function, *arrays = CALLS[name]
    assert right_grids(function, arrays, mesh, 6, differentiable=name not in test_every_call.TIED) >= 1

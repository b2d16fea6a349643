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
"""Fixtures of the tests of rules and dispatch."""
import pytest

from hyper_parallel.core.shard.ops import parallel_ops_register as register


@pytest.fixture(name="own_registry")
def _own_registry():
    """Operations that a test registers are gone afterwards."""
    register.load_builtin_ops()
    before = dict(register._OPS)
    yield register
    register._OPS.clear()
    for name, op in before.items():
        register.register_distributed_op(name, op)

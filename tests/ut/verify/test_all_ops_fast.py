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
"""Every registered operation through the fast subset of the verifier; `python -m hyper_parallel.verify` runs all."""
from __future__ import annotations

import pytest

from hyper_parallel.core.shard.ops.parallel_ops import RuleOp
from hyper_parallel.core.shard.ops.parallel_ops_register import registered_ops
from hyper_parallel.verify import FAST
from hyper_parallel.verify.registry import load_references
from hyper_parallel.verify.sweep import Sweep

OPS = sorted(name for name, op in registered_ops().items() if isinstance(op, RuleOp))


@pytest.mark.parametrize("name", OPS)
def test_every_row_is_exact(name):
    """
    Feature: layout rules.
    Description: all placements of an operation on three ranks, uneven sizes, sampled pairs on 2 x 2 ranks.
    Expectation: every row exact, forward and backward in both conventions; every pattern could be checked.
    """
    report = Sweep(registered_ops()[name].declaration, load_references()[name], FAST).run()
    assert report.ok, "\n".join([w.message for w in report.wrong] + report.problems)
    assert report.rows or report.refusals


def test_references_name_registered_operations():
    """
    Feature: references.
    Description: the table of references beside the registry.
    Expectation: no reference for an operation that does not exist.
    """
    assert not set(load_references()) - set(registered_ops())

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
"""The row check can fail: wrong rules planted on top of right ones are caught."""
from dataclasses import replace

import pytest

from hyper_parallel.core.shard.rules import Signature
from tests.ut.core.shard.ops.row_harness import Case, sound_rows
from tests.ut.core.shard.ops.row_tables import numbers

X = numbers(5, 4)
_KEPT = ("name", "inputs", "outputs", "reduces", "terms", "monotone", "joint", "movement", "constant", "no_grad",
         "commutes", "conditions")


def _resigned(**changes):
    """The bound call with a signature that says something else."""
    def change(bound):
        old = {field: getattr(bound.signature, field) for field in _KEPT}
        return replace(bound, signature=Signature(**{**old, **changes}))
    return change


FAULTS = {
    "a scalar added on every rank": (Case("AddScalar", input=X, other=3), lambda b: replace(b, localize=None)),
    "a replica added on every rank": (Case("Add", input=X, other=X), _resigned(terms=((0,),), no_grad=frozenset((1,)))),
    "mean over the local extent": (Case("MeanExt", input=numbers(3, 4), dim=0), lambda b: replace(b, kernel=None)),
    "blocks that differ after a reshape": (Case("Reshape", input=numbers(4, 6), shape=(24,)), _resigned(conditions={})),
    "a reshape to the global shape": (Case("Reshape", input=numbers(6, 4), shape=(24,)),
                                      lambda b: replace(b, localize=None)),
    "abs keeps a sum": (Case("Abs", input=X), _resigned(terms=((0,),))),
    "neg keeps a maximum": (Case("Neg", input=X), _resigned(monotone=(1,))),
    "two pending factors": (Case("Mul", input=X, other=X), _resigned(terms=((0,), (1,)))),
    "amax under a minimum": (Case("ReduceMax", input=X, dim=0), _resigned(monotone=(1,))),
    "a sum under a maximum": (Case("SumExt", input=X, dim=0), _resigned(commutes=("max",))),
    "softmax over a cut dim": (Case("Softmax", input=X), _resigned(inputs=(("d0", "d1"),), outputs=(("d0", "d1"),))),
    "a flip of a cut dim": (Case("ReverseV2", input=X, dim=(0,)),
                            _resigned(inputs=(("d0", "d1"),), outputs=(("d0", "d1"),))),
    "a transpose that keeps cuts": (Case("TExt", input=numbers(4, 4)), _resigned(outputs=(("d0", "d1"),))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault):
    """
    Feature: the exact row check.
    Description: the right rule passes; then its binder is wrapped so that the rule says something wrong.
    Expectation: computing the rows fails for the wrong rule.
    """
    case, change = FAULTS[fault]
    assert sound_rows(case)
    right = case.declaration
    case.declaration = replace(right, bind=lambda call: change(right.bind(call)))
    with pytest.raises((AssertionError, ValueError)):
        sound_rows(case)
    case.declaration = right

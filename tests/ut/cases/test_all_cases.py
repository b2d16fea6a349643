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
"""All cases counted: each is right, cleanly refused where it accepts that, or waits for something that is named."""
from __future__ import annotations

import collections
import importlib

import numpy as np
import pytest

from hyper_parallel import DTensor, LayoutError, PartialError, simulate
from tests.ut.cases.harness import CASES, PROGRAMS, REFUSED, RIGHT, Job, Refusal, check, judge, outcome, refused

GROUPS = "ABCDEFGH"
for _group in GROUPS:
    importlib.import_module(f"tests.ut.cases.test_group_{_group.lower()}")

# Refused cases end with a clear error before any collective; why that is the right end.
REFUSED_CASES = {
    "C60": "a pending sum and a pending maximum in one layout: the value would depend on the order of reduction",
    "C74": "a scattered write into a cut dimension: no rank knows the rows of the others",
    "C119": "operands on two meshes", "C120": "a plain tensor next to a distributed one",
    "C122": "placements that fit no tensor", "C144": "a stack of norms on two meshes; over whole values it is right",
}

# What a case needs and this package does not have yet.
WAITING = {
    "C115": "the tensor-parallel styles, whose flags of parameters it reads",
}

# A case is right, and one more spelling of it waits.
WAITING_PARTS = {
    "C12": "the same layer through RowwiseParallel waits for the tensor-parallel styles",
    "C101": "mint.equal reads its answer at once, and over shards it is pending: refused; all(a == b) is right",
    "C114": "the same block through SequenceParallel, ColwiseParallel and RowwiseParallel waits for the styles",
    "C125": "that one rank alone runs into a time limit shows only in real processes",
    "C126": "ranks that hand over different data exist only in real processes, where tests/st/cases has it",
    "C137": "a checkpoint written shard by shard waits for distributed checkpoints",
    "C139": "a checkpoint written shard by shard waits for distributed checkpoints",
    "C140": "the framework's optimizers over distributed parameters wait for the optimizer helpers",
    "C142": "clip_grad_norm_ waits for the optimizer helpers",
    "C143": "clip_grad_norm_ waits for the optimizer helpers",
    "C144": "clip_grad_norm_ and a fused optimizer step wait for the optimizer helpers",
}


def test_every_case_is_right_refused_or_waiting():
    """
    Feature: public cases.
    Description: the outcome of every case, and the tables of refused and waiting ones.
    Expectation: 100 cases, each in exactly one place, refused only where the case accepts an error.
    """
    assert len(CASES) == 100
    assert not set(PROGRAMS) & set(WAITING), "a case with a program does not wait"
    assert set(PROGRAMS) | set(WAITING) == set(CASES), f"dropped: {sorted(set(CASES) - set(PROGRAMS) - set(WAITING))}"
    ends = {case_id: outcome(case_id) for case_id in PROGRAMS}
    assert {case_id for case_id, end in ends.items() if end == REFUSED} == set(REFUSED_CASES)
    tally = collections.Counter(ends.values())
    assert tally[RIGHT] + tally[REFUSED] + len(WAITING) == 100
    assert set(WAITING_PARTS) <= set(PROGRAMS) and all(len(why) > 20 for why in {**WAITING, **WAITING_PARTS}.values())


def _wrong_values() -> list:
    return [(case_id, name) for case_id, case in CASES.items() for name in case.wrong if name in case.expected]


@pytest.mark.parametrize(("case_id", "name"), _wrong_values())
def test_wrong_value_of_a_case_is_told_from_the_right_one(case_id, name):
    """
    Feature: public cases.
    Description: hand the comparison the value that a faulty system gives.
    Expectation: it is rejected, so a pass is not luck of the data.
    """
    case = CASES[case_id]
    with np.errstate(all="ignore"), pytest.raises(AssertionError):
        check(case.value(case.wrong[name]), case.value(case.expected[name]), name)


def _addends(job: Job):
    return job.parts([[1.0, 0.0], [4.0, 6.0]], "P(sum)")


FAULTY_RESULTS = {
    "right": lambda job: {"y": _addends(job)},
    "wrong value": lambda job: {"y": _addends(job) + 1.0},
    "replicas that differ": lambda job: {"y": job.parts([[5.0, 6.0], [5.0, 7.0]], "R")},
    "wrong label": lambda job: {"y": DTensor.from_local(_addends(job).to_local(partial_ok=True), job.mesh,
                                                        job.whole([0.0], "R").placements)},
    "wrong shape": lambda job: {"y": job.whole([[5.0, 6.0]], "R")},
    "wrong kind of element": lambda job: {"y": job.whole([5, 6], "R")},
    "missing": lambda job: {},
    "unknown name": lambda job: {"y": _addends(job), "z": _addends(job)},
    "refusal that is not accepted": lambda job: {"y": Refusal(LayoutError("no"))},
    "wrong in one of two ways": lambda job: {"y@one": _addends(job), "y@two": _addends(job) * 2.0},
}


@pytest.mark.parametrize("fault", FAULTY_RESULTS)
def test_judgement_of_a_result_can_fail(fault):
    """
    Feature: public cases.
    Description: judge a right result, and results that are wrong in one respect each.
    Expectation: only the right one passes.
    """
    case = type(CASES["C01"])("C00", "A", "value", "none", {"shape": [2], "names": ["tp"]},
                              expected={"y": "np.array([5., 6.])"})
    with simulate(2):
        results = FAULTY_RESULTS[fault](Job(case))
        if fault == "right":
            assert judge(case, results) == RIGHT
            return
        with pytest.raises((AssertionError, LayoutError)):
            judge(case, results)


def test_refusal_must_be_clear_and_come_before_any_collective():
    """
    Feature: public cases.
    Description: a call that is refused, one that is not, one with another message, one that communicates first.
    Expectation: only the first is taken for a clean refusal.
    """
    with simulate(2):
        x = _addends(Job(CASES["C01"]))
        assert isinstance(refused(lambda: x * x, error=PartialError, says="reduce_partial()").error, PartialError)
        for call, says in ((lambda: x + x, ""), (lambda: x * x, "some other text"),
                           (lambda: x.reduce_partial() * (x * x), "")):
            with pytest.raises((AssertionError, pytest.fail.Exception)):
                refused(call, error=PartialError, says=says)

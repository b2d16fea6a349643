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
"""The harness of the multi-process tests, without processes: ranks are threads, the job's folder is real."""
from __future__ import annotations

import sys
import threading
import types

import pytest

from hyper_parallel.platform.msrun import Job
from tests.common import case as case_module
from tests.common.board import Board, in_step, run_all
from tests.common.case import case, cases_of
from tests.common.mark_utils import arg_mark
from tests.common.report import JobReport

MODULE = "cases_of_a_harness_test"


@pytest.fixture
def module(monkeypatch):
    """A module to register cases in; its name goes into the function given."""
    monkeypatch.setitem(sys.modules, MODULE, types.ModuleType(MODULE))
    monkeypatch.setitem(case_module._REGISTRY, MODULE, {})

    def add(function, **choices):
        function.__module__ = MODULE
        return case(function, **choices) if not choices else case(**choices)(function)

    return add


def report_of(folder, names, **job):
    """The report of a job of two whose launcher says this."""
    report = JobReport((MODULE,), Board(folder, 2), Job("msrun", folder, **job), 0.0)
    report.__dict__["_names"] = names
    return report


def play(tmp_path, functions, workers=2):
    """Run one function per case on every rank, a rank being a thread; report what the launcher would see."""
    board = Board(tmp_path, workers)
    local = threading.local()

    def one(rank):
        local.rank = rank
        cases = [types.SimpleNamespace(name=f.__name__, run=lambda f=f: f(local.rank)) for f in functions]
        run_all(cases, rank, board)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return report_of(tmp_path, [f.__name__ for f in functions])


def passes(rank):
    """A case that passes."""
    assert rank >= 0


def rank_one_is_wrong(rank):
    """A case that fails an assertion on rank 1."""
    assert rank != 1, "the sum is off"


def rank_one_raises(rank):
    """A case in which rank 1 leaves before the others are done."""
    if rank == 1:
        raise RuntimeError("lost the group")


def everyone_refuses(rank):
    """A case that fails alike everywhere."""
    raise ValueError("refused")


def test_passing_cases_pass_and_a_failing_one_shows_its_rank(tmp_path):
    """
    Feature: the report of a job.
    Description: three cases of which the middle one fails an assertion on rank 1 of 2.
    Expectation: the others pass; its message holds rank 1's traceback and says that rank 0 passed.
    """
    report = play(tmp_path, [passes, rank_one_is_wrong, everyone_refuses])
    report.check("passes")
    with pytest.raises(AssertionError) as caught:
        report.check("rank_one_is_wrong")
    message = str(caught.value)
    assert "failed on ranks [1] of 2" in message and "rank 1, the first to fail" in message
    assert 'in rank_one_is_wrong\n    assert rank != 1, "the sum is off"' in message and "rank 0: passed" in message
    with pytest.raises(AssertionError, match=r"failed on ranks \[0, 1\]"):
        report.check("everyone_refuses")
    report.check_end()


def test_job_stops_where_ranks_part(tmp_path):
    """
    Feature: the report of a job.
    Description: rank 1 raises an error that rank 0 does not; a case follows.
    Expectation: the following case was not run and says why; the end is an error.
    """
    report = play(tmp_path, [passes, rank_one_raises, everyone_refuses])
    with pytest.raises(AssertionError, match="RuntimeError: lost the group"):
        report.check("rank_one_raises")
    with pytest.raises(AssertionError, match="everyone_refuses was not run. The ranks parted in case rank_one_raises"):
        report.check("everyone_refuses")
    with pytest.raises(AssertionError, match="parted in case rank_one_raises"):
        report.check_end()


@pytest.mark.parametrize("records, expected", [
    ([None, None], True),
    ([None, ("AssertionError", "a:1")], True),
    ([("AssertionError", "a:1"), ("AssertionError", "a:2")], True),
    ([("ValueError", "a:1"), ("ValueError", "a:1")], True),
    ([("ValueError", "a:1"), ("ValueError", "a:2")], False),
    ([("ValueError", "a:1"), ("RuntimeError", "a:1")], False),
    ([("ValueError", "a:1"), None], False),
    ([("AssertionError", "a:1"), ("CommunicationError", "b:9")], False),
])
def test_ranks_are_in_step_only_when_no_message_can_be_left(records, expected):
    """
    Feature: going on after a failed case.
    Description: pairs of results: passed, failed assertions, equal and unequal errors.
    Expectation: in step for passes and assertions and for the same error at the same line everywhere.
    """
    made = [{"ok": True} if r is None else {"ok": False, "kind": r[0], "where": r[1]} for r in records]
    assert in_step(made) is expected


def test_a_rank_that_leaves_without_a_report_ends_the_wait(tmp_path):
    """
    Feature: meeting after a case.
    Description: rank 1 of two reports; rank 0 is gone, before or after its report.
    Expectation: ConnectionError naming rank 0 when it left without one; its report otherwise.
    """
    board = Board(tmp_path, 2)
    board.post("case0_rank1", {"ok": True})
    with pytest.raises(ConnectionError, match=r"Ranks \[0\] left without a report about case 0; \[1\] reported"):
        board.meet(0, gone=lambda rank: rank == 0)

    def leaves_at_last(rank):
        board.post(f"case0_rank{rank}", {"ok": False})
        return True

    assert board.meet(0, gone=leaves_at_last) == {0: {"ok": False}, 1: {"ok": True}}


@pytest.mark.parametrize("job, text", [
    ({"returncode": 1, "reason": "worker 1 ended with 3.", "failures": [(1, "boom")]},
     "passes did not finish. worker 1 ended with 3.\n--- worker_1.log ---\nTraceback: boom$"),
    ({"returncode": 1, "reason": "The job was ended at its time limit."},
     "passes did not finish. The job was ended at its time limit.\n.*worker_0.log.*Traceback: boom"),
    ({"returncode": 9, "seconds": 3.0}, "passes did not finish. msrun ended with code 9 after 3 s."),
])
def test_a_case_without_results_shows_reason_and_logs(tmp_path, job, text):
    """
    Feature: the report of a job.
    Description: a worker died at start; the limit was reached; msrun itself failed.
    Expectation: the reason, and the tail of the logs that explain it, without the framework's noise.
    """
    (tmp_path / "worker_1.log").write_text("x Event base dispatch success!\nTraceback: boom\n", encoding="utf-8")
    report = report_of(tmp_path, ["passes"], **job)
    with pytest.raises(AssertionError, match=f"(?s){text}") as caught:
        report.check("passes")
    assert "Event base" not in str(caught.value)
    with pytest.raises(AssertionError):
        report.check_end()


def test_a_worker_that_died_later_names_its_case(tmp_path):
    """
    Feature: the report of a job.
    Description: rank 1 died in case "second" of three; rank 0 finished.
    Expectation: the third case was not run, with the dead rank and its case.
    """
    report = report_of(tmp_path, ["first", "second", "third"], returncode=1, reason="worker 1 ended with 3.",
                       failures=[(0, "lost"), (1, "boom")])
    report.board.post("done_rank0", True)
    report.board.post("running_rank1", "second")
    assert report.dead == 1
    with pytest.raises(AssertionError, match="third was not run. worker 1 ended with 3. Worker 1 was in case second"):
        report.check("third")


def test_cases_are_registered_by_arguments_and_job_size(module):
    """
    Feature: registry of cases.
    Description: a plain case, one with two arguments, one for four workers only.
    Expectation: one case per combination, in order; the last for its job size only; each runs with its arguments.
    """
    seen = []
    module(lambda: seen.append("plain"))
    module(lambda op, dtype: seen.append((op, dtype)), op=["sum", "max"], dtype=["f4"])

    def big():
        seen.append("big")

    module(big, workers=(4,))
    assert list(cases_of([MODULE], 2)) == ["<lambda>", "<lambda>[sum-f4]", "<lambda>[max-f4]"]
    for one in cases_of([MODULE], 4).values():
        one.run()
    assert seen == ["plain", ("sum", "f4"), ("max", "f4"), "big"]


def test_modules_without_cases_and_doubled_names_are_refused(module):
    """
    Feature: registry of cases.
    Description: no case fits the job; two cases of one name.
    Expectation: ValueError, so that no test can pass by having nothing to run.
    """
    with pytest.raises(ValueError, match="no case for 2 workers"):
        cases_of([MODULE], 2)
    module(passes)
    with pytest.raises(ValueError, match="two cases 'passes'"):
        module(passes)


@pytest.mark.parametrize("arguments, text", [
    ((["tpu"], "level0", "onecard", "essential"), "Unknown mark 'tpu'"),
    ((["cpu_linux"], "level9", "onecard", "essential"), "Unknown mark 'level9'"),
    ((["cpu_linux"], "level0", "twocards", "essential"), "Unknown mark 'twocards'"),
    ((["cpu_linux"], "level0", "onecard", "vital"), "Unknown mark 'vital'"),
    (([], "level0", "onecard", "essential"), "at least one"),
])
def test_unknown_marks_are_refused(arguments, text):
    """
    Feature: marks of tests.
    Description: an unknown platform, level, card and weight; no platform.
    Expectation: ValueError naming it.
    """
    with pytest.raises(ValueError, match=text):
        arg_mark(*arguments)


def test_marks_are_put_on_the_test():
    """
    Feature: marks of tests.
    Description: two platforms, a level, cards and weight.
    Expectation: exactly these marks.
    """
    @arg_mark(["cpu_linux", "platform_ascend910b"], "level1", "allcards", "essential")
    def marked():
        """A test."""

    names = {mark.name for mark in marked.pytestmark}
    assert names == {"cpu_linux", "platform_ascend910b", "level1", "allcards", "essential"}

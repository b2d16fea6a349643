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
"""A worker that dies ends its job of four within 30 s, and its traceback is shown."""
from __future__ import annotations

import psutil
import pytest

from tests.common.mark_utils import arg_mark
from tests.common.msrun import job_fixture

MODULES = ("tests.st.platform.cases_dying_worker",)
job = job_fixture(MODULES, workers=4)


@arg_mark(plat_marks=["cpu_linux", "platform_ascend910b"], level_mark="level0", card_mark="allcards",
          essential_mark="essential")
def test_job_with_dead_worker_ends_within_thirty_seconds(job):
    """
    Feature: a worker that dies.
    Description: rank 2 of four aborts while the others wait for it in a collective.
    Expectation: the job is over, with every process of it gone, within 30 s of the death.
    """
    died = (job.board.folder / "running_rank2.json").stat().st_mtime
    assert job.dead == 2
    assert job.ended - died < 30, job.ended - died
    assert not [rank for rank in range(4) if psutil.pid_exists(job.board.read(f"pid_rank{rank}"))
                and psutil.Process(job.board.read(f"pid_rank{rank}")).status() != psutil.STATUS_ZOMBIE]


@arg_mark(plat_marks=["cpu_linux", "platform_ascend910b"], level_mark="level0", card_mark="allcards",
          essential_mark="essential")
def test_dead_worker_shows_its_traceback(job):
    """
    Feature: a worker that dies.
    Description: ask for the result of the case in which rank 2 aborted.
    Expectation: the message names the rank, the signal, the function and the file where it died.
    """
    with pytest.raises(AssertionError) as caught:
        job.check("rank_two_falls_over")
    for text in ("rank_two_falls_over did not finish", "worker 2 was ended by signal 6", "worker_2.log",
                 "in fall_over", "cases_dying_worker.py"):
        assert text in str(caught.value)


@arg_mark(plat_marks=["cpu_linux", "platform_ascend910b"], level_mark="level0", card_mark="allcards",
          essential_mark="essential")
def test_cases_before_a_death_count_and_cases_after_it_say_why_not(job):
    """
    Feature: a worker that dies.
    Description: ask for the results of a case before the death, of one after it, and of the job's end.
    Expectation: the first passed, the second names the dead worker and its case, the end is an error.
    """
    job.check("everyone_is_there")
    with pytest.raises(AssertionError, match="after_the_fall was not run.*Worker 2 was in case rank_two_falls_over"):
        job.check("after_the_fall")
    with pytest.raises(AssertionError, match="worker 2 was ended by signal 6"):
        job.check_end()

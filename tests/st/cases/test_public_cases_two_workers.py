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
"""Public cases on two real processes: a choice of the programs that run on simulated ranks."""
# pylint: disable=redefined-outer-name  # a fixture
from __future__ import annotations

from tests.common.mark_utils import arg_mark
from tests.common.msrun import each_case, job_fixture

MODULES = ("tests.st.cases.cases_public",)
job = job_fixture(MODULES, workers=2)


@arg_mark(plat_marks=["cpu_linux", "platform_ascend910b"], level_mark="level0", card_mark="allcards",
          essential_mark="essential")
@each_case(MODULES, workers=2)
def test_public_case_on_two_workers(job, case):
    """
    Feature: public cases on real processes.
    Description: run the program of each case on two workers, cold and warm.
    Expectation: every rank holds the numpy value on the global data.
    """
    job.check(case)


@arg_mark(plat_marks=["cpu_linux", "platform_ascend910b"], level_mark="level0", card_mark="allcards",
          essential_mark="essential")
def test_public_cases_job_of_two_workers_ends_in_order(job):
    """
    Feature: public cases on real processes.
    Description: look at how the job of two workers ended.
    Expectation: every process left with code 0.
    """
    job.check_end()

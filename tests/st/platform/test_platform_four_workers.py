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
"""Groups and collectives on four real workers: one job, every case its own result."""
from tests.common.mark_utils import arg_mark
from tests.common.msrun import each_case, job_fixture

MODULES = ("tests.st.platform.cases_groups", "tests.st.platform.cases_collectives")
job = job_fixture(MODULES, workers=4)


@arg_mark(plat_marks=["cpu_linux", "platform_ascend910b"], level_mark="level0", card_mark="allcards",
          essential_mark="essential")
@each_case(MODULES, workers=4)
def test_platform_on_four_workers(job, case):
    """
    Feature: the MindSpore platform's groups and collectives.
    Description: run each case on four workers; each worker compares with numpy on its own.
    Expectation: every rank passes.
    """
    job.check(case)


@arg_mark(plat_marks=["cpu_linux", "platform_ascend910b"], level_mark="level0", card_mark="allcards",
          essential_mark="essential")
def test_platform_job_of_four_workers_ends_in_order(job):
    """
    Feature: the MindSpore platform's groups and collectives.
    Description: look at how the job of four workers ended.
    Expectation: every process left with code 0.
    """
    job.check_end()

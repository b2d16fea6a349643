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
"""A pytest plugin for system tests: show msrun's commands instead of running them, or leave out jobs too large.

HYPER_PARALLEL_ST_DRY_RUN=1 prints each command and skips its tests; HYPER_PARALLEL_ST_CARDS=N skips jobs of more than N
workers (default: the cards of this host). Either way a test is reported as skipped with the reason, never as passed.
"""
from __future__ import annotations

import functools
import os
import shlex

import pytest

from hyper_parallel.platform.host import ascend_cards
from tests.common import msrun

CARDS, DRY_RUN = "HYPER_PARALLEL_ST_CARDS", "HYPER_PARALLEL_ST_DRY_RUN"


def pytest_configure() -> None:
    """Put the check in front of the launcher of every job."""
    msrun.run_job = checked(msrun.run_job)


def checked(run_job):
    """The launcher, asked only for jobs that are to run."""
    @functools.wraps(run_job)
    def run(modules, workers, folder, **options):
        dry_run = bool(os.environ.get(DRY_RUN))
        cards = int(os.environ.get(CARDS) or (workers if dry_run else ascend_cards()))
        if workers > cards:
            pytest.skip(f"needs {workers} cards, and {cards} are to be used")
        if dry_run:
            device = options.get("device") or os.environ.get(msrun.DEVICE, "cpu")
            # pylint: disable-next=protected-access
            print(shlex.join(msrun._command(modules, workers, folder, device, "PORT")))
            pytest.skip("dry run: nothing was run")
        return run_job(modules, workers, folder, **options)
    return run

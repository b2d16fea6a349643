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

from hyper_parallel.platform import host, msrun

# Scripts of the jobs that were started.
STARTED: list[str] = []
CARDS, DRY_RUN = "HYPER_PARALLEL_ST_CARDS", "HYPER_PARALLEL_ST_DRY_RUN"


def pytest_load_initial_conftests() -> None:
    """Put the check in front of the launcher before any test module or conftest has imported it."""
    msrun.run_workers = checked(msrun.run_workers)


def pytest_sessionfinish(session) -> None:
    """A run in which no job was started must not end as if all was well."""
    if not STARTED and not os.environ.get(DRY_RUN) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def checked(run_workers):
    """The launcher, asked only for jobs that are to run."""
    @functools.wraps(run_workers)
    def run(script, arguments=(), *, ranks, **options):
        dry_run = bool(os.environ.get(DRY_RUN))
        cards = int(os.environ.get(CARDS) or (ranks if dry_run else host.ascend_cards()))
        shown = _command(script, arguments, ranks, options) if dry_run else ""
        if ranks > cards:
            if dry_run:
                print(f"\nleft out, as {cards} cards are to be used: {shown}")
            pytest.skip(f"needs {ranks} cards, and {cards} are to be used")
        if dry_run:
            print(f"\n{shown}")
            pytest.skip("dry run: nothing was run")
        STARTED.append(str(script))
        return run_workers(script, arguments, ranks=ranks, **options)
    return run


def _command(script, arguments, ranks: int, options: dict) -> str:
    """What would be run: settings, launcher, script and its arguments."""
    settings = [f"{name}={value}" for name, value in (options.get("env") or {}).items()]
    folder = options.get("log_dir") or "LOG_DIR"
    return shlex.join([*(["env", *settings] if settings else []), "msrun",
                       *msrun.command_line(script, arguments, ranks, "PORT", folder)])

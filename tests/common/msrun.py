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
"""One job per test file: real workers run its cases once, and every test reads what they reported."""
from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hyper_parallel.platform.msrun import run_workers
from tests.common.board import Board
from tests.common.case import cases_of
from tests.common.report import JobReport
from tests.common.worker import ROOT

DEVICE = "HYPER_PARALLEL_ST_DEVICE"
# Workers set GLOG_v=4 for themselves; msrun says how a worker ended in a line that 4 would hide.
_SETTINGS = {"MS_NODE_TIMEOUT": "5", "MS_CPU_COMM_OP_TIMEOUT": "5", "GLOG_v": "3", "PYTHONPATH": str(ROOT)}


def run_job(modules, workers: int, folder, *, limit: float = 240.0, device: str | None = None) -> JobReport:
    """Run every case of some modules that fits the number of workers, as one msrun job.

    Args:
        modules: dotted names of the modules with the cases; the first may have a function `start`.
        workers: number of worker processes.
        folder: the job's own folder, for logs and results; must exist.
        limit: seconds after which the job is ended.
        device: "cpu" or "npu"; default: the variable HYPER_PARALLEL_ST_DEVICE, else "cpu".
    """
    device = device or os.environ.get(DEVICE, "cpu")
    job = run_workers(Path(ROOT, "tests", "common", "worker.py"), [",".join(modules), folder, workers, device],
                      ranks=workers, time_limit=limit, log_dir=folder, env=_SETTINGS)
    return JobReport(tuple(modules), Board(folder, workers), job, time.time())


def job_fixture(modules, workers: int, **options):
    """A module-scoped fixture that runs the job once and hands its report to every test."""
    @pytest.fixture(scope="module")
    def job(tmp_path_factory):
        folder = tmp_path_factory.mktemp(f"{modules[0].rpartition('.')[2]}_{workers}")
        return run_job(modules, workers, folder, **options)

    return job


def each_case(modules, workers: int):
    """Parametrise a test over the cases of some modules that fit the number of workers."""
    os.environ.setdefault("GLOG_v", "4")
    return pytest.mark.parametrize("case", list(cases_of(modules, workers)))

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
"""One msrun job: started, watched, and ended as soon as a worker dies."""
from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.common.board import Board
from tests.common.case import cases_of
from tests.common.port import reserved_port
from tests.common.report import JobReport
from tests.common.worker import ROOT

DEVICE = "HYPER_PARALLEL_ST_DEVICE"
_LIMITS = {"MS_NODE_TIMEOUT": "5", "MS_CPU_COMM_OP_TIMEOUT": "5"}
# msrun says how a worker ended in a line that GLOG_v=4 would hide; workers set 4 for themselves.
_MSRUN_LOG_LEVEL = "3"
# Logs are read from files; without this msrun keeps a `tail -f` process per worker. No worker has this rank.
_TAIL_NONE = "--tail_worker_log=9999"


def _command(modules, workers: int, folder: Path, device: str, port: int) -> list[str]:
    return [sys.executable, "-m", "mindspore.parallel.cluster.run", f"--worker_num={workers}",
            f"--local_worker_num={workers}", f"--master_port={port}", f"--log_dir={folder}", "--join=True",
            _TAIL_NONE, "--cluster_time_out=60", str(ROOT / "tests" / "common" / "worker.py"),
            ",".join(modules), str(folder), str(workers), device]


def _environment() -> dict:
    # msrun starts workers as `python`, whatever interpreter it runs under itself.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, **_LIMITS, "PATH": path, "PYTHONPATH": str(ROOT), "GLOG_v": _MSRUN_LOG_LEVEL}


class _Watch:
    """The processes of one job, and why it ended."""

    def __init__(self, process: subprocess.Popen, board: Board):
        self.process, self.board = process, board
        self.family: set = set()
        self.dead: int | None = None
        self.reason = ""

    def look(self) -> bool:
        """Note what runs; True when the job has ended or must be ended."""
        if self.process.poll() is not None:
            return True
        try:
            self.family.update(psutil.Process(self.process.pid).children(recursive=True))
        except psutil.NoSuchProcess:
            return False
        self.dead = next((rank for rank in range(self.board.workers) if self._died(rank)), None)
        return self.dead is not None

    def _died(self, rank: int) -> bool:
        pid = self.board.read(f"pid_rank{rank}")
        return pid is not None and not _alive(pid) and self.board.read(f"done_rank{rank}") is None

    def end(self) -> None:
        """End every process of the job that still runs; only processes that the job itself started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        left = [one for one in self.family if one.is_running() and _alive(one.pid)]
        for one in left:
            one.kill()
        deadline = time.time() + 10
        while any(_alive(one.pid) for one in left) and time.time() < deadline:
            time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _exit_code(output: Path, pid) -> int | None:
    """The exit code of a worker as msrun reported it; msrun looks once a second."""
    for _ in range(15):
        found = re.search(rf"Worker process {pid} exit .*Error code: (-?\d+)", output.read_text(encoding="utf-8"))
        if found:
            return int(found.group(1))
        time.sleep(0.1)
    return None


def _tell_end(code: int | None) -> str:
    if code is None:
        return "exited without finishing its cases"
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"


def run_job(modules, workers: int, folder, *, limit: float = 240.0, device: str | None = None) -> JobReport:
    """Run every case of some modules that fits the number of workers, as one msrun job.

    Args:
        modules: dotted names of the modules with the cases; the first may have a function `start`.
        workers: number of worker processes.
        folder: the job's own folder, for logs and results; must exist.
        limit: seconds after which the job is ended.
        device: "cpu" or "npu"; default: the variable HYPER_PARALLEL_ST_DEVICE, else "cpu".
    """
    folder, device = Path(folder), device or os.environ.get(DEVICE, "cpu")
    board, output, started = Board(folder, workers), folder / "msrun.log", time.time()
    with reserved_port() as port, open(output, "w", encoding="utf-8") as log:
        # A session of its own: msrun and its scheduler can be ended without touching anything else.
        with subprocess.Popen(_command(modules, workers, folder, device, port), stdout=log, stderr=subprocess.STDOUT,
                              env=_environment(), cwd=folder, start_new_session=True) as process:
            watch = _Watch(process, board)
            try:
                _wait(watch, started + limit, output)
            finally:
                watch.end()
    ended = time.time()
    reason = watch.reason or _over(ended - started, limit)
    return JobReport(tuple(modules), board, process.returncode, watch.dead, reason, ended - started, ended)


def _over(seconds: float, limit: float) -> str:
    return f"The job reached its limit of {limit:.0f} s." if seconds >= limit else ""


def _wait(watch: _Watch, deadline: float, output: Path) -> None:
    while not watch.look() and time.time() < deadline:
        time.sleep(0.2)
    if watch.dead is not None:
        code = _exit_code(output, watch.board.read(f"pid_rank{watch.dead}"))
        watch.reason = f"Worker {watch.dead} {_tell_end(code)}."


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

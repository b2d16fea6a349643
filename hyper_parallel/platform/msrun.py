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
"""Start a script on N workers under msrun, with a time limit, and say which worker failed and why.

msrun itself notices a dead worker at once but then waits for its scheduler for half a minute, and leaves the
traceback in a log file. Here the job is ended when the first worker has failed, and the traceback is handed back.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

from hyper_parallel.platform.ports import HOST, PortBusyError, held_port

TRIES = 3
GRACE = 3.0
MARK = "HYPER_PARALLEL_JOB"
# A peer of a worker that has left waits this long (seconds) in a collective, then raises.
DEFAULTS = {"GLOG_v": "3", "MS_NODE_TIMEOUT": "10", "MS_CPU_COMM_OP_TIMEOUT": "30", "PYTHONUNBUFFERED": "1"}
# msrun, told to end by SIGINT when this process is killed (prctl's option 1), which makes it end its workers.
_STARTER = ("import ctypes, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGINT); "
            "from mindspore.parallel.cluster.run import main; sys.exit(main())")
_FAILED = re.compile(r"Worker process (\d+) exit with exception\. Error code: (-?\d+)")
_PORT_TAKEN = re.compile(r"Failed to (init the tcp server|create the TCP server)", re.IGNORECASE)
_NOISE = re.compile(r"^\[(INFO|WARNING)\] ")


@dataclass
class Job:
    """What became of one msrun job.

    Attributes:
        command: the msrun command line, as one would type it.
        log_dir: folder with one log per worker.
        returncode: msrun's; 0 only when every worker ended with 0.
        seconds: wall time.
        reason: what went wrong, in a sentence; empty when nothing did.
        failures: (rank, end of its log) of failed workers, the first to fail first.
    """

    command: str
    log_dir: pathlib.Path
    returncode: int = 0
    seconds: float = 0.0
    reason: str = ""
    failures: list = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True when every worker ended well within the time limit."""
        return self.returncode == 0 and not self.reason

    def log(self, rank: int) -> str:
        """What one worker printed."""
        path = self.log_dir / f"worker_{rank}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def report(self) -> str:
        """The failure as text: reason, the failed workers' tracebacks, where the logs are."""
        parts = [self.reason or "All workers ended well."]
        parts += [f"--- worker {rank} ---\n{tail}" for rank, tail in self.failures]
        return "\n".join([*parts, f"command: {self.command}", f"logs: {self.log_dir}"])


def command_line(script, arguments, ranks: int, port: int, log_dir) -> list[str]:
    """The arguments of msrun for one job on this host."""
    # tail_worker_log names no worker: the logs are read from files, not copied to the console.
    return [f"--worker_num={ranks}", f"--local_worker_num={ranks}", f"--master_addr={HOST}", f"--master_port={port}",
            "--join=True", f"--log_dir={log_dir}", f"--tail_worker_log={ranks}", str(script), *map(str, arguments)]


def run_workers(script, arguments=(), *, ranks: int, time_limit: float = 300.0, port: int | None = None,
                log_dir=None, env: dict | None = None) -> Job:
    """Run a Python script on so many workers of this host and wait for its end.

    Args:
        script: path of the script, or "pytest" with a test file as first argument.
        arguments: the script's arguments.
        ranks: number of workers.
        time_limit: seconds after which the job is ended.
        port: the scheduler's port; None chooses a free one and tries another if it is taken in between.
        log_dir: folder for the logs; None makes a temporary one.
        env: environment variables for the workers, over this process's own.

    Returns:
        The job; `job.ok` says whether every worker ended well, `job.report()` why not.

    Raises:
        PortBusyError: when the port named is taken.
        ValueError: when `ranks` is below 1.
    """
    if ranks < 1:
        raise ValueError(f"A job needs at least one worker. Got ranks={ranks}.")
    script = script if str(script) == "pytest" else pathlib.Path(script).resolve()
    folder = pathlib.Path(log_dir or tempfile.mkdtemp(prefix="hyper_parallel-")).resolve()
    for attempt in range(TRIES):
        with held_port(port) as chosen:
            job = _run(command_line(script, arguments, ranks, chosen, folder), folder, time_limit, env)
        if job.reason != _taken(chosen):
            return job
        if port or attempt == TRIES - 1:
            raise PortBusyError(job.reason)
    raise AssertionError("unreachable: the loop returns or raises")


def _taken(port) -> str:
    return f"Port {port} on {HOST} is in use by another process. Name another one, or none: a free port is then chosen."


def _run(arguments: list[str], folder: pathlib.Path, time_limit: float, env: dict | None) -> Job:
    folder.mkdir(parents=True, exist_ok=True)
    job = Job(" ".join(["msrun", *arguments]), folder)
    start = time.monotonic()
    with open(folder / "msrun.log", "w", encoding="utf-8") as log, _started(arguments, folder, log, env) as process:
        ranks = _watch(process, job, start + time_limit)
    job.returncode, job.seconds = process.returncode, time.monotonic() - start
    port = next(a.split("=")[1] for a in arguments if a.startswith("--master_port="))
    _judge(job, ranks, time_limit, port)
    return job


@contextlib.contextmanager
def _started(arguments, folder, log, env):
    """msrun as a child in its own session; whatever is left of it is ended on the way out."""
    process = subprocess.Popen([sys.executable, "-c", _STARTER, *arguments],
                               stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=folder,
                               env=_environment(folder, env), start_new_session=True)
    try:
        yield process
    finally:
        _end(process, folder)


def _environment(folder: pathlib.Path, env: dict | None) -> dict:
    """This process's environment with the defaults, and with `python` meaning this interpreter."""
    merged = {**DEFAULTS, **os.environ, **(env or {}), MARK: str(folder)}
    # msrun starts whatever "python" is first in PATH.
    shim = folder / "bin" / "python"
    shim.parent.mkdir(exist_ok=True)
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    paths = [os.path.abspath(path) for path in merged.get("PYTHONPATH", "").split(os.pathsep) if path]
    merged["PYTHONPATH"] = os.pathsep.join(paths)
    merged["PATH"] = f"{shim.parent}{os.pathsep}{merged.get('PATH', '')}"
    return merged


def _watch(process, job: Job, deadline: float) -> dict[int, int]:
    """Wait for msrun's end, a failed worker, a taken port or the deadline; gives rank by worker process id."""
    ranks: dict[int, int] = {}
    while process.poll() is None and time.monotonic() < deadline:
        ranks.update(_worker_ranks(job.log_dir))
        if _FAILED.search(_text(job.log_dir / "msrun.log")):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
            break
        if _PORT_TAKEN.search(_text(job.log_dir / "scheduler.log")):
            break
        time.sleep(0.3)
    return ranks


def _end(process, folder: pathlib.Path) -> None:
    """End msrun and everything it started: it kills its workers on SIGINT; the rest is killed by process id."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    # Again until none is left: msrun may have been starting a worker at that moment.
    while members := _members(folder):
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.poll()
        time.sleep(0.1)
    process.wait()


def _judge(job: Job, ranks: dict[int, int], time_limit: float, port) -> None:
    """Fill in the job's reason and the failed workers' last lines."""
    failed = [(int(pid), int(code)) for pid, code in _FAILED.findall(_text(job.log_dir / "msrun.log"))]
    if _PORT_TAKEN.search(_text(job.log_dir / "scheduler.log")):
        job.reason = _taken(port)
    elif failed:
        named = [f"worker {ranks.get(pid, '?')} {_ending(code)}" for pid, code in failed]
        job.reason = f"The job failed after {job.seconds:.0f} s: {', '.join(named)}."
    elif job.seconds >= time_limit:
        job.reason = f"The job was ended at its time limit of {time_limit:g} s."
    elif job.returncode:
        job.reason = f"msrun ended with {job.returncode}: {_tail(_text(job.log_dir / 'msrun.log'))}"
    if job.reason:
        job.returncode = job.returncode or 1
        job.failures = _failures(job, [ranks[pid] for pid, _ in failed if pid in ranks])


def _ending(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with {code}"


def _failures(job: Job, first: list[int]) -> list[tuple[int, str]]:
    """The failed workers' last lines: the first to fail, then others that end with another error."""
    logs = {int(path.stem.split("_")[1]): _text(path) for path in job.log_dir.glob("worker_*.log")}
    others = [rank for rank, text in sorted(logs.items()) if "Traceback (most recent call last)" in text]
    tails = {rank: _tail(logs.get(rank, "")) for rank in dict.fromkeys([*first, *others])}
    # Workers that all hit the same error are told once, by the first of them.
    last_lines: dict[str, int] = {}
    for rank, tail in tails.items():
        last_lines.setdefault(tail.splitlines()[-1], rank)
    return [(rank, tails[rank]) for rank in last_lines.values()]


def _tail(text: str, lines: int = 40) -> str:
    kept = [line for line in text.splitlines() if not _NOISE.match(line)]
    return "\n".join(kept[-lines:]) or "(it printed nothing)"


def _text(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _members(folder: pathlib.Path) -> dict[int, dict]:
    """Environment by process id of the job's living processes, orphans and sessions of their own included."""
    mark, members = f"{MARK}={folder}".encode(), {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            pairs = entry.read_bytes().split(b"\0")
            if mark in pairs:
                members[int(entry.parent.name)] = dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair)
    return members


def _worker_ranks(folder: pathlib.Path) -> dict[int, int]:
    """Rank by process id of the job's running workers."""
    return {pid: int(env[b"RANK_ID"]) for pid, env in _members(folder).items() if env.get(b"MS_ROLE") == b"MS_WORKER"}

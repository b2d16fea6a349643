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
"""The outcome of a job, told per case: the failing rank's traceback first, and why a case was not run."""
from __future__ import annotations

import functools
from dataclasses import dataclass

from hyper_parallel.platform.msrun import Job
from tests.common.board import Board
from tests.common.case import cases_of

_TAIL = 60
_NOISE = ("Event base dispatch success", "Extension modules:")


@dataclass(frozen=True)
class JobReport:
    """What one job left behind.

    Attributes:
        modules: dotted names of the modules with the cases.
        board: messages of the workers.
        job: what the launcher says about it.
        ended: when its last process was gone, as `time.time()`.
    """

    modules: tuple
    board: Board
    job: Job
    ended: float

    @functools.cached_property
    def _names(self) -> list[str]:
        return list(cases_of(self.modules, self.board.workers))

    @property
    def dead(self) -> int | None:
        """The rank that ended first without having finished its cases."""
        return next((rank for rank, _ in self.job.failures if not self.board.read(f"done_rank{rank}")), None)

    def check(self, case: str) -> None:
        """Raise unless every rank ran the case and passed.

        Raises:
            AssertionError: with the traceback of the rank that failed first, or the reason why the case did not run.
        """
        __tracebackhide__ = True  # pylint: disable=unused-variable  # pytest shows the worker's traceback alone
        records = self.board.records(self._names.index(case))
        failed = sorted((r for r in records.values() if not r["ok"]), key=lambda record: record["finished"])
        if failed:
            raise AssertionError(self._tell_failure(case, failed, records))
        if len(records) < self.board.workers:
            raise AssertionError(self._tell_missing(case))

    def check_end(self) -> None:
        """Raise unless the job ran to its end and every process left in order.

        Raises:
            AssertionError: with the reason and the tails of the logs.
        """
        __tracebackhide__ = True  # pylint: disable=unused-variable  # pytest shows the logs alone
        if not self.job.ok or self.board.read("parted"):
            raise AssertionError(f"{self._why()}\n{self._logs(range(self.board.workers))}")

    def _tell_failure(self, case: str, failed: list, records: dict) -> str:
        first = failed[0]
        lines = [f"{case} failed on ranks {sorted(r['rank'] for r in failed)} of {self.board.workers} "
                 f"(logs: {self.board.folder})", f"--- rank {first['rank']}, the first to fail ---", first["traceback"]]
        for rank in sorted(set(records) - {first["rank"]}):
            lines.append(f"--- rank {rank}: {'passed' if records[rank]['ok'] else records[rank]['error']}")
        return "\n".join(lines)

    def _tell_missing(self, case: str) -> str:
        running = None if self.dead is None else self.board.read(f"running_rank{self.dead}")
        if running not in (None, case):
            return f"{case} was not run. {self._why()} Worker {self.dead} was in case {running}."
        if self.board.read("parted"):
            return f"{case} was not run. {self._why()}"
        ranks = range(self.board.workers) if self.dead is None else [self.dead]
        return f"{case} did not finish. {self._why()}\n{self._logs(ranks)}"

    def _why(self) -> str:
        parted = self.board.read("parted")
        if parted and not self.job.reason:
            return f"The ranks parted in case {parted}, so nothing after it could be trusted."
        return self.job.reason or f"msrun ended with code {self.job.returncode} after {self.job.seconds:.0f} s."

    def _logs(self, ranks) -> str:
        return "\n".join(f"--- worker_{rank}.log ---\n{self._tail(rank)}" for rank in ranks)

    def _tail(self, rank: int) -> str:
        lines = self.job.log(rank).splitlines()
        return "\n".join([line for line in lines if not any(noise in line for noise in _NOISE)][-_TAIL:])

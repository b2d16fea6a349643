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
"""What workers and launcher of a job tell each other, as files in the job's folder."""
from __future__ import annotations

import json
import os
import time
import traceback
from pathlib import Path


class Board:
    """One file per message, written whole or not at all.

    Args:
        folder: the job's folder.
        workers: number of workers.
    """

    def __init__(self, folder, workers: int):
        self.folder, self.workers = Path(folder), workers

    def post(self, name: str, message) -> None:
        """Write a message; it appears at once."""
        path = self.folder / f"{name}.json"
        draft = path.with_suffix(f".{os.getpid()}.{time.monotonic_ns()}")
        draft.write_text(json.dumps(message), encoding="utf-8")
        draft.replace(path)

    def read(self, name: str):
        """A message, or None when it is not there."""
        try:
            return json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def records(self, index: int) -> dict:
        """What the ranks reported about case number `index`, by rank; without those that have not."""
        found = {rank: self.read(f"case{index}_rank{rank}") for rank in range(self.workers)}
        return {rank: record for rank, record in found.items() if record is not None}

    def meet(self, index: int, gone=lambda rank: False, pause: float = 0.005) -> dict:
        """Wait until every rank has reported about case number `index`.

        Raises:
            ConnectionError: when a rank is gone that has not reported.
        """
        while len(found := self.records(index)) < self.workers:
            lost = [rank for rank in range(self.workers) if rank not in found and gone(rank)]
            # A rank may have reported and left since its report was looked for.
            if any(rank not in self.records(index) for rank in lost):
                raise ConnectionError(f"Ranks {lost} left without a report about case {index}; {sorted(found)} "
                                      f"reported.")
            time.sleep(pause)
        return found


def run_one(one, rank: int) -> dict:
    """Run a case on this rank and say how it went."""
    started = time.time()
    record = {"case": one.name, "rank": rank, "ok": True}
    try:
        one.run()
    except Exception as error:  # pylint: disable=broad-exception-caught  # whatever a case raises is its result
        last = traceback.extract_tb(error.__traceback__)[-1]
        record.update(ok=False, kind=type(error).__name__, error=f"{type(error).__name__}: {error}",
                      where=f"{last.filename}:{last.lineno}", traceback=traceback.format_exc())
    record.update(finished=time.time(), seconds=time.time() - started)
    return record


def in_step(records) -> bool:
    """True when the ranks can go on together after these records of one case.

    A rank that passed, or failed an assertion, has had every collective that it took part in answered. Ranks that all
    stopped at the same line with the same error skipped the same collectives. In any other state one rank may still
    hold a message that belongs to another's next case.
    """
    failed = [record for record in records if not record["ok"]]
    if all(record["kind"] == "AssertionError" for record in failed):
        return True
    return len(failed) == len(records) and len({(record["kind"], record["where"]) for record in failed}) == 1


def run_all(cases, rank: int, board: Board, gone=lambda rank: False) -> None:
    """Run cases in order on this rank, in step with the other ranks; stop where the ranks part."""
    for index, one in enumerate(cases):
        board.post(f"running_rank{rank}", one.name)
        board.post(f"case{index}_rank{rank}", run_one(one, rank))
        if not in_step(board.meet(index, gone).values()):
            board.post("parted", one.name)
            break
    board.post(f"done_rank{rank}", True)

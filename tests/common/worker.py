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
"""The program that msrun starts in each worker: bring up the device and the process group, then run the cases.

    python tests/common/worker.py MODULE[,MODULE] FOLDER WORKERS DEVICE
"""
from __future__ import annotations

import faulthandler
import importlib
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def prepare_device(device: str) -> None:
    """Choose the device and, on CPU, the mode in which errors belong to the op that made them.

    Raises:
        RuntimeError: when an Ascend run is asked for and MindSpore has none.
    """
    os.environ["GLOG_v"] = "4"
    mindspore = importlib.import_module("mindspore")
    if device == "cpu":
        mindspore.set_device("CPU")
        mindspore.runtime.launch_blocking()
    elif mindspore.get_context("device_target") != "Ascend":
        raise RuntimeError(f"The job asks for device {device!r}, and MindSpore's device target is "
                           f"{mindspore.get_context('device_target')}. Run on an Ascend host, or with --device cpu.")


def start_by_default() -> None:
    """Start the process group by the library."""
    importlib.import_module("hyper_parallel.collectives").init_process_group()


def exists(pid: int) -> bool:
    """True while the process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def main(modules: list, folder: str, workers: int, device: str) -> None:
    """Run the cases of the modules as one worker; the scheduler only serves.

    The first module may have a function `start` that brings the process group up in its own way.
    """
    if os.environ["MS_ROLE"] == "MS_SCHED":
        importlib.import_module("mindspore.communication").init()
        return
    rank = int(os.environ["RANK_ID"])
    board = importlib.import_module("tests.common.board")
    notes = board.Board(folder, workers)
    notes.post(f"pid_rank{rank}", os.getpid())
    prepare_device(device)
    cases = importlib.import_module("tests.common.case").cases_of(modules, workers)
    getattr(importlib.import_module(modules[0]), "start", start_by_default)()
    board.run_all(cases.values(), rank, notes, gone=lambda peer: not exists(notes.read(f"pid_rank{peer}")))


if __name__ == "__main__":
    faulthandler.enable()
    sys.path[0] = str(ROOT)
    main(sys.argv[1].split(","), sys.argv[2], int(sys.argv[3]), sys.argv[4])

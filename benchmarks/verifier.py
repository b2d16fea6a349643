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
"""Seconds of the verifier, in a process of its own.

    python -m benchmarks.verifier [--complete] [--quick]

The bar is for the complete run; without `--complete` the fast set is timed, with `--quick` three operations of it.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from benchmarks.timing import emit

BUDGETS = {"complete": [], "fast": ["--fast"], "three": ["--fast", "--jobs", "1", "Outer", "Neg", "AddExt"]}


def timed(budget: list) -> dict:
    """Wall seconds of one run, and what it found."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        begin = time.perf_counter()
        command = [sys.executable, "-m", "hyper_parallel.verify", "--quiet", "--json", str(report), *budget]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        seconds = round(time.perf_counter() - begin, 1)
        if not report.exists():
            raise RuntimeError(f"The verifier ended with {done.returncode} and wrote no report:\n{done.stderr[-2000:]}")
        totals = json.loads(report.read_text(encoding="utf-8")).get("totals", {})
    return {"seconds": seconds, "exact": done.returncode == 0, "totals": totals}


def main(arguments=None) -> None:
    """Print the seconds of one run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verifier")
    parser.add_argument("--complete", action="store_true", help="all meshes and sizes, as `nox -s verify`")
    parser.add_argument("--quick", action="store_true", help="three operations: to see that it runs")
    options = parser.parse_args(arguments)
    name = "three" if options.quick else "complete" if options.complete else "fast"
    emit(bench="verify", budget=name, **timed(BUDGETS[name]))


if __name__ == "__main__":
    main()

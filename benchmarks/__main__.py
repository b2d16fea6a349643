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
"""`python -m benchmarks`: every measurement, each in a process of its own, PyTorch DTensor's in between.

    python -m benchmarks [PART ...] [--rounds 2] [--quick] [--complete] [--torch-python PATH | --no-torch]
                         [--output FILE]

Both sides are run in turn (ours, PyTorch, ours, PyTorch), so that both see the same machine. Every result is printed
as one line `BENCH {json}` with its round, then the ratios, then one table. A bar that is missed is no failure.
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import platform
import subprocess
import sys

from rich.console import Console

from benchmarks.report import ratios, table
from benchmarks.timing import emit

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Part -> module and arguments of ours; and the part of PyTorch's side that measures the same.
PARTS = {
    "dispatch": (("benchmarks.dispatch",), "dispatch"),
    "async": (("benchmarks.dispatch", "--mode", "async"), None),
    "cold": (("benchmarks.cold",), "cold"),
    "planner": (("benchmarks.planner",), "planner"),
    "simulation": (("benchmarks.simulation",), "simulation"),
    "scale": (("benchmarks.scale",), None),
    "verifier": (("benchmarks.verifier",), None),
}


def run(command: list, number: int) -> list:
    """The results of one child process, printed as they come; other output passes through on stderr.

    Raises:
        RuntimeError: when the child fails.
    """
    env = {"GLOG_v": "4", **os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    found = []
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            if not line.startswith("BENCH "):
                sys.stderr.write(line)
                continue
            found.append({**json.loads(line[6:]), "round": number})
            print("BENCH " + json.dumps(found[-1], sort_keys=True), flush=True)
    if child.returncode:
        raise RuntimeError(f"`{' '.join(command)}` ended with {child.returncode}.")
    return found


def torch_python(options) -> str | None:
    """The interpreter that has PyTorch: the one named, else this one if PyTorch is installed here."""
    if options.no_torch:
        return None
    named = options.torch_python or os.environ.get("HYPER_PARALLEL_TORCH_PYTHON")
    return named or (sys.executable if importlib.util.find_spec("torch") else None)


def measure(part: str, options, theirs: str | None) -> list:
    """The results of one part, all rounds, both libraries in turn."""
    (module, *arguments), counterpart = PARTS[part]
    arguments += ["--quick"] * options.quick + ["--complete"] * (options.complete and part == "verifier")
    found = []
    for number in range(1, 2 if part == "verifier" else options.rounds + 1):
        found += run([sys.executable, "-m", module, *arguments], number)
        if theirs and counterpart:
            found += run([theirs, "-m", "benchmarks.torch_dtensor", counterpart, *["--quick"] * options.quick], number)
    return found


def parse(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and compare with PyTorch.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all when none is given")
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="times each part is run (default 2)")
    parser.add_argument("--quick", action="store_true", help="few repetitions: to see that it runs")
    parser.add_argument("--complete", action="store_true", help="time the complete verifier, not its fast set")
    parser.add_argument("--torch-python", metavar="PATH", help="interpreter that has PyTorch, when this one has not")
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE", help="keep all results and ratios as JSON lines")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part is called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return options


def main(arguments=None) -> int:
    """Run the benchmarks; 1 when a part could not be run."""
    options = parse(arguments)
    theirs, rows, failed = torch_python(options), [], []
    emit(bench="machine", cpus=os.cpu_count(), python=platform.python_version(), system=platform.platform(),
         torch_python=bool(theirs))
    for part in options.parts or PARTS:
        try:
            rows += measure(part, options, theirs)
        except RuntimeError as error:
            failed.append(str(error))
    compared = ratios(rows)
    table(rows, compared, Console(width=None if sys.stdout.isatty() else 140))
    if options.output:
        kept = rows + [row for found in compared.values() for row in found]
        options.output.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in kept), encoding="utf-8")
    if not theirs:
        print("PyTorch is not installed here: name an interpreter that has it with --torch-python to compare.")
    for message in failed:
        print(message, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

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
"""`python -m hyper_parallel.verify [OP ...]`: check layout rules; exit code 1 on one wrong row."""
from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys

from hyper_parallel.errors import HyperParallelError
from hyper_parallel.verify.coverage import markdown
from hyper_parallel.verify.meshes import parse_mesh
from hyper_parallel.verify.render import render_html, render_text
from hyper_parallel.verify.runner import verify
from hyper_parallel.verify.sweep import FAST, FULL


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m hyper_parallel.verify", description=(
        "Check every layout rule exactly, forward and backward, against plain numpy on the global data."))
    made.add_argument("ops", nargs="*", metavar="OP", help="operation names; all registered ones when none is given")
    made.add_argument("--mesh", action="append", metavar="SHAPE", help="2, 3 or 2x2; may be given several times")
    made.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the report as JSON")
    made.add_argument("--html", type=pathlib.Path, metavar="FILE", help="write the report as one HTML page")
    made.add_argument("--coverage", type=pathlib.Path, metavar="FILE",
                      help="write the table operation x placement as markdown, and check nothing")
    made.add_argument("--fast", action="store_true", help="one mesh, one size class, sampled pairs: half a minute")
    made.add_argument("--jobs", type=int, metavar="N", help="processes; default: one per core, at most two")
    made.add_argument("--quiet", action="store_true", help="no progress line")
    return made


def main(arguments=None) -> int:
    """Run the verifier; 0 when every row is exact and nothing is left unchecked."""
    options = parser().parse_args(arguments)
    if options.coverage:
        options.coverage.write_text(markdown(), encoding="utf-8")
        return 0
    budget = FAST if options.fast else FULL
    try:
        if options.mesh:
            budget = dataclasses.replace(budget, meshes=_in_order(options.mesh))
        report = verify(options.ops or None, budget, options.jobs, None if options.quiet else progress)
    except (HyperParallelError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    clear_progress()
    render_text(report)
    if options.json:
        options.json.write_text(json.dumps(report.as_dict(), indent=1) + "\n", encoding="utf-8")
    if options.html:
        options.html.write_text(render_html(report), encoding="utf-8")
    return 0 if report.ok else 1


def _in_order(texts: list) -> tuple:
    """Meshes of one axis come first: pairs are made of the rows found there."""
    shapes = sorted({parse_mesh(text) for text in texts}, key=lambda s: (len(s), s))
    return tuple(shapes) if len(shapes[0]) == 1 else ((2,), *shapes)


def progress(op) -> None:
    """Name the operation that is done, on one line of the terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{op.name}: {len(op.rows)} rows in {op.seconds:.1f} s", end="", file=sys.stderr, flush=True)


def clear_progress() -> None:
    """Wipe the progress line."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

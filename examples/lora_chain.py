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
"""A LoRA chain under row-wise tensor parallelism on real workers, forward and backward against one device.

    python examples/lora_chain.py [--ranks N] [--device cpu|npu]

`out = (x @ A.T) @ B.T` with x and A cut along the contracted dimension and B replicated: `x @ A.T` is an unreduced sum,
and so is `out`. The lazy form reduces `out`, the early form reduces `x @ A.T`; both must give one device's numbers on
every rank. The second table shows what a rule gives that forgets the pending sum. This process starts the workers
(itself, under msrun), compares their reports and ends with 1 when anything is off, with 2 when it could not run.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import sys

try:
    from rich.console import Console
    from rich.table import Table

    from hyper_parallel.platform import host, msrun
    from hyper_parallel.platform.ports import PortBusyError
except ModuleNotFoundError as absent:
    sys.exit(f"{absent.name} is not installed in {sys.prefix}. Run: nox -s repro, which installs what is needed, "
             f"or in the checkout: {sys.executable} -m pip install '.[test]'")

WORKER = pathlib.Path(__file__).resolve().with_name("lora_chain_worker.py")
FORMS = ("lazy", "early")
GRADIENTS = ("B", "x", "A")
TOLERANCE = 1e-4
OFF, COULD_NOT_RUN = 1, 2


def faults(reports: list[dict]) -> list[str]:
    """Everything that differs from one device by more than the tolerance, or from rank to rank."""
    found = []
    for form in FORMS:
        for rank, report in enumerate(reports):
            for name in ("sum", "forward", *GRADIENTS):
                entry = report[form][name]
                # Written so that nan is a fault too.
                if not (abs(entry["ratio"] - 1) <= TOLERANCE and entry["error"] <= TOLERANCE):
                    found.append(f"{form}, rank {rank}: {name} has ratio {entry['ratio']:.6f} to one device "
                                 f"and is off by {entry['error']:.1e} of its largest element")
        for name in ("sum", "forward", "B"):
            if len({report[form][name]["digest"] for report in reports}) > 1:
                found.append(f"{form}: {name} is not equal on every rank")
    return found


def show(reports: list[dict], device: str) -> None:
    """Print both tables."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    table = Table(title=f"(x @ A.T) @ B.T on {len(reports)} workers ({device}), over one device")
    for column in ("form", "rank", "P→R sum", "forward", "grad B", "grad x", "grad A", "collectives fwd", "bwd"):
        table.add_column(column, justify="left" if column == "form" else "right")
    for form in FORMS:
        for rank, report in enumerate(reports):
            counts = [_count(*report[form]["collectives"][phase]) for phase in ("forward", "backward")]
            table.add_row(form, str(rank), *_cells(report[form], ("sum", "forward", *GRADIENTS)), *counts)
    console.print(table)
    table = Table(title="what a rule gives that forgets the pending sum", min_width=50)
    for column in ("rank", "forward", "grad B", "grad x", "grad A"):
        table.add_column(column, justify="right")
    for rank, report in enumerate(reports):
        table.add_row(str(rank), *_cells(report["unfixed"], ("forward", *GRADIENTS)))
    console.print(table)


def _count(number: int, nbytes: int) -> str:
    return f"{number} ({nbytes} B)" if number else "none"


def _cells(entries: dict, names) -> list[str]:
    return [f"{entries[name]['ratio']:.4f}" for name in names]


def launch(options) -> int:
    """Start the workers, show their reports, and say whether all is right."""
    missing = host.problems(options.device, options.ranks)
    if missing:
        return stop(*missing)
    try:
        job = msrun.run_workers(WORKER, [options.device], ranks=options.ranks, port=options.port,
                                time_limit=options.time_limit, log_dir=options.log_dir)
    except PortBusyError as busy:
        return stop(str(busy))
    if not job.ok:
        return stop(job.report())
    reports = [json.loads((job.log_dir / f"report_{rank}.json").read_text("utf-8")) for rank in range(options.ranks)]
    show(reports, options.device)
    found = faults(reports)
    for line in found:
        print(f"off: {line}")
    if not found:
        print(f"All within {TOLERANCE:g} of one device, and equal on every rank ({job.seconds:.0f} s).")
    return OFF if found else 0


def stop(*lines: str) -> int:
    """Say why nothing was measured."""
    print("The reproduction could not run.", *lines, sep="\n", file=sys.stderr)
    return COULD_NOT_RUN


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="lora_chain.py", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ranks", type=int, default=2, help="number of workers (3 cuts DIN = 16 into 6, 6, 4)")
    parser.add_argument("--device", choices=("cpu", "npu"), default="cpu")
    parser.add_argument("--port", type=int, help="the scheduler's port (default: a free one)")
    parser.add_argument("--time-limit", type=float, default=240, help="seconds for the whole job")
    parser.add_argument("--log-dir", help="folder for the workers' logs (default: a temporary one)")
    options = parser.parse_args()
    if options.ranks < 1:
        parser.error("--ranks must be at least 1")
    return launch(options)


if __name__ == "__main__":
    sys.exit(main())

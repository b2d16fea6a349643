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
import hashlib
import json
import os
import pathlib
import sys

R, DIN, DOUT, BS = 8, 16, 32, 4
FORMS = ("lazy", "early")
GRADIENTS = ("B", "x", "A")
TOLERANCE = 1e-4
OFF, COULD_NOT_RUN = 1, 2


# -- the worker -------------------------------------------------------------------------------------------------------


def make_data() -> dict:
    """The reported program's x (BS, DIN), A (R, DIN) and B (DOUT, R), float32."""
    import numpy as np
    np.random.seed(0)
    x, a, b = np.random.randn(BS, DIN), 0.1 * np.random.randn(R, DIN), 0.1 * np.random.randn(DOUT, R)
    return {"x": x.astype(np.float32), "A": a.astype(np.float32), "B": b.astype(np.float32)}


def one_device(data: dict) -> dict:
    """Values and gradients of `sum((x @ A.T) @ B.T)` on one device, in float64."""
    x, a, b = (data[name].astype("float64") for name in ("x", "A", "B"))
    tmp = x @ a.T
    out = tmp @ b.T
    seed = out * 0 + 1
    return {"sum": tmp.sum(), "forward": out.sum(), "B": seed.T @ tmp, "x": seed @ b @ a, "A": (seed @ b).T @ x}


def columns(rank: int, ranks: int) -> slice:
    """This rank's part of DIN: chunks of ceil size, the last one short when they do not fit."""
    step = -(-DIN // ranks)
    return slice(min(rank * step, DIN), min((rank + 1) * step, DIN))


def distributed(mesh, local: dict, early: bool) -> dict:
    """The chain on DTensors: value and gradients of one run, and the collectives that it asked for."""
    import mindspore as ms
    from mindspore import mint

    from hyper_parallel import DTensor, record_collectives
    from hyper_parallel.core.dtensor.placement_types import Replicate, Shard

    def wrap(x, a):
        return (DTensor.from_local(x, mesh, (Shard(1),), shape=(BS, DIN)),
                DTensor.from_local(a, mesh, (Shard(1),), shape=(R, DIN)))

    def loss(b, x, a):
        x, a = wrap(x, a)
        b = DTensor.from_local(b, mesh, (Replicate(),))
        tmp = mint.matmul(x, mint.transpose(a, 1, 0))
        if early:
            tmp = tmp.reduce_partial()
        out = mint.matmul(tmp, mint.transpose(b, 1, 0))
        return out.redistribute(device_mesh=mesh, placements=(Replicate(),)).to_local().sum()

    with record_collectives() as log:
        value, gradients = ms.value_and_grad(loss, (0, 1, 2))(local["B"], local["x"], local["A"])
    x, a = wrap(local["x"], local["A"])
    pending = mint.matmul(x, mint.transpose(a, 1, 0))
    whole = pending.redistribute(device_mesh=mesh, placements=(Replicate(),)).to_local()
    return {"sum": whole.sum(), "forward": value, **dict(zip(GRADIENTS, gradients)), "log": log}


def unfixed(local: dict) -> dict:
    """What a rule gives that labels `(x @ A.T) @ B.T` as reduced: each rank's own product, taken for the whole."""
    import mindspore as ms
    from mindspore import mint

    def loss(b, x, a):
        return mint.matmul(mint.matmul(x, mint.transpose(a, 1, 0)), mint.transpose(b, 1, 0)).sum()

    value, gradients = ms.value_and_grad(loss, (0, 1, 2))(local["B"], local["x"], local["A"])
    return {"forward": value, **dict(zip(GRADIENTS, gradients))}


def ratios(found: dict, truth: dict) -> dict:
    """Per value `<found, truth> / <truth, truth>`, and the largest element's error over the largest element."""
    import numpy as np
    result = {}
    for name in set(found) & set(truth):
        value, true = np.asarray(found[name].asnumpy(), dtype=np.float64), np.asarray(truth[name])
        scale = np.abs(true).max() if true.size else 1.0
        result[name] = {"ratio": float((value * true).sum() / (true * true).sum()) if true.size else 1.0,
                        "error": float(np.abs(value - true).max() / scale) if true.size else 0.0,
                        "digest": hashlib.sha256(found[name].asnumpy().tobytes()).hexdigest()[:12]}
    return result


def traffic(log, phase: str) -> list:
    """Number of collectives of one direction, and the bytes that this rank puts in."""
    entries = [entry for entry in log if entry.phase == phase]
    return [len(entries), sum(entry.nbytes for entry in entries)]


def work(folder: str, device: str) -> None:
    """One worker: run both forms and leave a report in the folder."""
    import mindspore as ms

    from hyper_parallel import init_device_mesh, init_process_group
    if device == "cpu":
        ms.set_device("CPU")
        ms.runtime.launch_blocking()
    init_process_group()
    rank, ranks = int(os.environ["RANK_ID"]), int(os.environ["MS_WORKER_NUM"])
    mesh = init_device_mesh("npu", (ranks,), mesh_dim_names=("tp",))
    data, mine = make_data(), columns(rank, ranks)
    local = {"x": ms.Tensor(data["x"][:, mine]), "A": ms.Tensor(data["A"][:, mine]), "B": ms.Tensor(data["B"])}
    truth = one_device(data)
    truth.update({name: truth[name][:, mine] for name in ("x", "A")})
    report = {"unfixed": ratios(unfixed(local), truth)}
    for form in FORMS:
        found = distributed(mesh, local, form == "early")
        log = found.pop("log")
        report[form] = {**ratios(found, truth), "collectives": {p: traffic(log, p) for p in ("forward", "backward")}}
    pathlib.Path(folder, f"report_{rank}.json").write_text(json.dumps(report), encoding="utf-8")


# -- the parent -------------------------------------------------------------------------------------------------------


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
    from rich.console import Console
    from rich.table import Table
    console = Console(width=None if sys.stdout.isatty() else 120)
    table = Table(title=f"(x @ A.T) @ B.T on {len(reports)} workers ({device}), over one device")
    for column in ("form", "rank", "P→R sum", "forward", "grad B", "grad x", "grad A", "collectives fwd", "bwd"):
        table.add_column(column, justify="left" if column == "form" else "right")
    for form in FORMS:
        for rank, report in enumerate(reports):
            counts = ["{} ({} B)".format(*report[form]["collectives"][phase]) for phase in ("forward", "backward")]
            table.add_row(form, str(rank), *_cells(report[form], ("sum", "forward", *GRADIENTS)), *counts)
    console.print(table)
    table = Table(title="what a rule gives that forgets the pending sum", min_width=50)
    for column in ("rank", "forward", "grad B", "grad x", "grad A"):
        table.add_column(column, justify="right")
    for rank, report in enumerate(reports):
        table.add_row(str(rank), *_cells(report["unfixed"], ("forward", *GRADIENTS)))
    console.print(table)


def _cells(entries: dict, names) -> list[str]:
    return [f"{entries[name]['ratio']:.4f}" for name in names]


def launch(options) -> int:
    """Start the workers, show their reports, and say whether all is right."""
    from hyper_parallel.platform import host, msrun
    from hyper_parallel.platform.ports import PortBusyError
    missing = host.problems(options.device, options.ranks)
    if missing:
        return stop(*missing)
    try:
        job = msrun.run_workers(__file__, ["--report-from", options.device], ranks=options.ranks, port=options.port,
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
    """Parent or worker, as the command line says."""
    parser = argparse.ArgumentParser(prog="lora_chain.py", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ranks", type=int, default=2, help="number of workers (3 cuts DIN = 16 into 6, 6, 4)")
    parser.add_argument("--device", choices=("cpu", "npu"), default="cpu")
    parser.add_argument("--port", type=int, help="the scheduler's port (default: a free one)")
    parser.add_argument("--time-limit", type=float, default=240, help="seconds for the whole job")
    parser.add_argument("--log-dir", help="folder for the workers' logs (default: a temporary one)")
    parser.add_argument("--report-from", metavar="DEVICE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.report_from:
        work(os.getcwd(), options.report_from)
        return 0
    if options.ranks < 1:
        parser.error("--ranks must be at least 1")
    try:
        return launch(options)
    except ModuleNotFoundError as error:
        return stop(f"{error.name} is not installed in {sys.prefix}. Run: nox -s repro, which installs what is needed, "
                    f"or in the checkout: {sys.executable} -m pip install '.[test]'")


if __name__ == "__main__":
    sys.exit(main())

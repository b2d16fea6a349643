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
"""One worker of lora_chain.py, which starts it under msrun: both forms of the chain, and a report of what came out.

    lora_chain_worker.py cpu|npu        leaves report_RANK.json in the current folder
"""
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import sys

import mindspore as ms
import numpy as np
from mindspore import mint

from hyper_parallel import DTensor, init_device_mesh, init_process_group, record_collectives
from hyper_parallel.core.dtensor.placement_types import Replicate, Shard

R, DIN, DOUT, BS = 8, 16, 32, 4
FORMS = ("lazy", "early")
GRADIENTS = ("B", "x", "A")


def make_data() -> dict:
    """The reported program's x (BS, DIN), A (R, DIN) and B (DOUT, R), float32."""
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
    def loss(b, x, a):
        return mint.matmul(mint.matmul(x, mint.transpose(a, 1, 0)), mint.transpose(b, 1, 0)).sum()

    value, gradients = ms.value_and_grad(loss, (0, 1, 2))(local["B"], local["x"], local["A"])
    return {"forward": value, **dict(zip(GRADIENTS, gradients))}


def ratios(found: dict, truth: dict) -> dict:
    """Per value `<found, truth> / <truth, truth>`, and the largest element's error over the largest element."""
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


if __name__ == "__main__":
    work(os.getcwd(), sys.argv[1])

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
"""Cases G: what is refused, how clearly, the same on every rank; meshes and caches."""
from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor, mint, ops
from mindspore.mint.nn import functional as F

from hyper_parallel import (
    DTensor, LayoutError, MeshError, Replicate, Shard, UnsupportedOpError, distribute_tensor, implicit_redistribution,
    init_device_mesh, record_collectives, simulate,
)
from tests.ut.cases.harness import (
    CASES, Job, check, outcome, placements_of, program, programmed, refused, same, text_of,
)


@program("C119")
def operands_on_different_meshes(job: Job):
    """Refused with both meshes named; a mesh built twice is one mesh."""
    sub = job.mesh["tp"]
    a, b = job.whole(np.ones((2, 2)), "R R"), distribute_tensor(Tensor(np.ones((2, 2))), sub, [Replicate()])
    calls = (mint.add, mint.matmul, lambda *t: mint.stack(t), lambda *t: mint.cat(t), lambda p, q: p.add_(q))
    for call in calls:
        for operands in ((a, b), (b, a)):
            refusal = refused(call, *operands, error=MeshError)
            assert str(job.mesh) in str(refusal.error) and str(sub) in str(refusal.error)
            with implicit_redistribution():
                refused(call, *operands, error=MeshError)
    again = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert again == job.mesh and hash(again) == hash(job.mesh)
    check(a + distribute_tensor(Tensor(np.ones((2, 2))), again, [Replicate()] * 2), np.full((2, 2), 2.0), "twins")


@program("C120")
def plain_tensor_next_to_a_distributed_one(job: Job):
    """Refused with the operation and the argument named; a 0-d constant is a replica."""
    x, p = job.load("x"), Tensor(np.arange(4.0))
    rows, weight = job.whole(np.ones((2, 4)), "S(1)"), Tensor(np.ones((4, 4)))
    calls = {
        "Add": (lambda: x + p, lambda: p + x, lambda: x + np.arange(4.0), lambda: mint.add(x, p), lambda: x.add_(p)),
        "Mul": (lambda: x * p, lambda: p * x), "MatMul": (lambda: mint.matmul(rows, weight), lambda: weight @ rows.T),
        "Dense": (lambda: F.linear(rows, weight),), "Concat": (lambda: mint.cat([x, p]),),
    }
    for op, spellings in calls.items():
        for call in spellings:
            message = str(refused(call, says="plain tensor").error)
            assert op in message and "argument" in message, message
            with implicit_redistribution():
                refused(call, says="plain tensor")
    check(x + Tensor(2.0).astype(x.dtype), job.data.x + 2.0, "a 0-d constant")


@program("C122")
def placements_that_fit_no_tensor(job: Job):
    """Refused before any communication, with the dimension and the number of dimensions."""
    x = job.whole(job.data.x, "S(0)")
    scalar, cube = job.whole(1.0, "R"), Tensor(np.ones((2, 2, 2)))
    for tensor, dim in ((job.data.x, 2), (job.data.x, -3), (np.array(1.0), 0), (np.array(1.0), -1)):
        target = x if tensor.ndim else scalar
        for call in (lambda t=tensor, d=dim: distribute_tensor(Tensor(t), job.mesh, [Shard(d)]),
                     lambda t=target, d=dim: t.redistribute(job.mesh, [Shard(d)]),
                     lambda t=tensor, d=dim: DTensor.from_local([Tensor(t)] * 2, job.mesh, [Shard(d)])):
            message = str(refused(call).error)
            assert str(dim) in message and str(tensor.ndim) in message, message
    for bad in ("S", ["S"], None, [None], [0], [], [Shard(0), Shard(1)], [Shard(0), "tp"], [Shard]):
        refused(lambda bad=bad: distribute_tensor(Tensor(job.data.x), job.mesh, bad))
        refused(lambda bad=bad: distribute_tensor(cube, job.mesh, bad))
        refused(lambda bad=bad: x.redistribute(job.mesh, bad))
    for bad in (None, "0", 0.5, True):
        refused(lambda bad=bad: Shard(bad))


UNEVEN = {
    "view": lambda x: x.view(-1), "narrow": lambda x: x[1:3], "flip": lambda x: mint.flip(x, (0,)),
    "softmax": lambda x: F.softmax(x, 0), "chunk": lambda x: mint.chunk(x, 2),
    "square of a sum": lambda x: mint.square(x.sum(0)),
    "read": lambda x: x.tolist(),
}


@program("C124")
def refusals_of_an_uneven_tensor_on_every_rank(job: Job):
    """The same text whichever rank asks, before any collective; what is not refused is right."""
    messages = []
    for rank in range(4):
        with simulate(4, rank):
            x = Job(job.case).load("x")
            messages.append({name: str(refused(call, x).error) for name, call in UNEVEN.items()})
    assert messages == messages[:1] * 4
    x, data = job.load("x"), job.data.x
    check(mint.mean(x), data.mean(), "mean")
    check(mint.matmul(x, x.redistribute(job.mesh, placements_of("R")).T), data @ data.T, "matmul")
    check(mint.matmul(x.T, x), data.T @ data, "matmul over the uneven dimension")


@program("C125")
def full_value_is_a_collective(job: Job):
    """Every rank of the mesh takes part, which the documentation says."""
    x = job.load("x")
    with record_collectives() as log:
        whole = x.full_tensor()
    same(whole, job.data.x, "full value")
    assert [c.op for c in log] == ["all_gather"] and tuple(log[0].ranks) == (0, 1)
    assert "every rank" in DTensor.full_tensor.__doc__


@program("C126")
def replicas_that_differ(job: Job):
    """A check, which has to communicate, refuses them; a source rank makes them equal; else own parts count."""
    d = job.data.d
    with pytest.raises(LayoutError, match="src_data_rank=0"):
        job.parts(d, "R", run_check=True)
    equal = job.parts([d[0], d[0]], "R", run_check=True)
    sent = {f"from_rank0@{p}": distribute_tensor(Tensor(d[0]), job.mesh, placements_of(p), src_data_rank=0)
            for p in ("R", "S(0)")}
    own = distribute_tensor(job.parts(d, "R"), job.mesh, [Shard(0)])
    return sent | {"from_rank0@checked": equal, "source_none_shard": own}


@program("C127")
def fewer_heads_than_ranks(job: Job):
    """Two heads cannot be cut in four: refused at the view, right once whole; four heads can."""
    y = job.load("y")
    heads = job.whole(np.arange(48.0).reshape(2, 3, 8), "S(2)").view(2, 3, -1, 2)
    assert text_of(heads) == "S(2)"
    check(heads, np.arange(48.0).reshape(2, 3, 4, 2), "as many heads as ranks")
    return job.gathered("y", lambda t: t.view(2, 3, -1, 2), (y,))


@program("C128")
def static_arguments_in_the_cache_key(job: Job):
    """Calls that differ in an axis, a bound or a flag alone, one after the other."""
    x, data = job.load("x"), job.data.x
    s0, s1 = mint.sum(x, 0), mint.sum(x, 1)
    top = -np.sort(-data, 1)
    assert (text_of(s0), text_of(s1)) == ("P(sum)", "S(0)")
    pairs = {
        "transpose": (mint.transpose(x, 0, 1), data.T), "permute": (mint.permute(x, (0, 1)), data),
        "kept": (mint.sum(x, 1, keepdim=True), data.sum(1, keepdims=True)), "dropped": (mint.sum(x, 1), data.sum(1)),
        "top 1": (mint.topk(x, 1)[0], top[:, :1]), "top 2": (mint.topk(x, 2)[0], top[:, :2]),
        "one": (x * 2, data * 2), "other": (x * 3, data * 3),
        "int": (x + 1, data + 1), "bool": (x + True, data + 1), "float": (x + 1.5, data + 1.5),
    }
    for name, (found, right) in pairs.items():
        check(found, right, name)
    return {"s0": s0, "s1": s1, "a": x[:, 0:2], "b": x[:, 2:4]}


@program("C129")
def result_that_cannot_live_in_the_target(job: Job):
    """Refused with a word on the target; right once the operand has the target's placements."""
    x, p = job.load("x", "p")
    replica = job.whole(job.data.x + 2, "R")
    refused(lambda: x.add_(p), says="redistribute")
    refused(lambda: x.copy_(replica), says="redistribute")
    results = {}
    for way, change in {"add": lambda t, s: t.add_(s), "augmented": lambda t, s: t.__iadd__(s)}.items():
        target = job.load("x")
        change(target, p.redistribute(job.mesh, target.placements))
        results[f"x@{way}"] = target
    target = job.load("x")
    target.copy_(replica.redistribute(job.mesh, target.placements))
    with implicit_redistribution():
        x.add_(p)
    assert text_of(x) == text_of(target) == "S(0)"
    return results | {"x@copy": target, "x@implicit": x}


@program("C130")
def operations_without_a_rule(job: Job):
    """Refused by name, never run on the shards; a movement inside the cut dimension is right once whole."""
    x = job.load("x")
    refused(lambda: mint.median(x), error=(UnsupportedOpError, LayoutError), says="Median")
    refused(lambda: ops.L2Loss()(x), error=UnsupportedOpError, says="L2Loss")
    with implicit_redistribution():
        refused(lambda: ops.L2Loss()(x), error=UnsupportedOpError, says="L2Loss")
    return (job.gathered("sort", lambda t: mint.sort(t)[0], (x,))
            | job.gathered("flip", lambda t: mint.flip(t, (0,)), (x,)))


@program("C134")
def text_of_a_refusal(job: Job):
    """Operation, element type, shape and placements of every operand, names and sizes of the mesh axes."""
    x, w = job.whole(np.ones((4, 6)), "R S(1)"), job.whole(np.ones((6, 2), np.float32), "R R")
    pending = job.parts(np.ones((4, 3, 2)), "R P(sum)")
    for call, op, shapes in ((lambda: mint.matmul(x, w), "MatMul", ("[4, 6]", "[6, 2]")),
                             (lambda: mint.abs(pending), "Abs", ("[3, 2]",)),
                             (lambda: x.view(-1), "", ("[4, 6]",))):
        message = str(refused(call).error)
        for part in (op, *shapes, "float64", "dp", "tp", "2"):
            assert part.replace(" ", "") in message.replace(" ", ""), f"{part!r} is not in: {message}"


@pytest.mark.parametrize("case_id", programmed("G"))
def test_case_of_group_g_is_refused_clearly_or_right(case_id):
    """
    Feature: refusals, meshes and caches.
    Description: run the program of one public case on simulated ranks, cold and warm.
    Expectation: one clear error before any collective, or the numpy value on the global data on every rank.
    """
    assert case_id in CASES and outcome(case_id)

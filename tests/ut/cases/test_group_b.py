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
"""Cases B: gradients. Every gradient is taken under both conventions and must denote the single-device one."""
from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor, mint, ops
from mindspore.mint.nn import functional as F

from hyper_parallel import DTensor, Partial, PartialError, Replicate, Shard, value_and_grad
from tests.ut.cases.harness import Job, check, outcome, program, programmed, refused, text_of


def _low_rank(b, a, x):
    return mint.matmul(mint.matmul(x, a.T), b.T)


@program("C27")
def gradients_of_a_chained_low_rank_product(job: Job):
    """Reduced at the end, in the middle, or by the loss."""
    x, a, b, g = job.load("x", "A", "B", "G")
    losses = {
        "at_the_end ": lambda b, a, x: (_low_rank(b, a, x).reduce_partial() * g).sum(),
        "in_the_middle ": lambda b, a, x: (mint.matmul(mint.matmul(x, a.T).reduce_partial(), b.T) * g).sum(),
        "by_the_loss ": lambda b, a, x: (_low_rank(b, a, x) * g).sum(),
    }
    results = {}
    for way, loss in losses.items():
        results |= job.gradients(loss, way, dB=b, dA=a, dx=x)
    return results


@program("C28")
def round_trip_through_plain_addends(job: Job):
    """A knowing round trip leaves the gradient as it is; an unknowing one is refused."""
    w = job.load("w")

    def through_locals(w):
        addends = mint.sum(w * w).to_local(partial_ok=True)
        return DTensor.from_local(addends, job.mesh, [Partial()]).reduce_partial()

    refused(lambda: mint.sum(w * w).to_local(), error=PartialError, says="partial_ok=True")
    return (job.gradients(through_locals, "round_trip ", dw=w)
            | job.gradients(lambda w: mint.sum(w * w).reduce_partial(), "direct ", dw=w))


@program("C29")
def gradient_of_addends_through_a_reduce_scatter(job: Job):
    """Every rank's addend has the whole gradient: an all-gather, no factor."""
    w = job.whole(job.data.w, "S(0)")

    def loss(y):
        return (y.redistribute(job.mesh, [Shard(0)]) * w).sum()

    found = job.local_gradients(lambda v: loss(DTensor.from_local(v, job.mesh, [Partial()])), job.data.l)
    _, label = value_and_grad(loss)(job.parts(job.data.l, "P(sum)"))
    check(label, job.data.w, "gradient as a tensor")
    assert text_of(label) == "R"
    return {"rank0": found[0], "rank1": found[1]}


@program("C30")
def gradient_of_addends_through_an_all_reduce(job: Job):
    """The backward of the all-reduce is the identity."""
    g = job.whole(job.data.G, "R")
    found = job.local_gradients(
        lambda v: (DTensor.from_local(v, job.mesh, [Partial()]).redistribute(job.mesh, [Replicate()]) * g).sum(),
        job.data.l)
    check(found[1], job.data.G, "rank 1")
    return {"rank0": found[0]}


@program("C31")
def gradient_of_a_replica_through_a_slice(job: Job):
    """Every rank's replica has the whole gradient."""
    x, w = job.load("x", "w")

    def loss(x):
        return (x.redistribute(job.mesh, [Shard(0)]) * w).sum()

    found = job.local_gradients(lambda v: loss(DTensor.from_local(v, job.mesh, [Replicate()])), [job.data.x] * 2)
    for name, grad in job.gradients(loss, dx=x).items():
        check(grad, job.data.w, name)
    return {"rank0": found[0], "rank1": found[1]}


@program("C32")
def gradients_of_a_row_parallel_layer_with_bias(job: Job):
    """Bias added to the pending product, in one op, or after the reduction."""
    x, w, b, g = job.load("x", "W", "b", "G")
    layers = {
        "added ": lambda b, x, w: mint.matmul(x, w.T) + b,
        "in_one_op ": lambda b, x, w: F.linear(x, w, b),
        "after_reduction ": lambda b, x, w: mint.matmul(x, w.T).reduce_partial() + b,
    }
    results = {}
    for way, layer in layers.items():
        def loss(*tensors, layer=layer):
            return (layer(*tensors).redistribute(job.mesh, [Replicate()]) * g).sum()
        results |= job.gradients(loss, way, db=b, dx=x, dW=w)
    return results


@program("C33")
def input_gradient_of_a_column_parallel_layer(job: Job):
    """Summed over the output shards, which is what its label says."""
    x, w, g = job.load("x", "W", "G")
    assert text_of(mint.matmul(x, w.T)) == "S(1)"
    return (job.gradients(lambda x: (mint.matmul(x, w.T) * g).sum(), dx=x)
            | job.gradients(lambda x: (F.linear(x, w) * g).sum(), "linear ", dx=x))


def _layer_norm_gradients(x, scale, g) -> dict:
    """Gradients of sum(layer_norm(x) * g) with a given scale and any bias, by the quotient rule."""
    centred = x - x.mean(1, keepdims=True)
    deviation = np.sqrt((centred ** 2).mean(1, keepdims=True) + 1e-5)
    unit, inner = centred / deviation, g * scale
    dx = (inner - inner.mean(1, keepdims=True) - unit * (inner * unit).mean(1, keepdims=True)) / deviation
    return {"weight": (g * unit).sum(0), "bias": g.sum(0), "input": dx}


@program("C35")
def norm_weight_gradient_under_sequence_sharding(job: Job):
    """Summed over the tokens of all ranks; for layer_norm's weight and bias too."""
    x, scale, g = job.load("x", "g", "G")
    bias, d = job.whole(np.ones(3), "R"), job.data
    found = job.gradients(lambda w, b, x: (F.layer_norm(x, (3,), w, b) * g).sum(), weight=scale, bias=bias, input=x)
    right = _layer_norm_gradients(d.x, d.g, d.G)
    for name, grad in found.items():
        check(grad, right[name.partition("@")[0]], f"layer_norm {name}")
    return job.gradients(lambda w: (ops.rms_norm(x, w, 1e-6)[0] * g).sum(), dg=scale)


@program("C38")
def padding_index_of_a_vocabulary_shard(job: Job):
    """The index counts in the whole vocabulary, from either end; the gradient comes back to the shard."""
    table, g = job.whole(np.zeros((6, 2)), "S(0)"), job.whole(job.data.G, "R")
    idx = job.whole(job.data.idx, "R")
    results = {}
    for padding in (1, -5):
        def loss(table, padding=padding):
            y = F.embedding(idx, table, padding_idx=padding)
            assert y.placements == (Partial("sum"),)
            return (y.redistribute(job.mesh, [Replicate()]) * g).sum()
        results |= job.gradients(loss, f"padding {padding} ", dE=table)
    return results


@program("C41")
def gradient_of_a_weight_gathered_for_its_use(job: Job):
    """Arrives at the shard summed over the batch."""
    x, w, g = job.load("X", "W", "G")
    return job.gradients(lambda w: (mint.matmul(x, w.redistribute(job.mesh, [Replicate()])) * g).sum(), dW=w)


@program("C42")
def one_parameter_in_a_sharded_and_a_replicated_branch(job: Job):
    """Each branch counts once, in one backward and in two."""
    x, w = job.load("x", "w")
    both = job.gradients(lambda w: (x * w).sum() + (3 * w).sum(), "one_loss ", dw=w)
    first, second = job.gradients(lambda w: (x * w).sum(), dw=w), job.gradients(lambda w: (3 * w).sum(), dw=w)
    return both | {f"{name} accumulated": first[name] + second[name] for name in first}


@program("C43")
def replica_used_in_sharded_local_code(job: Job):
    """Its local gradients are addends, which `grad_placements` says."""
    x, w = job.load("x", "w")
    pending = [Partial(), Partial()]

    def loss(w):
        addends = w.to_local(grad_placements=pending)
        products = [Tensor(v) * a for v, a in zip(x.numpy_locals(), addends)]
        return DTensor.from_local(products, job.mesh, [Shard(0), Shard(0)]).sum()

    assert "grad_placements" in DTensor.to_local.__doc__
    return {"dw": value_and_grad(loss)(w)[1]}


@program("C45")
def input_gradient_through_a_transposed_view(job: Job):
    """The all-reduce reaches the tensor, not a copy of it."""
    x, w, g = job.load("x", "W", "G")
    return (job.gradients(lambda x: (mint.matmul(x.T, w.T) * g).sum(), dx=x)
            | job.gradients(lambda x: (mint.matmul(mint.transpose(x, 0, 1), w.T) * g).sum(), "transpose ", dx=x))


@pytest.mark.parametrize("case_id", programmed("B"))
def test_case_of_group_b_gives_the_single_device_gradient(case_id):
    """
    Feature: gradients.
    Description: run the program of one public case on simulated ranks, cold and warm, under both conventions.
    Expectation: the numpy gradient on the global data on every rank, labelled by the layout of its tensor.
    """
    assert outcome(case_id)

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
"""Cases F: low-rank adapters, column- and row-parallel layers, sequence parallelism; all by plain operations."""
from __future__ import annotations

import numpy as np
import pytest
from mindspore import mint, ops
from mindspore.mint.nn import functional as F

from hyper_parallel import record_collectives, simulate, value_and_grad
from tests.ut.cases.harness import CASES, Job, check, outcome, placements_of, program, programmed, same, text_of


def _to(tensor, placements: str):
    return tensor.redistribute(tensor.device_mesh, placements_of(placements))


def _adapted(x, w, a, b, s):
    return F.linear(x, w) + s * F.linear(F.linear(x, a), b)


@program("C104")
def adapter_on_a_column_parallel_base(job: Job):
    """The gradient of the replicated factor is summed over the output shards."""
    x, w, a, b, g = job.load("x", "W", "A", "B", "G")
    y = _adapted(x, w, a, b, job.data.s)
    assert text_of(y) == "S(1)"
    return {"y": y} | job.gradients(lambda a, b, x: (_adapted(x, w, a, b, job.data.s) * g).sum(), dA=a, dB=b, dx=x)


@program("C105")
def adapter_on_a_row_parallel_base(job: Job):
    """Base and adapter pending together cost one reduction; either may be reduced before."""
    x, w, a, b, g = job.load("x", "W", "A", "B", "G")
    s = job.data.s

    def both_pending(a, b, x):
        return _to(_adapted(x, w, a, b, s), "R")

    def base_reduced(a, b, x):
        return _to(_to(F.linear(x, w), "R") + s * F.linear(F.linear(x, a), b), "R")

    def adapter_reduced(a, b, x):
        return _to(F.linear(x, w) + _to(s * F.linear(F.linear(x, a), b), "R"), "R")

    with record_collectives() as log:
        both_pending(a, b, x)
    assert [c.op for c in log] == ["all_reduce"]
    results = {}
    for layer in (both_pending, base_reduced, adapter_reduced):
        results |= {f"y@{layer.__name__}": layer(a, b, x)}
        results |= job.gradients(lambda *t, layer=layer: (layer(*t) * g).sum(), f"{layer.__name__} ", dA=a, dB=b, dx=x)
    return results


@program("C106")
def adapter_with_reduce_scatter_to_a_sequence_shard(job: Job):
    """The gradient of the replicated factor is summed over the tokens of all ranks."""
    x, w, a, b, g = job.load("x", "W", "A", "B", "G")

    def loss(b):
        h, base = _to(F.linear(x, a), "S(0)"), _to(F.linear(x, w), "S(0)")
        y = base + job.data.s * F.linear(h, b)
        assert text_of(y) == "S(0)"
        return (y * g).sum()

    return job.gradients(loss, dB=b)


@program("C107")
def adapter_on_a_column_parallel_base_with_sequence_shards(job: Job):
    """The replicated factor works on tokens, the base on the gathered sequence."""
    x, w, a, b, g = job.load("x", "W", "A", "B", "G")

    def loss(a, x):
        h = F.linear(x, a)
        assert text_of(h) == "S(0)"
        y = F.linear(_to(x, "R"), w) + job.data.s * F.linear(_to(h, "R"), b)
        return (y * g).sum()

    return job.gradients(loss, dA=a, dx=x)


@program("C108")
def two_steps_of_descent_from_a_zero_factor(job: Job):
    """Replicas stay bit-equal after each step."""
    d = job.data
    x, w, a, b = job.whole(d.x, "R"), job.whole(d.W, "S(0)"), job.whole(d.A0, "R"), job.whole(d.B0, "S(0)")
    g, rate = job.whole(d.G, "S(1)"), job.whole(d.lr, "R")  # the framework rounds a Python scalar to float32
    results = {}
    for step in (1, 2):
        _, (da, db) = value_and_grad(lambda a, b: (_adapted(x, w, a, b, d.s) * g).sum(), (0, 1))(a, b)
        a, b = a - rate * da, b - rate * db
        same(a.numpy_locals()[1], a.numpy_locals()[0], f"replicas after step {step}")
        results |= {f"A{step}": a}
    return results | {"B2": b}


@program("C109")
def rank_dimension_of_the_adapter_cut(job: Job):
    """Contracted where both factors are cut; gathered for a replicated second factor."""
    x, a, b = job.load("x", "A", "B")
    h = mint.matmul(x, a.T)
    d = mint.matmul(h, b.T)
    assert (text_of(h), text_of(d)) == ("S(1)", "P(sum)")
    return {"d": d} | job.gathered("d@replicated", lambda h, b: mint.matmul(h, b.T), (h, _to(b, "R")))


@program("C110")
def rank_that_the_ranks_do_not_divide(job: Job):
    """Uneven and empty shards of the rank dimension contract exactly."""
    x, a, b = job.load("x", "A", "B")
    assert [v.shape[0] for v in a.numpy_locals()] == [2, 1]
    one, other = job.whole(job.data.A[:1], "S(0)"), job.whole(job.data.B[:, :1], "S(1)")
    assert [v.shape[0] for v in one.numpy_locals()] == [1, 0]
    check(mint.matmul(mint.matmul(x, one.T), other.T), job.data.x @ job.data.A[:1].T @ job.data.B[:, :1].T, "rank 1")
    return {"d": mint.matmul(mint.matmul(x, a.T), b.T), "d@linear": F.linear(F.linear(x, a), b)}


@program("C113")
def scale_by_the_rank_of_the_factor(job: Job):
    """A shape is a global one, so the rank read from the factor is the whole rank."""
    x, a, b = job.load("x", "A", "B")
    assert a.shape[0] == 2 and a.local_shape[0] == 1
    return {"d": (job.data.alpha / a.shape[0]) * mint.matmul(mint.matmul(x, a.T), b.T)}


def _block(x, g, w1, b1, w2, b2):
    n = _to(ops.rms_norm(x, g, 1e-6)[0], "R")
    h = F.relu(F.linear(n, w1, b1))
    return x + _to(F.linear(h, w2, b2), "S(0)")


@program("C114")
def norm_column_activation_row_block(job: Job):
    """A transformer block under sequence parallelism, forward and every gradient."""
    x, g, w1, b1, w2, b2, seed = job.load("x", "g", "W1", "b1", "W2", "b2", "G")
    y = _block(x, g, w1, b1, w2, b2)
    assert text_of(y) == "S(0)"
    gradients = job.gradients(lambda w2, b2, w1, b1, g: (_block(x, g, w1, b1, w2, b2) * seed).sum(),
                              dW2=w2, db2=b2, dW1=w1, db1=b1, dg=g)
    return {"y": y} | gradients


def _input_gradient(d) -> np.ndarray:
    """Gradient of the block with respect to its input, on the global data."""
    scaled, inverse = d.dn * d.g, 1 / np.sqrt((d.x ** 2).mean(1, keepdims=True) + 1e-6)
    return d.G + inverse * (scaled - d.x * inverse ** 2 * (scaled * d.x).mean(1, keepdims=True))


def test_block_under_sequence_parallelism_gives_the_input_gradient():
    """
    Feature: sequence parallelism.
    Description: differentiate the block of case C114 with respect to its sequence-sharded input, which both the norm
        and the residual branch use.
    Expectation: the numpy gradient, under both conventions.
    """
    with simulate(2):
        job = Job(CASES["C114"])
        x, g, w1, b1, w2, b2, seed = (job.load(name) for name in ("x", "g", "W1", "b1", "W2", "b2", "G"))
        for name, grad in job.gradients(lambda x: (_block(x, g, w1, b1, w2, b2) * seed).sum(), dx=x).items():
            check(grad, _input_gradient(job.data), name)


@pytest.mark.parametrize("case_id", programmed("F"))
def test_case_of_group_f_gives_the_single_device_value(case_id):
    """
    Feature: adapters and tensor-parallel layers.
    Description: run the program of one public case on simulated ranks, cold and warm, gradients under both conventions.
    Expectation: the numpy value on the global data on every rank.
    """
    assert outcome(case_id)

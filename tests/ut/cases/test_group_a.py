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
"""Cases A: a pending reduction on its way forward."""
from __future__ import annotations

import numpy as np
import pytest
from mindspore import mint
from mindspore.mint.nn import functional as F

from hyper_parallel import LayoutError, Partial, PartialError, implicit_redistribution, record_collectives
from tests.ut.cases.harness import Job, check, outcome, program, programmed, refused, text_of


@program("C01")
def chained_low_rank_product(job: Job):
    """Both products of a chain are pending; an early reduction gives the same."""
    x, a, b = job.load("x", "A", "B")
    tmp = mint.matmul(x, mint.transpose(a, 0, 1))
    out = mint.matmul(tmp, mint.transpose(b, 0, 1))
    assert text_of(tmp) == text_of(out) == "P(sum)"
    operators = x @ a.T @ b.T
    return {"out": out, "out@operators": operators, "out@early": mint.matmul(tmp.reduce_partial(), b.T)}


@program("C02")
def scalar_onto_a_pending_sum(job: Job):
    """The scalar enters once, on whichever side it stands and in place too."""
    s = job.load("x").sum()
    assert text_of(s) == "P(sum)"
    changed = s.clone()
    changed += 10
    return {"y": s + 10, "y@left": 10 + s, "y@mint": mint.add(s, 10), "y@sub": s - -10, "y@in_place": changed}


@program("C04")
def replica_onto_a_pending_integer_sum(job: Job):
    """The replica enters whole on one rank: exact, and still an integer."""
    x, t = job.load("x", "t")
    return {"y": x + t, "y@left": t + x, "y@in_place": x.clone().add_(t)}


@program("C05")
def scalar_multiples_one_after_the_other(job: Job):
    """The second call does not find the scalar of the first."""
    x = job.load("x")
    a, b = -5 * x, 2 * x
    assert text_of(a) == text_of(b) == "P(sum)"
    means = [x.mean() * k for k in (1, 2, 3)]
    for k, mean in enumerate(means, 1):
        check(mean, np.array(5.0) * k, f"mean times {k}")
    return {"a": a, "b": b, "m3": means[-1]}


@program("C06")
def nonlinear_maps_of_a_pending_sum(job: Job):
    """Each is refused until the sum is reduced."""
    x = job.load("x")
    maps = {"abs": mint.abs, "relu": F.relu, "square": lambda v: v * v, "exp": mint.exp}
    results = {}
    for name, call in maps.items():
        results |= job.after_fix(name, call, (x,))
    return results | job.after_fix("square@op", mint.square, (x,))


@program("C08")
def product_of_two_pending_sums(job: Job):
    """Refused; one side reduced is enough."""
    a, b = job.load("a", "b")
    results = job.after_fix("y", mint.mul, (a, b))
    kept = a * b.reduce_partial()
    assert text_of(kept) == "P(sum)"
    return results | {"y@left": a.reduce_partial() * b, "y@right": kept}


@program("C09")
def pending_sum_times_a_replica(job: Job):
    """Stays pending, without communication, with the replica whole on every rank."""
    x, r = job.load("x", "r")
    with record_collectives() as log:
        results = {"y": x * r, "y@left": r * x, "z": x / r}
    assert not log and {text_of(t) for t in results.values()} == {"P(sum)"}
    refused(lambda: r / x, error=PartialError)
    return results


@program("C11")
def replica_next_to_a_pending_sum(job: Job):
    """The replica is counted once."""
    x, r = job.load("x", "r")
    return {"y": x + r, "y@left": r + x, "z": r - x, "z@mint": mint.sub(r, x)}


@program("C12")
def row_parallel_linear_with_bias(job: Job):
    """The bias enters once, in every spelling of the layer."""
    x, w, b = job.load("x", "W", "b")
    y = F.linear(x, w, b)
    assert text_of(y) == "P(sum)"
    return {"y": y, "y@after": F.linear(x, w) + b, "y@addmm": mint.addmm(b, x, w.T),
            "y@early": F.linear(x, w).reduce_partial() + b}


@program("C13")
def matmul_of_two_pending_sums(job: Job):
    """Refused; one side reduced is enough and leaves the other pending."""
    a, b = job.load("a", "b")
    results = job.after_fix("y", mint.matmul, (a, b))
    left, right = mint.matmul(a.reduce_partial(), b), mint.matmul(a, b.reduce_partial())
    assert text_of(left) == text_of(right) == "P(sum)"
    return results | {"y@left": left, "y@right": right}


@program("C14")
def matmul_of_a_pending_maximum_and_mean(job: Job):
    """A maximum does not pass a product; a mean does and stays a mean."""
    x, w = job.load("x", "W")
    results = job.after_fix("y_max", mint.matmul, (x, w))
    results |= job.after_fix("y_max@linear", F.linear, (x, w.T))
    mean = job.parts(job.data.xl, "P(avg)")
    y = mint.matmul(mean, w)
    assert text_of(y) == "P(avg)"
    return results | {"y_avg": y, "y_avg@linear": F.linear(mean, w.T)}


@program("C15")
def scalar_onto_a_pending_mean(job: Job):
    """Added in full on each rank, without communication."""
    x = job.load("x")
    with record_collectives() as log:
        y = x + 1
        x += 1
    assert not log and text_of(y) == text_of(x) == "P(avg)"
    return {"y": y, "y@in_place": x, "y@method": job.load("x").add_(1)}


@program("C17")
def sums_and_negatives_of_pending_maxima(job: Job):
    """A sum of maxima is refused; a negative factor turns a maximum into a minimum."""
    a, b = job.load("a", "b")
    z = a * -2
    assert z.placements == (Partial("min"),)
    others = {"z@left": -2 * a, "z@neg": -(a * 2), "z@mint": mint.mul(mint.neg(a), 2)}
    return job.after_fix("y", mint.add, (a, b)) | {"z": z} | others


@program("C19")
def selection_between_a_pending_sum_and_a_number(job: Job):
    """The number enters once."""
    x, m = job.load("x", "m")
    return {"y": mint.where(m, x, 5.0), "y@fill": x.masked_fill(mint.logical_not(m), 5.0),
            "y@replica": mint.where(m, x, job.whole(np.full(3, 5.0), "R"))}


@program("C20")
def concatenation_of_a_pending_sum_and_a_replica(job: Job):
    """The replica enters once, in a stack too."""
    x, r = job.load("x", "r")
    check(mint.stack([x, r]), np.stack([sum(job.data.xl), job.data.r]), "stack")
    check(mint.cat([r, x]), np.concatenate([job.data.r, sum(job.data.xl)]), "cat, the replica first")
    return {"y": mint.cat([x, r])}


@program("C21")
def nonlinear_change_in_place(job: Job):
    """A pending sum cannot be clamped in place, nor may an implicit copy of it be; a reduced one can."""
    x = job.load("x")
    refused(lambda: x.clamp_(max=2), error=PartialError, says="reduce_partial()")
    with implicit_redistribution():
        refused(lambda: x.clamp_(max=2), error=LayoutError)
    check(x, sum(job.data.xl), "the refused target")
    reduced = x.reduce_partial()
    reduced.clamp_(max=2)
    check(x, sum(job.data.xl), "the source of the changed tensor")
    return {"x": reduced, "x@again": reduced}


@program("C22")
def pending_sum_added_to_a_replica_in_place(job: Job):
    """The target stays a replica: the addend is reduced first."""
    r, x = job.load("r", "x")
    refused(lambda: r.add_(x), says="redistribute")
    results = {}
    for way, add in (("add_", lambda t: t.add_(x.reduce_partial())), ("+=", lambda t: t.__iadd__(x.reduce_partial()))):
        target = job.load("r")
        add(target)
        assert text_of(target) == "R"
        for rank, value in enumerate(target.numpy_locals()):
            results[f"rank{rank}@{way}"] = value
    with implicit_redistribution():
        r.add_(x)
    return results | {f"rank{rank}@implicit": value for rank, value in enumerate(r.numpy_locals())}


@program("C24")
def broadcast_against_a_sharded_dimension(job: Job):
    """A size-1 or missing dimension meets the shard without being cut."""
    a, b = job.load("a", "b")
    y, swapped = a * b, b * a
    row = job.whole(job.data.b[0, 0], "R")
    assert text_of(y) == text_of(swapped) == text_of(a * row) == "S(1)"
    return {"y": y, "y@swapped": swapped, "y3": a * row, "y3@swapped": row * a}


@pytest.mark.parametrize("case_id", programmed("A"))
def test_case_of_group_a_gives_the_single_device_value(case_id):
    """
    Feature: pending reductions forward.
    Description: run the program of one public case on simulated ranks, cold and warm.
    Expectation: the numpy value on the global data on every rank, or a refusal where the case accepts one.
    """
    assert outcome(case_id)

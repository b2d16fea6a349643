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
"""Cases E: reductions, norms, softmax, whole-tensor answers."""
from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import mint
from mindspore.mint.nn import functional as F

from hyper_parallel import LayoutError, PartialError, UnsupportedOpError, simulate
from tests.ut.cases.harness import (
    CASES, Job, check, outcome, placements_of, program, programmed, refused, same, text_of,
)


def _whole(tensor):
    return tensor.redistribute(tensor.device_mesh, placements_of("R " * tensor.device_mesh.ndim))


@program("C83")
def mean_over_uneven_and_empty_shards(job: Job):
    """A sum of local sums over the global extent; never a mean of means."""
    x, y = job.load("x", "y")
    m, m0 = mint.mean(x), mint.mean(x, 0)
    assert text_of(m) == text_of(m0) == "P(sum)"
    return {"m": m, "m0": m0, "my": mint.mean(y), "m@method": x.mean(), "m0@method": x.mean(0)}


@program("C84")
def index_of_an_extremum_over_the_cut_dimension(job: Job):
    """Local indices are no global ones; along another dimension they are, and the cut stays."""
    x, m = job.load("x", "m")
    rows = job.whole(job.data.m, "S(0)")
    v, i = mint.max(rows, 1)
    assert text_of(v) == text_of(i) == "S(0)"
    return (job.gathered("k", mint.argmax, (x,)) | job.gathered("flat", mint.argmin, (m,))
            | job.gathered(("v", "i"), lambda t: mint.max(t, 1), (m,)) | {"v@rows": v, "i@rows": i})


@program("C85")
def largest_elements_along_and_across_the_cut(job: Job):
    """Along it refused; across it values and indices keep the cut."""
    x, rows = job.load("x"), job.whole(job.data.x, "S(0)")
    values, idx = mint.topk(rows, 2, 1)
    assert text_of(values) == text_of(idx) == "S(0)"
    for left, right in zip(values.numpy_locals(), idx.numpy_locals()):
        assert left.shape == right.shape == (1, 2)
    return (job.gathered(("values", "idx"), lambda t: mint.topk(t, 2, 1), (x,))
            | {"values@rows": values, "idx@rows": idx})


@program("C86")
def logical_and_multiplicative_reductions(job: Job):
    """Pending under their own reduction, never under a sum."""
    b, x = job.load("b", "x")
    every, some, product = mint.all(b), mint.any(mint.logical_not(b)), mint.prod(x)
    assert [text_of(t) for t in (every, some, product)] == ["P(all)", "P(max)", "P(prod)"]
    return {"all": every, "any": some, "prod": product, "all@reduced": every.reduce_partial()}


def _token_losses(z, chosen, kept, smoothing=0):
    """Cross entropy of every token over a cut vocabulary, by reductions of the shards alone."""
    top = mint.amax(z, 1).reduce_partial()
    shifted = z - mint.unsqueeze(top, 1)
    total = mint.log(mint.sum(mint.exp(shifted), 1).reduce_partial())
    target = mint.sum(shifted * chosen, 1).reduce_partial()
    even = mint.mean(shifted, 1).reduce_partial()
    return (total - (1 - smoothing) * target - smoothing * even) * kept


def _one_hot(labels, classes: int):
    return (labels[:, None] == np.arange(classes)).astype(np.float64)


@program("C93")
def smoothed_cross_entropy_over_a_cut_vocabulary(job: Job):
    """The function is refused by name; put together from reductions it uses the global vocabulary."""
    z, t = job.load("z", "t")
    e = job.data.e
    chosen, kept = job.whole(_one_hot(job.data.t, 4), "S(1)"), job.whole(np.ones(2), "R")
    loss = mint.mean(_token_losses(z, chosen, kept, job.whole(e, "R")))
    same(loss.numpy_locals()[1], loss.numpy_locals()[0], "loss on both ranks")
    return {"loss": refused(lambda: F.cross_entropy(z, t, label_smoothing=e), error=(UnsupportedOpError, LayoutError)),
            "loss@by_reductions": loss}


def test_cross_entropy_by_reductions_counts_kept_tokens_alone():
    """
    Feature: cross entropy over a cut batch and vocabulary.
    Description: the data of case C92, whose own function waits; losses put together from reductions of the shards.
    Expectation: sum, mean and single losses, and the gradient, are the numpy ones; ignored rows are zero.
    """
    case = CASES["C92"]
    with simulate(4):
        job = Job(case)
        labels, kept = np.where(job.data.k, job.data.t, 0), job.data.k.astype(np.float64)
        z, mask = job.load("z"), job.whole(kept, "S(0) R")
        chosen = job.whole(_one_hot(labels, 4), "S(0) S(1)")
        losses = _token_losses(z, chosen, mask)
        total = mint.sum(losses).reduce_partial()
        for name, found in {"none": losses, "sum": total, "mean": total / mint.sum(mask).reduce_partial()}.items():
            check(found, case.value(case.expected[name]), name)
        right = (np.exp(job.data.z) / np.exp(job.data.z).sum(1, keepdims=True) - _one_hot(labels, 4)) * kept[:, None]
        for name, grad in job.gradients(lambda z: mint.sum(_token_losses(z, chosen, mask)), dz=z).items():
            check(grad, right, name)


@program("C95")
def softmax_of_large_logits_over_the_cut_dimension(job: Job):
    """Refused on the shard, exact on the whole row."""
    z = job.load("z")
    return (job.gathered("p", lambda t: F.softmax(t, -1), (z,))
            | job.gathered("lp", lambda t: F.log_softmax(t, -1), (z,)))


@program("C96")
def softmax_over_a_dimension_named_from_the_end(job: Job):
    """Dimension -1 and dimension 1 are one, forward and backward."""
    z, g = job.load("z", "G")
    results = {}
    for dim in (-1, 1):
        def to_shards(t, dim=dim):
            return F.softmax(_whole(t), dim).redistribute(job.mesh, g.placements)
        results |= job.gathered(f"p@{dim}", lambda t, dim=dim: F.softmax(t, dim), (z,))
        results |= {f"p@{dim} to shards": to_shards(z)}
        results |= job.gradients(lambda t, f=to_shards: (f(t) * g).sum(), f"dim {dim} ", dz=z)
    return results


@program("C97")
def softmax_and_maximum_of_pending_logits(job: Job):
    """Reduced first; the maximum of pending maxima stays pending."""
    x = job.load("x")
    maxima = job.parts(job.data.l, "P(max)")
    top = mint.max(maxima)
    assert text_of(top) == "P(max)"
    check(top, np.maximum(*job.data.l).max(), "maximum of pending maxima")
    return (job.after_fix("p", lambda t: F.softmax(t, -1), (x,)) | job.after_fix("m", mint.max, (x,))
            | job.after_fix("m@amax", lambda t: mint.amax(t, 0), (x,)))


@program("C98")
def running_sum_along_and_across_the_cut(job: Job):
    """Along it refused; across it the cut stays."""
    x = job.load("x")
    y0 = mint.cumsum(x, 0)
    assert text_of(y0) == "S(1)"
    return job.gathered("y", lambda t: mint.cumsum(t, -1), (x,)) | {"y0": y0}


@program("C100")
def contraction_over_nothing(job: Job):
    """Zeros, and the bias once, whichever dimension is cut."""
    b = job.load("b")
    results = {}
    for way, (a_on, w_on) in {"rows": ("S(0)", "R"), "contracted": ("S(1)", "S(0)")}.items():
        a, w = job.whole(np.zeros((12, 0)), a_on), job.whole(np.zeros((0, 4)), w_on)
        results |= {f"mm@{way}": mint.matmul(a, w), f"addmm@{way}": mint.addmm(b, a, w)}
    return results


def _equal(a, b) -> list:
    """Every rank's answer."""
    return [bool(v) for v in _whole(mint.all(a == b)).numpy_locals()]


@program("C101")
def whole_tensor_equality(job: Job):
    """One answer on all ranks; a pending one is not read."""
    a, b = job.load("a", "b")
    pending = mint.all(a == b)
    assert text_of(pending) == "P(all)"
    refused(lambda: mint.equal(a, b), error=PartialError, says="reduce_partial()")
    assert mint.equal(_whole(a), _whole(a)) is True and mint.equal(_whole(a), _whole(b)) is False
    refused(lambda: bool(pending), error=PartialError, says="reduce_partial()")
    assert _equal(a, a) == [True, True] and _equal(_whole(a), _whole(b)) == [False, False]
    assert _equal(job.whole(1.0, "R"), job.whole(1.0, "R")) == [True, True]
    return {f"rank{rank}": answer for rank, answer in enumerate(_equal(a, b))}


@program("C103")
def one_dropout_mask_under_every_layout(job: Job):
    """Shards hold their parts of the mask of one device, replicas equal ones; so do addends of a pending sum."""
    def dropped(x):
        ms.manual_seed(11)
        return F.dropout(x, 0.5)

    x = job.load("x")
    right = _whole(dropped(_whole(x))).numpy_locals()[0]
    assert set(np.unique(right)) == {0, 2}
    assert not np.array_equal(right[:2], right[2:]), "equal halves of a mask would hide a mask drawn per shard"
    for operand in (x, job.whole(np.ones((4, 8)), "S(1) S(0)"), job.parts(np.full((4, 2, 8), 0.5), "S(0) P(sum)")):
        y = dropped(operand)
        assert text_of(y) == text_of(operand)
        check(y, right, f"dropout under {text_of(y)}")


@program("C102")
def scalar_read_from_a_shard(job: Job):
    """A pending scalar and a shard are refused; a reduced scalar is the whole value."""
    x = job.load("x")
    squares = mint.sum(x * x)
    for read in (squares.item, squares.__float__, squares.__int__, squares.__bool__, squares.tolist):
        refused(read, error=PartialError, says="reduce_partial()")
    refused(job.whole([3.0, 4.0], "S(0)")[:].tolist, error=LayoutError, says="full_tensor()")
    norms = job.gathered("v", mint.norm, (x,))
    return {name: norm.item() for name, norm in norms.items()} | {"v@sum": mint.sqrt(squares.reduce_partial()).item()}


@pytest.mark.parametrize("case_id", programmed("E"))
def test_case_of_group_e_gives_the_global_value(case_id):
    """
    Feature: reductions and norms.
    Description: run the program of one public case on simulated ranks, cold and warm.
    Expectation: the numpy value on the global data on every rank, or a refusal where the case accepts one.
    """
    assert outcome(case_id)

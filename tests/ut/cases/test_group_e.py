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

from hyper_parallel import LayoutError, PartialError
from hyper_parallel.core.tensor_parallel import loss_parallel
from tests.ut.cases.harness import Job, check, outcome, placements_of, program, programmed, refused, text_of


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


@program("C92")
def cross_entropy_over_a_cut_batch_and_vocabulary(job: Job):
    """Kept tokens alone count, whichever rank has them; refused outside loss_parallel."""
    z, t = job.load("z", "t")
    assert refused(lambda: F.cross_entropy(z, t), error=LayoutError)
    with loss_parallel():
        results = {kind: F.cross_entropy(z, t, reduction=kind) for kind in ("mean", "sum", "none")}
        soft = np.exp(job.data.z) / np.exp(job.data.z).sum(1, keepdims=True)
        chosen = job.data.t[:, None] == np.arange(4)
        for kind, count in (("sum", 1), ("mean", job.data.k.sum())):
            grads = job.gradients(lambda z, kind=kind: F.cross_entropy(z, t, reduction=kind), dz=z)
            for name, grad in grads.items():
                check(grad, (soft - chosen) * job.data.k[:, None] / count, f"{kind} {name}")
    return results


@program("C93")
def smoothed_cross_entropy_over_a_cut_vocabulary(job: Job):
    """The smoothed share is that of the global vocabulary; refused outside loss_parallel."""
    z, t = job.load("z", "t")
    assert refused(lambda: F.cross_entropy(z, t, label_smoothing=job.data.e), error=LayoutError)
    e, rest = job.whole(job.data.e, "R"), job.whole(1 - job.data.e, "R")
    with loss_parallel():
        rounded = F.cross_entropy(z, t, label_smoothing=job.data.e).reduce_partial()
        loss = rest * F.cross_entropy(z, t) - e * mint.mean(F.log_softmax(z, 1))
    whole = loss.reduce_partial()
    for found, right in zip(rounded.numpy_locals(), whole.numpy_locals()):  # the framework rounds 0.1 to float32
        np.testing.assert_allclose(found, right, rtol=1e-7)
    return {"loss": loss, "loss@reduced": whole}


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

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
"""More calls of programs on every placement of their operands: value and gradients of one device, or refused."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import mint

from tests.ut.core.shard.every_call import right_layouts

F = mint.nn.functional
RNG = np.random.default_rng(11)


def _ints(*shape, low=-6, high=7):
    return RNG.integers(low, high, shape).astype("float32")


def _ids(*shape, high):
    return RNG.integers(0, high, shape).astype("int64")


X, W5, ROW = _ints(4, 8), _ints(5, 4), _ints(8)
IDS, IDS2 = _ids(3, high=5), _ids(3, 2, high=5)

# name -> (function, numpy's value or None where the replicas' is the truth, operands)
LOOKUPS = {
    "embedding": (F.embedding, lambda i, w: w[i], IDS2, W5),
    "embedding padding": (lambda i, w: F.embedding(i, w, padding_idx=3), lambda i, w: w[i], IDS2, W5),
    "embedding padding end": (lambda i, w: F.embedding(i, w, padding_idx=-4), lambda i, w: w[i], IDS2, W5),
    "index_select": (lambda w, i: mint.index_select(w, 0, i), lambda w, i: w[i], W5, IDS),
    "index_select 1": (lambda x, i: mint.index_select(x, 1, i), lambda x, i: x[:, i], X, IDS),
    "gather 0": (lambda w, i: mint.gather(w, 0, i), lambda w, i: np.take_along_axis(w[:, :2], i, 0), W5, IDS2),
    "gather end": (lambda w, i: mint.gather(w, 0, i), lambda w, i: np.take_along_axis(w[:, :2], i, 0), W5, IDS2 - 5),
    "ops.gather": (lambda w, i: ms.ops.gather(w, i, 0), lambda w, i: w[i], W5, IDS2),
    "ops.gather bool": (lambda w, i: ms.ops.gather(w, i, 0), lambda w, i: w[i], W5 > 0, IDS2),
    "x[ids]": (lambda w, i: w[i], lambda w, i: w[i], W5, IDS2),
    "x[:,ids]": (lambda x, i: x[:, i], lambda x, i: x[:, i], X, IDS2),
    "take": (lambda x, i: x.take(i), lambda x, i: x.ravel()[i], X, IDS2),
}


def _at(x, index, value, dim, add=False):
    """x with `value` written or added at index[i][j] along a dimension."""
    out, grid = np.array(x), list(np.indices(index.shape))
    grid[dim] = index
    return _rows(out, tuple(grid), value, add)


def _rows(x, index, value, add=False):
    out = np.array(x)
    if add:
        np.add.at(out, index, value)
    else:
        out[index] = value
    return out


PICK, MANY = np.array([[2, 0, 7], [1, 3, 0], [5, 4, 1], [7, 6, 5]]), _ids(4, 5, high=8)
SRC, MORE = _ints(4, 3), _ints(4, 5)
TWO, ROWS2, ROWS3, MANY3 = np.array([3, 1]), _ints(2, 8), _ints(3, 8), _ids(3, high=4)
SCATTERS = {
    "scatter": (lambda x, i, s: mint.scatter(x, 1, i, s), lambda x, i, s: _at(x, i, s, 1), X, PICK, SRC),
    "scatter value": (lambda x, i: mint.scatter(x, 1, i, 2.0), lambda x, i: _at(x, i, 2.0, 1), X, PICK),
    "scatter_add": (lambda x, i, s: mint.scatter_add(x, 1, i, s), lambda x, i, s: _at(x, i, s, 1, True), X, MANY, MORE),
    "index_add": (lambda x, i, s: mint.index_add(x, 0, i, s), lambda x, i, s: _rows(x, i, s, True), X, MANY3, ROWS3),
    "index_add alpha": (lambda x, i, s: mint.index_add(x, 0, i, s, alpha=-2),
                        lambda x, i, s: _rows(x, i, -2 * s, True), X, MANY3, ROWS3),
    "tensor_scatter_add": (lambda x, i, s: ms.ops.tensor_scatter_add(x, i[:, None], s),
                           lambda x, i, s: _rows(x, i, s, True), X, MANY3, ROWS3),
    "tensor_scatter_update": (lambda x, i, s: ms.ops.TensorScatterUpdate()(x, i[:, None], s), _rows, X, TWO, ROWS2),
    "scatter_nd": (lambda i, s: ms.ops.scatter_nd(i[:, None], s, (4, 8)),
                   lambda i, s: _rows(np.zeros((4, 8)), i, s, True), MANY3.astype("int32"), ROWS3),
    "segment sum": (lambda s, i: ms.ops.unsorted_segment_sum(s, i, 4),
                    lambda s, i: _rows(np.zeros((4, 8)), i, s, True), ROWS3, MANY3.astype("int32")),
    "index_put": (lambda x, i, s: x.index_put((i,), s), _rows, ROW, TWO, ROW[:2]),
    "index_put accumulate": (lambda x, i, s: x.index_put((i,), s, True), lambda x, i, s: _rows(x, i, s, True),
                             ROW, MANY3, ROW[:3]),
    "masked_scatter": (lambda x, m, s: x.masked_scatter(m, s), None, X, X > 0, _ints(4, 8)),
}


def _seeded(call):
    """The call after the framework's generator is set, so that every run draws alike."""

    def run(*operands):
        ms.manual_seed(3)
        return call(*operands)

    return run


IMAGE, CHANCES = _ints(2, 3, 2, 2), np.abs(X) / 8
RANDOM = {
    "dropout": (_seeded(lambda x: F.dropout(x, 0.5)), None, X),
    "dropout all": (_seeded(lambda x: F.dropout(x, 1.0)), np.zeros_like, X),
    "dropout eval": (lambda x: F.dropout(x, 0.5, training=False), lambda x: x, X),
    "dropout 0": (lambda x: F.dropout(x, 0.0), lambda x: x, X),
    "dropout2d": (_seeded(mint.nn.Dropout2d(0.5)), None, IMAGE),
    "normal_": (_seeded(lambda x: x.copy().normal_(1.0, 2.0)), None, X),
    "uniform_": (_seeded(lambda x: x.copy().uniform_(-1.0, 2.0)), None, X),
    "random_": (_seeded(lambda x: x.copy().random_(0, 9)), None, X),
    "exponential_": (_seeded(lambda x: x.copy().exponential_(2.0)), None, X),
    "bernoulli_": (_seeded(lambda x: x.copy().bernoulli_(0.5)), None, X),
    "bernoulli_ p": (_seeded(lambda x, p: x.copy().bernoulli_(p)), None, X, CHANCES),
    "bernoulli": (_seeded(mint.bernoulli), None, CHANCES),
    "rand_like": (_seeded(mint.rand_like), None, X), "randn_like": (_seeded(mint.randn_like), None, X),
    "randint_like": (_seeded(lambda x: mint.randint_like(x, -2, 5)), None, X),
    "normal": (_seeded(mint.normal), None, X, CHANCES),
}


def _nll(x, t, w, ignore=-100):
    share = np.where(t == ignore, 0, w[t])
    return -np.take_along_axis(x, t[:, None], 1)[:, 0] * share


Z, LABELS, CLASS, PROB = _ints(4, 8), _ids(4, high=8), _ints(8, low=1, high=4), (np.abs(X) + 1) / 8
LOSSES = {
    "mse": (F.mse_loss, lambda x, z: np.mean((x - z) ** 2), X, Z),
    "mse none": (lambda x, z: F.mse_loss(x, z, reduction="none"), lambda x, z: (x - z) ** 2, X, Z),
    "l1 sum": (lambda x, z: F.l1_loss(x, z, reduction="sum"), lambda x, z: np.abs(x - z).sum(), X, Z),
    "smooth": (F.smooth_l1_loss, None, X, Z),
    "bce": (F.binary_cross_entropy, None, PROB, PROB[::-1].copy()),
    "bce logits": (F.binary_cross_entropy_with_logits, None, X, PROB),
    "nll none": (lambda x, t, w: F.nll_loss(x, t, w, reduction="none"), _nll, X, LABELS, CLASS),
    "nll sum": (lambda x, t, w: F.nll_loss(x, t, w, reduction="sum", ignore_index=int(LABELS[1])),
                lambda x, t, w: _nll(x, t, w, LABELS[1]).sum(), X, LABELS, CLASS),
    "nll plain weight": (lambda x, t: F.nll_loss(x, t, reduction="sum"), lambda x, t: _nll(x, t, np.ones(8)).sum(),
                         X, LABELS),
    "cross entropy": (lambda x, t: F.cross_entropy(x, t, reduction="sum"), None, X, LABELS),
}
SPECIAL = {
    "histc": (lambda x: mint.histc(x, 4, -4, 4), lambda x: np.histogram(x, 4, (-4, 4))[0], X),
    "var_mean": (lambda x: mint.var_mean(x, 1), lambda x: (x.var(1, ddof=1), x.mean(1)), X),
    "median": (lambda x: mint.median(x, 1)[0], lambda x: np.sort(x, 1)[:, 3], X + np.arange(8) / 16),
    "diag": (mint.diag, np.diag, ROW), "addbmm": (mint.addbmm if hasattr(mint, "addbmm") else
                                                  lambda s, a, b: s.addbmm(a, b), None, _ints(4, 5), _ints(2, 4, 3),
                                                  _ints(2, 3, 5)),
    "prelu": (F.prelu, lambda x, w: np.where(x > 0, x, x * w), X, ROW / 8),
    "softshrink": (lambda x: F.softshrink(x, 2.0), lambda x: np.sign(x) * np.maximum(np.abs(x) - 2, 0), X),
    "hardshrink": (lambda x: F.hardshrink(x, 2.0), lambda x: np.where(np.abs(x) > 2, x, 0), X),
}


def _attention(layout, heads, **options):
    return lambda q, k, v, *mask: ms.ops.flash_attention_score(q, k, v, heads, input_layout=layout, scalar_value=0.5,
                                                               attn_mask=mask[0] if mask else None, **options)


def _stepped(name, *numbers):
    """A step of an optimizer on copies, so that the operands stay; the parameter afterwards."""
    def step(p, *rest):
        p = p.copy()
        states = [r.copy() for r in rest[:-1]]
        getattr(ms.ops, name)()(p, *numbers[0](states, rest[-1]))
        return p

    return step


def _softmax_attention(q, k, v, mask=False):
    scores = np.where(mask, -1e30, np.einsum("bnsd,bntd->bnst", q, k) * 0.5)
    powers = np.exp(scores - np.max(scores, -1, keepdims=True))
    return np.einsum("bnst,bntd->bnsd", powers / np.sum(powers, -1, keepdims=True), v)


Q, K, V4 = _ints(2, 6, 3, 2) / 6, _ints(2, 6, 5, 2) / 6, _ints(2, 6, 5, 2)
Q3, K3, V3 = _ints(2, 3, 12) / 6, _ints(2, 5, 12) / 6, _ints(2, 5, 12)
FUSED = {
    "flash BNSD": (_attention("BNSD", 6), _softmax_attention, Q, K, V4),
    "flash BSH": (_attention("BSH", 6), None, Q3, K3, V3),
    "flash shared": (_attention("BNSD", 6), None, Q, K[:, :1].copy(), V4[:, :1].copy()),
    "flash causal": (_attention("BNSD", 6, sparse_mode=2), None, Q, K, V4),
    "momentum": (_stepped("ApplyMomentum", lambda s, g: (s[0], 0.5, g, 0.5)),
                 lambda p, a, g: p - 0.5 * (0.5 * a + g), X, Z, X[::-1].copy()),
    "adam weight decay": (_stepped("AdamWeightDecay", lambda s, g: (*s, 0.5, 0.5, 0.75, 0.125, 0.25, g)), None,
                          X, Z, np.abs(Z), X[::-1].copy()),
}
CALLS = {**LOOKUPS, **SCATTERS, **RANDOM, **LOSSES, **SPECIAL, **FUSED}


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", list(CALLS))
def test_value_and_gradients_are_those_of_one_device_under_every_layout(name, ranks):
    """
    Feature: dispatch of lookups, scatters, losses, attention and optimizer steps.
    Description: the call on every combination of placements of its operands, uneven and empty shards among them.
    Expectation: numpy's value and the gradients of the replicated call, or a refusal; some cut is not refused.
    """
    function, truth, *arrays = CALLS[name]
    right = None if truth is None else truth(*arrays)
    assert right_layouts(function, arrays, ranks, right) >= 2, "nothing but replicas ran"

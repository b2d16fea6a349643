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
"""Losses over a cut vocabulary against numpy on the whole scores: values, gradients, labels, collectives, refusals."""
from __future__ import annotations

import logging

import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops
from mindspore.mint.nn import functional as F

from hyper_parallel import (
    DTensor, LayoutError, Partial, Replicate, Shard, distribute_tensor, implicit_redistribution, init_device_mesh,
    record_collectives, set_gradient_convention, simulate, value_and_grad,
)
from hyper_parallel.core.shard._op_dispatch import STATE
from hyper_parallel.core.tensor_parallel import loss_parallel

RNG = np.random.default_rng(20)
SCORES = RNG.normal(0, 3, (5, 7)) + np.array([0, 0, 0, 0, 0, 9, 0])  # one rank's maximum is far below the other's
LABELS = np.array([0, 6, -100, 3, 5])
WEIGHTS = RNG.uniform(0.5, 2.0, 7)
MESHES = {"tp": ((2,), [Shard(1)], [Replicate()]), "tp of three": ((3,), [Shard(1)], [Replicate()]),
          "dp x tp": ((2, 2), [Shard(0), Shard(1)], [Shard(0), Replicate()]),
          "two cuts": ((2, 2), [Shard(1), Shard(1)], [Replicate(), Replicate()])}


def truth(z, labels, weights, reduction, smoothing=0.0, ignored=-100):
    """Loss, and the gradient of its sum, classes last; by the textbook formulas."""
    soft = np.exp(z - z.max(-1, keepdims=True))
    soft /= soft.sum(-1, keepdims=True)
    kept = (labels != ignored)[..., None]
    chosen = (labels[..., None] == np.arange(z.shape[-1])) * weights
    target = ((1 - smoothing) * chosen + smoothing / z.shape[-1] * weights) * kept
    losses, total = -(target * np.log(soft)).sum(-1), chosen.sum()
    grad = soft * target.sum(-1, keepdims=True) - target
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / total}[reduction], (
        grad / total if reduction == "mean" else grad)


def loss_and_gradient(function, scores):
    """The loss as a DTensor, and the gradient of its sum."""
    with loss_parallel():
        loss = function(scores)
        return loss, value_and_grad(lambda z: function(z).sum())(scores)[1]


@pytest.mark.parametrize("convention, factor", [("single_loss", 1), ("sum_of_ranks", None)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("mesh", MESHES)
def test_cross_entropy_over_cut_classes(mesh, reduction, weighted, convention, factor):
    """
    Feature: loss_parallel.
    Description: mint's cross entropy of 7 classes over 2, 3 and 2 x 2 ranks, one ignored label, with and without class
        weights, every reduction; both conventions.
    Expectation: value and gradient are numpy's; the gradient is cut as the scores; under sum_of_ranks it is N-fold.
    """
    shape, cut, whole = MESHES[mesh]
    weights = WEIGHTS if weighted else np.ones(7)
    right, gradient = truth(SCORES, LABELS, weights, reduction)
    with simulate(int(np.prod(shape))), set_gradient_convention(convention):
        device_mesh = init_device_mesh("cpu", shape)
        z = distribute_tensor(Tensor(SCORES), device_mesh, cut)
        y = distribute_tensor(Tensor(LABELS), device_mesh, whole)
        w = distribute_tensor(Tensor(WEIGHTS), device_mesh, [Replicate()] * len(shape)) if weighted else None
        loss, grad = loss_and_gradient(lambda z: F.cross_entropy(z, y, w, reduction=reduction), z)
        np.testing.assert_allclose(loss.full_tensor().asnumpy(), right, rtol=1e-12)
        assert grad.placements == z.placements
        np.testing.assert_allclose(grad.full_tensor().asnumpy(), gradient * (factor or np.prod(shape)), atol=1e-12)


@pytest.mark.parametrize("name, function", {
    "ops": lambda z, y, w: ops.cross_entropy(z, y, w), "layer": lambda z, y, w: nn.CrossEntropyLoss(w)(z, y),
    "mint layer": lambda z, y, w: mint.nn.CrossEntropyLoss(w)(z, y),
    "log_softmax and nll": lambda z, y, w: F.nll_loss(F.log_softmax(z, 1), y, w),
    "log_softmax of the last": lambda z, y, w: F.nll_loss(F.log_softmax(z, -1), y, w),
}.items())
def test_every_spelling_of_the_loss(name, function):
    """
    Feature: loss_parallel.
    Description: the loss of mint, ops and both layers, and its two halves; weights cut like the classes.
    Expectation: value and gradient are numpy's.
    """
    right, gradient = truth(SCORES, LABELS, WEIGHTS, "mean")
    with simulate(4):
        mesh = init_device_mesh("cpu", (2, 2))
        z = distribute_tensor(Tensor(SCORES.astype("float32")), mesh, [Shard(0), Shard(1)])
        y = distribute_tensor(Tensor(LABELS.astype("int32")), mesh, [Shard(0), Replicate()])
        w = distribute_tensor(Tensor(WEIGHTS.astype("float32")), mesh, [Replicate(), Shard(0)])
        loss, grad = loss_and_gradient(lambda z: function(z, y, w), z)
        np.testing.assert_allclose(loss.full_tensor().asnumpy(), right, rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(grad.full_tensor().asnumpy(), gradient, atol=1e-6)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_label_smoothing_counts_the_whole_vocabulary(reduction):
    """
    Feature: loss_parallel.
    Description: smoothing 0.25 with an ignored label, batch and classes cut.
    Expectation: value and gradient are numpy's: every class of every rank has its share.
    """
    right, gradient = truth(SCORES, LABELS, np.ones(7), reduction, 0.25)
    with simulate(4):
        mesh = init_device_mesh("cpu", (2, 2))
        z = distribute_tensor(Tensor(SCORES), mesh, [Shard(0), Shard(1)])
        y = distribute_tensor(Tensor(LABELS), mesh, [Shard(0), Replicate()])
        loss, grad = loss_and_gradient(
            lambda z: F.cross_entropy(z, y, reduction=reduction, label_smoothing=0.25), z)
        # The framework rounds 0.25 / 7 to float32.
        np.testing.assert_allclose(loss.full_tensor().asnumpy(), right, rtol=1e-7)
        np.testing.assert_allclose(grad.full_tensor().asnumpy(), gradient, atol=1e-7)


@pytest.mark.parametrize("shape", [(7,), (3, 7, 2), (3, 7, 2, 2)])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_scores_of_other_ranks(shape, reduction):
    """
    Feature: loss_parallel.
    Description: a single position, a sequence and an image of positions, classes in dimension 0 or 1.
    Expectation: value and gradient are numpy's, the loss has the shape of the labels or none.
    """
    at = 0 if len(shape) == 1 else 1
    scores = RNG.normal(size=shape)
    labels = RNG.integers(0, 7, shape[:at] + shape[at + 1:])
    right, gradient = truth(np.moveaxis(scores, at, -1), labels, np.ones(7), reduction)
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        z = distribute_tensor(Tensor(scores), mesh, [Shard(at)])
        y = distribute_tensor(Tensor(labels), mesh, [Replicate()])
        loss, grad = loss_and_gradient(lambda z: F.cross_entropy(z, y, reduction=reduction), z)
        np.testing.assert_allclose(loss.full_tensor().asnumpy(), right, rtol=1e-12)
        np.testing.assert_allclose(grad.full_tensor().asnumpy(), np.moveaxis(gradient, -1, at), atol=1e-12)


def test_distributions_as_targets():
    """
    Feature: loss_parallel.
    Description: targets are distributions over the cut classes.
    Expectation: the mean loss over rows, and its gradient, are numpy's.
    """
    target = RNG.dirichlet(np.ones(7), 5)
    soft = np.exp(SCORES) / np.exp(SCORES).sum(1, keepdims=True)
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        z, t = (distribute_tensor(Tensor(a), mesh, [Shard(1)]) for a in (SCORES, target))
        loss, grad = loss_and_gradient(lambda z: F.cross_entropy(z, t), z)
        np.testing.assert_allclose(loss.full_tensor().asnumpy(), -(target * np.log(soft)).sum() / 5, rtol=1e-12)
        np.testing.assert_allclose(grad.full_tensor().asnumpy(), (soft - target) / 5, atol=1e-12)


def test_the_gradient_of_another_log_softmax_is_its_own():
    """
    Feature: loss_parallel.
    Description: log_softmax of cut scores that no likelihood follows, weighted by a cotangent.
    Expectation: cotangent minus softmax times its sum, not an identity.
    """
    g = RNG.normal(size=SCORES.shape)
    soft = np.exp(SCORES) / np.exp(SCORES).sum(1, keepdims=True)
    with simulate(2), loss_parallel():
        mesh = init_device_mesh("cpu", (2,))
        z, c = (distribute_tensor(Tensor(a), mesh, [Shard(1)]) for a in (SCORES, g))
        grad = value_and_grad(lambda z: (F.log_softmax(z, 1) * c).sum())(z)[1]
        np.testing.assert_allclose(grad.full_tensor().asnumpy(), g - soft * g.sum(1, keepdims=True), atol=1e-12)


def test_pending_scores_are_reduced_first():
    """
    Feature: loss_parallel.
    Description: scores that are still a sum over one axis and cut over the other.
    Expectation: the loss of the whole scores; the gradient of an addend is that of the sum.
    """
    right, gradient = truth(SCORES, LABELS, np.ones(7), "sum")
    part = RNG.normal(size=SCORES.shape)
    with simulate(4):
        mesh = init_device_mesh("cpu", (2, 2))
        parts = [a[:, cut] for a in (part, SCORES - part) for cut in (slice(0, 4), slice(4, 7))]
        z = DTensor.from_local([Tensor(p) for p in parts], mesh, [Partial(), Shard(1)], shape=SCORES.shape)
        y = distribute_tensor(Tensor(LABELS), mesh, [Replicate(), Replicate()])
        loss, grad = loss_and_gradient(lambda z: F.cross_entropy(z, y, reduction="sum"), z)
        np.testing.assert_allclose(loss.full_tensor().asnumpy(), right, rtol=1e-12)
        np.testing.assert_allclose(grad.full_tensor().asnumpy(), gradient, atol=1e-12)


def test_nothing_of_the_vocabulary_is_moved(caplog):
    """
    Feature: loss_parallel.
    Description: the collectives of value and gradient of a mean loss of 5 rows and 700 classes.
    Expectation: all-reduces alone, none with more than 5 elements.
    """
    with simulate(2), loss_parallel(), caplog.at_level(logging.INFO, "hyper_parallel.loss_parallel"):
        mesh = init_device_mesh("cpu", (2,))
        z = distribute_tensor(Tensor(np.tile(SCORES, 100)), mesh, [Shard(1)])
        y = distribute_tensor(Tensor(LABELS), mesh, [Replicate()])
        with record_collectives() as moved:
            value_and_grad(lambda z: F.cross_entropy(z, y))(z)
        assert moved and all(c.op == "all_reduce" and np.prod(c.shape) <= 5 for c in moved), moved
        ops.cross_entropy(z, y)
    assert "SubExt: an operand of shape (5, 1) is reduced from" in caplog.text


def test_outside_the_block_it_is_refused_with_the_way_out():
    """
    Feature: cross entropy of cut classes.
    Description: outside of loss_parallel, inside and after it, and after an error inside.
    Expectation: a ValueError that names loss_parallel; inside it runs; nothing of the block stays.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        z = distribute_tensor(Tensor(SCORES), mesh, [Shard(1)])
        y = distribute_tensor(Tensor(LABELS), mesh, [Replicate()])
        for _ in range(2):
            with pytest.raises(ValueError, match=r"with loss_parallel\(\)"):
                F.cross_entropy(z, y)
            with pytest.raises(RuntimeError), loss_parallel():
                F.cross_entropy(z, y)
                raise RuntimeError
        assert STATE.remedies == ()


@pytest.mark.parametrize("labels, weights", [([1], 7), ([1, 2, 3, 4, 5, 6], 7), ([[1]] * 5, 7), ([0] * 5, 6)])
def test_shapes_that_do_not_fit_are_refused(labels, weights):
    """
    Feature: loss_parallel.
    Description: too few, too many and nested labels, and a weight too few, for 5 rows of 7 cut classes.
    Expectation: refused, not broadcast.
    """
    with simulate(2), loss_parallel():
        mesh = init_device_mesh("cpu", (2,))
        z = F.log_softmax(distribute_tensor(Tensor(SCORES), mesh, [Shard(1)]), 1)
        y, w = (distribute_tensor(Tensor(a), mesh, [Replicate()]) for a in (np.array(labels), np.ones(weights)))
        with pytest.raises((LayoutError, ValueError)):
            F.nll_loss(z, y, w)


def test_other_refusals_stay():
    """
    Feature: loss_parallel.
    Description: a softmax of cut scores, a mask from data, and an implicit redistribution around the block.
    Expectation: refused as ever inside; redistributed where the outer block says so.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        z = distribute_tensor(Tensor(SCORES), mesh, [Shard(1)])
        with loss_parallel(), pytest.raises(LayoutError, match="must be whole"):
            F.softmax(z, 1)
        with implicit_redistribution(), loss_parallel():
            soft = F.softmax(z, 1)
        assert soft.placements != z.placements
        np.testing.assert_allclose(soft.full_tensor().asnumpy().sum(1), 1, rtol=1e-12)

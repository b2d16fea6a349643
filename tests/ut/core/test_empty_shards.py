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
"""Ranks that hold nothing: values and gradients stay exact, and nothing that such a rank computes spreads to others."""

import numpy as np
import pytest
from mindspore import mint

from hyper_parallel import Replicate, Shard, distribute_tensor, init_device_mesh, simulate, value_and_grad
from tests.common.tensors import value_of

X = np.array([[1.0, 2.0, 4.0, -8.0]], "float32")  # one row: all ranks but the first are empty
W = np.array([[2.0, 0.0, -1.0], [1.0, 3.0, 0.0], [0.0, 1.0, 2.0], [4.0, 0.0, 1.0]], "float32")
V = np.array([2.0, 4.0, -1.0, 8.0], "float32")


CASES = {
    "matmul": (mint.matmul, W, lambda g: (g @ W.T, X.T @ g)),
    "add": (mint.add, V, lambda g: (g, g.sum(0))),
    "mul": (mint.mul, V, lambda g: (g * V, (g * X).sum(0))),
    "div": (mint.div, V, lambda g: (g / V, (-g * X / V / V).sum(0))),
    "linear": (mint.nn.functional.linear, np.ascontiguousarray(W.T), lambda g: (g @ W.T, g.T @ X)),
}


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", list(CASES))
def test_gradients_are_exact_when_ranks_are_empty(name, ranks):
    """
    Feature: empty shards.
    Description: one row cut over several ranks meets a replica; loss is the sum of the result, three times in a row.
    Expectation: value and both gradients exactly those of one device, on every rank.
    """
    function, other, vjp = CASES[name]
    with simulate(ranks):
        mesh = init_device_mesh("cpu", (ranks,))
        x, w = distribute_tensor(X, mesh, [Shard(0)]), distribute_tensor(other, mesh, [Replicate()])
        for _ in range(3):
            value, (gx, gw) = value_and_grad(lambda x, w: function(x, w).sum(), (0, 1))(x, w)
            out = value_of(function(x, w))
            want = vjp(np.ones_like(out))
            assert value.item() == out.sum()
            assert np.array_equal(value_of(gx), want[0]) and np.array_equal(value_of(gw), want[1])


def test_a_singular_replica_does_not_turn_empty_ranks_into_nan():
    """
    Feature: empty shards.
    Description: x / v where v holds infinity; all ranks but the first are empty.
    Expectation: v's gradient is zero there, not nan.
    """
    v = np.array([2.0, np.inf, 1.0, 4.0], "float32")
    with simulate(4):
        mesh = init_device_mesh("cpu", (4,))
        x, w = distribute_tensor(X, mesh, [Shard(0)]), distribute_tensor(v, mesh, [Replicate()])
        _, g = value_and_grad(lambda w: (x / w).sum())(w)
        assert np.array_equal(value_of(g), np.array([-0.25, -0.0, -4.0, 0.5], "float32"))


@pytest.mark.parametrize(
    "reduce, want", [(mint.sum, X[0]), (mint.amax, X[0]), (mint.amin, X[0]), (mint.mean, X[0]), (mint.prod, X[0])]
)
def test_reducing_an_empty_dimension_gives_the_identity(reduce, want):
    """
    Feature: empty shards.
    Description: sum, max, min, mean and product over the cut dimension of which most ranks hold nothing.
    Expectation: the value of one device.
    """
    with simulate(4):
        x = distribute_tensor(X, init_device_mesh("cpu", (4,)), [Shard(0)])
        assert np.array_equal(value_of(reduce(x, 0)), want)


def test_contracting_an_empty_dimension_gives_zero_addends():
    """
    Feature: empty shards.
    Description: x @ w contracted over a dimension of size 2 on 4 ranks, with a bias.
    Expectation: value and gradients exact.
    """
    x, w, b = X[:, :2], np.ascontiguousarray(W[:2].T), np.array([5.0, -3.0, 1.0], "float32")
    with simulate(4):
        mesh = init_device_mesh("cpu", (4,))
        args = [
            distribute_tensor(x, mesh, [Shard(1)]),
            distribute_tensor(w, mesh, [Shard(1)]),
            distribute_tensor(b, mesh, [Replicate()]),
        ]
        value, grads = value_and_grad(lambda *a: mint.nn.functional.linear(*a).reduce_partial().sum(), (0, 1, 2))(
            *args
        )
        ones = np.ones((1, 3), "float32")
        assert value.item() == (x @ w.T + b).sum()
        for g, want in zip(grads, (ones @ w, ones.T @ x, ones.sum(0))):
            assert np.array_equal(value_of(g), want)


PRODUCTS = {
    "batch": (mint.matmul, (1, 1, 2), (2, 3), [Shard(0)], [Replicate()]),
    "row": (mint.matmul, (1, 1, 2), (2, 3), [Shard(1)], [Replicate()]),
    "row and batch": (mint.matmul, (1, 1, 2), (2, 3), [Shard(1), Shard(0)], [Replicate(), Replicate()]),
    "batch and row": (mint.matmul, (1, 1, 2), (2, 3), [Shard(0), Shard(1)], [Replicate(), Replicate()]),
    "row of bmm": (mint.bmm, (1, 1, 3), (1, 3, 2), [Shard(1)], [Replicate()]),
    "batch of bmm": (mint.bmm, (1, 1, 3), (1, 3, 2), [Shard(0)], [Shard(0)]),
    "row and batch of bmm": (mint.bmm, (1, 1, 3), (1, 3, 2), [Shard(1), Shard(0)], [Replicate(), Shard(0)]),
}


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", list(PRODUCTS))
def test_gradients_of_batches_of_one_when_ranks_are_empty(name, ranks):
    """
    Feature: empty shards.
    Description: a product whose only batch, or only row, is on one rank; elsewhere a slice stands in for it, and the
        framework's own backward is wrong for one batch.
    Expectation: value and both gradients exactly those of one device.
    """
    function, left, right, cut, other = PRODUCTS[name]
    a, b = (np.arange(1.0, np.prod(s) + 1).reshape(s) * (-1) ** np.arange(np.prod(s)).reshape(s) for s in (left, right))
    g = np.ones_like(a @ b)
    grad_b = np.swapaxes(a, -1, -2) @ g
    with simulate(ranks ** len(cut)):
        mesh = init_device_mesh("cpu", (ranks,) * len(cut))
        x, w = distribute_tensor(a, mesh, cut), distribute_tensor(b, mesh, other)
        value, (gx, gw) = value_and_grad(lambda x, w: function(x, w).sum(), (0, 1))(x, w)
        assert value.item() == (a @ b).sum()
        assert np.array_equal(value_of(gx), g @ np.swapaxes(b, -1, -2))
        assert np.array_equal(value_of(gw), grad_b if b.ndim == 3 else grad_b.sum(0))

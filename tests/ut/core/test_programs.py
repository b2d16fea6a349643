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
"""Whole programs on simulated ranks: LoRA chains, parallel products, training steps; values, gradients, collectives."""

import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint

from hyper_parallel import (
    DTensor, Partial, PartialError, Replicate, Shard, implicit_replication, init_device_mesh, record_collectives,
    set_gradient_convention, simulate, value_and_grad,
)
from tests.common.tensors import put

R_, DIN, DOUT, BS = 8, 16, 32, 4


def _ints(seed, *shape):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype("float32")


X, A, B, G, W0 = _ints(0, BS, DIN), _ints(1, R_, DIN), _ints(2, DOUT, R_), _ints(3, BS, DOUT), _ints(4, DOUT, DIN)


def _full(tensor):
    """The value, checked to be equal on every rank."""
    parts = [
        p.asnumpy()
        for p in tensor.redistribute(tensor.device_mesh, [Replicate()] * tensor.device_mesh.ndim).to_local()
    ]
    assert all(np.array_equal(p, parts[0]) for p in parts)
    return parts[0]


def _ops(log, phase):
    return [c.op for c in log if c.phase == phase]


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("early", [False, True])
def test_lora_chain_is_exact_with_one_collective_each_way(ranks, early):
    """
    Feature: the reported program.
    Description: (x @ A.T) @ B.T with x and A cut on the contracted dim, reduced late or early, on 2, 3, 4 and 8 ranks.
    Expectation: value and gradients exactly those of one device; one all-reduce forward, one backward at most.
    """
    with simulate(ranks):
        mesh = init_device_mesh("npu", (ranks,), mesh_dim_names=("tp",))
        x, a, b, g = (
            put(mesh, X, Shard(1)),
            put(mesh, A, Shard(1)),
            put(mesh, B, Replicate()),
            put(mesh, G, Replicate()),
        )

        def loss(x, a, b):
            tmp = mint.matmul(x, mint.transpose(a, 1, 0))
            assert tmp.placements == (Partial("sum"),)
            tmp = tmp.reduce_partial() if early else tmp
            out = mint.matmul(tmp, mint.transpose(b, 1, 0))
            assert out.placements == ((Replicate() if early else Partial("sum")),)
            return (out.redistribute(device_mesh=mesh, placements=(Replicate(),)) * g).sum()

        with record_collectives() as log:
            value, (gx, ga, gb) = value_and_grad(loss, (0, 1, 2))(x, a, b)
        assert value.item() == (X @ A.T @ B.T * G).sum()
        assert np.array_equal(_full(gx), G @ B @ A) and gx.placements == (Shard(1),)
        assert np.array_equal(_full(ga), (G @ B).T @ X) and ga.placements == (Shard(1),)
        assert np.array_equal(_full(gb), G.T @ (X @ A.T)) and gb.placements == (Replicate(),)
        assert _ops(log, "forward") == ["all_reduce"]
        assert _ops(log, "backward") == ([] if early else ["all_reduce"])


def test_three_column_products_of_one_replica_cost_one_backward_all_reduce():
    """
    Feature: the varying form of a replica.
    Description: x @ Wq, x @ Wk, x @ Wv with x replicated and the weights cut by columns; three steps in a row.
    Expectation: one all-reduce in backward for x, exact gradients, in every step.
    """
    weights = [_ints(10 + i, DIN, 8) for i in range(3)]
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        x = put(mesh, X, Replicate())
        ws = [put(mesh, w, Shard(1)) for w in weights]

        def loss(x, *ws):
            return sum((mint.matmul(x, w) * (i + 1)).sum() for i, w in enumerate(ws))

        for _ in range(3):
            with record_collectives() as log:
                _, (gx, *gws) = value_and_grad(loss, (0, 1, 2, 3))(x, *ws)
            assert _ops(log, "backward") == ["all_reduce"]
            want = sum((i + 1) * np.ones((BS, 8), "float32") @ w.T for i, w in enumerate(weights))
            assert np.array_equal(_full(gx), want)
            for i, gw in enumerate(gws):
                assert np.array_equal(_full(gw), (i + 1) * X.T @ np.ones((BS, 8), "float32"))


def test_lora_layer_with_base_and_adapter_partial_costs_one_forward_all_reduce():
    """
    Feature: sums of pending tensors.
    Description: x @ W0.T + (x @ A.T) @ B.T, row-wise: base and adapter are both Partial.
    Expectation: the sum stays Partial, one all-reduce forward in all, value and gradients exact.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        x, w, a = (put(mesh, t, Shard(1)) for t in (X, W0, A))
        b = put(mesh, B, Replicate())

        def loss(x, w, a, b):
            out = mint.nn.functional.linear(x, w) + mint.matmul(mint.matmul(x, a.T), b.T) * 2.0
            assert out.placements == (Partial("sum"),)
            return (out.reduce_partial() * put(mesh, G, Replicate())).sum()

        with record_collectives() as log:
            value, (gx, gw, ga, gb) = value_and_grad(loss, (0, 1, 2, 3))(x, w, a, b)
        assert _ops(log, "forward") == ["all_reduce"]
        assert value.item() == ((X @ W0.T + 2 * X @ A.T @ B.T) * G).sum()
        assert np.array_equal(_full(gx), G @ W0 + 2 * G @ B @ A)
        assert np.array_equal(_full(gw), G.T @ X)
        assert np.array_equal(_full(ga), 2 * (G @ B).T @ X)
        assert np.array_equal(_full(gb), 2 * G.T @ (X @ A.T))


@pytest.mark.parametrize("ranks", [2, 3])
def test_row_parallel_linear_counts_its_bias_once(ranks):
    """
    Feature: bias on a pending product.
    Description: linear(x, W, b) with x and W cut on the contracted dim, b replicated.
    Expectation: the value and the gradients of x, W and b are exactly those of one device: no 1/N, no N.
    """
    bias = _ints(5, DOUT)
    with simulate(ranks):
        mesh = init_device_mesh("cpu", (ranks,))
        x, w, b, g = (
            put(mesh, X, Shard(1)),
            put(mesh, W0, Shard(1)),
            put(mesh, bias, Replicate()),
            put(mesh, G, Replicate()),
        )

        def loss(x, w, b):
            return (mint.nn.functional.linear(x, w, b).reduce_partial() * g).sum()

        value, (gx, gw, gb) = value_and_grad(loss, (0, 1, 2))(x, w, b)
        assert value.item() == ((X @ W0.T + bias) * G).sum()
        assert np.array_equal(_full(gx), G @ W0)
        assert np.array_equal(_full(gw), G.T @ X)
        assert np.array_equal(_full(gb), G.sum(0))


def test_a_replica_on_a_two_axis_mesh_gets_its_complete_gradient():
    """
    Feature: conversions on several mesh axes.
    Description: data and tensor parallel LoRA on (dp, tp): x [S(0), S(1)], A [R, S(1)], B [R, R]; loss on a shard.
    Expectation: exact gradients with the labels of their tensors.
    """
    with simulate(4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        x, a, b = (
            put(mesh, X, Shard(0), Shard(1)),
            put(mesh, A, Replicate(), Shard(1)),
            put(mesh, B, Replicate(), Replicate()),
        )
        g = put(mesh, G, Shard(0), Replicate())

        def loss(x, a, b):
            out = mint.matmul(mint.matmul(x, a.T), b.T)
            assert out.placements == (Shard(0), Partial("sum"))
            return (out.redistribute(mesh, [Shard(0), Replicate()]) * g).sum()

        value, (gx, ga, gb) = value_and_grad(loss, (0, 1, 2))(x, a, b)
        assert value.item() == (X @ A.T @ B.T * G).sum()
        assert np.array_equal(_full(gx), G @ B @ A) and np.array_equal(_full(ga), (G @ B).T @ X)
        assert np.array_equal(_full(gb), G.T @ (X @ A.T))
        assert (gx.placements, ga.placements, gb.placements) == (x.placements, a.placements, b.placements)


def test_sum_of_ranks_parts_of_a_replica_add_up():
    """
    Feature: the sum_of_ranks convention.
    Description: the LoRA chain with every rank's replicated loss seeded with 1: the sum over 2 ranks counts it twice.
    Expectation: gradients through their labels are exactly 2 times the single-device ones; B's is Partial(sum).
    """
    with simulate(2), set_gradient_convention("sum_of_ranks"):
        mesh = init_device_mesh("cpu", (2,))
        x, a, b, g = (
            put(mesh, X, Shard(1)),
            put(mesh, A, Shard(1)),
            put(mesh, B, Replicate()),
            put(mesh, G, Replicate()),
        )

        def loss(x, a, b):
            return (mint.matmul(mint.matmul(x, a.T), b.T).reduce_partial() * g).sum()

        _, (gx, ga, gb) = value_and_grad(loss, (0, 1, 2))(x, a, b)
        assert gb.placements == (Partial("sum"),)
        assert np.array_equal(_full(gx), 2 * G @ B @ A) and np.array_equal(_full(ga), 2 * (G @ B).T @ X)
        assert np.array_equal(_full(gb), 2 * G.T @ (X @ A.T))


def test_a_partial_reduced_twice_is_reduced_once():
    """
    Feature: remembered reductions.
    Description: the same Partial reduced twice, changed in place in between, then evaluated and trained.
    Expectation: one collective for two uses; a fresh one after an update; gradients are right after an evaluation.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        parts = [Tensor([1.0, 2.0]), Tensor([3.0, -5.0])]
        x = DTensor.from_local(parts, mesh, [Partial()], shape=(2,))
        with record_collectives() as log:
            assert _full(x.reduce_partial()).tolist() == [4.0, -3.0] and _full(x.reduce_partial()).tolist() == [
                4.0,
                -3.0,
            ]
        assert len(log) == 1
        x += x
        with record_collectives() as log:
            assert _full(x.reduce_partial()).tolist() == [8.0, -6.0]
        assert len(log) == 1
        r = x.reduce_partial()
        r += 1
        assert _full(x.reduce_partial()).tolist() == [8.0, -6.0]
        for _ in range(3):
            _, g = value_and_grad(lambda x: (x.reduce_partial() * x.reduce_partial()).sum())(x)
            assert _full(g).tolist() == [16.0, -12.0]


def test_an_update_through_a_view_ends_what_is_remembered():
    """
    Feature: remembered reductions.
    Description: a Partial reduced, changed through a view of it, through its local alias, and reduced again.
    Expectation: the second reduction sees the change.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        x = DTensor.from_local([Tensor([[1.0, 2.0]]), Tensor([[3.0, -5.0]])], mesh, [Partial()], shape=(1, 2))
        assert _full(x.reduce_partial()).tolist() == [[4.0, -3.0]]
        x.reshape(2)[0:1] = x.reshape(2)[1:2]
        assert _full(x.reduce_partial()).tolist() == [[-3.0, -3.0]]
        x.to_local(partial_ok=True)[0][0, 0] = 100.0
        assert _full(x.reduce_partial()).tolist() == [[95.0, -3.0]]


def test_an_opted_in_plain_replica_gets_its_complete_gradient():
    """
    Feature: implicit_replication.
    Description: a plain weight next to an input cut by rows, differentiated with respect to the weight.
    Expectation: exactly the gradient of one device.
    """
    w = Tensor(_ints(6, DIN, 2))
    with simulate(2), implicit_replication():
        x = put(init_device_mesh("cpu", (2,)), X, Shard(0))
        _, g = value_and_grad(lambda w: mint.matmul(x, w).sum())(w)
        assert np.array_equal(g.asnumpy(), X.T @ np.ones((BS, 2), "float32"))


def test_training_steps_of_parameters_follow_one_device():
    """
    Feature: Parameter(DTensor).
    Description: three steps of gradient descent on x @ w with w replicated and x cut by rows; evaluation in between.
    Expectation: gradients and parameters are exactly those of one device after every step.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        w_true = _ints(6, DIN, 2)
        w = Parameter(put(mesh, w_true, Replicate()), name="w")
        x = put(mesh, X, Shard(0))
        for _ in range(3):
            mint.matmul(x, w).sum()
            _, (g,) = value_and_grad(lambda x: mint.matmul(x, w).sum(), None, [w])(x)
            want = X.T @ np.ones((BS, 2), "float32")
            assert np.array_equal(_full(g), want) and g.placements == (Replicate(),)
            w -= g
            w_true = w_true - want
            assert np.array_equal(_full(w), w_true)


def test_a_pending_tensor_is_not_read_silently():
    """
    Feature: to_local, item, float, asnumpy of a Partial.
    Description: each on an unreduced tensor.
    Expectation: PartialError that names reduce_partial(); partial_ok=True gives the addend.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        x = DTensor.from_local([Tensor(1.0), Tensor(2.0)], mesh, [Partial()])
        for read in (lambda: x.to_local(), lambda: x.item(), lambda: float(x), lambda: x.asnumpy()):
            with pytest.raises(PartialError, match="reduce_partial"):
                read()
        assert [v.item() for v in x.to_local(partial_ok=True)] == [1.0, 2.0]
        assert "unreduced" in repr(x)


@pytest.mark.parametrize("cut", ["batch", "contraction"])
def test_batched_products_differentiate_when_a_rank_holds_a_batch_of_one(cut):
    """
    Feature: local products of shapes that the framework's own backward refuses.
    Description: (2, 3, 1) @ (2, 1, 4) with the batch cut, (1, 3, 2) @ (1, 2, 4) with the contraction cut.
    Expectation: value and gradients exactly those of one device.
    """
    x, w = (_ints(0, 2, 3, 1), _ints(1, 2, 1, 4)) if cut == "batch" else (_ints(0, 1, 3, 2), _ints(1, 1, 2, 4))
    dims = (0, 0) if cut == "batch" else (2, 1)
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        operands = [put(mesh, t, Shard(d)) for t, d in zip((x, w), dims)]
        value, grads = value_and_grad(lambda x, w: mint.matmul(x, w).reduce_partial().sum(), (0, 1))(*operands)
        ones = np.ones((x.shape[0], 3, 4), "float32")
        assert value.redistribute(mesh, [Replicate()]).item() == (x @ w).sum()
        assert np.array_equal(_full(grads[0]), ones @ w.transpose(0, 2, 1))
        assert np.array_equal(_full(grads[1]), x.transpose(0, 2, 1) @ ones)

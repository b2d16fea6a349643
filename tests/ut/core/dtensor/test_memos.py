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
"""Remembered forms: a reduction and a varying replica are made once per recording and version, never used after."""
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint
from mindspore.common.api import _no_grad

from hyper_parallel import (
    DTensor, Partial, Replicate, Shard, init_device_mesh, record_collectives, set_gradient_convention, simulate,
    value_and_grad,
)
from tests.common.tensors import put, value_of
from tests.ut.core.dtensor.memo_data import A, B, SUM, W, X, count, pending

R, S, P = Replicate(), Shard, Partial

# -- how many collectives --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("convention, backward", [("single_loss", []), ("sum_of_ranks", ["all_reduce"])])
def test_a_sum_used_three_times_is_reduced_once_in_each_of_three_steps(mesh, convention, backward):
    """
    Feature: remembered reductions.
    Description: three uses of one pending sum in one loss, three steps in a row, in both conventions.
    Expectation: one all-reduce forward per step, as few backward as the convention needs; the right gradient each
        time.
    """
    x = pending(mesh)

    def loss(x):
        return sum((x.reduce_partial() * x.reduce_partial()).sum() * k for k in (1.0, 2.0, 3.0))

    with set_gradient_convention(convention):
        for _ in range(3):
            with record_collectives() as log:
                value, g = value_and_grad(loss)(x)
            assert count(log, "forward") == ["all_reduce"] and count(log, "backward") == backward
            assert value.item() == 6 * (SUM ** 2).sum()
            assert np.array_equal(value_of(g), 12 * SUM * (1 if convention == "single_loss" else 2))


def test_a_replica_of_four_consumers_costs_one_backward_reduction_in_each_of_three_steps(mesh):
    """
    Feature: the varying form of a replica.
    Description: x @ w cut by columns three times and x * a shard once, three steps in a row, evaluated in
        between.
    Expectation: one backward all-reduce per step; exact gradients; evaluation costs nothing.
    """
    x, w = put(mesh, X, R), put(mesh, W, S(1))

    def loss(x):
        return sum(mint.matmul(x, w).sum() * k for k in (1.0, 2.0, 3.0)) + mint.matmul(x, w).sum()

    for _ in range(3):
        with record_collectives() as log:
            loss(x)
        assert log == []
        with record_collectives() as log:
            _, g = value_and_grad(loss)(x)
        assert count(log, "backward") == ["all_reduce"] and count(log, "forward") == ["all_reduce"]
        assert np.array_equal(value_of(g), 7 * np.ones((2, 4), "float32") @ W.T) and g.placements == (R,)


def test_forms_of_other_axes_are_other_forms():
    """
    Feature: the varying form of a replica.
    Description: on (2, 2) a replica meets cuts along dp, along tp and along both, twice each.
    Expectation: dp and tp are reduced once each for their own form, and once each for the joint one; exact
        gradient.
    """
    with simulate(4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        x = put(mesh, X, R, R)
        dp, tp, both = put(mesh, W, S(1), R), put(mesh, W, R, S(1)), put(mesh, W, S(1), S(1))

        def loss(x):
            return sum(mint.matmul(x, w).sum().reduce_partial() for w in (dp, tp, both) * 2)

        with record_collectives() as log:
            _, g = value_and_grad(loss)(x)
        assert sorted(c.axis for c in log if c.phase == "backward") == ["dp", "dp", "tp", "tp"]
        assert np.array_equal(value_of(g), 6 * np.ones((2, 4), "float32") @ W.T)


def test_targets_are_remembered_apart(mesh):
    """
    Feature: remembered reductions.
    Description: one pending sum reduced to a replica and to a shard, twice each, in one loss.
    Expectation: one all-reduce and one reduce-scatter; both count in the gradient.
    """
    def loss(x):
        return sum(x.reduce_partial().sum() + x.redistribute(mesh, [S(0)]).sum().reduce_partial() * 10
                   for _ in range(2))

    with record_collectives() as log:
        _, g = value_and_grad(loss)(pending(mesh))
    assert sorted(c.op for c in log if c.phase == "forward")[-1] == "reduce_scatter"
    assert count(log).count("reduce_scatter") == 1
    assert np.array_equal(value_of(g), np.full(3, 22.0))


def test_without_gradients_a_sum_is_reduced_once_per_version(mesh):
    """
    Feature: remembered reductions.
    Description: reduce_partial, redistribute and full_tensor of one pending sum outside any recording.
    Expectation: one collective in all, the same value.
    """
    x = pending(mesh)
    with record_collectives() as log:
        got = [value_of(x.reduce_partial()), value_of(x.redistribute(mesh, [R])), x.full_tensor().asnumpy(),
               value_of(x.reduce_partial())]
    assert count(log) == ["all_reduce"] and all(np.array_equal(v, SUM) for v in got)


# -- when a form must not be used again ------------------------------------------------------------------------------


def test_evaluate_then_train_then_evaluate(mesh):
    """
    Feature: memos and gradient modes.
    Description: reduced without gradients, then inside a recording, then without again; a replica likewise.
    Expectation: the recording makes its own form: gradients are not cut off.
    """
    x, w, r = pending(mesh), put(mesh, W, S(1)), put(mesh, X, R)

    def loss(x, r):
        return (x.reduce_partial() ** 2).sum() + mint.matmul(r, w).sum().reduce_partial()

    for _ in range(2):
        assert np.array_equal(value_of(x.reduce_partial()), SUM) and np.array_equal(value_of(mint.matmul(r, w)), X @ W)
        _, (gx, gr) = value_and_grad(loss, (0, 1))(x, r)
        assert np.array_equal(value_of(gx), 2 * SUM) and np.array_equal(value_of(gr), np.ones((2, 4), "float32") @ W.T)


def test_evaluation_inside_a_recording_does_not_cut_gradients_off(mesh):
    """
    Feature: memos and gradient modes.
    Description: a pending sum reduced under no_grad inside the differentiated function, then with gradients.
    Expectation: the second use has its gradient; and the other way round the first one keeps it.
    """
    def before(x):
        with _no_grad():
            x.reduce_partial()
        return (x.reduce_partial() ** 2).sum()

    def after(x):
        y = (x.reduce_partial() ** 2).sum()
        with _no_grad():
            x.reduce_partial()
        return y + x.reduce_partial().sum()

    assert np.array_equal(value_of(value_and_grad(before)(pending(mesh))[1]), 2 * SUM)
    assert np.array_equal(value_of(value_and_grad(after)(pending(mesh))[1]), 2 * SUM + 1)


def test_new_data_of_a_parameter_is_seen(mesh):
    """
    Feature: memos of parameters.
    Description: a pending and a replicated parameter used, given new data, updated, used again with and without
        gradients.
    Expectation: values and gradients of the new data.
    """
    p = Parameter(pending(mesh), name="p")
    p.reduce_partial()
    p.set_data(put(mesh, 3 * A, P()))
    assert np.array_equal(value_of(p.reduce_partial()), 3 * A)
    r, w = Parameter(put(mesh, X, R), name="r"), put(mesh, W, S(1))

    def loss():
        return mint.matmul(r, w).sum() + mint.matmul(r, w).sum()

    for factor in (1, 2, 4):
        value, (g,) = value_and_grad(loss, None, [r])()
        assert value.item() == 2 * factor * (X @ W).sum()
        assert np.array_equal(value_of(g), 2 * np.ones((2, 4), "float32") @ W.T)
        r += r


def test_an_exception_in_a_recording_leaves_nothing_behind(mesh):
    """
    Feature: memos and failed steps.
    Description: the function raises after it reduced and used a replica; then the step is run again, three times
        over.
    Expectation: the right value and gradients afterwards, with the usual number of collectives.
    """
    x, r, w = pending(mesh), put(mesh, X, R), put(mesh, W, S(1))

    def loss(x, r, fail):
        total = (x.reduce_partial() ** 2).sum() + mint.matmul(r, w).sum().reduce_partial()
        if fail:
            raise KeyError("fault in the middle of a step")
        return total

    for _ in range(3):
        with pytest.raises(KeyError, match="middle"):
            value_and_grad(loss, (0, 1))(x, r, True)
        with record_collectives() as log:
            value, (gx, gr) = value_and_grad(loss, (0, 1))(x, r, False)
        assert value.item() == (SUM ** 2).sum() + (X @ W).sum() and count(log, "backward") == ["all_reduce"]
        assert np.array_equal(value_of(gx), 2 * SUM) and np.array_equal(value_of(gr), np.ones((2, 4), "float32") @ W.T)
        assert np.array_equal(value_of(x.reduce_partial()), SUM)


def test_an_exception_of_a_refused_operation_leaves_nothing_behind(mesh):
    """
    Feature: memos and failed steps.
    Description: an operation is refused inside the recording.
    Expectation: the next step is right.
    """
    x = pending(mesh)
    for _ in range(2):
        with pytest.raises(ValueError):
            value_and_grad(lambda x: (x.reduce_partial() + mint.nn.functional.gelu(x)).sum())(x)
        value, g = value_and_grad(lambda x: (x.reduce_partial() ** 2).sum())(x)
        assert value.item() == (SUM ** 2).sum() and np.array_equal(value_of(g), 2 * SUM)


def test_conventions_have_forms_of_their_own(mesh):
    """
    Feature: memos and conventions.
    Description: the same tensors differentiated and evaluated under one convention, then the other, and back.
    Expectation: each step has the gradients of its convention.
    """
    x, r, w = pending(mesh), put(mesh, X, R), put(mesh, W, S(1))
    ones = np.ones((2, 4), "float32") @ W.T

    def loss(x, r):
        return (x.reduce_partial() ** 2).sum() + mint.matmul(r, w).sum().reduce_partial()

    for convention, factor in (("single_loss", 1), ("sum_of_ranks", 2), ("single_loss", 1), ("sum_of_ranks", 2)):
        with set_gradient_convention(convention):
            loss(x, r)
            _, (gx, gr) = value_and_grad(loss, (0, 1))(x, r)
            assert np.array_equal(value_of(gx), 2 * factor * SUM) and np.array_equal(value_of(gr), factor * ones)
            assert gr.placements == ((R,) if factor == 1 else (P(),))


def test_conventions_inside_one_recording_do_not_mix(mesh):
    """
    Feature: memos and conventions.
    Description: inside one differentiated function, the same sum reduced under each convention.
    Expectation: the single_loss use counts once per seed, the other once per replica: two forms, two collectives.
    """
    def loss(x):
        once = x.reduce_partial().sum()
        with set_gradient_convention("sum_of_ranks"):
            twice = x.reduce_partial().sum()
        return once + twice * 10.0

    with record_collectives() as log:
        _, g = value_and_grad(loss)(pending(mesh))
    assert count(log, "forward") == ["all_reduce"] * 2 and np.array_equal(value_of(g), np.full(3, 1.0 + 20.0))


def test_a_captured_tensor_is_used_in_many_recordings(mesh):
    """
    Feature: memos and recordings.
    Description: a pending sum and a replica captured by closures of two functions, differentiated alternately.
    Expectation: gradients of the other argument are right in every recording.
    """
    x, r = pending(mesh), put(mesh, X, R)
    w = put(mesh, W, S(1))
    for _ in range(3):
        _, g = value_and_grad(lambda y: (x.reduce_partial() * y * y).sum())(put(mesh, B, R))
        assert np.array_equal(value_of(g), 2 * SUM * B)
        _, g = value_and_grad(lambda w: (mint.matmul(r, w) + mint.matmul(r, w)).sum())(w)
        assert np.array_equal(value_of(g), 2 * X.T @ np.ones((2, 4), "float32")) and g.placements == (S(1),)


def test_an_update_in_the_middle_of_a_function(mesh):
    """
    Feature: memos and versions.
    Description: inside one function without gradients: reduce, scale in place, reduce.
    Expectation: the first result has the old sum, the second the new one.
    """
    x = pending(mesh)
    first = x.reduce_partial()
    x *= 2.0
    second = x.reduce_partial()
    assert np.array_equal(value_of(first), SUM) and np.array_equal(value_of(second), 2 * SUM)


def test_extremes_are_remembered_with_their_owners(mesh):
    """
    Feature: remembered reductions of max and min.
    Description: a pending maximum used twice in each of three steps, with an update in between.
    Expectation: the gradient goes to the rank that attains the maximum now.
    """
    x = pending(mesh, "max")
    for sign in (1, -1, 1):
        parts = np.stack([A, B]) * sign
        _, g = value_and_grad(lambda x: (x.reduce_partial() + x.reduce_partial() * 2.0).sum())(x)
        owner = parts.argmax(0)
        assert np.array_equal(np.stack(g.numpy_locals()), np.stack([3.0 * (owner == c) for c in range(2)]))
        x.copy_(DTensor.from_local([Tensor(-parts[0]), Tensor(-parts[1])], mesh, [P("max")]))


def test_one_real_rank_differentiates_the_same_tensors_again_and_again():
    """
    Feature: memos and recordings in a process.
    Description: the same pending sum, replica and parameter differentiated three times, on a mesh of one rank.
    Expectation: right gradients every time: nothing of a finished recording is used.
    """
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("tp",), init_backend=False)
    x = DTensor.from_local(Tensor(SUM), mesh, [P()])
    r, w = put(mesh, X, R), Parameter(put(mesh, W, S(1)), name="w")

    def loss(x, r):
        return (x.reduce_partial() * x.reduce_partial()).sum() + (mint.matmul(r, w) + mint.matmul(r, w)).sum()

    ones = np.ones((2, 4), "float32")
    for _ in range(3):
        _, ((gx, gr), (gw,)) = value_and_grad(loss, (0, 1), [w])(x, r)
        assert np.array_equal(value_of(gx), 2 * SUM) and np.array_equal(value_of(gr), 2 * ones @ W.T)
        assert np.array_equal(value_of(gw), 2 * X.T @ ones)

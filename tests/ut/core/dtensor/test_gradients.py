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
"""value_and_grad and grad: argument forms, labels, losses and seeds in both conventions."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, ParameterTuple, Tensor, mint

from hyper_parallel import (
    DTensor, Partial, Replicate, Shard, distribute_tensor, grad, gradient_convention, init_device_mesh,
    record_collectives, set_gradient_convention, simulate, value_and_grad,
)
from hyper_parallel.core.dtensor.gradients import gradient_layout
from hyper_parallel.core.dtensor.layout_value import placements_to_value
from tests.common.distributed_values import gradient_label, realise
from tests.common.tensors import put, value_of

R, S, P = Replicate(), Shard, Partial
CONVENTIONS = ("single_loss", "sum_of_ranks")
X = np.array([[1, -2, 4], [0, 3, -5], [7, 1, 2], [-1, -4, 6]], "float32")
Y = np.array([[2, 2, -1], [5, -3, 1], [0, 4, 4], [-6, 1, 3]], "float32")


def _dot(x, y):
    return (x * y).sum()


# -- argument forms --------------------------------------------------------------------------------------------------

# grad_position, where the gradients of x (Y) and y (X) are expected
POSITIONS = [(0, Y), (1, X), ((0, 1), (Y, X)), ((1, 0), (X, Y)), ((0,), (Y,)), ((1,), (X,)), ([0, 1], (Y, X))]


def _equal(found, want) -> bool:
    if isinstance(want, tuple):
        return isinstance(found, tuple) and len(found) == len(want) and all(map(_equal, found, want))
    return isinstance(found, DTensor) and found.placements == (S(0),) and np.array_equal(value_of(found), want)


@pytest.mark.parametrize("position, want", POSITIONS)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_positions_choose_the_arguments(position, want, ranks):
    """
    Feature: value_and_grad, grad.
    Description: an int, tuples in both orders, a list; sum(x * y) on 1, 2 and 3 simulated ranks.
    Expectation: one gradient for an int, a tuple in the order asked for otherwise, labelled as the arguments.
    """
    with simulate(ranks):
        mesh = init_device_mesh("cpu", (ranks,))
        x, y = put(mesh, X, S(0)), put(mesh, Y, S(0))
        value, gradients = value_and_grad(_dot, position)(x, y)
        assert value.item() == (X * Y).sum() and value.placements == (R,) and _equal(gradients, want)
        assert _equal(grad(_dot, position)(x, y), want)


@pytest.mark.parametrize("position, want", POSITIONS)
def test_positions_choose_the_arguments_on_a_real_rank(position, want):
    """
    Feature: value_and_grad, grad in a process.
    Description: the same on a mesh of one rank without a simulation.
    Expectation: the same arrangement.
    """
    mesh = init_device_mesh("cpu", (1,), init_backend=False)
    x, y = put(mesh, X, S(0)), put(mesh, Y, S(0))
    value, gradients = value_and_grad(_dot, position)(x, y)
    assert value.item() == (X * Y).sum() and _equal(gradients, want) and _equal(grad(_dot, position)(x, y), want)


WEIGHTS = {"one": lambda w, v: (w, None), "list": lambda w, v: ([w], ()), "two": lambda w, v: ([w, v], ()),
           "tuple": lambda w, v: ((w, v), ()),
           "ParameterTuple": lambda w, v: (ParameterTuple([w, v]), ())}


@pytest.mark.parametrize("name", list(WEIGHTS))
@pytest.mark.parametrize("position", [None, 0, (0,)])
@pytest.mark.parametrize("simulated", [True, False])
def test_weights_come_as_a_parameter_or_a_sequence(name, position, simulated):
    """
    Feature: value_and_grad(weights=).
    Description: a Parameter alone or in a sequence, with and without arguments; simulated and on one real rank.
    Expectation: one gradient or a tuple; (inputs, weights) when both are asked for.
    """
    if simulated:
        with simulate(2):
            _check_weights(name, position, init_device_mesh("cpu", (2,)))
    else:
        _check_weights(name, position, init_device_mesh("cpu", (1,), init_backend=False))


def _check_weights(name, position, mesh):
    w, v = Parameter(put(mesh, Y, S(0)), name="w"), Parameter(put(mesh, X, S(0)), name="v")
    weights, kind = WEIGHTS[name](w, v)
    value, gradients = value_and_grad(lambda x: (x * w * 2 + x * v).sum(), position, weights)(put(mesh, X, S(0)))
    assert value.item() == (2 * X * Y + X * X).sum()
    of_weights = 2 * X if kind is None else (2 * X, X)[:len(weights)]
    if position is None:
        assert _equal(gradients, of_weights)
    else:
        of_inputs = 2 * Y + X
        assert _equal(gradients, (of_inputs if position == 0 else (of_inputs,), of_weights))


@pytest.mark.parametrize("call, text", [
    (lambda x: value_and_grad(_dot, None)(x, x), "grad_position"),
    (lambda x: value_and_grad(_dot, ())(x, x), "grad_position"),
    (lambda x: value_and_grad(_dot, 2)(x, x), "2"), (lambda x: value_and_grad(_dot, -1)(x, x), "-1|>= 0"),
    (lambda x: value_and_grad(_dot, (0, 5))(x, x), "5"), (lambda x: grad(_dot, None)(x, x), "grad_position"),
])
@pytest.mark.parametrize("simulated", [True, False])
def test_positions_that_do_not_exist_are_refused(call, text, simulated):
    """
    Feature: value_and_grad, grad.
    Description: nothing to differentiate, positions out of range or negative; simulated and on one real rank.
    Expectation: ValueError that names the position, the same in both.
    """
    if not simulated:
        mesh = init_device_mesh("cpu", (1,), init_backend=False)
        with pytest.raises(ValueError, match=text):
            call(put(mesh, X, R))
        return
    with simulate(2), pytest.raises(ValueError, match=text):
        call(put(init_device_mesh("cpu", (2,)), X, R))


def test_keyword_arguments_reach_the_function(mesh):
    """
    Feature: value_and_grad.
    Description: an argument by keyword.
    Expectation: passed on, not differentiated.
    """
    value, g = value_and_grad(_dot)(put(mesh, X, S(0)), y=put(mesh, Y, S(0)))
    assert value.item() == (X * Y).sum() and _equal(g, Y)


def test_auxiliary_outputs_are_not_differentiated(mesh):
    """
    Feature: has_aux.
    Description: (loss, 2 x, y) with has_aux, of value_and_grad and grad.
    Expectation: gradients of the loss alone; the other outputs come back as they are.
    """
    x, y = put(mesh, X, S(0)), put(mesh, Y, S(0))

    def both(x, y):
        return _dot(x, y), x * 2, y

    (value, twice, same), g = value_and_grad(both, has_aux=True)(x, y)
    assert value.item() == (X * Y).sum() and _equal(twice, 2 * X) and _equal(same, Y) and _equal(g, Y)
    g, (twice, same) = grad(both, 1, has_aux=True)(x, y)
    assert _equal(g, X) and _equal(twice, 2 * X) and _equal(same, Y)


def test_several_losses_are_added(mesh):
    """
    Feature: value_and_grad of a tuple without has_aux.
    Description: sum(x * y) and the sum of its squares, pending.
    Expectation: gradients of the sum of both losses, each counted once; the value is the tuple.
    """
    x, y = put(mesh, X, S(0)), put(mesh, Y, S(0))
    (first, second), g = value_and_grad(lambda x, y: (_dot(x, y), (x * x).sum().reduce_partial()))(x, y)
    assert (first.item(), second.item()) == ((X * Y).sum(), (X * X).sum()) and _equal(g, Y + 2 * X)


def test_plain_tensors_are_differentiated_too(mesh):
    """
    Feature: value_and_grad.
    Description: a plain tensor and a DTensor among the arguments; only plain ones.
    Expectation: plain gradients for plain arguments, complete.
    """
    def loss(t, x):
        return _dot(distribute_tensor(t, mesh, [S(0)]), x)

    _, (gt, gx) = value_and_grad(loss, (0, 1))(Tensor(Y), put(mesh, X, S(0)))
    assert not isinstance(gt, DTensor) and np.array_equal(gt.asnumpy(), X) and _equal(gx, Y)
    value, g = value_and_grad(lambda t: (t * t).sum())(Tensor(X))
    assert value.item() == (X * X).sum() and np.array_equal(g.asnumpy(), 2 * X)


def test_an_unused_argument_has_a_gradient_of_zero(mesh):
    """
    Feature: value_and_grad.
    Description: an argument that the function does not use.
    Expectation: zeros under its own label.
    """
    _, g = value_and_grad(lambda x, y: x.sum(), 1)(put(mesh, X, S(0)), put(mesh, Y, S(0)))
    assert _equal(g, 0 * Y)


def test_the_function_runs_once_per_call(mesh):
    """
    Feature: value_and_grad.
    Description: a function that counts its calls.
    Expectation: one call per step; arguments are the values that were passed.
    """
    seen = []

    def loss(x):
        seen.append(value_of(x))
        return x.sum()

    for _ in range(2):
        value_and_grad(loss)(put(mesh, X, S(0)))
    assert len(seen) == 2 and all(np.array_equal(v, X) for v in seen)


# -- labels ----------------------------------------------------------------------------------------------------------

LABELS = [
    (R, R, P()), (S(0), S(0), S(0)), (P("sum"), R, R), (P("avg"), P(), P()), (P("max"), P(), P()),
    (P("min"), P(), P()),
    (P("prod"), P(), P()),
]


@pytest.mark.parametrize("placement, single, summed", LABELS)
def test_the_label_of_a_gradient_follows_its_tensor(placement, single, summed):
    """
    Feature: gradient_layout.
    Description: every placement in both conventions, alone and next to a shard on another axis.
    Expectation: the table of the design.
    """
    with simulate(4):
        grid = init_device_mesh("cpu", (2, 2))
        layout = placements_to_value(grid, [placement, S(1)], 2)
        assert gradient_layout(layout).placements == (single, S(1))
        with set_gradient_convention("sum_of_ranks"):
            assert gradient_layout(layout).placements == (summed, S(1))


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("shape", [(5, 2), (1, 3)])
def test_gradients_denote_the_truth_under_their_label(convention, shape):
    """
    Feature: value_and_grad.
    Description: every placement on (2, 2), uneven and empty shards, per-rank addends; loss = sum(x * weight).
    Expectation: the label of the layout; its value is the weight, times the number of replicas of the loss.
    """
    rng = np.random.default_rng(5)
    with simulate(4), set_gradient_convention(convention):
        grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        weight = (rng.integers(-4, 5, shape) * 4).astype("float32")
        w = put(grid, weight, R, R)
        choices = [R, S(0), S(1), P(), P("avg")]
        for placements in [(a, b) for a in choices for b in choices] + [(P("max"), S(0)), (R, P("min")),
            (P("max"), P("max"))]:
            _, locals_ = realise(rng, grid, placements, shape)
            x = DTensor.from_local([Tensor(v) for v in locals_], grid, placements, shape=shape)
            g = grad(lambda x: (x.redistribute(grid, [R, R]) * w).sum())(x)
            assert g.placements == gradient_label(placements, convention), placements
            assert np.array_equal(value_of(g), weight * (1 if convention == "single_loss" else 4)), placements


# -- losses ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make, want", [
    (lambda x: x.sum(), np.ones_like(X)), (lambda x: x.mean(), np.full_like(X, 1 / 12)),
    (lambda x: (x * x).sum(), 2 * X),
    (lambda x: x.sum().reduce_partial(), np.ones_like(X)),
    (lambda x: x.redistribute(x.device_mesh, [P("avg")]).sum(), np.ones_like(X)),
    (lambda x: x.redistribute(x.device_mesh, [P("avg")]).sum() * 3.0, np.full_like(X, 3)),
    (lambda x: x.redistribute(x.device_mesh, [P("sum")]).sum() * 3.0, np.full_like(X, 3)),
    (lambda x: x.redistribute(x.device_mesh, [R]).sum(), np.ones_like(X)), (lambda x: x * 2.0, np.full_like(X, 2)),
])
@pytest.mark.parametrize("placement", [S(0), S(1), R])
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_loss_counts_once_whatever_its_layout(make, want, placement, ranks):
    """
    Feature: losses under single_loss.
    Description: pending sums and means, replicas, shards (the sum of all elements), of x cut in three ways.
    Expectation: the gradient of one device; a pending loss comes back reduced.
    """
    with simulate(ranks):
        mesh = init_device_mesh("cpu", (ranks,))
        value, g = value_and_grad(make)(put(mesh, X, placement))
        assert not value.layout.is_partial() and g.placements == (placement,)
        np.testing.assert_array_max_ulp(value_of(g), want.astype("float32"), 1)


def test_a_loss_from_local_parts(mesh):
    """
    Feature: losses under single_loss.
    Description: to_local() of a replica on every rank; parts of a shard, each its rank's loss.
    Expectation: one loss of the replica, the sum of the ranks' losses of the shard.
    """
    def of_replica(x):
        return tuple(v for v in x.sum().reduce_partial().to_local())

    def of_shard(x):
        return tuple(v.sum() * (rank + 1) for rank, v in enumerate(x.to_local()))

    assert _equal(grad(of_replica)(put(mesh, X, S(0))), np.ones_like(X))
    assert _equal(grad(of_shard)(put(mesh, X, S(0))), np.repeat([[1.0], [2.0]], 2, 0) * np.ones_like(X))


def test_gradients_of_gradients_on_one_device_are_untouched():
    """
    Feature: grad of plain functions.
    Description: grad of a function of plain tensors outside any mesh.
    Expectation: the framework's own gradient.
    """
    assert grad(lambda x: (x * x * x).sum())(Tensor(X)).asnumpy().tolist() == (3 * X * X).tolist()


# -- conventions -----------------------------------------------------------------------------------------------------


def test_the_convention_is_a_setting_and_a_context():
    """
    Feature: set_gradient_convention.
    Description: as a call, as a context manager, nested, with an exception inside, with an unknown name.
    Expectation: the convention in force; the old one afterwards.
    """
    assert gradient_convention() == "single_loss"
    with set_gradient_convention("sum_of_ranks"):
        with set_gradient_convention("single_loss"):
            assert gradient_convention() == "single_loss"
        with pytest.raises(KeyError), set_gradient_convention("single_loss"):
            raise KeyError
        assert gradient_convention() == "sum_of_ranks"
    set_gradient_convention("sum_of_ranks")
    assert gradient_convention() == "sum_of_ranks"
    set_gradient_convention("single_loss")
    with pytest.raises(ValueError, match="single_loss, sum_of_ranks"):
        set_gradient_convention("mean")
    assert gradient_convention() == "single_loss"


@pytest.mark.parametrize("placement", [R, S(0), S(1), P()])
def test_seeds_of_one_over_n_give_one_loss_under_sum_of_ranks(mesh, placement):
    """
    Feature: sum_of_ranks.
    Description: a replicated loss times 1/2 on two ranks.
    Expectation: the gradient, read through its label, is that of one device.
    """
    x, y = put(mesh, X, placement), put(mesh, Y, R)
    with set_gradient_convention("sum_of_ranks"):
        _, g = value_and_grad(lambda x: (x.redistribute(mesh, [R]) * y).sum() * 0.5)(x)
    assert np.array_equal(value_of(g), Y)


def test_gradients_work_in_float16_and_float64(mesh):
    """
    Feature: value_and_grad.
    Description: losses and gradients in other element types.
    Expectation: gradients in the type of their tensors.
    """
    for dtype in (ms.float16, ms.float64):
        x = put(mesh, X, S(0)).to(dtype)
        value, g = value_and_grad(lambda x: (x * x).sum())(x)
        assert value.dtype == dtype and g.dtype == dtype and np.array_equal(value_of(g), 2 * X)


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("left, right", [((S(0), R), (R, R)), ((P("sum"), R), (R, R)), ((S(0), S(0)), (R, R))])
def test_an_axis_of_one_rank_costs_no_collective(convention, left, right):
    """
    Feature: boundaries.
    Description: a product with a replica on a (1, 2) mesh, cut or pending on the axis of one rank, or cut on both.
    Expectation: exact gradients; collectives over the axis of two alone, and backward only where it is cut.
    """
    with simulate(2), set_gradient_convention(convention):
        mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("one", "two"))
        x, y = put(mesh, X, *left), put(mesh, Y, *right)
        with record_collectives() as log:
            _, (gx, gy) = value_and_grad(lambda x, y: mint.matmul(x, y.T).sum(), (0, 1))(x, y)
        copies = 1 if convention == "single_loss" else 2  # replicas' losses are counted once per rank
        ones = np.ones((4, 4), "float32")
        for grad, want in ((gx, ones @ Y), (gy, ones @ X)):
            found = value_of(grad) if copies == 1 else grad.full_tensor().asnumpy()
            np.testing.assert_array_equal(found, copies * want)
        backward = [entry for entry in log if entry.phase == "backward"]
        assert bool(backward) == (left[1] == S(0)) and {entry.axis for entry in log} <= {"two"}, log

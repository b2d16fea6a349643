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
"""implicit_redistribution: refused calls get the cheapest sound operands, logged; in-place targets never move."""
import itertools
import logging
import threading

import numpy as np
import pytest
from mindspore import Tensor, mint, ops

from hyper_parallel import (
    DTensor, LayoutError, MeshError, Partial, PartialError, Replicate, Shard, UnsupportedOpError,
    implicit_redistribution, implicit_replication, init_device_mesh, record_collectives, set_gradient_convention,
    simulate, value_and_grad,
)
from hyper_parallel.core.dtensor.layout_value import placements_to_value
from hyper_parallel.core.dtensor.placement_types import StridedShard
from hyper_parallel.core.dtensor.planner import cost, plan
from hyper_parallel.core.shard._op_dispatch import dispatch_named
from tests.common.distributed_values import realise
from tests.common.tensors import put, value_of
from tests.ut.core.shard.matmul_rows import FORMS, choices, placement

R, S, P = Replicate(), Shard, Partial
LOGGER = "hyper_parallel.implicit"
A = np.random.default_rng(0).integers(-5, 6, (4, 4)).astype("float32")
B = np.random.default_rng(1).integers(-5, 6, (4, 4)).astype("float32")


@pytest.fixture(name="records")
def _records(caplog):
    with caplog.at_level(logging.INFO, logger=LOGGER):
        yield lambda: [r.getMessage() for r in caplog.records if r.name == LOGGER]


def _softmax(v):
    e = np.exp(v - v.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# refused as it stands: (placement of a, of b, call, numpy)
REFUSED = {
    "matmul rows by rows": (S(0), S(0), mint.matmul, np.matmul),
    "matmul of two sums": (P(), P(), mint.matmul, np.matmul),
    "matmul one side cut": (S(1), R, mint.matmul, np.matmul),
    "matmul sum and shard": (P(), S(1), mint.matmul, np.matmul),
    "matmul max": (P("max"), R, mint.matmul, np.matmul),
    "MatMul flags": (S(0), S(0), ops.MatMul(False, True), lambda a, b: a @ b.T),
    "linear bias cut": (R, S(0), lambda a, b: mint.nn.functional.linear(a, a, b[0]), lambda a, b: a @ a.T + b[0]),
    "add shard and replica": (S(0), R, mint.add, np.add), "add two cuts": (S(0), S(1), mint.add, np.add),
    "add sum and shard": (P(), S(1), mint.add, np.add),
    "add sum and mean": (P(), P("avg"), mint.add, np.add), "mul of two sums": (P(), P(), mint.mul, np.multiply),
    "div by a sum": (R, P(), lambda a, b: a / (b + 0.5), lambda a, b: a / (b + 0.5)),
    "square of a sum": (P(), R, lambda a, b: mint.square(a), lambda a, b: a * a),
    "abs of a mean": (P("avg"), R, lambda a, b: mint.abs(a), lambda a, b: np.abs(a)),
    "relu of a sum": (P(), R, lambda a, b: mint.nn.functional.relu(a), lambda a, b: np.maximum(a, 0)),
    "softmax over a cut dim": (S(1), R, lambda a, b: mint.nn.functional.softmax(a, -1), lambda a, b: _softmax(a)),
    "compare sums": (P(), P(), lambda a, b: mint.greater(a, b).to(a.dtype), lambda a, b: (a > b).astype("float32")),
    "max of a sum": (P(), R, lambda a, b: mint.amax(a, 1), lambda a, b: a.max(1)),
    "index a cut dim": (S(0), R, lambda a, b: a[1], lambda a, b: a[1]),
    "slice a cut dim": (S(0), R, lambda a, b: a[1:3], lambda a, b: a[1:3]),
    "cat along a cut dim": (S(0), S(0), lambda a, b: mint.cat([a, b], 0), lambda a, b: np.concatenate([a, b])),
    "cat of two layouts": (S(0), S(1), lambda a, b: mint.cat([a, b], 0), lambda a, b: np.concatenate([a, b])),
    "where": (S(0), R, lambda a, b: mint.where(mint.greater(a, 0), a, b), lambda a, b: np.where(a > 0, a, b)),
    "view a cut dim": (S(1), R, lambda a, b: a.reshape((2, 2, 4)).reshape((16,)), lambda a, b: a.reshape(16)),
    "cumsum of a cut dim": (S(0), R, lambda a, b: mint.cumsum(a, 0), lambda a, b: np.cumsum(a, 0)),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_refused_call_gives_the_right_value_and_is_logged(mesh, records, name):
    """
    Feature: implicit_redistribution.
    Description: calls that the rules refuse, outside and inside the context.
    Expectation: refused outside; inside the value of one device, one log line per moved operand with operation,
        operand and both layouts; the operands keep their own layouts.
    """
    first, second, call, numpy = REFUSED[name]
    a, b = put(mesh, A, first), put(mesh, B, second)
    with pytest.raises(LayoutError):
        call(a, b)
    assert records() == []
    with implicit_redistribution():
        got = call(a, b)
    want = numpy(A, B)
    assert got.shape == want.shape
    np.testing.assert_allclose(value_of(got), want, rtol=4e-6 if name.startswith("softmax") else 2e-7)
    assert records() and all("redistributed from [" in r and "operand" in r for r in records())
    assert a.placements == (first,) and b.placements == (second,) and np.array_equal(value_of(a), A)
    assert np.array_equal(value_of(b), B)
    with pytest.raises(LayoutError):
        call(a, b)


@pytest.mark.parametrize("name", ["matmul", "MatMul ta", "linear", "linear bias"])
def test_every_refused_row_of_the_matmul_table_becomes_exact(name):
    """
    Feature: implicit_redistribution.
    Description: every pair of placements on one axis, and a seeded sample of triples, per-rank addends.
    Expectation: the exact value, whatever was refused.
    """
    form = FORMS[name]
    rng = np.random.default_rng(2)
    with simulate(2), implicit_redistribution():
        mesh = init_device_mesh("cpu", (2,))
        shapes = form.shapes[0]
        made = [{p: realise(np.random.default_rng(i), mesh, (placement(p),), s) for p in choices(s)}
                for i, s in enumerate(shapes)]
        rows = list(itertools.product(*map(choices, shapes)))
        for i in rng.permutation(len(rows))[:64]:
            row, values, tensors = rows[i], [], []
            for known, p, s in zip(made, row, shapes):
                value, locals_ = known[p]
                values.append(value)
                tensors.append(DTensor.from_local([Tensor(v) for v in locals_], mesh, (placement(p),), shape=s))
            assert np.array_equal(value_of(form.call(*tensors)), form.numpy(*values)), row


def test_the_cheapest_sound_operands_are_taken(mesh, records):
    """
    Feature: implicit_redistribution.
    Description: every refused pair of placements of a matmul of unequal operands, against all accepted pairs.
    Expectation: the bytes of the logged moves are the least of all accepted pairs that can be reached.
    """
    form, shapes = FORMS["matmul"], ((8, 4), (4, 6))
    accepted, cuts = form.accepted(), ["R", "S0", "S1", "P"]

    def price(p, q, shape):
        return cost(plan(placements_to_value(mesh, (placement(p),), 2),
                         placements_to_value(mesh, (placement(q),), 2), shape))

    for row in itertools.product(cuts, repeat=2):
        if row in accepted:
            continue
        least = min(price(row[0], a, shapes[0]) + price(row[1], b, shapes[1]) for a, b in accepted
                    if "A" not in (a, b)
                    and "P" not in ((a,) if row[0] != "P" else ()) + ((b,) if row[1] != "P" else ()))
        before = len(records())
        with implicit_redistribution():
            mint.matmul(*(put(mesh, np.ones(s, "float32"), placement(p)) for p, s in zip(row, shapes)))
        paid = sum(_logged_price(mesh, line, shapes) for line in records()[before:])
        assert paid == least, (row, records()[before:])


def _logged_price(mesh, line, shapes):
    operand = int(line.split("operand ")[1][0])
    source, target = line.split(" from [")[1].rstrip("]").split("] to [")
    names = {"R": R, "S(0)": S(0), "S(1)": S(1), "P(sum)": P(), "P": P()}
    layouts = [placements_to_value(mesh, (names[n],), 2) for n in (source, target)]
    return cost(plan(*layouts, shapes[operand]))


def test_nothing_moves_when_the_rule_accepts(mesh, records):
    """
    Feature: implicit_redistribution.
    Description: accepted calls inside the context.
    Expectation: no log line, no collective, the result pending as always.
    """
    with implicit_redistribution(), record_collectives() as log:
        out = mint.matmul(put(mesh, A, S(1)), put(mesh, B, S(0)))
        out = mint.add(out, out) * 2.0
    assert records() == [] and log == [] and out.placements == (P(),) and np.array_equal(value_of(out), 4 * A @ B)


@pytest.mark.parametrize("convention", ["single_loss", "sum_of_ranks"])
@pytest.mark.parametrize("first, second", [(S(0), S(0)), (P(), P()), (S(1), R), (P("avg"), S(0)), (R, P("max"))])
def test_gradients_go_through_the_moves(mesh, first, second, convention):
    """
    Feature: implicit_redistribution and gradients.
    Description: refused products, loss = sum(result * weight), in both conventions; twice in a row.
    Expectation: exact gradients of both operands through their labels.
    """
    if "max" in str(second):
        locals_ = [Tensor(B), Tensor(np.minimum(B, -B) - 1)]
        b = DTensor.from_local(locals_, mesh, [second])
    else:
        b = put(mesh, B, second)
    a, weight = put(mesh, A, first), put(mesh, A + B, R)

    def loss(a, b):
        with implicit_redistribution():
            return (mint.matmul(a, b) * weight).sum()

    seeds = 1 if convention == "single_loss" else 2
    value_b = value_of(b)
    with set_gradient_convention(convention):
        for _ in range(2):
            value, (ga, gb) = value_and_grad(loss, (0, 1))(a, b)
            assert value.item() == (A @ value_b * (A + B)).sum()
            assert np.array_equal(value_of(ga), seeds * (A + B) @ value_b.T)
            assert np.array_equal(value_of(gb), seeds * A.T @ (A + B))


def test_two_axes_and_orders_of_cuts(records):
    """
    Feature: implicit_redistribution on (2, 2).
    Description: an axis that is fine next to one that is not; one dimension cut in two orders; a cut that a view
        cannot keep.
    Expectation: the value; what is fine on dp stays cut there.
    """
    with simulate(4), implicit_redistribution():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        out = mint.matmul(put(mesh, A, S(0), S(1)), put(mesh, B, R, R))
        assert out.placements[0] == S(0) and np.array_equal(value_of(out), A @ B) and len(records()) == 1
        one, two = put(mesh, A, S(0), S(0)), put(mesh, B, StridedShard(0, 2), S(0))
        assert np.array_equal(value_of(mint.add(one, two)), A + B) and len(records()) == 2
        assert np.array_equal(value_of(mint.matmul(put(mesh, A, S(1), S(1)), two)), A @ B)
        assert np.array_equal(value_of(put(mesh, A, S(0), S(1)).reshape((16,))), A.reshape(16))


# -- in-place targets ------------------------------------------------------------------------------------------------

# call on (target, other), placements of both, the new value of the target
MOVED = {
    "replica += shard": (R, S(0), lambda t, o: t.add_(o), A + B),
    "shard += replica": (S(0), R, lambda t, o: t.__iadd__(o), A + B),
    "shard += other cut": (S(0), S(1), lambda t, o: t.add_(o), A + B),
    "replica += sum": (R, P(), lambda t, o: t.add_(o), A + B),
    "shard -= sum": (S(1), P(), lambda t, o: t.__isub__(o), A - B),
    "shard *= sum": (S(0), P(), lambda t, o: t.mul_(o), A * B),
    "sum *= shard": (P(), S(0), lambda t, o: t.mul_(o), A * B),
    "replica copy_ shard": (R, S(0), lambda t, o: t.copy_(o), B),
    "sum += replica": (P(), R, lambda t, o: t.add_(o), A + B),
    "sum *= sum": (P(), P(), lambda t, o: t.mul_(o), A * B),
    "sum *= itself": (P(), P(), lambda t, o: t.mul_(t), A * A),
    "max += itself": (P("max"), R, lambda t, o: t.add_(t), 2 * A),
}


@pytest.mark.parametrize("name", list(MOVED))
def test_the_other_operand_moves_to_the_target(mesh, name):
    """
    Feature: implicit_redistribution of in-place calls.
    Description: targets and operands of other placements.
    Expectation: the target itself has the new value under its own layout; the operand keeps its layout.
    """
    target_placement, other_placement, call, want = MOVED[name]
    target, other = put(mesh, A, target_placement), put(mesh, B, other_placement)
    with implicit_redistribution():
        result = call(target, other)
    assert result is target and target.placements == (target_placement,) and np.array_equal(value_of(target), want)
    assert other.placements == (other_placement,) and np.array_equal(value_of(other), B)


STAYS = {
    "clamp_ of a sum": (P(), lambda t: t.clamp_(max=2)), "exp_ of a sum": (P(), lambda t: t.exp_()),
    "add_ that broadcasts the target": (
        R, lambda t: t.add_(mint.reshape(t, (1, 4, 4)))),
        "copy_ of another shape": (S(0), lambda t: t.copy_(mint.cat([t, t], 1))),
    "assign to a cut row": (S(0), lambda t: t.__setitem__(0, 1.0)),
}


@pytest.mark.parametrize("name", list(STAYS))
def test_a_target_that_cannot_stay_is_refused(mesh, records, name):
    """
    Feature: implicit_redistribution of in-place calls.
    Description: in-place calls that no move of the other operands makes sound.
    Expectation: an error; the target has its old value and layout, and nothing was moved.
    """
    target_placement, call = STAYS[name]
    target = put(mesh, A, target_placement)
    with implicit_redistribution(), pytest.raises((LayoutError, UnsupportedOpError)):
        call(target)
    assert target.placements == (target_placement,) and np.array_equal(value_of(target), A) and records() == []


# -- the context -----------------------------------------------------------------------------------------------------


def test_the_context_nests_and_ends_with_an_exception(mesh):
    """
    Feature: implicit_redistribution.
    Description: nested blocks, an exception inside the inner one, another thread.
    Expectation: in force until the outermost block ends; never in other threads.
    """
    a, b = put(mesh, A, S(0)), put(mesh, B, R)
    with implicit_redistribution():
        with pytest.raises(KeyError), implicit_redistribution():
            raise KeyError
        assert np.array_equal(value_of(a + b), A + B)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(_refuses(lambda: mint.add(a, b))))
        thread.start()
        thread.join()
        assert seen == [True]
    assert _refuses(lambda: a + b)


def _refuses(call) -> bool:
    with simulate(2):
        try:
            call()
        except LayoutError:
            return True
    return False


WRONG = {
    "sizes": (lambda a, m: mint.matmul(a[:, :3], a), LayoutError, "contracted"),
    "dim": (lambda a, m: mint.sum(a, 5), LayoutError, "dim"),
    "plain tensor": (lambda a, m: a + Tensor(A), LayoutError, "plain tensor"),
    "mesh": (lambda a, m: mint.add(a, put(init_device_mesh("cpu", (2,), mesh_dim_names=("dp",)), A, R)), MeshError,
             "mesh"),
    "no rule": (lambda a, m: dispatch_named("NoSuchOp", lambda v: v, a), UnsupportedOpError, "NoSuchOp"),
    "item of a shard": (lambda a, m: a.item(), LayoutError, "full_tensor"),
    "pending read": (lambda a, m: put(m, A, P()).to_local(), PartialError, "reduce_partial"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_what_no_move_can_mend_stays_refused(mesh, name):
    """
    Feature: implicit_redistribution.
    Description: sizes, dims, plain tensors, meshes and operations that are wrong whatever the layouts; reading
        values.
    Expectation: the same error as outside.
    """
    call, error, text = WRONG[name]
    with implicit_redistribution(), pytest.raises(error, match=text):
        call(put(mesh, A, S(0)), mesh)


def test_plain_replicas_and_moves_go_together(mesh):
    """
    Feature: implicit_replication with implicit_redistribution.
    Description: a shard plus a whole plain tensor inside both.
    Expectation: the plain tensor is taken for a replica, and a sound combination is found.
    """
    with implicit_replication(), implicit_redistribution():
        assert np.array_equal(value_of(put(mesh, A, S(0)) + Tensor(B)), A + B)
        assert np.array_equal(value_of(put(mesh, A, P()) * Tensor(B)), A * B)

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
"""The matmul table through all five operation classes: every row and every refusal, forward and backward, exactly."""
import itertools

import numpy as np
import pytest
from mindspore import Tensor, mint, ops

from hyper_parallel import (
    DTensor, LayoutError, MeshError, Partial, PartialError, Replicate, Shard, distribute_tensor, init_device_mesh,
    record_collectives, simulate,
)
from hyper_parallel.core.dtensor.placement_types import StridedShard
from tests.ut.core.shard.matmul_rows import FORMS, check_row, choices, denoted, operand, placement

BOTH = ("single_loss", "sum_of_ranks")


CONVENTIONS = {2: BOTH[1:], 3: BOTH[:1]}


@pytest.mark.parametrize("name", list(FORMS))
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_accepted_row_is_exact(name, ranks):
    """
    Feature: the matmul table.
    Description: every accepted row of the form on one axis; even, uneven and empty shards, per-rank addends.
    Expectation: value, local shapes and placements of the result; gradients of all operands through their labels,
        under single_loss on three ranks and under sum_of_ranks on two.
    """
    form = FORMS[name]
    with simulate(ranks):
        mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))
        for shapes in form.shapes[:1] if ranks == 2 else form.shapes:
            for row, out in form.accepted().items():
                check_row(form, mesh, shapes, [(placement(p),) for p in row], (placement(out),), CONVENTIONS[ranks])


@pytest.mark.parametrize("name", list(FORMS))
def test_everything_else_is_refused(name):
    """
    Feature: the matmul table.
    Description: every combination of placements on one axis that is no row of the form.
    Expectation: PartialError when an operand is pending, LayoutError else; it names operation and axis, and the
        call that fixes it; no collective is made.
    """
    form, accepted = FORMS[name], FORMS[name].accepted()
    with simulate(2), record_collectives() as log:
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        known = [{p: operand(mesh, (placement(p),), s, 0)[0] for p in choices(s)} for s in form.shapes[0]]
        refused = 0
        for row in itertools.product(*map(choices, form.shapes[0])):
            if row in accepted:
                continue
            refused += 1
            with pytest.raises(LayoutError, match=rf"^{form.op} .*'tp'.*redistribute\(") as caught:
                form.call(*(operands[p] for operands, p in zip(known, row)))
            assert isinstance(caught.value, PartialError) is any(p in "PAXND" for p in row), row
    assert refused >= 20 and log == []


# One form per class, and per kind of operand, is enough on two axes: axes are independent of each other.
ON_TWO_AXES = ("matmul", "matmul broadcast", "vector @ batch", "MatMul ta", "bmm", "BatchMatMul tb", "linear bias")


@pytest.mark.parametrize("name", ON_TWO_AXES)
def test_pairs_of_rows_hold_on_two_axes(name):
    """
    Feature: the matmul table on a (2, 2) mesh.
    Description: a seeded sample of pairs of rows, one per axis, uneven sizes; several axes on one dimension
        included.
    Expectation: each axis of the result as its own row says; value and gradients exact.
    """
    form = FORMS[name]
    rows = list(form.accepted().items())
    pairs = list(itertools.product(rows, rows))
    rng = np.random.default_rng(4)
    with simulate(4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        for i in rng.choice(len(pairs), 18, replace=False):
            (dp, out_dp), (tp, out_tp) = pairs[i]
            cuts = [(placement(a), placement(b)) for a, b in zip(dp, tp)]
            check_row(form, mesh, form.shapes[0], cuts, (placement(out_dp), placement(out_tp)), BOTH[i % 2:][:1])


@pytest.mark.parametrize("name", ON_TWO_AXES)
def test_a_row_is_refused_when_one_axis_is(name):
    """
    Feature: the matmul table on a (2, 2) mesh.
    Description: an accepted row on one axis with a refused combination on the other, both ways round.
    Expectation: refused, naming the axis that is at fault.
    """
    form = FORMS[name]
    accepted = list(form.accepted())
    refused = [r for r in itertools.product(*map(choices, form.shapes[0])) if r not in form.accepted()]
    rng = np.random.default_rng(6)
    with simulate(4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        for _ in range(25):
            good, bad = accepted[rng.integers(len(accepted))], refused[rng.integers(len(refused))]
            if {"X", "N", "D"} & set(bad) and {"P", "A"} & set(good):
                continue  # such operands mix reduce families and cannot be made
            for axis, pair in ((1, (good, bad)), (0, (bad, good))):
                cuts = [(placement(a), placement(b)) for a, b in zip(*pair)]
                made = [operand(mesh, c, s, 0)[0] for c, s in zip(cuts, form.shapes[0])]
                with pytest.raises(LayoutError, match=f"^{form.op}.*'{('dp', 'tp')[axis]}'"):
                    form.call(*made)


# -- several axes on one dimension -----------------------------------------------------------------------------------

MESH_ORDER = (Shard(0), Shard(0))
REVERSED = (StridedShard(0, 2), Shard(0))


def _along(order, dim):
    return tuple(StridedShard(dim, p.split_factor) if isinstance(p, StridedShard) else Shard(dim) for p in order)


@pytest.mark.parametrize("order", [MESH_ORDER, REVERSED])
@pytest.mark.parametrize("name", ["matmul", "MatMul", "bmm", "BatchMatMul", "linear"])
def test_two_axes_cut_one_dimension_in_either_order(name, order):
    """
    Feature: several axes on one dimension.
    Description: rows, columns and the contraction cut by (dp, tp) and by (tp, dp), uneven.
    Expectation: rows and columns keep the order of their cuts; a contraction gives a sum on both axes; all exact.
    """
    form = FORMS[name]
    row, column, (k_x, k_w) = {
        "matmul": (0, 1, (1, 0)), "MatMul": (0, 1, (1, 0)), "bmm": (1, 2, (2, 1)), "BatchMatMul": (1, 2, (2, 1)),
        "linear": (0, 0, (1, 1)),
    }[name]
    last = len(form.shapes[0][0]) - 1
    whole = (Replicate(), Replicate())
    with simulate(4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        for cuts, out in (((_along(order, row), whole), _along(order, row)),
                          ((whole, _along(order, column)), _along(order, last)),
                          ((_along(order, k_x), _along(order, k_w)), (Partial(), Partial()))):
            check_row(form, mesh, form.shapes[0], cuts, out, BOTH[:1])


@pytest.mark.parametrize("name", ["matmul", "MatMul", "bmm", "BatchMatMul", "linear"])
def test_a_contraction_cut_in_two_orders_is_refused(name):
    """
    Feature: several axes on one dimension.
    Description: x cut along the contraction by (dp, tp), w by (tp, dp).
    Expectation: LayoutError that names both orders and the call that aligns them.
    """
    form = FORMS[name]
    k_x, k_w = {"matmul": (1, 0), "MatMul": (1, 0), "bmm": (2, 1), "BatchMatMul": (2, 1), "linear": (1, 1)}[name]
    with simulate(4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        x, _ = operand(mesh, _along(MESH_ORDER, k_x), form.shapes[0][0], 0)
        w, _ = operand(mesh, _along(REVERSED, k_w), form.shapes[0][1], 0)
        with pytest.raises(LayoutError, match=f"^{form.op}.*'dp', 'tp'.*'tp', 'dp'.*redistribute"):
            form.call(x, w)


@pytest.mark.parametrize("order", [MESH_ORDER, REVERSED])
def test_a_bias_is_cut_as_the_columns_are(order):
    """
    Feature: linear with bias.
    Description: weight rows cut by two axes, the bias in the same and in the other order, or whole.
    Expectation: the same order is exact; anything else is refused.
    """
    form = FORMS["linear bias"]
    whole = (Replicate(), Replicate())
    with simulate(4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        check_row(form, mesh, form.shapes[0], (whole, order, order), _along(order, 1), BOTH)
        other = REVERSED if order == MESH_ORDER else MESH_ORDER
        for bias in (other, whole, (Replicate(), Shard(0))):
            made = [operand(mesh, c, s, 0)[0] for c, s in zip((whole, order, bias), form.shapes[0])]
            with pytest.raises(LayoutError, match="^Dense"):
                form.call(*made)


@pytest.mark.parametrize("first", ["S1 S1 R", "P R R", "R P R"])
@pytest.mark.parametrize("second", ["S1 S1 R", "P R R", "R P R", "A R R", "S0 R R", "P R P"])
def test_a_bias_counts_once_however_the_axes_came_to_be_pending(first, second):
    """
    Feature: linear with bias.
    Description: contraction on one axis with an inherited sum or mean, a cut batch or a pending bias on the
        other.
    Expectation: the bias counts once in the value, and its gradient is complete and exact.
    """
    form, rows = FORMS["linear bias"], FORMS["linear bias"].accepted()
    a, b = tuple(first.split()), tuple(second.split())
    with simulate(6):
        mesh = init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp"))
        cuts = [(placement(p), placement(q)) for p, q in zip(a, b)]
        check_row(form, mesh, form.shapes[0], cuts, (placement(rows[a]), placement(rows[b])), BOTH)


# -- the reported fault ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["sum", "avg"])
def test_a_chain_of_products_stays_pending_through_every_class(op):
    """
    Feature: inherited Partials.
    Description: a pending x through matmul, MatMul, linear with bias, bmm and BatchMatMul in a row.
    Expectation: pending to the end, one reduction then gives the value; linear's bias counts once.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        x, value = operand(mesh, (Partial(op),), (4, 4), 0)
        w, b = np.arange(16.0, dtype="float32").reshape(4, 4) - 7, np.array([1, -2, 3, -4], "float32")
        dw, db = distribute_tensor(w, mesh, [Replicate()]), distribute_tensor(b, mesh, [Replicate()])
        y = mint.nn.functional.linear(ops.MatMul(False, True)(mint.matmul(x, dw), dw), dw, db)
        assert y.placements == (Partial(op),)
        want = value @ w @ w.T @ w.T + b
        assert np.array_equal(denoted(y), want)
        z, batch = y.reshape((1, 4, 4)), dw.reshape((1, 4, 4))
        z = ops.BatchMatMul(True, False)(mint.bmm(z, batch), batch)
        assert z.placements == (Partial(op),) and np.array_equal(denoted(z)[0], (want @ w).T @ w)


# -- operands that do not fit ----------------------------------------------------------------------------------------

MISFITS = {
    "contracted sizes": (lambda m, t: mint.matmul(t((4, 6)), t((5, 2))), LayoutError, "contracted and must be equal"),
    "linear sizes": (lambda m, t: mint.nn.functional.linear(t((4, 6)), t((2, 5))), LayoutError, "contracted"),
    "flags sizes": (lambda m, t: ops.MatMul(True, False)(t((4, 6)), t((6, 2))), LayoutError, "contracted"),
    "batch sizes": (lambda m, t: mint.matmul(t((2, 4, 6)), t((3, 6, 2))), LayoutError, "do not broadcast"),
    "bias size": (lambda m, t: mint.nn.functional.linear(t((4, 6)), t((2, 6)), t((3,))), LayoutError, "broadcast"),
    "scalar operand": (lambda m, t: mint.matmul(t((4, 6)), t(())), (LayoutError, ValueError), None),
    "1-D flags": (lambda m, t: ops.MatMul()(t((4,)), t((4, 2))), (LayoutError, ValueError), None),
    "3-D weight": (lambda m, t: mint.nn.functional.linear(t((4, 6)), t((2, 2, 6))), LayoutError, "weight"),
    "plain weight": (lambda m, t: mint.matmul(t((4, 6)), Tensor(np.ones((6, 2), "float32"))), LayoutError,
                     "plain tensor"),
    "plain left": (lambda m, t: mint.matmul(Tensor(np.ones((2, 4), "float32")), t((4, 6))), LayoutError,
                   "plain tensor"),
    "plain bias": (lambda m, t: mint.nn.functional.linear(t((4, 6)), t((2, 6)), Tensor([1.0, 2.0])), LayoutError,
                   "plain tensor"),
    "another mesh": (lambda m, t: mint.matmul(t((4, 6)), distribute_tensor(
        np.ones((6, 2), "float32"), init_device_mesh("cpu", (2,), mesh_dim_names=("dp",)), [Replicate()])),
        MeshError, "share one mesh"),
    "permuted ranks": (lambda m, t: mint.matmul(t((4, 6)),
                                                distribute_tensor(np.ones((6, 2), "float32"), init_device_mesh(
        "cpu", (2,), mesh_dim_names=("tp",), rank_list=(1, 0)), [Replicate()])), MeshError, "share one mesh"),
}


@pytest.mark.parametrize("name", list(MISFITS))
def test_operands_that_do_not_fit_are_refused(name):
    """
    Feature: the matmul family.
    Description: sizes, ranks of operands, plain tensors and meshes that do not fit.
    Expectation: one clear error before any collective.
    """
    call, error, text = MISFITS[name]
    with simulate(2), record_collectives() as log:
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        with pytest.raises(error, match=text):
            call(mesh, lambda shape: distribute_tensor(np.ones(shape, "float32"), mesh, [Replicate()]))
    assert log == []


def test_negative_shard_dims_obey_the_same_table():
    """
    Feature: the matmul family.
    Description: x Shard(-1) and w Shard(-2), contracted; x Shard(-2) with w whole.
    Expectation: P(sum) and Shard(0), exact.
    """
    form = FORMS["matmul"]
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        for cuts, out in ((((Shard(-1),), (Shard(-2),)), Partial()), (((Shard(-2),), (Replicate(),)), Shard(0))):
            x, a = operand(mesh, cuts[0], (5, 7), 0)
            w, b = operand(mesh, cuts[1], (7, 3), 1)
            y = form.call(x, w)
            assert isinstance(y, DTensor) and y.placements == (out,) and np.array_equal(denoted(y), a @ b)


def test_axes_of_size_one_are_axes_like_any_other():
    """
    Feature: the matmul table on axes of size 1.
    Description: every row of matmul and of linear with bias on a (1,) mesh.
    Expectation: the placements of the table, the values of one device.
    """
    with simulate(1):
        mesh = init_device_mesh("cpu", (1,))
        for name in ("matmul", "linear bias"):
            form = FORMS[name]
            for row, out in form.accepted().items():
                check_row(form, mesh, form.shapes[0], [(placement(p),) for p in row], (placement(out),), BOTH)

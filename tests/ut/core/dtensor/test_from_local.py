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
"""DTensors made from parts and from whole tensors, read back as parts and as wholes; their gradients by hand."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hyper_parallel import (
    DTensor, Layout, LayoutError, Partial, PartialError, Replicate, Shard, denote, distribute_tensor,
    grad, init_device_mesh, record_collectives, set_gradient_convention, simulate, value_and_grad,
)
from hyper_parallel.core.dtensor.placement_types import StridedShard
from tests.common.distributed_values import realise

R, S, P = Replicate(), Shard, Partial


@pytest.fixture(name="mesh")
def _mesh():
    with simulate(2):
        yield init_device_mesh("npu", (2,), mesh_dim_names=("tp",))


def _parts(*values):
    return [Tensor(np.array(v, "float32")) for v in values]


def _lists(tensor):
    return [v.tolist() for v in tensor.numpy_locals()]


# -- from parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("placements, shape", [
    ([S(0)], (4, 3)), ([S(1)], (2, 6)), ([S(-1)], (2, 6)), ([R], (2, 3)), ([P()], (2, 3)), ([P("max")], (2, 3)),
    (("tp", "None"), (4, 3)), (("None", "tp"), (2, 6)), ((("tp",), "None"), (4, 3)), (S(0), (4, 3)),
])
def test_parts_of_equal_shape_give_the_global_shape(mesh, placements, shape):
    """
    Feature: from_local, DTensor(...).
    Description: two parts of shape (2, 3) under every placement, by placements and by axis names.
    Expectation: the global shape; parts are shared, not copied; nothing is communicated.
    """
    values = np.arange(12.0, dtype="float32").reshape(2, 2, 3)
    parts = _parts(*([values[0]] * 2 if placements == [R] else values))
    with record_collectives() as log:
        made = (DTensor.from_local(parts, mesh, placements), DTensor(parts, mesh, placements),
                DTensor(tuple(parts), device_mesh=mesh, placements=placements))
        for x in made:
            assert x.shape == shape and x.local_shape == (2, 3) and x.device_mesh is mesh
            assert len(x.to_local(partial_ok=True)) == 2
            assert all(np.array_equal(a, b.asnumpy()) for a, b in zip(x.numpy_locals(), parts))
            assert all(a.data_ptr() == b.data_ptr() for a, b in zip(x.to_local(partial_ok=True), parts))
    assert log == [] and not any(isinstance(p, DTensor) for p in parts)


@pytest.mark.parametrize("ranks, placements, shape", [
    (2, [S(0)], (3, 2)), (3, [S(0)], (7, 2)), (4, [S(0)], (5, 2)), (3, [S(1)], (2, 1)), (2, [S(0)], (0, 2)),
])
def test_uneven_parts_need_the_global_shape(ranks, placements, shape):
    """
    Feature: from_local(shape=).
    Description: short and empty tails, with and without shape=.
    Expectation: with it the value; without it LayoutError that asks for it, unless the shapes happen to be equal.
    """
    with simulate(ranks):
        mesh = init_device_mesh("cpu", (ranks,))
        value, locals_ = realise(np.random.default_rng(0), mesh, placements, shape)
        for x in (DTensor.from_local(_parts(*locals_), mesh, placements, shape=shape),
                  DTensor(_parts(*locals_), mesh, placements, shape=shape),
                  DTensor.from_local(_parts(*locals_), mesh, placements, shape=shape, stride=(shape[1], 1))):
            assert x.shape == shape and np.array_equal(denote(x.numpy_locals(), x.layout), value)
            assert np.array_equal(x.full_tensor().asnumpy(), value)
        if shape[0]:
            for check in (True, False, None):
                with pytest.raises(LayoutError, match="shape="):
                    DTensor.from_local(_parts(*locals_), mesh, placements, run_check=check)


def test_nested_cuts_take_their_own_sizes(grid):
    """
    Feature: from_local.
    Description: 5 over (dp, tp) and over (tp, dp), by placements and axis names.
    Expectation: parts of 2, 1, 1, 1 and 2, 1, 1, 1 in the other order; the same value.
    """
    value = np.arange(5.0)
    for placements, names, parts in (
            ([S(0), S(0)], (("dp", "tp"),), [[0, 1], [2], [3], [4]]),
            ([StridedShard(0, 2), S(0)], (("tp", "dp"),), [[0, 1], [3], [2], [4]])):
        for given in (placements, names):
            x = DTensor.from_local(_parts(*parts), grid, given, shape=(5,))
            assert x.placements == tuple(placements) and np.array_equal(x.full_tensor().asnumpy(), value)
            assert _lists(distribute_tensor(value, grid, given)) == parts


def test_a_layout_object_serves_in_place_of_mesh_and_placements(mesh):
    """
    Feature: from_local_with_layout, DTensor(layout=).
    Description: a layout with and without a recorded global shape, even and uneven; pending.
    Expectation: the same tensors as by placements; the layout object is not shared.
    """
    layout = Layout.from_device_mesh(mesh)("tp", "None")
    for x in (DTensor.from_local_with_layout(_parts([[1]], [[2]]), layout),
              DTensor(_parts([[1]], [[2]]), layout=layout)):
        assert x.placements == (S(0),) and x.shape == (2, 1)
    uneven = DTensor.from_local_with_layout(_parts([[1], [2]], [[3]]), layout, shape=(3, 1))
    assert uneven.shape == (3, 1) and uneven.layout.tensor_shape == (3, 1)
    again = DTensor.from_local_with_layout(_parts([[1], [2]], [[3]]), uneven.layout)
    assert again.shape == (3, 1)
    layout.set_tensor_map((-1, -1))
    layout.set_partial_by_dev_axis("tp", "sum")
    assert x.placements == (S(0),) and DTensor(_parts([[1]], [[2]]), layout=layout).placements == (P(),)


def test_the_layout_of_a_tensor_is_a_fresh_handle(mesh):
    """
    Feature: DTensor.layout.
    Description: set a pending op on the handle that a tensor gives.
    Expectation: the tensor keeps its layout; every ask gives another handle on the same value.
    """
    x = DTensor.from_local(_parts([1], [1]), mesh, [R])
    handle = x.layout
    handle.set_partial_by_dev_axis("tp", "sum")
    assert x.placements == (R,) and not x.layout.is_partial() and x.layout is not x.layout
    assert x.layout.value is x.layout.value and x.layout.get_global_shape((9,)) == (1,)


def test_a_dtensor_is_copied_by_the_constructor(mesh):
    """
    Feature: DTensor(dtensor).
    Description: a DTensor alone; with its own mesh and placements; with placements that relabel its parts.
    Expectation: the same value and layout; a relabelling is refused.
    """
    x = DTensor.from_local(_parts([1, 2], [3, 4]), mesh, [S(0)])
    for made in (DTensor(x), DTensor(x, mesh, [S(0)]), DTensor(x, x.device_mesh, x.placements)):
        assert made is not x and made.placements == x.placements and _lists(made) == _lists(x) and made.shape == (4,)
    with pytest.raises(LayoutError):
        DTensor(x, mesh, [R])


def test_run_check_compares_replicas_now(mesh):
    """
    Feature: from_local(run_check=).
    Description: replicas that differ, with run_check True, False and the default; equal ones; shards and addends.
    Expectation: True refuses differing replicas at once; shards and addends may differ.
    """
    with pytest.raises(LayoutError, match="replicas of .* differ"):
        DTensor.from_local(_parts([1], [2]), mesh, [R], run_check=True)
    for check in (False, None):
        assert _lists(DTensor.from_local(_parts([1], [2]), mesh, [R], run_check=check)) == [[1.0], [2.0]]
    for placement, parts in ((R, ([1], [1])), (S(0), ([1], [2])), (P(), ([1], [2]))):
        assert _lists(DTensor.from_local(_parts(*parts), mesh, [placement],
                                         run_check=True)) == [list(map(float, p)) for p in parts]


def test_a_tensor_on_a_sub_mesh_holds_one_value_per_row(grid):
    """
    Feature: sub-meshes in a simulation.
    Description: rows of four ranks hold their own tensors on mesh["tp"].
    Expectation: a sum over tp adds within each row only.
    """
    sub = grid["tp"]
    x = DTensor.from_local(_parts([1], [2], [10], [20]), sub, [P()])
    assert x.device_mesh.mesh_shape == (2,) and _lists(x.reduce_partial()) == [[3.0], [3.0], [30.0], [30.0]]
    assert _lists(x.redistribute(sub, [R]) + x.redistribute(sub, [R])) == [[6.0], [6.0], [60.0], [60.0]]


REFUSED = {
    "no mesh": (lambda m, p: DTensor(p, None, [R]), ValueError, "mesh and placements"),
    "no placements": (lambda m, p: DTensor(p, m, None), ValueError, "mesh and placements"),
    "from_local without placements": (lambda m, p: DTensor.from_local(p, m, None), ValueError, "mesh and placements"),
    "two placements": (lambda m, p: DTensor(p, m, [R, R]), LayoutError, "needs 1 placements"),
    "no placement": (lambda m, p: DTensor(p, m, []), LayoutError, "needs 1 placements"),
    "name per mesh axis": (lambda m, p: DTensor(p, m, ("tp", "None")), LayoutError, "1 are needed"),
    "unknown name": (lambda m, p: DTensor(p, m, ("dp",)), LayoutError, "no axis 'dp'"),
    "dim out of range": (lambda m, p: DTensor(p, m, [S(1)]), LayoutError, "out of range"),
    "placement of another type": (lambda m, p: DTensor(p, m, [0]), LayoutError, "0 on axis 'tp' is not a placement"),
    "None as placement": (lambda m, p: DTensor(p, m, [None]), LayoutError, "None on axis 'tp' is not a placement"),
    "shape of another size": (lambda m, p: DTensor(p, m, [S(0)], shape=(5,)), LayoutError, "Rank 0 holds .*gives it"),
    "shape of another rank": (lambda m, p: DTensor(p, m, [S(0)], shape=(2, 2)), LayoutError,
                              "does not fit the shape"),
    "stride alone": (lambda m, p: DTensor.from_local(p, m, [S(0)], stride=(1,)), LayoutError, "stride"),
    "one part for two ranks": (lambda m, p: DTensor(p[:1], m, [S(0)]), LayoutError, "2 local tensors"),
    "a bare tensor": (lambda m, p: DTensor(p[0], m, [S(0)]), LayoutError, "one tensor per rank"),
    "a template": (lambda m, p: DTensor(p, layout=Layout.from_device_mesh(m)), LayoutError, "template"),
    "bools to sum": (lambda m, p: DTensor([Tensor([True])] * 2, m, [P("sum")]), LayoutError, "bool"),
    "ints to average": (lambda m, p: DTensor([Tensor([1])] * 2, m, [P("avg")]), LayoutError, "avg"),
    "floats to conjoin": (lambda m, p: DTensor(p, m, [P("all")]), LayoutError, "bool"),
    "gradient of another shape": (
        lambda m, p: DTensor.from_local(p, m, [S(0)], grad_placements=[R]), LayoutError, "grad"),
    "gradient placements of another number": (
        lambda m, p: DTensor.from_local(p, m, [S(0)], grad_placements=[R, R]), LayoutError, "needs 1 placements"),
    "parts of two types": (lambda m, p: DTensor([Tensor([1.0]), Tensor([2])], m, [S(0)]), LayoutError, "type"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_parts_that_denote_no_tensor_are_refused(mesh, name):
    """
    Feature: from_local, DTensor(...).
    Description: placements, names, shapes, types and numbers of parts that do not fit.
    Expectation: an error of this package that says what was found, before anything is communicated.
    """
    make, error, text = REFUSED[name]
    with record_collectives() as log, pytest.raises(error, match=text):
        make(mesh, _parts([1, 2], [3, 4]))
    assert log == []


def test_outside_a_simulation_a_part_is_one_tensor():
    """
    Feature: from_local in a process.
    Description: a tensor, a list and an array on a mesh of one rank.
    Expectation: the tensor becomes a DTensor of its own; anything else is a TypeError.
    """
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("tp",), init_backend=False)
    local = Tensor([1.0, 2.0])
    x = DTensor.from_local(local, mesh, [S(0)])
    assert x.shape == (2,) and not isinstance(local, DTensor)
    assert x.to_local().data_ptr() == local.data_ptr()
    for bad in ([local], np.ones(2), 1.0):
        with pytest.raises(TypeError, match="mindspore.Tensor"):
            DTensor.from_local(bad, mesh, [S(0)])


# -- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["sum", "avg", "max", "min", "prod"])
def test_a_pending_part_is_read_knowingly_only(mesh, op):
    """
    Feature: to_local, full_tensor.
    Description: to_local of a Partial, plainly and with partial_ok, in both conventions; full_tensor.
    Expectation: PartialError under single_loss; the addends otherwise; full_tensor reduces.
    """
    x = DTensor.from_local(_parts([1, 6], [3, 2]), mesh, [P(op)])
    with pytest.raises(PartialError, match=r"partial_ok=True"):
        x.to_local()
    assert [v.asnumpy().tolist() for v in x.to_local(partial_ok=True)] == [[1, 6], [3, 2]]
    with set_gradient_convention("sum_of_ranks"):
        assert [v.asnumpy().tolist() for v in x.to_local()] == [[1, 6], [3, 2]]
    want = {"sum": [4, 8], "avg": [2, 4], "max": [3, 6], "min": [1, 2], "prod": [3, 12]}[op]
    assert x.full_tensor().asnumpy().tolist() == want and x.placements == (P(op),)
    assert not isinstance(x.full_tensor(), DTensor)


# -- gradients at the borders, by hand: parts [1, 6] and [3, 2], loss = sum(value * weight) ------------------------

WEIGHT = [2.0, 5.0, 7.0, 11.0]
# placement, gradient of each part under single_loss, under sum_of_ranks (two replicas of the loss, seeded with 1)
BORDERS = [
    (R, [[2, 5], [2, 5]], [[2, 5], [2, 5]]),
    (S(0), [[2, 5], [7, 11]], [[4, 10], [14, 22]]),
    (P("sum"), [[2, 5], [2, 5]], [[4, 10], [4, 10]]),
    (P("avg"), [[1, 2.5], [1, 2.5]], [[2, 5], [2, 5]]),
    (P("max"), [[0, 5], [2, 0]], [[0, 10], [4, 0]]),
    (P("min"), [[2, 0], [0, 5]], [[4, 0], [0, 10]]),
    (P("prod"), [[6, 10], [2, 30]], [[12, 20], [4, 60]]),
]


def _at_the_border(mesh, placement, **options):
    """Gradients that arrive at the two plain parts."""

    def loss(*parts):
        x = DTensor.from_local(list(parts), mesh, [placement], **options)
        weight = distribute_tensor(np.array(WEIGHT[:x.shape[0]], "float32"), mesh, [R])
        return sum((x.redistribute(mesh, [R]) * weight).sum().to_local())

    parts = _parts([1, 6], [1, 6] if placement == R else [3, 2])
    return [g.asnumpy().tolist() for g in ms.grad(loss, (0, 1))(*parts)]


@pytest.mark.parametrize("placement, single, summed", BORDERS)
def test_from_local_hands_back_the_gradient_of_the_layout(mesh, placement, single, summed):
    """
    Feature: from_local backward.
    Description: every placement in both conventions, against gradients worked out by hand.
    Expectation: the table of the design: shards of g, g complete, g/n, g where the extreme is attained.
    """
    assert _at_the_border(mesh, placement) == single
    with set_gradient_convention("sum_of_ranks"):
        assert _at_the_border(mesh, placement) == summed


@pytest.mark.parametrize("placement, given, single", [
    (R, P(), [[2, 5], [0, 0]]), (R, R, [[2, 5], [2, 5]]), (P(), P(), [[2, 5], [0, 0]]), (P(), R, [[2, 5], [2, 5]]),
    (P("avg"), R, [[2, 5], [2, 5]]), (P("max"), R, [[2, 5], [2, 5]]), (S(0), S(0), [[2, 5], [7, 11]]),
    (S(0), S(-1), [[2, 5], [7, 11]]),
])
def test_grad_placements_of_from_local_convert_what_is_handed_back(mesh, placement, given, single):
    """
    Feature: from_local(grad_placements=).
    Description: the gradient is asked for complete, or as addends of a sum.
    Expectation: converted under single_loss; under sum_of_ranks the parts are what they are.
    """
    assert _at_the_border(mesh, placement, grad_placements=[given]) == single
    with set_gradient_convention("sum_of_ranks"):
        assert _at_the_border(mesh, placement, grad_placements=[given]) == _at_the_border(mesh, placement)


def _through_parts(mesh, placement, label, values, **options):
    """Gradient of a DTensor whose parts are used locally: rank r multiplies its own by r + 1."""
    x = DTensor.from_local(_parts(*values), mesh, [placement])

    def loss(x):
        parts = x.to_local(partial_ok=True, **options)
        return sum((part * (rank + 1)).sum() for rank, part in enumerate(parts))

    g = grad(loss)(x)
    assert g.placements == (label,)
    return _lists(g)


@pytest.mark.parametrize("placement, label, given, single", [
    (S(0), S(0), None, [[1, 1], [2, 2]]), (S(0), S(0), S(0), [[1, 1], [2, 2]]),
    (R, R, P(), [[3, 3], [3, 3]]), (R, R, R, [[1, 1], [2, 2]]), (R, R, None, [[1, 1], [2, 2]]),
    (P(), R, P(), [[3, 3], [3, 3]]), (P(), R, None, [[1, 1], [2, 2]]),
    (P("avg"), P(), None, [[1, 1], [2, 2]]), (P("avg"), P(), P(), [[1, 1], [2, 2]]),
])
def test_grad_placements_of_to_local_complete_what_arrives(mesh, placement, label, given, single):
    """
    Feature: to_local(grad_placements=).
    Description: differing local work on a replica, an addend and a shard; gradients declared as addends or not.
    Expectation: declared addends are summed over the axis, so that a replica's gradient is complete on every
        rank.
    """
    values = [[1, 6], [1, 6]] if placement == R else [[1, 6], [3, 2]]
    options = {} if given is None else {"grad_placements": [given]}
    assert _through_parts(mesh, placement, label, values, **options) == single


def test_to_local_is_the_identity_under_sum_of_ranks(mesh):
    """
    Feature: to_local(grad_placements=) under sum_of_ranks.
    Description: differing local work on a replica.
    Expectation: each rank holds its own part of the gradient, labelled as addends of a sum.
    """
    with set_gradient_convention("sum_of_ranks"):
        for options in ({}, {"grad_placements": [P()]}):
            assert _through_parts(mesh, R, P(), [[1, 6], [1, 6]], **options) == [[1, 1], [2, 2]]


@pytest.mark.parametrize("placement", [R, S(0), P(), P("avg"), P("max")])
def test_a_loss_through_the_whole_tensor_counts_once(mesh, placement):
    """
    Feature: full_tensor backward.
    Description: loss = sum(full_tensor * weight) under single_loss.
    Expectation: the gradient is the weight, whatever the layout.
    """
    values = [[1, 6], [1, 6]] if placement == R else [[1, 6], [3, 2]]
    x = DTensor.from_local(_parts(*values), mesh, [placement])
    weight = np.array(WEIGHT[:x.shape[0]], "float32")
    value, g = value_and_grad(lambda x: (x.full_tensor() * Tensor(weight)).sum())(x)
    assert value.asnumpy() == (x.full_tensor().asnumpy() * weight).sum()
    assert np.array_equal(denote(g.numpy_locals(), g.layout), weight)

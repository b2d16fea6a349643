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
"""The five operation classes asked directly: both calling conventions on layouts, and the three phases by hand."""
import copy
import itertools

import numpy as np
import pytest
from mindspore import Tensor, mint, ops

from hyper_parallel import (
    DTensor, Layout, LayoutError, MeshError, PartialError, UnsupportedOpError, denote, init_device_mesh, simulate,
)
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.layout_value import placements_to_value
from hyper_parallel.core.shard.ops import parallel_ops_register as register
from hyper_parallel.core.shard.ops.parallel_matmul import (
    BatchMatMulDistributedOp, BatchMatMulExtDistributedOp, LinearDistributedOp, MatMulDistributedOp,
    MatMulExtDistributedOp,
)
from hyper_parallel.platform.platform import _ACTIVE, Platform
from tests.common.distributed_values import realise
from tests.ut.core.shard.matmul_rows import FORMS, choices, placement

CLASSES = {
    "MatMulExt": MatMulExtDistributedOp, "MatMul": MatMulDistributedOp, "BatchMatMulExt": BatchMatMulExtDistributedOp,
    "BatchMatMul": BatchMatMulDistributedOp, "Dense": LinearDistributedOp,
}
pytestmark = pytest.mark.usefixtures("own_registry")


def _mesh(*shape, names=("dp", "tp"), ranks=None):
    ranks = np.arange(int(np.prod(shape))) if ranks is None else np.array(ranks)
    return DeviceMesh("npu", ranks.reshape(shape), mesh_dim_names=names[-len(shape):], _init_backend=False)


def _handle(mesh, row, ndim, shape=None):
    """A layout handle of one placement text per mesh axis; L stands for a pending conjunction."""
    layout = Layout.from_device_mesh(mesh)(*["None"] * ndim)
    cuts = [tuple(mesh.mesh_dim_names[a] for a, p in enumerate(row) if p == f"S{d}") or "None" for d in range(ndim)]
    layout.set_alias_tensor_map(cuts)
    for axis, text in enumerate(row):
        if text == "L" or placement(text).is_partial():
            layout.set_partial_by_dev_axis(mesh.mesh_dim_names[axis], "all" if text == "L"
                                           else placement(text).reduce_op)
    if shape is not None:
        layout.set_tensor_meta(shape)
    return layout


# (form of the table, static arguments, whether global shapes are needed to tell a broadcast dim)
ASKED = [
    ("matmul", (), False), ("matmul batched left", (), False), ("matmul batched right", (), False),
    ("matmul batched both", (), False),
    ("matmul broadcast", (), True), ("dot", (), False), ("vector @ matrix", (), False),
    ("matrix @ vector", (), False),
    ("vector @ batch", (), False), ("batch @ vector", (), False), ("MatMul", (False, False), False),
    ("MatMul ta", (True, False), False),
    ("MatMul tb", (False, True), False), ("MatMul ta tb", (True, True), False), ("bmm", (), False),
    ("BatchMatMul", (False, False), False), ("BatchMatMul ta", (True, False), False),
    ("BatchMatMul tb", (False, True), False),
    ("BatchMatMul ta tb", (True, True), False), ("linear", (None,), False), ("linear bias", (), False),
    ("linear batched", (None,), False),
]


def _ask(name, static, row, with_shapes):
    """Handles for one row of a form and both answers about it."""
    form = FORMS[name]
    mesh = _mesh(2)
    shapes = form.shapes[0]
    handles = [_handle(mesh, (p,), len(s), s if with_shapes else None) for p, s in zip(row, shapes)]
    op = register.get_distributed_op(form.op)
    tensors, flags = (handles + [None] * (static == (None,))), [s for s in static if s is not None]
    values = list(handles) + list(static)
    return handles, (lambda: op.infer_layout(values)), (lambda: op.infer_layout(tuple(tensors), flags))


@pytest.mark.parametrize("name, static, with_shapes", [
    (name, static, with_shapes) for name, static, sizes in ASKED
    for with_shapes in ([True] if sizes else [False, True])])
def test_both_calls_answer_every_row(name, static, with_shapes):
    """
    Feature: infer_layout(cache_values), infer_layout(layouts, extra_args).
    Description: every row of the table on layout handles, without a process group, with and without global
        shapes.
    Expectation: ((layout,), extra) and the layout alone, with the placement of the table; handles are not
        changed.
    """
    form = FORMS[name]
    for row, wanted in form.accepted().items():
        handles, three_phase, older = _ask(name, static, row, with_shapes)
        before = [(copy.deepcopy(h), h.value, h.tensor_map, h.tensor_shape) for h in handles]
        (out,), _ = three_phase()
        old = older()
        assert isinstance(out, Layout) and isinstance(old, Layout) and out == old
        ndim = np.ndim(form.numpy(*map(np.zeros, form.shapes[0])))
        assert out.placements == (placement(wanted),) and len(out.tensor_map) == ndim, row
        shape = np.shape(form.numpy(*map(np.zeros, form.shapes[0])))
        assert out.tensor_shape == (shape if with_shapes else None)
        assert [(h, h.value, h.tensor_map, h.tensor_shape) for h in handles] == before


@pytest.mark.parametrize("name, static, _", ASKED)
def test_both_calls_refuse_everything_else(name, static, _):
    """
    Feature: infer_layout(cache_values), infer_layout(layouts, extra_args).
    Description: every combination that is no row, a pending conjunction among them; with shapes where both
        operands have batch dims, for one of them might broadcast otherwise.
    Expectation: PartialError or LayoutError from both calls; handles are not changed.
    """
    form = FORMS[name]
    sizes = min(map(len, form.shapes[0][:2])) > 2
    refused = 0
    for row in itertools.product(*([*choices(s), "L"] for s in form.shapes[0])):
        if row in form.accepted():
            continue
        handles, *calls = _ask(name, static, row, sizes)
        before = copy.deepcopy(handles)
        for call in calls:
            with pytest.raises(LayoutError, match=f"^{form.op} ") as caught:
                call()
            assert isinstance(caught.value, PartialError) is any(p in "PAXNDL" for p in row), row
        assert handles == before
        refused += 1
    assert refused > 30


def test_a_batch_that_broadcasts_is_told_by_its_shape():
    """
    Feature: infer_layout of BatchMatMul with global shapes.
    Description: a batch of size 1 next to a batch of size 3, cut on either side; without shapes.
    Expectation: the whole side may be R; a cut of the size-1 dim is refused.
    """
    op, mesh = BatchMatMulDistributedOp(), _mesh(2)
    one, three = (1, 5, 4), (3, 4, 2)
    for left, right, wanted in (("R", "S0", "S0"), ("S1", "R", "S1"), ("S2", "S1", "P"), ("P", "R", "P")):
        out = op.infer_layout((_handle(mesh, (left,), 3, one), _handle(mesh, (right,), 3, three)), (False, False))
        assert out.placements == (placement(wanted),) and out.tensor_shape == (3, 5, 2)
    for left, right in (("S0", "S0"), ("S0", "R")):
        with pytest.raises(LayoutError, match="^BatchMatMul "):
            op.infer_layout((_handle(mesh, (left,), 3, one), _handle(mesh, (right,), 3, three)), (False, False))


@pytest.mark.parametrize("op, static, ranks",
                         [("MatMulExt", (), (2, 2)), ("MatMul", (False, False), (2, 2)),
                          ("BatchMatMulExt", (), (3, 3)),
                                               ("BatchMatMul", (False, False), (3, 3)), ("Dense", (None,), (2, 2))])
def test_axes_are_independent_and_orders_are_kept(op, static, ranks):
    """
    Feature: infer_layout on two axes.
    Description: the class of the bug report: x cut on the contraction by tp and on its rows by dp, twice in a
        row; rows cut by (tp, dp).
    Expectation: dp keeps its cut, tp becomes and stays a sum; the order of cuts is kept.
    """
    made, template = CLASSES[op](op), Layout((2, 2), ("dp", "tp"), init_backend=False)
    batch = ("None",) * (ranks[0] - 2)
    x, w = template(*batch, "dp", "tp"), template(*batch, *(("None", "tp") if op == "Dense" else ("tp", "None")))
    (tmp,), _ = made.infer_layout([x, w, *static])
    assert tmp.partial == [None, "sum"] and tmp.alias_tensor_map == (*batch, "dp", "None")
    (out,), _ = made.infer_layout([tmp, template(*batch, "None", "None"), *static])
    assert out == tmp and out is not tmp
    (kept,), _ = made.infer_layout([template(*batch, ("tp", "dp"), "None"), template(*batch, "None", "None"),
                                    *static])
    assert kept.alias_tensor_map == (*batch, ("tp", "dp"), "None")


def test_answers_are_fresh_handles():
    """
    Feature: infer_layout.
    Description: a returned handle is changed, then the same question asked again.
    Expectation: the first answer's change is not seen.
    """
    op, mesh = MatMulExtDistributedOp(), _mesh(2)
    x, w = _handle(mesh, ("S1",), 2), _handle(mesh, ("S0",), 2)
    first = op.infer_layout([x, w])[0][0]
    first.reset_partial()
    assert op.infer_layout([x, w])[0][0].partial == ["sum"] and op.infer_layout((x, w), ()).partial == ["sum"]


def _pair(mesh=None):
    mesh = mesh or _mesh(2)
    return _handle(mesh, ("R",), 2), _handle(mesh, ("R",), 2)


@pytest.mark.parametrize("call", [
    lambda op, x, w: op.infer_layout([x, w]), lambda op, x, w: op.infer_layout((x, w)),
    lambda op, x, w: op.infer_layout([x, w], None),
    lambda op, x, w: op.infer_layout((x, w), ()), lambda op, x, w: op.infer_layout((x, w), []),
    lambda op, x, w: op.infer_layout([x, w], extra_args=[]),
    lambda op, x, w: op.infer_layout(cache_values=[x, w]),
])
def test_forms_of_the_call(call):
    """
    Feature: infer_layout.
    Description: lists and tuples, extra arguments positional, by keyword, empty and None.
    Expectation: an answer in the form that was asked for.
    """
    answer = call(MatMulExtDistributedOp(), *_pair())
    assert isinstance(answer, Layout) or isinstance(answer[0][0], Layout)


REFUSED = {
    "one layout": (lambda: MatMulExtDistributedOp().infer_layout([_pair()[0]]), LayoutError, "other"),
    "no layout": (lambda: MatMulExtDistributedOp().infer_layout([]), LayoutError, "MatMulExt"),
    "three layouts": (lambda: MatMulExtDistributedOp().infer_layout([*_pair(), _pair()[0]]), LayoutError,
                      "MatMulExt takes"),
    "three layouts, older": (lambda: MatMulExtDistributedOp().infer_layout((*_pair(), _pair()[0]), ()), LayoutError,
                             "too many"),
    "extra of a class without": (lambda: MatMulExtDistributedOp().infer_layout(_pair(), (True,)), LayoutError,
                                 "too many"),
    "three flags": (lambda: MatMulDistributedOp().infer_layout(_pair(), (True, True, True)), LayoutError, "too many"),
    "a plain weight": (lambda: MatMulExtDistributedOp().infer_layout([_pair()[0], None]), LayoutError,
                       "'other' has no layout"),
    "a plain input": (lambda: LinearDistributedOp().infer_layout([None, _pair()[1], None]), LayoutError,
                      "'input' has no layout"),
    "a plain weight, older": (lambda: MatMulDistributedOp().infer_layout((_pair()[0], None), (False, False)),
                              LayoutError, "'other' has no layout"),
    "another mesh": (lambda: MatMulExtDistributedOp().infer_layout([_pair()[0], _pair(_mesh(3))[0]]), MeshError,
                     "share one mesh"),
    "other names": (lambda: MatMulExtDistributedOp().infer_layout([_pair()[0], _pair(_mesh(2, names=("pp",)))[0]]),
                    MeshError, "share one mesh"),
    "other ranks": (lambda: MatMulExtDistributedOp().infer_layout([_pair()[0], _pair(_mesh(2, ranks=(2, 3)))[0]]),
                    MeshError, "share one mesh"),
    "bias of another mesh": (lambda: LinearDistributedOp().infer_layout([*_pair(), _handle(_mesh(3), ("R",), 1)]),
                             MeshError, "share one mesh"),
    "a 3-D weight": (lambda: LinearDistributedOp().infer_layout([_pair()[0], _handle(_mesh(2), ("R",), 3), None]),
                     LayoutError, "weight must have"),
    "a 2-D bias": (lambda: LinearDistributedOp().infer_layout([*_pair(), _pair()[0]]), LayoutError, "bias must have"),
    "a template": (lambda: MatMulExtDistributedOp().infer_layout([_pair()[0], Layout.from_device_mesh(_mesh(2))]),
                   LayoutError, "template"),
    "1-D with flags": (lambda: MatMulDistributedOp().infer_layout((_pair()[0], _handle(_mesh(2), ("R",), 1)),
        (False, False)), LayoutError, "2 dim"),
    "1-D batch": (lambda: BatchMatMulExtDistributedOp().infer_layout([_handle(_mesh(2), ("R",), 1), _pair()[0]]),
                  LayoutError, "2 dim"),
    "shapes that do not fit": (lambda: MatMulExtDistributedOp().infer_layout(
        [_handle(_mesh(2), ("R",), 2, (4, 6)), _handle(_mesh(2), ("R",), 2, (5, 2))]), LayoutError, "must be equal"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_questions_that_do_not_fit_are_refused(name):
    """
    Feature: infer_layout.
    Description: missing, extra and foreign layouts, wrong numbers of flags, operands of wrong rank.
    Expectation: an error of this package that names what is wrong.
    """
    call, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("name", list(CLASSES))
def test_making_an_instance_registers_it(name):
    """
    Feature: the registry.
    Description: a class made without a name, with its name and with another one.
    Expectation: found under that name; the built-in family is found under its own without being made.
    """
    assert isinstance(register.get_distributed_op(name), CLASSES[name])
    told = []
    register.on_registration(lambda: told.append(1))
    made = CLASSES[name]()
    assert made.op_name == name and register.get_distributed_op(name) is made
    assert told
    other = CLASSES[name]("Mine")
    assert register.get_distributed_op("Mine") is other and register.get_distributed_op(name) is made
    assert register.registered_ops()["Mine"] is other and register.get_distributed_op("NoSuchOp") is None


# -- the three phases by hand ----------------------------------------------------------------------------------------


class _Rank(Platform):
    """One rank of a job, without processes: enough for everything that does not communicate."""

    def __init__(self, rank: int, world: int):
        self._rank, self._world = rank, world

    def rank(self):
        return self._rank

    def world_size(self):
        return self._world


def _by_hand(op, func, mesh, operands, static=()):
    """Per rank the local result of preprocess, infer_layout and get_expand_impl; and the inferred layout.

    Args:
        op: the operation class.
        func: the framework's function.
        mesh: the mesh.
        operands: per operand its placements, global shape and per-rank locals.
        static: further arguments.
    """
    results = []
    for rank in range(mesh.size()):
        _ACTIVE.stack.append(_Rank(rank, mesh.size()))
        try:
            args = tuple(DTensor.from_local(Tensor(locals_[rank]), mesh, p, shape=s)
                         for p, s, locals_ in operands) + tuple(static)
            local_args, local_kwargs, cache_values = op.preprocess(args, {})
            inferred = op.infer_layout(cache_values)
            run = op.get_expand_impl(func, inferred, cache_values)
            results.append((run or func)(*local_args, **local_kwargs).asnumpy())
        finally:
            _ACTIVE.stack.pop()
    return results, inferred[0][0]


BY_HAND = [
    ("matmul", mint.matmul, ()), ("vector @ matrix", mint.matmul, ()), ("matmul batched both", mint.matmul, ()),
    ("MatMul ta", lambda x, w, ta, tb: ops.MatMul(ta, tb)(x, w), (True, False)), ("bmm", mint.bmm, ()),
    ("BatchMatMul tb", lambda x, w, ta, tb: ops.BatchMatMul(ta, tb)(x, w), (False, True)),
    ("linear", mint.nn.functional.linear, ()),
    ("linear bias", mint.nn.functional.linear, ()),
]


@pytest.mark.parametrize("name, func, static", BY_HAND)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_three_phases_give_the_value(name, func, static, ranks):
    """
    Feature: preprocess, infer_layout, get_expand_impl.
    Description: the phases run by hand as each rank, for every row, uneven shards, per-rank addends.
    Expectation: plain local arguments, layouts and flags in order as cache values; local results that denote the
        value.
    """
    form, mesh = FORMS[name], _mesh(ranks)
    op, shapes = register.get_distributed_op(form.op), form.shapes[0]
    for row, wanted in form.accepted().items():
        parts = [realise(np.random.default_rng(i), mesh, (placement(p),), s)
                 for i, (p, s) in enumerate(zip(row, shapes))]
        operands = [((placement(p),), s, locals_) for p, s, (_, locals_) in zip(row, shapes, parts)]
        results, out = _by_hand(op, func, mesh, operands, static)
        assert out.placements == (placement(wanted),)
        want = form.numpy(*(value for value, _ in parts))
        assert out.tensor_shape == want.shape and np.array_equal(denote(results, out), want), row


def test_preprocess_separates_local_values_from_what_decides():
    """
    Feature: preprocess.
    Description: positional and keyword arguments, flags, an absent bias, on one rank and in a simulation.
    Expectation: local arguments where DTensors were; cache values in parameter order; DTensors are not changed.
    """
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("tp",), init_backend=False)
    x = DTensor.from_local(Tensor(np.ones((2, 2), "float32")), mesh, (placement("P"),))
    args, kwargs, cache = MatMulDistributedOp().preprocess((x, x), {"transpose_b": True})
    assert not any(isinstance(a, DTensor) for a in args) and kwargs == {"transpose_b": True}
    assert cache == [x.layout, x.layout, False, True] and cache[0].tensor_shape == (2, 2)
    assert LinearDistributedOp().preprocess((x, x, None), None)[2] == [x.layout, x.layout, None]
    assert LinearDistributedOp().preprocess((x,), {"weight": x})[2] == [x.layout, x.layout, None]
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        y = DTensor.from_local([Tensor(np.ones((2, 2), "float32"))] * 2, mesh, (placement("S0"),))
        args, _, cache = MatMulExtDistributedOp().preprocess((y, y), {})
        assert len(args[0]) == 2 and cache == [y.layout, y.layout] and y.placements == (placement("S0"),)


def test_no_local_function_is_given_where_the_operation_itself_is_right():
    """
    Feature: get_expand_impl.
    Description: rows without and with conversions, asked in a simulation.
    Expectation: None without; where ranks differ in what they must run, a simulation says so.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        x, w, b = (_handle(mesh, (p,), n) for p, n in (("S1", 2), ("S1", 2), ("R", 1)))
        op = LinearDistributedOp()
        values = [x, w, None]
        assert op.get_expand_impl(mint.nn.functional.linear, op.infer_layout(values), values) is None
        values = [x, w, b]
        with pytest.raises(UnsupportedOpError, match="^Dense.*simulation"):
            op.get_expand_impl(mint.nn.functional.linear, op.infer_layout(values), values)


def test_partial_inputs_can_be_refused_by_a_class():
    """
    Feature: _check_partial_inputs.
    Description: layouts with and without a pending op, None among them, with and without _allow_partial_inputs.
    Expectation: PartialError that names operation, input and call; nothing otherwise.
    """
    op, mesh = MatMulExtDistributedOp(), _mesh(2)
    whole, pending = _handle(mesh, ("R",), 2), _handle(mesh, ("P",), 2)
    op._check_partial_inputs([whole, None, whole])
    with pytest.raises(PartialError, match=r"MatMulExt: input 1 .*reduce_partial\(\)"):
        op._check_partial_inputs([whole, pending])
    op._allow_partial_inputs = True
    op._check_partial_inputs([whole, pending])


def test_layouts_by_value_and_by_handle_agree():
    """
    Feature: infer_layout.
    Description: the layouts of DTensors against layouts made by hand.
    Expectation: the same interned value as the dispatcher's result.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        x = DTensor.from_local([Tensor(np.ones((3, 2), "float32"))] * 2, mesh, (placement("S1"),))
        w = DTensor.from_local([Tensor(np.ones((2, 5), "float32"))] * 2, mesh, (placement("S0"),))
        out = mint.matmul(x, w)
        (inferred,), _ = MatMulExtDistributedOp().infer_layout([x.layout, w.layout])
        assert inferred.value is out.layout.value is placements_to_value(mesh, (placement("P"),), 2)
        assert inferred.tensor_shape == out.shape == (3, 5)

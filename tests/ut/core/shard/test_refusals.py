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
"""What every kind of refusal says: error type, what was found, the rule, and a call; and the call mends it."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint

from hyper_parallel import (
    CommunicationError, DTensor, HyperParallelError, LayoutError, MeshError, Partial, PartialError, Replicate,
    Shard, UnsupportedOpError, custom_shard, denote, distribute_tensor, implicit_replication, init_device_mesh,
    record_collectives, simulate,
)
from hyper_parallel.core.dtensor.placement_types import StridedShard
from hyper_parallel.core.shard._op_dispatch import dispatch_named
from tests.common.tensors import put

R, S, P = Replicate(), Shard, Partial
A = np.arange(16.0, dtype="float32").reshape(4, 4) - 5
B = np.random.default_rng(1).integers(-4, 5, (4, 4)).astype("float32")
LINEAR = mint.nn.functional.linear


def _value(x):
    if isinstance(x, DTensor):
        return denote(x.numpy_locals(), x.layout)
    return x.asnumpy() if isinstance(x, Tensor) else np.asarray(x)


def _on(mesh, x, *placements):
    return x.redistribute(mesh, placements)


# -- one axis: (placements of a and b, call, error, fragments of the text, the call that it names, value) ----------

REDUCE, GATHER = "x.reduce_partial()", "x.redistribute(mesh, [... Replicate() on 'tp' ...])"
KINDS = {
    "two sums in a product": (
        (P(), P()), lambda m, a, b: mint.matmul(a, b), PartialError,
        ("MatMulExt", "'tp'", "operand 0 P(sum), operand 1 P(sum)", "cross terms", REDUCE),
        lambda m, a, b: mint.matmul(a, b.reduce_partial()), A @ B),
    "a sum meets a shard": (
        (P(), S(1)), lambda m, a, b: mint.matmul(a, b), PartialError,
        ("MatMulExt", "operand 0 P(sum), operand 1 S(1)", "cut along the same axis", REDUCE),
        lambda m, a, b: mint.matmul(a.reduce_partial(), b), A @ B),
    "a pending maximum in a product": (
        (P("max"), R), lambda m, a, b: mint.matmul(a, b), PartialError,
        ("MatMulExt", "operand 0 P(max), operand 1 R", "monotone", REDUCE),
        lambda m, a, b: mint.matmul(a.reduce_partial(), b), A @ B),
    "a nonlinear map of a sum": (
        (P(), R), lambda m, a, b: mint.square(a), PartialError, ("Square", "operand 0 P(sum)", "not linear", REDUCE),
        lambda m, a, b: mint.square(a.reduce_partial()), A * A),
    "a sum and a mean": (
        (P(), P("avg")), lambda m, a, b: a + b, PartialError,
        ("AddExt", "operand 0 P(sum), operand 1 P(avg)", "sums and means", REDUCE),
        lambda m, a, b: a + b.reduce_partial(), A + B),
    "a pending bias without a pending product": (
        (R, P()), lambda m, a, b: LINEAR(a, a, b[0]), PartialError, ("Dense", "operand 2 P(sum)", REDUCE),
        lambda m, a, b: LINEAR(a, a, b[0].reduce_partial()), A @ A.T + B[0]),
    "a narrowing cast of a sum": (
        (P(), R), lambda m, a, b: a.to(ms.int32), PartialError, ("operand 0 P(sum)", REDUCE),
        lambda m, a, b: a.reduce_partial().to(ms.int32), A),
    "a comparison of a sum": (
        (P(), R), lambda m, a, b: mint.greater(a, b), PartialError,
        ("Greater", "operand 0 P(sum), operand 1 R", REDUCE),
        lambda m, a, b: mint.greater(a.reduce_partial(), b), A > B),
    "a contraction cut on one side": (
        (S(1), R), lambda m, a, b: mint.matmul(a, b), LayoutError,
        ("MatMulExt", "'tp'", "operand 0 S(1), operand 1 R", "must be cut alike",
         "x.redistribute(mesh, [... Shard(0) on 'tp' ...])", GATHER),
        lambda m, a, b: mint.matmul(a, _on(m, b, S(0))), A @ B),
    "rows and columns cut by one axis": (
        (S(0), S(1)), lambda m, a, b: mint.matmul(a, b), LayoutError,
        ("MatMulExt", "operand 0 S(0), operand 1 S(1)", GATHER),
        lambda m, a, b: mint.matmul(a, _on(m, b, R)), A @ B),
    "operands cut apart": (
        (S(0), S(1)), lambda m, a, b: a * b, LayoutError,
        ("Mul", "operand 0 S(0), operand 1 S(1)", "x.redistribute(mesh, [... Shard(0) on 'tp' ...])"),
        lambda m, a, b: a * _on(m, b, S(0)), A * B),
    "an acted-on dim": (
        (S(1), R), lambda m, a, b: mint.cumsum(a, 1), LayoutError,
        ("operand 0 S(1)", "Dimension 1 of operand 0 must be whole", GATHER),
        lambda m, a, b: mint.cumsum(_on(m, a, R), 1), A.cumsum(1)),
    "a broadcast dim": (
        (R, S(0)), lambda m, a, b: a + put(m, B[:1], S(0)), LayoutError,
        ("AddExt", "operand 0 R, operand 1 S(0)", "Dimension 0 of operand 1 must be whole", GATHER),
        lambda m, a, b: a + _on(m, put(m, B[:1], S(0)), R), A + B[:1]),
    "an index into a cut dim": (
        (S(0), R), lambda m, a, b: a[2], LayoutError, ("GetItem", "operand 0 S(0)", GATHER),
        lambda m, a, b: _on(m, a, R)[2], A[2]),
    "a view across a cut": (
        (S(1), R), lambda m, a, b: a.reshape((16,)), LayoutError,
        ("Reshape", "dimension 1 of (4, 4)", "(16,)", "x.redistribute(mesh, placements)", "Replicate() on 'tp'"),
        lambda m, a, b: _on(m, a, R).reshape((16,)), A.reshape(16)),
    "a target that would change its layout": (
        (R, P()), lambda m, a, b: a.add_(b), LayoutError,
        ("InplaceAddExt", "in place", "[P(sum)]", "[R]", "redistribute(mesh, x.placements)"),
        lambda m, a, b: a.add_(b.redistribute(m, a.placements)), A + B),
    "another reduce op": (
        (P(), R), lambda m, a, b: _on(m, a, P("max")), LayoutError,
        ("'tp'", "'sum'", "'max'",
         "x.redistribute(mesh, [Replicate()]).redistribute(mesh, [Partial(reduce_op='max')])"),
        lambda m, a, b: _on(m, _on(m, a, R), P("max")), A),
    "a plain tensor": (
        (R, R), lambda m, a, b: a + Tensor(B), LayoutError,
        ("AddExt", "argument 1 is a plain tensor of shape (4, 4)", "DTensor.from_local(t, mesh, placements)",
         "distribute_tensor(t, mesh, [Replicate()] * 1)", "implicit_replication()"),
        lambda m, a, b: a + distribute_tensor(Tensor(B), m, [Replicate()] * 1), A + B),
    "an array": ((R, R), lambda m, a, b: a + B, LayoutError,
                 ("argument 1 is a plain tensor", "distribute_tensor(t, mesh, [Replicate()] * 1)"),
                 lambda m, a, b: a + distribute_tensor(B, m, [Replicate()] * 1), A + B),
    "an operation without a rule": (
        (S(0), R), lambda m, a, b: dispatch_named("NoSuchOp", lambda v: v * 2, a), UnsupportedOpError,
        ("NoSuchOp has no distributed rule", "DistributedOp subclass",
         "hyper_parallel.custom_shard(fn, mesh, out_placements, in_placements)"),
        lambda m, a, b: custom_shard(lambda v: v * 2, m, (S(0),), ((S(0),),))(a), 2 * A),
    "jit": ((R, R), lambda m, a, b: ms.jit(lambda v: v + 1)(a), UnsupportedOpError,
            ("mindspore.jit", "without jit"), lambda m, a, b: a + 1, A + 1),
    "Tensor(x)": ((S(0), R), lambda m, a, b: Tensor(a), LayoutError,
                  ("Tensor(x)", "x.to_local()", "x.full_tensor()"), lambda m, a, b: a.full_tensor(), A),
    "to_local of a sum": ((P(), R), lambda m, a, b: a.to_local(), PartialError,
                          ("[P(sum)]", "to_local()", REDUCE, "x.to_local(partial_ok=True)"),
                          lambda m, a, b: a.reduce_partial().to_local()[0], A),
    "asnumpy of a sum": ((P(), R), lambda m, a, b: a.asnumpy(), PartialError, ("[P(sum)]", "asnumpy()", REDUCE),
                         lambda m, a, b: a.reduce_partial().asnumpy(), A),
    "tolist of a shard": ((S(0), R), lambda m, a, b: a.tolist(), LayoutError,
                          ("[S(0)]", "tolist()", "x.full_tensor()"), lambda m, a, b: a.full_tensor().tolist(), A),
    "bool of a shard": ((S(0), R), lambda m, a, b: bool(a), LayoutError, ("[S(0)]", "bool()", "x.full_tensor()"),
                        lambda m, a, b: a.full_tensor(), A),
    "item of a sum": ((P(), R), lambda m, a, b: a.sum().item(), PartialError, ("item()", REDUCE),
                      lambda m, a, b: a.sum().reduce_partial().item(), A.sum()),
    "float of a shard's sum": ((S(0), R), lambda m, a, b: float(a.sum()), PartialError, ("float()", REDUCE),
                               lambda m, a, b: float(a.sum().reduce_partial()), A.sum()),
    "number of placements": ((S(0), R), lambda m, a, b: _on(m, a, R, R), LayoutError,
                             ("(2,)", "1 placements", "Got 2"), lambda m, a, b: _on(m, a, R), A),
    "shard dim out of range": ((S(0), R), lambda m, a, b: _on(m, a, S(2)), LayoutError,
                               ("Shard(dim=2)", "'tp'", "2 dimensions", "[-2, 1]"), lambda m, a, b: _on(m, a, S(1)),
                               A),
    "unknown axis": ((S(0), R), lambda m, a, b: a.redistribute(m, ("dp", "None")), LayoutError,
                     ("no axis 'dp'", "('tp',)", '"None"'), lambda m, a, b: a.redistribute(m, ("tp", "None")), A),
    "unknown argument": ((S(0), R), lambda m, a, b: dispatch_named("AddExt", lambda *v, **k: v[0], a, a, beta=1),
                         LayoutError, ("AddExt", "'beta'"), lambda m, a, b: a + a, 2 * A),
    "sizes that do not fit": ((R, R), lambda m, a, b: mint.matmul(a, b[:3]), LayoutError,
                              ("MatMulExt", "(4, 4)", "(3, 4)", "must be equal"),
                              lambda m, a, b: mint.matmul(a[:, :3], b[:3]), A[:, :3] @ B[:3]),
}


@pytest.mark.parametrize("name", list(KINDS))
def test_a_refusal_says_what_was_found_and_what_mends_it(name):
    """
    Feature: refusals.
    Description: each kind of refusal, as rank 0 and as rank 1 of two.
    Expectation: the error type and every fragment; the same text on every rank; nothing communicated, nothing
        changed.
    """
    placements, call, error, fragments, *_ = KINDS[name]
    texts = []
    for rank in range(2):
        with simulate(2, rank=rank):
            mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
            a, b = (put(mesh, array, p) for array, p in zip((A, B), placements))
            with record_collectives() as log, pytest.raises(error) as caught:
                call(mesh, a, b)
            assert log == [] and caught.type is error
            assert (a.placements, b.placements) == ((placements[0],), (placements[1],))
            assert np.array_equal(_value(a), A) and np.array_equal(_value(b), B)
            texts.append(str(caught.value))
    assert [f for f in fragments if f not in texts[0]] == [], texts[0]
    assert texts[0] == texts[1] and "\n" not in texts[0] and texts[0].endswith((".", ")"))


@pytest.mark.parametrize("name", list(KINDS))
def test_the_call_that_a_refusal_names_mends_it(mesh, name):
    """
    Feature: refusals.
    Description: the call that the text names, typed in.
    Expectation: it runs, and gives the value of one device.
    """
    placements, _, _, _, mended, want = KINDS[name]
    a, b = (put(mesh, array, p) for array, p in zip((A, B), placements))
    assert np.array_equal(_value(mended(mesh, a, b)), want)


def test_an_opted_in_plain_tensor_mends_it_too(mesh):
    """
    Feature: refusals of plain tensors.
    Description: the last way out that the text names.
    Expectation: the value.
    """
    with implicit_replication():
        assert np.array_equal(_value(put(mesh, A, R) + Tensor(B)), A + B)


# -- several meshes and axes -----------------------------------------------------------------------------------------


def _grid():
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


def _other(*shape, names, ranks=None):
    """The whole value, replicated over another mesh."""
    return put(init_device_mesh("cpu", shape, mesh_dim_names=names, rank_list=ranks), A, *[R] * len(shape))


ON_FOUR = {
    "foreign mesh": (lambda m: put(m, A, R, R) + _other(4, names=("world",)), MeshError,
                     ("AddExt", "('dp', 'tp')", "('world',)", "full_tensor()",
                      "distribute_tensor(data, mesh, placements)")),
    "foreign names": (lambda m: mint.matmul(put(m, A, R, R), _other(2, 2, names=("dp", "pp"))), MeshError,
                      ("MatMulExt", "('dp', 'tp')", "('dp', 'pp')")),
    "permuted ranks": (lambda m: put(m, A, R, R) * _other(2, 2, names=("dp", "tp"), ranks=(0, 2, 1, 3)), MeshError,
                       ("Mul", "[[0, 1], [2, 3]]", "[[0, 2], [1, 3]]")),
    "sub-mesh": (lambda m: put(m, A, R, R) + put(m["tp"], A, R), MeshError, ("AddExt", "('tp',)")),
    "redistribution to another mesh": (lambda m: put(m, A, R, R).redistribute(m["tp"], [R]), MeshError,
                                       ("full_tensor()", "distribute_tensor(")),
    "two orders of cuts": (lambda m: put(m, A, S(0), S(0)) + put(m, A, StridedShard(0, 2), S(0)), LayoutError,
                           ("AddExt", "['dp', 'tp']", "['tp', 'dp']", "x.redistribute(mesh, y.placements)")),
    "a mix of families": (lambda m: put(m, A, P("max"), P("sum")), LayoutError,
                          ("one family", "max", "sum", "x.redistribute(mesh, placements)")),
    "a mix of families in a result": (lambda m: put(m, A, P("max"), R) + put(m, A, R, P("sum")), LayoutError,
                                      ("AddExt", "family|P(max)")),
    "one axis on two dims": (lambda m: put(m, A, S(0), R).redistribute(m, ("dp", "dp")), LayoutError,
                             ("'dp'", "only one tensor dimension")),
    "a split factor": (lambda m: put(m, A, StridedShard(0, 3), S(0)), LayoutError,
                       ("split_factor 3", "'dp'", "[2]")),
    "the axis at fault": (lambda m: mint.matmul(put(m, A, S(0), S(1)), put(m, A, R, R)), LayoutError,
                          ("MatMulExt", "mesh axis 'tp'", "operand 0 S(1), operand 1 R")),
    "the other axis at fault": (lambda m: mint.matmul(put(m, A, P(), S(1)), put(m, A, P(), S(0))), PartialError,
                                ("MatMulExt", "mesh axis 'dp'", "operand 0 P(sum), operand 1 P(sum)")),
}


@pytest.mark.parametrize("name", list(ON_FOUR))
def test_refusals_on_several_axes_name_the_axis(name):
    """
    Feature: refusals on (2, 2).
    Description: foreign meshes, orders of cuts, families of reduce ops, and the axis that is at fault.
    Expectation: the error type and every fragment, as each of four ranks; nothing communicated.
    """
    call, error, fragments = ON_FOUR[name]
    texts = set()
    for rank in range(4):
        with simulate(4, rank=rank), record_collectives() as log:
            with pytest.raises(error) as caught:
                call(_grid())
            assert log == []
            texts.add(str(caught.value))
    text = texts.pop()
    assert all(any(part in text for part in f.split("|")) for f in fragments), text
    own_ranks_shown = name in ("sub-mesh", "redistribution to another mesh")
    assert not texts or own_ranks_shown


def test_a_tensor_of_another_simulation_is_refused():
    """
    Feature: refusals.
    Description: a tensor of two simulated ranks next to one of four.
    Expectation: MeshError that names both numbers.
    """
    with simulate(2):
        two = put(init_device_mesh("cpu", (2,)), A, R)
    with simulate(4), pytest.raises(MeshError, match=r"AddExt.*\[2, 4\] simulated ranks"):
        mint.add(two, put(_grid(), A, R, R))


def test_a_collective_outside_a_job_is_refused():
    """
    Feature: refusals.
    Description: a pending tensor of a mesh of two ranks reduced in a process without a process group.
    Expectation: an error of this package that names init_process_group or simulate, no hang.
    """
    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh  # pylint: disable=import-outside-toplevel
    mesh = DeviceMesh("cpu", [0, 1], mesh_dim_names=("tp",), _init_backend=False)
    x = DTensor.from_local(Tensor(A), mesh, [P()], shape=(4, 4))
    with pytest.raises((CommunicationError, RuntimeError), match="init_process_group|simulate"):
        x.reduce_partial()


def test_the_hierarchy_of_errors():
    """
    Feature: errors.
    Description: the types against the built-in ones that programs catch.
    Expectation: one base; layouts, Partials and meshes are ValueErrors, operations and collectives RuntimeErrors.
    """
    for error, builtin in ((LayoutError, ValueError), (PartialError, LayoutError), (MeshError, ValueError),
                           (UnsupportedOpError, RuntimeError), (CommunicationError, RuntimeError)):
        assert issubclass(error, builtin) and issubclass(error, HyperParallelError)


def test_refusals_are_not_remembered(mesh):
    """
    Feature: refusals and the cache of plans.
    Description: a refused call, then the same call on other layouts, and the refused one again.
    Expectation: refused, right, refused.
    """
    for _ in range(2):
        with pytest.raises(LayoutError):
            mint.matmul(put(mesh, A, S(1)), put(mesh, B, R))
        assert np.array_equal(_value(mint.matmul(put(mesh, A, S(1)), put(mesh, B, S(0)))), A @ B)

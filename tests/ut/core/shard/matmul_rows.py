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
"""The matmul family written out: every call form with the rows it accepts on one mesh axis, and how to check one.

A row is text, a placement per operand and the result's: R replicate, S0 S1 ... shard, P sum, A avg, X max, N min,
D prod.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np
from mindspore import Tensor, mint, ops

from hyper_parallel import (
    DTensor, Partial, Replicate, Shard, denote, distribute_tensor, set_gradient_convention, value_and_grad,
)
from tests.common.distributed_values import gradient_label, realise

PENDING = {"P": "sum", "A": "avg", "X": "max", "N": "min", "D": "prod"}
# Linear in each operand, never in both at once: a pending sum or mean of one operand stays, whatever the shapes.
INHERITED = ("P R -> P", "R P -> P", "A R -> A", "R A -> A", "R R -> R")


@dataclass(frozen=True)
class Form:
    """One way to call an operation of the family.

    Attributes:
        op: the operation that the call reaches.
        call: the call on DTensors.
        numpy: the same on arrays.
        shapes: operand shapes, one tuple per size that is tried.
        rows: the cuts that are accepted; the pending rows of `INHERITED` come on top.
        bias: rows of three operands are listed whole, with their pending rows.
    """

    op: str
    call: Callable
    numpy: Callable
    shapes: tuple
    rows: tuple
    bias: bool = False

    def accepted(self) -> dict:
        """Operand placements -> placement of the result, as text."""
        rows = self.rows if self.bias else self.rows + INHERITED
        return {tuple(left.split()): right for left, right in (row.split(" -> ") for row in rows)}


def _swap(array):
    return np.swapaxes(array, -1, -2)


def _flags(primitive, ta: bool, tb: bool):
    return primitive(ta, tb)


def _numpy_flags(ta: bool, tb: bool):
    return lambda x, w: np.matmul(_swap(x) if ta else x, _swap(w) if tb else w)


def _flagged(op: str, primitive, ta: bool, tb: bool, batch: tuple = (), rows: tuple = ()) -> Form:
    """A product with transposed flags; m, k, n even, uneven and of size 1."""
    def shapes(m, k, n):
        return batch + ((k, m) if ta else (m, k)), batch + ((n, k) if tb else (k, n))

    sizes = (shapes(5, 7, 3), shapes(4, 6, 2), shapes(1, 2, 1))
    return Form(op, _flags(primitive, ta, tb), _numpy_flags(ta, tb), sizes, rows)


def _linear(x, w, bias=None):
    return mint.nn.functional.linear(x, w) if bias is None else mint.nn.functional.linear(x, w, bias)


def _numpy_linear(x, w, bias=0):
    return x @ w.T + bias


_TWO_D = ((((5, 7), (7, 3))), ((4, 6), (6, 2)), ((1, 2), (2, 1)))
_BIAS = ("S0 R R -> S0", "R S0 S0 -> S1", "S1 S1 R -> P", "S1 S1 P -> P", "P R R -> P", "P R P -> P", "R P R -> P",
         "R P P -> P",
         "A R R -> A", "A R A -> A", "R A R -> A", "R A A -> A", "R R R -> R")

FORMS = {
    "matmul": Form("MatMulExt", mint.matmul, np.matmul, _TWO_D, ("S0 R -> S0", "R S1 -> S1", "S1 S0 -> P")),
    "ops.matmul": Form("MatMulExt", ops.matmul, np.matmul, _TWO_D[:1], ("S0 R -> S0", "R S1 -> S1", "S1 S0 -> P")),
    "infix": Form("MatMulExt", lambda x, w: x @ w, np.matmul, _TWO_D[:1], ("S0 R -> S0", "R S1 -> S1", "S1 S0 -> P")),
    "matmul batched left": Form("MatMulExt", mint.matmul, np.matmul, (((3, 5, 4), (4, 2)),),
                                ("S0 R -> S0", "S1 R -> S1", "R S1 -> S2", "S2 S0 -> P")),
    "matmul batched right": Form("MatMulExt", mint.matmul, np.matmul, (((5, 4), (3, 4, 2)),),
                                 ("R S0 -> S0", "S0 R -> S1", "R S2 -> S2", "S1 S1 -> P")),
    "matmul batched both": Form("MatMulExt", mint.matmul, np.matmul, (((3, 5, 4), (3, 4, 2)),),
                                ("S0 S0 -> S0", "S1 R -> S1", "R S2 -> S2", "S2 S1 -> P")),
    "matmul broadcast": Form("MatMulExt", mint.matmul, np.matmul, (((3, 1, 2, 4), (5, 4, 2)),),
                             ("S0 R -> S0", "R S0 -> S1", "S2 R -> S2", "R S2 -> S3", "S3 S1 -> P")),
    "matmul batch of one": Form("MatMulExt", mint.matmul, np.matmul, (((1, 5, 4), (3, 4, 2)),),
                                ("R S0 -> S0", "S1 R -> S1", "R S2 -> S2", "S2 S1 -> P")),
    "dot": Form("MatMulExt", mint.matmul, np.matmul, (((7,), (7,)), ((1,), (1,))), ("S0 S0 -> P",)),
    "vector @ matrix": Form("MatMulExt", mint.matmul, np.matmul, (((7,), (7, 3)),), ("R S1 -> S0", "S0 S0 -> P")),
    "matrix @ vector": Form("MatMulExt", mint.matmul, np.matmul, (((5, 7), (7,)),), ("S0 R -> S0", "S1 S0 -> P")),
    "vector @ batch": Form("MatMulExt", mint.matmul, np.matmul, (((4,), (3, 4, 2)),),
                           ("R S0 -> S0", "R S2 -> S1", "S0 S1 -> P")),
    "batch @ vector": Form("MatMulExt", mint.matmul, np.matmul, (((3, 5, 4), (4,)),),
                           ("S0 R -> S0", "S1 R -> S1", "S2 S0 -> P")),
    "MatMul": _flagged("MatMul", ops.MatMul, False, False, (), ("S0 R -> S0", "R S1 -> S1", "S1 S0 -> P")),
    "MatMul ta": _flagged("MatMul", ops.MatMul, True, False, (), ("S1 R -> S0", "R S1 -> S1", "S0 S0 -> P")),
    "MatMul tb": _flagged("MatMul", ops.MatMul, False, True, (), ("S0 R -> S0", "R S0 -> S1", "S1 S1 -> P")),
    "MatMul ta tb": _flagged("MatMul", ops.MatMul, True, True, (), ("S1 R -> S0", "R S0 -> S1", "S0 S1 -> P")),
    "bmm": Form("BatchMatMulExt", mint.bmm, np.matmul,
                (((3, 5, 4), (3, 4, 2)), ((4, 2, 6), (4, 6, 2)), ((1, 1, 2), (1, 2, 1))),
                ("S0 S0 -> S0", "S1 R -> S1", "R S2 -> S2", "S2 S1 -> P")),
    "BatchMatMul": _flagged("BatchMatMul", ops.BatchMatMul, False, False, (3,),
                            ("S0 S0 -> S0", "S1 R -> S1", "R S2 -> S2", "S2 S1 -> P")),
    "BatchMatMul ta": _flagged("BatchMatMul", ops.BatchMatMul, True, False, (3,),
                               ("S0 S0 -> S0", "S2 R -> S1", "R S2 -> S2", "S1 S1 -> P")),
    "BatchMatMul tb": _flagged("BatchMatMul", ops.BatchMatMul, False, True, (3,),
                               ("S0 S0 -> S0", "S1 R -> S1", "R S1 -> S2", "S2 S2 -> P")),
    "BatchMatMul ta tb": _flagged("BatchMatMul", ops.BatchMatMul, True, True, (2, 2),
                                  ("S0 S0 -> S0", "S1 S1 -> S1", "S3 R -> S2", "R S2 -> S3", "S2 S3 -> P")),
    "linear": Form("Dense", _linear, _numpy_linear, (((5, 7), (3, 7)), ((4, 6), (2, 6)), ((1, 2), (1, 2))),
                   ("S0 R -> S0", "R S0 -> S1", "S1 S1 -> P")),
    "linear batched": Form("Dense", _linear, _numpy_linear, (((2, 5, 4), (3, 4)),),
                           ("S0 R -> S0", "S1 R -> S1", "R S0 -> S2", "S2 S1 -> P")),
    "linear bias": Form("Dense", _linear, _numpy_linear, (((5, 7), (3, 7), (3,)), ((1, 2), (1, 2), (1,))), _BIAS,
                        True),
    "linear bias batched": Form(
        "Dense", _linear, _numpy_linear, (((2, 5, 4), (3, 4), (3,)),),
        ("S0 R R -> S0", "S1 R R -> S1", "R S0 S0 -> S2", "S2 S1 R -> P", "S2 S1 P -> P") + _BIAS[4:], True),
}


def placement(text: str):
    """The placement that a letter of a row stands for."""
    if text in PENDING:
        return Partial(PENDING[text])
    return Replicate() if text == "R" else Shard(int(text[1:]))


def choices(shape: tuple) -> list:
    """All placements of an operand on one axis, as text."""
    return ["R", *(f"S{d}" for d in range(len(shape))), *PENDING]


def operand(mesh, placements, shape, seed):
    """(DTensor whose ranks hold addends of mixed sign and size, its value)."""
    value, locals_ = realise(np.random.default_rng(seed), mesh, placements, shape)
    return DTensor.from_local([Tensor(v) for v in locals_], mesh, placements, shape=shape), value


def denoted(x) -> np.ndarray:
    """The value of a DTensor."""
    return denote(x.numpy_locals(), x.layout)


def check_row(form: Form, mesh, shapes, rows, wanted, conventions) -> None:
    """Compute one combination: value, local shapes and placements of the result; every gradient through its label.

    Args:
        form: the call.
        mesh: the mesh.
        shapes: operand shapes.
        rows: per operand one placement per mesh axis.
        wanted: the result's placements.
        conventions: gradient conventions to differentiate in.
    """
    operands, values = zip(*(operand(mesh, p, s, i) for i, (p, s) in enumerate(zip(rows, shapes))))
    out = form.call(*operands)
    assert out.placements == tuple(wanted), (form.op, rows, out.placements)
    want = form.numpy(*values)
    assert out.shape == want.shape and np.array_equal(denoted(out), want), (form.op, rows)
    spec = out.layout.value.spec(out.shape)
    assert [v.shape for v in out.numpy_locals()] == [spec.local_shape(c) for c in np.ndindex(*mesh.mesh_shape)]
    cotangent = (np.random.default_rng(9).integers(-4, 5, want.shape) * mesh.size() ** mesh.ndim).astype("float32")
    for convention in conventions:
        with set_gradient_convention(convention):
            _check_gradients(form, mesh, operands, values, cotangent, convention)


def _check_gradients(form, mesh, operands, values, cotangent, convention) -> None:
    replicate = [Replicate()] * mesh.ndim
    g = distribute_tensor(cotangent, mesh, replicate)

    def loss(*args):
        return (form.call(*args).redistribute(mesh, replicate) * g).sum()

    _, gradients = value_and_grad(loss, tuple(range(len(operands))))(*operands)
    seeds = 1 if convention == "single_loss" else mesh.size()
    for i, (x, found) in enumerate(zip(operands, gradients)):
        assert found.placements == gradient_label(x.placements, convention), (form.op, i, x.placements,
            found.placements)
        want = _vjp(form.numpy, values, i, cotangent) * seeds
        assert np.array_equal(denoted(found), want), (form.op, i, [str(v.layout.value) for v in operands], convention)


def _vjp(function, values, i: int, cotangent) -> np.ndarray:
    """Gradient of sum(function * cotangent) in operand i; exact, for the function is affine in each operand."""
    values = [v.astype("float64") for v in values]
    zeros = [v if j != i else np.zeros_like(v) for j, v in enumerate(values)]
    base = (function(*zeros) * cotangent).sum()
    grad = np.zeros(values[i].size)
    for e in range(grad.size):
        unit = np.zeros(grad.size)
        unit[e] = 1
        moved = [v if j != i else unit.reshape(v.shape) for j, v in enumerate(values)]
        grad[e] = (function(*moved) * cotangent).sum() - base
    return grad.reshape(values[i].shape).astype("float32")

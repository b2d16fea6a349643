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
"""The matmul family: layouts of products follow from their letters, and from being linear in each factor.

The fault this fork exists for: a product that looks only at its own contracting dimension forgets that an operand may
already be an unreduced sum. With x = sum_c x_c, x @ w = sum_c (x_c @ w): the result is an unreduced sum too.

One mesh axis; x, w -> result (m, n: kept dims; k: contracted; b: batch):
    R, R -> R             S(m), R -> S(m)        R, S(n) -> S(n)        S(k), S(k) -> P(sum)
    S(b), S(b) -> S(b)    S(b), R -> S(b) and R, S(b) -> S(b), where the R operand has no such dim or size 1
    P(sum), R -> P(sum)   R, P(sum) -> P(sum)    P(avg), R -> P(avg)    R, P(avg) -> P(avg)
Refused: P, P on one axis (cross terms); P with S on one axis; P(max|min|prod|all); S(k) on one side only.
A bias enters once on every P(sum) axis of the result and whole on a P(avg) axis, however the Partial came about; a bias
that is Partial itself needs the product to be pending in the same op there.
"""
from __future__ import annotations

import functools

from hyper_parallel.core.shard.declaration import Bound, Call, Declaration, Operand, letters, parse_params
from hyper_parallel.core.shard.ops.parallel_ops import RuleOp, declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError

# -- letters ---------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def product_signature(name: str, x: tuple, w: tuple, out: tuple, bias: tuple | None) -> Signature:
    """The signature of a product of letters, with or without an addend."""
    inputs = (x, w) if bias is None else (x, w, bias)
    gone = {c for dims in (x, w) for c in dims if c is not None} - set(out)
    terms = ((0, 1),) if bias is None else ((0, 1), (2,))
    return Signature(name, inputs, (out,), reduces=dict.fromkeys(gone, "sum"), terms=terms)


def _batch(name: str, x: Operand, w: Operand, skip_x: int, skip_w: int):
    """Letters and sizes of the broadcast batch dims of two operands whose last dims are not batch dims."""
    bx, bw = x.shape[:len(x.shape) - skip_x], w.shape[:len(w.shape) - skip_w]
    count = max(len(bx), len(bw))
    names = letters(count, "b")
    sizes = []
    for i in range(count):
        p, q = (s[i - count + len(s)] if i >= count - len(s) else 1 for s in (bx, bw))
        if 1 not in (p, q) and p != q and x.exact and w.exact:
            raise LayoutError(f"{name}: batch dims {bx} and {bw} do not broadcast.")
        sizes.append(q if p == 1 else p)
    return _carried(names, sizes, bx), _carried(names, sizes, bw), names, tuple(sizes)


def _carried(names: tuple, sizes, own: tuple) -> tuple:
    """Letters of an operand's right-aligned dims; a size-1 dim that broadcasts carries none."""
    offset = len(sizes) - len(own)
    return tuple(names[offset + i] if size == sizes[offset + i] else None for i, size in enumerate(own))


def _check_contraction(name: str, x: Operand, w: Operand, k_x: int, k_w: int) -> None:
    if x.exact and w.exact and x.shape[k_x] != w.shape[k_w]:
        raise LayoutError(f"{name}: dim {k_x} of {x.shape} and dim {k_w} of {w.shape} are contracted and must be "
                          f"equal.")


def _check_rank(name: str, operand: Operand, role: str, least: int, most: int | None = None) -> None:
    rank = len(operand.shape)
    if rank < least or (most is not None and rank > most):
        bound = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        raise LayoutError(f"{name}: {role} must have {bound} dimensions. Got shape {operand.shape}.")


def _matrix_product(name: str, x: Operand, w: Operand, ta=False, tb=False, bias: Operand | None = None) -> Bound:
    """x @ w with batch broadcasting, 1-D operands and transposed flags; `bias` is added to the result."""
    _check_rank(name, x, "the left operand", 1)
    _check_rank(name, w, "the right operand", 1)
    row = () if len(x.shape) == 1 else ("m",)
    col = () if len(w.shape) == 1 else ("n",)
    x_core = ("k",) + row if ta and row else row + ("k",)
    w_core = col + ("k",) if tb and col else ("k",) + col
    _check_contraction(name, x, w, x_core.index("k") - len(x_core), w_core.index("k") - len(w_core))
    bx, bw, batch, sizes = _batch(name, x, w, len(x_core), len(w_core))
    out = batch + row + col
    shape = sizes + tuple(x.shape[x_core.index(c) - len(x_core)] for c in row)
    shape += tuple(w.shape[w_core.index(c) - len(w_core)] for c in col)
    added = None if bias is None else _addend(name, bias, out, shape)
    return Bound(product_signature(name, bx + x_core, bw + w_core, out, added), (shape,))


def _addend(name: str, bias: Operand, out: tuple, shape: tuple) -> tuple:
    """Letters of an addend that broadcasts to the result."""
    offset = len(out) - len(bias.shape)
    if offset < 0 or (bias.exact and any(b not in (1, s) for b, s in zip(bias.shape, shape[max(offset, 0):]))):
        raise LayoutError(f"{name}: the addend {bias.shape} does not broadcast to the result {shape}.")
    return tuple(out[offset + i] if size == shape[offset + i] or not bias.exact else None
                 for i, size in enumerate(bias.shape))


# -- binders ---------------------------------------------------------------------------------------------------------


def bind_matmul(call: Call) -> Bound:
    """x @ w of any ranks."""
    return _matrix_product(call.name, call["input"], call["other"])


def bind_matmul_flags(call: Call) -> Bound:
    """x @ w with `transpose_a`, `transpose_b`."""
    for role in ("input", "other"):
        _check_rank(call.name, call[role], f"{role!r}", 2)
    return _matrix_product(call.name, call["input"], call["other"], call["transpose_a"], call["transpose_b"])


def bind_batch_matmul(call: Call) -> Bound:
    """Batched x @ w."""
    for role in ("input", "other"):
        _check_rank(call.name, call[role], f"{role!r}", 2)
    return _matrix_product(call.name, call["input"], call["other"])


def bind_linear(call: Call) -> Bound:
    """x @ w.T + bias with w of shape (out, in)."""
    x, w, bias = call["input"], call["weight"], call["bias"]
    _check_rank(call.name, x, "the input", 1)
    _check_rank(call.name, w, "the weight", 1, 2)
    if bias is not None:
        _check_rank(call.name, bias, "the bias", 0, 1)
    return _matrix_product(call.name, x, w, tb=True, bias=bias)


def bind_mm(call: Call) -> Bound:
    """(m, k) @ (k, n)."""
    for role in ("input", "other"):
        _check_rank(call.name, call[role], f"{role!r}", 2, 2)
    return _matrix_product(call.name, call["input"], call["other"])


def bind_mv(call: Call) -> Bound:
    """(m, k) @ (k,)."""
    _check_rank(call.name, call["input"], "the matrix", 2, 2)
    _check_rank(call.name, call["other"], "the vector", 1, 1)
    return _matrix_product(call.name, call["input"], call["other"])


def bind_dot(call: Call) -> Bound:
    """(k,) @ (k,)."""
    for role in ("input", "other"):
        _check_rank(call.name, call[role], f"{role!r}", 1, 1)
    return _matrix_product(call.name, call["input"], call["other"])


def bind_outer(call: Call) -> Bound:
    """(m,) x (n,) -> (m, n)."""
    x, w = call["input"], call["other"]
    for operand in (x, w):
        _check_rank(call.name, operand, "each operand", 1, 1)
    return Bound(product_signature(call.name, ("m",), ("n",), ("m", "n"), None), (x.shape + w.shape,))


def _added(ranks: tuple):
    """The binder of beta * addend + alpha * (x @ w), for operands of these ranks."""

    def bind(call: Call) -> Bound:
        for operand, rank in zip((call["mat1"], call["mat2"]), ranks):
            _check_rank(call.name, operand, "each factor", rank, rank)
        product = _matrix_product(call.name, call["mat1"], call["mat2"], bias=call["input"])
        x, w, addend = product.signature.inputs
        signature = _addend_first(call.name, addend, x, w, product.signature.outputs[0])
        return Bound(signature, product.out_shapes)

    return bind


@functools.lru_cache(maxsize=4096)
def _addend_first(name: str, addend: tuple, x: tuple, w: tuple, out: tuple) -> Signature:
    """As `product_signature` with an addend, for operations whose addend comes first."""
    base = product_signature(name, x, w, out, addend)
    return Signature(name, (addend, x, w), (out,), reduces=base.reduces, terms=((1, 2), (0,)))


def bind_einsum(call: Call) -> Bound:
    """Any einsum without repeated letters in one operand; letters that vanish are summed."""
    equation, operands = call["equation"].replace(" ", ""), call["operands"]
    left, arrow, out = equation.partition("->")
    inputs = left.split(",")
    if "." in equation or len(inputs) != len(operands) or any(len(set(dims)) != len(dims) for dims in inputs):
        raise LayoutError(f"{call.name}: {equation!r} has no rule: write every dimension as a letter, once per "
                          f"operand, with one group per operand ({len(operands)}).")
    if not arrow:
        joined = "".join(inputs)
        out = "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    sizes: dict = {}
    for dims, operand in zip(inputs, operands):
        _check_rank(call.name, operand, f"the operand {dims!r}", len(dims), len(dims))
        for letter, size in zip(dims, operand.shape):
            if sizes.setdefault(letter, size) != size and operand.exact:
                raise LayoutError(f"{call.name}: the letter {letter!r} stands for sizes {sizes[letter]} and {size}.")
    return Bound(einsum_signature(call.name, tuple(map(tuple, inputs)), tuple(out)), (tuple(sizes[c] for c in out),))


@functools.lru_cache(maxsize=1024)
def einsum_signature(name: str, inputs: tuple, out: tuple) -> Signature:
    """The signature of a product over letters."""
    gone = {c for dims in inputs for c in dims} - set(out)
    return Signature(name, inputs, (out,), reduces=dict.fromkeys(gone, "sum"), terms=(tuple(range(len(inputs))),),
                     movement=len(inputs) == 1 and not gone)


# -- the operations --------------------------------------------------------------------------------------------------

_PAIR = parse_params("input:t other:t")
_FLAGS = parse_params("input:t other:t transpose_a=False transpose_b=False")
_LINEAR = parse_params("input:t weight:t bias:t=None")


class MatMulExtDistributedOp(RuleOp):
    """`x @ w` of any ranks: mint.matmul, ops.matmul and the infix operator."""

    def __init__(self, op_name: str = "MatMulExt"):
        super().__init__(Declaration(op_name, _PAIR, bind_matmul))


class MatMulDistributedOp(RuleOp):
    """`ops.MatMul` with transposed flags, and `nn.Dense`."""

    def __init__(self, op_name: str = "MatMul"):
        super().__init__(Declaration(op_name, _FLAGS, bind_matmul_flags))


class BatchMatMulExtDistributedOp(RuleOp):
    """`mint.bmm`."""

    def __init__(self, op_name: str = "BatchMatMulExt"):
        super().__init__(Declaration(op_name, _PAIR, bind_batch_matmul))


class BatchMatMulDistributedOp(RuleOp):
    """`ops.BatchMatMul` with transposed flags."""

    def __init__(self, op_name: str = "BatchMatMul"):
        super().__init__(Declaration(op_name, _FLAGS, bind_matmul_flags))


class LinearDistributedOp(RuleOp):
    """`x @ w.T + bias`: mint.nn.Linear, mint.nn.functional.linear, ops.dense."""

    def __init__(self, op_name: str = "Dense"):
        super().__init__(Declaration(op_name, _LINEAR, bind_linear))


MatMulExtDistributedOp()
MatMulDistributedOp()
BatchMatMulExtDistributedOp()
BatchMatMulDistributedOp()
LinearDistributedOp()
declare("Mm", _PAIR, bind_mm)
declare("Mv", _PAIR, bind_mv)
declare("Dot", _PAIR, bind_dot)
declare("Outer", _PAIR, bind_outer)
declare("Addmm", "input:t mat1:t mat2:t beta=1 alpha=1", _added((2, 2)))
declare("Addmv", "input:t mat1:t mat2:t beta=1 alpha=1", _added((2, 1)))
declare("Baddbmm", "input:t mat1:t mat2:t beta=1 alpha=1", _added((3, 3)))
declare("Einsum", "equation operands:t", bind_einsum)

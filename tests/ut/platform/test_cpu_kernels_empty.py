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
"""Calls on tensors without elements: identities, zero gradients, and collectives upstream that are still reached."""
import os

os.environ.setdefault("GLOG_v", "4")

# pylint: disable=wrong-import-position
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint, ops
from mindspore.common._grad_function import _Function

from hyper_parallel.platform.mindspore.cpu_kernels import empty_safe, substitute

ms.runtime.launch_blocking()


def nothing(*shape, dtype=np.float32):
    return Tensor(np.zeros(shape, dtype))


REDUCTIONS = [
    ("SumExt", mint.sum, (0,), {}, np.zeros(4)), ("SumExt", lambda x, *a, **k: x.sum(*a, **k), (), {}, np.zeros(())),
    ("SumExt", mint.sum, (0, True, 43), {}, np.zeros((1, 4))),
    ("SumExt", lambda x, *a, **k: x.sum(*a, **k), (-2,), {"keepdim": True}, np.zeros((1, 4))),
    ("MeanExt", mint.mean, (0,), {}, np.full(4, np.nan)), ("ReduceSum", ops.ReduceSum(), (0,), {}, np.zeros(4)),
    ("ReduceMax", mint.amax, (0, False), {}, np.full(4, -np.inf)), ("Max", mint.max, (), {}, np.array(-np.inf)),
    ("ReduceMin", mint.amin, ((0, 1), True), {}, np.full((1, 1), np.inf)), ("Min", mint.min, (), {}, np.array(np.inf)),
    ("ProdExt", mint.prod, (0,), {}, np.ones(4)), ("ReduceProd", ops.ReduceProd(), (0,), {}, np.ones(4)),
    ("LogSumExp", substitute("LogSumExp"), (0,), {}, np.full(4, -np.inf)),
    ("Var", substitute("Var"), (0,), {}, np.full(4, np.nan)),
    ("LinalgVectorNorm", substitute("LinalgVectorNorm"), (2.0, 0), {}, np.zeros(4)),
    ("MSELossExt", substitute("MSELossExt"), (nothing(0, 4), 0), {}, np.zeros(())),
    ("MSELossExt", substitute("MSELossExt"), (nothing(0, 4), 1), {}, np.array(np.nan)),
]


@pytest.mark.parametrize("name, call, args, kw, wanted", REDUCTIONS)
def test_reduction_of_nothing_gives_its_identity(name, call, args, kw, wanted):
    """
    Feature: empty_safe.
    Description: Reduce a (0, 4) tensor, whose CPU kernel hands out uninitialised memory, after dirtying that memory.
    Expectation: The identity of the reduction, nan for a mean; the gradient arrives, empty.
    """
    _dirty()
    safe = empty_safe(name, call)
    assert np.array_equal(safe(nothing(0, 4), *args, **kw).asnumpy(), wanted.astype(np.float32), equal_nan=True)
    assert ms.grad(lambda x: safe(x, *args, **kw).sum())(nothing(0, 4)).shape == (0, 4)


def _dirty():
    """Leave non-zero values in the memory pool."""
    for shape in ((4,), (1, 4), (), (4, 3), (2, 4, 3), (8, 3)):
        mint.add(Tensor(np.full(shape, 7.0, np.float32)), 1.0)


@pytest.mark.parametrize("dtype, highest, lowest", [(np.int32, 2 ** 31 - 1, -2 ** 31), (np.float16, np.inf, -np.inf)])
def test_extremes_of_nothing_in_other_dtypes(dtype, highest, lowest):
    """
    Feature: empty_safe.
    Description: Maximum, minimum and sum of empty integers and halves.
    Expectation: The extremes of the dtype; an integer sum is an int64 zero.
    """
    x = nothing(0, 2, dtype=dtype)
    assert empty_safe("ReduceMax", mint.amax)(x, 0).asnumpy().tolist() == [lowest] * 2
    assert empty_safe("ReduceMin", mint.amin)(x, 0).asnumpy().tolist() == [highest] * 2
    total = empty_safe("SumExt", mint.sum)(x, 0).asnumpy()
    assert total.tolist() == [0, 0] and total.dtype == (np.int64 if dtype is np.int32 else dtype)
    assert empty_safe("ReduceAll", mint.all)(x > 0, 0).asnumpy().tolist() == [True, True]
    assert empty_safe("AnyExt", mint.any)(x > 0, 0).asnumpy().tolist() == [False, False]


CONTRACTIONS = [
    ("MatMulExt", mint.matmul, (4, 0), (0, 3), (4, 3)), ("MatMul", ops.MatMul(), (4, 0), (0, 3), (4, 3)),
    ("BatchMatMulExt", mint.bmm, (2, 4, 0), (2, 0, 3), (2, 4, 3)),
    ("Dense", mint.nn.functional.linear, (4, 0), (3, 0), (4, 3)), ("MatMulExt", mint.matmul, (0,), (0, 3), (3,)),
    ("Mm", substitute("Mm"), (4, 0), (0, 3), (4, 3)), ("Mv", substitute("Mv"), (4, 0), (0,), (4,)),
    ("Dot", substitute("Dot"), (0,), (0,), ()),
]


@pytest.mark.parametrize("name, call, left, right, shape", CONTRACTIONS)
def test_contraction_of_nothing_gives_zeros(name, call, left, right, shape):
    """
    Feature: empty_safe.
    Description: Multiply matrices whose contracted extent is 0; the CPU kernel leaves the output unset.
    Expectation: Zeros of the product's shape, and gradients of the operands' shapes.
    """
    _dirty()
    safe = empty_safe(name, call)
    a, b = nothing(*left), nothing(*right)
    assert np.array_equal(safe(a, b).asnumpy(), np.zeros(shape))
    grads = ms.grad(lambda p, q: safe(p, q).sum(), (0, 1))(a, b)
    assert [g.shape for g in grads] == [left, right]


def test_dense_over_nothing_is_its_bias_with_the_bias_gradient():
    """
    Feature: empty_safe.
    Description: A linear layer with a contracted extent of 0, and transposed flags of MatMul.
    Expectation: The bias in every row, its gradient the number of rows; zeros of the transposed shape.
    """
    bias = Tensor(np.array([1.0, -2.0, 3.0], np.float32))
    safe = empty_safe("Dense", mint.nn.functional.linear)
    assert safe(nothing(4, 0), nothing(3, 0), bias).asnumpy().tolist() == [[1, -2, 3]] * 4
    grad = ms.grad(lambda b: safe(nothing(4, 0), nothing(3, 0), b).sum())(bias)
    assert grad.asnumpy().tolist() == [4, 4, 4]
    turned = empty_safe("MatMul", lambda a, b, *f: ops.MatMul(*f)(a, b))(nothing(0, 2), nothing(3, 0), True, True)
    assert np.array_equal(turned.asnumpy(), np.zeros((2, 3)))


class _Reached(_Function):
    """Identity that notes its gradient, in the place of a boundary that holds a collective."""

    seen: list = []

    @staticmethod
    def forward(ctx, x):
        del ctx
        return x

    @staticmethod
    def backward(ctx, grad):
        del ctx
        _Reached.seen.append(grad.asnumpy())
        return grad


BROADCASTS = [
    ("AddExt", mint.add, (0, 3), (3,)), ("Mul", mint.mul, (0, 3), (3,)), ("Div", mint.div, (0, 3), (1, 3)),
    ("MatMulExt", mint.matmul, (0, 8), (8, 3)), ("Dense", mint.nn.functional.linear, (2, 0, 8), (3, 8)),
    ("Outer", substitute("Outer"), (0,), (3,)), ("RmsNorm", lambda *a: substitute("RmsNorm")(*a)[0], (0, 8), (8,)),
    ("Embedding", lambda w, x: substitute("Embedding")(nothing(0, dtype=np.int64), x) + w, (0, 3), (5, 3)),
]


@pytest.mark.parametrize("name, call, empty, other", BROADCASTS)
def test_empty_shard_gives_its_partner_a_zero_gradient_that_arrives(name, call, empty, other):
    """
    Feature: empty_safe.
    Description: Combine an empty shard with a full operand; the CPU backward of the stretch reads unset memory.
    Expectation: The partner's gradient is exactly zero and passes through a boundary upstream of the call.
    """
    _dirty()
    _Reached.seen.clear()
    safe = empty_safe(name, call)
    loss = lambda a, b: safe(_Reached.apply(a), _Reached.apply(b)).sum()  # noqa: E731  pylint: disable=C3001
    grads = ms.grad(loss, (0, 1))(nothing(*empty), Tensor(np.ones(other, np.float32)))
    assert grads[0].shape == empty and not grads[1].asnumpy().any() and grads[1].shape == other
    assert sorted(g.shape for g in _Reached.seen) == sorted([empty, other])


def test_empty_safe_leaves_other_calls_alone():
    """
    Feature: empty_safe.
    Description: Concatenate an empty with a full tensor, tile an empty one, update an empty one in place, and reduce
        a full one.
    Expectation: The plain results and gradients, and the real call runs exactly once on non-empty operands.
    """
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    cat = empty_safe("Concat", mint.cat)
    weights = Tensor(np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    grads = ms.grad(lambda e, t: (cat([e, t], 0) * weights).sum(), (0, 1))(nothing(0, 3), x)
    assert grads[0].shape == (0, 3) and np.array_equal(grads[1].asnumpy(), weights.asnumpy())
    assert empty_safe("Tile", mint.tile)(nothing(0, 3), (2, 2, 1)).shape == (2, 0, 3)
    target = nothing(0, 3)
    assert empty_safe("InplaceAddExt", substitute("InplaceAddExt"))(target, nothing(3)) is target
    calls = []
    def counted(*args):
        calls.append(args)
        return mint.sum(*args)
    assert empty_safe("SumExt", counted)(x, 0).asnumpy().tolist() == [3, 5, 7] and len(calls) == 1

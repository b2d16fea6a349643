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
"""The table that the tests of the CPU substitutes walk: name, real entry point, numpy formula, arguments."""
from dataclasses import dataclass, field

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, ops
from mindspore.mint.nn import functional as F
from mindspore.ops.auto_generate import gen_ops_prim as prim

from tests.ut.platform import cpu_kernel_formulas as f

_RANDOM = np.random.RandomState(7)
INF = float("inf")


def r(*shape):
    """Floats of mixed sign and unequal size."""
    return np.asarray(_RANDOM.randn(*shape) * np.exp(0.5 * _RANDOM.randn(*shape)))


def pos(*shape):
    return np.asarray(0.3 + np.abs(r(*shape)))


def i(*values):
    return np.array(values, np.int64)


@dataclass
class Case:
    """One call. Float arrays in `args` take the dtype under test; other arrays and Python values are passed as is."""

    name: str
    real: object
    truth: object
    args: tuple
    kw: dict = field(default_factory=dict)
    grad: bool = True
    in_place: bool = False
    floats: tuple = ("float16", "float32", "float64")

    def __str__(self):
        shown = [str(a.shape) if isinstance(a, np.ndarray) else repr(a) for a in self.args]
        return f"{self.name}-{'-'.join(shown)}{self.kw or ''}".replace(" ", "")


_X, _Y, _W, _V = r(3, 5), r(3, 5), r(5, 4), r(5)
_B, _C = r(2, 3, 5), r(2, 5, 4)
_TIES = np.array([[3., 1., 3., 2., 1.], [0., 0., -1., 0., 5.]])
_FEW = np.array([[0.5, 0., 2.], [0., 0., 0.], [-1., 256., 0.]])
_MASK = np.array([[True, False, True, False, False]] * 3)
_FIRST = Tensor(np.zeros((3, 5), np.float32)), 0, Tensor(np.array([[2], [0]])), Tensor(np.ones((2, 1), np.float32))
_LABELS = _RANDOM.randint(0, 4, (2, 3, 2))
_IDS = np.array([[0, 4], [4, 4], [1, 0]])

MATMUL = [
    Case("Mm", mint.mm, np.matmul, (_X, _W)),
    Case("Mv", mint.mv, np.matmul, (_X, _V)),
    Case("Dot", mint.dot, np.dot, (_V, r(5))),
    Case("Vdot", mint.vdot, np.dot, (_V, r(5))),
    Case("Outer", mint.outer, np.outer, (r(3), _V)),
    Case("Addmm", mint.addmm, lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b), (r(3, 4), _X, _W, 0.5, 2)),
    Case("Addmm", mint.addmm, lambda x, a, b: x + a @ b, (r(4), _X, _W)),
    Case("Addmv", mint.addmv, lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b), (r(3), _X, _V),
         {"beta": 2, "alpha": 0.5}),
    Case("Baddbmm", mint.baddbmm, lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b),
         (r(2, 3, 4), _B, _C, 3, -1)),
    Case("Addbmm", mint.addbmm, lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b).sum(0),
         (r(3, 4), _B, _C, 1, 2)),
]

POINTWISE = [
    Case("Clone", mint.clone, np.copy, (_X,)),
    Case("Clone", mint.clone, np.copy, (r(),)),
    Case("MaskedFill", prim.MaskedFill(), lambda x, m, v: np.where(m, v, x), (_X, _MASK, 0)),
    Case("ZerosLikeExt", mint.zeros_like, lambda x, dtype=None: np.zeros(x.shape), (_X, None), grad=False),
    Case("OnesLikeExt", mint.ones_like, lambda x: np.ones(x.shape), (_X,), grad=False),
    Case("FullLike", mint.full_like, lambda x, v: np.full(x.shape, v), (_X, 2.5), grad=False),
    Case("NewFull", lambda x, *a: x.new_full(*a), lambda x, s, v: np.full(s, v), (_X, (2, 1), 1.5), grad=False),
    Case("GeluExt", F.gelu, f.gelu, (_B,)),
    Case("GeluExt", F.gelu, f.gelu, (_X,), {"approximate": "tanh"}),
    Case("LogSoftmaxExt", mint.special.log_softmax, f.log_softmax, (_X, 0, None)),
    Case("LogSoftmaxExt", mint.special.log_softmax, f.log_softmax, (_B, None, None)),
    Case("LogSoftmaxExt", mint.special.log_softmax, f.log_softmax, (_X * 30, -1)),
    Case("SoftplusExt", F.softplus, f.softplus, (_X, 2, 1)),
    Case("SoftplusExt", F.softplus, f.softplus, (_X * 20,)),
    Case("LogSigmoid", F.logsigmoid, lambda x: -np.logaddexp(0, -x), (_X * 20,)),
    Case("LeakyReLUExt", F.leaky_relu, lambda x, s=0.01: np.where(x > 0, x, s * x), (_X, 0.2)),
    Case("EluExt", F.elu, lambda x, a=1.0: np.where(x > 0, x, a * np.expm1(x)), (_X, 0.7)),
    Case("Hardtanh", F.hardtanh, np.clip, (_X, -0.5, 0.75)),
    Case("Swiglu", ops.swiglu, f.swiglu, (r(3, 4), -1)),
    Case("Swiglu", ops.swiglu, f.swiglu, (r(4, 3), 0)),
    Case("AddcmulExt", mint.addcmul, lambda x, a, b, value=1: x + value * a * b, (_X, _Y, r(5)), {"value": 0.5}),
    Case("AddcdivExt", mint.addcdiv, lambda x, a, b, value=1: x + value * a / b, (_X, _Y, pos(3, 1), 2)),
    Case("FloorDivScalar", mint.floor_divide, np.floor_divide, (_X, 0.75), grad=False),
    Case("DivMods", mint.div, f.divided, (_X, 2), {"rounding_mode": "floor"}, grad=False),
    Case("DivMods", mint.div, f.divided, (_X, 2), {"rounding_mode": "trunc"}, grad=False),
    Case("AsinExt", mint.asin, np.arcsin, (_X / 8,)),
    Case("AcosExt", mint.acos, np.arccos, (_X / 8,)),
    Case("AtanExt", mint.atan, np.arctan, (_X,)),
    Case("AsinhExt", mint.asinh, np.arcsinh, (_X,)),
    Case("AcoshExt", mint.acosh, np.arccosh, (1 + pos(3, 5),)),
    Case("SeLUExt", F.selu, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), (_X,)),
    Case("MishExt", F.mish, lambda x: x * np.tanh(np.logaddexp(0, x)), (_X,)),
    Case("Log2", mint.log2, np.log2, (pos(3, 5),)),
    Case("Log10", mint.log10, np.log10, (pos(3, 5),)),
    Case("Exp2", mint.exp2, np.exp2, (_X,)),
]


def _after(call, first, *args):
    """The call after another one of the same kind, whose shape the kernel remembers."""
    def run(*given, **kw):
        call(*first, **kw)
        return call(*given, *args, **kw)
    return run


def _poisoned_softmax(x, dim):
    """Softmax after its gradient along a dim of extent 1."""
    ms.grad(lambda t: mint.softmax(t, dim).sum())(Tensor(np.ones((1, 2, 1, 1, 1), np.float32)))
    return mint.softmax(x, dim)


NORM = [
    Case("Softmax", _poisoned_softmax, f.softmax, (r(2, 2, 1, 1, 2), 0)),
    Case("Softmax", mint.softmax, lambda x, d: f.softmax(x, d[0]), (_B, (-1,))),
    Case("LayerNormExt", prim.LayerNormExt(), f.layer_norm, (_B, (5,), _V, r(5), 1e-3)),
    Case("LayerNormExt", prim.LayerNormExt(), f.layer_norm, (_B, (3, 5), _X)),
    Case("RmsNorm", ops.rms_norm, f.rms_norm, (_B, _V, 1e-3)),
    Case("AddRmsNorm", ops.add_rms_norm, f.add_rms_norm, (_B, r(2, 3, 5), _V)),
    Case("Embedding", prim.embedding_op, lambda i, w, *_: w[i], (_IDS, _C.reshape(10, 4), None, None, 2.0, False)),
    *(Case("NLLLoss2d", prim.NLLLoss2d(), f.likelihood, (r(2, 4, 3, 2), _LABELS, pos(4), code, 1),
           grad=False) for code in (0, 1, 2)),  # the formula has a gradient for the weights, which no kernel gives
    Case("MSELossExt", prim.MSELossExt(), lambda x, t, red="mean": f.reduced((x - t) ** 2, red), (_X, _Y, 1)),
    Case("MSELossExt", prim.MSELossExt(), lambda x, t, red="mean": f.reduced((x - t) ** 2, red), (_X, _V, 2)),
    Case("L1LossExt", prim.L1LossExt(), lambda x, t, red="mean": f.reduced(np.abs(x - t), red), (_X, _Y, 0)),
]

MOVEMENT = [
    Case("StackExt", mint.stack, lambda t, dim=0: np.stack(t, dim), ([_X, _Y], 1)),
    Case("StackExt", mint.stack, lambda t, dim=0: np.stack(t, dim), ([r(), r(), r()],), {"dim": -1}),
    Case("SelectExtView", mint.select, lambda x, d, n: np.take(x, n, d), (_B, 1, -1)),
    Case("UnstackExtView", mint.unbind, f.unbind, (_B, -1)),
    Case("SplitTensor", prim.SplitTensor(), f.split, (_X, 2, 1)),
    Case("SplitTensorView", mint.split, f.split, (_B, 2, -1)),
    Case("SplitWithSize", prim.SplitWithSize(), f.split, (_X, [1, 3, 1], -1)),
    Case("SplitWithSizeView", mint.split, f.split, (_X, [2, 0, 1], 0)),
    Case("ConstantPadND", F.pad, f.pad, (_X, (1, 2, 0, 1)), {"value": 3.0}),
    Case("ConstantPadND", F.pad, f.pad, (_B, [-1, 2, 1, -2])),
    Case("Roll", mint.roll, np.roll, (_X, 2, 0)),
    Case("Roll", mint.roll, np.roll, (_B, (1, -7), (0, -1))),
    Case("Roll", mint.roll, lambda x, s, d=None: np.roll(x, s, d), (_X, 4, None)),
    Case("TrilExt", mint.tril, np.tril, (_B, 1)),
    Case("TrilExt", mint.tril, np.tril, (_X, -1)),
    Case("DiagExt", mint.diag, np.diag, (_V, -1)),
    Case("DiagExt", mint.diag, np.diag, (_V, 2)),
    Case("DiagExt", mint.diag, np.diag, (_X, 1)),
    Case("DiagExt", mint.diag, np.diag, (_X, -1)),
    Case("TraceExt", mint.trace, np.trace, (_X,)),
    Case("IndexSelect", mint.index_select, lambda x, d, n: np.take(x, n, d), (_X, -1, i(4, 0, 0))),
    Case("Take", mint.take, np.take, (_X, np.array([[3, -1], [0, 14]]))),
    Case("ScatterAddExt", mint.scatter_add, lambda *a: f.scatter(*a, add=True), (_X, 1, _IDS, _Y)),
    Case("ScatterAddExt", mint.scatter_add, lambda *a: f.scatter(*a, add=True), (_X, 0, i(2, 2)[None], r(1, 2))),
    Case("IndexAddExt", mint.index_add, f.index_add, (_X, 0, i(2, 0, 2), _Y), {"alpha": 2}),
    Case("IndexAddExt", mint.index_add, f.index_add, (_B, 1, i(1, 1).astype(np.int32), r(2, 2, 5))),
    Case("Scatter", _after(mint.scatter, _FIRST), f.scatter, (r(15), 0, i(11, 4), r(2))),
    Case("Scatter", mint.scatter, lambda *a: f.scatter(*a[:4], add=True), (_X, 1, _IDS, _Y, 1)),
    Case("ScatterValue", _after(mint.scatter, (*_FIRST[:3], 1.0)), f.scatter, (r(15), 0, i(11, 4), 2.5)),
    Case("StridedSlice", ops.strided_slice, lambda x, b, e, s: x[tuple(map(slice, b, e, s))],
         (_B, (1, 0, 4), (2, 3, 0), (1, 2, -2))),
    Case("StridedSlice", ops.strided_slice, lambda x, b, e, s: x[tuple(map(slice, b, e, s))],
         (_X, (1, 2), (3, 2), (1, 1))),
    Case("OneHotExt", prim.OneHotExt(), f.one_hot, (_IDS, -1, np.array(1), np.array(0), -1), grad=False),
    Case("OneHotExt", prim.OneHotExt(), f.one_hot, (_IDS, 6, np.array(1), np.array(0), 1), grad=False),
    Case("RepeatInterleaveInt", mint.repeat_interleave, np.repeat, (_X, 2, 1)),
    Case("RepeatInterleaveInt", mint.repeat_interleave, lambda x, n: np.repeat(x, n), (_X, 2)),
    Case("RepeatInterleaveTensor", mint.repeat_interleave, np.repeat, (_X, i(0, 2, 1), 0)),
    Case("Repeat", lambda x, *n: x.repeat(*n), f.tile, (_X, 2, 1, 3)),
    Case("Repeat", lambda x, *n: x.repeat(*n), f.tile, (_X, (2, 2))),
    Case("BincountExt", mint.bincount, lambda x, w=None, n=0: np.bincount(x, w, n), (i(0, 2, 2, 1), None, 5),
         grad=False),
    Case("BincountExt", mint.bincount, lambda x, w=None, n=0: np.bincount(x, w, n), (i(0, 2, 2), r(3)), grad=False),
]

REDUCE = [
    Case("TopkExt", mint.topk, f.topk, (_X, 2, -1, True, True)),
    Case("TopkExt", mint.topk, f.topk, (_TIES, 3, 1, False), grad=False),
    Case("SortExt", mint.sort, f.ordered, (_X, 0, True)),
    Case("SortExt", prim.SortExt(), f.ordered, (_TIES, -1, True, True), grad=False),
    Case("ArgSort", mint.argsort, lambda *a: f.ordered(*a)[1], (_TIES, -1, False), grad=False),
    Case("ArgMaxExt", mint.argmax, lambda x, d=None, k=False: x.argmax(d, keepdims=k), (_TIES, 1, True), grad=False),
    Case("ArgMaxExt", mint.argmax, lambda x, d=None, k=False: x.argmax(d), (_X, None, False), grad=False),
    Case("ArgMinExt", mint.argmin, lambda x, d=None, k=False: x.argmin(d), (_TIES, -1), grad=False),
    Case("MedianDim", mint.median, f.median, (_X, 1, True)),
    Case("MedianExt", mint.median, lambda x: f.median(x.reshape(-1), 0)[0], (r(3, 4),)),
    Case("Cummax", mint.cummax, f.running(np.greater_equal), (_X, 1)),
    Case("CumminExt", mint.cummin, f.running(np.less_equal), (_TIES, -1), grad=False),
    Case("AnyExt", mint.any, lambda x, d, k=False: x.astype(bool).any(d, keepdims=k), (_FEW, 1, True), grad=False),
    Case("Any", lambda x: x.any(), lambda x: x.astype(bool).any(), (np.array([[0., 0.], [2., 0.]]),), grad=False),
    Case("ReduceAny", lambda x, d, k: ops.ReduceAny(k)(x, d), lambda x, d, k: x.astype(bool).any(d, keepdims=k),
         (_FEW, 0, False), grad=False),
    Case("Var", mint.var, f.var, (_B, (0, 2)), {"correction": 0, "keepdim": True}),
    Case("Var", mint.var, f.var, (_X,)),
    Case("Std", mint.std, lambda *a, **k: np.sqrt(f.var(*a, **k)), (_X, -1)),
    Case("VarMean", mint.var_mean, lambda x, d=None: (f.var(x, d), x.mean(d)), (_X, 1)),
    Case("StdMean", mint.std_mean, lambda x, d=None: (np.sqrt(f.var(x, d)), x.mean(d)), (_X, 0)),
    Case("LinalgVectorNorm", mint.linalg.vector_norm, f.vector_norm, (_X,)),
    Case("LinalgVectorNorm", mint.linalg.vector_norm, f.vector_norm, (_B, 3, (0, -1), True)),
    Case("LinalgVectorNorm", mint.linalg.vector_norm, f.vector_norm, (_X, 1, 1)),
    Case("LinalgVectorNorm", mint.linalg.vector_norm, f.vector_norm, (1 + pos(3, 5), 0.5, 1)),
    Case("LinalgVectorNorm", mint.linalg.vector_norm, f.vector_norm, (_FEW, 0, 0), grad=False),
    Case("LinalgVectorNorm", mint.linalg.vector_norm, f.vector_norm, (_X, -INF, 0)),
    Case("LpNormV2", mint.linalg.vector_norm, f.vector_norm, (_X, INF, (0, 1))),
    Case("LogSumExp", mint.logsumexp, f.logsumexp, (_X, 1)),
    Case("LogSumExp", mint.logsumexp, f.logsumexp, (_B, (0, 2), True)),
    Case("CumsumExt", mint.cumsum, lambda x, d, t=None: x.cumsum(d), (_B, -2, None)),
    Case("CountNonZero", mint.count_nonzero, lambda x, d=None: (x != 0).sum(d), (_FEW, 1), grad=False),
    Case("CountNonZero", mint.count_nonzero, lambda x, d=None: (x != 0).sum(d), (_FEW,), grad=False),
    Case("EqualExt", mint.equal, np.array_equal, (_X, _X.copy()), grad=False),
    Case("EqualExt", mint.equal, np.array_equal, (_X, _Y), grad=False),
    Case("HistcExt", mint.histc, lambda x, n, a, b: np.histogram(x, n, (a, b))[0], (_X, 4, -1, 2), grad=False),
    Case("Unique2", prim.Unique2(), lambda x, *_: np.unique(x, return_inverse=True, return_counts=True),
         (_TIES.reshape(-1), True, True, True), grad=False),
]


def _method(name):
    return lambda x, *a, **k: getattr(x, name)(*a, **k)


def _in(name, method, truth, args, kw=None, **more):
    real = _method(method) if isinstance(method, str) else method
    return Case(name, real, truth, args, kw or {}, in_place=True, **more)


IN_PLACE = [
    _in("InplaceAddExt", "add_", lambda x, y, alpha=1: x + alpha * y, (_X, _Y), {"alpha": 2}),
    _in("InplaceAddExt", "add_", np.add, (_X, _V)),
    _in("InplaceAddsExt", "add_", lambda x, y, alpha=1: x + alpha * y, (_X, 1.5)),
    _in("InplaceSubExt", "sub_", lambda x, y, alpha=1: x - alpha * y, (_X, _Y), {"alpha": 0.5}),
    _in("InplaceSubScalar", "sub_", lambda x, y, alpha=1: x - alpha * y, (_X, 2), {"alpha": 3}),
    _in("InplaceMul", "mul_", np.multiply, (_X, _Y)),
    _in("InplaceMuls", "mul_", np.multiply, (_X, -2)),
    _in("InplaceDiv", "div_", np.divide, (_X, pos(5))),
    _in("InplaceDivs", "div_", np.divide, (_X, 3)),
    _in("InplaceDivMod", "div_", f.divided, (_X, pos(3, 5)), {"rounding_mode": "floor"}, grad=False),
    _in("InplaceDivMods", "div_", f.divided, (_X, 2), {"rounding_mode": "trunc"}, grad=False),
    _in("InplaceFloorDivide", "floor_divide_", np.floor_divide, (_X, pos(3, 5)), grad=False),
    _in("InplaceFloorDivides", "floor_divide_", np.floor_divide, (_X, 2), grad=False),
    _in("InplaceRemainderTensorTensor", "remainder_", np.mod, (_X, pos(3, 5)), grad=False),
    _in("InplaceRemainderTensorScalar", "remainder_", np.mod, (_X, 2)),
    _in("InplaceExp", "exp_", np.exp, (_X,)),
    _in("InplaceLog", "log_", np.log, (pos(3, 5),)),
    _in("InplaceFloor", "floor_", np.floor, (_X,), grad=False),
    _in("InplaceSigmoid", "sigmoid_", f.sigmoid, (_X,)),
    _in("InplaceTanh", "tanh_", np.tanh, (_X,)),
    _in("InplaceReLU", F.relu_, lambda x: np.maximum(x, 0), (_X,)),
    _in("InplaceSiLU", lambda x: F.silu(x, inplace=True), f.silu, (_X,)),
    _in("InplaceElu", lambda x, a: F.elu(x, a, inplace=True), lambda x, a=1.0: np.where(x > 0, x, a * np.expm1(x)),
        (_X, 0.5)),
    _in("InplaceHardtanh", F.hardtanh_, np.clip, (_X, -0.5, 0.5)),
    _in("InplaceThreshold", F.threshold_, lambda x, t, v: np.where(x > t, x, v), (_X, 0.1, -2.0)),
    _in("InplaceClampScalar", "clamp_", lambda x, a, b: np.clip(x, a, b), (_X, -0.5, None)),
    _in("InplaceClampTensor", "clamp_", lambda x, a, b: np.clip(x, a, b), (_X, None, _Y), grad=False),
    _in("InplaceZero", "zero_", np.zeros_like, (_X,)),
    _in("InplaceFillScalar", "fill_", np.full_like, (_X, 2.5)),
    _in("InplaceFillTensor", "fill_", np.full_like, (_X, np.array(1.5))),
    _in("InplaceFillDiagonal", "fill_diagonal_", f.fill_diagonal, (r(5, 2), 3.0, True)),
    _in("InplaceMaskedFillScalar", "masked_fill_", lambda x, m, v: np.where(m, v, x), (_X, _MASK, -9.0)),
    _in("InplaceMaskedFillTensor", "masked_fill_", lambda x, m, v: np.where(m, v, x), (_X, _MASK[0], r())),
    _in("InplaceScatterAdd", "scatter_add_", lambda *a: f.scatter(*a, add=True), (_X, 1, _IDS, _Y)),
    _in("InplaceScatterSrc", "scatter_", f.scatter, (_X, 1, i(4, 0)[None], r(1, 2))),
    _in("InplaceScatterValue", "scatter_", f.scatter, (_X, 0, i(2, 0)[None], 1.5)),
    _in("InplaceIndexAddExt", "index_add_", f.index_add, (_X, 1, i(0, 0, 3), r(3, 3)), {"alpha": 2}),
    _in("InplaceIndexCopy", "index_copy_", f.index_write, (_X, 0, i(2, 0), r(2, 5))),
    _in("InplaceIndexFillScalar", "index_fill_", f.index_write, (_X, 1, i(2, 0), 7.0)),
    _in("InplaceIndexFillTensor", "index_fill_", f.index_write, (_X, -1, i(4), r())),
    _in("InplaceIndexPut", "index_put_", f.index_put, (_X, (i(2, 0), i(1, 4)), r(2))),
    _in("InplaceIndexPut", "index_put_", f.index_put, (_X, (i(2, 2),), r(5), True)),
    _in("InplaceAddmm", "addmm_", lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b), (r(3, 4), _X, _W),
        {"beta": 2, "alpha": 0.5}),
]

_CAUSAL = np.triu(np.ones((3, 3), bool), 1)

ATTENTION = [
    Case("FlashAttentionScore",
         lambda q, k, v, m: ops.flash_attention_score(q, k, v, 2, attn_mask=m, scalar_value=0.5, input_layout="BSH"),
         lambda q, k, v, m: f.attention(q, k, v, m, 2, 0.5), (r(2, 3, 4), r(2, 3, 2), r(2, 3, 2), _CAUSAL)),
]

CASES = MATMUL + POINTWISE + NORM + MOVEMENT + REDUCE + IN_PLACE + ATTENTION

# Names whose results are drawn; the real entry points fail on CPU, so only that and the drawn values are tested.
RANDOM = {
    "FuncDropoutExt": lambda x: F.dropout(x, 0.5, True), "InplaceNormal": lambda x: x.normal_(),
    "InplaceUniform": lambda x: x.uniform_(), "InplaceRandom": lambda x: x.random_(),
    "InplaceExponential": lambda x: x.exponential_(), "InplaceBernoulliScalar": lambda x: x.bernoulli_(0.5),
    "InplaceBernoulliTensor": lambda x: x.bernoulli_(x), "RandLikeExt": mint.rand_like, "RandnLike": mint.randn_like,
    "RandIntLike": lambda x: mint.randint_like(x, 0, 5),
}

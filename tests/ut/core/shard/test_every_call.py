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
"""Every call that a program writes, on tensors whose global shape differs from the local one: right, or refused."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint, ops

from tests.ut.core.shard.every_call import right_layouts

F = mint.nn.functional
RNG = np.random.default_rng(5)


def _ints(*shape, low=-6, high=7):
    return RNG.integers(low, high, shape).astype("float32")


X, Z, Y, V, W, B3, C3, BIAS = (
    _ints(4, 8),
    _ints(4, 8),
    _ints(8, 6),
    _ints(8),
    _ints(6, 8),
    _ints(2, 4, 8),
    _ints(2, 8, 5),
    _ints(6),
)
POS = _ints(4, 8, low=1, high=9)
MASK = X > 0
IDX = np.array([0, 2, 3, 1], "int32")
IDX2 = RNG.integers(0, 4, (4, 2)).astype("int32")
EYE = _ints(6, 6)

# name -> (function, operands); functions are called with plain tensors, then with DTensors.
CALLS = {
    "mint.matmul": (mint.matmul, X, Y),
    "x@y": (lambda x, y: x @ y, X, Y),
    "x.matmul": (lambda x, y: x.matmul(y), X, Y),
    "ops.matmul": (ops.matmul, X, Y),
    "mint.mm": (mint.mm, X, Y),
    "x.mm": (lambda x, y: x.mm(y), X, Y),
    "mint.bmm": (mint.bmm, B3, C3),
    "ops.bmm": (ops.bmm, B3, C3),
    "mint.mv": (mint.mv, X, V),
    "mint.dot": (mint.dot, V, V),
    "mint.outer": (mint.outer, V, BIAS),
    "ops.MatMul(tb)": (lambda x, w: ops.MatMul(transpose_b=True)(x, w), X, W),
    "ops.MatMul(ta)": (lambda x, y: ops.MatMul(transpose_a=True)(x, y), X, Z),
    "ops.BatchMatMul(tb)": (lambda x, y: ops.BatchMatMul(transpose_b=True)(x, y), B3, B3),
    "F.linear": (F.linear, X, W),
    "F.linear+bias": (F.linear, X, W, BIAS),
    "ops.dense": (ops.dense, X, W, BIAS),
    "mint.addmm": (mint.addmm, _ints(4, 6), X, Y),
    "mint.addmm beta": (lambda s, x, y: mint.addmm(s, x, y, beta=2, alpha=3), _ints(4, 6), X, Y),
    "mint.baddbmm": (mint.baddbmm, _ints(2, 4, 5), B3, C3),
    "matmul 3d 2d": (mint.matmul, B3, Y),
    "matmul 1d": (mint.matmul, V, Y),
    "matmul 2d 1d": (mint.matmul, X, V),
    "matmul 1d 1d": (mint.matmul, V, V),
    "matmul broadcast": (mint.matmul, B3, _ints(1, 8, 5)),
    "mint.add": (mint.add, X, Z),
    "alpha": (lambda x, z: mint.add(x, z, alpha=2), X, Z),
    "x+1": (lambda x: x + 1, X),
    "1+x": (lambda x: 1 + x, X),
    "x-z": (lambda x, z: x - z, X, Z),
    "1-x": (lambda x: 1 - x, X),
    "x-1": (lambda x: x - 1, X),
    "x*z": (lambda x, z: x * z, X, Z),
    "x*2": (lambda x: x * 2, X),
    "-2*x": (lambda x: -2 * x, X),
    "x/z": (lambda x, z: x / z, X, POS),
    "x/2": (lambda x: x / 2, X),
    "1/x": (lambda x: 1 / x, POS),
    "-x": (lambda x: -x, X),
    "x//2": (lambda x: x // 2, X),
    "x%3": (lambda x: x % 3, X),
    "x**2": (lambda x: x**2, X),
    "2**x": (lambda x: 2**x, X),
    "abs": (abs, X),
    "~m": (lambda m: ~m, MASK),
    "x>z": (lambda x, z: x > z, X, Z),
    "x>=0": (lambda x: x >= 0, X),
    "x==z": (lambda x, z: x == z, X, Z),
    "x!=0": (lambda x: x != 0, X),
    "m&m": (lambda m, n: m & n, MASK, MASK),
    "m|m": (lambda m, n: m | n, MASK, ~MASK),
    "x+row": (lambda x, v: x + v, X, V),
    "x*col": (lambda x, c: x * c, X, X[:, :1]),
    "mint.div floor": (lambda x, z: mint.div(x, z, rounding_mode="floor"), X, POS),
    "mint.exp": (mint.exp, X / 4),
    "mint.sqrt": (mint.sqrt, POS),
    "mint.rsqrt": (mint.rsqrt, POS),
    "mint.log": (mint.log, POS),
    "mint.square": (mint.square, X),
    "mint.sin": (mint.sin, X),
    "mint.tanh": (mint.tanh, X),
    "mint.sigmoid": (mint.sigmoid, X),
    "mint.erf": (mint.erf, X),
    "mint.sign": (mint.sign, X),
    "mint.floor": (mint.floor, X / 2),
    "mint.round": (mint.round, X / 4),
    "mint.clamp": (lambda x: mint.clamp(x, -1, 2), X),
    "mint.clamp min": (lambda x: mint.clamp(x, min=0), X),
    "mint.maximum": (mint.maximum, X, Z),
    "mint.minimum": (mint.minimum, X, Z),
    "mint.where": (mint.where, MASK, X, Z),
    "mint.where scalar": (lambda m, x: mint.where(m, x, 0.0), MASK, X),
    "masked_fill": (lambda x, m: x.masked_fill(m, -9.0), X, MASK),
    "masked_fill 0": (lambda x, m: x.masked_fill(m, 0.0), X, MASK),
    "mint.lerp": (lambda x, z: mint.lerp(x, z, 0.5), X, Z),
    "mint.addcmul": (lambda x, z, p: mint.addcmul(x, z, p, value=2), X, Z, POS),
    "ops.add": (ops.add, X, Z),
    "ops.Sub()": (lambda x, z: ops.Sub()(x, z), X, Z),
    "ops.Mul()": (lambda x, z: ops.Mul()(x, z), X, Z),
    "ops.RealDiv()": (lambda x, z: ops.RealDiv()(x, z), X, POS),
    "ops.AddN": (lambda x, z: ops.AddN()([x, z]), X, Z),
    "transpose": (lambda x: mint.transpose(x, 0, 1), X),
    "x.T": (lambda x: x.T, X),
    "x.t()": (lambda x: x.t(), X),
    "x.transpose(0,1)": (lambda x: x.transpose(0, 1), X),
    "x.permute": (lambda b: b.permute(0, 2, 1), B3),
    "mint.permute": (lambda b: mint.permute(b, (2, 0, 1)), B3),
    "x.transpose(0,2,1)": (lambda b: b.transpose(0, 2, 1), B3),
    "swapaxes": (lambda b: b.swapaxes(1, 2), B3),
    "ops.transpose": (lambda b: ops.transpose(b, (0, 2, 1)), B3),
    "mT": (lambda b: b.mT, B3),
    "reshape(8,4)": (lambda x: x.reshape(8, 4), X),
    "reshape((4,2,4))": (lambda x: x.reshape((4, 2, 4)), X),
    "reshape(-1)": (lambda x: x.reshape(-1), X),
    "view": (lambda x: x.view(2, 2, 8), X),
    "view(-1,2,4)": (lambda x: x.view(-1, 2, 4), X),
    "mint.reshape": (lambda x: mint.reshape(x, (2, 16)), X),
    "flatten": (lambda b: mint.flatten(b, 1), B3),
    "x.flatten": (lambda x: x.flatten(), X),
    "unsqueeze": (lambda x: mint.unsqueeze(x, 1), X),
    "x.unsqueeze": (lambda x: x.unsqueeze(-1), X),
    "squeeze": (lambda x: mint.squeeze(x, 1), X[:, None]),
    "x.squeeze": (lambda x: x.squeeze(), X[None]),
    "expand": (lambda x: x.expand(2, 4, 8), X),
    "broadcast_to": (lambda x: mint.broadcast_to(x, (3, 4, 8)), X),
    "expand_as": (lambda v, x: v.expand_as(x), V, X),
    "tile": (lambda x: mint.tile(x, (2, 1)), X),
    "view_as": (lambda x, z: x.view_as(z), X, Z),
    "narrow": (lambda x: mint.narrow(x, 1, 2, 3), X),
    "select": (lambda x: mint.select(x, 0, 1), X),
    "flip": (lambda x: mint.flip(x, (0,)), X),
    "triu": (lambda x: mint.triu(x, 1), EYE),
    "tril": (lambda x: mint.tril(x), EYE),
    "roll": (lambda x: mint.roll(x, 1, 0), X),
    "x[0]": (lambda x: x[0], X),
    "x[1:3]": (lambda x: x[1:3], X),
    "x[:,1:3]": (lambda x: x[:, 1:3], X),
    "x[...,0]": (lambda x: x[..., 0], X),
    "x[None]": (lambda x: x[None], X),
    "x[:,None]": (lambda x: x[:, None], X),
    "x[-1]": (lambda x: x[-1], X),
    "x[::2]": (lambda x: x[::2], X),
    "x[idx]": (lambda x, i: x[i], X, IDX),
    "iter": (lambda x: list(x)[1], X),
    "gather": (lambda x, i: mint.gather(x, 1, i), X, IDX2),
    "index_select": (lambda x, i: mint.index_select(x, 1, i), X, IDX),
    "ops.gather": (lambda x, i: ops.gather(x, i, 0), X, IDX),
    "sum": (mint.sum, X),
    "sum0": (lambda x: mint.sum(x, 0), X),
    "sum keep": (lambda x: mint.sum(x, dim=1, keepdim=True), X),
    "x.sum()": (lambda x: x.sum(), X),
    "x.sum(-1)": (lambda x: x.sum(-1, keepdim=True), X),
    "x.sum(axis)": (lambda x: x.sum(axis=0), X),
    "sum (0,1)": (lambda x: mint.sum(x, (0, 1)), X),
    "ReduceSum": (lambda x: ops.ReduceSum()(x, 0), X),
    "mean": (mint.mean, X * 32),
    "mean1": (lambda x: mint.mean(x, 1), X * 32),
    "x.mean": (lambda x: x.mean(0), X * 32),
    "ops.mean": (lambda x: ops.mean(x, 0), X * 32),
    "amax": (lambda x: mint.amax(x, 1), X),
    "amin": (lambda x: mint.amin(x, 0), X),
    "max": (mint.max, X),
    "max dim": (lambda x: mint.max(x, 1)[0], X),
    "min": (mint.min, X),
    "prod": (lambda x: mint.prod(x, 1), X / 2),
    "any": (lambda m: mint.any(m, 1), MASK),
    "all": (lambda m: mint.all(m, 0), MASK),
    "cumsum": (lambda x: mint.cumsum(x, 1), X),
    "argmax": (lambda x: mint.argmax(x, 1), X),
    "x.argmax": (lambda x: x.argmax(-1), X),
    "var": (lambda x: mint.var(x, 1), X),
    "std": (lambda x: mint.std(x, 1), X),
    "norm": (lambda x: mint.norm(x, dim=1), X),
    "logsumexp": (lambda x: mint.logsumexp(x, 1), X),
    "softmax": (lambda x: mint.softmax(x, -1), X),
    "ops.Softmax": (lambda x: ops.Softmax(-1)(x), X),
    "log_softmax": (lambda x: F.log_softmax(x, -1), X),
    "relu": (F.relu, X),
    "silu": (F.silu, X),
    "gelu": (F.gelu, X),
    "ops.gelu": (ops.gelu, X),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), X),
    "softplus": (F.softplus, X),
    "leaky": (F.leaky_relu, X),
    "layer_norm": (lambda x, v: F.layer_norm(x, (8,), v, v), X, V),
    "rms_norm": (lambda x, v: ops.rms_norm(x, v)[0], X, V),
    "cat": (lambda x, z: mint.cat([x, z], 0), X, Z),
    "cat1": (lambda x, z: mint.cat((x, z), dim=1), X, Z),
    "stack": (lambda x, z: mint.stack([x, z]), X, Z),
    "ops.stack": (lambda x, z: ops.stack([x, z], 1), X, Z),
    "split": (lambda x: mint.split(x, 2, 1)[1], X),
    "split list": (lambda x: mint.split(x, [1, 3], 0)[1], X),
    "x.split": (lambda x: x.split(3, 1)[2], X),
    "chunk": (lambda x: mint.chunk(x, 2, -1)[1], X),
    "ops.split": (lambda x: ops.split(x, 4, 1)[1], X),
    "unbind": (lambda x: mint.unbind(x, 0)[2], X),
    "topk": (lambda x: mint.topk(x, 2)[0], X + np.arange(8) / 16),
    "sort": (lambda x: mint.sort(x)[0], X),
    "to int": (lambda x: x.to(ms.int32), X),
    "to fp16": (lambda x: x.to(ms.float16), X),
    "float()": (lambda x: x.float(), X.astype("float16")),
    "ops.cast": (lambda x: ops.cast(x, ms.float64), X),
    "clone": (lambda x: x.clone(), X),
    "zeros_like": (mint.zeros_like, X),
    "ones_like": (mint.ones_like, X),
    "full_like": (lambda x: mint.full_like(x, 3.0), X),
    "type_as": (lambda x, z: x.type_as(z), X, Z),
    "contiguous": (lambda x: mint.transpose(x, 0, 1).contiguous(), X),
    "copy": (lambda x: x.copy(), X),
    "isfinite": (mint.isfinite, X),
    "stop_gradient": (ops.stop_gradient, X),
    "pad": (lambda x: F.pad(x, (1, 1)), X),
    "one_hot": (lambda i: mint.nn.functional.one_hot(i.astype(ms.int64), 4), IDX),
    "logical_not": (mint.logical_not, MASK),
    "repeat_interleave": (lambda x: mint.repeat_interleave(x, 2, 0), X),
}


# The extremum of these data is tied: one device shares the gradient, ranks give it to the lowest one that attains it.
TIED = ("amax", "amin", "max", "min", "mint.maximum", "mint.minimum")


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", list(CALLS))
def test_a_call_is_right_or_refused_under_every_layout(name, ranks):
    """
    Feature: dispatch.
    Description: the call on every combination of placements of its operands, uneven and empty shards among them.
    Expectation: replicas give what plain tensors give; every other combination gives the value and the gradients of
        the replicas, or is refused.
    """
    function, *arrays = CALLS[name]
    assert right_layouts(function, arrays, ranks, _plain(function, arrays), name not in TIED) >= 1


def _plain(function, arrays):
    """The call on plain whole tensors; None where the CPU build has no kernel for it."""
    try:
        return function(*[Tensor(a) for a in arrays]).asnumpy()
    except (RuntimeError, NotImplementedError, TypeError):
        return None

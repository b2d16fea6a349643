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
"""Elementwise functions, activations and factories that the CPU build lacks."""
from __future__ import annotations

import math

from mindspore import mint, ops
from mindspore.common._grad_function import _Function

from hyper_parallel.platform.mindspore.cpu_kernels_common import (as_dtype, axis, clone, full, host, like, max_over,
                                                                  scaled, sum_over, widened)


def zeros_like(x, dtype=None, device=None):  # pylint: disable=unused-argument
    """Zeros of the shape of x; the device is the only one there is."""
    return mint.zeros(x.shape, dtype=as_dtype(dtype) or x.dtype)


def ones_like(x, dtype=None, device=None):  # pylint: disable=unused-argument
    """Ones of the shape of x."""
    return full(x.shape, 1, as_dtype(dtype) or x.dtype)


def full_like(x, fill_value, dtype=None, device=None):  # pylint: disable=unused-argument
    """A constant, scalar or 0-d tensor, in the shape of x."""
    value = fill_value if isinstance(fill_value, (bool, int, float)) else host(fill_value).item()
    return full(x.shape, value, as_dtype(dtype) or x.dtype)


def new_full(x, size, fill_value, dtype=None, device=None):
    """A constant of another size in the dtype of x."""
    return full_like(mint.empty(size, dtype=x.dtype), fill_value, dtype, device)


def gelu(x, approximate="none"):
    """x times the normal distribution function; "tanh" is the usual approximation of it."""
    wide = widened(x)
    if approximate == "tanh":
        inner = scaled(wide + scaled(wide * wide * wide, 0.044715), math.sqrt(2.0 / math.pi))
        return like(0.5 * wide * (1.0 + mint.tanh(inner)), x)
    return like(0.5 * wide * (1.0 + mint.erf(scaled(wide, math.sqrt(0.5)))), x)


def log_softmax(x, dim=None, dtype=None):
    """Logarithm of softmax; without a dim the framework's rule picks 0 for 0-d, 1-d and 3-d tensors, else 1."""
    x = x if dtype is None else x.astype(as_dtype(dtype))
    dim = axis(x.ndim, (0 if x.ndim in (0, 1, 3) else 1) if dim is None else dim)
    if x.ndim == 0 or x.size == 0:
        return x - x
    wide = widened(x)
    shifted = wide - ops.stop_gradient(max_over(wide, dim, True))
    return like(shifted - mint.log(sum_over(mint.exp(shifted), dim, True)), x)


class _Softmax(_Function):
    """The kernel forward; backward by formula, as the kernel of the gradient keeps state from its first call.

    After a first call whose dim has extent 1, that kernel is wrong for every later shape with the same dim.
    """

    @staticmethod
    def forward(ctx, x, dim):
        """Softmax along one dim."""
        out = mint.softmax(x, dim)
        ctx.save_for_backward(out)
        ctx.dim = dim
        return out

    @staticmethod
    def backward(ctx, grad):
        """y (g - sum(g y))."""
        (out,) = ctx.saved_tensors
        return out * (grad - sum_over(grad * out, ctx.dim, True)), None


def softmax(x, dim=-1):
    """exp(x) over its sum along a dim, which may come as a tuple of one."""
    (dim,) = dim if isinstance(dim, (tuple, list)) else (dim,)
    return like(_Softmax.apply(widened(x), axis(x.ndim, dim)), x)


class _Softplus(_Function):
    """log(1 + exp(beta x)) / beta, linear beyond the threshold; the CPU kernel has no backward."""

    @staticmethod
    def forward(ctx, x, beta, threshold):
        """The form that neither overflows nor loses the tail of negative x."""
        z = x * beta
        ctx.save_for_backward(z)
        ctx.threshold = threshold
        soft = (mint.clamp(z, min=0) + mint.log1p(mint.exp(-mint.abs(z)))) / beta
        return mint.where(z > threshold, x, soft)

    @staticmethod
    def backward(ctx, grad):
        """The slope is sigmoid(beta x), and 1 beyond the threshold."""
        (z,) = ctx.saved_tensors
        return mint.where(z > ctx.threshold, grad, grad * mint.sigmoid(z)), None, None


def softplus(x, beta=1, threshold=20):
    """log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold."""
    return like(_Softplus.apply(widened(x), beta, threshold), x)


def log_sigmoid(x):
    """log(1 / (1 + exp(-x)))."""
    return like(-_Softplus.apply(-widened(x), 1, math.inf), x)


def leaky_relu(x, negative_slope=0.01):
    """x where positive, else negative_slope * x."""
    return mint.where(x > 0, x, scaled(x, negative_slope))


def elu(x, alpha=1.0):
    """x where positive, else alpha * (exp(x) - 1)."""
    wide = widened(x)
    return like(mint.where(wide > 0, wide, scaled(mint.expm1(mint.clamp(wide, max=0.0)), alpha)), x)


def selu(x):
    """elu with the scale and slope that keep mean 0 and variance 1."""
    return scaled(elu(x, 1.6732632423543772), 1.0507009873554805)


def mish(x):
    """x * tanh(softplus(x))."""
    return like(x * mint.tanh(softplus(widened(x))), x)


def hardtanh(x, min_val=-1, max_val=1):
    """x clamped to an interval."""
    return mint.clamp(x, min_val, max_val)


def swiglu(x, dim=-1):
    """silu of the first half of a dimension times the second half."""
    dim = axis(x.ndim, dim)
    half, odd = divmod(x.shape[dim], 2)
    if odd:
        raise ValueError(f"swiglu halves dim {dim}, which has {x.shape[dim]} elements; use an even extent.")
    gate, value = (widened(mint.narrow(x, dim, start, half)) for start in (0, half))
    return like(mint.nn.functional.silu(gate) * value, x)


def addcmul(x, tensor1, tensor2, value=1):
    """x + value * tensor1 * tensor2."""
    return x + scaled(tensor1 * tensor2, value)


def addcdiv(x, tensor1, tensor2, value=1):
    """x + value * tensor1 / tensor2."""
    return x + scaled(tensor1 / tensor2, value)


def floor_divide(x, other):
    """The greatest integer not above x / other."""
    return ops.floor_div(x, other)


def divide(x, other, rounding_mode=None):
    """x / other, rounded towards minus infinity ("floor") or zero ("trunc")."""
    if rounding_mode == "floor":
        return floor_divide(x, other)
    ratio = mint.div(x, other)
    return ratio if rounding_mode is None else like(mint.trunc(ratio), x)


def masked_fill(x, mask, value):
    """Where the mask is true the value, of any kind of number, else x."""
    return x.masked_fill(mask, value.astype(x.dtype) if hasattr(value, "dtype") else value)


def _through(function):
    """A framework function that has a kernel, in the place of one with another name that has none."""
    return lambda x: like(function(widened(x)), x)


TABLE = {
    "Clone": clone, "ZerosLikeExt": zeros_like, "OnesLikeExt": ones_like, "FullLike": full_like, "NewFull": new_full,
    "GeluExt": gelu, "Softmax": softmax, "LogSoftmaxExt": log_softmax, "SoftplusExt": softplus,
    "LogSigmoid": log_sigmoid,
    "LeakyReLUExt": leaky_relu, "EluExt": elu, "Hardtanh": hardtanh, "Swiglu": swiglu,
    "FloorDivScalar": floor_divide, "DivMods": divide,
    "MaskedFill": masked_fill, "AddcmulExt": addcmul, "AddcdivExt": addcdiv,
    "AsinExt": _through(ops.asin), "AcosExt": _through(ops.acos), "AtanExt": _through(ops.atan),
    "AsinhExt": _through(ops.asinh), "AcoshExt": _through(ops.acosh), "SeLUExt": selu, "MishExt": mish,
    "Log2": _through(lambda x: scaled(mint.log(x), 1.0 / math.log(2.0))),
    "Log10": _through(lambda x: scaled(mint.log(x), 1.0 / math.log(10.0))),
    "Exp2": _through(lambda x: mint.exp(scaled(x, math.log(2.0)))),
}

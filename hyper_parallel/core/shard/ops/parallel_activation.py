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
"""Activations and normalisations. A dimension that an operation normalises over, or splits in halves, must be whole.

ReLU, LeakyReLU with a slope >= 0, ELU and their kin are non-decreasing and their slope follows from their value, so
P(max) and P(min) pass; the others refuse what is pending.
The scale and shift of a norm are replicas that meet cut data: their gradients are summed over the axes of the cut.
"""
from __future__ import annotations

import functools

from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters, normal_dim, normal_dims
from hyper_parallel.core.shard.ops.nature import CLAMPED, NONLINEAR, RISING, Nature, binder, sign_of
from hyper_parallel.core.shard.ops.parallel_loss import CUT_CLASSES
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.ops.parallel_reduce import along_signature
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError


def exponential(call: Call) -> Nature:
    """alpha * (exp(x) - 1) below 0: rising, with a slope that follows from its value, for a positive alpha."""
    return RISING if sign_of(call["alpha"]) == 1 else NONLINEAR


def _leaky(call: Call) -> Nature:
    return RISING if sign_of(call["negative_slope"]) in (0, 1) else NONLINEAR


def bind_softmax(call: Call) -> Bound:
    """A map along one dimension (or several), which must be whole."""
    x = call["input"]
    dims = () if not x.shape else normal_dims(call.name, _softmax_dim(call), len(x.shape))
    return Bound(along_signature(call.name, len(x.shape), dims), (x.shape,))


def _softmax_dim(call: Call):
    """The framework's choice where none is made: the first dimension of 0, 1 or 3, the second of others."""
    if call["dim"] is not None:
        return call["dim"]
    return 0 if len(call["input"].shape) in (0, 1, 3) else 1


def bind_halves(call: Call) -> Bound:
    """Two halves of one dimension combined: swiglu, glu."""
    x = call["input"]
    dim = normal_dim(call.name, call["dim"], len(x.shape))
    if x.exact and x.shape[dim] % 2:
        raise LayoutError(f"{call.name}: dimension {dim} of {x.shape} has no two equal halves.")
    shape = x.shape[:dim] + (x.shape[dim] // 2,) + x.shape[dim + 1:]
    return Bound(along_signature(call.name, len(x.shape), (dim,)), (shape,))


# -- norms -----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def norm_signature(name: str, ndim: int, begin: int, passive: tuple, statistics: int) -> Signature:
    """Normalised from dimension `begin` on; `passive` are the ranks of scale and shift; statistics keep 1s there."""
    x = letters(begin) + (None,) * (ndim - begin)
    return Signature(name, (x,) + tuple((None,) * rank for rank in passive), (x,) * (1 + statistics))


def _normed(call: Call, begin: int, passive: tuple, statistics: int) -> Bound:
    x = call["input"]
    held = [call[p] for p in passive if isinstance(call[p], Operand)]
    for operand in held:
        if operand.exact and x.exact and tuple(operand.shape) != x.shape[begin:]:
            raise LayoutError(f"{call.name}: the scale and shift must have the normalised shape {x.shape[begin:]}. "
                              f"Got {operand.shape}.")
    signature = norm_signature(call.name, len(x.shape), begin, tuple(len(o.shape) for o in held), statistics)
    kept = x.shape[:begin] + (1,) * (len(x.shape) - begin)
    return Bound(signature, (x.shape,) + (kept,) * statistics, multi=True)


def bind_layer_norm_ext(call: Call) -> Bound:
    """Over the last dimensions, of the given shape; result, mean and reciprocal deviation."""
    x, normal = call["input"], call["normalized_shape"]
    normal = tuple(normal) if isinstance(normal, (tuple, list)) else (normal,)
    begin = len(x.shape) - len(normal)
    if begin < 0 or (x.exact and x.shape[begin:] != normal):
        raise LayoutError(f"{call.name}: the global shape {x.shape} does not end with {normal}.")
    return _normed(call, begin, ("weight", "bias"), 2)


def bind_layer_norm(call: Call) -> Bound:
    """From `begin_norm_axis` on; result, mean and variance."""
    begin = normal_dim(call.name, call["begin_norm_axis"], len(call["input"].shape))
    return _normed(call, begin, ("weight", "bias"), 2)


def bind_rms_norm(call: Call) -> Bound:
    """Over the dimensions of the scale; result and reciprocal root mean square."""
    return _normed(call, len(call["input"].shape) - len(call["weight"].shape), ("weight",), 1)


for _name in ("ReLU", "HSigmoid", "SeLUExt"):
    declare(_name, "input:t", binder(RISING))
# Whether their slope on a bound is 0 or 1 is the kernel's choice, which nobody has measured on a device.
declare("ReLU6", "input:t", binder(CLAMPED))
declare("Hardtanh", "input:t min_val=-1 max_val=1", binder(CLAMPED))
for _name in ("LeakyReLU", "LeakyReLUExt"):
    declare(_name, "input:t negative_slope=0.01", binder(_leaky))
for _name in ("SiLU", "GeLU", "FastGeLU", "HSwish", "MishExt"):
    declare(_name, "input:t", binder(NONLINEAR))
declare("GeluExt", "input:t approximate='none'", binder(NONLINEAR))
for _name in ("Softplus", "SoftplusExt"):
    declare(_name, "input:t beta=1 threshold=20", binder(NONLINEAR))
for _name in ("Elu", "EluExt"):
    declare(_name, "input:t alpha=1.0", binder(exponential))
declare("Softmax", "input:t dim=-1", bind_softmax)
declare("LogSoftmax", "input:t dim=-1", bind_softmax, advice=CUT_CLASSES)
declare("LogSoftmaxExt", "input:t dim=None dtype=None", bind_softmax, advice=CUT_CLASSES)
for _name in ("Swiglu", "GLU"):
    declare(_name, "input:t dim=-1", bind_halves)
_PASSIVE = frozenset(("weight", "bias"))
declare("LayerNormExt", "input:t normalized_shape weight:t=None bias:t=None eps=1e-05", bind_layer_norm_ext,
        optional_plain=_PASSIVE)
declare("LayerNorm", "input:t weight:t bias:t begin_norm_axis=1 begin_params_axis=1 epsilon=1e-07", bind_layer_norm,
        optional_plain=_PASSIVE)
declare("RmsNorm", "input:t weight:t eps=1e-06", bind_rms_norm)

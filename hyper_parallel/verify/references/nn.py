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
"""Meaning of operations that normalise over a dimension or combine its halves. Sums of inexact terms: within 4 ulp."""
from __future__ import annotations

import math

import numpy as np

from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference
from hyper_parallel.verify.tape import custom, elementwise, plain

_exp = elementwise(lambda a: math.exp(a) if a < 700 else math.inf, lambda g, o, a: g * o)
_log = elementwise(lambda a: math.log(a) if a > 0 else math.nan, lambda g, o, a: g / a)
_sigmoid = elementwise(lambda a: 1 / (1 + math.exp(-a)) if a > -700 else 0.0, lambda g, o, a: g * (o * (1 - o)))
_EVEN = {"n": lambda s: 2 * s["a"], "a": None}


def _dims(v: dict):
    dim = v["dim"]
    if dim is None:
        return 0 if v["input"].ndim in (0, 1, 3) else 1
    return tuple(dim) if isinstance(dim, (tuple, list)) else dim


def softmax(v: dict):
    """exp(x) / sum(exp(x)) along a dimension; 1 without dimensions."""
    x = v["input"]
    if not x.ndim:
        return custom(np.ones(()), (x, np.zeros_like))
    powers = _exp(x - np.max(plain(x), axis=_dims(v), keepdims=True))
    return powers / np.sum(powers, axis=_dims(v), keepdims=True)


def log_softmax(v: dict):
    """x - log(sum(exp(x))) along a dimension."""
    x = v["input"]
    centred = x - np.max(plain(x), axis=_dims(v), keepdims=True)
    return centred - _log(np.sum(_exp(centred), axis=_dims(v), keepdims=True))


def halves(v: dict) -> tuple:
    """The two halves of a dimension."""
    x, dim = v["input"], v["dim"]
    size = x.shape[dim] // 2
    return np.take(x, np.arange(size), dim), np.take(x, np.arange(size, 2 * size), dim)


def swiglu(v: dict):
    """silu(first half) * second half."""
    first, second = halves(v)
    return first * _sigmoid(first) * second


def glu(v: dict):
    """first half * sigmoid(second half)."""
    first, second = halves(v)
    return first * _sigmoid(second)


def _standardised(x, axes: tuple, eps: float):
    mean = np.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    variance = np.mean(centred * centred, axis=axes, keepdims=True)
    return centred / np.sqrt(variance + eps), mean, variance


def _scaled(x, v: dict):
    x = x if v.get("weight") is None else x * v["weight"]
    return x if v.get("bias") is None else x + v["bias"]


def layer_norm_ext(v: dict):
    """(result, mean, reciprocal deviation) over the last dimensions."""
    normal = v["normalized_shape"]
    count = len(normal) if isinstance(normal, (tuple, list)) else 1
    axes = tuple(range(v["input"].ndim - count, v["input"].ndim))
    out, mean, variance = _standardised(v["input"], axes, v["eps"])
    return _scaled(out, v), mean, 1 / np.sqrt(variance + v["eps"])


def layer_norm(v: dict):
    """(result, mean, variance) from `begin_norm_axis` on."""
    x = v["input"]
    axes = tuple(range(v["begin_norm_axis"] % x.ndim, x.ndim))
    out, mean, variance = _standardised(x, axes, v["epsilon"])
    return _scaled(out, v), mean, variance


def rms_norm(v: dict):
    """(result, reciprocal root mean square) over the dimensions of the scale."""
    x, weight = v["input"], v["weight"]
    axes = tuple(range(x.ndim - weight.ndim, x.ndim))
    scale = 1 / np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + v["eps"])
    return x * scale * weight, scale


_SOFT = (Pattern("input=abc/unit"), Pattern("input=abc/unit", dim=0), Pattern("input=ab/unit", dim=1))
reference("Softmax", softmax, *_SOFT, Pattern("input=abc/unit", dim=(0, -1)),
          Pattern("input=./unit", _degenerate=True), approximate=True)
reference("LogSoftmax", log_softmax, *_SOFT, approximate=True)
reference("LogSoftmaxExt", log_softmax, *_SOFT[1:], Pattern("input=abc/unit"), Pattern("input=ab/unit"),
          approximate=True)
_HALVED = (Pattern("input=bn/unit", _sizes=_EVEN), Pattern("input=nb/unit", _sizes=_EVEN, dim=0))
reference("Swiglu", swiglu, *_HALVED, approximate=True)
reference("GLU", glu, *_HALVED, approximate=True)
reference("LayerNormExt", layer_norm_ext, Pattern("input=ab4/unit weight=4/digit bias=4/digit", normalized_shape=(4,)),
          Pattern("input=ab4/unit weight=4/digit", normalized_shape=(4,)), Pattern("input=a4/unit", normalized_shape=4),
          Pattern("input=a23/unit weight=23/digit bias=23/digit", normalized_shape=(2, 3)), approximate=True)
reference("LayerNorm", layer_norm, Pattern("input=a4/unit weight=4/digit bias=4/digit"),
          Pattern("input=ab4/unit weight=4/digit bias=4/digit", begin_norm_axis=-1, begin_params_axis=-1),
          approximate=True)
reference("RmsNorm", rms_norm, Pattern("input=ab4/unit weight=4/digit"), Pattern("input=a23/unit weight=23/digit"),
          approximate=True)

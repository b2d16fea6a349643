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
"""Meaning of elementwise functions of one tensor, activations among them.

Shares are written `g * (derivative)`, so that a power of two in g passes through the rounding of the derivative.
"""
from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference
from hyper_parallel.verify.tape import elementwise, plain


def one(domain: str = "real", **statics) -> tuple:
    """A tensor of two dimensions and one of none."""
    return Pattern(f"input=ab/{domain}", **statics), Pattern(f"input=./{domain}", _degenerate=True, **statics)


def of_input(function):
    """The reference of a function of `input` alone."""
    return lambda v: function(v["input"])


def _smooth(names: str, value, derivative, domain: str = "unit") -> None:
    """Enter a function of floats with its derivative (x, value) -> float."""
    slope = np.frompyfunc(derivative, 2, 1)
    function = elementwise(_total(value), lambda g, o, a: g * np.asarray(slope(a, o)).astype(np.float64))
    reference(names, of_input(function), *one(domain))


def _total(function):
    """nan where a function is not defined: a pending addend may lie anywhere."""

    def safe(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.nan

    return safe


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


# -- smooth ----------------------------------------------------------------------------------------------------------

_smooth("Exp InplaceExp", _exp, lambda x, y: y)
_smooth("Expm1", lambda x: math.expm1(x) if x < 700 else math.inf, lambda x, y: y + 1)
_smooth("Exp2", lambda x: 2.0 ** x, lambda x, y: y * math.log(2))
_smooth("Tanh InplaceTanh", math.tanh, lambda x, y: 1 - y * y)
_smooth("Sigmoid InplaceSigmoid", _sigmoid, lambda x, y: y * (1 - y))
_smooth("Erf", math.erf, lambda x, y: 2 / math.sqrt(math.pi) * math.exp(-x * x))
_smooth("Erfc", math.erfc, lambda x, y: -2 / math.sqrt(math.pi) * math.exp(-x * x))
_smooth("Erfinv InplaceErfinv", lambda x: NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2),
        lambda x, y: math.sqrt(math.pi) / 2 * math.exp(y * y))
_smooth("Atan AtanExt", math.atan, lambda x, y: 1 / (1 + x * x))
_smooth("Sinh", math.sinh, lambda x, y: math.cosh(x))
_smooth("Asinh AsinhExt", math.asinh, lambda x, y: 1 / math.sqrt(1 + x * x))
_smooth("Cosh", math.cosh, lambda x, y: math.sinh(x))
_smooth("Sin", math.sin, lambda x, y: math.cos(x), "real")
_smooth("Cos", math.cos, lambda x, y: -math.sin(x), "real")
_smooth("Tan", math.tan, lambda x, y: 1 + y * y, "real")
_smooth("Asin AsinExt", math.asin, lambda x, y: 1 / math.sqrt(1 - x * x))
_smooth("ACos AcosExt", math.acos, lambda x, y: -1 / math.sqrt(1 - x * x))
_smooth("Atanh", math.atanh, lambda x, y: 1 / (1 - x * x))
_smooth("Acosh AcoshExt", math.acosh, lambda x, y: 1 / math.sqrt(x * x - 1), "above1")
_smooth("Sqrt", math.sqrt, lambda x, y: 0.5 / y, "positive")
_smooth("Rsqrt", lambda x: 1 / math.sqrt(x), lambda x, y: -0.5 * y / x, "positive")
_smooth("Reciprocal", lambda x: 1 / x, lambda x, y: -y * y, "factor")
_smooth("Log InplaceLog", math.log, lambda x, y: 1 / x, "positive")
_smooth("Log1p", math.log1p, lambda x, y: 1 / (1 + x), "positive")
_smooth("Log2", math.log2, lambda x, y: 1 / x / math.log(2), "positive")
_smooth("Log10", math.log10, lambda x, y: 1 / x / math.log(10), "positive")
_smooth("Sinc", lambda x: math.sin(math.pi * x) / (math.pi * x) if x else 1.0,
        lambda x, y: (math.cos(math.pi * x) - y) / x if x else 0.0)
_smooth("LogSigmoid", lambda x: min(x, 0) - math.log1p(math.exp(-abs(x))), lambda x, y: _sigmoid(-x))

# -- exact -----------------------------------------------------------------------------------------------------------

reference("Neg", of_input(np.negative), *one(), *one("special", _grad=False))
reference("Abs", of_input(np.absolute), *one())
reference("Square", of_input(np.square), *one())
reference("Sign InplaceSign", of_input(np.sign), *one())
reference("Floor InplaceFloor", of_input(np.floor), *one())
reference("Ceil", of_input(np.ceil), *one())
reference("Trunc", of_input(np.trunc), *one())
reference("Frac", of_input(lambda x: x - np.trunc(x)), *one())
reference("LogicalNot", of_input(np.logical_not), *one("bool"))
reference("BitwiseNot", of_input(np.invert), *one("int"), *one("bool"))
reference("IsFinite", of_input(np.isfinite), *one("special"))
reference("IsInf", of_input(np.isinf), *one("special"))
reference("IsNan", of_input(np.isnan), *one("special"))
reference("IsNegInf", of_input(lambda x: plain(x) == -np.inf), *one("special"))


def _round(v: dict):
    """Half to even, at `decimals` places."""
    return np.round(v["input"], v["decimals"] or 0)


reference("Round", _round, *one(), *one(decimals=1), *one(decimals=-1))

# -- activations -------------------------------------------------------------------------------------------------------

_erf_half = math.sqrt(0.5)
_SCALE, _ALPHA = 1.0507009873554805, 1.6732632423543772


def _normal(x: float) -> float:
    return 0.5 * (1 + math.erf(x * _erf_half))


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _tanh_gelu(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def _tanh_gelu_slope(x: float, _) -> float:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)
    t = math.tanh(inner)
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)


def _softplus(x: float) -> float:
    return max(x, 0) + math.log1p(math.exp(-abs(x)))


def _mish_slope(x: float, _) -> float:
    t = math.tanh(_softplus(x))
    return t + x * (1 - t * t) * _sigmoid(x)


_smooth("SiLU InplaceSiLU", lambda x: x * _sigmoid(x), lambda x, y: _sigmoid(x) * (1 + x * (1 - _sigmoid(x))), "real")
_smooth("GeLU", _tanh_gelu, _tanh_gelu_slope, "real")
_smooth("FastGeLU", lambda x: x * _sigmoid(1.702 * x),
        lambda x, y: _sigmoid(1.702 * x) * (1 + 1.702 * x * (1 - _sigmoid(1.702 * x))), "real")
_smooth("GeluExt", lambda x: x * _normal(x), lambda x, y: _normal(x) + x * _density(x), "real")
_smooth("MishExt", lambda x: x * math.tanh(_softplus(x)), _mish_slope, "real")
_smooth("Softplus SoftplusExt", lambda x: x if x > 20 else _softplus(x), lambda x, y: 1.0 if x > 20 else _sigmoid(x))
_smooth("SeLUExt", lambda x: _SCALE * (x if x > 0 else _ALPHA * math.expm1(x)),
        lambda x, y: _SCALE if x > 0 else y + _SCALE * _ALPHA)


def relu(x):
    """max(x, 0), with slope 0 at 0."""
    return x * (plain(x) > 0)


def leaky(v: dict):
    """x above 0, negative_slope * x below."""
    x = v["input"]
    return np.where(plain(x) > 0, x, x * v["negative_slope"])


def bounded(low: float, high: float):
    """min(max(x, low), high), with slope 0 at both."""

    def apply(x):
        inside = (plain(x) > low) & (plain(x) < high)
        return np.where(inside, x, np.clip(plain(x), low, high))

    return apply


reference("ReLU InplaceReLU", of_input(relu), *one())
reference("ReLU6", of_input(bounded(0.0, 6.0)), *one("whole"), *one())
reference("Hardtanh", lambda v: bounded(float(v["min_val"]), float(v["max_val"]))(v["input"]), *one(),
          *one(min_val=-0.5, max_val=2))
reference("HSigmoid", of_input(lambda x: bounded(0.0, 1.0)((x + 3) / 8)), *one())
reference("HSwish", of_input(lambda x: x * bounded(0.0, 1.0)((x + 3) / 8)), *one())
reference("LeakyReLU LeakyReLUExt", leaky, *one(), *one(negative_slope=0.25), *one(negative_slope=0),
          *one(negative_slope=-0.5))

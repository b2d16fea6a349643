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
"""Meaning of elementwise operations of two and more tensors, with scalars of every sign."""
from __future__ import annotations

import math

import numpy as np

from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference
from hyper_parallel.verify.tape import elementwise

# -- patterns --------------------------------------------------------------------------------------------------------


def same(x: str = "real", y: str = "real", b: str = "other", **options) -> tuple:
    """Tensors of one shape, for inexact functions: nothing is summed, so that gradients stay exact too."""
    unsummed = (("ab", "ab"), (".", "."))
    return tuple(Pattern(f"input={p}/{x} {b}={q}/{y}", _grad=(p, q) in unsummed, _degenerate=p == ".",
                         **options)
                 for p, q in (*unsummed, ("ab", "b"), ("a1", "ab")))


def pairs(x: str = "real", y: str = "real", a: str = "input", b: str = "other", **options) -> tuple:
    """Tensors of one shape, and every way to broadcast one over the other."""
    shapes = (("ab", "ab"), ("ab", "b"), ("b", "ab"), ("a1", "ab"), ("ab", "."))
    return tuple(Pattern(f"{a}={p}/{x} {b}={q}/{y}", **options) for p, q in shapes)


def scalars(*values, domain: str = "real", left=(), a: str = "input", b: str = "other", **options) -> tuple:
    """A tensor and a scalar of every sign, on the right and (`left`) on the left."""
    return (*(Pattern(f"{a}=ab/{domain}", _degenerate=v == 0, **{b: v}, **options) for v in values),
            *(Pattern(f"{b}=ab/{domain}", **{a: v}, **options) for v in left))


# -- arithmetic ------------------------------------------------------------------------------------------------------


def add(v: dict):
    """input + alpha * other."""
    return v["input"] + v["other"] * v.get("alpha", 1)


def sub(v: dict):
    """input - alpha * other."""
    return v["input"] - v["other"] * v.get("alpha", 1)


def mul(v: dict):
    """input * other."""
    return v["input"] * v["other"]


def div(v: dict):
    """input / other, rounded as `rounding_mode` says."""
    quotient = v["input"] / v["other"]
    mode = v.get("rounding_mode")
    return quotient if mode is None else np.floor(quotient) if mode == "floor" else np.trunc(quotient)


def floor_div(v: dict):
    """floor(input / other)."""
    return np.floor(v["input"] / v["other"])


ALPHAS = (Pattern("input=ab other=ab", alpha=2), Pattern("input=ab other=b", alpha=-0.5),
          Pattern("input=ab other=ab", alpha=0, _degenerate=True), Pattern("input=ab", other=3, alpha=-2))
ADDED = (*pairs(), *scalars(2, -1.5, 0, left=(3,)))
SCALED = (*pairs(), *scalars(2, -0.5, 0, left=(-4,)), *scalars(math.inf, domain="positive", _grad=False))
DIVIDED = (*pairs("real", "factor"), *scalars(2, -4), Pattern("other=ab/factor", input=3))
FLOORED = (*pairs("real", "factor"), *scalars(2, -4))
MODES = (*DIVIDED, *(Pattern("input=ab", other=d, rounding_mode=m) for d in (2, -2) for m in ("floor", "trunc")),
         Pattern("input=ab other=ab/factor", rounding_mode="floor"))

reference("Add", add, *ADDED)
reference("AddExt AddScalar", add, *ADDED, *ALPHAS)
reference("Sub", sub, *ADDED)
reference("SubExt SubScalar", sub, *ADDED, *ALPHAS)
reference("Mul Muls", mul, *SCALED)
reference("Div Divs RealDiv", div, *DIVIDED, *scalars(0, domain="special", _grad=False))
reference("DivMod DivMods", div, *MODES)
reference("FloorDiv FloorDivScalar", floor_div, *FLOORED)


def bias_add(v: dict):
    """input + bias along the channel dimension."""
    x, bias = v["input"], v["bias"]
    last = v["data_format"] in (1, "NHWC")
    return x + (bias if last else np.reshape(bias, (-1,) + (1,) * (x.ndim - 2)))


reference("BiasAdd", bias_add, Pattern("input=ab bias=b"), Pattern("input=abc bias=b"),
          Pattern("input=abc bias=c", data_format="NHWC"))

# -- nonlinear -------------------------------------------------------------------------------------------------------

_atan2 = elementwise(math.atan2, lambda g, o, a, b: g * (b / (a * a + b * b)),
                     lambda g, o, a, b: -g * (a / (a * a + b * b)))
# Shares are g * (...), so that a power of two in g passes through the rounding.
_log = elementwise(lambda a: math.log(a) if a > 0 else -math.inf if a == 0 else math.nan, lambda g, o, a: g * (1 / a))
_xlogy = elementwise(lambda a, b: a * math.log(b) if b > 0 else math.nan, lambda g, o, a, b: g * _log(b),
                     lambda g, o, a, b: g * (a / b))


def _safe_pow(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except (OverflowError, ValueError):
        return math.nan


_raw_pow = np.frompyfunc(_safe_pow, 2, 1)


def _power(a, b):
    return np.asarray(_raw_pow(a, b)).astype(np.float64)


_pow = elementwise(_safe_pow, lambda g, o, a, b: g * (b * _power(a, b - 1)), lambda g, o, a, b: g * (o * _log(a)))


def _log_add(base: float):
    """log(base ** x + base ** y) to that base."""

    def value(a: float, b: float) -> float:
        top = max(a, b)
        return top + math.log1p(base ** (min(a, b) - top)) / math.log(base)

    def share(own: int):
        weight = np.frompyfunc(lambda a, b: 1 / (1 + base ** min(b - a, 900)), 2, 1)
        return lambda g, o, a, b: g * np.asarray(weight(*((a, b) if own == 0 else (b, a)))).astype(np.float64)

    return elementwise(value, share(0), share(1))


def _two(function):
    return lambda v: function(v["input"], v["other"])


def power(v: dict):
    """input ** exponent."""
    return _pow(v["input"], v["exponent"])


MODULI = (*pairs("real", "factor"), *scalars(2, -4), Pattern("other=ab/factor", input=3))
reference("Mod FloorMod RemainderTensorTensor RemainderTensorScalar RemainderScalarTensor", _two(np.remainder), *MODULI)
reference("FmodTensor FmodScalar", _two(np.fmod), *MODULI)
reference("Atan2 Atan2Ext", _two(_atan2), *same("factor", "factor"))
reference("Xlogy", _two(_xlogy), *same("real", "positive"))
for _name, _base in (("LogAddExp", math.e), ("LogAddExp2", 2.0)):
    reference(_name, _two(_log_add(_base)), *same("unit", "unit"), Pattern("input=ab/real other=ab/real", _grad=False))
reference("SquaredDifference", lambda v: np.square(v["input"] - v["other"]), *pairs())
_POWERS = (*same("above1", "factor", b="exponent"),
           *scalars(2, 0.5, -1, 0, domain="above1", b="exponent"), Pattern("exponent=ab/factor", input=2.0))
reference("Pow PowTensorScalar PowScalarTensor", power, *_POWERS)
_EXTREMES = (*pairs("real", "shifted"), *scalars(0.3, -0.3), *scalars(1, domain="int"))
reference("Maximum", _two(np.maximum), *_EXTREMES)
reference("Minimum", _two(np.minimum), *_EXTREMES)

# -- tests -----------------------------------------------------------------------------------------------------------

_CLOSE = (*pairs(), *scalars(0.5, 0))
for _names, _function in {
        "Equal EqScalar": np.equal, "NotEqual NeScalar": np.not_equal, "Greater": np.greater,
        "GreaterEqual GreaterEqualScalar": np.greater_equal, "Less LessScalar": np.less,
        "LessEqual": np.less_equal}.items():
    reference(_names, _two(_function), *_CLOSE, *pairs("int", "int"))
_LOGIC = pairs("bool", "bool")
for _names, _function in {"LogicalAnd": np.logical_and, "LogicalOr": np.logical_or,
                          "LogicalXor": np.logical_xor}.items():
    reference(_names, _two(_function), *_LOGIC)
_BITS = (*pairs("int", "int"), *_LOGIC[:1], *scalars(3, 0, domain="int"))
for _names, _function in {"BitwiseAndTensor BitwiseAndScalar": np.bitwise_and,
                          "BitwiseOrTensor BitwiseOrScalar": np.bitwise_or,
                          "BitwiseXorTensor BitwiseXorScalar": np.bitwise_xor}.items():
    reference(_names, _two(_function), *_BITS)
reference("IsClose", lambda v: np.isclose(v["input"], v["other"], v["rtol"], v["atol"], v["equal_nan"]),
          *pairs("digit", "digit"), Pattern("input=ab/special other=ab/special", equal_nan=True), differentiable=False)

# -- selection, bounds, interpolation ----------------------------------------------------------------------------------


def clamp(v: dict):
    """min(max(input, min), max)."""
    out = v["input"]
    out = out if v["min"] is None else np.maximum(out, v["min"])
    return out if v["max"] is None else np.minimum(out, v["max"])


def select(v: dict):
    """input where the condition holds, else other."""
    return np.where(v["condition"], v["input"], v["other"])


def masked_fill(v: dict):
    """value where the mask holds, else input."""
    return np.where(v["mask"], v["value"], v["input"])


def lerp(v: dict):
    """input + weight * (end - input)."""
    return v["input"] + (v["end"] - v["input"]) * v["weight"]


def addcmul(v: dict):
    """input + value * tensor1 * tensor2."""
    return v["input"] + v["tensor1"] * v["tensor2"] * v["value"]


def addcdiv(v: dict):
    """input + value * tensor1 / tensor2."""
    return v["input"] + v["tensor1"] / v["tensor2"] * v["value"]


CLAMPED = tuple(Pattern("input=ab", min=lo, max=hi) for lo, hi in ((-0.3, 1.3), (None, 0.3), (0.3, None), (1.3, -0.3)))
reference("ClampScalar", clamp, *CLAMPED, Pattern("input=ab/int", min=-1, max=2))
CLAMPED_BY = (Pattern("input=ab min=ab/shifted max=b/shifted2"), Pattern("input=ab min=b/shifted"),
              Pattern("input=ab max=./shifted"))
reference("ClampTensor", clamp, *CLAMPED_BY)
reference("Select", select, Pattern("condition=ab/bool input=ab other=ab"),
          Pattern("condition=b/bool input=ab other=a1"),
          Pattern("condition=ab/bool input=ab other=."), Pattern("condition=ab/bool input=ab", other=2),
          Pattern("condition=ab/bool input=ab", other=0), Pattern("condition=ab/bool other=ab", input=-1))
FILLED = tuple(Pattern("input=ab mask=ab/bool", value=value) for value in (0, 2, -0.5, -math.inf)) + (
    Pattern("input=ab mask=b/bool", value=1), Pattern("input=ab mask=a1/bool", value=0))
FILLED_BY = (Pattern("input=ab mask=ab/bool value=."), Pattern("input=ab mask=b/bool value=."),
             Pattern("input=ab mask=a1/bool", value=0), Pattern("input=ab mask=a1/bool", value=1.0))
reference("MaskedFillScalar", masked_fill, *FILLED)
reference("MaskedFill", masked_fill, *FILLED_BY)
reference("Lerp", lerp, Pattern("input=ab end=ab weight=ab"), Pattern("input=ab end=b weight=."),
          Pattern("input=ab end=ab", weight=0.5))
reference("LerpScalar", lerp, *(Pattern("input=ab end=ab", weight=w, _degenerate=w in (0, 1))
                              for w in (0, 0.5, 1, 2, -1)))
reference("AddcmulExt Addcmul", addcmul, *(Pattern("input=ab tensor1=ab tensor2=ab", value=s, _degenerate=s == 0)
            for s in (1, -2, 0)),
          Pattern("input=ab tensor1=b tensor2=a1"))
reference("AddcdivExt Addcdiv", addcdiv,
          *(Pattern("input=ab tensor1=ab tensor2=ab/factor", value=s, _degenerate=s == 0)
            for s in (1, -2, 0)),
          Pattern("input=ab tensor1=b tensor2=a1/factor"))

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
"""Elementwise operations: arithmetic with tensors and scalars, functions of one tensor, comparisons, selection.

One mesh axis; x, y -> result (d: any dimension; a size-1 dimension that broadcasts is never cut):
    S(d), S(d) -> S(d)    S(d), R -> S(d) where the R operand broadcasts along d
    add, sub, where:      P(sum), P(sum) -> P(sum)    P(sum), R -> P(sum), R enters once    P(avg), R -> P(avg)
    mul:                  P(sum), R -> P(sum)         div: in its numerator only
    non-decreasing maps:  P(max) -> P(max), P(min) -> P(min); non-increasing ones swap them
Everything else refuses pending operands: f(sum_c x_c) is not sum_c f(x_c).
"""
from __future__ import annotations

from hyper_parallel.core.shard.declaration import Bound, Call, Operand
from hyper_parallel.core.shard.ops.nature import (
    CLAMPED, FALLING, NONLINEAR, RISING, Nature, added, binder, divided, floor_divided, lerped, multiplied,
    nature_signature, selected, sign_of, subtracted,
)
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.errors import LayoutError

# -- natures of single operations ------------------------------------------------------------------------------------


def _rounded(call: Call) -> Nature:
    """round(x): monotone; with decimals it scales by powers of ten, whose rounding need not be."""
    return RISING if call["decimals"] in (0, None) else NONLINEAR


def _masked_fill(call: Call) -> Nature:
    return selected(call, "input", "value", "mask")


def _addcmul(call: Call) -> Nature:
    """x + value * a * b."""
    return _with_product(call, ("tensor1", "tensor2"))


def _addcdiv(call: Call) -> Nature:
    """x + value * a / b: linear in x and a."""
    return _with_product(call, ("tensor1",))


def _with_product(call: Call, factors: tuple) -> Nature:
    if isinstance(call["value"], Operand):
        factors += ("value",)
    elif sign_of(call["value"]) is None:
        return NONLINEAR
    return Nature(terms=(("input",), factors), rising=("input",))


def bind_bias_add(call: Call) -> Bound:
    """x + bias along the channel dimension: 1 in NCHW, the last in NHWC."""
    x, bias = call["input"], call["bias"]
    if len(x.shape) < 2 or len(bias.shape) != 1:
        raise LayoutError(f"{call.name} adds a 1-D bias to a tensor of at least 2 dimensions. Got {x.shape} and "
                          f"{bias.shape}.")
    channel = len(x.shape) - 1 if call["data_format"] in (1, "NHWC") else 1
    names = tuple(f"d{i}" for i in range(len(x.shape)))
    if x.exact and bias.exact and x.shape[channel] != bias.shape[0]:
        raise LayoutError(f"{call.name}: the bias has {bias.shape[0]} elements, dim {channel} of {x.shape} another.")
    nature = Nature(terms=(("input",), ("bias",)), rising=("input", "bias"))
    signature = nature_signature(call.name, ("input", "bias"), (names, (names[channel],)), names, nature)
    return Bound(signature, (x.shape,))


# -- the operations --------------------------------------------------------------------------------------------------

_PAIR = "input:t other:t"
_ADD = binder(added, "input", "other")
_SUB = binder(subtracted, "input", "other")
_MUL = binder(multiplied, "input", "other")
_DIV = binder(divided, "input", "other")
_FLOOR_DIV = binder(floor_divided, "input", "other")
_ANY_PAIR = binder(NONLINEAR, "input", "other")
_TEST = binder(Nature(no_grad=("input", "other")), "input", "other")
_SELECT = binder(selected, "condition", "input", "other")

for _name, _bind in {"Add": _ADD, "Sub": _SUB, "Mul": _MUL, "Muls": _MUL, "Div": _DIV, "Divs": _DIV, "RealDiv": _DIV,
                     "FloorDiv": _FLOOR_DIV, "FloorDivScalar": _FLOOR_DIV}.items():
    declare(_name, _PAIR, _bind)
for _name, _bind in {"AddExt": _ADD, "AddScalar": _ADD, "SubExt": _SUB, "SubScalar": _SUB}.items():
    declare(_name, _PAIR + " alpha=1", _bind)
for _name in ("DivMod", "DivMods"):
    declare(_name, _PAIR + " rounding_mode=None", _FLOOR_DIV)
declare("BiasAdd", "input:t bias:t data_format=0", bind_bias_add)

# nonlinear in both operands
for _name in ("Mod", "FloorMod", "RemainderTensorTensor", "RemainderTensorScalar", "RemainderScalarTensor",
              "FmodTensor", "FmodScalar", "Atan2Ext", "Atan2", "Xlogy", "SquaredDifference"):
    declare(_name, _PAIR, _ANY_PAIR)
for _name in ("Pow", "PowTensorScalar", "PowScalarTensor"):
    declare(_name, "input:t exponent:t", binder(NONLINEAR, "input", "exponent"))

# the same kind of extremum, or a replica: max(max_c x_c, y) = max_c max(x_c, y)
declare("Maximum", _PAIR, binder(Nature(rising=("input", "other"), keeps=("max",), joint=("max",)), "input", "other"))
declare("Minimum", _PAIR, binder(Nature(rising=("input", "other"), keeps=("min",), joint=("min",)), "input", "other"))
for _name in ("LogAddExp", "LogAddExp2"):
    declare(_name, _PAIR, binder(Nature(rising=("input", "other")), "input", "other"))

# tests: no gradient, no pending operand
for _name in ("Equal", "EqScalar", "NotEqual", "NeScalar", "Greater", "GreaterEqual", "GreaterEqualScalar", "Less",
              "LessEqual", "LessScalar", "LogicalAnd", "LogicalOr", "LogicalXor",
              "BitwiseAndTensor", "BitwiseAndScalar", "BitwiseOrTensor", "BitwiseOrScalar", "BitwiseXorTensor",
              "BitwiseXorScalar"):
    declare(_name, _PAIR, _TEST)
declare("IsClose", _PAIR + " rtol=1e-05 atol=1e-08 equal_nan=False", _TEST)
for _name in ("LogicalNot", "BitwiseNot", "IsFinite", "IsInf", "IsNan", "IsNegInf"):
    declare(_name, "input:t", binder(Nature(no_grad=("input",))))

# functions of one tensor
declare("Neg", "input:t", binder(Nature(terms=(("input",),), falling=("input",))))
for _name in ("Exp", "Tanh", "Sigmoid", "Erf", "Sign", "Floor", "Ceil", "Trunc", "Atan", "AtanExt", "Sinh", "Asinh",
              "AsinhExt", "Expm1", "Exp2", "LogSigmoid"):
    declare(_name, "input:t", binder(RISING))
declare("Erfc", "input:t", binder(FALLING))
declare("Round", "input:t decimals=0", binder(_rounded))
for _name in ("Abs", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Log", "Log1p", "Log2", "Log10", "Sin", "Cos", "Tan",
              "Asin", "AsinExt", "ACos", "AcosExt", "Cosh", "Acosh", "AcoshExt", "Atanh", "Frac", "Sinc",
              "Erfinv"):
    declare(_name, "input:t", binder(NONLINEAR))

# bounds, selection, interpolation
declare("ClampScalar", "input:t min=None max=None", binder(CLAMPED))
declare("ClampTensor", "input:t min:t=None max:t=None", binder(CLAMPED, "input", "min", "max"))
declare("Select", "condition:t input:t other:t", _SELECT)
declare("MaskedFillScalar", "input:t mask:t value", binder(_masked_fill, "input", "mask"))
declare("MaskedFill", "input:t mask:t value:t", binder(_masked_fill, "input", "mask", "value"))
declare("Lerp", "input:t end:t weight:t", binder(lerped, "input", "end", "weight"))
declare("LerpScalar", "input:t end:t weight", binder(lerped, "input", "end"))
for _name in ("Addcmul", "AddcmulExt"):
    declare(_name, "input:t tensor1:t tensor2:t value:t=1", binder(_addcmul, "input", "tensor1", "tensor2", "value"))
for _name in ("Addcdiv", "AddcdivExt"):
    declare(_name, "input:t tensor1:t tensor2:t value:t=1", binder(_addcdiv, "input", "tensor1", "tensor2", "value"))

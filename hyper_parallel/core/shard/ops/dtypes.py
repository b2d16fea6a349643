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
"""Element types as text, whatever form a framework hands them over in, and which casts keep a pending reduction."""
from __future__ import annotations

_CODES = {30: "bool", 32: "int8", 33: "int16", 34: "int32", 35: "int64", 37: "uint8", 38: "uint16", 39: "uint32",
          40: "uint64", 42: "float16", 43: "float32", 44: "float64", 45: "bfloat16", 46: "float8_e4m3fn",
          47: "float8_e5m2", 48: "hifloat8", 51: "complex64", 52: "complex128"}
_SAME = {"bool_": "bool", "float": "float32", "half": "float16", "double": "float64", "long": "int64", "int": "int32"}
# exponent bits of floats, value bits of ints: a cast to as many or more keeps every value
_EXPONENT = {"float16": 5, "float32": 8, "bfloat16": 8, "float64": 11}
_SIGNED = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_UNSIGNED = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}


def dtype_name(value) -> str | None:
    """An element type as lower-case text: from a framework type, its integer code, a numpy type, or text.

    Examples:
        >>> dtype_name(43), dtype_name("mindspore.bfloat16"), dtype_name(None)
        ('float32', 'bfloat16', None)
    """
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return _CODES.get(value, f"code {value}")
    text = str(value).lower().rpartition(".")[2]
    return _SAME.get(text, text)


def keeps_sums(source, target) -> bool:
    """True when cast(sum_c x_c) is sum_c cast(x_c) up to rounding: no overflow, no truncation, no test for zero.

    Sums of integers are exact modulo the range of their type, so a wider type is another sum: 200 + 100 is 44 in uint8.

    Args:
        source: element type of the operand.
        target: element type of the result.
    """
    source, target = dtype_name(source), dtype_name(target)
    if source in _EXPONENT:
        return _EXPONENT.get(target, 0) >= _EXPONENT[source]
    return source == target and source is not None and source != "bool"


def keeps_extrema(source, target) -> bool:
    """True when the cast keeps every value, or rounds in order, so that it commutes with a pending max or min.

    Args:
        source: element type of the operand.
        target: element type of the result.
    """
    source, target = dtype_name(source), dtype_name(target)
    if source in _SIGNED:
        return _SIGNED.get(target, 0) >= _SIGNED[source]
    if source in _UNSIGNED:
        return max(_UNSIGNED.get(target, 0), _SIGNED.get(target, 0)) >= _UNSIGNED[source]
    return keeps_sums(source, target)


def accumulator(dtype):
    """The type in which the framework's sums and products of this type accumulate: int64 for ints and booleans."""
    name = dtype_name(dtype)
    return name if is_floating(name) else "int64"


def is_floating(dtype) -> bool:
    """True unless the type is known to be of integers or booleans."""
    name = dtype_name(dtype)
    return name is None or not name.startswith(("int", "uint", "bool"))

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
"""Meaning of casts, copies and creations after another tensor.

numpy has no bfloat16; it is taken as float32, whose exponent range it shares. float64 arrays stand for float32 unless
the domain names a type, and then the cast rounds, wraps and overflows as the types do.
"""
from __future__ import annotations

import numpy as np

from hyper_parallel.verify.kernels import kernel
from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference
from hyper_parallel.verify.tape import plain

# -- casts -----------------------------------------------------------------------------------------------------------


def to_dtype(x, dtype):
    """x in an element type given as text; None keeps it."""
    if dtype is None:
        return x * 1 if x.dtype != bool else x
    name = {"bfloat16": "float32"}.get(str(dtype), str(dtype))
    return x if name == x.dtype.name else x.astype(np.dtype(name))


def cast(v: dict):
    """input in the type `dtype`."""
    return to_dtype(v["input"], v["dtype"])


def type_as(v: dict):
    """input in the type of other."""
    return to_dtype(v["input"], v["other"].dtype.name)


# Source domain -> targets: wider, equal, narrower, truncating, and tests for zero.
_CASTS = (("quarter@float16", ("float32", "float16", "int32", "bool")),
          ("digit@float32", ("float16", "float64", "bool")), ("digit@bfloat16", ("float32", "float16")),
          ("quarter@float32", ("int32",)), ("int@int8", ("int16", "int8", "float32")),
          ("natural@uint8", ("int16", "int8")), ("int", ("float32", "int32")), ("bool", ("int32", "float32")))
CAST_PATTERNS = tuple(Pattern(f"input=ab/{domain}", dtype=target) for domain, targets in _CASTS for target in targets)
reference("Cast", cast, *CAST_PATTERNS, differentiable=False)
reference("ToDtype ToDevice", cast, *CAST_PATTERNS, Pattern("input=ab"), differentiable=False)
_AS = tuple(Pattern(f"input=ab/{source} other=c/{target}") for source, target in (
    ("digit@float16", "digit@float32"), ("digit@float32", "digit@float16"), ("quarter@float32", "int")))
reference("TypeAs ToOther", type_as, *_AS, differentiable=False)
_COPIED = (Pattern("input=abc"), Pattern("input=ab/int"), Pattern("input=ab/bool"), Pattern("input=a/bool"),
           Pattern("input=."))
reference("Clone Copy Identity Contiguous", lambda v: np.copy(v["input"]), *_COPIED)
reference("StopGradient Detach", lambda v: plain(v["input"]).copy(), *_COPIED)

# -- creations -------------------------------------------------------------------------------------------------------


def like(fill):
    """The reference of a tensor of the operand's shape."""

    def apply(v: dict):
        value = v["fill_value"] if fill is None else fill
        x = v["input"]
        dtype = x.dtype if v.get("dtype") is None else np.dtype(v["dtype"])
        return np.full(x.shape, value, dtype)

    return apply


def new(fill):
    """The reference of a tensor of a shape of its own."""

    def apply(v: dict):
        size = v["size"] if isinstance(v["size"], (tuple, list)) else (v["size"],)
        return np.full(size, v["fill_value"] if fill is None else fill, v["input"].dtype)

    return apply


@kernel("zeros_like")
def local_zeros_like(v: dict):
    """Zeros in the shape of the local tensor."""
    return like(0)(v)


@kernel("new_zeros")
def local_new_zeros(v: dict):
    """Zeros of a global shape."""
    return new(0)(v)


_LIKE = (Pattern("input=ab"), Pattern("input=ab/bool"), Pattern("input=."))
_SIZED = (Pattern("input=ab", size=(2, 3)), Pattern("input=a", size=(4,)))
reference("ZerosLike ZerosLikeExt EmptyLike", like(0), *_LIKE, differentiable=False)
reference("OnesLike OnesLikeExt", like(1), *_LIKE, differentiable=False)
reference("FullLike", like(None), *(Pattern("input=ab", fill_value=f) for f in (2, 0, -1.5)), differentiable=False)
reference("NewZeros NewEmpty", new(0), *_SIZED, differentiable=False)
reference("NewOnes", new(1), *_SIZED, differentiable=False)
reference("NewFull", new(None), Pattern("input=ab", size=(2, 3), fill_value=2), differentiable=False)

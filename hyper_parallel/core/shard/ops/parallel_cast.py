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
"""Casts and copies.

A float cast to as wide an exponent range or wider passes P(sum), P(avg), P(max), P(min): it is the identity up to
rounding. Narrowing could overflow an addend that the sum would have cancelled, and float -> int truncates addend by
addend, so both refuse what is pending. A wider integer type keeps extrema; sums of integers wrap, so they do not pass.
Copies pass everything.
"""
from __future__ import annotations

import functools

from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters
from hyper_parallel.core.shard.ops.dtypes import dtype_name, keeps_extrema, keeps_sums
from hyper_parallel.core.shard.ops.nature import LINEAR_MOVE, binder
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature


@functools.lru_cache(maxsize=512)
def cast_signature(name: str, ndim: int, sums: bool, extrema: bool, same: bool, with_other: int | None) -> Signature:
    """What passes: pending sums, extrema, all (`same`: nothing is changed). `with_other`: rank of a tensor of the type.
    """
    x = letters(ndim)
    inputs = (x,) if with_other is None else (x, (None,) * with_other)
    other = frozenset(() if with_other is None else (1,))
    return Signature(name, inputs, (x,), terms=((0,),) if sums else (), movement=same,
                     monotone=(1, 0)[:len(inputs)] if extrema else (), no_grad=other, shape_only=other)


def _cast(call: Call, target, other: int | None = None) -> Bound:
    x = call["input"]
    source, target = dtype_name(x.dtype), dtype_name(target)
    same = target is None or source == target
    sums, extrema = same or keeps_sums(source, target), same or keeps_extrema(source, target)
    return Bound(cast_signature(call.name, len(x.shape), sums, extrema, same, other), (x.shape,))


def bind_cast(call: Call) -> Bound:
    """To an element type."""
    return _cast(call, call["dtype"])


def bind_type_as(call: Call) -> Bound:
    """To the element type of another tensor, of which nothing else is read."""
    other = call["other"]
    return _cast(call, other.dtype or "unknown", len(other.shape))


def bind_to_other(call: Call) -> Bound:
    """`x.to(other)`: as `bind_type_as`."""
    return bind_type_as(call) if isinstance(call["other"], Operand) else _cast(call, call["other"])


declare("ToDtype", "input:t dtype=None non_blocking=False copy=False", bind_cast, needs_dtype=True)
declare("Cast", "input:t dtype", bind_cast, needs_dtype=True)
declare("TypeAs", "input:t other:t", bind_type_as, needs_dtype=True)
declare("ToOther", "input:t other:t non_blocking=False copy=False", bind_to_other, needs_dtype=True)
_COPY = binder(LINEAR_MOVE)
for _name in ("Clone", "Copy", "Identity", "StopGradient", "Contiguous", "Detach"):
    declare(_name, "input:t", _COPY)
declare("ToDevice", "input:t device=None dtype=None non_blocking=False copy=False", bind_cast, needs_dtype=True)

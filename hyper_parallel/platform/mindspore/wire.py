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
"""How element types travel: what a library reduces itself, what carries the others, and what is refused."""
from __future__ import annotations

import functools
from dataclasses import dataclass

import mindspore
from mindspore import mint

from hyper_parallel.errors import CommunicationError

REDUCE_OPS = ("sum", "max", "min", "prod", "all")
REDUCED = frozenset({"Float32", "Float16", "BFloat16", "Int8", "Int16", "Int32", "Int64"})
_COMBINE = {"sum": mint.add, "prod": mint.mul, "max": mint.maximum, "min": mint.minimum}


@dataclass(frozen=True)
class Reduction:
    """The way one reduction is carried out.

    Attributes:
        op: what the library is asked for: "sum", "max", "min" or "prod".
        carrier: element type that the value is cast to for the journey; None travels as it is.
        gathered: the library cannot reduce this type, so values are gathered and combined here, in axis order.
    """

    op: str
    carrier: object = None
    gathered: bool = False


def reduction(op: str, dtype, unreduced=frozenset()) -> Reduction:
    """The way to reduce values of an element type.

    uint8 travels as int32: sums and products modulo 2^32 are right modulo 2^8. bool travels as int8, where "all" is min
    and "any" is max.

    Args:
        op: "sum", "max", "min", "prod" or "all".
        dtype: element type of the values.
        unreduced: pairs (op, type name) that the platform's library lacks beyond float64.

    Raises:
        CommunicationError: when the element type has no such reduction; decided without communication, so alike on
            every rank.
    """
    name = str(dtype)
    if op not in REDUCE_OPS:
        raise CommunicationError(f"A collective reduces with one of {', '.join(REDUCE_OPS)}. Got {op!r}. For avg "
                                 f"reduce with 'sum' and divide by the size of the axis.")
    if name == "Bool":
        if op in ("sum", "prod"):
            raise CommunicationError(f"A collective {op} of bool has no meaning as bool. Reduce with 'all' (and), "
                                     f"'max' (or), or cast first: x.astype(mindspore.int32).")
        return Reduction("min" if op == "all" else op, mindspore.int8)
    if op == "all":
        raise CommunicationError(f"'all' reduces bool tensors only. Got {name}. Compare first: x != 0.")
    if name == "UInt8":
        return Reduction(op, mindspore.int32)
    if name == "Float64" or (op, name) in unreduced:
        return Reduction(op, gathered=True)
    if name in REDUCED:
        return Reduction(op)
    raise CommunicationError(f"A collective {op} of {name} is not supported. Cast first, to one of "
                             f"{', '.join(sorted(REDUCED | {'Float64', 'UInt8'}))}: x.astype(...).")


def combine(parts: list, op: str):
    """The reduction of gathered values, in their order: bit for bit alike on every rank."""
    return functools.reduce(_COMBINE[op], parts)


def fresh(x):
    """A contiguous copy that shares no memory with `x`, whatever view `x` is.

    On CPU cat copies every view; copy_ refuses a view at the start of a larger tensor, and clone is missing.
    """
    if x.ndim > 0:
        return mint.cat([x], 0)
    return mint.empty((), dtype=x.dtype).copy_(mint.cat([x.reshape(1)], 0).reshape(()))


def join(parts: list):
    """The elements of all parts in one new 1-D tensor."""
    return mint.cat([part.reshape(-1) for part in parts], 0)


def cut(flat, index: int, shape: tuple):
    """Chunk `index` of a 1-D tensor of equal chunks, as a new tensor of the shape."""
    size = 1
    for extent in shape:
        size *= extent
    return fresh(mint.narrow(flat, 0, index * size, size).reshape(shape))

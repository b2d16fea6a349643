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
"""Indexing and slicing: every dimension that an index touches must be whole, the others pass.

Elements are only picked, so whatever is pending stays; a value written into a pending sum enters once. A dimension
picked from by one tensor of indices may be cut: that is a lookup (parallel_lookup).
"""
from __future__ import annotations

import functools
from dataclasses import dataclass
from numbers import Integral

from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters, normal_dim
from hyper_parallel.core.shard.ops.nature import carried, is_scalar
from hyper_parallel.core.shard.ops.dtypes import keeps_sums
from hyper_parallel.core.shard.ops.parallel_lookup import ROWS, lookup_signature, shard_form
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError

# -- what an index does to every dimension ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Region:
    """The part of a tensor that an index names.

    Attributes:
        x: letter of every dimension of the tensor; None where it is touched.
        out: letters of the part.
        shape: its global shape.
        index: the index with dimensions that pass whole as `slice(None)`.
        gather: the tensor that indexes one dimension, if any.
        gathered: letters of that tensor.
    """

    x: tuple
    out: tuple
    shape: tuple
    index: tuple
    gather: Operand | None
    gathered: tuple


def region(name: str, shape: tuple, index) -> Region:
    """Read an index: ints, slices, None, Ellipsis, and at most one tensor or list of ints.

    Raises:
        LayoutError: for an index out of range, too many indices, or a form without a rule.
    """
    x, out, sizes, local = [], (), (), []
    gather = next((i for i in (index if isinstance(index, tuple) else (index,)) if isinstance(i, Operand)), None)
    for item in _expanded(name, shape, index):
        piece = _NEW if item is None else _piece(name, shape, len(x), item)
        if item is not None:
            x.append(piece.own)
        out, sizes = out + piece.out, sizes + piece.sizes
        local.append(piece.index)
    return Region(tuple(x), out, sizes, tuple(local), gather, letters(len(gather.shape), "i") if gather else ())


@dataclass(frozen=True)
class _Piece:
    """What one item of an index gives: letter of the dimension, letters and sizes of the part, the local item."""

    own: object
    out: tuple
    sizes: tuple
    index: object


_NEW = _Piece(None, (None,), (1,), None)


def _piece(name: str, shape: tuple, d: int, item) -> _Piece:
    """Dimension `d` under one item."""
    if isinstance(item, slice):
        found = range(shape[d])[item]
        if found == range(shape[d]):
            return _Piece(f"d{d}", (f"d{d}",), (len(found),), slice(None))
        return _Piece(None, (None,), (len(found),), item)
    if isinstance(item, Operand):
        return _Piece(None, letters(len(item.shape), "i"), item.shape, item)
    if isinstance(item, (list, tuple)):
        return _Piece(None, (None,), (len(item),), item)
    if not -shape[d] <= item < shape[d]:
        raise LayoutError(f"{name}: index {item} is out of range for dimension {d} of the global shape {shape}.")
    return _Piece(None, (), (), item)


def _expanded(name: str, shape: tuple, index) -> list:
    """One item per dimension and per None, Ellipsis filled in."""
    items = list(index) if isinstance(index, tuple) else [index]
    _check_items(name, items)
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > len(shape):
        raise LayoutError(f"{name}: {used} indices for the {len(shape)} dimensions of {shape}.")
    rest = [slice(None)] * (len(shape) - used)
    for i, item in enumerate(items):
        if item is Ellipsis:
            return items[:i] + rest + items[i + 1:]
    return items + rest


def _check_items(name: str, items: list) -> None:
    for item in items:
        if not _has_rule(item):
            raise LayoutError(f"{name}: no rule for the index {item!r}: the shape of the result would depend on data. "
                              f"Use where, masked_fill or select, or index with ints, slices, None, '...' or one "
                              f"tensor of ints.")
    lists = [i for i in items if isinstance(i, (Operand, list, tuple))]
    if len(lists) > 1 or lists and any(_is_int(i) for i in items):
        raise LayoutError(f"{name}: one tensor or list of indices, with slices beside it, has a rule. Index one "
                          f"dimension after the other: x[0][:, ids].")
    if sum(item is Ellipsis for item in items) > 1:
        raise LayoutError(f"{name}: an index can have only one '...'.")


def _has_rule(item) -> bool:
    """Ints, slices, None, '...', tensors and lists of ints; booleans and masks have none."""
    if isinstance(item, (list, tuple)):
        return all(_is_int(v) for v in item)
    if isinstance(item, Operand):
        return item.dtype != "bool"
    return item is None or item is Ellipsis or isinstance(item, slice) or _is_int(item)


def _is_int(item) -> bool:
    return isinstance(item, Integral) and not isinstance(item, bool)


# -- getitem, setitem ------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def pick_signature(name: str, x: tuple, out: tuple, gathered: tuple | None = None) -> Signature:
    """Elements of x picked into `out`, by a tensor of indices if `gathered` gives its letters."""
    inputs = (x,) if gathered is None else (x, gathered)
    return Signature(name, inputs, (out,), terms=((0,),), movement=True,
                     no_grad=frozenset(() if gathered is None else (1,)))


def bind_getitem(call: Call) -> Bound:
    """x[index]."""
    x = call["input"]
    part = region(call.name, x.shape, call["index"])
    if part.gather is None:
        return Bound(pick_signature(call.name, part.x, part.out), (part.shape,),
                     localize=lambda place: {"index": part.index}, sized=False)
    if any(item != slice(None) for item in part.index if not isinstance(item, Operand)):
        return Bound(pick_signature(call.name, part.x, part.out, part.gathered), (part.shape,))
    dim = next(d for d, item in enumerate(part.index) if isinstance(item, Operand))
    own = part.x[:dim] + (ROWS,) + part.x[dim + 1:]
    signature = lookup_signature(call.name, (own, part.gathered), part.out, 0, x.dtype == "bool")
    return Bound(signature, (part.shape,), kernel=shard_form("shard_item", 0, dim, size=x.shape[dim]))


@functools.lru_cache(maxsize=4096)
def put_signature(name: str, x: tuple, gathered: tuple | None, value: tuple | None, linear: bool,
                  constant: bool) -> Signature:
    """A value written into x; None letters stand for a scalar."""
    inputs = tuple(dims for dims in (x, gathered, value) if dims is not None)
    last = len(inputs) - 1
    terms = ((0,),) if value is None else ((0,), (last,))
    monotone = tuple(0 if gathered is not None and i == 1 else 1 for i in range(len(inputs)))
    return Signature(name, inputs, (x,), terms=terms if linear else (), monotone=monotone if linear else (),
                     movement=linear and value is not None, constant=constant,
                     no_grad=frozenset(() if gathered is None else (1,)))


def bind_setitem(call: Call) -> Bound:
    """x[index] = value: the result has the layout of x."""
    x, value = call["input"], call["value"]
    part = region(call.name, x.shape, call["index"])
    dims, linear = None, True
    if isinstance(value, Operand):
        dims = _value_letters(call.name, value, part)
        linear = value.dtype == x.dtype or keeps_sums(value.dtype, x.dtype)
    elif not is_scalar(value):
        raise LayoutError(f"{call.name}: the value must be a number or a DTensor. Got {type(value).__name__}.")
    gathered = None if part.gather is None else part.gathered
    constant = dims is None and value != 0
    signature = put_signature(call.name, part.x, gathered, dims, linear, constant)
    return Bound(signature, (x.shape,), localize=_localize_put(part, value, constant))


def _value_letters(name: str, value: Operand, part: Region) -> tuple:
    extra = len(value.shape) - len(part.shape)
    own = value.shape[max(extra, 0):]
    tail = part.shape[len(part.shape) - len(own):]
    lead = value.shape[:max(extra, 0)]
    if value.exact and (any(s not in (1, t) for s, t in zip(own, tail)) or any(s != 1 for s in lead)):
        raise LayoutError(f"{name}: the value {value.shape} does not broadcast to the part {part.shape}.")
    return (None,) * len(lead) + carried(own, part.out, part.shape)


def _localize_put(part: Region, value, constant: bool):
    index = {} if part.gather is not None else {"index": part.index}
    zero = {**index, "value": type(value)(0)} if constant else index

    def localize(place) -> dict:
        return zero if any(place.coordinate[a] for a in place.inference.constant_once) else index

    return localize


# -- slices by position ----------------------------------------------------------------------------------------------


def _along(call: Call, dim: int, size: int | None) -> Bound:
    """Dimension `dim` becomes `size` long, or disappears."""
    shape = call["input"].shape
    x = tuple(None if i == dim else c for i, c in enumerate(letters(len(shape))))
    middle = () if size is None else (None,)
    new = shape[:dim] + (() if size is None else (size,)) + shape[dim + 1:]
    return Bound(pick_signature(call.name, x, x[:dim] + middle + x[dim + 1:]), (new,))


def bind_narrow(call: Call) -> Bound:
    """`length` elements of a dimension from `start` on."""
    shape = call["input"].shape
    dim = normal_dim(call.name, call["dim"], len(shape))
    start, length = call["start"], call["length"]
    start = start + shape[dim] if start < 0 else start
    if not 0 <= start <= start + length <= shape[dim]:
        raise LayoutError(f"{call.name}: {length} elements from {start} on exceed dimension {dim} of {shape}.")
    return _along(call, dim, length)


def bind_select(call: Call) -> Bound:
    """One index of a dimension, which disappears."""
    shape = call["input"].shape
    dim = normal_dim(call.name, call["dim"], len(shape))
    if not -shape[dim] <= call["index"] < shape[dim]:
        raise LayoutError(f"{call.name}: index {call['index']} is out of range for dimension {dim} of {shape}.")
    return _along(call, dim, None)


def bind_slice(call: Call) -> Bound:
    """`size` elements from `begin` on in every dimension; -1 means to the end."""
    shape, begin = call["input"].shape, tuple(call["begin"])
    sizes = tuple(n - b if s == -1 else s for s, b, n in zip(call["size"], begin, shape))
    if not len(begin) == len(sizes) == len(shape):
        raise LayoutError(f"{call.name}: begin {begin} and size {call['size']} need one entry per dimension of "
                          f"{shape}.")
    part = region(call.name, shape, tuple(slice(b, b + s) for b, s in zip(begin, sizes)))

    def localize(place) -> dict:
        local = place.in_shape()
        return {"size": tuple(local[d] if part.x[d] else s for d, s in enumerate(sizes))}

    return Bound(pick_signature(call.name, part.x, part.out), (part.shape,), localize=localize)


def bind_strided_slice(call: Call) -> Bound:
    """begin, end and stride per dimension, with bit masks for open ends and for dimensions that disappear."""
    if call["ellipsis_mask"] or call["new_axis_mask"]:
        raise LayoutError(f"{call.name} has no rule for ellipsis_mask or new_axis_mask. Index instead: x[..., None].")
    shape, begin, end = call["input"].shape, tuple(call["begin"]), tuple(call["end"])
    strides = tuple(call["strides"] or (1,) * len(begin))
    index = tuple(b if call["shrink_axis_mask"] >> i & 1 else
                  slice(None if call["begin_mask"] >> i & 1 else b, None if call["end_mask"] >> i & 1 else e, s)
                  for i, (b, e, s) in enumerate(zip(begin, end, strides)))
    part = region(call.name, shape, index)

    def localize(place) -> dict:
        local = place.in_shape()
        return {"end": tuple(local[i] if part.x[i] and e >= 0 else e for i, e in enumerate(end))}

    return Bound(pick_signature(call.name, part.x, part.out), (part.shape,), localize=localize)


declare("GetItem", "input:t index", bind_getitem, needs_dtype=True)
declare("SetItem", "input:t index value:t", bind_setitem, inplace=True, needs_dtype=True)
for _name in ("Narrow", "NarrowView"):
    declare(_name, "input:t dim start length", bind_narrow)
for _name in ("SelectExtView", "SelectExt"):
    declare(_name, "input:t dim index", bind_select)
declare("Slice", "input:t begin size", bind_slice)
declare("StridedSlice", "input:t begin end strides=None begin_mask=0 end_mask=0 ellipsis_mask=0 new_axis_mask=0 "
        "shrink_axis_mask=0", bind_strided_slice)

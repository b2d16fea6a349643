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
"""Coordinates in a tensor, one-hot rows, and movements inside a dimension.

Elements are only copied, so what is pending stays; the dimensions acted on must be whole.
"""
from __future__ import annotations

import functools

from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters, normal_dim, normal_dims
from hyper_parallel.core.shard.ops.nature import is_scalar
from hyper_parallel.core.shard.ops.parallel_index import pick_signature
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError


def bind_gather_nd(call: Call) -> Bound:
    """Elements or slices at the coordinates in the last dimension of the index."""
    x, index = call["input"], call["index"]
    depth = index.shape[-1] if index.shape else 0
    if not index.shape or depth > len(x.shape):
        raise LayoutError(f"{call.name}: an index of shape {index.shape} does not address {x.shape}.")
    names, ids = letters(len(x.shape)), letters(len(index.shape) - 1, "i")
    own = (None,) * depth + names[depth:]
    return Bound(pick_signature(call.name, own, ids + names[depth:], ids + (None,)),
                 (index.shape[:-1] + x.shape[depth:],))


def bind_one_hot(call: Call) -> Bound:
    """A new dimension of `num_classes` at `dim`; on and off values are tensors that the framework makes."""
    x, classes = call["input"], call["num_classes"]
    if not isinstance(classes, int) or classes < 0:
        raise LayoutError(f"{call.name}: num_classes must be given; {classes!r} would count the classes of each "
                          f"rank's own part.")
    rank = len(x.shape)
    dim = rank if call["dim"] == -1 else normal_dim(call.name, call["dim"], rank + 1)
    held = sum(isinstance(call[p], Operand) for p in ("on_value", "off_value"))
    return Bound(one_hot_signature(call.name, rank, dim, held), (x.shape[:dim] + (classes,) + x.shape[dim:],))


@functools.lru_cache(maxsize=256)
def one_hot_signature(name: str, rank: int, dim: int, held: int) -> Signature:
    """A new whole dimension beside those of the ids; `held` 0-d tensors follow."""
    x = letters(rank)
    return Signature(name, (x,) + ((),) * held, (x[:dim] + (None,) + x[dim:],), no_grad=frozenset((0,)))


# -- movements inside whole dimensions -------------------------------------------------------------------------------


def _inside(call: Call, dims, shape: tuple | None = None) -> Bound:
    """Elements of `dims` move, or make room for zeros, which are zero under every pending op."""
    x = tuple(None if i in dims else c for i, c in enumerate(letters(len(call["input"].shape))))
    return Bound(pick_signature(call.name, x, x), (shape or call["input"].shape,))


def bind_triangle(call: Call) -> Bound:
    """Zeros above or below a diagonal of the last two dimensions."""
    rank = len(call["input"].shape)
    if rank < 2:
        raise LayoutError(f"{call.name} needs at least 2 dimensions. Got {call['input'].shape}.")
    return _inside(call, (rank - 2, rank - 1))


def bind_flip(call: Call) -> Bound:
    """The order of dimensions reversed."""
    dims, rank = call["dim"], len(call["input"].shape)
    return _inside(call, () if dims in ((), []) else normal_dims(call.name, dims, rank))


def bind_roll(call: Call) -> Bound:
    """Elements shifted around; without dimensions over the flattened tensor."""
    return _inside(call, normal_dims(call.name, call["dims"], len(call["input"].shape)))


def bind_pad(call: Call) -> Bound:
    """(before, after) per dimension, the last dimension first; a value other than zero enters once."""
    shape, pad, value = call["input"].shape, tuple(call["padding"]), call["value"]
    if len(pad) % 2 or len(pad) > 2 * len(shape) or not is_scalar(value):
        raise LayoutError(f"{call.name}: padding {pad} does not fit {shape}, or the value {value!r} is not a number.")
    new, dims = list(shape), set()
    for i in range(len(pad) // 2):
        d, before, after = len(shape) - 1 - i, pad[2 * i], pad[2 * i + 1]
        if before or after:
            new[d] += before + after
            dims.add(d)
    if value == 0:
        return _inside(call, dims, tuple(new))
    zero = {"value": type(value)(0)}

    def localize(place) -> dict:
        return zero if any(place.coordinate[a] for a in place.inference.constant_once) else {}

    return Bound(pad_signature(call.name, len(shape), frozenset(dims)), (tuple(new),), localize=localize)


@functools.lru_cache(maxsize=512)
def pad_signature(name: str, rank: int, dims: frozenset) -> Signature:
    """Padding with a constant: affine, and non-decreasing."""
    x = tuple(None if i in dims else c for i, c in enumerate(letters(rank)))
    return Signature(name, (x,), (x,), terms=((0,),), monotone=(1,), constant=True)


for _name in ("GatherNd", "GatherNdExt"):
    declare(_name, "input:t index:t", bind_gather_nd)
for _name in ("OneHotExt", "OneHot"):
    declare(_name, "input:t num_classes on_value:t=None off_value:t=None dim=-1", bind_one_hot,
            optional_plain=frozenset(("on_value", "off_value")))
for _name in ("Triu", "TrilExt", "Tril"):
    declare(_name, "input:t diagonal=0", bind_triangle)
declare("ReverseV2", "input:t dim", bind_flip)
declare("Roll", "input:t shifts dims=None", bind_roll)
declare("ConstantPadND", "input:t padding value=0.0", bind_pad)

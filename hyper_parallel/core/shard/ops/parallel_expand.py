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
"""Expanding and repeating: elements are copied, so whatever is pending stays; a repeated dimension must be whole."""
from __future__ import annotations

import functools
import math

from hyper_parallel.core.shard.declaration import Bound, Call, letters, normal_dim
from hyper_parallel.core.shard.ops.nature import carried
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.ops.parallel_reshape import same_blocks
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError


@functools.lru_cache(maxsize=2048)
def copy_signature(name: str, x: tuple, out: tuple, like: tuple | None = None) -> Signature:
    """Elements of x copied to `out`; `like` are the letters of a tensor that only lends its shape."""
    inputs = (x,) if like is None else (x, like)
    lent = frozenset(() if like is None else (1,))
    return Signature(name, inputs, (out,), terms=((0,),), movement=True, no_grad=lent, shape_only=lent)


def _check_expands(name: str, x, target: tuple) -> None:
    offset = len(target) - len(x.shape)
    if offset < 0 or (x.exact and any(s not in (1, t) for s, t in zip(x.shape, target[offset:]))):
        raise LayoutError(f"{name}: the global shape {x.shape} does not expand to {target}.")


def bind_broadcast_to(call: Call) -> Bound:
    """To a global shape, given as one tuple or as star arguments; -1 keeps a size."""
    x, target = call["input"], tuple(call["shape"])
    offset = len(target) - len(x.shape)
    target = tuple(x.shape[i - offset] if s == -1 and i >= offset else s for i, s in enumerate(target))
    _check_expands(call.name, x, target)
    own = carried(x.shape, letters(len(target)), target)
    out = (None,) * offset + own
    return Bound(copy_signature(call.name, own, out), (target,), localize=lambda place: {"shape": place.out_shape()})


def bind_expand_as(call: Call) -> Bound:
    """To the shape of another tensor: a dimension that expands follows the other's cut."""
    x, other = call["input"], call["other"]
    _check_expands(call.name, x, other.shape)
    names = letters(len(other.shape))
    own = carried(x.shape, names, other.shape)
    return Bound(copy_signature(call.name, own, names, names), (other.shape,))


def bind_tile(call: Call) -> Bound:
    """Whole repetitions per dimension; new dimensions come first."""
    shape, repeats = call["input"].shape, tuple(call["dims"])
    if call.name == "Repeat" and len(repeats) < len(shape):
        raise LayoutError(f"Repeat needs a factor for each of the {len(shape)} dimensions. Got {repeats}.")
    repeats = (1,) * (len(shape) - len(repeats)) + repeats
    offset = len(repeats) - len(shape)
    x = tuple(c if repeats[offset + i] == 1 else None for i, c in enumerate(letters(len(shape))))
    padded = (1,) * offset + shape
    return Bound(copy_signature(call.name, x, (None,) * offset + x), (tuple(s * r for s, r in zip(padded, repeats)),))


def bind_repeat_interleave(call: Call) -> Bound:
    """Every element of a dimension repeated in place; without a dimension the tensor is flattened first."""
    shape, times, dim = call["input"].shape, call["repeats"], call["dim"]
    if dim is None:
        return Bound(copy_signature(call.name, (None,) * len(shape), (None,)), ((math.prod(shape) * times,),))
    dim = normal_dim(call.name, dim, len(shape))
    new = shape[:dim] + (shape[dim] * times,) + shape[dim + 1:]
    return Bound(interleave_signature(call.name, len(shape), dim, shape[dim], times), (new,))


@functools.lru_cache(maxsize=1024)
def interleave_signature(name: str, ndim: int, dim: int, size: int, times: int) -> Signature:
    """Cut along the repeated dimension where the repeated chunks are the chunks of the result."""
    names = letters(ndim)

    def condition(axes: tuple):
        if times > 0 and same_blocks(size, times, size * times, 1, axes):
            return None
        return (f"dimension {dim} is cut by axes of sizes {axes}; repeated {times} times, its chunks are not the "
                f"chunks of {size * times}.")

    return Signature(name, (names,), (names,), terms=((0,),), movement=True, conditions={names[dim]: condition})


for _name in ("BroadcastTo", "BroadcastToView"):
    declare(_name, "input:t *shape", bind_broadcast_to)
declare("ExpandAs", "input:t other:t", bind_expand_as)
for _name in ("Tile", "Repeat"):
    declare(_name, "input:t *dims", bind_tile)
for _name in ("RepeatInterleaveInt", "DeprecatedRepeatInterleave"):
    declare(_name, "input:t repeats dim=None output_size=None", bind_repeat_interleave)

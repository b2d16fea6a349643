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
"""Splitting into several outputs: the split dimension must be whole, whatever is pending stays in every part."""
from __future__ import annotations

import functools

from hyper_parallel.core.dtensor.cuts import ceil_div
from hyper_parallel.core.shard.declaration import Bound, Call, letters, normal_dim
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError


@functools.lru_cache(maxsize=4096)
def split_signature(name: str, ndim: int, dim: int, count: int, keep=True) -> Signature:
    """`count` parts along `dim`, which disappears unless `keep`."""
    x = tuple(None if i == dim else c for i, c in enumerate(letters(ndim)))
    out = x if keep else x[:dim] + x[dim + 1:]
    return Signature(name, (x,), (out,) * count, terms=((0,),), movement=True)


def _dim(call: Call) -> int:
    shape = call["input"].shape
    if not shape:
        raise LayoutError(f"{call.name}: a tensor without dimensions cannot be split.")
    return normal_dim(call.name, call["dim"], len(shape))


def _parts(call: Call, dim: int, sizes) -> Bound:
    shape = call["input"].shape
    shapes = tuple(shape[:dim] + (s,) + shape[dim + 1:] for s in sizes)
    return Bound(split_signature(call.name, len(shape), dim, len(shapes)), shapes, multi=True)


def _even(size: int, step: int) -> list:
    return [min(step, size - begin) for begin in range(0, size, step)] if size else [0]


def bind_split(call: Call) -> Bound:
    """Parts of a given size (the last may be smaller), or of given sizes."""
    dim, sizes = _dim(call), call["split_size"]
    total = call["input"].shape[dim]
    if isinstance(sizes, (tuple, list)):
        if sum(sizes) != total or min(sizes, default=0) < 0:
            raise LayoutError(f"{call.name}: the sizes {tuple(sizes)} do not add up to dimension {dim} of "
                              f"{call['input'].shape}.")
        return _parts(call, dim, sizes)
    if not isinstance(sizes, int) or sizes < 1:
        raise LayoutError(f"{call.name}: the size of a part must be a positive int. Got {sizes!r}.")
    return _parts(call, dim, _even(total, sizes))


def bind_equal_parts(call: Call) -> Bound:
    """A number of equal parts."""
    dim, count = _dim(call), call["output_num"]
    total = call["input"].shape[dim]
    if count < 1 or total % count:
        raise LayoutError(f"{call.name}: dimension {dim} of {call['input'].shape} does not split into {count} equal "
                          f"parts.")
    return _parts(call, dim, [total // count] * count)


def bind_chunk(call: Call) -> Bound:
    """At most `chunks` parts of ceil size."""
    dim, count = _dim(call), call["chunks"]
    if count < 1:
        raise LayoutError(f"{call.name}: the number of chunks must be positive. Got {count}.")
    total = call["input"].shape[dim]
    return _parts(call, dim, _even(total, ceil_div(total, count)) if total else [0] * count)


def bind_unstack(call: Call) -> Bound:
    """One part per index, without the dimension."""
    dim, shape = _dim(call), call["input"].shape
    part = shape[:dim] + shape[dim + 1:]
    return Bound(split_signature(call.name, len(shape), dim, shape[dim], keep=False), (part,) * shape[dim], multi=True)


for _name in ("SplitTensor", "SplitTensorView", "SplitWithSize", "SplitWithSizeView"):
    declare(_name, "input:t split_size dim=0", bind_split)
declare("Split", "input:t dim=0 output_num=1", bind_equal_parts)
for _name in ("Chunk", "ChunkView"):
    declare(_name, "input:t chunks dim=0", bind_chunk)
for _name in ("UnstackExtView", "Unstack"):
    declare(_name, "input:t dim=0", bind_unstack)

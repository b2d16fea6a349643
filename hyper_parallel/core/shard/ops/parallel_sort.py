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
"""Ordering along a dimension, and diagonals: the dimensions acted on must be whole.

Sorting is not linear, so nothing may be pending. A diagonal only picks elements; a trace adds them up.
"""
from __future__ import annotations

import functools

from hyper_parallel.core.shard.declaration import Bound, Call, letters, normal_dim
from hyper_parallel.core.shard.ops.parallel_index import pick_signature
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.ops.parallel_reduce import along_signature
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError


def ordering(outputs: int):
    """The binder of sorts; with `k` only that many elements of the dimension are kept."""

    def bind(call: Call) -> Bound:
        shape = call["input"].shape
        dim = normal_dim(call.name, call.values.get("dim", -1), len(shape))
        k = call.values.get("k")
        if k is not None and not 0 <= k <= (shape[dim] if shape else 1):
            raise LayoutError(f"{call.name}: k = {k} exceeds dimension {dim} of the global shape {shape}.")
        new = shape if k is None or not shape else shape[:dim] + (k,) + shape[dim + 1:]
        signature = along_signature(call.name, len(shape), (dim,), outputs=outputs)
        return Bound(signature, (new,) * outputs, multi=outputs > 1)

    return bind


def _plane(call: Call) -> tuple:
    shape = call["input"].shape
    dims = tuple(normal_dim(call.name, call[d], len(shape)) for d in ("dim1", "dim2"))
    if len(shape) < 2 or dims[0] == dims[1]:
        raise LayoutError(f"{call.name} needs two different dimensions. Got {dims} of {shape}.")
    return dims


def bind_diagonal(call: Call) -> Bound:
    """The diagonal of two dimensions, as a new last dimension."""
    shape, dims, offset = call["input"].shape, _plane(call), call["offset"]
    x = tuple(None if i in dims else c for i, c in enumerate(letters(len(shape))))
    kept = [i for i in range(len(shape)) if i not in dims]
    rows, columns = shape[dims[0]] + min(offset, 0), shape[dims[1]] - max(offset, 0)
    size = max(min(rows, columns), 0)
    return Bound(pick_signature(call.name, x, tuple(x[i] for i in kept) + (None,)),
                 (tuple(shape[i] for i in kept) + (size,),))


def bind_trace(call: Call) -> Bound:
    """The sum of the diagonal of a matrix."""
    if len(call["input"].shape) != 2:
        raise LayoutError(f"{call.name} takes a matrix. Got {call['input'].shape}.")
    return Bound(trace_signature(call.name), ((),))


@functools.lru_cache(maxsize=16)
def trace_signature(name: str) -> Signature:
    """Both dimensions whole; linear."""
    return Signature(name, ((None, None),), ((),), terms=((0,),))


declare("TopkExt", "input:t k dim=-1 largest=True sorted=True", ordering(2))
declare("TopK", "input:t k sorted=True", ordering(2))
declare("SortExt", "input:t dim=-1 descending=False stable=False", ordering(2))
declare("Sort", "input:t dim=-1 descending=False", ordering(2))
declare("ArgSort", "input:t dim=-1 descending=False stable=False", ordering(1))
for _name in ("Diagonal", "DiagonalView"):
    declare(_name, "input:t offset=0 dim1=0 dim2=1", bind_diagonal)
for _name in ("Trace", "TraceExt"):
    declare(_name, "input:t", bind_trace)

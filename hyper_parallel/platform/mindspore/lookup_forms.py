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
"""Local forms of lookups and writes on a rank that holds a part of the rows: zeros for the rows of other ranks.

Zeros are written, never multiplied (inf * 0 is nan), and a rank without rows keeps the path of the gradient, because a
boundary upstream may hold a collective that every rank has to reach.
"""
from __future__ import annotations

from mindspore import dtype as mstype
from mindspore import mint, ops

from hyper_parallel.platform.mindspore.cpu_kernels_common import connected


def shard_rows(values: dict, dim: int, begin: int, size: int):
    """Slices of a dimension of `size`, of which this rank holds those from `begin` on.

    Args:
        values: `input`, this rank's part, and `index`, whole positions of any rank.
        dim: the dimension.
        begin: position of the part's first slice.
        size: extent of the whole dimension; negative positions count from its end.
    """
    x, index = values["input"], values["index"]
    shape = x.shape[:dim] + index.shape + x.shape[dim + 1:]
    if not x.size or not index.size:
        return nothing(shape, x)
    local, mine = _own(index, begin, x.shape[dim], size)
    mine = mint.reshape(mine, (1,) * dim + tuple(index.shape) + (1,) * (x.ndim - dim - 1))
    return kept(ops.gather(x, local, dim), mine)


def shard_item(values: dict, dim: int, begin: int, size: int):
    """`shard_rows` of an index that holds one tensor of positions beside whole slices."""
    index = values["index"]
    index = next(i for i in index if hasattr(i, "dtype")) if isinstance(index, (tuple, list)) else index
    return shard_rows({"input": values["input"], "index": index}, dim, begin, size)


def shard_elements(values: dict, dim: int, begin: int, size: int):
    """Elements along a dimension, one per element of an index of the same rank; see `shard_rows`."""
    x, index = values["input"], values["index"]
    if not x.size or not index.size:
        return nothing(index.shape, x)
    local, mine = _own(index, begin, x.shape[dim], size)
    return kept(mint.gather(x, dim, local), mine)


def shard_embedding(values: dict, dim: int, begin: int, padding):
    """Rows of a table from row `begin` on; the row `padding`, counted in the whole table, gets no gradient."""
    ids, table = values["input"], values["weight"]
    rows = shard_rows({"input": table, "index": ids}, dim, begin, 0)
    if padding is None or not rows.size:
        return rows
    return mint.where(mint.unsqueeze(ids == padding, -1), ops.stop_gradient(rows), rows)


def scatter_nd(values: dict, shape: tuple):
    """Zeros of a local shape with this rank's updates added at the coordinates."""
    indices, updates = values["indices"], values["updates"]
    return ops.scatter_nd(indices, updates, shape) if updates.size else nothing(shape, updates)


def _own(index, begin: int, length: int, size: int):
    """(positions inside this rank's part, whether they are this rank's)."""
    if size:
        index = mint.where(index < 0, index + size, index)
    mine = mint.logical_and(index >= begin, index < begin + length)
    return mint.where(mine, index - begin, ops.zeros_like(index)), mine


def kept(x, mask):
    """x where the mask is set, zeros elsewhere."""
    return mint.logical_and(x, mask) if x.dtype == mstype.bool_ else x.masked_fill(mint.logical_not(mask), 0)


def nothing(shape, *sources):
    """Zeros that stay linked to tensors without elements."""
    return connected(mint.zeros(tuple(shape), dtype=sources[0].dtype), *sources)


FORMS = {"shard_rows": shard_rows, "shard_item": shard_item, "shard_elements": shard_elements,
         "scatter_nd": scatter_nd, "shard_embedding": shard_embedding}

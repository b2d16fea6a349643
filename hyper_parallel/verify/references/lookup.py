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
"""Meaning of lookups in a table, and the numpy forms of a rank that holds a part of its rows."""
from __future__ import annotations

import numpy as np

from hyper_parallel.verify.kernels import kernel
from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference
from hyper_parallel.verify.tape import plain

_UP = {"n": lambda s: 3 + s["a"], "a": None}  # at least 4


def gather(v: dict):
    """Slices of one dimension; the first `batch_dims` dimensions go in step."""
    x, index, dim = v["input"], v["index"], v["dim"] % v["input"].ndim
    batch = v.get("batch_dims", 0)
    batch = batch + index.ndim if batch < 0 else batch
    if not batch:
        return np.take(x, index, dim)
    rows = [gather({"input": x[i], "index": index[i], "dim": dim - 1, "batch_dims": batch - 1})
            for i in range(x.shape[0])]
    tail = x.shape[1:dim] + index.shape[batch:] + x.shape[dim + 1:]
    return np.stack(rows, 0) if rows else np.reshape(x, (0,) + tail)


def gather_along(v: dict):
    """out[i][j] = x[index[i][j]][j] along `dim`."""
    x, index, dim = v["input"], v["index"], v["dim"] % v["input"].ndim
    crop = tuple(slice(None) if d == dim else slice(0, n) for d, n in enumerate(index.shape))
    return np.take_along_axis(x[crop], index, dim)


def embedding(v: dict):
    """Rows of a table; the gradient skips `padding_idx`, which may count from the end."""
    ids, table = v["input"], v["weight"]
    if v["max_norm"] is not None:
        length = np.sqrt(np.sum(np.square(table), axis=1, keepdims=True))
        table = np.where(plain(length) > v["max_norm"], table / length * v["max_norm"], table)
    rows = np.take(table, ids, 0)
    if v["padding_idx"] is None:
        return rows
    return np.where(np.expand_dims(ids == v["padding_idx"] % table.shape[0], -1), plain(rows), rows)


# -- the part of a rank: a row of zeros stands for every id of another rank ------------------------------------------


def _with_zeros(table, dim: int):
    shape = table.shape[:dim] + (1,) + table.shape[dim + 1:]
    return np.concatenate([table, np.zeros(shape, table.dtype)], dim)


def _own(index, begin: int, length: int, size: int):
    index = np.where(index < 0, index + size, index)
    return np.where((index >= begin) & (index < begin + length), index - begin, length)


@kernel("shard_rows")
def shard_rows(v: dict, dim: int, begin: int, size: int):
    """Slices [begin, begin + length) of `size`, zeros for every other index."""
    x = v["input"]
    return np.take(_with_zeros(x, dim), _own(v["index"], begin, x.shape[dim], size), dim)


@kernel("shard_item")
def shard_item(v: dict, **form):
    """`shard_rows` of an index that holds one array beside whole slices."""
    index = v["index"]
    index = next(i for i in index if isinstance(i, np.ndarray)) if isinstance(index, tuple) else index
    return shard_rows({"input": v["input"], "index": index}, **form)


@kernel("shard_elements")
def shard_elements(v: dict, dim: int, begin: int, size: int):
    """As `gather_along` of the elements [begin, begin + length) of `size`, zeros for every other index."""
    x = v["input"]
    index = _own(v["index"], begin, x.shape[dim], size)
    return gather_along({"input": _with_zeros(x, dim), "index": index, "dim": dim})


@kernel("shard_embedding")
def shard_embedding(v: dict, dim: int, begin: int, padding):
    """Rows of the part of a table that starts at row `begin`; `padding` counts in the whole table."""
    ids, table = v["input"], v["weight"]
    rows = np.take(_with_zeros(table, dim), _own(ids, begin, table.shape[0], 0), dim)
    return rows if padding is None else np.where(np.expand_dims(ids == padding, -1), plain(rows), rows)


_PICKED = (Pattern("input=nb index=i/index(n)", _sizes=_UP, dim=0),
           Pattern("input=bn index=i/index(n)", _sizes=_UP, dim=-1),
           Pattern("input=nb index=i/index(n)", dim=0), Pattern("input=nb/bool index=i/index(n)", dim=0))
reference("IndexSelect", gather, *_PICKED)
reference("Gather", gather, *_PICKED, Pattern("input=nb index=ij/index(n)", _sizes=_UP, dim=0),
          Pattern("input=bn index=ij/index(n)", dim=1),
          Pattern("input=bn index=bi/index(n)", _sizes=_UP, dim=1, batch_dims=1),
          Pattern("input=bnc index=bi/index(n)", _sizes=_UP, dim=1, batch_dims=1),
          Pattern("input=nb index=./index(n)", dim=0))
reference("GatherD", gather_along, Pattern("input=nb index=ib/index(n)", _sizes=_UP, dim=0),
          Pattern("input=bn index=bi/index(n)", dim=-1), Pattern("input=nb/bool index=ib/index(n)", dim=0),
          Pattern("input=nn index=i2/index(n)", _sizes=_UP, dim=0))
reference("Embedding", embedding, Pattern("input=ab/index(n) weight=nc", _sizes=_UP),
          Pattern("input=a/index(n) weight=nc", padding_idx=0), Pattern("input=a/index(n) weight=nc", padding_idx=-1),
          Pattern("input=a/index(5) weight=5c", padding_idx=3), Pattern("input=a/index(5) weight=5c", padding_idx=-4),
          Pattern("input=a/index(n) weight=nc", _sizes={"n": 5}, max_norm=1.0, _grad=False),
          Pattern("input=a/index(n) weight=nc", _sizes={"n": 5}, scale_grad_by_freq=True, _grad=False))
reference("Take", lambda v: np.take(np.ravel(v["input"]), v["index"]),
          Pattern("input=ab index=ij/index(n)", _sizes={"n": lambda s: s["a"] * s["b"], "a": None, "b": None}))

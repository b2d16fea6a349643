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
"""Meaning of writes at positions that a tensor of indices names."""
from __future__ import annotations

import numpy as np

from hyper_parallel.verify.kernels import kernel
from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference
from hyper_parallel.verify.tape import plain

_UP = {"n": lambda s: 3 + s["a"], "a": None}  # at least 4


def put(x, places, value):
    """x with `value` at flat `places`, the last write counting."""
    shape = np.shape(places)
    value = np.full(shape, value, x.dtype) if isinstance(value, (int, float)) else np.broadcast_to(value, shape)
    source = np.arange(x.size)
    source[np.ravel(places)] = x.size + np.arange(np.size(places))
    return np.reshape(np.take(np.concatenate([np.ravel(x), np.ravel(value)]), source), x.shape)


def put_added(x, places, value):
    """x plus `value` at flat `places`, as one product, so that it is exact and differentiable."""
    hits = (np.arange(x.size)[:, None] == np.ravel(places)[None, :]).astype(plain(x).dtype)
    value = np.broadcast_to(value, np.shape(places))
    return x + np.reshape(np.matmul(hits, np.ravel(value)), x.shape)


def _numbers(x):
    return np.arange(x.size).reshape(x.shape)


def _along(x, index, dim: int):
    """Flat places of x[index[i][j]][j] along `dim`."""
    grid = list(np.indices(index.shape))
    grid[dim % x.ndim] = index
    return _numbers(x)[tuple(grid)]


def _slices(x, index, dim: int):
    """Flat places of the slices of `dim` that a 1-D index names."""
    return np.take(_numbers(x), np.atleast_1d(index), dim)


def _cropped(value, index):
    return value[tuple(slice(0, n) for n in index.shape)] if np.ndim(plain(value)) else value


def scatter(param: str, added: bool = False):
    """x with `param` at index[i][j] along `dim`, replaced or added."""

    def function(v: dict):
        write = put_added if added or v.get("reduce") in (1, "add") else put
        return write(v["input"], _along(v["input"], v["index"], v["dim"]), _cropped(v[param], v["index"]))

    return function


def index_add(v: dict):
    """x plus alpha times the slices of source at the slices that the index names."""
    return put_added(v["input"], _slices(v["input"], v["index"], v["dim"]), v["source"] * v["alpha"])


def slices_put(param: str):
    """x with slices of `dim` replaced."""
    return lambda v: put(v["input"], _slices(v["input"], v["index"], v["dim"]), v[param])


def index_put(v: dict):
    """x[i, j, ...] = values, or += values."""
    x = v["input"]
    places = _numbers(x)[tuple(v["indices"])]
    return (put_added if v.get("accumulate") else put)(x, places, v["values"])


def coordinates_put(write):
    """x with updates at the coordinates in the last dimension of the index."""

    def function(v: dict):
        return write(v["input"], _numbers(v["input"])[tuple(np.moveaxis(v["indices"], -1, 0))], v["updates"])

    return function


def scatter_nd(v: dict):
    """Zeros of a shape with updates added at coordinates."""
    zeros = np.zeros(v["shape"], v["updates"].dtype)
    return coordinates_put(put_added)({"input": zeros, "indices": v["indices"], "updates": v["updates"]})


@kernel("scatter_nd")
def local_scatter_nd(v: dict, shape: tuple):
    """`scatter_nd` in the local shape of the result."""
    return scatter_nd({**v, "shape": shape})


def segment_sum(v: dict):
    """Sums of the slices of x that share a segment id."""
    x, ids = v["input"], v["segment_ids"]
    flat = np.reshape(x, (ids.size,) + x.shape[ids.ndim:])
    zeros = np.zeros((v["num_segments"],) + x.shape[ids.ndim:], x.dtype)
    return put_added(zeros, _slices(zeros, np.ravel(ids), 0), flat)


def masked_scatter(v: dict):
    """Elements of source, in order, where the mask is set."""
    x = v["input"]
    places = np.flatnonzero(np.broadcast_to(v["mask"], x.shape))
    return put(x, places, np.ravel(v["source"])[:places.size])


def fill_diagonal(v: dict):
    """x with a number on its main diagonal."""
    x = v["input"]
    places = np.arange(min(x.shape)) * (x.shape[1] + 1) if min(x.shape) else np.zeros(0, int)
    return put(x, places, v["fill_value"])


def _elements(param: str, adds: bool) -> tuple:
    ids = "index" if adds else "pick"
    return (Pattern(f"input=nb index=1b/{ids}(n) {param}=1b", _sizes=_UP, dim=0),
            Pattern(f"input=bn index=bi/index(n) {param}=bi" if adds else f"input=bn index=b2/pick(n) {param}=b2",
                    _sizes={**_UP, "b": 2}, dim=-1, _grad=adds),
            Pattern(f"input=nb index=12/index(n) {param}=2b", _sizes={**_UP, "b": lambda s: 2 + s["a"]}, dim=0,
                    _grad=adds))


_VALUES = tuple(Pattern("input=nb index=1b/pick(n)", _sizes=_UP, dim=0, value=value) for value in (0, 2, -1.5))
_SRC = tuple(Pattern("input=nb index=1b/pick(n)", _sizes=_UP, dim=0, src=value) for value in (0, 2))
_SLICES = (Pattern("input=nb index=2/pick(n) source=2b", _sizes=_UP, dim=0),
           Pattern("input=bn index=2/pick(n) source=b2", _sizes=_UP, dim=-1))
_ADDED = (Pattern("input=nb index=i/index(n) source=ib", _sizes=_UP, dim=0),
          Pattern("input=bn index=i/index(n) source=bi", _sizes=_UP, dim=-1, alpha=-2))
_FILLS = tuple(Pattern("input=nb index=2/pick(n)", _sizes=_UP, dim=0, value=value) for value in (0, 2))
_PUTS = (Pattern("input=nb indices=[2/pick(n)] values=2b", _sizes=_UP),
         Pattern("input=nb indices=[2/pick(n)] values=.", _sizes=_UP, _grad=False))
_PAIR = Pattern("input=nm indices=[2/pick(n),2/pick(n)] values=2", _sizes={**_UP, "m": lambda s: 3 + s["a"]})
reference("TensorScatterElements", scatter("src"), *_elements("src", False)[:1])
reference("Scatter", scatter("src"), *_elements("src", False),
          Pattern("input=nb index=1b/index(n) src=1b", _sizes=_UP, dim=0, reduce=1),
          Pattern("input=nb index=1b/index(n) src=1b", _sizes=_UP, dim=0, reduce=2, _refused=True))
reference("InplaceScatterSrc", scatter("src"), *_elements("src", False)[:1])
reference("ScatterAddExt", scatter("src", True), *_elements("src", True))
reference("InplaceScatterAdd", scatter("src", True), *_elements("src", True)[:2])
reference("ScatterValue", scatter("src"), *_SRC)
reference("InplaceScatterValue", scatter("value"), *_VALUES)
reference("IndexAddExt", index_add, *_ADDED)
reference("InplaceIndexAddExt", index_add, *_ADDED[:1])
reference("InplaceIndexCopy", slices_put("source"), *_SLICES)
reference("IndexFillScalar InplaceIndexFillScalar", slices_put("value"), *_FILLS)
reference("IndexFillTensor InplaceIndexFillTensor", slices_put("value"),
          Pattern("input=nb index=2/pick(n) value=.", _sizes=_UP, dim=0))
reference("InplaceIndexPut", index_put, _PUTS[0],
          Pattern("input=nb indices=[3/index(n)] values=3b", _sizes=_UP, accumulate=True),
          Pattern("input=ab indices=[a/bool] values=b", _refused=True))
reference("IndexPut", index_put, *_PUTS, _PAIR)
_AT = (Pattern("input=nb indices=21/pick(n) updates=2b", _sizes=_UP),
       Pattern("input=nnb indices=22/pick(n) updates=2b", _sizes=_UP, _grad=False))
reference("TensorScatterUpdate", coordinates_put(put), *_AT)
reference("TensorScatterAdd", coordinates_put(put_added), *_AT[:1],
          Pattern("input=nb indices=ij1/index(n) updates=ijb", _sizes=_UP))
reference("ScatterNd", scatter_nd, Pattern("indices=i1/index(n) updates=ib", _sizes={"n": 4},
                                           shape=lambda s: (s["n"], s["b"])))
reference("UnsortedSegmentSum", segment_sum, Pattern("input=ib segment_ids=i/index(4)", num_segments=4),
          Pattern("input=ijb segment_ids=ij/index(3)", num_segments=3))
reference("ScatterUpdate", lambda v: put(v["input"], _slices(v["input"], v["indices"], 0), v["updates"]),
          Pattern("input=nb indices=2/pick(n) updates=2b", _sizes=_UP))
reference("MaskedScatter InplaceMaskedScatter", masked_scatter, Pattern("input=ab mask=ab/bool source=ab"))
reference("InplaceFillDiagonal", fill_diagonal, *(Pattern("input=ab", fill_value=value) for value in (0, 2.0)))

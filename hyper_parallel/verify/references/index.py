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
"""Meaning of indexing, slicing, gathering and of movements inside a dimension."""
from __future__ import annotations

import numpy as np

from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference
from hyper_parallel.verify.tape import plain

_UP = {"n": lambda s: 3 + s["a"], "a": None}  # at least 4


# -- getitem, setitem --------------------------------------------------------------------------------------------------


def _numpy_index(index):
    return tuple(list(i) if isinstance(i, tuple) else i for i in index) if isinstance(index, tuple) else index


def getitem(v: dict):
    """input[index]."""
    return v["input"][_numpy_index(v["index"])]


def setitem(v: dict):
    """input with value written at index: every element comes from one of the two."""
    x, value = v["input"], v["value"]
    places = np.arange(x.size).reshape(x.shape)[_numpy_index(v["index"])]
    if np.ndim(plain(value)) > places.ndim:
        value = np.reshape(value, plain(value).shape[np.ndim(plain(value)) - places.ndim:])
    written = np.broadcast_to(value if np.ndim(plain(value)) or not isinstance(value, (int, float)) else
                              np.asarray(value, x.dtype), places.shape)
    source = np.arange(x.size)
    source[places.ravel()] = x.size + np.arange(places.size)
    both = np.concatenate([np.ravel(x), np.ravel(written)])
    return np.reshape(np.take(both, source), x.shape).astype(x.dtype)


_INDICES = (0, -1, slice(None), slice(1, 3), (slice(None), 1), (Ellipsis, 0), (slice(None), slice(None, None, 2)),
            (None, slice(None)), (slice(None), [0, 2, 1]))
reference("GetItem", getitem, *(Pattern("input=nm", _sizes={**_UP, "m": 4}, index=i) for i in _INDICES[:3]),
          *(Pattern("input=nm", _sizes={**_UP, "m": lambda s: 3 + s["b"], "b": None}, index=i) for i in _INDICES[3:]),
          Pattern("input=nb index=i/index(n)", _sizes=_UP), Pattern("input=nb index=ij/index(n)", _sizes=_UP),
          Pattern("input=bn index=i/index(n)", _sizes=_UP, _wrap={"index": lambda t: (slice(None), t)}),
          Pattern("input=nb index=i/index(n)"), Pattern("input=bn/bool index=ij/index(n)",
                                                        _wrap={"index": lambda t: (slice(None), t)}),
          Pattern("input=nb index=i/index(n)", _sizes=_UP, _wrap={"index": lambda t: (t, slice(0, 1))}))
reference("SetItem", setitem, *(Pattern("input=nm", _sizes={**_UP, "m": 4}, index=i, value=w)
                                for i, w in ((0, 2), (slice(1, 3), 0), ((slice(None), 1), -1.5))),
          Pattern("input=nb value=b", _sizes=_UP, index=1), Pattern("input=nb value=2b", _sizes=_UP, index=slice(1, 3)),
          Pattern("input=bn value=b", _sizes=_UP, index=(slice(None), -1)),
          Pattern("input=nb value=.", _sizes=_UP, index=0),
          Pattern("input=nb index=2/pick(n) value=2b", _sizes=_UP))

# -- slices by position ------------------------------------------------------------------------------------------------


def narrow(v: dict):
    """`length` elements of a dimension from `start` on."""
    size = v["input"].shape[v["dim"]]
    start = v["start"] % size if v["start"] < 0 else v["start"]
    return np.take(v["input"], np.arange(start, start + v["length"]), v["dim"])


def slices(v: dict):
    """`size` elements from `begin` on in every dimension; -1 means to the end."""
    return v["input"][tuple(slice(b, None if s == -1 else b + s) for b, s in zip(v["begin"], v["size"]))]


def strided(v: dict):
    """begin, end and stride per dimension, with bit masks."""
    strides = v["strides"] or (1,) * len(v["begin"])
    return v["input"][tuple(
        b if v["shrink_axis_mask"] >> i & 1 else
        slice(None if v["begin_mask"] >> i & 1 else b, None if v["end_mask"] >> i & 1 else e, s)
        for i, (b, e, s) in enumerate(zip(v["begin"], v["end"], strides)))]


reference("Narrow NarrowView", narrow, Pattern("input=nb", _sizes=_UP, dim=0, start=1, length=2),
          Pattern("input=bn", _sizes=_UP, dim=-1, start=-2, length=1),
          Pattern("input=nb", _sizes=_UP, dim=0, start=0, length=lambda s: s["n"]))
reference("SelectExtView SelectExt", lambda v: np.squeeze(np.take(v["input"], [v["index"]], v["dim"]), v["dim"]),
          Pattern("input=nb", _sizes=_UP, dim=0, index=2), Pattern("input=bn", _sizes=_UP, dim=-1, index=-1))
reference("Slice", slices, Pattern("input=nb", _sizes=_UP, begin=(1, 0), size=(2, -1)),
          Pattern("input=bn", _sizes=_UP, begin=(0, 1), size=lambda s: (s["b"], 2)))
reference("StridedSlice", strided,
          Pattern("input=nb", _sizes=_UP, begin=(0, 0), end=lambda s: (s["n"], s["b"]), strides=(2, 1)),
          Pattern("input=nb", _sizes=_UP, begin=(1, 0), end=lambda s: (3, s["b"])),
          Pattern("input=bn", _sizes=_UP, begin=(0, 1), end=(0, 3), end_mask=1),
          Pattern("input=nb", _sizes=_UP, begin=(2, 0), end=lambda s: (3, s["b"]), shrink_axis_mask=1))

# -- lookups -----------------------------------------------------------------------------------------------------------


def one_hot(v: dict):
    """A new dimension that holds `on_value` at the class and `off_value` elsewhere."""
    ids, dim = v["input"], v["dim"]
    on = np.asarray(1, np.int64) if v["on_value"] is None else v["on_value"]
    off = np.asarray(0, np.int64) if v["off_value"] is None else v["off_value"]
    hot = np.expand_dims(ids, -1) == np.arange(v["num_classes"])
    return np.moveaxis(np.where(hot, on, off), -1, dim)


reference("GatherNd GatherNdExt", lambda v: v["input"][tuple(np.moveaxis(v["index"], -1, 0))],
          Pattern("input=nb index=i1/index(n)", _sizes=_UP), Pattern("input=nnb index=i2/index(n)", _sizes=_UP),
          Pattern("input=nn index=ij2/index(n)", _sizes=_UP))
_HOT = (Pattern("input=ab/index(4)", num_classes=4), Pattern("input=ab/index(3)", num_classes=3, dim=0),
        Pattern("input=a/index(4) on_value=. off_value=.", num_classes=4))
reference("OneHotExt OneHot", one_hot, *_HOT)

# -- movements inside a dimension ------------------------------------------------------------------------------------


def pad(v: dict):
    """(before, after) per dimension, the last dimension first."""
    x, padding = v["input"], v["padding"]
    widths = [(0, 0)] * x.ndim
    for i in range(len(padding) // 2):
        widths[x.ndim - 1 - i] = (padding[2 * i], padding[2 * i + 1])
    return np.pad(x, widths, constant_values=v["value"])


_TRIANGLES = (Pattern("input=ab"), Pattern("input=abc", diagonal=1), Pattern("input=abc", diagonal=-1))
reference("Triu", lambda v: np.triu(v["input"], v["diagonal"]), *_TRIANGLES)
reference("TrilExt Tril", lambda v: np.tril(v["input"], v["diagonal"]), *_TRIANGLES)
reference("ReverseV2", lambda v: np.flip(v["input"], tuple(np.atleast_1d(v["dim"]).astype(int))),
          *(Pattern("input=abc", dim=d) for d in ((0,), (-1,), (0, 2), ())))
reference("Roll", lambda v: np.roll(v["input"], v["shifts"], v["dims"]), Pattern("input=abc", shifts=(1,), dims=(0,)),
          Pattern("input=abc", shifts=(1, -1), dims=(0, -1)), Pattern("input=ab", shifts=2))
reference("ConstantPadND", pad, Pattern("input=ab", padding=(1, 2)), Pattern("input=ab", padding=(0, 0, 1, 0)),
          Pattern("input=ab", padding=(0, 1), value=2.0), Pattern("input=ab", padding=(0, 1), value=-1.5))

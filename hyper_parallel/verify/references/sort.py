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
"""Meaning of orderings along a dimension, diagonals and traces."""
from __future__ import annotations

import numpy as np

from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference
from hyper_parallel.verify.tape import plain


def order(x, dim: int, descending: bool):
    """Indices that sort x; values are distinct, so that the order is unique."""
    value = -plain(x) if descending else plain(x)
    return np.argsort(value, axis=dim, kind="stable") if value.ndim else np.zeros((), np.int64)


def sort(v: dict):
    """(sorted values, indices)."""
    x, dim = v["input"], v["dim"]
    index = order(x, dim, v["descending"])
    return (np.take_along_axis(x, index, dim), index) if x.ndim else (x * 1, index)


def argsort(v: dict):
    """Indices that sort."""
    return order(v["input"], v["dim"], v["descending"])


def topk(v: dict):
    """(the k largest or smallest values, indices)."""
    x, dim = v["input"], v.get("dim", -1)
    index = np.take(order(x, dim, v.get("largest", True)), np.arange(v["k"]), dim)
    return np.take_along_axis(x, index, dim), index


_SORTED = (Pattern("input=ab/distinct"), Pattern("input=ab/distinct", dim=0, descending=True),
           Pattern("input=abc/distinct", dim=1))
reference("SortExt Sort", sort, *_SORTED)
reference("ArgSort", argsort, *_SORTED, differentiable=False)
reference("TopK", topk, Pattern("input=a4/distinct", k=2), Pattern("input=ab3/distinct", k=3))
reference("TopkExt", topk, Pattern("input=a4/distinct", k=2), Pattern("input=4a/distinct", k=1, dim=0, largest=False))
_PLANES = (Pattern("input=ab"), Pattern("input=abc", offset=1, dim1=1, dim2=2), Pattern("input=abc", dim1=0, dim2=-1),
           Pattern("input=ab", offset=-1))
reference("Diagonal DiagonalView", lambda v: np.diagonal(v["input"], v["offset"], v["dim1"], v["dim2"]), *_PLANES)
reference("Trace TraceExt", lambda v: np.trace(v["input"]), Pattern("input=ab"))

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
"""Meaning of operations that move elements: transposes, reshapes, expansions, joins and splits."""
from __future__ import annotations

import math

import numpy as np

from hyper_parallel.verify.kernels import kernel
from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference

# -- transposes ------------------------------------------------------------------------------------------------------


def permute(v: dict):
    """Dimensions in a given order; none given reverses them."""
    return np.transpose(v["input"], tuple(v["dims"]) or None)


def swap(v: dict):
    """Two dimensions exchanged."""
    return np.swapaxes(v["input"], v["dim0"], v["dim1"]) if v["input"].ndim else v["input"]


def deprecated_transpose(v: dict):
    """Two dimensions exchanged when two are named of more, else permuted."""
    if len(v["dims"]) == 2 and v["input"].ndim != 2:
        return np.swapaxes(v["input"], *v["dims"])
    return permute(v)


_PERMUTED = (Pattern("input=abc", dims=(2, 0, 1)), Pattern("input=ab", dims=(-1, 0)), Pattern("input=ab", dims=()),
             Pattern("input=abcd", dims=(0, 2, 1, 3)))
reference("Transpose TransposeView", permute, *_PERMUTED)
reference("DeprecatedTranspose", deprecated_transpose, *_PERMUTED, Pattern("input=abc", dims=(0, -1)))
reference("TransposeExtView", swap, Pattern("input=ab", dim0=0, dim1=1), Pattern("input=abc", dim0=-1, dim1=-2),
          Pattern("input=abc", dim0=0, dim1=2), Pattern("input=.", dim0=0, dim1=0))
reference("TExt", lambda v: np.transpose(v["input"]), Pattern("input=ab"), Pattern("input=a"), Pattern("input=."))

# -- reshapes --------------------------------------------------------------------------------------------------------


@kernel("reshape")
def local_reshape(v: dict, shape: tuple):
    """The local tensor in its local shape."""
    return np.reshape(v["input"], shape)


def reshape(v: dict):
    """The elements in another shape."""
    return np.reshape(v["input"], tuple(v["shape"]))


def flatten(v: dict):
    """Dimensions start..end merged."""
    x = v["input"]
    if not x.ndim:
        return np.reshape(x, (1,))
    start, end = v["start_dim"] % x.ndim, v["end_dim"] % x.ndim
    return np.reshape(x, x.shape[:start] + (math.prod(x.shape[start:end + 1]),) + x.shape[end + 1:])


def squeeze(v: dict):
    """Named dimensions of size 1 removed."""
    x, dim = v["input"], v["dim"]
    named = range(x.ndim) if dim is None else [d % x.ndim for d in np.atleast_1d(dim)]
    return np.squeeze(x, tuple(d for d in named if x.shape[d] == 1))


_SPLIT = {"n": lambda s: 2 * s["a"], "a": None}  # n splits into (a, 2) and (2, a)
RESHAPED = (
    Pattern("input=ab", shape=lambda s: (s["a"] * s["b"],)), Pattern("input=ab", shape=lambda s: (s["a"], s["b"], 1)),
    Pattern("input=ab", shape=lambda s: (1, s["a"], s["b"])), Pattern("input=abc", shape=lambda s: (s["a"], -1)),
    Pattern("input=abc", shape=lambda s: (-1, s["c"])), Pattern("input=a1b", shape=lambda s: (s["a"], s["b"])),
    Pattern("input=1ab", shape=lambda s: (s["a"], 1, s["b"])), Pattern("input=ab", shape=lambda s: (s["a"], s["b"])),
    Pattern("input=nb", _sizes=_SPLIT, shape=lambda s: (s["a"], 2, s["b"])),
    Pattern("input=nb", _sizes=_SPLIT, shape=lambda s: (2, s["a"], s["b"])),
    Pattern("input=bn", _sizes=_SPLIT, shape=lambda s: (s["b"], s["a"], 2)),
    Pattern("input=n2", _sizes=_SPLIT, shape=lambda s: (s["a"], 4)),
    Pattern("input=a2b", shape=lambda s: (2 * s["a"], s["b"])), Pattern("input=.", shape=(1, 1)),
    Pattern("input=11", shape=()), Pattern("input=ab", shape=lambda s: (s["b"], s["a"])))
reference("Reshape View", reshape, *RESHAPED)
reference("ViewAs", lambda v: np.reshape(v["input"], v["other"].shape), Pattern("input=ab other=ab1"),
          Pattern("input=a2b other=nb", _sizes=_SPLIT), Pattern("input=nb other=a2b", _sizes=_SPLIT),
          Pattern("input=ab other=ba"))
reference("FlattenExt", flatten, Pattern("input=abc"), Pattern("input=abc", start_dim=1),
          Pattern("input=abc", start_dim=0, end_dim=1), Pattern("input=a2b", end_dim=-2), Pattern("input=."))
_NEW_DIMS = tuple(Pattern("input=ab", dim=d) for d in (0, 1, 2, -1, -2)) + (Pattern("input=abc", dim=1),)
reference("ExpandDims ExpandDimsView DeprecatedUnsqueeze", lambda v: np.expand_dims(v["input"], v["dim"]), *_NEW_DIMS)
reference("Squeeze", squeeze, Pattern("input=a1b"), Pattern("input=a1b", dim=1), Pattern("input=1ab1", dim=(0, -1)),
          Pattern("input=ab", dim=0), Pattern("input=11"))

# -- expansions --------------------------------------------------------------------------------------------------------


def broadcast_to(v: dict):
    """Size-1 dimensions expanded; -1 keeps a size."""
    x, shape = v["input"], tuple(v["shape"])
    offset = len(shape) - x.ndim
    return np.broadcast_to(x, tuple(x.shape[i - offset] if s == -1 else s for i, s in enumerate(shape)))


def tile(v: dict):
    """Whole repetitions per dimension."""
    return np.tile(v["input"], tuple(v["dims"]))


def interleave(v: dict):
    """Every element repeated in place."""
    return np.repeat(v["input"], v["repeats"], v["dim"])


reference("BroadcastTo BroadcastToView", broadcast_to, Pattern("input=a1", shape=lambda s: (s["a"], 3)),
          Pattern("input=a1", shape=lambda s: (2, -1, 3)), Pattern("input=ab", shape=(-1, -1)),
          Pattern("input=ab", shape=lambda s: (1, s["a"], s["b"])), Pattern("input=.", shape=(2, 3)))
reference("ExpandAs", lambda v: np.broadcast_to(v["input"], v["other"].shape), Pattern("input=a1 other=ab"),
          Pattern("input=b other=ab"), Pattern("input=. other=ab"), Pattern("input=ab other=ab"))
reference("Tile Repeat", tile, Pattern("input=ab", dims=(1, 2)), Pattern("input=ab", dims=(2, 1, 1)),
          Pattern("input=ab", dims=(1, 1)))
reference("RepeatInterleaveInt DeprecatedRepeatInterleave", interleave,
          *(Pattern("input=ab", repeats=2, dim=d) for d in (0, -1, None)),
          Pattern("input=ab", repeats=1, dim=0))

# -- joins and splits --------------------------------------------------------------------------------------------------


def add_n(v: dict):
    """The sum of all members."""
    total = v["tensors"][0]
    for member in v["tensors"][1:]:
        total = total + member
    return total


def parts(x, sizes, dim: int) -> list:
    """Consecutive parts of the given sizes."""
    ends = np.cumsum([0, *sizes])
    return [np.take(x, np.arange(a, b), dim) for a, b in zip(ends, ends[1:])]


def even(total: int, step: int) -> list:
    """Sizes of parts of `step`, the last one short."""
    return [min(step, total - begin) for begin in range(0, total, step)] if total else [0]


def split(v: dict):
    """Parts of a given size or of given sizes."""
    x, dim, size = v["input"], v["dim"], v["split_size"]
    return tuple(parts(x, even(x.shape[dim], size) if isinstance(size, int) else size, dim))


def split_equal(v: dict):
    """A number of equal parts."""
    x, dim, count = v["input"], v["dim"], v["output_num"]
    return tuple(parts(x, [x.shape[dim] // count] * count, dim))


def chunk(v: dict):
    """At most `chunks` parts of ceil size."""
    x, dim = v["input"], v["dim"]
    return tuple(parts(x, even(x.shape[dim], -(-x.shape[dim] // v["chunks"])), dim))


def unstack(v: dict):
    """One part per index."""
    x, dim = v["input"], v["dim"]
    return tuple(np.squeeze(np.take(x, [i], dim), dim) for i in range(x.shape[dim]))


reference("Concat", lambda v: np.concatenate(v["tensors"], v["dim"]), Pattern("tensors=[ab,cb]", dim=0),
          Pattern("tensors=[ab,ac]", dim=-1), Pattern("tensors=[ab,ab,ab]", dim=1), Pattern("tensors=[ab]", dim=0))
reference("StackExt Stack", lambda v: np.stack(v["tensors"], v["dim"]), Pattern("tensors=[ab,ab]", dim=0),
          Pattern("tensors=[ab,ab]", dim=-1), Pattern("tensors=[a,a,a]", dim=1), Pattern("tensors=[.,.]", dim=0))
reference("AddN", add_n, Pattern("tensors=[ab,ab]"), Pattern("tensors=[a,a,a]"), Pattern("tensors=[ab]"))
_UP = {"n": lambda s: 3 + s["a"], "a": None}  # at least 4, so that there is something to split
reference("SplitTensor SplitTensorView", split, Pattern("input=nb", _sizes=_UP, split_size=2, dim=0),
          Pattern("input=bn", _sizes=_UP, split_size=3, dim=-1))
reference("SplitWithSize SplitWithSizeView", split,
          Pattern("input=nb", _sizes=_UP, split_size=lambda s: (2, s["n"] - 2), dim=0),
          Pattern("input=bn", _sizes=_UP, split_size=lambda s: (1, s["n"] - 2, 1), dim=1))
reference("Split", split_equal, Pattern("input=nb", _sizes=_SPLIT, dim=0, output_num=2),
          Pattern("input=bn", _sizes=_SPLIT, dim=-1, output_num=2))
reference("Chunk ChunkView", chunk, Pattern("input=nb", _sizes=_UP, chunks=2, dim=0),
          Pattern("input=bn", _sizes=_UP, chunks=3, dim=-1))
reference("UnstackExtView Unstack", unstack, Pattern("input=3b", dim=0), Pattern("input=b2", dim=-1))

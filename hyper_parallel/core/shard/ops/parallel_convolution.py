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
"""Convolutions, and slices of one dimension.

One mesh axis, convolution; x, w, bias -> result (b: batch, c: channels in, o: channels out; one group):
    S(b), R, R -> S(b)    R, S(o), S(o) -> S(o)    S(c), S(c) -> P(sum), the bias enters once
"""
from __future__ import annotations

import functools

from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters, normal_dim
from hyper_parallel.core.shard.ops.parallel_index import pick_signature
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError


def convolver(spatial: int):
    """The binder of a convolution over so many spatial dimensions."""

    def bind(call: Call) -> Bound:
        x, w, bias = call["input"], call["weight"], call["bias"]
        if len(x.shape) != spatial + 2 or len(w.shape) != spatial + 2:
            raise LayoutError(f"{call.name} takes a batch, (n, channels, ...), and as many dimensions of weights. "
                              f"Got {x.shape} and {w.shape}.")
        steps = [_each(call[p], spatial) for p in ("stride", "padding", "dilation")]
        sizes = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1
                      for n, k, s, p, d in zip(x.shape[2:], w.shape[2:], *steps))
        signature = convolution_signature(call.name, spatial, call["groups"] == 1, isinstance(bias, Operand))
        return Bound(signature, ((x.shape[0], w.shape[0]) + sizes,))

    return bind


def _each(value, count: int) -> tuple:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


@functools.lru_cache(maxsize=64)
def convolution_signature(name: str, spatial: int, one_group: bool, biased: bool) -> Signature:
    """Bilinear in x and w; channels of several groups must be whole."""
    rest = (None,) * spatial
    c, o = ("c", "o") if one_group else (None, None)
    inputs = (("b", c, *rest), (o, c, *rest)) + (((o,),) if biased else ())
    terms = ((0, 1), (2,)) if biased else ((0, 1),)
    return Signature(name, inputs, (("b", o, *rest),), reduces={"c": "sum"} if one_group else {}, terms=terms)


def bind_slice_ext(call: Call) -> Bound:
    """Elements start, start + step, ... before end of one dimension, which must be whole."""
    shape = call["input"].shape
    dim = normal_dim(call.name, call["dim"], len(shape))
    size = len(range(shape[dim])[slice(call["start"], call["end"], call["step"])])
    x = tuple(None if d == dim else c for d, c in enumerate(letters(len(shape))))
    return Bound(pick_signature(call.name, x, x), (shape[:dim] + (size,) + shape[dim + 1:],))


for _name, _rank in (("Conv1DExt", 1), ("Conv2DExt", 2), ("Conv3DExt", 3)):
    declare(_name, "input:t weight:t bias:t=None stride=1 padding=0 dilation=1 groups=1", convolver(_rank))
for _name in ("SliceExt", "SliceExtView"):
    declare(_name, "input:t dim start end step=1", bind_slice_ext)

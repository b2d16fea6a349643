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
"""Transposes and permutes in all spellings: letters move with their dimensions, whatever is pending stays."""
from __future__ import annotations

import functools

from hyper_parallel.core.shard.declaration import Bound, Call, letters, normal_dim
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError


@functools.lru_cache(maxsize=1024)
def permutation_signature(name: str, perm: tuple) -> Signature:
    """Output dimension i is input dimension perm[i]."""
    names = letters(len(perm))
    return Signature(name, (names,), (tuple(names[p] for p in perm),), terms=((0,),), movement=True)


def _permuted(call: Call, perm: tuple) -> Bound:
    shape = call["input"].shape
    return Bound(permutation_signature(call.name, perm), (tuple(shape[p] for p in perm),))


def bind_permute(call: Call) -> Bound:
    """Dimensions in a given order; none given reverses them."""
    ndim, dims = len(call["input"].shape), tuple(call["dims"])
    perm = tuple(normal_dim(call.name, d, ndim) for d in dims) if dims else tuple(reversed(range(ndim)))
    if sorted(perm) != list(range(ndim)):
        raise LayoutError(f"{call.name}: {dims} is no permutation of the {ndim} dimensions of {call['input'].shape}.")
    return _permuted(call, perm)


def bind_swap(call: Call) -> Bound:
    """Two dimensions exchanged."""
    ndim = len(call["input"].shape)
    perm = list(range(ndim))
    if ndim:
        a, b = (normal_dim(call.name, call[d], ndim) for d in ("dim0", "dim1"))
        perm[a], perm[b] = perm[b], perm[a]
    return _permuted(call, tuple(perm))


def bind_deprecated(call: Call) -> Bound:
    """`x.transpose(...)`: two dimensions of a tensor of more are exchanged, all of them permuted."""
    dims = tuple(call["dims"])
    if len(dims) == 2 and len(call["input"].shape) != 2:
        return bind_swap(Call(call.name, {"input": call["input"], "dim0": dims[0], "dim1": dims[1]}))
    return bind_permute(call)


def bind_t(call: Call) -> Bound:
    """The matrix transpose of at most two dimensions."""
    ndim = len(call["input"].shape)
    if ndim > 2:
        raise LayoutError(f"{call.name} takes at most 2 dimensions. Got {call['input'].shape}: use "
                          f"transpose(dim0, dim1).")
    return _permuted(call, tuple(reversed(range(ndim))))


for _name in ("Transpose", "TransposeView"):
    declare(_name, "input:t *dims=()", bind_permute)
declare("DeprecatedTranspose", "input:t *dims=()", bind_deprecated)
declare("TransposeExtView", "input:t dim0 dim1", bind_swap)
declare("TExt", "input:t", bind_t)

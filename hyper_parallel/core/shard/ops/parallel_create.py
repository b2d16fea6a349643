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
"""Tensors made after another: only its shape is read, so the result follows its cuts and is whole where it is pending.

A tensor of zeros or ones holds the same value on every rank of a pending axis; it is a replica there.
"""
from __future__ import annotations

import functools

from hyper_parallel.core.shard.declaration import Bound, Call, letters
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature


@functools.lru_cache(maxsize=512)
def like_signature(name: str, ndim: int) -> Signature:
    """The result has the operand's cuts and nothing of its values."""
    x = letters(ndim)
    return Signature(name, (x,), (x,), no_grad=frozenset((0,)), shape_only=frozenset((0,)))


@functools.lru_cache(maxsize=512)
def new_signature(name: str, ndim: int, new: int) -> Signature:
    """The result has a shape of its own and is the same on every rank, whatever the operand's layout."""
    return Signature(name, ((None,) * ndim,), ((None,) * new,), no_grad=frozenset((0,)), shape_only=frozenset((0,)))


def bind_like(call: Call) -> Bound:
    """Shape and cuts of the operand."""
    x = call["input"]
    return Bound(like_signature(call.name, len(x.shape)), (x.shape,))


def bind_empty_like(call: Call) -> Bound:
    """Shape and cuts of the operand; zeros, because memory as found would differ between replicas."""
    bound = bind_like(call)
    return Bound(bound.signature, bound.out_shapes, kernel=lambda place: ("zeros_like", {}))


def bind_new(call: Call) -> Bound:
    """A shape of its own, whole on every rank."""
    return _new(call, None)


def bind_new_empty(call: Call) -> Bound:
    """As `bind_new`; zeros, because memory as found would differ between replicas."""
    return _new(call, lambda place: ("new_zeros", {}))


def _new(call: Call, kernel) -> Bound:
    size = call["size"] if isinstance(call["size"], (tuple, list)) else (call["size"],)
    return Bound(new_signature(call.name, len(call["input"].shape), len(size)), (tuple(size),), kernel=kernel)


for _name in ("ZerosLike", "OnesLike"):
    declare(_name, "input:t", bind_like)
for _name in ("ZerosLikeExt", "OnesLikeExt"):
    declare(_name, "input:t dtype=None device=None", bind_like)
declare("FullLike", "input:t fill_value dtype=None", bind_like)
declare("EmptyLike", "input:t dtype=None device=None pin_memory=False", bind_empty_like)
for _name in ("NewZeros", "NewOnes"):
    declare(_name, "input:t *size dtype=None", bind_new)
declare("NewFull", "input:t size fill_value dtype=None", bind_new)
declare("NewEmpty", "input:t *size dtype=None device=None", bind_new_empty)

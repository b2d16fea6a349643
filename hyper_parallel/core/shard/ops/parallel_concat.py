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
"""Joining tensors: the joined dimension must be whole; a pending sum takes replicas in, once each.

concat_i(sum_c x_ic) = sum_c concat_i(x_ic), and a replica is the sum of itself on coordinate 0 and zeros elsewhere.
"""
from __future__ import annotations

import functools

from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters, normal_dim
from hyper_parallel.core.shard.ops.nature import broadcast
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError


@functools.lru_cache(maxsize=4096)
def join_signature(name: str, dims: tuple, out: tuple, count: int) -> Signature:
    """`count` operands with the same letters, each copied into the result."""
    return Signature(name, (dims,) * count, (out,), terms=tuple((i,) for i in range(count)), movement=True)


def _members(call: Call) -> tuple:
    members = tuple(call["tensors"])
    if not members or not all(isinstance(m, Operand) for m in members):
        raise LayoutError(f"{call.name} joins a non-empty list of DTensors. Got {len(members)} members.")
    if len({len(m.shape) for m in members}) > 1:
        raise LayoutError(f"{call.name}: the shapes {[m.shape for m in members]} differ in their number of dimensions.")
    return members


def _check_equal(call: Call, members, but: int | None) -> None:
    kept = {m.shape if but is None else m.shape[:but] + m.shape[but + 1:] for m in members if m.exact}
    if len(kept) > 1:
        raise LayoutError(f"{call.name}: the shapes {[m.shape for m in members]} do not fit together.")


def bind_concat(call: Call) -> Bound:
    """Tensors one after the other along a dimension."""
    members = _members(call)
    first = members[0].shape
    if not first:
        raise LayoutError(f"{call.name}: tensors without dimensions cannot be concatenated. Use stack.")
    dim = normal_dim(call.name, call["dim"], len(first))
    _check_equal(call, members, dim)
    names = tuple(None if i == dim else c for i, c in enumerate(letters(len(first))))
    shape = first[:dim] + (sum(m.shape[dim] for m in members),) + first[dim + 1:]
    return Bound(join_signature(call.name, names, names, len(members)), (shape,))


def bind_stack(call: Call) -> Bound:
    """Tensors of one shape along a new dimension."""
    members = _members(call)
    first = members[0].shape
    dim = normal_dim(call.name, call["dim"], len(first) + 1)
    _check_equal(call, members, None)
    names = letters(len(first))
    return Bound(join_signature(call.name, names, names[:dim] + (None,) + names[dim:], len(members)),
                 (first[:dim] + (len(members),) + first[dim:],))


def bind_add_n(call: Call) -> Bound:
    """The sum of tensors of one shape."""
    members = _members(call)
    _check_equal(call, members, None)
    _, names, shape = broadcast(call.name, members)
    return Bound(sum_signature(call.name, names, len(members)), (shape,))


@functools.lru_cache(maxsize=1024)
def sum_signature(name: str, dims: tuple, count: int) -> Signature:
    """Elementwise sum of `count` operands, each a term."""
    return Signature(name, (dims,) * count, (dims,), terms=tuple((i,) for i in range(count)), monotone=(1,) * count)


declare("Concat", "tensors:t dim=0", bind_concat)
for _name in ("StackExt", "Stack"):
    declare(_name, "tensors:t dim=0", bind_stack)
declare("AddN", "tensors:t", bind_add_n)

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
"""Reshapes: which cuts survive, exactly.

Dimensions of the two shapes fall into groups of equal extent, (6, 4, 5) -> (24, 5) into 6*4 | 24 and 5 | 5. A cut
survives when it sits on the leading dimension of its group (factors of 1 aside) and, for every rank, the block of the
input's ceil cut is the block of the output's:
    ceil(A / n) * a == ceil(B / n) * b
with A, B the leading extents and a, b what follows them; so too for every further axis, on what the axis before left.
Everything else is refused: a rank's block would be no contiguous ceil chunk of the result. Whatever is pending stays.
"""
from __future__ import annotations

import functools
import math

from hyper_parallel.core.dtensor.cuts import ceil_div
from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters, normal_dim, normal_dims
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError

# -- which blocks agree ----------------------------------------------------------------------------------------------


def same_blocks(lead: int, rest: int, new_lead: int, new_rest: int, axes: tuple) -> bool:
    """True when successive ceil cuts of `lead` and of `new_lead` give every rank the same flat block.

    Chunks of one cut have at most three lengths (full, tail, empty), so the check does not depend on rank counts.
    """
    if not axes or lead == 0:
        return True
    step, new_step = ceil_div(lead, axes[0]), ceil_div(new_lead, axes[0])
    if step * rest != new_step * new_rest:
        return False
    tails = {(step, new_step), (_tail(lead, step, axes[0]), _tail(new_lead, new_step, axes[0]))}
    return all(same_blocks(a, rest, b, new_rest, axes[1:]) for a, b in tails)


def _tail(size: int, step: int, n: int) -> int:
    """Length of the last chunk that is not empty."""
    return size - step * (min(n, ceil_div(size, step)) - 1)


def groups(shape: tuple, new: tuple):
    """Pairs of dimension lists (old, new) of equal extent, as fine as possible; sizes must not be zero.

    Examples:
        >>> groups((6, 4, 5), (24, 5))
        [([0, 1], [0]), ([2], [1])]
    """
    found, i, j = [], 0, 0
    while i < len(shape) or j < len(new):
        old_dims, new_dims = [], []
        p = q = 1
        if i < len(shape) and j < len(new):
            old_dims, new_dims, p, q, i, j = [i], [j], shape[i], new[j], i + 1, j + 1
            if 1 in (p, q) and p != q:  # a lone factor of 1 makes a group of its own
                i, j, old_dims, new_dims = (i, j - 1, old_dims, []) if p == 1 else (i - 1, j, [], new_dims)
                p = q = 1
        elif i < len(shape):
            old_dims, p, i = [i], shape[i], i + 1
        else:
            new_dims, q, j = [j], new[j], j + 1
        while p != q:
            if p < q:
                old_dims, p, i = old_dims + [i], p * shape[i], i + 1
            else:
                new_dims, q, j = new_dims + [j], q * new[j], j + 1
        found.append((old_dims, new_dims))
    return found


# -- the signature ---------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8192)
def reshape_signature(name: str, shape: tuple, new: tuple) -> Signature:
    """Letters and conditions of a reshape between global shapes of equal extent."""
    x, out = list(letters(len(shape))), [None] * len(new)
    conditions = {}
    if 0 in shape:
        if shape == new:
            out = x
        else:
            conditions = dict.fromkeys(x, _always("a tensor without elements is reshaped; no cut has a meaning there."))
    else:
        for old_dims, new_dims in groups(shape, new):
            _join(shape, new, old_dims, new_dims, x, out, conditions)
    return Signature(name, (tuple(x),), (tuple(out),), terms=((0,),), movement=True, conditions=conditions)


def _always(reason: str):
    return lambda axes: reason


def _join(shape, new, old_dims, new_dims, x, out, conditions) -> None:
    """Carry the letter of the group's leading dimension over, and say what refuses the others."""
    shown = f"{tuple(shape[d] for d in old_dims)} -> {tuple(new[d] for d in new_dims)}"
    real = [d for d in old_dims if shape[d] > 1]
    made = [d for d in new_dims if new[d] > 1]
    pairs = list(zip(real or old_dims, made or new_dims))[:1]
    for d in set(old_dims) - {pair[0] for pair in pairs}:
        conditions[x[d]] = _always(f"dimension {d} of {shape} is cut and reshaped as {shown}, but it is not the "
                                   f"leading dimension there: a rank's part is no contiguous block of the result.")
    for d, e in pairs:
        out[e] = x[d]
        if shape[d] != new[e]:
            conditions[x[d]] = _blocks(shape[d], math.prod(shape[i] for i in real[1:]),
                                       new[e], math.prod(new[i] for i in made[1:]), d, shown)


def _blocks(lead: int, rest: int, new_lead: int, new_rest: int, dim: int, shown: str):
    def condition(axes: tuple):
        if same_blocks(lead, rest, new_lead, new_rest, axes):
            return None
        return (f"dimension {dim} is cut by axes of sizes {axes} and reshaped as {shown}, where the cuts of {lead} and "
                f"of {new_lead} give a rank different elements. Choose sizes that the axes divide.")

    return condition


# -- binders ---------------------------------------------------------------------------------------------------------


def resolve(name: str, x: Operand, new) -> tuple:
    """The new global shape with -1 filled in.

    Raises:
        LayoutError: when extents differ, -1 cannot be resolved, or the global shape is not known.
    """
    _check_known(name, x)
    shape, new = x.shape, tuple(int(s) for s in new)
    total, known = math.prod(shape), math.prod(s for s in new if s != -1)
    if new.count(-1) == 1 and known and total % known == 0:
        new = tuple(total // known if s == -1 else s for s in new)
    if any(s < 0 for s in new) or math.prod(new) != total:
        raise LayoutError(f"{name}: the global shape {shape} does not reshape to {new}.")
    return new


def _check_known(name: str, x: Operand) -> None:
    if not x.exact:
        raise LayoutError(f"{name} depends on the global shape. Record it on the layout first: "
                          f"layout.set_tensor_meta(shape).")


def reshaped(call: Call, new: tuple, **options) -> Bound:
    """A reshape of `input` to the global shape `new`."""
    return Bound(reshape_signature(call.name, call["input"].shape, new), (new,), **options)


def _as_form(place):
    """The local form of a reshape whose own arguments do not name the local shape."""
    return "reshape", {"shape": place.out_shape()}


def bind_reshape(call: Call) -> Bound:
    """To a shape, given as one tuple or as star arguments."""
    new = resolve(call.name, call["input"], call["shape"])
    return reshaped(call, new, localize=lambda place: {"shape": place.out_shape()})


def bind_flatten(call: Call) -> Bound:
    """Dimensions start..end merged; a tensor without dimensions becomes one of one."""
    shape = call["input"].shape
    if not shape:
        return reshaped(call, (1,))
    _check_known(call.name, call["input"])
    start, end = (normal_dim(call.name, call[d], len(shape)) for d in ("start_dim", "end_dim"))
    if start > end:
        raise LayoutError(f"{call.name}: start_dim {call['start_dim']} comes after end_dim {call['end_dim']}.")
    new = shape[:start] + (math.prod(shape[start:end + 1]),) + shape[end + 1:]
    return reshaped(call, new, kernel=_as_form)


def bind_view_as(call: Call) -> Bound:
    """To the global shape of another tensor, of which nothing else is read."""
    other = call["other"]
    new = resolve(call.name, call["input"], other.shape)
    base = reshaped(call, new)
    return Bound(_with_shape_operand(base.signature, len(other.shape)), (new,), kernel=_as_form)


@functools.lru_cache(maxsize=1024)
def _with_shape_operand(base: Signature, ndim: int) -> Signature:
    return Signature(base.name, base.inputs + ((None,) * ndim,), base.outputs, terms=base.terms, movement=True,
                     conditions=base.conditions, no_grad=frozenset((1,)), shape_only=frozenset((1,)))


def bind_expand_dims(call: Call) -> Bound:
    """A dimension of size 1 is inserted."""
    shape = call["input"].shape
    dim = normal_dim(call.name, call["dim"], len(shape) + 1)
    return Bound(_inserted(call.name, len(shape), dim), (shape[:dim] + (1,) + shape[dim:],))


@functools.lru_cache(maxsize=1024)
def _inserted(name: str, ndim: int, dim: int) -> Signature:
    names = letters(ndim)
    return Signature(name, (names,), (names[:dim] + (None,) + names[dim:],), terms=((0,),), movement=True)


def bind_squeeze(call: Call) -> Bound:
    """Dimensions of size 1 are removed; those of other sizes stay, as if not named."""
    shape, named = call["input"].shape, call["dim"]
    named = range(len(shape)) if named is None else normal_dims(call.name, named, len(shape))
    gone = tuple(d for d in named if shape[d] == 1)
    new = tuple(s for d, s in enumerate(shape) if d not in gone)
    return Bound(_removed(call.name, len(shape), gone), (new,), kernel=_as_form)


@functools.lru_cache(maxsize=1024)
def _removed(name: str, ndim: int, gone: tuple) -> Signature:
    names = letters(ndim)
    return Signature(name, (tuple(None if d in gone else c for d, c in enumerate(names)),),
                     (tuple(c for d, c in enumerate(names) if d not in gone),), terms=((0,),), movement=True)


for _name in ("Reshape", "View"):
    declare(_name, "input:t *shape", bind_reshape)
declare("ViewAs", "input:t other:t", bind_view_as)
declare("FlattenExt", "input:t start_dim=0 end_dim=-1", bind_flatten)
for _name in ("ExpandDims", "ExpandDimsView", "DeprecatedUnsqueeze"):
    declare(_name, "input:t dim", bind_expand_dims)
declare("Squeeze", "input:t dim=None", bind_squeeze)

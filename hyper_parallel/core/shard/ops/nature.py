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
"""What an elementwise operation is to a pending reduction, in terms of its parameters, and the binder that follows.

Scalars and tensors arrive in the same parameter (`Greater(x, 0)`, `Sub(1, x)`), so a nature names parameters and the
binder keeps those that hold tensors. A scalar in an additive place becomes a constant that enters once.
"""
from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError


@dataclass(frozen=True)
class Nature:
    """How an operation treats pending operands; every field names parameters.

    Attributes:
        terms: the operation is a sum of these products, each linear in every factor.
        rising: parameters in which it is non-decreasing.
        falling: parameters in which it is non-increasing.
        keeps: pending extrema that commute with it in value and in gradient, where it rises or falls.
        joint: reduce ops under which several operands may be pending at once.
        movement: elements are picked, never combined.
        constant: the parameter whose scalar is added.
        no_grad: parameters (masks, conditions) without gradient.
    """

    terms: tuple = ()
    rising: tuple = ()
    falling: tuple = ()
    keeps: tuple = ("max", "min")
    joint: tuple = ()
    movement: bool = False
    constant: str | None = None
    no_grad: tuple = ()


NONLINEAR = Nature()
RISING = Nature(rising=("input",))
CLAMPED = Nature(rising=("input", "min", "max"), keeps=())  # flat beyond its bounds, with slope 1 on them
FALLING = Nature(falling=("input",))
LINEAR_MOVE = Nature(terms=(("input",),), movement=True)


# -- letters of broadcast operands -----------------------------------------------------------------------------------


def broadcast(name: str, operands: list[Operand]):
    """Letters per operand, letters and shape of the result of elementwise broadcasting; sizes are global.

    A dimension of size 1 that broadcasts carries no letter: it can never be cut.

    Raises:
        LayoutError: when the shapes do not broadcast.
    """
    count = max(len(o.shape) for o in operands)
    sizes = [_common_size(name, operands, i - count) for i in range(count)]
    names = letters(count)
    return tuple(carried(o.shape, names, sizes) for o in operands), names, tuple(sizes)


def _common_size(name: str, operands, i: int) -> int:
    found = {o.shape[i] for o in operands if len(o.shape) >= -i} - {1}
    if len(found) > 1 and all(o.exact for o in operands):
        raise LayoutError(f"{name}: the shapes {[o.shape for o in operands]} do not broadcast.")
    return max(found, default=1)


def carried(shape: tuple, names: tuple, sizes) -> tuple:
    """Letters of right-aligned dimensions; None where a size-1 dimension broadcasts."""
    offset = len(sizes) - len(shape)
    return tuple(names[offset + i] if size == sizes[offset + i] else None for i, size in enumerate(shape))


# -- binding ---------------------------------------------------------------------------------------------------------


def bind_nature(call: Call, params: tuple, nature: Nature) -> Bound:
    """An elementwise operation over those of `params` that hold tensors."""
    present = tuple(p for p in params if isinstance(call[p], Operand))
    if not present:
        raise LayoutError(f"{call.name} needs a tensor among {list(params)}.")
    inputs, out, shape = broadcast(call.name, [call[p] for p in present])
    return Bound(nature_signature(call.name, present, inputs, out, nature), (shape,), localize=once(call, nature))


@functools.lru_cache(maxsize=8192)
def nature_signature(name: str, present: tuple, inputs: tuple, out: tuple, nature: Nature) -> Signature:
    """The signature of a nature over the parameters that hold tensors."""
    index = {p: i for i, p in enumerate(present)}
    terms = tuple(t for t in (tuple(index[p] for p in term if p in index) for term in nature.terms) if t)
    monotone = tuple((p in nature.rising) - (p in nature.falling) for p in present)
    return Signature(name, inputs, (out,), terms=terms, monotone=monotone, keeps=nature.keeps, joint=nature.joint,
                     movement=nature.movement, constant=nature.constant is not None,
                     no_grad=frozenset(index[p] for p in nature.no_grad if p in index))


def once(call: Call, nature: Nature):
    """`localize` of an added scalar: zero on every coordinate but 0 of the axes on which it enters once."""
    if nature.constant is None:
        return None
    zero = {nature.constant: type(call[nature.constant])(0)}

    def localize(place) -> dict:
        return zero if any(place.coordinate[a] for a in place.inference.constant_once) else {}

    return localize


def binder(nature, *params: str):
    """The binder of operations with this nature: a Nature, or a function of the call that gives one."""
    params = params or ("input",)

    def bind(call: Call) -> Bound:
        return bind_nature(call, params, nature(call) if callable(nature) else nature)

    return bind


# -- natures that depend on scalars ----------------------------------------------------------------------------------


def is_scalar(value) -> bool:
    """True for a Python number."""
    return isinstance(value, (bool, int, float))


def sign_of(value) -> int | None:
    """Sign of a finite static scalar; None for tensors, infinities and nan."""
    if not is_scalar(value) or not math.isfinite(value):
        return None
    return (value > 0) - (value < 0)


def added(call: Call, x: str = "input", y: str = "other", factor=1) -> Nature:
    """x + factor * alpha * y."""
    sign = sign_of(call.values.get("alpha", 1))
    if sign is None:
        return NONLINEAR
    sign *= factor
    constant = next((p for p in (x, y) if not isinstance(call[p], Operand)), None)
    return Nature(terms=((x,), (y,)), rising=(x, y) if sign > 0 else (x,), falling=(y,) if sign < 0 else (),
                  constant=constant)


def subtracted(call: Call, x: str = "input", y: str = "other") -> Nature:
    """x - alpha * y."""
    return added(call, x, y, -1)


def multiplied(call: Call, x: str = "input", y: str = "other") -> Nature:
    """x * y; a static finite scalar scales, and its sign tells the direction."""
    scalar = next((p for p in (x, y) if not isinstance(call[p], Operand)), None)
    if scalar is None:
        return Nature(terms=((x, y),))
    return scaled(y if scalar == x else x, sign_of(call[scalar]))


def divided(call: Call, x: str = "input", y: str = "other") -> Nature:
    """x / y: linear in the numerator alone."""
    if isinstance(call[y], Operand):
        return Nature(terms=((x,),)) if isinstance(call[x], Operand) else NONLINEAR
    return scaled(x, sign_of(call[y]) or None)


def scaled(x: str, sign: int | None) -> Nature:
    """A multiple of x; None stands for a factor under which linearity fails (0/0, inf - inf)."""
    if sign is None:
        return NONLINEAR
    return Nature(terms=((x,),), rising=(x,) if sign > 0 else (), falling=(x,) if sign < 0 else ())


def floor_divided(call: Call) -> Nature:
    """floor(x / k) or trunc(x / k): a step function, monotone for a static k."""
    if "rounding_mode" in call.values and call["rounding_mode"] is None:
        return divided(call)
    sign = None if isinstance(call["other"], Operand) else sign_of(call["other"])
    return Nature(rising=("input",) if sign == 1 else (), falling=("input",) if sign == -1 else ())


def selected(call: Call, x: str = "input", y: str = "other", condition: str = "condition") -> Nature:
    """where(condition, x, y): every element comes from one of the two."""
    constant = next((p for p in (x, y) if not isinstance(call[p], Operand)), None)
    return Nature(terms=((x,), (y,)), rising=(x, y), joint=("max", "min"), movement=constant is None,
                  constant=constant if constant and call[constant] != 0 else None, no_grad=(condition,))


def lerped(call: Call) -> Nature:
    """(1 - w) * x + w * y; for a static w it rises with x below 1, and with y above 0."""
    weight = call["weight"]
    if not is_scalar(weight):
        return Nature(terms=(("input",), ("end",)))
    if sign_of(weight) is None:
        return NONLINEAR
    slopes = {"input": sign_of(1 - weight), "end": sign_of(weight)}
    return Nature(terms=(("input",), ("end",)), rising=tuple(p for p, s in slopes.items() if s >= 0),
                  falling=tuple(p for p, s in slopes.items() if s < 0))

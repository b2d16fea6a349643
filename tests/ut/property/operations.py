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
"""The operations of random programs: how each is written on DTensors and in numpy, and what bounds its rounding.

Every form is program text over `{x}`, `{y}`, `{z}` and drawn parameters, so that what runs is what a failure prints.
`size` is the form over magnitudes: it dominates the result, and its derivative dominates every derivative, so that
n * eps * size bounds the rounding of a value, and its pullback that of a gradient.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable

import numpy as np
from hypothesis import strategies as st

from hyper_parallel.verify.tape import elementwise

# -- functions of the numpy forms ------------------------------------------------------------------------------------

_sigmoid = elementwise(lambda a: 1 / (1 + math.exp(-a)) if a > -700 else 0.0, lambda g, o, a: g * o * (1 - o))
_tanh = elementwise(math.tanh, lambda g, o, a: g * (1 - o * o))
_exp = elementwise(math.exp, lambda g, o, a: g * o)
_erf = elementwise(math.erf, lambda g, o, a: g * 2 / math.sqrt(math.pi) * np.exp(-a * a))


def _softmax(x, axis):
    """exp(x) / sum(exp(x)), shifted by a constant."""
    raised = _exp(x - float(np.max(getattr(x, "value", x))))
    return raised / np.sum(raised, axis=axis, keepdims=True)


NUMPY = {"np": np, "sigmoid": _sigmoid, "tanh": _tanh, "erf": _erf, "softmax": _softmax}

# -- parameters ------------------------------------------------------------------------------------------------------


def dim(draw, shape) -> dict:
    """One dimension."""
    return {"d": draw(st.integers(0, len(shape) - 1))}


def kept(draw, shape) -> dict:
    """One dimension, and whether it stays."""
    return {**dim(draw, shape), "keep": draw(st.booleans())}


def dims(draw, shape) -> dict:
    """Two dimensions."""
    return {"d": draw(st.integers(0, len(shape) - 1)), "e": draw(st.integers(0, len(shape) - 1))}


def order(draw, shape) -> dict:
    """A permutation of the dimensions."""
    return {"p": tuple(draw(st.permutations(range(len(shape)))))}


def piece(draw, shape) -> dict:
    """A stretch of one dimension."""
    d = draw(st.sampled_from([i for i, n in enumerate(shape) if n]))
    begin = draw(st.integers(0, shape[d] - 1))
    return {"d": d, "a": begin, "n": draw(st.integers(1, shape[d] - begin))}


def place(draw, shape) -> dict:
    """An index into the first dimension."""
    return {"a": draw(st.integers(-shape[0], shape[0] - 1))}


def scalar(draw, _shape) -> dict:
    """A factor or an addend."""
    return {"k": draw(st.sampled_from([2, -3, 3]))}


def half(draw, _shape) -> dict:
    """A dyadic fraction."""
    return {"k": draw(st.sampled_from([0.5, -0.5]))}


def rolled(draw, shape) -> dict:
    """A shift along one dimension."""
    return {**dim(draw, shape), "k": draw(st.integers(-3, 3))}


def new_dim(draw, shape) -> dict:
    """Where a dimension of size 1 goes."""
    return {"d": draw(st.integers(0, len(shape)))}


def single(draw, shape) -> dict:
    """A dimension of size 1."""
    return {"d": draw(st.sampled_from([i for i, n in enumerate(shape) if n == 1]))}


def other_shape(draw, shape) -> dict:
    """Another shape of as many elements: dimensions merged, or one split."""
    merged = [shape[:i] + (shape[i] * shape[i + 1],) + shape[i + 2:] for i in range(len(shape) - 1)]
    split = [shape[:i] + (f, n // f) + shape[i + 1:] for i, n in enumerate(shape) for f in range(1, n + 1)
             if n % f == 0 and len(shape) < 4]
    return {"s": draw(st.sampled_from([*merged, *split, (math.prod(shape),)]))}


def nothing(_draw, _shape) -> dict:
    """No parameter."""
    return {}


# -- shapes of the other operands ------------------------------------------------------------------------------------

SIZES = st.sampled_from([1, 2, 3, 4, 5])


def same(_draw, shape, _params) -> tuple:
    """The same shape."""
    return shape


def broadcast(draw, shape, _params) -> tuple:
    """A shape that broadcasts with the operand's."""
    shape = shape[draw(st.integers(0, len(shape))):] if draw(st.booleans()) else shape
    return tuple(1 if draw(st.integers(0, 4)) == 0 else n for n in shape)


def joined(draw, shape, params) -> tuple:
    """The same shape but for the size of one dimension."""
    return shape[:params["d"]] + (draw(SIZES),) + shape[params["d"] + 1:]


def columns(draw, shape, _params) -> tuple:
    """The right factor of a product: a vector or a matrix."""
    return (shape[-1],) if draw(st.integers(0, 4)) == 0 else (shape[-1], draw(SIZES))


def batch(draw, shape, _params) -> tuple:
    """The right factor of a batched product."""
    return (shape[0], shape[2], draw(SIZES))


def weight(draw, shape, _params) -> tuple:
    """The weight of a linear layer."""
    return (draw(SIZES), shape[-1])


def vector(draw, _shape, _params) -> tuple:
    """Any vector."""
    return (draw(SIZES),)


def bias(_draw, shapes, _params) -> tuple:
    """The bias of a linear layer, from the shapes of its input and weight."""
    return (shapes[1][0],)


# -- which operands fit ----------------------------------------------------------------------------------------------


def ranks(low: int, high: int = 4) -> Callable:
    """Tensors of so many dimensions."""
    return lambda shape: low <= len(shape) <= high


def _some(shape) -> bool:
    return bool(shape) and min(shape) > 0


# -- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """One operation of random programs.

    Attributes:
        form: the call on DTensors.
        numpy: the same in numpy, differentiable by the tape.
        size: the same over magnitudes; None means `numpy` itself.
        fits: shape of the first operand -> whether it can be used.
        params: (draw, shape) -> parameters.
        partners: shapes of the other operands: (draw, shape, parameters) -> shape.
        factor: the second operand is a new one of powers of two, away from zero.
        exact: integers give integers, or dyadic fractions.
        fraction: dyadic fractions arise.
        coarse: the framework's kernel approximates, in float64 too.
        ties: numpy text that is true where the derivative is not unique.
        kinks: the same for programs that round: true where rounding may reach another derivative.
    """

    form: str
    numpy: str
    size: str | None = None
    fits: Callable = ranks(0)
    params: Callable = nothing
    partners: tuple = ()
    factor: bool = False
    exact: bool = True
    fraction: bool = False
    coarse: bool = False
    ties: str | None = None
    kinks: str | None = None


_ANY, _MATRIX = ranks(1), ranks(2)
_NEAR = "np.isclose({x}, {y}, 1e-4, 1e-4)"
_MEETS = {"ties": "np.any({x} == {y})", "kinks": f"np.any({_NEAR})"}
_AT_ZERO = {"kinks": "np.any(np.abs({x}) < 1e-4)"}


def _tied(name: str) -> dict:
    """More than one element attains an extremum, exactly or up to rounding."""
    best = f"np.{name}({{x}}, axis={{d}}, keepdims=True)"
    return {"ties": f"np.sum({{x}} == {best}) > {best}.size",
            "kinks": f"np.sum({_NEAR.replace('{y}', best)}) > {best}.size"}


OPERATIONS = {
    # linear, elementwise
    "neg": Operation("-{x}", "-{x}", "{x}"),
    "scale": Operation("{x} * {k}", "{x} * {k}", "{x} * abs({k})", params=scalar),
    "halve": Operation("{x} * {k}", "{x} * {k}", "{x}", params=half, fraction=True),
    "divide_scalar": Operation("{x} / {k}", "{x} / {k}", "{x} / abs({k})", params=half, fraction=True),
    "shift": Operation("{x} + {k}", "{x} + {k}", "{x} + abs({k})", params=scalar),
    "reflected": Operation("{k} - {x}", "{k} - {x}", "{x} + abs({k})", params=scalar),
    "add": Operation("{x} + {y}", "{x} + {y}", partners=(broadcast,)),
    "sub": Operation("{x} - {y}", "{x} - {y}", "{x} + {y}", partners=(broadcast,)),
    "add_alpha": Operation("mint.add({x}, {y}, alpha={k})", "{x} + {y} * {k}", "{x} + {y} * abs({k})",
                           params=scalar, partners=(same,)),
    "mul": Operation("{x} * {y}", "{x} * {y}", partners=(broadcast,)),
    "div": Operation("{x} / {y}", "{x} / {y}", "{x} * {y}", partners=(broadcast,), factor=True, fraction=True),
    # products
    "matmul": Operation("mint.matmul({x}, {y})", "{x} @ {y}", fits=_ANY, partners=(columns,)),
    "bmm": Operation("mint.bmm({x}, {y})", "{x} @ {y}", fits=ranks(3, 3), partners=(batch,)),
    "linear": Operation("F.linear({x}, {y})", "{x} @ np.transpose({y})", fits=_ANY, partners=(weight,)),
    "linear_bias": Operation("F.linear({x}, {y}, {z})", "{x} @ np.transpose({y}) + {z}", fits=_MATRIX,
                             partners=(weight, bias)),
    "outer": Operation("mint.outer({x}, {y})", "np.outer({x}, {y})", fits=ranks(1, 1), partners=(vector,)),
    # reductions
    "sum_all": Operation("{x}.sum()", "np.sum({x})"),
    "sum": Operation("mint.sum({x}, {d}, {keep})", "np.sum({x}, axis={d}, keepdims={keep})", fits=_ANY, params=kept),
    "mean": Operation("mint.mean({x}, {d}, {keep})", "np.mean({x}, axis={d}, keepdims={keep})",
                      "np.sum({x}, axis={d}, keepdims={keep})", fits=_some, params=kept, exact=False),
    "amax": Operation("mint.amax({x}, {d}, {keep})", "np.max({x}, axis={d}, keepdims={keep})",
                      "np.sum({x}, axis={d}, keepdims={keep})", fits=_some, params=kept, **_tied("max")),
    "amin": Operation("mint.amin({x}, {d}, {keep})", "np.min({x}, axis={d}, keepdims={keep})",
                      "np.sum({x}, axis={d}, keepdims={keep})", fits=_some, params=kept, **_tied("min")),
    "cumsum": Operation("mint.cumsum({x}, {d})", "np.cumsum({x}, axis={d})", fits=_ANY, params=dim),
    # movement
    "transpose": Operation("mint.transpose({x}, {d}, {e})", "np.swapaxes({x}, {d}, {e})", fits=_MATRIX, params=dims),
    "permute": Operation("mint.permute({x}, {p})", "np.transpose({x}, {p})", fits=_MATRIX, params=order),
    "reshape": Operation("{x}.reshape({s})", "np.reshape({x}, {s})", fits=_some, params=other_shape),
    "unsqueeze": Operation("mint.unsqueeze({x}, {d})", "np.expand_dims({x}, {d})", fits=ranks(0, 3), params=new_dim),
    "squeeze": Operation("mint.squeeze({x}, {d})", "np.squeeze({x}, {d})", fits=lambda s: 1 in s, params=single),
    "narrow": Operation("mint.narrow({x}, {d}, {a}, {n})", "np.take({x}, range({a}, {a} + {n}), {d})", fits=_some,
                        params=piece),
    "select": Operation("{x}[{a}]", "{x}[{a}]", fits=_some, params=place),
    "slice": Operation("{x}[{a}:]", "{x}[{a}:]", fits=_some, params=place),
    "flip": Operation("mint.flip({x}, ({d},))", "np.flip({x}, {d})", fits=_ANY, params=dim),
    "roll": Operation("mint.roll({x}, {k}, {d})", "np.roll({x}, {k}, {d})", fits=_ANY, params=rolled),
    "tril": Operation("mint.tril({x})", "np.tril({x})", fits=_MATRIX),
    "cat": Operation("mint.cat([{x}, {y}], {d})", "np.concatenate([{x}, {y}], {d})", fits=_ANY, params=dim,
                     partners=(joined,)),
    "stack": Operation("mint.stack([{x}, {y}], {d})", "np.stack([{x}, {y}], {d})", fits=ranks(0, 3), params=new_dim,
                       partners=(same,)),
    "where": Operation("mint.where({x} > 0, {x}, {y})", "np.where({x} > 0, {x}, {y})", "{x} + {y}", partners=(same,),
                       **_AT_ZERO),
    # nonlinear, exact on integers
    "relu": Operation("F.relu({x})", "{x} * ({x} > 0)", "{x}", **_AT_ZERO),
    "abs": Operation("mint.abs({x})", "np.absolute({x})", **_AT_ZERO),
    "square": Operation("mint.square({x})", "np.square({x})"),
    "maximum": Operation("mint.maximum({x}, {y})", "np.maximum({x}, {y})", "{x} + {y}", partners=(same,),
                         **_MEETS),
    "minimum": Operation("mint.minimum({x}, {y})", "np.minimum({x}, {y})", "{x} + {y}", partners=(same,),
                         **_MEETS),
    # rounded
    "clamp": Operation("mint.clamp({x}, -1.375, 2.625)", "np.minimum(np.maximum({x}, -1.375), 2.625)", "{x} + 3",
                       fraction=True, ties="np.any(({x} == -1.375) | ({x} == 2.625))",
                       kinks=f"np.any({_NEAR.replace('{y}', '-1.375')} | {_NEAR.replace('{y}', '2.625')})"),
    "tanh": Operation("mint.tanh({x})", "tanh({x})", "{x} + 1", exact=False, coarse=True),
    "sigmoid": Operation("mint.sigmoid({x})", "sigmoid({x})", "{x} + 1", exact=False, coarse=True),
    "silu": Operation("F.silu({x})", "{x} * sigmoid({x})", "2 * {x}", exact=False, coarse=True),
    "gelu": Operation("F.gelu({x})", "{x} * (1 + erf({x} / 2 ** 0.5)) / 2", "2 * {x}", exact=False, coarse=True),
    "softmax": Operation("F.softmax({x}, {d})", "softmax({x}, {d})",
                         "{x} + np.sum({x}, axis={d}, keepdims=True) + 1", fits=_some, params=dim, exact=False,
                         coarse=True),
}
NAMES = tuple(OPERATIONS)
# Those with most to go wrong are drawn twice as often.
OFTEN = ("shift", "add", "sub", "mul", "where", "cat", "matmul", "linear", "linear_bias", "sum", "amax", "reshape",
         "permute")

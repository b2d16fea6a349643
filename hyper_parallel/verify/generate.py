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
"""Global values, and per-rank values that stand for them, chosen so that no rank holds the answer.

All numbers are dyadic (integers over a power of two) and multiples of the product of the mesh axes and of the extents
that a mean divides by: sums, products, means and their gradients are then exact in float64, and so are comparisons.
"""
from __future__ import annotations

import math
import zlib

import numpy as np

from hyper_parallel.verify.meshes import coordinates
from hyper_parallel.verify.pattern import Pattern, TensorSlot

UNIT = 1 / 64  # the smallest step of a "real" value, so that rounding functions meet fractions

# Size classes, by the number n of ranks that may cut a letter: even chunks, a short tail, an empty tail.
_SIZES = {
    "even": lambda n: (n, 2 * n),
    "uneven": lambda n: (n + 1, 2 * n + 1, n + 2),
    "empty": lambda n: (max(1, n - 1), max(1, n // 2)),
}


def seed_of(*parts) -> np.random.Generator:
    """A generator that depends on these parts alone, so that every run draws the same."""
    return np.random.default_rng(zlib.crc32(repr(parts).encode()))


def sizes_for(pattern: Pattern, mesh_shape, mode: str) -> dict:
    """A size per letter of the pattern, for a mode; letters that the pattern fixes keep their size."""
    ladder = _SIZES[mode](math.prod(mesh_shape))
    return pattern.sizes(lambda i: ladder[i % len(ladder)])


def step_for(mesh_shape, sizes: dict) -> float:
    """What every real value is a multiple of: the ranks and every extent divide it, and fractions remain."""
    return UNIT * divisor(mesh_shape, sizes)


def divisor(mesh_shape, sizes: dict) -> int:
    """The product of the axis sizes and of the extents."""
    return math.prod(mesh_shape) * math.prod(sizes.values())


# -- global values ---------------------------------------------------------------------------------------------------


def draw(slot: TensorSlot, sizes: dict, step: float, rng, small: bool = False) -> np.ndarray:
    """One global tensor of a pattern, from its domain.

    Args:
        slot: dims and domain, "name", "name(argument)" or either with "@dtype" behind.
        sizes: letter -> size.
        step: see `step_for`.
        rng: numpy generator.
        small: integers near zero, for a counterexample that people read.
    """
    name, _, dtype = slot.domain.partition("@")
    name, _, argument = name.partition("(")
    shape = slot.shape(sizes)
    if name in ("index", "pick"):
        bound = int(argument[:-1]) if argument[:-1].isdigit() else sizes[argument[:-1]]
        return rng.integers(0, bound, shape) if name == "index" else _picked(bound, shape, rng)
    values = np.asarray(_DOMAINS[name](shape, 1.0 if small else step, rng))
    return values.astype(dtype) if dtype and dtype != "bfloat16" else values


def _integers(shape, rng, bound=9):
    """Mixed signs, unequal sizes, zero rarely."""
    values = rng.integers(-bound, bound + 1, shape)
    return np.where(rng.random(shape) < 0.1, 0, values)


def _distinct(shape, step, rng):
    """Mixed signs and no two equal, so that no order statistic is tied."""
    count = math.prod(shape)
    return (rng.permutation(count) - count // 2).reshape(shape) * step


def _special(shape, step, rng):
    values = _integers(shape, rng) * step
    pick = rng.random(shape)
    return np.where(pick < 0.2, np.nan, np.where(pick < 0.3, np.inf, np.where(pick < 0.4, -np.inf, values)))


def _picked(bound: int, shape, rng):
    """Indices without repetition, as far as there are enough."""
    count = math.prod(shape)
    return np.concatenate([rng.permutation(bound) for _ in range(-(-count // bound))])[:count].reshape(shape)


_DOMAINS = {
    "real": lambda shape, step, rng: _integers(shape, rng) * step,
    "shifted": lambda shape, step, rng: _integers(shape, rng) * step + step / 2,
    "shifted2": lambda shape, step, rng: _integers(shape, rng) * step + step / 4,
    "quarter": lambda shape, step, rng: _integers(shape, rng) / 4,
    "digit": lambda shape, step, rng: _integers(shape, rng) * 1.0,
    "whole": lambda shape, step, rng: _integers(shape, rng) * max(1.0, step / UNIT),
    "positive": lambda shape, step, rng: rng.integers(1, 17, shape) * step,
    "unit": lambda shape, step, rng: rng.integers(-63, 64, shape) / 64,
    "probability": lambda shape, step, rng: rng.integers(1, 64, shape) / 64,
    "above1": lambda shape, step, rng: 1 + rng.integers(1, 64, shape) / 16,
    "factor": lambda shape, step, rng: rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 4.0], shape),
    "distinct": _distinct,
    "special": _special,
    "int": lambda shape, step, rng: _integers(shape, rng),
    "natural": lambda shape, step, rng: rng.integers(0, 6, shape),
    "bool": lambda shape, step, rng: rng.random(shape) < 0.5,
    "mostly": lambda shape, step, rng: rng.random(shape) < 0.85,
    "rarely": lambda shape, step, rng: rng.random(shape) < 0.15,
}


def cotangent(shape, step: int, rng) -> np.ndarray:
    """An integer cotangent, never zero, of multiples of `step`."""
    values = rng.integers(1, 8, shape) * rng.choice([-1, 1], shape)
    return np.asarray(values * float(step))


# -- per-rank values -------------------------------------------------------------------------------------------------


def realisable(op: str, dtype) -> bool:
    """True when values of this element type can be pending in the reduce op."""
    if dtype == bool:
        return op in ("max", "min", "all")
    return op != "all" and (op != "avg" or dtype.kind == "f")


def realise(value: np.ndarray, layout, step: float, rng, knots: tuple = ()) -> list[np.ndarray]:
    """Per-rank arrays, in mesh order, that denote `value` under the layout.

    Args:
        value: the global value.
        layout: a LayoutValue.
        step: addends are multiples of it.
        rng: numpy generator.
        knots: numbers or arrays at which the op may change its slope; what a max or min leaves out sits there at times.
    """
    mesh, spec = layout.mesh, layout.spec(value.shape)
    addends = {(): value}
    for axis, op in enumerate(layout.partial):
        n = mesh.mesh_shape[axis] if op else 1
        parts = {key: _split(op, v, n, step, rng, knots) if op else [v] for key, v in addends.items()}
        addends = {key + (c,): part for key, values in parts.items() for c, part in enumerate(values)}
    locals_ = []
    for coordinate in coordinates(mesh.mesh_shape):
        whole = addends[tuple(c if op else 0 for c, op in zip(coordinate, layout.partial))]
        area = tuple(slice(begin, begin + length) for begin, length in spec.area(coordinate)) if spec.has_cuts else ()
        locals_.append(whole[area] if area else whole)
    return locals_


def _split(op: str, value, n: int, step, rng, knots: tuple) -> list:
    """n parts that reduce to the value, with knots among those that an extremum leaves out."""
    parts = _SPLIT[op](value, n, step, rng)
    if op not in ("max", "min") or value.dtype == bool or not knots:
        return parts
    sign = 1 if op == "max" else -1
    table = np.stack([np.broadcast_to(np.asarray(knot, np.float64), value.shape) for knot in knots])
    return [_on_knots(part, value, sign, table, rng) for part in parts]


def _on_knots(part, value, sign: int, table, rng):
    """The part with a third of its elements on some knot, where an element is beyond the value and the knot is too."""
    knot = np.take_along_axis(table, rng.integers(0, len(table), (1, *value.shape)), 0)[0]
    if value.dtype.kind != "f":
        info = np.iinfo(value.dtype)
        knot = np.clip(knot, info.min, info.max)
    here = (rng.random(value.shape) < 1 / 3) & (sign * (value - knot) > 0) & (part != value)
    return np.where(here, knot, part).astype(value.dtype)


_STEPS = {"float32": 8192}  # addends that float16 cannot hold


def _split_sum(value, n, step, rng):
    if value.dtype.itemsize == 1:
        parts = [_wrapping(value, rng) for _ in range(n - 1)]
        return _shuffled(parts, _less(value, parts), rng)
    step = step if value.dtype == np.float64 else _STEPS.get(value.dtype.name, 1)
    parts = [(_integers(value.shape, rng) * step).astype(value.dtype) for _ in range(n - 1)]
    last = _less(value, parts)
    if parts and np.isnan(last).any():  # nan as the sum of infinities
        opposed = np.isnan(last) & (rng.random(value.shape) < 0.5)
        parts[0], last = np.where(opposed, np.inf, parts[0]), np.where(opposed, -np.inf, last)
    return _shuffled(parts, last, rng)


def _wrapping(value, rng):
    """Addends at the far end of a small integer type, so that the sum of all wraps around."""
    info = np.iinfo(value.dtype)
    far = np.where(value > 0, info.min + rng.integers(0, 3, value.shape), info.max - rng.integers(0, 3, value.shape))
    return np.where(rng.random(value.shape) < 0.7, far, rng.integers(0, 9, value.shape)).astype(value.dtype)


def _less(value, parts):
    rest = value
    for part in parts:
        rest = rest - part
    return np.asarray(rest)


def _split_avg(value, n, step, rng):
    return _split_sum(value * n, n, step, rng)


def _shuffled(parts, last, rng):
    """The remainder sits on any rank."""
    parts = parts + [last]
    return [parts[i] for i in rng.permutation(len(parts))]


def _split_max(value, n, step, rng, sign=1):
    """Someone attains each element, sometimes two; the others are anything beyond, outside an op's domain too."""
    if value.dtype == bool:
        return _split_bool(value if sign > 0 else ~value, n, rng, flip=sign < 0)
    if value.dtype != np.float64:
        step = 1
    owner, second = rng.integers(0, n, value.shape), rng.integers(0, 2 * n, value.shape)
    parts = []
    for c in range(n):
        gap = sign * (rng.integers(1, 20, value.shape) * step)
        parts.append(np.where((owner == c) | (second == c), value, _beyond(value, gap, sign)))
    return parts


def _beyond(value, gap, sign):
    """Values that a maximum (sign 1) or a minimum (sign -1) leaves out: below or above, within the type's range."""
    if value.dtype.kind == "f":
        return np.where(value == sign * np.inf, gap, value - gap).astype(value.dtype)
    info = np.iinfo(value.dtype)
    return np.clip(value.astype(np.int64) - gap, info.min, info.max).astype(value.dtype)


def _split_bool(value, n, rng, flip):
    """Parts whose logical or is `value`; flipped, parts whose logical and is its complement."""
    owner = rng.integers(0, n, value.shape)
    parts = [value & ((owner == c) | (rng.random(value.shape) < 0.3)) for c in range(n)]
    return [~part for part in parts] if flip else parts


def _split_min(value, n, step, rng):
    return _split_max(value, n, step, rng, sign=-1)


def _split_all(value, n, _step, rng):
    return _split_bool(~value, n, rng, flip=True)


def _split_prod(value, n, _step, rng):
    if value.dtype.kind != "f":
        signs = [rng.choice(np.array([-1, 1]), value.shape).astype(value.dtype) for _ in range(n - 1)]
        return _shuffled(signs, np.asarray(value * np.prod(signs, 0, dtype=value.dtype)), rng)
    factors = [rng.choice(np.array([-2, -1, 0.5, 1, 2, 4], value.dtype), value.shape) for _ in range(n - 1)]
    return _shuffled(factors, np.asarray(value / np.prod(factors, 0)), rng)


_SPLIT = {"sum": _split_sum, "avg": _split_avg, "max": _split_max, "min": _split_min, "prod": _split_prod,
          "all": _split_all}

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
"""Which placements are tried: every tuple on one axis, every pair of rows on two, with every order of cuts."""
from __future__ import annotations

import itertools
import math

from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.core.dtensor.placement_types import REDUCE_OPS
from hyper_parallel.core.shard.rules import R
from hyper_parallel.errors import LayoutError
from hyper_parallel.verify.generate import realisable, seed_of

MOST_TUPLES = 4096  # beyond, tuples are those that any row can have, and a seeded sample of the others


def universe(ndim: int, dtype) -> list:
    """Every placement of one operand on one axis: R, ("S", dim), ("P", op) for ops its type can be pending in."""
    return [R] + [("S", d) for d in range(ndim)] + [("P", op) for op in REDUCE_OPS if realisable(op, dtype)]


def tuples(problem) -> list:
    """Placement tuples of the operands on one axis."""
    choices = [universe(x.ndim, x.dtype) for x in problem.inputs]
    if math.prod(map(len, choices)) <= MOST_TUPLES:
        return list(itertools.product(*choices))
    return _plausible(problem, choices)


def _plausible(problem, choices) -> list:
    """For many operands: a letter cut wherever it occurs, or any subset of operands pending, and random ones."""
    whole = (R,) * len(choices)
    found = [pended for op in REDUCE_OPS for pended in _pending(whole, op)]
    for letter in problem.signature.letters():
        cut = tuple(("S", dims.index(letter)) if letter in dims else R for dims in problem.signature.inputs)
        found += _pending(cut, "sum", 2)
    rng = seed_of("tuples", problem.declaration.name, str(problem.pattern))
    found += [tuple(c[rng.integers(len(c))] for c in choices) for _ in range(MOST_TUPLES // 2)]
    return [t for t in dict.fromkeys(found) if all(p in c for p, c in zip(t, choices))]


def _pending(base: tuple, op: str, most: int = 10) -> list:
    """`base` with every subset of its replicas pending in `op`."""
    free = [i for i, p in enumerate(base) if p == R]
    made = []
    for chosen in _subsets(len(free), most):
        pended = {free[k] for k in chosen}
        made.append(tuple(("P", op) if i in pended else p for i, p in enumerate(base)))
    return made


def _subsets(count: int, most: int = 10) -> list:
    """Subsets of positions, all of them for few, small ones for many."""
    sizes = range(count + 1) if count <= most else (0, 1, 2, count)
    return [frozenset(s) for k in sizes for s in itertools.combinations(range(count), k)]


def layouts_of(mesh, axes: list, ndims: list, orders: tuple = ()) -> tuple | None:
    """One layout per operand from one placement tuple per mesh axis.

    Args:
        mesh: the device mesh.
        axes: per mesh axis the placements of the operands.
        ndims: number of dimensions per operand.
        orders: per operand True to cut a doubly cut dimension in reverse mesh order.

    Returns:
        The layouts, or None when some combination is no layout at all (a mix of reduce families).
    """
    made = []
    for i, ndim in enumerate(ndims):
        dims: list = [[] for _ in range(ndim)]
        partial: list = [None] * mesh.ndim
        for axis, operands in enumerate(axes):
            if operands[i][0] == "S":
                dims[operands[i][1]].append(axis)
            elif operands[i][0] == "P":
                partial[axis] = operands[i][1]
        if orders and orders[i]:
            dims = [cut[::-1] for cut in dims]
        try:
            made.append(layout_value(mesh, dims, partial))
        except LayoutError:
            return None
    return tuple(made)


def orders_of(axes: list, count: int) -> list:
    """Every way to order the cuts of operands that have a dimension cut twice; mesh order everywhere comes first."""
    twice = [axes[0][i][0] == "S" and all(operands[i] == axes[0][i] for operands in axes) for i in range(count)]
    return list(itertools.product(*[(False, True) if t else (False,) for t in twice]))


def show(placement) -> str:
    """A placement in letters: R, S(0), P(sum)."""
    return R if placement == R else f"{placement[0]}({placement[1]})"

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
"""What planner tests compare with: exhaustive shortest paths over layouts, and a numpy run of steps on every rank.

Neither shares code with the planner: paths are relaxed over LayoutValues until nothing changes, costs are fractions of
padded shapes as the ring formulas state them, and the interpreter sees only the fields of a step.
"""
from __future__ import annotations

import functools
import itertools
from collections import deque
from fractions import Fraction
from math import prod

import numpy as np

from hyper_parallel.core.dtensor.cuts import ceil_div, chunk
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.errors import LayoutError


def make_mesh(shape, names=None) -> DeviceMesh:
    """A mesh of this shape over ranks 0, 1, ..."""
    return DeviceMesh("cpu", np.arange(prod(shape)).reshape(shape), mesh_dim_names=names, _init_backend=False)


def layouts(mesh, ndim: int, ops=("sum",)) -> list:
    """Every layout of tensors with `ndim` dimensions: all orders of cuts, all mixes of these reduce ops that exist."""
    found = []
    choices = [None, *ops, *range(ndim)]
    for choice in itertools.product(choices, repeat=mesh.ndim):
        partial = [c if isinstance(c, str) else None for c in choice]
        cuts = [[axis for axis, c in enumerate(choice) if c == d and not isinstance(c, str)] for d in range(ndim)]
        for dims in itertools.product(*map(itertools.permutations, cuts)):
            try:
                found.append(layout_value(mesh, dims, partial))
            except LayoutError:  # two families
                pass
    return found


def changes_op(source, target) -> bool:
    """True when an axis would go from one reduce op to another."""
    return any(old and new and old != new for old, new in zip(source.partial, target.partial))


# -- exhaustive shortest paths ----------------------------------------------------------------------------------------


def _volume(layout, shape) -> int:
    """Elements at coordinate 0, whose chunks are the longest."""
    return prod(layout.spec(shape).local_shape((0,) * layout.mesh.ndim))


def _changed(layout, axis: int, dim, op, place=None):
    """The layout with one axis elsewhere, or None when that mixes families; `place` counts from the outermost cut."""
    dims = [[a for a in axes if a != axis] for axes in layout.dims]
    if dim is not None:
        dims[dim].insert(len(dims[dim]) if place is None else place, axis)
    try:
        return layout.replace(dims, [op if a == axis else old for a, old in enumerate(layout.partial)])
    except LayoutError:
        return None


def _from_axis(layout, axis: int, wanted, shape):
    """(elements, collectives, layout) of every step of one axis; `wanted` is the op that a mask may introduce."""
    n, dim, op = layout.mesh.mesh_shape[axis], layout.axis_dim[axis], layout.partial[axis]
    if dim is not None and n > 1 and layout.dims[dim][-1] != axis:
        return
    volume, ring = _volume(layout, shape), Fraction(n - 1, n)
    if op:
        yield 2 * ring * ceil_div(volume, n) * n, 1, _changed(layout, axis, None, None)
    elif dim is not None:
        yield ring * volume * n, 1, _changed(layout, axis, None, None)
        if wanted == "sum":
            yield 0, 0, _changed(layout, axis, None, wanted)
    elif wanted:
        yield 0, 0, _changed(layout, axis, None, wanted)
    for new in range(layout.ndim) if op != "all" else ():
        for place in range(len(layout.dims[new]) + 1) if n == 1 else (None,):
            after = _changed(layout, axis, new, None, place)
            handed_out = n * _volume(after, shape) if op or dim is None else n * prod(
                ceil_div(s, n) if d == new else s
                for d, s in enumerate(layout.spec(shape).local_shape((0,) * layout.mesh.ndim)))
            if new != dim:
                free = op is None and dim is None
                yield (0, 0, after) if free else (ring * handed_out, 1, after)


@functools.lru_cache(maxsize=None)
def _edges(layout, shape, kept: tuple, wanted: tuple) -> tuple:
    sizes = layout.mesh.mesh_shape
    return tuple((elements, collectives if sizes[axis] > 1 else 0, after)
                 for axis in range(layout.mesh.ndim) if not kept[axis]
                 for elements, collectives, after in _from_axis(layout, axis, wanted[axis], shape) if after is not None)


@functools.lru_cache(maxsize=None)
def distances(source, wanted: tuple, shape: tuple) -> dict:
    """Least (elements, collectives) from a layout to every other, when the target has these pending ops."""
    kept = tuple(bool(old and old == new) for old, new in zip(source.partial, wanted))
    found, queue = {source: (0, 0)}, deque([source])
    while queue:
        layout = queue.popleft()
        for elements, collectives, after in _edges(layout, shape, kept, wanted):
            total = found[layout][0] + elements, found[layout][1] + collectives
            if after not in found or total < found[after]:
                found[after] = total
                queue.append(after)
    return found


def least(source, target, shape: tuple) -> tuple:
    """Least (elements, collectives) between two layouts."""
    return distances(source, target.partial, shape)[target]


def collectives(steps) -> int:
    """Steps that communicate; an axis of one rank does not."""
    return sum(step.kind not in ("slice", "mask") and step.before.mesh.mesh_shape[step.axis] > 1 for step in steps)


# -- steps on every rank ----------------------------------------------------------------------------------------------

_REDUCE = {"sum": np.add.reduce, "max": np.maximum.reduce, "min": np.minimum.reduce, "prod": np.multiply.reduce,
           "all": np.logical_and.reduce, "avg": lambda rows: np.add.reduce(rows) / len(rows)}


def random_locals(layout, shape, rng, ops=()) -> list:
    """One array per rank: replicas equal, addends independent; the values suit every op of the layout and of `ops`."""
    ops = set(ops) | {op for op in layout.partial if op}
    addends: dict = {}
    found = []
    for coordinate in np.ndindex(*layout.mesh.mesh_shape):
        key = tuple(c for c, op in zip(coordinate, layout.partial) if op)
        if key not in addends:
            addends[key] = _random(shape, ops, layout.mesh.size(), rng)
        area = layout.spec(shape).area(coordinate)
        found.append(addends[key][tuple(slice(begin, begin + length) for begin, length in area)])
    return found


def _random(shape, ops, ranks: int, rng):
    if "all" in ops:
        return rng.integers(0, 4, shape) > 0
    if "prod" in ops:
        return rng.integers(-3, 4, shape).astype(float)
    return rng.integers(-9, 10, shape) * float(ranks) * 10.0 ** rng.integers(0, 4)


def run(step, locals_) -> list:
    """The locals after a step, in mesh order: the forward side of its boundary on every row of ranks along the axis."""
    mesh = step.before.mesh
    values = dict(zip(np.ndindex(*mesh.mesh_shape), locals_))
    after = {}
    for first in values:
        if first[step.axis] == 0:
            row = [first[:step.axis] + (c,) + first[step.axis + 1:] for c in range(mesh.mesh_shape[step.axis])]
            after.update(zip(row, _run_row(step, [values[coordinate] for coordinate in row])))
    return [after[coordinate] for coordinate in values]


def _run_row(step, row) -> list:
    if step.kind == "slice":
        return [_parts(v, step.dim, len(row))[c] for c, v in enumerate(row)]
    if step.kind == "all_gather":
        return [np.concatenate(row, step.dim)] * len(row)
    if step.kind == "all_to_all":
        parts = [_parts(v, step.dim, len(row)) for v in row]
        return [np.concatenate([p[c] for p in parts], step.source_dim) for c in range(len(row))]
    if step.kind == "all_reduce":
        return [_REDUCE[step.op](row)] * len(row)
    if step.kind == "reduce_scatter":
        return _parts(_REDUCE[step.op](row), step.dim, len(row))
    assert step.kind == "mask", step.kind
    return _mask_replicas(step.op, row) if step.source_dim is None else _pad_shards(step, row)


def _parts(value, dim: int, n: int) -> list:
    bounds = [chunk(value.shape[dim], n, c) for c in range(n)]
    return [np.take(value, range(begin, begin + length), dim) for begin, length in bounds]


def _mask_replicas(op: str, row) -> list:
    neutral = {"sum": np.zeros_like, "prod": np.ones_like}.get(op, lambda v: v)
    return [row[0]] + [neutral(v) for v in row[1:]]


def _pad_shards(step, row) -> list:
    """Each shard in its place among zeros."""
    assert step.op == "sum" and step.dim == step.source_dim
    return [np.concatenate([v if c == r else np.zeros_like(v) for c, v in enumerate(row)], step.dim)
            for r in range(len(row))]

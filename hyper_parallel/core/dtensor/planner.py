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
"""Redistribution plans: the cheapest steps from one layout of a tensor to another, on one mesh. Pure data.

A layout is a stack of mesh axes per tensor dimension (outermost cut first) and a set of pending reductions. One step
changes one axis; only the innermost axis of a dimension can leave it, and an axis that arrives becomes innermost.
The cost is what one rank receives under the ring formulas, in elements; chunks are padded to the size of the first.

    step            from -> to          received, with n ranks and local volumes V
    slice           R -> S(d)           0
    mask            R -> P(op)          0
    mask            S(d) -> P(sum)      0
    all_gather      S(d) -> R           (n - 1) V_before
    all_to_all      S(i) -> S(j)        (n - 1) V_before with dim j cut in n
    reduce_scatter  P(op) -> S(d)       (n - 1) V_after
    all_reduce      P(op) -> R          2 (n - 1) ceil(V / n)

Plans are least in (elements, collectives, steps); `plan_search` finds them. Three rules bind every plan:

* a Partial that the target keeps is never touched;
* a reduction appears only on an axis where the target asks for one, and then stays: summing a zero-padded shard on the
  way from shard to shard could be cheaper, but bool has no sum, and a plan does not know the dtype;
* pending reductions of two families never meet, so a mask waits until every reduction of another family is done.
"""
from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod

from hyper_parallel.core.dtensor.cuts import ceil_div
from hyper_parallel.core.dtensor.layout_value import LayoutValue, layout_value
from hyper_parallel.core.dtensor.plan_search import Space, cheapest_path
from hyper_parallel.errors import LayoutError, MeshError


@dataclass(frozen=True)
class Step:
    """One move of one mesh axis.

    Attributes:
        kind: "slice", "mask", "all_gather", "all_to_all", "all_reduce" or "reduce_scatter".
        axis: index of the mesh axis.
        dim: tensor dimension that the axis cuts afterwards, or for all_gather and a mask of a shard cut before.
        source_dim: tensor dimension that the axis cut before, for all_to_all and a mask of a shard.
        op: reduce op that is pending before (all_reduce, reduce_scatter) or afterwards (mask).
        before: layout before the step.
        after: layout after it.
        shape: global shape of the tensor.
    """

    kind: str
    axis: int
    dim: int | None
    source_dim: int | None
    op: str | None
    before: LayoutValue
    after: LayoutValue
    shape: tuple

    def __str__(self):
        return f"{self.kind} over {self.before.mesh.axis_name(self.axis)!r}: {self.before} -> {self.after}"


@functools.lru_cache(maxsize=4096)
def plan(source: LayoutValue, target: LayoutValue, shape: tuple) -> tuple[Step, ...]:
    """The cheapest steps that turn a tensor laid out as `source` into the same tensor laid out as `target`.

    Args:
        source: the layout to start from.
        target: the layout to reach, on the same mesh.
        shape: global shape of the tensor.

    Returns:
        The steps in order; none when the layouts are equal.

    Raises:
        MeshError: when the meshes differ in shape, names or ranks.
        LayoutError: when the numbers of tensor dimensions differ, or a pending reduce op would change.

    Examples:
        >>> from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
        >>> from hyper_parallel.core.dtensor.layout_value import placements_to_value
        >>> from hyper_parallel.core.dtensor.placement_types import Partial, Replicate, Shard
        >>> mesh = DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"), _init_backend=False)
        >>> source = placements_to_value(mesh, (Replicate(), Partial()), 2)
        >>> target = placements_to_value(mesh, (Shard(0), Shard(1)), 2)
        >>> for step in plan(source, target, (4, 6)):
        ...     print(step)
        slice over 'dp': [R, P(sum)] -> [S(0), P(sum)]
        reduce_scatter over 'tp': [S(0), P(sum)] -> [S(0), S(1)]
    """
    shape = tuple(int(size) for size in shape)
    target = _checked_target(source, target, shape)
    layouts = [source] if source is target else _route(source, target, shape)
    return tuple(_step(before, after, shape) for before, after in zip(layouts, layouts[1:]))


def cost(steps) -> int:
    """Elements that one rank receives while it runs the steps (bytes per byte of element size).

    Args:
        steps: steps of a plan.

    Examples:
        >>> from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
        >>> from hyper_parallel.core.dtensor.layout_value import layout_value
        >>> mesh = DeviceMesh("cpu", [0, 1, 2, 3], _init_backend=False)
        >>> cost(plan(layout_value(mesh, [(0,)]), layout_value(mesh, [()]), (5,)))
        6
    """
    return sum(_received(step) for step in steps)


def _received(step: Step) -> int:
    n = step.before.mesh.mesh_shape[step.axis]
    extents = _padded(step.before, step.shape)
    if step.kind == "all_gather":
        return (n - 1) * prod(extents)
    if step.kind == "all_reduce":
        return 2 * (n - 1) * ceil_div(prod(extents), n)
    if step.kind in ("all_to_all", "reduce_scatter"):
        extents[step.dim] = ceil_div(extents[step.dim], n)
        return (n - 1) * prod(extents)
    return 0


def _padded(layout: LayoutValue, shape) -> list[int]:
    """Local shape at coordinate 0: successive ceil cuts are one ceil cut by the product of the sizes."""
    sizes = layout.mesh.mesh_shape
    return [ceil_div(size, prod(sizes[a] for a in axes)) for size, axes in zip(shape, layout.dims)]


# -- what can be planned ----------------------------------------------------------------------------------------------


def _checked_target(source: LayoutValue, target: LayoutValue, shape) -> LayoutValue:
    """The target on the mesh object of the source; refuses what no plan leads to."""
    mesh = source.mesh
    if mesh is not target.mesh and not mesh.matches(target.mesh):
        shown = " and ".join(f"{m.mesh_dim_names or ''}{m.mesh_shape}" for m in (mesh, target.mesh))
        raise MeshError(f"A redistribution stays on one mesh. Got layouts on {shown}, which differ in shape, names or "
                        f"ranks. Go through the whole value: distribute_tensor(x.full_tensor(), mesh, placements).")
    if not source.ndim == target.ndim == len(shape):
        raise LayoutError(f"A redistribution keeps the tensor dimensions. Got a source layout of {source.ndim}, a "
                          f"target layout of {target.ndim} and the shape {shape}. Reshape first: x.reshape(...).")
    changed = [a for a, (old, new) in enumerate(zip(source.partial, target.partial)) if old and new and old != new]
    if changed:
        raise LayoutError(_changed_op_message(source, target, changed))
    return target if mesh.identity == target.mesh.identity else layout_value(mesh, target.dims, target.partial)


def _changed_op_message(source, target, changed) -> str:
    axis, mesh = changed[0], source.mesh
    reduced = ["Replicate()" if a in changed else repr(p) for a, p in enumerate(target.placements)]
    return (f"Mesh axis {mesh.axis_name(axis)!r} has Partial({source.partial[axis]!r}) pending, which cannot become "
            f"Partial({target.partial[axis]!r}): the addends of one reduction are not those of another. "
            f"Reduce it in a call of its own: x.redistribute(mesh, [{', '.join(reduced)}])"
            f".redistribute(mesh, [{', '.join(map(repr, target.placements))}]).")


# -- from layouts to steps --------------------------------------------------------------------------------------------


def _step(before: LayoutValue, after: LayoutValue, shape) -> Step:
    """The step between two layouts that differ in one axis."""
    axis = next(a for a in range(before.mesh.ndim) if before.axis_dim[a] != after.axis_dim[a]
                or before.partial[a] != after.partial[a])
    old, new, op = before.axis_dim[axis], after.axis_dim[axis], after.partial[axis]
    if op:
        return Step("mask", axis, old, old, op, before, after, shape)
    op = before.partial[axis]
    if op:
        return Step("all_reduce" if new is None else "reduce_scatter", axis, new, None, op, before, after, shape)
    if old is None:
        return Step("slice", axis, new, None, None, before, after, shape)
    if new is None:
        return Step("all_gather", axis, old, None, None, before, after, shape)
    return Step("all_to_all", axis, new, old, None, before, after, shape)


def _route(source: LayoutValue, target: LayoutValue, shape) -> list[LayoutValue]:
    """The layouts on the way, ends included."""
    space = Space(source, target, shape)
    path = [space.decode(state) for state in cheapest_path(space)[1:]]
    units = [a for a, n in enumerate(source.mesh.mesh_shape) if n == 1]
    if not units:
        return [source, *(layout_value(source.mesh, dims, partial) for dims, partial in path)]
    early, late = _unit_hops(source, target, units)
    route = _hop([source], early, target)
    held = route[-1]
    route += [_with_units(dims, partial, held, target, units) for dims, partial in path]
    return _untangled(_hop(route, late, target), target, units)


# An axis of size 1 holds no data apart, so it may take any place in a stack, and its steps never move another axis.


def _unit_hops(source: LayoutValue, target: LayoutValue, units) -> tuple[list, list]:
    """(axis, dim, op) for every conversion of a unit axis; masks come late, after reductions of other families."""
    early, late = [], []
    for axis in units:
        old, new = (source.axis_dim[axis], source.partial[axis]), (target.axis_dim[axis], target.partial[axis])
        if (old[1] == "all" and new[0] is not None) or (new[1] not in (None, "sum") and old[0] is not None):
            early.append((axis, None, None))
        if old != new:
            (late if new[1] else early).append((axis, *new))
    return early, late


def _hop(route: list, hops, target: LayoutValue) -> list:
    """The route, prolonged by one layout per hop of a unit axis."""
    for axis, dim, op in hops:
        dims = [tuple(a for a in stack if a != axis) for stack in route[-1].dims]
        if dim is not None:
            dims[dim] = _placed(dims[dim], axis, target.dims[dim])
        partial = [op if a == axis else pending for a, pending in enumerate(route[-1].partial)]
        route.append(route[-1].replace(dims, partial))
    return route


def _placed(stack, unit: int, goal) -> tuple:
    """The stack with a unit axis before the first axis that follows it in the goal, else innermost."""
    later = goal[goal.index(unit) + 1:] if unit in goal else ()
    point = next((i for i, axis in enumerate(stack) if axis in later), len(stack))
    return (*stack[:point], unit, *stack[point:])


def _with_units(dims, partial, held: LayoutValue, target: LayoutValue, units) -> LayoutValue:
    """The layout of the other axes joined by the unit axes as `held` has them, in the order of the target."""
    dims = list(dims)
    for d, goal in enumerate(target.dims):
        there = [axis for axis in held.dims[d] if axis in units]
        for axis in sorted(there, key=lambda a, g=goal: g.index(a) if a in g else len(g), reverse=True):
            dims[d] = _placed(dims[d], axis, goal)
    return layout_value(held.mesh, dims, [held.partial[a] if a in units else op for a, op in enumerate(partial)])


def _untangled(route: list, target: LayoutValue, units) -> list:
    """The route, prolonged where only the order of unit axes still differs from the target."""
    tangled = [(axis, dim) for axis, dim in enumerate(target.axis_dim)
               if axis in units and dim is not None and route[-1].dims[dim] != target.dims[dim]]
    return _hop(route, [(axis, None, None) for axis, _ in tangled] + [(*move, None) for move in tangled], target)

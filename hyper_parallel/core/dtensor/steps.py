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
"""Redistribution steps as boundaries: forward, and backward in both gradient conventions (design, section 4)."""
from __future__ import annotations

import functools

from mindspore import dtype as mstype
from mindspore import mint

from hyper_parallel.core.dtensor.boundaries import Boundary, apply, zeros
from hyper_parallel.core.dtensor.cuts import ceil_div, chunk, nested_chunk
from hyper_parallel.core.dtensor.planner import Step
from hyper_parallel.platform.mindspore.fresh import fresh_copy


def _pad(value, dim: int, before: int, after: int):
    """Zeros before and after along one dimension."""
    parts = []
    for length in (before, None, after):
        if length is None:
            parts.append(value)
        elif length:
            shape = list(value.shape)
            shape[dim] = length
            parts.append(mint.zeros(tuple(shape), dtype=value.dtype))
    return mint.cat(parts, dim) if len(parts) > 1 else value


def _narrow(value, dim: int, begin: int, length: int):
    return value if begin == 0 and length == value.shape[dim] else mint.narrow(value, dim, begin, length)


def _comparable(value):
    """The value in a type that every back end compares."""
    return value.to(mstype.float32) if value.dtype == mstype.bfloat16 else value


class StepBoundary(Boundary):  # pylint: disable=abstract-method
    """One step of a plan: `axis` of size `n`; `parents` is, per position, the dim's length before this axis cuts it."""

    def __init__(self, step: Step):
        super().__init__(step.before.mesh)
        self.step, self.axis = step, step.axis
        self.n = self.mesh.mesh_shape[step.axis]

    def at(self, position: int) -> int:
        """Coordinate of a position along the step's axis."""
        return self.coordinates[position][self.axis]

    def parent(self, position: int, dim: int, layout) -> int:
        """Length of `dim` at a position before the step's axis, its innermost cut under `layout`, is applied."""
        coordinate, shape = self.coordinates[position], self.mesh.mesh_shape
        axes = [a for a in layout.dims[dim] if a != self.axis]
        return nested_chunk(self.step.shape[dim], [shape[a] for a in axes], [coordinate[a] for a in axes])[1]

    # -- the moves; each takes and gives one value per position --------------------------------------------------------

    def reduce(self, values: list, op: str) -> list:
        """All-reduce over the axis."""
        if self.n == 1:
            return values
        if op == "avg":
            return [v / self.n for v in self.platform.all_reduce(values, self.mesh, self.axis, "sum")]
        return self.platform.all_reduce(values, self.mesh, self.axis, op)

    def gather(self, values: list, dim: int, layout) -> list:
        """Chunks along `dim`, cut innermost by the axis under `layout`, joined."""
        parents = [self.parent(p, dim, layout) for p in range(len(values))]
        padded = [_pad(v, dim, 0, ceil_div(size, self.n) - v.shape[dim]) for v, size in zip(values, parents)]
        if self.n == 1 or not padded[0].numel():
            return [_pad(v, dim, 0, size - v.shape[dim]) for v, size in zip(padded, parents)]
        rows = self.platform.all_gather(padded, self.mesh, self.axis)
        return [mint.cat([_narrow(v, dim, 0, chunk(size, self.n, c)[1]) for c, v in enumerate(row)], dim)
                for row, size in zip(rows, parents)]

    def cut(self, values: list, dim: int) -> list:
        """This position's chunk along `dim`, as its own copy."""
        return [fresh_copy(_narrow(v, dim, *chunk(v.shape[dim], self.n, self.at(p)))) for p, v in enumerate(values)]

    def spread(self, values: list, dim: int, layout) -> list:
        """This position's chunk inside zeros of the whole dim; `layout` cuts `dim` innermost by the axis."""
        out = []
        for p, value in enumerate(values):
            size = self.parent(p, dim, layout)
            begin, length = chunk(size, self.n, self.at(p))
            out.append(_pad(value, dim, begin, size - begin - length))
        return out

    def scatter(self, values: list, dim: int) -> list:
        """Reduce-scatter (sum): the sum's chunk along `dim`."""
        if self.n == 1 or not values[0].numel():
            return self.cut(values, dim)
        rows = [self.chunks(v, dim) for v in values]
        mine = self.platform.reduce_scatter(rows, self.mesh, self.axis, "sum")
        return [_narrow(v, dim, 0, chunk(w.shape[dim], self.n, self.at(p))[1])
                for p, (v, w) in enumerate(zip(mine, values))]

    def chunks(self, value, dim: int) -> list:
        """The value's chunks along `dim`, padded to equal size."""
        size = value.shape[dim]
        step = ceil_div(size, self.n)
        parts = (_narrow(value, dim, *chunk(size, self.n, c)) for c in range(self.n))
        return [_pad(part, dim, 0, step - part.shape[dim]).contiguous() for part in parts]

    def exchange(self, values: list, source: int, target: int, layout) -> list:
        """All-to-all: from chunks along `source` (cut innermost under `layout`) to chunks along `target`."""
        if self.n == 1:
            return values
        parents = [self.parent(p, source, layout) for p in range(len(values))]
        rows = [[_pad(c, source, 0, ceil_div(size, self.n) - c.shape[source]) for c in self.chunks(v, target)]
                for v, size in zip(values, parents)]
        if rows[0][0].numel():
            rows = self.platform.all_to_all(rows, self.mesh, self.axis)
        out = []
        for p, (row, size) in enumerate(zip(rows, parents)):
            whole = mint.cat([_narrow(v, source, 0, chunk(size, self.n, c)[1]) for c, v in enumerate(row)], source)
            out.append(_narrow(whole, target, 0, chunk(values[p].shape[target], self.n, self.at(p))[1]))
        return out

    def owners(self, values: list, reduced: list) -> list:
        """1 where a position attains the reduced value first (lowest coordinate), else 0."""
        ranks = [mint.where(_comparable(v) == _comparable(r), float(self.at(p)), float(self.n)).to(mstype.float32)
                 for p, (v, r) in enumerate(zip(values, reduced))]
        first = self.platform.all_reduce(ranks, self.mesh, self.axis, "min") if self.n > 1 else ranks
        return [(f == self.at(p)).to(v.dtype) for p, (f, v) in enumerate(zip(first, values))]


class AllReduce(StepBoundary):
    """P(sum), P(avg), P(max), P(min), P(prod) or P(all) -> R."""

    def forward(self, values, ctx=None):
        op = self.step.op
        reduced = self.reduce(values, op)
        if ctx is not None and op in ("max", "min"):
            ctx.owned = self.owners(values, reduced)
        if ctx is not None and op == "prod":
            ctx.factors = values
        return reduced

    def backward(self, grads, ctx):
        if not self.single:
            grads = self.reduce(grads, "sum")
        op = self.step.op
        if op == "avg":
            return [g / self.n for g in grads]
        if op in ("max", "min"):
            return [g * mask for g, mask in zip(grads, ctx.owned)]
        if op == "prod":
            return self._product_rule(grads, ctx.factors)
        return grads

    def _product_rule(self, grads, factors):
        """d(prod)/d(v_c) = the product of the others, formed without dividing: zeros are safe."""
        rows = [factors] if self.n == 1 else self.platform.all_gather(factors, self.mesh, self.axis)
        out = []
        for p, (g, row) in enumerate(zip(grads, rows)):
            others = [v for c, v in enumerate(row) if c != self.at(p)] if self.n > 1 else []
            out.append(functools.reduce(lambda a, b: a * b, others, g))
        return out


class ReduceScatter(StepBoundary):
    """P(op) -> S(d)."""

    def forward(self, values, ctx=None):
        op, dim = self.step.op, self.step.dim
        if op in ("sum", "avg"):
            mine = self.scatter(values, dim)
            return [v / self.n for v in mine] if op == "avg" else mine
        reduced = self.reduce(values, op)
        if ctx is not None and op in ("max", "min"):
            ctx.owned = self.owners(values, reduced)
        if ctx is not None and op == "prod":
            ctx.factors = values
        return self.cut(reduced, dim)

    def backward(self, grads, ctx):
        op = self.step.op
        whole = self.gather(grads, self.step.dim, self.step.after)
        if op == "avg":
            return [g / self.n for g in whole]
        if op in ("max", "min"):
            return [g * mask for g, mask in zip(whole, ctx.owned)]
        if op == "prod":
            return AllReduce._product_rule(self, whole, ctx.factors)
        return whole


class AllGather(StepBoundary):
    """S(d) -> R."""

    def forward(self, values, ctx=None):
        return self.gather(values, self.step.dim, self.step.before)

    def backward(self, grads, ctx):
        return self.cut(grads, self.step.dim) if self.single else self.scatter(grads, self.step.dim)


class Slice(StepBoundary):
    """R -> S(d)."""

    def forward(self, values, ctx=None):
        return self.cut(values, self.step.dim)

    def backward(self, grads, ctx):
        move = self.gather if self.single else self.spread
        return move(grads, self.step.dim, self.step.after)


class AllToAll(StepBoundary):
    """S(i) -> S(j)."""

    def forward(self, values, ctx=None):
        return self.exchange(values, self.step.source_dim, self.step.dim, self.step.before)

    def backward(self, grads, ctx):
        return self.exchange(grads, self.step.dim, self.step.source_dim, self.step.after)


class Mask(StepBoundary):
    """R -> P(op), and S(d) -> P(sum)."""

    def forward(self, values, ctx=None):
        if self.step.source_dim is not None:
            return self.spread(values, self.step.source_dim, self.step.before)
        if self.step.op == "sum":
            return self.keep_first(values, (self.axis,))
        if self.step.op == "prod":
            return [v if self.at(p) == 0 else zeros(v) + 1 for p, v in enumerate(values)]
        return values

    def backward(self, grads, ctx):
        if self.step.source_dim is not None:
            return self.cut(grads, self.step.source_dim)
        if self.step.op == "sum":
            return grads if self.single else self.keep_first(grads, (self.axis,))
        if self.step.op == "prod":
            grads = self.keep_first(grads, (self.axis,))
        return self.reduce(grads, "sum") if self.single else grads


_BOUNDARIES = {"all_reduce": AllReduce, "reduce_scatter": ReduceScatter, "all_gather": AllGather, "slice": Slice,
               "all_to_all": AllToAll, "mask": Mask}


def run_steps(steps, values: list) -> list:
    """Run a plan on the local values of all positions, differentiably."""
    for step in steps:
        values = apply(_BOUNDARIES[step.kind](step), values)
    return values

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
"""Strategies: random meshes, layouts and chains of operations, all drawn through hypothesis, so that they shrink."""
from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.ut.property.operations import NAMES, NUMPY, OFTEN, OPERATIONS, SIZES
from tests.ut.property.program import Cut, Leaf, Program, Step

MESHES = ((2,), (3,), (4,), (1, 2), (2, 1), (2, 2), (2, 3), (2, 2, 2))
_LARGEST = 400  # elements of one value


@st.composite
def cuts(draw, ndim: int, axes: int, pending: bool = True) -> Cut:
    """Any layout of a tensor of `ndim` dimensions: every axis replicates, cuts or is pending; cuts in any order."""
    kinds = ["R", *range(ndim), *(["P"] if pending else [])]
    chosen = [draw(st.sampled_from(kinds)) for _ in range(axes)]
    family = draw(st.sampled_from(["sum", "sum", "sum", "avg", "max", "min"])) if "P" in chosen else None
    ops = ["sum", "avg"] if family in ("sum", "avg") else [family]
    partial = tuple((family if draw(st.integers(0, 3)) else draw(st.sampled_from(ops))) if kind == "P" else None
                    for kind in chosen)
    dims = []
    for d in range(ndim):
        mine = [axis for axis, kind in enumerate(chosen) if kind == d and kind != "R"]
        dims.append(tuple(draw(st.permutations(mine))) if len(mine) > 1 else tuple(mine))
    return Cut(tuple(dims), partial)


class _Builder:
    """Draws one program statement by statement; it knows the shape of every name."""

    def __init__(self, draw, mesh: tuple):
        self.draw, self.mesh = draw, mesh
        self.leaves, self.steps, self.shapes = [], [], {}
        self.single = draw(st.booleans())

    def leaf(self, shape: tuple, factor: bool = False) -> str:
        """A new leaf of a shape."""
        cut = self._cut(len(shape), not factor)
        name = "abcdefghijklmnopqrs"[len(self.leaves)]
        self.leaves.append(Leaf(name, shape, cut, self.draw(st.integers(0, 255)), factor))
        self.shapes[name] = shape
        return name

    def _cut(self, ndim: int, pending: bool) -> Cut:
        """After the first leaf half are whole and some cut like another one, or hardly any call would meet a rule."""
        axes = len(self.mesh)
        kind = self.draw(st.integers(0, 4)) if self.leaves else 4
        alike = [leaf.cut for leaf in self.leaves
                 if len(leaf.shape) == ndim and (pending or not any(leaf.cut.partial))]
        if kind < 2:
            return Cut(((),) * ndim, (None,) * axes)
        if kind < 4 and alike:
            cut = self.draw(st.sampled_from(alike))
            return cut if self.draw(st.integers(0, 3)) else Cut(tuple(d[::-1] for d in cut.dims), cut.partial)
        return self.draw(cuts(ndim, axes, pending))

    def step(self, op: str, operands: tuple, params: dict, to: Cut | None = None) -> str:
        """A new statement; its shape is what numpy says."""
        step = Step(f"t{len(self.steps)}", op, operands, params, to)
        zeros = {name: np.ones(self.shapes[name]) for name in operands}
        self.shapes[step.out] = np.shape(eval(step.form("numpy"), dict(NUMPY), zeros))  # pylint: disable=eval-used
        self.steps.append(step)
        return step.out

    def chain(self, length: int) -> None:
        """A chain of statements, most of them on the last value; a few are left out, so that programs can shrink."""
        name = self.leaf(tuple(self.draw(st.lists(SIZES, min_size=1, max_size=3))))
        for _ in range(length):
            kind = self.draw(st.integers(0, 8))
            if not kind:
                continue
            values = [n for n in self.shapes if n.startswith("t")] or [name]
            name = values[-1] if self.draw(st.integers(0, 3)) else self.draw(st.sampled_from(values))
            if kind > 7:
                self._redistribute(name)
            else:
                self._operation(name)

    def _redistribute(self, x: str) -> None:
        self.step("redistribute", (x,), {}, self.draw(cuts(len(self.shapes[x]), len(self.mesh))))

    def _operation(self, x: str) -> None:
        shape = self.shapes[x]
        op = self.draw(st.sampled_from([name for name in (*NAMES, *OFTEN) if OPERATIONS[name].fits(shape)]))
        operation = OPERATIONS[op]
        params = operation.params(self.draw, shape)
        operands = [x]
        for i, partner in enumerate(operation.partners):
            known = shape if i == 0 else [self.shapes[n] for n in operands]
            wanted = partner(self.draw, known, params)
            operands.append(self._operand(wanted, operation.factor))
        out = self.step(op, tuple(operands), params)
        if np.prod(self.shapes[out]) > _LARGEST:
            self.step("sum", (out,), {"d": 0, "keep": False})

    def _operand(self, shape: tuple, factor: bool) -> str:
        """A value of this shape: a known one or a new leaf."""
        known = [n for n, s in self.shapes.items() if s == shape]
        if known and not factor and self.draw(st.booleans()):
            return self.draw(st.sampled_from(known))
        return self.leaf(shape, factor)

    def loss(self) -> None:
        """Everything that is not used yet, weighted by new leaves and summed."""
        used = {name for step in self.steps for name in step.operands}
        total = None
        for name in [s for s in self.shapes if s not in used]:
            weighted = self.step("mul", (name, self.leaf(self.shapes[name])), {})
            summed = self.step("sum_all", (weighted,), {})
            total = summed if total is None else self.step("add", (total, summed), {})


@st.composite
def programs(draw, meshes=MESHES, longest: int = 6) -> Program:
    """A program on one of these meshes and the operations of its loss."""
    mesh = draw(st.sampled_from(meshes))
    builder = _Builder(draw, mesh)
    builder.chain(longest)
    builder.loss()
    convention = draw(st.sampled_from(["single_loss", "sum_of_ranks"]))
    return Program(mesh, tuple(builder.leaves), tuple(builder.steps), convention, draw(st.booleans()), builder.single)

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
"""The calls that an audit tries: every placement of every operand, and local values that stand for global ones."""
from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from contrib.ask import Operation, question
from contrib.child.meanings import Form, Meaning
from hyper_parallel.core.dtensor.placement_types import REDUCE_OPS
from hyper_parallel.verify.enumerate import layouts_of
from hyper_parallel.verify.generate import realise, seed_of
from hyper_parallel.verify.meshes import mesh_of

NAMES = "xyz"
# Values are multiples of it, so that means and parts of means are whole.
STEP = 12
SAMPLE = 100  # pairs of rows on two axes beside those of accepted rows
_LINEAR_OPS = ("sum", "avg")


@dataclass(frozen=True)
class Case:
    """One call with one layout per operand.

    Attributes:
        operation: the checkout's operation.
        meaning: what it means.
        form: dimensions and static arguments.
        mesh: sizes of the mesh axes.
        layouts: one LayoutValue per operand; None for one left out or plain.
        smallest: every dimension that nobody cuts has size 1, and values are small.
        draw: distinguishes draws of values.
    """

    operation: Operation
    meaning: Meaning
    form: Form
    mesh: tuple
    layouts: tuple
    smallest: bool = False
    draw: int = 0

    @property
    def placements(self) -> tuple:
        """Per operand its placements, one per mesh axis."""
        return tuple(None if layout is None else layout.placements for layout in self.layouts)

    @functools.cached_property
    def sizes(self) -> dict:
        """Letter -> size: a multiple of what any cut needs; unequal, so that a transposed result shows."""
        n = math.prod(self.mesh)
        letters = dict.fromkeys(c for dims in self.form.operands for c in dims or "")
        if self.smallest:
            return {c: n if self.cuts(c) else 1 for c in letters}
        return {c: n * (1 + i % 2) for i, c in enumerate(letters)}

    def cuts(self, letter: str) -> bool:
        """True when some operand's dimension of this letter is cut."""
        return any(axes for layout, dims in zip(self.layouts, self.form.operands) if layout is not None
                   for axes, c in zip(layout.dims, dims) if c == letter)

    @functools.cached_property
    def values(self) -> tuple:
        """Global value and per-rank values of each operand."""
        rng = seed_of(self.operation.name, self.form.operands, self.form.statics, self.mesh, self.placements,
                      self.draw)
        return tuple(self._value(dims, layout, rng) for dims, layout in zip(self.form.operands, self.layouts))

    def _value(self, dims, layout, rng):
        if dims is None:
            return None, None
        shape = tuple(self.sizes[c] for c in dims)
        step = 1 if self.smallest else STEP
        value = np.where(rng.random(shape) < 0.5, -1, 1) * rng.integers(1, 9, shape) * float(step)
        if layout is None:
            return value, [value] * math.prod(self.mesh)
        if "all" in layout.partial:
            truth = rng.random(shape) < 0.7
            return truth.astype(float), [part.astype(float) for part in realise(truth, layout, step, rng)]
        return value, realise(value, layout, step, rng)

    @functools.cached_property
    def expected(self) -> np.ndarray:
        """The global result."""
        values = [value for value, _ in self.values]
        return np.asarray(self.meaning.function(*values, *self.form.statics))

    @property
    def outputs(self) -> tuple:
        """The global results."""
        return (self.expected,)

    @property
    def statics(self) -> tuple:
        """Every argument that is no tensor."""
        return self.form.statics

    def asked(self, with_values: bool) -> dict:
        """The question that this case puts to the checkout."""
        operands = [None if dims is None else self._operand(dims, layout)
                    for dims, layout in zip(self.form.operands, self.layouts)]
        return question(self.operation, self.meaning.names.split()[0], self.mesh, operands, self.form.statics,
                        self._locals() if with_values else None)

    def _locals(self) -> list:
        """Per rank the operands' local values."""
        return [[None if parts is None else np.asarray(parts[rank]).tolist() for _, parts in self.values]
                for rank in range(math.prod(self.mesh))]

    def _operand(self, dims, layout) -> dict:
        shape = [self.sizes[c] for c in dims]
        if layout is None:
            return {"shape": shape, "map": None, "partial": None}
        return {"shape": shape, "map": alias_map(layout), "partial": list(layout.partial)}

    def shrunk(self, draw: int) -> Case:
        """The same case at the smallest sizes."""
        return replace(self, smallest=True, draw=draw)


def alias_map(layout) -> list:
    """A layout's cuts by axis name, as the checkout's Layout is called."""
    return ["None" if not axes else NAMES[axes[0]] if len(axes) == 1 else [NAMES[a] for a in axes]
            for axes in layout.dims]


def single_axis_cases(operation: Operation, meaning: Meaning) -> list[Case]:
    """Every case on one mesh axis: of two ranks, and where the form asks for it of three."""
    found = []
    for form in meaning.forms:
        for mesh, ops in (((2,), REDUCE_OPS), ((3,), _LINEAR_OPS))[:form.axes]:
            # On three ranks a share of a bias is no power of two.
            found += _cases(operation, meaning, form, mesh, [(row,) for row in _rows(form, ops)])
    return found


def two_axis_cases(operation: Operation, meaning: Meaning, accepted) -> list[Case]:
    """Cases on two mesh axes: every pair of rows that are accepted on one axis, and a sample of the others.

    Args:
        operation: the operation.
        meaning: what it means.
        accepted: the accepted cases on one axis.
    """
    found = []
    for form in meaning.forms:
        if form.axes > 1:
            rows = _rows(form, _LINEAR_OPS[:1])
            known = {_row_of(case) for case in accepted if case.form == form and case.mesh == (2,)}
            pairs = list(itertools.product([row for row in rows if row in known], repeat=2))
            rng = seed_of("sample", operation.name, form.operands)
            pairs += [tuple(rows[i] for i in rng.integers(0, len(rows), 2)) for _ in range(SAMPLE)]
            found += _cases(operation, meaning, form, (2, 2), dict.fromkeys(pairs))
    return found


def _rows(form: Form, ops) -> list[tuple]:
    """Every choice of one placement on one axis per operand that has a layout."""
    pending = [("P", op) for op in ops]
    choices = [["R", *(("S", d) for d in range(len(form.operands[i]))), *pending] for i in _given(form)]
    return list(itertools.product(*choices))


def _row_of(case: Case) -> tuple:
    """The placements of a case on its one axis, as `_rows` has them."""
    return tuple(("P", p.reduce_op) if p.is_partial() else ("S", p.dim) if p.is_shard() else "R"
                 for (p,) in filter(None, case.placements))


def _given(form: Form) -> list[int]:
    """Operands that have a layout."""
    return [i for i, dims in enumerate(form.operands) if dims is not None and i not in form.plain]


def _cases(operation, meaning, form: Form, mesh_shape: tuple, rows) -> list[Case]:
    mesh, given = mesh_of(mesh_shape), _given(form)
    found = []
    for axes in rows:
        layouts = layouts_of(mesh, axes, [len(form.operands[i]) for i in given])
        if layouts is not None:
            placed = dict(zip(given, layouts))
            case = Case(operation, meaning, form, mesh_shape, tuple(map(placed.get, range(len(form.operands)))))
            # A plain operand of a cut dimension may be the rank's own part or the whole: it has no one meaning.
            if not any(case.cuts(letter) for i in form.plain for letter in form.operands[i]):
                found.append(case)
    return found

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

    def asked(self, with_values: bool) -> dict:
        """The question that this case puts to the checkout."""
        operands = [None if dims is None else self._operand(dims, layout)
                    for dims, layout in zip(self.form.operands, self.layouts)]
        locals_ = None
        if with_values:
            locals_ = [[None if parts is None else np.asarray(parts[rank]).tolist() for _, parts in self.values]
                       for rank in range(math.prod(self.mesh))]
        return question(self.operation, self.meaning.names.split()[0], self.mesh, operands, self.form.statics, locals_)

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


def cases_of(operation: Operation, meaning: Meaning) -> list[Case]:
    """Every case of one operation, few mesh axes first."""
    found = []
    for form in meaning.forms:
        found += _on_mesh(operation, meaning, form, (2,), REDUCE_OPS)
        if form.axes > 1:
            # Three ranks, where a share of a bias is no power of two; then two axes at once.
            found += _on_mesh(operation, meaning, form, (3,), _LINEAR_OPS)
            found += _on_mesh(operation, meaning, form, (2, 2), _LINEAR_OPS[:1])
    return found


def _on_mesh(operation, meaning, form: Form, mesh_shape: tuple, ops) -> list[Case]:
    mesh = mesh_of(mesh_shape)
    given = [i for i, dims in enumerate(form.operands) if dims is not None and i not in form.plain]
    ndims = [len(form.operands[i]) for i in given]
    choices = [["R", *(("S", d) for d in range(ndim)), *(("P", op) for op in ops)] for ndim in ndims]
    found = []
    for axes in itertools.product(itertools.product(*choices), repeat=len(mesh_shape)):
        layouts = layouts_of(mesh, axes, ndims)
        if layouts is not None:
            placed = dict(zip(given, layouts))
            case = Case(operation, meaning, form, mesh_shape, tuple(map(placed.get, range(len(form.operands)))))
            # A plain operand of a cut dimension may be the rank's own part or the whole: it has no one meaning.
            if not any(case.cuts(letter) for i in form.plain for letter in form.operands[i]):
                found.append(case)
    return found


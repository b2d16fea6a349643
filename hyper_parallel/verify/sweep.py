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
"""All placements of one operation: every tuple on one axis, pairs of rows on two, refusals, and what is found."""
from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from hyper_parallel.core.shard.rules import Convert
from hyper_parallel.errors import LayoutError
from hyper_parallel.verify.check import backward_applies, check
from hyper_parallel.verify.enumerate import layouts_of, orders_of, show, tuples, universe
from hyper_parallel.verify.generate import seed_of, sizes_for
from hyper_parallel.verify.meshes import mesh_of
from hyper_parallel.verify.needless import needless
from hyper_parallel.verify.problem import Problem, Setting, Trial
from hyper_parallel.verify.report import OpReport, RowReport
from hyper_parallel.verify.shrink import counterexample

MOST_WRONG = 12  # per operation: the first ones tell the story


@dataclass(frozen=True)
class Budget:
    """How much is checked.

    Attributes:
        meshes: mesh shapes of one or two axes.
        modes: size classes per number of mesh axes.
        pairs: most pairs of rows per pattern on two axes, None for all.
        refusals: refused pairs sampled per pattern on two axes.
        needless: look for sound rows that the table lacks.
    """

    meshes: tuple = ((2,), (3,), (2, 2))
    modes: tuple = (("even", "uneven", "empty"), ("even", "uneven"))
    pairs: int | None = None
    refusals: int = 40
    needless: bool = True


FULL = Budget()
FAST = Budget(meshes=((3,), (2, 2)), modes=(("uneven",), ("uneven",)), pairs=12, refusals=4, needless=False)


class Sweep:
    """Checks one declaration against its reference.

    Args:
        declaration: the operation.
        reference: its meaning and patterns.
        budget: how much to check.
        problem: the class of its problems; one with another `infer` audits other rules than the declaration's.
    """

    def __init__(self, declaration, reference, budget: Budget = FULL, problem=Problem):
        self.declaration, self.reference, self.budget, self.problem = declaration, reference, budget, problem
        self.report = OpReport(declaration.name, approximate=reference.approximate)

    def run(self) -> OpReport:
        """Check every pattern."""
        start = time.perf_counter()
        for pattern in self.reference.patterns:
            self.report.patterns += 1
            if pattern.refused:
                self._refused(pattern)
                continue
            try:
                with np.errstate(all="ignore"):
                    self._pattern(pattern)
            except (LayoutError, NotImplementedError, ValueError, TypeError, KeyError, IndexError) as error:
                self.report.problems.append(f"{pattern}: {type(error).__name__}: {error}")
        self.report.seconds = time.perf_counter() - start
        return self.report

    def _pattern(self, pattern) -> None:
        rows: dict = {}
        refused: dict = {}
        for shape in self.budget.meshes:
            for mode in self.budget.modes[min(len(shape), 2) - 1]:
                if mode not in pattern.modes:
                    continue
                problem = self._problem(pattern, shape, mode)
                if len(shape) == 1:
                    self._one_axis(problem, rows, refused)
                else:
                    self._two_axes(problem, rows, refused)
        self.report.refusals += len(refused)
        self.report.refused += [(str(pattern), tuple(map(show, operands))) for operands in refused]
        if self.budget.needless and not pattern.degenerate:
            always = [operands for operands in refused if operands not in rows]
            self.report.needless += [(str(pattern), text) for text in needless(self, pattern, always)]

    def _refused(self, pattern) -> None:
        """The declaration must refuse the call whatever the layouts."""
        try:
            self._problem(pattern, self.budget.meshes[0], pattern.modes[0])
        except LayoutError:
            self.report.refusals += 1
        else:
            self.report.problems.append(f"{pattern}: the rule takes a call that it must refuse")

    def _problem(self, pattern, shape, mode: str) -> Problem:
        setting = Setting(mesh_of(shape), sizes_for(pattern, shape, mode))
        return self.problem(self.declaration, self.reference, pattern, setting)

    # -- one axis ------------------------------------------------------------------------------------------------------

    def _one_axis(self, problem: Problem, rows: dict, refused: dict) -> None:
        ndims = [x.ndim for x in problem.inputs]
        for x in problem.inputs:
            self.report.tested |= {(x.ndim, f"[{show(p)}]") for p in universe(x.ndim, x.dtype)}
        for operands in tuples(problem):
            if operands in refused and problem.refuses(operands):
                continue
            layouts = layouts_of(problem.mesh, [operands], ndims)
            if self._trial(problem, [operands], layouts) is None:
                refused.setdefault(operands, None)
            else:
                rows.setdefault(operands, None)

    # -- two axes ------------------------------------------------------------------------------------------------------

    def _two_axes(self, problem: Problem, rows: dict, refused: dict) -> None:
        ndims = [x.ndim for x in problem.inputs]
        rng = seed_of("pairs", problem.declaration.name, str(problem.pattern))
        pairs = [(a, b) for a in rows for b in rows]
        if self.budget.pairs is not None and len(pairs) > self.budget.pairs:
            pairs = [pairs[i] for i in sorted(rng.choice(len(pairs), self.budget.pairs, replace=False))]
        for pair in pairs:
            for orders in orders_of(list(pair), len(ndims)):
                layouts = layouts_of(problem.mesh, list(pair), ndims, orders)
                if layouts is not None and self._trial(problem, list(pair), layouts, orders) is None:
                    self.report.refused_pairs += 1
        self._sampled_refusals(problem, list(rows), list(refused), ndims, rng)

    def _sampled_refusals(self, problem, rows, refused, ndims, rng) -> None:
        """A refused tuple on one axis stays refused, whatever the other axis holds."""
        for _ in range(self.budget.refusals if refused else 0):
            axes = [refused[rng.integers(len(refused))], (rows or refused)[rng.integers(len(rows or refused))]]
            axes = axes[::-1] if rng.random() < 0.5 else axes
            layouts = layouts_of(problem.mesh, axes, ndims)
            if layouts is not None and self._trial(problem, axes, layouts) is None:
                self.report.refused_pairs += 1

    # -- one trial -----------------------------------------------------------------------------------------------------

    def _trial(self, problem: Problem, axes: list, layouts, orders=()) -> Trial | None:
        """Check the layouts, note what is wrong; None when the rule refuses them."""
        try:
            trial = Trial(problem, layouts)
        except LayoutError:
            return None
        if self.declaration.inplace and trial.inference.outputs[0] is not trial.layouts[0]:
            return None  # the dispatcher refuses: the target would change its layout
        found = check(trial) if len(self.report.wrong) < MOST_WRONG else None
        if found:
            self.report.wrong.append(counterexample(problem, axes, orders, trial, found))
        self._note(trial, axes, found is None and len(self.report.wrong) < MOST_WRONG and backward_applies(trial))
        return trial

    def _note(self, trial: Trial, axes: list, gradients: bool) -> None:
        report, shape = self.report, trial.mesh.mesh_shape
        report.cases += 1
        report.gradients += gradients
        if len(shape) == 1 or self.budget.pairs is None:
            report.tested |= {(layout.ndim, str(layout)) for layout in trial.layouts}
            report.emitted |= {(layout.ndim, str(layout)) for layout in trial.inference.outputs}
        if len(axes) == 1:
            key = (str(trial.problem.pattern), axes[0])
            if key not in report.rows:
                report.rows[key] = row_report(trial, axes[0])
            report.rows[key].forward += 1
            report.rows[key].backward += gradients


def row_report(trial: Trial, operands: tuple) -> RowReport:
    """The row of a trial on one axis, as data."""
    outputs = tuple(layout.short(0) for layout in trial.inference.outputs)
    converts = tuple(Convert.VARYING.value if trial.inference.varying[i] else
                     Convert.ENTER_ONCE.value if trial.inference.once[i] else Convert.NONE.value
                     for i in range(len(operands)))
    return RowReport(str(trial.problem.pattern), tuple(map(show, operands)), outputs, converts)


def verify_declaration(declaration, patterns, reference, budget: Budget = FULL) -> OpReport:
    """Check one declaration over its argument patterns.

    Args:
        declaration: a `Declaration`.
        patterns: `Pattern`s, or None for those of the reference.
        reference: a `Reference`, or a numpy function of the canonical parameter dict.
        budget: how much to check.

    Returns:
        The report; `report.wrong` lists unsound rows with their smallest counterexamples.

    Examples:
        >>> import numpy as np
        >>> from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
        >>> from hyper_parallel.verify import Pattern, verify_declaration
        >>> report = verify_declaration(get_distributed_op("Outer").declaration, [Pattern("input=m other=n")],
        ...                             lambda v: np.outer(v["input"], v["other"]))
        >>> report.ok, len(report.rows)
        (True, 7)
    """
    from hyper_parallel.verify.registry import Reference
    if not isinstance(reference, Reference):
        reference = Reference(reference, tuple(patterns))
    elif patterns is not None:
        reference = Reference(reference.function, tuple(patterns), reference.differentiable, reference.approximate)
    return Sweep(declaration, reference, budget).run()

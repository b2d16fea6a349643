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
"""Run a program on simulated ranks and on one device, and compare every value and every gradient."""
from __future__ import annotations

import contextlib
import functools
import math
import re
from collections import Counter
from dataclasses import dataclass, field

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint

from hyper_parallel import (
    DTensor, LayoutError, Replicate, denote, implicit_redistribution, init_device_mesh, set_gradient_convention,
    simulate, value_and_grad,
)
from hyper_parallel.verify.tape import Tracked, vjp
from tests.ut.property.operations import NUMPY, OPERATIONS
from tests.ut.property.program import Program, Step

_FORMS = {"mint": mint, "F": mint.nn.functional, "ms": ms}
_MOST = {False: 2.0 ** 30, True: 2.0 ** 22}  # integers (with some binary places in float64) are exact below


class Wrong(AssertionError):
    """A program that is not what it is on one device."""


@dataclass
class Tally:
    """What many programs did."""

    chains: int = 0
    steps: int = 0
    refusals: Counter = field(default_factory=Counter)
    exact: int = 0
    gradients: int = 0

    def __str__(self):
        return (f"{self.chains} chains, {self.steps} operations, {sum(self.refusals.values())} refusals rewritten, "
                f"{self.exact} chains exact, {self.gradients} with gradients")


TALLY = Tally()


@functools.lru_cache(maxsize=4096)
def _compiled(text: str):
    return compile(text, text, "eval")


def evaluate(text: str, names: dict, scope: dict):
    """The value of an expression over named values."""
    return eval(_compiled(text), {**scope, **names})  # pylint: disable=eval-used


# -- one device ------------------------------------------------------------------------------------------------------


class Truth:
    """Values, gradients and bounds of their rounding on one device."""

    def __init__(self, program: Program, mesh):
        self.program, self.tied = program, False
        leaves = [leaf.value() for leaf in program.leaves]
        self.values, self.grads = self._run("numpy", leaves)
        self.sizes, self.grad_sizes = self._run("size", [leaf.magnitude(mesh) for leaf in program.leaves])
        largest = max((float(np.max(v)) for v in (*self.sizes, *self.grad_sizes) if v.size), default=0.0)
        self.exact = program.exact and largest < _MOST[program.single]
        self.finite = math.isfinite(largest)

    def _run(self, kind: str, leaves: list):
        def run(*arrays):
            names = {leaf.name: a for leaf, a in zip(self.program.leaves, arrays)}
            for step in self.program.steps:
                names[step.out] = evaluate(step.form(kind), names, NUMPY)
                if kind == "numpy":
                    self._note_ties(step, names)
            return tuple(_tracked(names[step.out]) for step in self.program.steps)

        with np.errstate(all="ignore"):
            values, pull = vjp(run, leaves)
            return values, pull([None] * (len(values) - 1) + [np.ones(())])

    def _note_ties(self, step: Step, names: dict) -> None:
        """Where a derivative is not unique, frameworks and rules may choose differently."""
        arrays = {n: getattr(names[n], "value", names[n]) for n in step.operands}
        self.tied = self.tied or ties(step, arrays, self.program.exact)

    def differs(self, found: np.ndarray, expected: np.ndarray, size: np.ndarray) -> bool:
        """True when a value is further off than rounding can be; not at all, where nothing is rounded."""
        if found.shape != expected.shape:
            return True
        if self.exact:
            return not np.array_equal(found, expected)
        return not bool(np.all(np.abs(found - expected) <= 512 * self.program.eps * size))


def ties(step: Step, arrays: dict, exact: bool) -> bool:
    """True when an operation on these arrays has no unique derivative, or may reach another one by rounding."""
    operation = OPERATIONS.get(step.op)
    text = operation and (operation.ties if exact else operation.kinks)
    return bool(text and evaluate(text.format(**dict(zip("xyz", step.operands)), **step.params), arrays, NUMPY))


def _tracked(value):
    return value if isinstance(value, Tracked) else Tracked(value)


# -- simulated ranks -------------------------------------------------------------------------------------------------


class Run:
    """One run of a program on DTensors; refused calls are replaced by their reduced, then gathered, form."""

    def __init__(self, program: Program, mesh, tally: Tally):
        self.program, self.mesh, self.tally = program, mesh, tally
        self.names: dict = {}

    def leaves(self) -> list:
        """The leaves as DTensors."""
        dtype = "float32" if self.program.single else "float64"
        return [DTensor.from_local([Tensor(p.astype(dtype)) for p in leaf.parts(self.mesh)], self.mesh,
                                   leaf.cut.on(self.mesh).placements, shape=leaf.shape)
                for leaf in self.program.leaves]

    def loss(self, *leaves):
        """The program itself."""
        self.names = {leaf.name: x for leaf, x in zip(self.program.leaves, leaves)}
        with implicit_redistribution() if self.program.implicit else contextlib.nullcontext():
            for step in self.program.steps:
                self.names[step.out] = self._step(step)
        return self.names[self.program.steps[-1].out]

    def _step(self, step: Step):
        operands = {name: self.names[name] for name in step.operands}
        for rewrite in (None, _reduced, _gathered):
            if rewrite:
                operands = {name: rewrite(x) for name, x in operands.items()}
            try:
                return self._call(step, operands)
            except LayoutError as error:
                if not re.search(r"redistribute\(|reduce_partial\(", str(error)):
                    raise Wrong(f"a refusal that names no call: {step.op}: {error}") from error
                self.tally.refusals[step.op] += 1
        raise Wrong(f"refused even when whole on every rank: {Program.statement(step, self.mesh)}")

    def _call(self, step: Step, operands: dict):
        if step.to is not None:
            return operands[step.operands[0]].redistribute(self.mesh, step.to.on(self.mesh).placements)
        return evaluate(step.form("form"), operands, _FORMS)


def _reduced(x):
    return x.reduce_partial()


def _gathered(x):
    return x.redistribute(x.device_mesh, [Replicate()] * x.device_mesh.ndim)


# -- the comparison --------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _mesh(shape: tuple):
    return init_device_mesh("cpu", shape)


def check(program: Program, tally: Tally = TALLY) -> None:
    """Compare a program with its single-device form.

    Raises:
        Wrong: when a value or gradient differs, or a refusal names no way out.
    """
    ranks = math.prod(program.mesh)
    with simulate(ranks), set_gradient_convention(program.convention):
        mesh = _mesh(program.mesh)
        truth = Truth(program, mesh)
        run = Run(program, mesh, tally)
        leaves = run.leaves()
        _, grads = value_and_grad(run.loss, tuple(range(len(leaves))))(*leaves)
        _compare_values(program, run, truth)
        if not truth.tied:
            _compare_gradients(program, grads, truth, ranks if program.convention == "sum_of_ranks" else 1)
    tally.chains += 1
    tally.steps += len(program.steps)
    tally.exact += truth.exact
    tally.gradients += not truth.tied


def _compare_values(program: Program, run: Run, truth: Truth) -> None:
    for step, expected, size in zip(program.steps, truth.values, truth.sizes):
        x = run.names[step.out]
        found = _global(x, step.out)
        if truth.differs(found, expected, size):
            raise Wrong(f"{step.out} = {Program.statement(step, run.mesh)} is {x.layout.value} and denotes\n{found}\n"
                        f"On one device it is\n{expected}")


def _compare_gradients(program: Program, grads, truth: Truth, count: int) -> None:
    """Under `sum_of_ranks` with seeds of 1, the replicated loss counts once per rank."""
    for leaf, g, expected, size in zip(program.leaves, grads, truth.grads, truth.grad_sizes):
        found = _global(g, f"the gradient of {leaf.name}")
        if truth.differs(found, expected * count, size * count):
            raise Wrong(f"the gradient of {leaf.name} is {g.layout.value} and denotes\n{found}\n"
                        f"right is\n{expected * count}")


def _global(x, name: str) -> np.ndarray:
    try:
        return denote([p.astype("float64") for p in x.numpy_locals()], x.layout)
    except LayoutError as error:
        raise Wrong(f"{name} is {x.layout.value}, but its parts denote nothing: {error}") from error

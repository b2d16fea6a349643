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
"""A random program as data, and as the text that a failure prints and anyone can run."""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.verify.meshes import mesh_of
from tests.ut.property.operations import OPERATIONS

_PRELUDE = """import mindspore as ms
from mindspore import Tensor, mint
from hyper_parallel import *
from hyper_parallel.core.dtensor.placement_types import StridedShard
F = mint.nn.functional
ms.runtime.launch_blocking()
"""


@dataclass(frozen=True)
class Cut:
    """A layout without a mesh: per tensor dimension the axes that cut it, per mesh axis what is pending."""

    dims: tuple
    partial: tuple

    def on(self, mesh):
        """The layout on a mesh of as many axes."""
        return layout_value(mesh, self.dims, self.partial)


@dataclass(frozen=True)
class Leaf:
    """A tensor that a program starts from.

    Attributes:
        name: as the text calls it.
        shape: global shape.
        cut: its layout.
        seed: of its values and of what every rank holds.
        factor: powers of two, away from zero.
    """

    name: str
    shape: tuple
    cut: Cut
    seed: int
    factor: bool = False

    def value(self) -> np.ndarray:
        """The global value: small integers of both signs."""
        rng = np.random.default_rng([self.seed, 7])
        choice = [1, 2, 4, -2, -1] if self.factor else range(-3, 4)
        return rng.choice(choice, self.shape).astype("float64")

    def parts(self, mesh) -> list:
        """What every rank holds: no rank alone has the value where something is pending."""
        layout, value = self.cut.on(mesh), self.value()
        rng = np.random.default_rng([self.seed, 11])
        addends = {(): value}
        for axis, op in enumerate(layout.partial):
            n = mesh.mesh_shape[axis] if op else 1
            addends = {key + (c,): part for key, v in addends.items() for c, part in enumerate(_split(v, op, n, rng))}
        spec = layout.spec(self.shape)
        return [addends[tuple(c if op else 0 for c, op in zip(at, layout.partial))][
                    tuple(slice(begin, begin + length) for begin, length in spec.area(at))]
                for at in np.ndindex(*mesh.mesh_shape)]

    def magnitude(self, mesh) -> np.ndarray:
        """A bound of the value and of every addend that a rank may hold."""
        pending = sum(3 ** 2 * mesh.mesh_shape[axis] for axis, op in enumerate(self.cut.partial) if op)
        return np.full(self.shape, 4.0 + 4 * pending)


def _split(value, op, n: int, rng) -> list:
    """Parts that reduce to the value; the one that completes it sits anywhere."""
    if not op:
        return [value]
    if op in ("sum", "avg"):
        parts = [rng.integers(-9, 10, value.shape).astype("float64") for _ in range(n - 1)]
        parts.append(value * (n if op == "avg" else 1) - sum(parts))
        return [parts[i] for i in rng.permutation(n)]
    beyond = rng.integers(0, 4, (n, *value.shape)) * (1 if op == "min" else -1)
    owner = rng.integers(0, n, value.shape)
    return [np.where(owner == c, value, value + beyond[c]) for c in range(n)]


@dataclass(frozen=True)
class Step:
    """One statement: `out = op(operands, **params)`; the operation "redistribute" has a `Cut` in `to`."""

    out: str
    op: str
    operands: tuple
    params: dict = field(default_factory=dict)
    to: Cut | None = None

    def form(self, kind: str) -> str:
        """The text of the right side: kind "form" on DTensors, "numpy", or "size" over magnitudes."""
        if self.to is not None:
            return self.operands[0]
        operation = OPERATIONS[self.op]
        text = getattr(operation, kind) or operation.numpy
        return text.format(**dict(zip("xyz", self.operands)), **self.params)


@dataclass(frozen=True)
class Program:
    """Leaves, statements, and how they are run; the last statement makes the loss.

    Attributes:
        mesh: shape of the mesh.
        leaves: what is differentiated.
        steps: statements.
        convention: of the gradients.
        implicit: inside `implicit_redistribution()`.
        single: float32 instead of float64.
    """

    mesh: tuple
    leaves: tuple
    steps: tuple
    convention: str
    implicit: bool
    single: bool

    @property
    def eps(self) -> float:
        """Relative rounding of one operation; the framework's tanh is off by 1e-4 near its ends, in either type."""
        if any(o.coarse for o in self._operations()):
            return 2.0 ** -19
        return float(np.finfo("float32" if self.single else "float64").eps)

    def _operations(self) -> list:
        return [OPERATIONS[s.op] for s in self.steps if s.op in OPERATIONS]

    @property
    def exact(self) -> bool:
        """No rounding on integers of moderate size."""
        operations = self._operations()
        cuts = [leaf.cut for leaf in self.leaves] + [s.to for s in self.steps if s.to]
        means = any("avg" in cut.partial for cut in cuts)
        fractions = means or any(o.fraction for o in operations)
        return all(o.exact for o in operations) and not (means and 3 in self.mesh) and not (self.single and fractions)

    def _repr_pretty_(self, printer, _cycle):
        """What hypothesis prints of a failure."""
        printer.text("\n" + self.source())

    def source(self) -> str:
        """The text without a simulation."""
        return self.text(mesh_of(self.mesh))

    def text(self, mesh) -> str:
        """A program that runs alone; refused calls in it are left as they are."""
        count = int(np.prod(self.mesh))
        lines = [f"with simulate({count}), set_gradient_convention({self.convention!r}):",
                 f"    mesh = init_device_mesh('cpu', {self.mesh!r})"]
        lines += [f"    {leaf.name} = {self._made(leaf, mesh)}" for leaf in self.leaves]
        names = ", ".join(leaf.name for leaf in self.leaves)
        lines.append(f"    def loss({names}):")
        inside = "        "
        if self.implicit:
            lines.append(inside + "with implicit_redistribution():")
            inside += "    "
        lines += [f"{inside}{s.out} = {self.statement(s, mesh)}" for s in self.steps]
        lines += [f"{inside}return {self.steps[-1].out}",
                  f"    value, grads = value_and_grad(loss, {tuple(range(len(self.leaves)))})({names})",
                  "    print(value, *grads, sep='\\n')"]
        return _PRELUDE + "\n".join(lines)

    def _made(self, leaf: Leaf, mesh) -> str:
        """The right side that makes a leaf."""
        dtype, layout = "ms.float32" if self.single else "ms.float64", placements(leaf.cut, mesh)
        if not any(leaf.cut.partial):
            return f"distribute_tensor(Tensor({leaf.value().tolist()!r}, {dtype}), mesh, {layout})"
        parts = ", ".join(f"Tensor({p.tolist()!r}, {dtype}).reshape({p.shape})" for p in leaf.parts(mesh))
        return f"DTensor.from_local([{parts}], mesh, {layout}, shape={leaf.shape})  # {leaf.value().tolist()}"

    @staticmethod
    def statement(step: Step, mesh) -> str:
        """The right side of a statement on DTensors."""
        if step.to is not None:
            return f"{step.operands[0]}.redistribute(mesh, {placements(step.to, mesh)})"
        return step.form("form")


def placements(cut: Cut, mesh) -> str:
    """The placements of a layout as text."""
    return repr(list(cut.on(mesh).placements))

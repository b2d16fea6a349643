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
"""Operations outside the matmul family: meanings and calls are those that the exact verifier checks its own rules by.

A public name stands for an operation of this project that means the same; what has no comparable value, or no meaning
that its name tells, is not audited, with the reason.
"""
from __future__ import annotations

import functools
import itertools
import json
import math
from dataclasses import dataclass, field, replace

from contrib.ask import question
from contrib.audit_cases import Case, alias_map
from contrib.child.meanings import Form, Meaning
from contrib.public_names import DRAWN, FACTORS, KERNEL, REASONS, target
from hyper_parallel.core.shard.ops.parallel_ops import RuleOp
from hyper_parallel.core.shard.ops.parallel_ops_register import registered_ops
from hyper_parallel.errors import LayoutError
from hyper_parallel.verify.enumerate import layouts_of, universe
from hyper_parallel.verify.generate import seed_of
from hyper_parallel.verify.meshes import mesh_of
from hyper_parallel.verify.pattern import HOLE, Pattern, slots_in_order
from hyper_parallel.verify.problem import Problem, Setting
from hyper_parallel.verify.registry import load_references

MESH = (2,)
MOST_FORMS = 4  # calls of one operation
MOST_ROWS = 128  # placements of the operands of one call; beyond, the plausible ones and a seeded sample


@dataclass(frozen=True, eq=False)
class Call(Form):
    """A form that is a pattern of the verifier.

    Attributes:
        pattern: the pattern.
        order: per argument its parameter, "tensor", "tensors" or "static", and positions among operands or statics.
    """

    pattern: Pattern = None
    order: tuple = ()


@dataclass(frozen=True, eq=False)
class Referred(Meaning):
    """A meaning that is a reference of the verifier, with arguments that the public name implies."""

    declaration: object = None
    reference: object = None
    implied: dict = field(default_factory=dict)


def why_not(name: str) -> str:
    """Why an operation of this name has no meaning here."""
    return REASONS.get(name) or (DRAWN if _drawn(target(name)[0]) else KERNEL)


@functools.lru_cache(maxsize=None)
def referred(name: str) -> Referred | None:
    """The meaning of an operation of this public name; None when there is none, or no call of it can be made.

    Examples:
        >>> referred("permute").declaration.name, referred("dropout")
        ('TransposeView', None)
    """
    here, implied = target(name)
    reference, op = load_references().get(here), registered_ops().get(here)
    if name in REASONS or reference is None or not isinstance(op, RuleOp) or _drawn(here):
        return None
    meaning = Referred(f"{here} {name}", None, (), factors=FACTORS.get(here, 0), exact=not reference.approximate,
                       declaration=op.declaration, reference=replace(reference, differentiable=False), implied=implied)
    calls = [call for pattern in reference.patterns if _usable(pattern, implied)
             for call in [_call(meaning, pattern, short=name[0].islower())] if call]
    return replace(meaning, forms=tuple(calls[:MOST_FORMS])) if calls else None


def _drawn(name: str) -> bool:
    reference = load_references().get(name)
    return reference is not None and getattr(reference.function, "__module__", "").endswith(".random")


def _usable(pattern: Pattern, implied: dict) -> bool:
    """True for a plain call: finite values of a numpy type, and arguments that are numbers or text."""
    if pattern.degenerate or pattern.refused or pattern.wrap:
        return False
    if any("special" in slot.domain or "bfloat16" in slot.domain for slot in pattern.slots):
        return False
    return all(pattern.statics.get(name) == value for name, value in implied.items())


def _call(meaning: Referred, pattern: Pattern, short: bool) -> Call | None:
    """The form of a pattern; None when it is refused by the operation itself or cannot be put as a question.

    Args:
        meaning: the operation.
        pattern: the pattern.
        short: leave out trailing arguments that the pattern leaves out, as callers of the other framework do.
    """
    try:
        template = _problem(meaning, pattern, MESH, _sizes(pattern, MESH), 0, False).arguments.template
        json.dumps([value for value in template.values() if not _tensors(value)])
    except (LayoutError, TypeError):
        return None
    params = [param for param in meaning.declaration.params if param.name not in meaning.implied]
    if short:
        given = [i for i, param in enumerate(params) if param.name in pattern.tensors or param.name in pattern.statics]
        params = params[:max(given) + 1]
    dims = iter([slot.dims for slot in slots_in_order(meaning.declaration, pattern)])
    operands, order = _placed(params, template, dims)
    return Call(operands, pattern=pattern, order=order)


def _placed(params, template: dict, dims) -> tuple[tuple, tuple]:
    """Dimensions of the operands, None for one left out; and where each argument is among operands or statics."""
    operands, order, statics = [], [], 0
    for param in params:
        value = template[param.name]
        held, first = _tensors(value), len(operands)
        if held or param.tensor:
            operands += [next(dims) for _ in range(held)] or [None]
        if held or (param.tensor and value is None):
            order.append((param.name, "tensor" if value in (HOLE, None) else "tensors",
                          tuple(range(first, len(operands)))))
        else:
            order.append((param.name, "static", (statics,)))
            statics += 1
    return tuple(operands), tuple(order)


def _tensors(value) -> int:
    """Number of tensors in an argument."""
    return sum(v is HOLE for v in value) if isinstance(value, (tuple, list)) else int(value is HOLE)


def _sizes(pattern: Pattern, mesh: tuple, cut=None) -> dict:
    """A size per letter that every rank can share evenly; 1 for a letter that is not in `cut`, where that is given."""
    n, held = math.prod(mesh), {c for slot in pattern.slots for c in slot.dims}
    free = [letter for letter in pattern.letters if pattern.fixed.get(letter) is None]

    def size(i: int, extra: int) -> int:
        if free[i] not in held:
            return n + extra
        return n * (1 + i % 2) if cut is None else n if free[i] in cut else 1

    for extra in range(n + 1):
        sizes = pattern.sizes(lambda i, extra=extra: size(i, extra))
        if all(sizes[c] % n == 0 for c in held if c in sizes and (cut is None or c in cut)):
            break
    return sizes


def _problem(meaning: Referred, pattern: Pattern, mesh: tuple, sizes: dict, draw: int, small: bool) -> Problem:
    setting = Setting(mesh_of(mesh), sizes, draw, small)
    return Problem(meaning.declaration, meaning.reference, pattern, setting)


_shared_problem = functools.lru_cache(maxsize=256)(
    lambda meaning, call, mesh: _problem(meaning, call.pattern, mesh, _sizes(call.pattern, mesh), 0, False))


@dataclass(frozen=True, eq=False)
class ReferredCase(Case):
    """A call of an operation that the verifier has a reference for."""

    meaning: Referred
    form: Call

    @functools.cached_property
    def problem(self) -> Problem:
        """The call as the verifier has it; the same for every placement, until it is shrunk."""
        if not self.smallest:
            return _shared_problem(self.meaning, self.form, self.mesh)
        cut = {c for layout, dims in zip(self.layouts, self.form.operands) if layout is not None
               for axes, c in zip(layout.dims, dims) if axes}
        return _problem(self.meaning, self.form.pattern, self.mesh, _sizes(self.form.pattern, self.mesh, cut),
                        self.draw, True)

    @functools.cached_property
    def values(self) -> tuple:
        """Global value and per-rank values of each operand."""
        numbers = itertools.count()
        return tuple((None, None) if layout is None else self._parts(next(numbers), layout) for layout in self.layouts)

    def _parts(self, i: int, layout) -> tuple:
        return self.problem.inputs[i], self.problem.locals_of(i, layout)

    @property
    def outputs(self) -> tuple:
        """The global results."""
        return self.problem.outputs

    @property
    def statics(self) -> tuple:
        """Every argument that is no tensor."""
        template = self.problem.arguments.template
        return tuple(template[name] for name, kind, _ in self.form.order if kind == "static")

    def asked(self, with_values: bool) -> dict:
        """The question that this case puts to the checkout."""
        inputs = iter(self.problem.inputs)
        operands = [None if layout is None else self._operand_of(next(inputs), layout) for layout in self.layouts]
        named = {name for name, _, _ in self.form.order}
        rest = {name: value for name, value in self.problem.arguments.template.items() if name not in named}
        asked = question(self.operation, self.meaning.names.split()[0], self.mesh, operands, self.statics,
                         self._locals() if with_values else None)
        return {**asked, "reference": True, "order": self.form.order, "rest": rest}

    @staticmethod
    def _operand_of(value, layout) -> dict:
        return {"shape": value.shape, "map": alias_map(layout), "partial": list(layout.partial),
                "dtype": value.dtype.name}

    def shrunk(self, draw: int) -> Case:
        """The same case at the smallest sizes, where the operation allows them."""
        small = replace(self, smallest=True, draw=draw)
        try:
            return small if small.outputs else self
        except (LayoutError, ValueError, IndexError):
            return self


def referred_cases(operation, meaning: Referred) -> list[Case]:
    """Every placement of the operands of every call on one axis of two ranks."""
    return [case for call in meaning.forms for case in _cases(operation, meaning, call)]


def _cases(operation, meaning: Referred, call: Call) -> list[Case]:
    inputs, mesh = _shared_problem(meaning, call, MESH).inputs, mesh_of(MESH)
    given = [i for i, dims in enumerate(call.operands) if dims is not None]
    found = []
    for row in _rows(operation, call, inputs):
        layouts = layouts_of(mesh, [row], [x.ndim for x in inputs])
        if layouts is not None:
            placed = dict(zip(given, layouts))
            found.append(ReferredCase(operation, meaning, call, MESH,
                                      tuple(map(placed.get, range(len(call.operands))))))
    return found


def _rows(operation, call: Call, inputs) -> list[tuple]:
    """Placements of the operands: all of them if they are few."""
    n = math.prod(MESH)
    choices = [[p for p in universe(x.ndim, x.dtype) if p[0] != "S" or x.shape[p[1]] % n == 0] for x in inputs]
    if math.prod(map(len, choices)) <= MOST_ROWS:
        return list(itertools.product(*choices))
    dims = [d for d in call.operands if d is not None]
    rng = seed_of("rows", operation.name, str(call.pattern))
    found = [*_plausible(choices, dims), *(tuple(c[rng.integers(len(c))] for c in choices) for _ in range(MOST_ROWS))]
    return list(dict.fromkeys(found))[:MOST_ROWS]


def _plausible(choices, dims) -> list[tuple]:
    """All whole; one operand placed alone; a letter cut wherever it occurs; everything pending."""
    whole = tuple(c[0] for c in choices)
    found = [whole, *(whole[:i] + (p,) + whole[i + 1:] for i, c in enumerate(choices) for p in c)]
    everywhere = [[("S", d.find(letter)) for d in dims] for letter in dict.fromkeys("".join(dims))]
    for wanted in [*everywhere, [("P", "sum")] * len(dims)]:
        found.append(tuple(p if p in c else c[0] for p, c in zip(wanted, choices)))
    return found

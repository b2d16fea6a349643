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
"""One concrete call to check: global values, the bound rule, and how one rank runs its part of it.

Everything that the dispatcher does to a call happens here in numpy: conversions of replicas, static arguments that
differ by rank, local forms, the stand-in for empty shards.
"""
from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass, field

import numpy as np

from hyper_parallel.core.dtensor.layout_value import LayoutValue
from hyper_parallel.core.shard.declaration import Declaration, Operand, Place, empty_letters, idle_operands
from hyper_parallel.core.shard.rules import Inference, infer
from hyper_parallel.verify.generate import cotangent, divisor, draw, realise, seed_of, step_for
from hyper_parallel.verify.kernels import KERNELS
from hyper_parallel.verify.meshes import coordinates
from hyper_parallel.verify.pattern import Pattern, arguments, default_dtype, slots_in_order
from hyper_parallel.verify.registry import Reference
from hyper_parallel.verify.tape import NoDerivative, vjp


_KNOTS = (-3, 5, 6)  # of the hard activations: where the sixths, or the eighths of exact stand-ins, begin and end


@dataclass(frozen=True)
class Setting:
    """Where a call is checked.

    Attributes:
        mesh: the device mesh.
        sizes: letter -> size.
        seed: distinguishes draws.
        small: draw integers near zero.
    """

    mesh: object
    sizes: dict = field(hash=False)
    seed: int = 0
    small: bool = False


class Problem:
    """A declaration, a pattern of its arguments and a setting: global inputs, global outputs, global gradients.

    Args:
        declaration: the operation.
        reference: its meaning on plain arrays.
        pattern: how it is called.
        setting: mesh, sizes and seed.

    Raises:
        LayoutError: when the declaration refuses the pattern itself.
    """

    def __init__(self, declaration: Declaration, reference: Reference, pattern: Pattern, setting: Setting):
        self.declaration, self.reference, self.pattern, self.setting = declaration, reference, pattern, setting
        self.mesh, shape = setting.mesh, setting.mesh.mesh_shape
        self._key = (declaration.name, str(pattern), shape, tuple(setting.sizes.items()), setting.seed)
        self.step = 1.0 if setting.small else step_for(shape, setting.sizes)
        rng = seed_of("values", *self._key)
        slots = slots_in_order(declaration, pattern)
        self.inputs = [draw(slot, setting.sizes, self.step, rng, setting.small) for slot in slots]
        self.dtypes = [slot.dtype or default_dtype(x) for slot, x in zip(slots, self.inputs)]
        self.arguments = arguments(declaration, pattern, setting.sizes)
        operands = [Operand(x.shape, dtype if declaration.needs_dtype else None)
                    for x, dtype in zip(self.inputs, self.dtypes)]
        self.bound = declaration.bind(declaration.call(self.arguments.fill(operands)))
        if self.bound.out_shapes is None:
            self.bound = self._told()
        self._locals: dict = {}

    def _told(self):
        """The bound call with the number and shapes of the results that the reference gives; all are whole."""
        signature = dataclasses.replace(self.bound.signature, outputs=tuple((None,) * o.ndim for o in self.outputs))
        shapes = tuple(o.shape for o in self.outputs)
        return dataclasses.replace(self.bound, signature=signature, out_shapes=shapes, multi=len(shapes) > 1)

    @property
    def signature(self):
        """The bound signature."""
        return self.bound.signature

    def infer(self, layouts) -> Inference:
        """What the rule says of these layouts of the operands; an audit of other rules overrides it."""
        return infer(self.signature, list(layouts))

    def own_run(self, layouts: tuple, rank: int):  # pylint: disable=unused-argument
        """What a rank computes of its parts, where no declaration says so; None otherwise."""
        return None

    def refuses(self, operands: tuple) -> bool:
        """True when a placement tuple on one axis surely has no row, known without the cost of a full refusal."""
        return self.signature.row(letters_of(self.signature, operands)) is None

    def call(self, tensors, replaced=None, form=None):
        """The reference (or a local form) on these arrays, as a tuple of outputs."""
        values = self.arguments.fill(tensors, **(replaced or {}))
        outs = self.reference.function(values) if form is None else KERNELS[form[0]](values, **form[1])
        return tuple(outs) if isinstance(outs, (tuple, list)) else (outs,)

    @functools.cached_property
    def _global(self):
        return run(lambda *x: self.call(x), self.inputs, self.differentiable)

    @property
    def outputs(self) -> tuple:
        """Global outputs."""
        return self._global[0]

    @property
    def differentiable(self) -> bool:
        """True when gradients of this pattern have an exact meaning."""
        return self.reference.differentiable and self.pattern.grad

    @property
    def approximate(self) -> bool:
        """True when results are compared within 4 ulp."""
        return self.reference.approximate or self.pattern.approximate

    @property
    def has_gradients(self) -> bool:
        """True when some floating input has a gradient through this call."""
        return self._global[1] is not None and any(x.dtype.kind == "f" for x in self.inputs)

    @functools.cached_property
    def cotangents(self) -> tuple:
        """Global integer cotangents of the floating outputs, None for others."""
        rng = seed_of("cotangents", *self._key)
        step = divisor(self.mesh.mesh_shape, {} if self.setting.small else self.setting.sizes)
        return tuple(cotangent(o.shape, step, rng) if o.dtype.kind == "f" else None
                     for o in self.outputs)

    @functools.cached_property
    def gradients(self) -> list:
        """Global gradients of the inputs for `cotangents`, None where an input has none."""
        return self._global[1](self.cotangents)

    def locals_of(self, i: int, layout: LayoutValue) -> list:
        """Per-rank values of operand i under a layout; the same for every question about it."""
        key = (i, layout)
        if key not in self._locals:
            rng = seed_of("locals", i, str(layout), layout.dims, *self._key)
            self._locals[key] = realise(self.inputs[i], layout, self.step, rng, self._knots(i))
        return self._locals[key]

    def _knots(self, i: int) -> tuple:
        """Where the operation may change its slope in operand i: at numbers of the call, and at other operands."""
        numbers = [v for v in self.arguments.template.values() if isinstance(v, (int, float)) and abs(v) < 100]
        others = [x for j, x in enumerate(self.inputs) if j != i and x.dtype.kind == "f"
                  and _broadcasts(x.shape, self.inputs[i].shape)]
        return (0, *dict.fromkeys(numbers), *_KNOTS, *others)


def _broadcasts(shape: tuple, whole: tuple) -> bool:
    return len(shape) <= len(whole) and all(a in (1, b) for a, b in zip(shape[::-1], whole[::-1]))


def letters_of(signature, operands: tuple) -> tuple:
    """A placement tuple with letters in place of dims, as signatures look rows up."""
    return tuple(("S", dims[p[1]]) if p[0] == "S" else p for p, dims in zip(operands, signature.inputs))


def run(function, arrays, differentiate: bool):
    """Outputs and pullback (None when there is none) of a function on arrays."""
    with np.errstate(all="ignore"):
        if differentiate:
            try:
                return vjp(function, arrays)
            except NoDerivative:
                pass
        return tuple(np.asarray(o) for o in function(*arrays)), None


class Trial:
    """One problem under one layout per operand: what every rank computes.

    Args:
        problem: the call.
        layouts: one layout per operand.
        inference: what is claimed of them; None asks the rule.

    Raises:
        LayoutError: when the rule refuses.
    """

    def __init__(self, problem: Problem, layouts, inference: Inference | None = None):
        self.problem, self.layouts, self.mesh = problem, tuple(layouts), problem.mesh
        self.inference = problem.infer(layouts) if inference is None else inference
        self.coordinates = coordinates(self.mesh.mesh_shape)
        bound = problem.bound
        inputs = tuple(layout.spec(x.shape) for layout, x in zip(self.layouts, problem.inputs))
        outputs = tuple(layout.spec(tuple(s)) for layout, s in zip(self.inference.outputs, bound.out_shapes))
        self.places = [Place(c, inputs, outputs, self.inference) for c in self.coordinates]

    @functools.cached_property
    def locals_in(self) -> list:
        """Per operand the values that each rank holds, before conversion."""
        return [self.problem.locals_of(i, layout) for i, layout in enumerate(self.layouts)]

    @functools.cached_property
    def runs(self) -> list:
        """Per rank (local outputs, pullback)."""
        return [self._run(r) for r in range(len(self.coordinates))]

    def _run(self, r: int):
        place, problem = self.places[r], self.problem
        tensors = [self._converted(i, values[r], place) for i, values in enumerate(self.locals_in)]
        own = problem.own_run(self.layouts, r)
        if own is not None:
            return run(own, tensors, problem.differentiable)
        replaced, form = static_changes(problem, place), local_form(problem.bound, place)
        empty, idle = empty_parts(problem.bound, place) if form is None else (frozenset(), ())

        def local(*arrays):
            if not empty:
                return problem.call(arrays, replaced, form)
            return _without_stand_in(problem, empty, problem.call(_with_stand_in(problem, empty, arrays), replaced))

        outs, pull = run(local, tensors, problem.differentiable)
        return (outs, _idle(pull, idle)) if pull is not None and idle else (outs, pull)

    def _converted(self, i: int, value, place):
        """Zeros are made, never multiplied: inf * 0 is nan."""
        if any(place.coordinate[a] for a in self.inference.once[i]):
            return np.zeros_like(value)
        return value

    @property
    def locals_out(self) -> list:
        """Per output the values that each rank computes."""
        return [[outs[j] for outs, _ in self.runs] for j in range(len(self.problem.bound.out_shapes))]


def static_changes(problem: Problem, place: Place) -> dict:
    """Static arguments that the rank at this place replaces: localised ones, and scalars that enter once."""
    bound = problem.bound
    changes = {} if bound.localize is None else dict(bound.localize(place))
    if any(place.coordinate[a] for a in place.inference.constant_once):
        for param in problem.declaration.params:
            value = problem.arguments.template.get(param.name)
            if param.tensor and isinstance(value, (int, float)):
                changes[param.name] = type(value)(0)
    return changes


def local_form(bound, place: Place):
    """Name and arguments of the local form at this place, or None for the operation itself."""
    return None if bound.kernel is None else bound.kernel(place)


# -- empty shards ----------------------------------------------------------------------------------------------------


def empty_parts(bound, place: Place) -> tuple[frozenset, tuple]:
    """Letters that are reduced and empty at this place, where one slice of identity stands in; and operands that get no
    gradient because the result is empty though they are not.
    """
    empty = empty_letters(bound.signature, place)
    padded = frozenset(empty & set(bound.signature.reduces)) if bound.localize is None else frozenset()
    return padded, idle_operands(bound.signature, empty)


def _idle(pull, operands: tuple):
    """The pullback that leaves these operands without gradient."""

    def without(cotangents):
        return [np.zeros_like(g) if i in operands and g is not None else g for i, g in enumerate(pull(cotangents))]

    return without


def _with_stand_in(problem: Problem, empty: frozenset, arrays) -> list:
    padded = []
    for x, dims in zip(arrays, problem.signature.inputs):
        for dim, letter in enumerate(dims):
            if letter in empty:
                shape = x.shape[:dim] + (1,) + x.shape[dim + 1:]
                x = np.concatenate([x, identity_array(problem.bound.identity, shape, x.dtype)], dim)
        padded.append(x)
    return padded


def _without_stand_in(problem: Problem, empty: frozenset, outs) -> tuple:
    cut = []
    for x, dims in zip(outs, problem.signature.outputs):
        for dim, letter in enumerate(dims):
            if letter in empty:
                x = x[(slice(None),) * dim + (slice(0, 0),)]
        cut.append(x)
    return tuple(cut)


def identity_array(identity, shape: tuple, dtype) -> np.ndarray:
    """An array of the identity of a reduction: a number, or "max" / "min" for the extreme of the type."""
    if identity in ("max", "min"):
        sign = -1 if identity == "max" else 1
        if dtype == bool:
            identity = identity == "min"
        elif dtype.kind == "f":
            identity = sign * np.inf
        else:
            info = np.iinfo(dtype)
            identity = info.min if sign < 0 else info.max
    return np.full(shape, identity, dtype)

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
"""A plan: what one operation does for one combination of layouts, shapes and static arguments. Made cold, run warm."""
# pylint: disable=protected-access  # a DTensor's spec and locals are the package's own
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mindspore import Tensor, mint
from mindspore import dtype as mstype

from hyper_parallel.core.dtensor.boundaries import Enter, FanOut, NoGradient, apply, grad_enabled
from hyper_parallel.core.dtensor.dtensor_base import (
    LOCAL, TYPES, DTensorBase, NoFallbackGuard, forget, own_object, plain, remembered, running_local, values_of, wrap,
)
from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.core.shard.declaration import Bound, Declaration, Place, empty_letters, idle_operands, read
from hyper_parallel.core.shard.rules import Inference
from hyper_parallel.errors import LayoutError
from hyper_parallel.platform.mindspore.local_forms import FORMS
from hyper_parallel.platform.platform import current_platform

_FLOATS = (mstype.float16, mstype.bfloat16, mstype.float32, mstype.float64)


def unpack(name: str, args):
    """(primitive, real args) of a packed call `(primitive, name, (args...))`; (None, args) of any other."""
    if len(args) == 3 and args[1] == name and isinstance(args[1], str) and isinstance(args[2], (tuple, list)):
        return args[0], args[2]
    return None, args


def entered(tensor, varying: tuple, once: tuple) -> list:
    """Local values of a replicated operand after its conversion; made once per recording and shared by consumers."""
    mesh = tensor._spec.mesh
    if not grad_enabled() or tensor.dtype not in _FLOATS:
        return Enter(mesh, (), once).forward(values_of(tensor)) if once else values_of(tensor)
    boundary = Enter(mesh, varying, once)
    return remembered(tensor, ("enter", varying, once, boundary.single), lambda: apply(boundary, values_of(tensor)))


class Plan:
    """The recipe for one key of the dispatcher's cache.

    Attributes:
        declaration: the operation.
        bound: its call bound to global shapes.
        inference: layouts of the outputs and conversions of the operands.
        operands: paths of the tensor operands in the raw arguments: (index,), (index, member) or (keyword,).
        outputs: specs of the outputs.
        changes: per position, static arguments to replace: path -> value.
        kernels: per position, the local form to run in place of the operation, or None.
    """

    def __init__(self, declaration: Declaration, bound: Bound, inference: Inference, in_specs, call):
        self.declaration, self.bound, self.inference = declaration, bound, inference
        self.mesh = in_specs[0].mesh
        self.told = bound.out_shapes is None  # the local results tell their number and shapes; all are replicas
        self.outputs = tuple(layout.spec(shape) for layout, shape in zip(inference.outputs, bound.out_shapes or ()))
        self.operands, self.slots = call.operands, call.slots
        self.in_specs = in_specs
        platform = current_platform()
        self.positions = [self.mesh.coordinate_of(rank) for rank in platform.positions(self.mesh)]
        self.places = [Place(c, in_specs, self.outputs, inference) for c in self.positions]
        self.changes = [self._changes(place, call) for place in self.places]
        self.kernels = [self._kernel(place, platform) for place in self.places]
        self.varying, self.once = self._shared(inference.varying), self._shared(inference.once)
        self.converted = tuple(bool(v or o) for v, o in zip(self.varying, self.once))
        self.direct = not platform.simulated and self._is_direct()
        self.simple = self.direct and not any(self.converted)  # a plain operand that varies is converted too
        self.spec = self.outputs[0] if self.outputs else None

    def _shared(self, operands: tuple) -> tuple:
        """Per operand the axes of more than one rank: over one, no conversion of a replica changes anything."""
        return tuple(tuple(a for a in axes if self.mesh.mesh_shape[a] > 1) for axes in operands)

    def _is_direct(self) -> bool:
        """Nothing stands between call and kernel; without recording, a varying replica is its own local value."""
        single = not (self.declaration.inplace or self.bound.multi or self.told)
        return single and not (any(self.once) or self.changes[0] or self.kernels[0])

    # -- made once -----------------------------------------------------------------------------------------------------

    def _changes(self, place: Place, call) -> dict:
        changes = {} if self.bound.localize is None else dict(self.bound.localize(place))
        if any(place.coordinate[a] for a in self.inference.constant_once):
            for param in self.declaration.params:
                value = call.values.get(param.name)
                if param.tensor and isinstance(value, (int, float)):
                    changes[param.name] = type(value)(0)
        return changes

    def _kernel(self, place: Place, platform):
        form = None if self.bound.kernel is None else self.bound.kernel(place)
        if form is not None:
            return LocalForm(self, *form)
        empty = self._empty(place)
        shapes = tuple(_stood_in(dims, place.in_shape(i), empty) for i, dims in enumerate(self.bound.signature.inputs))
        substitute = platform.kernel(self.declaration.name, shapes)
        run = None if substitute is None else Substitute(substitute)
        return Padded(self, empty, run) if empty else run

    def _empty(self, place: Place) -> Empty:
        """What is empty on one rank; with rewritten static arguments the kernel must run on the parts as they are."""
        signature = self.bound.signature
        letters = empty_letters(signature, place)
        native = (self.bound.localize is not None and self.bound.sized) or self.declaration.inplace
        return Empty(frozenset() if native else frozenset(letters), idle_operands(signature, letters))

    # -- run -----------------------------------------------------------------------------------------------------------

    def run(self, func, args, kwargs):
        """The operation on DTensors: local values in, one local run per position, DTensors out."""
        if self.simple or (self.direct and not grad_enabled()):
            return self._run_direct(func, args, kwargs)
        name = self.declaration.name
        primitive, args = unpack(name, args)
        values = [self._values(i, get_argument(path, args, kwargs)) for i, path in enumerate(self.operands)]
        results = []
        with running_local():
            for p in range(len(self.positions)):
                local_args, local_kwargs = self._local_arguments(p, args, kwargs, [v[p] for v in values])
                kernel = self.kernels[p]
                if kernel is not None:
                    results.append(kernel(func, primitive, name, local_args, local_kwargs))
                else:
                    results.append(call_local(func, primitive, name, local_args, local_kwargs))
        if self.declaration.inplace:
            target = get_argument(self.operands[0], args, kwargs)
            forget(target)
            return target
        return self._wrap(results)

    def relabel(self, layouts) -> None:
        """Take the layouts that a subclass of the rule's operation gives for the outputs."""
        self.outputs = tuple(handle.value.spec(spec.shape) for handle, spec in zip(layouts, self.outputs))
        self.spec = self.outputs[0]

    def run_locally(self, func, args, kwargs):
        """The operation on this process's local tensors, conversions included; a local result."""
        values = []
        for i, path in enumerate(self.operands):
            value = [get_argument(path, args, kwargs)]
            if self.converted[i]:
                value = apply(Enter(self.mesh, self.varying[i], self.once[i]), value)
            values.append(value[0])
        local_args, local_kwargs = self._local_arguments(0, args, kwargs, values)
        run = call_local if self.kernels[0] is None else self.kernels[0]
        return run(func, None, self.declaration.name, local_args, local_kwargs)

    def checked(self, result):
        """The result of a first run, after a look at its local shapes: rule and kernel must agree on every rank."""
        results = result if self.bound.multi else (result,)
        for j, tensor in enumerate(() if self.told else results):
            for place, value in zip(self.places, values_of(tensor)):
                if tuple(value.shape) != place.out_shape(j):
                    raise LayoutError(f"{self.declaration.name}: the rule says {self.outputs[j]}, so a local result of "
                                      f"shape {place.out_shape(j)}, but the operation gave {tuple(value.shape)}. The "
                                      f"rule or the local operation is wrong: please report this call.")
        return result

    def _run_direct(self, func, args, kwargs):
        before, LOCAL.active = LOCAL.active, True
        try:
            with NoFallbackGuard():
                result = func(*args, **kwargs) if kwargs else func(*args)
        finally:
            LOCAL.active = before
        if type(result) is Tensor:  # pylint: disable=unidiomatic-typecheck
            result.__class__ = TYPES.dtensor
            result._spec = self.spec
            return result
        return wrap([plain(result)], self.spec)

    def _values(self, i: int, operand) -> list:
        if self.converted[i] and isinstance(operand, DTensorBase):
            return entered(operand, self.varying[i], self.once[i])
        if isinstance(operand, DTensorBase):
            return [operand] if operand._locals is None else operand._locals
        varying, once = self.varying[i], self.once[i]
        if operand._requires_grad and grad_enabled():  # a replica by the caller's word: its gradient is complete too
            return apply(Enter(self.mesh, varying, once), apply(FanOut(self.mesh), [operand]))
        values = [operand] * len(self.positions)
        return Enter(self.mesh, (), once).forward(values) if once else values

    def _local_arguments(self, p: int, args, kwargs, values):
        local_args, local_kwargs = list(args), dict(kwargs) if kwargs else {}
        for path, value in zip(self.operands, values):
            put_argument(path, value, local_args, local_kwargs)
        dropped = []
        for name, value in self.changes[p].items():
            slot = self.slots.get(name)
            if slot is None:
                continue
            if slot.keyword is not None:
                local_kwargs[slot.keyword] = value
            else:
                local_args[slot.start] = value
                dropped.extend(range(slot.start + 1, slot.stop))
        for index in sorted(dropped, reverse=True):
            del local_args[index]
        return local_args, local_kwargs

    def _wrap(self, results: list):
        if self.told:
            return self._wrap_told(results)
        if not self.bound.multi:
            return wrap([own_object(r) for r in results], self.spec)
        made = [wrap([own_object(r[j]) for r in results], spec) for j, spec in enumerate(self.outputs)]
        return type(results[0])(made) if isinstance(results[0], list) else tuple(made)


    def _wrap_told(self, results: list):
        if isinstance(results[0], (tuple, list)):
            return type(results[0])(self._wrap_told(list(members)) for members in zip(*results))
        shapes = {tuple(r.shape) for r in results}
        if len(shapes) > 1:
            raise LayoutError(f"{self.declaration.name}: its operands are replicas, but the ranks got results of the "
                              f"shapes {sorted(shapes)}. A tensor labelled Replicate differs between ranks: look at "
                              f"x.numpy_locals() of every operand.")
        shape = shapes.pop()
        return wrap([own_object(r) for r in results], layout_value(self.mesh, ((),) * len(shape)).spec(shape))


def call_local(func, primitive, name: str, args, kwargs):
    """Call the framework's function in the form that it was intercepted in."""
    if primitive is not None:
        return func(primitive, name, tuple(args))
    return func(*args, **kwargs) if kwargs else func(*args)


def get_argument(path: tuple, args, kwargs):
    head = kwargs[path[0]] if isinstance(path[0], str) else args[path[0]]
    return head if len(path) == 1 else head[path[1]]


def put_argument(path: tuple, value, args: list, kwargs: dict) -> None:
    holder = kwargs if isinstance(path[0], str) else args
    if len(path) == 1:
        holder[path[0]] = value
    else:
        members = list(holder[path[0]])
        members[path[1]] = value
        holder[path[0]] = tuple(members)


# -- local forms -----------------------------------------------------------------------------------------------------


class Substitute:
    """A platform's substitute for a kernel that it lacks."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __call__(self, func, primitive, name, args, kwargs):
        return self.kernel(*args, **kwargs)


class LocalForm:
    """A named local form other than the operation itself, called with the canonical arguments."""

    def __init__(self, plan: Plan, form: str, params: dict):
        self.form, self.params, self.plan = FORMS[form], params, plan

    def __call__(self, func, primitive, name, args, kwargs):
        values = {}
        for param in self.plan.declaration.params:
            slot = self.plan.slots.get(param.name)
            values[param.name] = param.default if slot is None else read(slot, param, args, kwargs)
        return self.form(values, **self.params)


class Padded:
    """Runs a local operation on a rank where cut dimensions are empty: one slice stands in for each of them.

    Kernels on empty inputs raise, or leave memory unset (the CPU's sums, also inside backward). A slice of the identity
    in a reduced dimension gives the exact result; from a kept dimension the stand-in is cut away again, and operands
    that lack it get a gradient of exactly zero.
    """

    def __init__(self, plan: Plan, empty: Empty, run):
        self.plan, self.empty = plan, empty
        self.inner = call_local if run is None else run

    def __call__(self, func, primitive, name, args, kwargs):
        sig = self.plan.bound.signature
        for i, (path, dims) in enumerate(zip(self.plan.operands, sig.inputs)):
            value = get_argument(path, args, kwargs)
            if i in self.empty.idle and grad_enabled() and value.dtype in _FLOATS:
                value = apply(NoGradient(self.plan.mesh), [plain(value)])[0]
            for dim, letter in enumerate(dims):
                if letter in self.empty.padded:
                    value = self._pad(value, dim, letter, i)
            put_argument(path, value, args, kwargs)
        result = self.inner(func, primitive, name, args, kwargs)
        results = result if self.plan.bound.multi else (result,)
        cut = tuple(self._cut(r, dims) for r, dims in zip(results, sig.outputs))
        return cut if self.plan.bound.multi else cut[0]

    def _pad(self, value, dim: int, letter, i: int):
        sig = self.plan.bound.signature
        shape = list(value.shape)
        shape[dim] = 1
        stand_in = self.plan.bound.identity if letter in sig.reduces else 0 if i in sig.no_grad else 1
        return mint.cat([plain(value), identity_slice(stand_in, tuple(shape), value.dtype)], dim)

    def _cut(self, value, dims):
        for dim, letter in enumerate(dims):
            if letter in self.empty.padded:
                value = mint.narrow(value, dim, 0, 0)
        return value


def identity_slice(identity, shape: tuple, dtype):
    """A tensor filled with the identity of a reduction: a number, or "max" / "min" for the extreme of the type."""
    if identity in ("max", "min"):
        kind = np.dtype(mstype.dtype_to_nptype(dtype)) if dtype != mstype.bfloat16 else np.dtype("float32")
        if kind.kind == "f":
            identity = float("-inf") if identity == "max" else float("inf")
        else:
            info = np.iinfo(kind)
            identity = int(info.min if identity == "max" else info.max)
        return Tensor(np.full(shape, identity, kind)).to(dtype)
    filled = mint.zeros(shape, dtype=dtype)
    return filled if not identity else (filled + identity).to(dtype)


@dataclass(frozen=True)
class Empty:
    """What is empty on one rank.

    Attributes:
        padded: letters for which a slice stands in.
        idle: operands that take no part in an empty result, so their gradient is zero.
    """

    padded: frozenset
    idle: tuple

    def __bool__(self):
        return bool(self.padded or self.idle)


def _stood_in(letters: tuple, shape: tuple, empty: Empty) -> tuple:
    """The shape that the kernel sees: one slice stands in for an empty letter."""
    return tuple(size + 1 if letter in empty.padded else size for letter, size in zip(letters, shape))

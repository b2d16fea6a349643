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
"""The dispatcher: every framework call on a DTensor comes here; the plan is looked up, or made by asking the rule."""
# pylint: disable=protected-access  # a DTensor's spec and locals are the package's own
from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass

import numpy as np
from mindspore import Tensor

from hyper_parallel.core.dtensor.dtensor_base import TYPES, DTensorBase, running_local, wrap_shared
from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.core.shard.contract import run_contract
from hyper_parallel.core.shard.declaration import Declaration, Operand, locate, read
from hyper_parallel.core.shard.implicit import redistributed
from hyper_parallel.core.shard.modes import STATE, SkipDTensorDispatch, implicit_replication, remedied
from hyper_parallel.core.shard.ops.parallel_ops import RuleOp
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op, on_registration
from hyper_parallel.core.shard.plan import Plan, get_argument, put_argument, unpack
from hyper_parallel.core.shard.rules import infer
from hyper_parallel.errors import LayoutError, MeshError, UnsupportedOpError
from hyper_parallel.platform.platform import current_platform

logger = logging.getLogger("hyper_parallel.dispatch")

CACHE_SIZE = 8192
_LOCAL_ANSWERS = frozenset({"typeof"})  # questions whose answer is no tensor and the same on every rank
_ATOMS = frozenset((int, float, bool, str, type(None)))


class RawCall:
    """A call with its arguments located: where the operands and the static values sit, and what a binder sees."""

    def __init__(self, declaration, name: str, args, kwargs):
        _, args = unpack(name, args)
        self.slots = locate(name, declaration.params, args, kwargs)
        self.values, self.operands, self.tensors = {}, [], []
        self._wants_dtype = declaration.needs_dtype
        for param in declaration.params:
            slot = self.slots.get(param.name)
            if slot is None:
                continue
            where = slot.keyword if slot.keyword is not None else slot.start
            self.values[param.name] = self._operand(read(slot, param, args, kwargs), (where,))

    def _operand(self, value, path: tuple):
        if isinstance(value, Tensor):
            self.operands.append(path)
            self.tensors.append(value)
            return Operand(tuple(value.shape), str(value.dtype).lower() if self._wants_dtype else None)
        if isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value) and len(path) == 1:
            return tuple(self._operand(v, (*path, i)) for i, v in enumerate(value))
        return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Refused:
    """A call that a rule refuses.

    Attributes:
        error: the refusal.
        declaration: the operation.
        func: what the framework would run.
        name: the operation's name.
        args: positional arguments, packed or not.
        kwargs: keyword arguments.
    """

    error: LayoutError
    declaration: Declaration
    func: object
    name: str
    args: tuple
    kwargs: dict

    def arguments(self) -> dict:
        """Parameter -> value, for the parameters that the call gives."""
        _, real = unpack(self.name, self.args)
        slots = locate(self.name, self.declaration.params, real, self.kwargs)
        return {p.name: read(slots[p.name], p, real, self.kwargs) for p in self.declaration.params if p.name in slots}

    def operands(self) -> list:
        """The tensors of the call, lists unrolled."""
        return RawCall(self.declaration, self.name, self.args, self.kwargs).tensors

    def again(self, change):
        """The result of the call with every tensor operand replaced by change(operand)."""
        primitive, real = unpack(self.name, self.args)
        real, kwargs = list(real), dict(self.kwargs)
        for path in RawCall(self.declaration, self.name, self.args, self.kwargs).operands:
            put_argument(path, change(get_argument(path, real, kwargs)), real, kwargs)
        args = (primitive, self.name, tuple(real)) if primitive is not None else tuple(real)
        return dispatcher.dispatch(self.func, args, kwargs)


def _redistributed(call: Refused):
    args, kwargs = redistributed(call.error, call.declaration, call.name, call.args, call.kwargs, RawCall,
                                 dispatcher.specs)
    return dispatcher.dispatch(call.func, args, kwargs)


class OpDispatcher:
    """Normalise, look up, run. One instance serves the process."""

    def __init__(self):
        self._plans: dict = {}
        self._dtype_ops: dict = {}
        on_registration(self.clear)

    def dispatch(self, func, args, kwargs=None):
        """The result of a framework call whose arguments hold DTensors.

        Raises:
            UnsupportedOpError: when the operation has no rule.
            LayoutError: when the rule refuses; raised before any communication.
        """
        name = func.name
        if (STATE.skip and name not in STATE.keep) or name in _LOCAL_ANSWERS:
            with running_local():
                return func(*args, **(kwargs or {}))
        try:
            key = self._key(name, args, kwargs)
            plan = self._plans.get(key)
        except TypeError:  # an unhashable argument: nothing to remember
            key = plan = None
        if plan is None:
            return self._cold(func, name, args, kwargs, key)
        return plan.run(func, args, kwargs)

    def _key(self, name: str, args, kwargs) -> tuple:
        parts = [name]
        for a in args:
            kind = type(a)
            if kind is TYPES.dtensor:
                parts.append(a._spec)
            elif kind in _ATOMS:
                parts.append(kind)
                parts.append(a)
            else:
                parts.append(_slow_key(a))
        if kwargs:
            for word, a in kwargs.items():
                parts.append(word)
                parts.append(_slow_key(a))
        if name in self._dtype_ops:
            parts.extend(str(a.dtype) for a in _tensors(args, kwargs))
        return tuple(parts)

    def _cold(self, func, name: str, args, kwargs, key):
        kwargs = kwargs or {}
        op = get_distributed_op(name)
        if op is None:
            _refuse_arrays(name, args)
            raise UnsupportedOpError(
                f"{name} has no distributed rule, so it cannot run on a DTensor. Register one: an "
                f"instance of a DistributedOp subclass named {name!r}; or run it on local tensors: "
                f"hyper_parallel.custom_shard(fn, mesh, out_placements, in_placements).")
        if not isinstance(op, RuleOp) or type(op).get_expand_impl is not RuleOp.get_expand_impl:
            return run_contract(op, func, args, kwargs)
        try:
            plan = self._plan(op.declaration, name, args, kwargs)
            if type(op).infer_layout is not RuleOp.infer_layout:
                plan.relabel(op.infer_layout(op.preprocess(unpack(name, args)[1], kwargs)[2])[0])
        except LayoutError as error:
            return self._remedied(Refused(error, op.declaration, func, name, args, kwargs))
        result = plan.checked(plan.run(func, args, kwargs))
        if key is not None:
            self._remember(key, name, op.declaration, args, kwargs, plan)
        return result

    def _remedied(self, call: Refused):
        for remedy in reversed(STATE.remedies):
            result = remedy(call)
            if result is not NotImplemented:
                return result
        parts = (str(call.error), call.declaration.advice, _operands_text(call.args, call.kwargs))
        raise type(call.error)(" ".join(filter(None, parts))) from None

    def _remember(self, key, name, declaration, args, kwargs, plan) -> None:
        if declaration.needs_dtype and name not in self._dtype_ops:
            self._dtype_ops[name] = True
            key = self._key(name, args, kwargs)
        if len(self._plans) >= CACHE_SIZE:
            for old in list(self._plans)[:CACHE_SIZE // 4]:
                del self._plans[old]
        self._plans[key] = plan

    def _plan(self, declaration, name: str, args, kwargs) -> Plan:
        raw = RawCall(declaration, name, args, kwargs)
        specs = self.specs(declaration, raw)
        bound = declaration.bind(declaration.call(raw.values))
        inference = infer(bound.signature, [spec.layout for spec in specs])
        if declaration.inplace:
            _check_inplace(name, specs[0], inference.outputs[0], bound.out_shapes[0])
        return Plan(declaration, bound, inference, specs, raw)

    def specs(self, declaration, raw: RawCall) -> tuple:
        """Specs of the operands; a plain 0-d constant is a replica, any other plain tensor is refused."""
        known = [t._spec for t in raw.tensors if isinstance(t, DTensorBase)]
        mesh = known[0].mesh
        if current_platform().simulated:
            _check_positions(declaration.name, raw.tensors)
        specs = []
        for tensor, path in zip(raw.tensors, raw.operands):
            if isinstance(tensor, DTensorBase):
                specs.append(tensor._spec)
                continue
            role = next((p for p, s in raw.slots.items() if path[0] in (s.start, s.keyword)), "")
            if tensor.ndim and not STATE.plain_ok and role not in declaration.optional_plain:
                raise _plain_error(declaration.name, tensor, path, mesh)
            if not tensor.ndim and tensor._requires_grad and not STATE.plain_ok:
                raise _plain_error(declaration.name, tensor, path, mesh)
            specs.append(layout_value(mesh, ((),) * tensor.ndim).spec(tuple(tensor.shape)))
        return tuple(specs)

    def clear(self) -> None:
        """Forget every plan."""
        self._plans.clear()


def _slow_key(a):
    if isinstance(a, DTensorBase):
        return a._spec
    if isinstance(a, (tuple, list)):
        return (type(a), tuple(_slow_key(v) for v in a))
    if isinstance(a, Tensor):
        return ("plain", tuple(a.shape), a._requires_grad, STATE.plain_ok)
    if isinstance(a, slice):
        return ("slice", a.start, a.stop, a.step)
    return (type(a), a)


def _tensors(args, kwargs):
    for a in (*args, *(kwargs or {}).values()):
        if isinstance(a, Tensor):
            yield a
        elif isinstance(a, (tuple, list)):
            yield from _tensors(a, None)


def _plain_error(name: str, tensor, path: tuple, mesh) -> LayoutError:
    return LayoutError(
        f"{name}: argument {path[0]} is a plain tensor of shape {tuple(tensor.shape)} next to a DTensor. It is not "
        f"taken for a replica silently. Say what it is: DTensor.from_local(t, mesh, placements) for this rank's part, "
        f"distribute_tensor(t, mesh, [Replicate()] * {mesh.ndim}) for a value that is equal on every rank, or run the "
        f"call inside `with hyper_parallel.implicit_replication():`.")


def _refuse_arrays(name: str, args) -> None:
    """An array on the right of an operator reaches the framework's older methods; say what is wrong with it."""
    mesh = next(a for a in _tensors(args, None) if isinstance(a, DTensorBase)).device_mesh
    for position, value in enumerate(args):
        if isinstance(value, np.ndarray) and value.ndim:
            raise _plain_error(name.removeprefix("Deprecated"), value, (position,), mesh)


def _operands_text(args, kwargs) -> str:
    """The DTensor operands of a refused call and their mesh, for the end of its message."""
    tensors = [t for t in _tensors(unpack_any(args), kwargs) if isinstance(t, DTensorBase)]
    mesh = tensors[0]._spec.mesh
    shown = ", ".join(f"{str(t.dtype).lower()}{list(t._spec.shape)}{t._spec.layout}" for t in tensors)
    axes = ", ".join(f"{mesh.axis_name(a)}={n}" for a, n in enumerate(mesh.mesh_shape))
    return f"(Operands: {shown}; mesh {axes}.)"


def unpack_any(args):
    """The real arguments of a call, packed or not."""
    return args[2] if len(args) == 3 and isinstance(args[1], str) and isinstance(args[2], (tuple, list)) else args


def _check_inplace(name: str, target, layout, shape) -> None:
    if layout is not target.layout or tuple(shape) != target.shape:
        raise LayoutError(
            f"{name} changes its target in place, but the result would be {layout} of shape {tuple(shape)} and the "
            f"target is {target.layout} of shape {target.shape}. Use the form that returns a new tensor, or "
            f"bring the other operand to the target's placements first: y.redistribute(mesh, x.placements).")


def _check_positions(name: str, tensors) -> None:
    counts = {len(t._locals) for t in tensors if isinstance(t, DTensorBase) and t._locals is not None}
    if len(counts) > 1 or not counts:
        raise MeshError(f"{name}: the operands hold {sorted(counts)} simulated ranks. Operands must live on meshes of "
                        f"one root mesh, made inside the same simulation.")


dispatcher = OpDispatcher()


class LocalCall:
    """A call that the framework does not intercept, given the form of one that it does."""

    __slots__ = ("name", "function")

    def __init__(self, name: str, function):
        self.name, self.function = name, function

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def dispatch_named(name: str, function, *args, **kwargs):
    """Run `function` on local values under the rule of the operation `name`."""
    return dispatcher.dispatch(LocalCall(name, function), args, kwargs)


@contextlib.contextmanager
def implicit_redistribution():
    """Let the dispatcher insert the cheapest sound redistribution where a rule refuses, and log each one.

    The logger is "hyper_parallel.implicit", the level INFO. The target of an in-place operation is never redistributed.

    Examples:
        >>> from hyper_parallel import DTensor, Partial, init_device_mesh, simulate
        >>> with simulate(2), implicit_redistribution():
        ...     mesh = init_device_mesh("cpu", (2,))
        ...     x = DTensor.from_local((Tensor([1.0]), Tensor([-3.0])), mesh, [Partial()])
        ...     abs(x).full_tensor().asnumpy().tolist()
        [2.0]
    """
    with remedied(_redistributed):
        yield


__all__ = ["OpDispatcher", "Refused", "SkipDTensorDispatch", "dispatch_named", "dispatcher",
           "implicit_redistribution", "implicit_replication", "remedied", "wrap_shared"]

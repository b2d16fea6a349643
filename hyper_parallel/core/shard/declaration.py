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
"""How an operation is declared: its parameters, and the binder that turns one call into a signature.

A declaration knows nothing of frameworks: tensors appear as shapes, everything else as static values.
"""
from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Callable

from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError


class Missing:
    """Marks a parameter that the call left out and that has no default."""


MISSING = Missing()


@dataclass(frozen=True)
class Param:
    """One parameter: a tensor or a static value; `star` collects trailing positional values into a tuple."""

    name: str
    tensor: bool = False
    star: bool = False
    default: object = MISSING


def parse_params(text: str) -> tuple[Param, ...]:
    """Parameters from text: `name`, `name:t` for a tensor, `*name` for a tuple or star arguments, `=literal` defaults.

    Examples:
        >>> [p.name for p in parse_params("input:t dim=None keepdim=False")]
        ['input', 'dim', 'keepdim']
    """
    params = []
    for word in text.split():
        name, _, default = word.partition("=")
        name, _, kind = name.partition(":")
        params.append(Param(name.lstrip("*"), kind == "t", name.startswith("*"),
                            ast.literal_eval(default) if default else MISSING))
    return tuple(params)


@dataclass(frozen=True)
class Slot:
    """Where a parameter's value sits in the raw call: positional indices [start, stop), or a keyword."""

    start: int = -1
    stop: int = -1
    keyword: str | None = None


def locate(name: str, params: tuple[Param, ...], args, kwargs) -> dict[str, Slot]:
    """Parameter name -> slot, for the parameters that the call gives.

    Raises:
        LayoutError: for more arguments than parameters, or an unknown keyword.
    """
    slots: dict[str, Slot] = {}
    position = 0
    for param in params:
        if position >= len(args):
            break
        stop = position + 1
        if param.star and not isinstance(args[position], (tuple, list)):
            while stop < len(args) and isinstance(args[stop], int) and not isinstance(args[stop], bool):
                stop += 1
        slots[param.name] = Slot(position, stop)
        position = stop
    known = {param.name for param in params}
    aliases = {"axis": "dim", "axes": "dim", "keep_dims": "keepdim", "keepdims": "keepdim",
               "x": "input", "y": "other", "self": "input"}
    for key in kwargs:
        target = key if key in known else aliases.get(key)
        if target not in known:
            raise LayoutError(f"{name}: the argument {key!r} has no place in its rule {[p.name for p in params]}. "
                              f"Pass it positionally, or leave it out.")
        slots[target] = Slot(keyword=key)
    if position < len(args):
        raise LayoutError(f"{name} takes {len(params)} arguments {[p.name for p in params]}. Got {len(args)}.")
    return slots


def read(slot: Slot, param: Param, args, kwargs):
    """The value in a slot; star arguments become one tuple."""
    if slot.keyword is not None:
        return kwargs[slot.keyword]
    if param.star and (slot.stop - slot.start > 1 or not isinstance(args[slot.start], (tuple, list))):
        return tuple(args[slot.start:slot.stop])
    value = args[slot.start]
    return tuple(value) if param.star else value


@dataclass(frozen=True)
class Operand:
    """A tensor of a call as a binder sees it.

    Attributes:
        shape: global shape.
        dtype: element type as text ("float32"), when the declaration asks for it.
        exact: False when the shape is only pretended (a layout without a shape): sizes must not be compared.
    """

    shape: tuple
    dtype: str | None = None
    exact: bool = True


@dataclass(frozen=True)
class Call:
    """One call, free of layouts: parameter name -> Operand, tuple of Operands, or static value."""

    name: str
    values: dict

    def __getitem__(self, param: str):
        return self.values[param]

    def operands(self) -> list[Operand]:
        """All tensors, in parameter order, lists unrolled."""
        found = []
        for value in self.values.values():
            members = value if isinstance(value, (tuple, list)) else (value,)
            found.extend(v for v in members if isinstance(v, Operand))
        return found


@dataclass(frozen=True, eq=False)
class Bound:
    """A call turned into a signature.

    Attributes:
        signature: letters and linearity.
        out_shapes: global shape per output; None when everything is whole and only the local operation tells the
            results' number and shapes.
        multi: True when the operation returns a tuple.
        localize: (place) -> {parameter: value} that replaces static arguments for the rank at that place.
        sized: `localize` names sizes of the local parts, so the local operation must run on the parts as they are.
        kernel: (place) -> name and arguments of a local form other than the operation itself, or None.
        identity: value that fills an empty cut dimension before it is reduced.
    """

    signature: Signature
    out_shapes: tuple | None
    multi: bool = False
    localize: Callable | None = None
    sized: bool = True
    kernel: Callable | None = None
    identity: object = 0


@dataclass(frozen=True)
class Place:
    """One rank's view of a bound call.

    Attributes:
        coordinate: mesh coordinate of the rank.
        inputs: specs of the tensor operands.
        outputs: specs of the outputs.
        inference: what the rule inferred.
    """

    coordinate: tuple
    inputs: tuple
    outputs: tuple
    inference: object

    def in_shape(self, i: int = 0) -> tuple:
        """Local shape of operand i."""
        return self.inputs[i].local_shape(self.coordinate)

    def out_shape(self, j: int = 0) -> tuple:
        """Local shape of output j."""
        return self.outputs[j].local_shape(self.coordinate)


def empty_letters(signature: Signature, place: Place) -> set:
    """Letters of which the rank at this place holds nothing.

    A reduced letter of global size 0 counts where its reduction has a value, which is the sum.
    """
    return {letter for i, (dims, spec) in enumerate(zip(signature.inputs, place.inputs))
            for letter, size, local in zip(dims, spec.shape, place.in_shape(i))
            if letter is not None and not local and (size or signature.reduces.get(letter, "sum") == "sum")}


def idle_operands(signature: Signature, empty: set) -> tuple:
    """Operands that take no part in a result that is empty along a kept letter: their gradient is zero."""
    kept = empty - set(signature.reduces)
    return tuple(i for i, dims in enumerate(signature.inputs)
                 if kept and not kept & set(dims) and i not in signature.no_grad)


@dataclass(frozen=True, eq=False)
class Declaration:
    """An operation as the dispatcher knows it.

    Attributes:
        name: the framework's operation name.
        params: its parameters.
        bind: (Call) -> Bound.
        needs_dtype: the binder looks at element types, so they are part of the cache key.
        inplace: the first operand is changed and returned.
        optional_plain: parameters whose tensors the framework makes itself; plain tensors are welcome there.
        advice: a way out that only this operation has, for the end of a refusal.
    """

    name: str
    params: tuple
    bind: Callable[[Call], Bound]
    needs_dtype: bool = False
    inplace: bool = False
    optional_plain: frozenset = field(default_factory=frozenset)
    advice: str = ""

    def call(self, values: dict) -> Call:
        """The call with defaults filled, in parameter order.

        Raises:
            LayoutError: when a parameter without default is missing.
        """
        filled = {}
        for param in self.params:
            value = values.get(param.name, param.default)
            if value is MISSING:
                raise LayoutError(f"{self.name} needs the argument {param.name!r}.")
            filled[param.name] = value
        return Call(self.name, filled)


def normal_dim(name: str, dim, ndim: int) -> int:
    """A dimension counted from the front.

    Raises:
        LayoutError: when it is not an int in [-ndim, ndim).
    """
    bound = max(ndim, 1)
    if isinstance(dim, bool) or not isinstance(dim, int) or not -bound <= dim < bound:
        raise LayoutError(f"{name}: dim must be an int in [{-bound}, {bound - 1}] for a tensor of {ndim} dimensions. "
                          f"Got {dim!r}.")
    return dim % bound


def normal_dims(name: str, dims, ndim: int) -> tuple:
    """Dimensions counted from the front, in ascending order; None or () means all.

    Raises:
        LayoutError: when one is out of range or named twice.
    """
    if dims is None or dims == () or dims == []:
        return tuple(range(ndim))
    dims = dims if isinstance(dims, (tuple, list)) else (dims,)
    found = sorted(normal_dim(name, d, ndim) for d in dims)
    if len(set(found)) != len(found):
        raise LayoutError(f"{name}: a dimension is named twice in {tuple(dims)}.")
    return tuple(found)


def letters(count: int, prefix: str = "d") -> tuple:
    """Distinct letters for the dimensions of one tensor."""
    return tuple(f"{prefix}{i}" for i in range(count))

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
"""The cheapest sound redistribution of the operands of a refused call; used only inside `implicit_redistribution()`."""
from __future__ import annotations

import itertools
import logging

from hyper_parallel.core.dtensor.boundaries import FanOut, apply
from hyper_parallel.core.dtensor.dtensor_base import DTensorBase, wrap_shared
from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.core.dtensor.planner import cost, plan
from hyper_parallel.core.shard.plan import get_argument, put_argument, unpack
from hyper_parallel.core.shard.rules import R, infer, on_axis
from hyper_parallel.errors import LayoutError

logger = logging.getLogger("hyper_parallel.implicit")


def redistributed(refusal: LayoutError, declaration, name: str, args, kwargs, raw_call, specs_of):
    """(args, kwargs) with operands redistributed at the least cost such that the rule accepts them; each is logged.

    Raises:
        LayoutError: when no redistribution of the operands makes the call sound; `refusal` where layouts are not why.
    """
    primitive, real = unpack(name, args)
    raw = raw_call(declaration, name, args, kwargs)
    specs = specs_of(declaration, raw)
    signature = declaration.bind(declaration.call(raw.values)).signature
    layouts = _cheapest(signature, specs, declaration.inplace)
    if all(layout is spec.layout for spec, layout in zip(specs, layouts)):
        raise refusal
    real, kwargs = list(real), dict(kwargs)
    for path, spec, layout in zip(raw.operands, specs, layouts):
        operand = get_argument(path, real, kwargs)
        if layout is spec.layout:
            continue
        if not isinstance(operand, DTensorBase):
            operand = wrap_shared(apply(FanOut(spec.mesh), [operand]), spec)
        logger.info("%s: operand %s of shape %s redistributed from %s to %s", name, path[0], spec.shape, spec.layout,
                    layout)
        put_argument(path, operand.redistribute(spec.mesh, layout.placements), real, kwargs)
    return ((primitive, name, tuple(real)) if primitive is not None else tuple(real)), kwargs


def _cheapest(signature, specs, inplace: bool) -> list:
    """Layouts of the operands with a sound row on every axis; axes are decided one by one, by bytes moved.

    The target of an in-place operation keeps its layout, and the result must have it too.
    """
    layouts = [spec.layout for spec in specs]
    for axis in range(layouts[0].mesh.ndim):
        operands = tuple(on_axis(signature.inputs[i], layout, axis) for i, layout in enumerate(layouts))
        if not _sound(signature, operands, inplace):
            layouts = _decide(signature, specs, layouts, axis, inplace)
    return _accepted(signature, specs, layouts, inplace)


def _accepted(signature, specs, layouts: list, inplace: bool) -> list:
    """The cheapest of these layouts and two ways out (one operand's order of cuts; all gathered) that the rule accepts.

    Raises:
        LayoutError: when the rule accepts none of them; it is the rule's own refusal.
    """
    candidates = [layouts, *(_aligned(signature, layouts, i) for i in range(len(layouts)))]
    if not inplace:
        candidates.append([layout.replace(dims=((),) * layout.ndim) for layout in layouts])
    sound, refusal = [], None
    for candidate in candidates:
        try:
            infer(signature, candidate)
        except LayoutError as error:
            refusal = refusal or error
        else:
            if not inplace or candidate[0] is specs[0].layout:
                sound.append(candidate)
    if not sound:
        raise refusal
    return min(sound, key=lambda candidate: sum(map(_price, specs, candidate)))


def _aligned(signature, layouts: list, reference: int) -> list:
    """All layouts with the cuts of shared dimensions in the order that one operand has."""
    order = {c: axes for c, axes in zip(signature.inputs[reference], layouts[reference].dims) if axes}
    return [layout.replace(dims=tuple(order.get(c, axes) if sorted(order.get(c, ())) == sorted(axes) else axes
                                      for c, axes in zip(signature.inputs[i], layout.dims)))
            for i, layout in enumerate(layouts)]


def _sound(signature, operands: tuple, inplace: bool) -> bool:
    row = signature.row(operands)
    return row is not None and (not inplace or row.outputs[0] == operands[0])


def _decide(signature, specs, layouts, axis: int, inplace: bool) -> list:
    choices = [_choices(signature.inputs[i], layout, axis, signature.letters()) for i, layout in enumerate(layouts)]
    if inplace:
        del choices[0][1:]
    best, least = None, None
    for combination in itertools.product(*choices):
        if not _sound(signature, tuple(placement for placement, _ in combination), inplace):
            continue
        price = sum(_price(spec, layout) for spec, (_, layout) in zip(specs, combination))
        if least is None or price < least:
            best, least = [layout for _, layout in combination], price
    if best is None and inplace:
        raise LayoutError(f"{signature.name} changes its target in place, and no redistribution of the other operands "
                          f"keeps the target {layouts[0]}. Use the form that returns a new tensor, or reduce the "
                          f"target first: x = x.reduce_partial().")
    if best is None:
        raise LayoutError(f"{signature.name} has no sound rule for any placement of its operands on mesh axis "
                          f"{layouts[0].mesh.axis_name(axis)!r}.")
    return best


def _price(spec, layout):
    return cost(plan(spec.layout, layout, spec.shape))


def _choices(letters: tuple, layout, axis: int, usable) -> list:
    """(placement on the axis, whole layout) of an operand: as it is, replicated, or cut along each usable letter."""
    found = [(on_axis(letters, layout, axis), layout)]
    bare = tuple(tuple(a for a in axes if a != axis) for axes in layout.dims)
    partial = tuple(None if a == axis else op for a, op in enumerate(layout.partial))
    found.append((R, layout_value(layout.mesh, bare, partial)))
    for dim, letter in enumerate(letters):
        if letter in usable:
            dims = tuple(axes + (axis,) if d == dim else axes for d, axes in enumerate(bare))
            found.append((("S", letter), layout_value(layout.mesh, dims, partial)))
    return found

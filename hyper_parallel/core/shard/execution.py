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
"""`expand_impl`: the third phase of the contract for rules, as a function of one process's local arguments."""
from __future__ import annotations

from hyper_parallel.core.dtensor.boundaries import Enter, apply
from hyper_parallel.core.shard.declaration import Bound, Declaration, Place, locate, read
from hyper_parallel.core.shard.rules import Inference
from hyper_parallel.errors import UnsupportedOpError
from hyper_parallel.platform.mindspore.local_forms import FORMS
from hyper_parallel.platform.platform import current_platform


def expand_impl(declaration: Declaration, func, layouts, bound: Bound, inference: Inference):
    """The local function with the rule's conversions and static arguments in it, or None when `func` itself is right.

    Args:
        declaration: the operation.
        func: the framework's function.
        layouts: layouts of the tensor operands, in parameter order.
        bound: the bound call.
        inference: what the rule inferred.

    Raises:
        UnsupportedOpError: in a simulation, where one rank's local arguments are not enough.
    """
    converted = any(inference.varying) or any(inference.once) or inference.constant_once
    if not converted and bound.localize is None and bound.kernel is None:
        return None
    if current_platform().simulated:
        raise UnsupportedOpError(f"{declaration.name}: get_expand_impl gives one process's local function, and a "
                                 f"simulation runs all ranks at once. Call the operation on DTensors instead.")
    place = None
    if all(layout.tensor_shape is not None for layout in layouts):
        place = _place(layouts, bound, inference)

    def run(*args, **kwargs):
        args = list(args)
        slots = locate(declaration.name, declaration.params, args, kwargs)
        _convert(declaration, slots, args, kwargs, layouts[0].mesh, inference)
        changes = {} if bound.localize is None or place is None else bound.localize(place)
        for name, value in {**changes, **_constants(declaration, slots, args, kwargs, layouts, inference)}.items():
            _write(slots[name], value, args, kwargs)
        form = None if bound.kernel is None or place is None else bound.kernel(place)
        if form is None:
            return func(*args, **kwargs)
        values = {p.name: read(slots[p.name], p, args, kwargs) if p.name in slots else p.default
                  for p in declaration.params}
        return FORMS[form[0]](values, **form[1])

    return run


def _place(layouts, bound: Bound, inference: Inference) -> Place:
    specs = tuple(layout.value.spec(layout.tensor_shape) for layout in layouts)
    outputs = tuple(value.spec(shape) for value, shape in zip(inference.outputs, bound.out_shapes))
    mesh = layouts[0].mesh
    return Place(mesh.coordinate_of(mesh.rank), specs, outputs, inference)


def _convert(declaration, slots, args, kwargs, mesh, inference: Inference) -> None:
    """Put the converted operands where the originals are."""
    i = 0
    for param in declaration.params:
        slot = slots.get(param.name)
        if not param.tensor or slot is None:
            continue
        value = read(slot, param, args, kwargs)
        members = value if isinstance(value, (tuple, list)) else (value,)
        if not any(hasattr(m, "asnumpy") for m in members):
            continue
        made = []
        for member in members:
            varying, once = inference.varying[i], inference.once[i]
            made.append(apply(Enter(mesh, varying, once), [member])[0] if varying or once else member)
            i += 1
        _write(slot, tuple(made) if isinstance(value, (tuple, list)) else made[0], args, kwargs)


def _constants(declaration, slots, args, kwargs, layouts, inference: Inference) -> dict:
    """Scalars that must not count again on this rank, replaced by a zero of their type."""
    mesh = layouts[0].mesh
    coordinate = mesh.coordinate_of(mesh.rank)
    if not any(coordinate[axis] for axis in inference.constant_once):
        return {}
    values = {p.name: read(slots[p.name], p, args, kwargs) for p in declaration.params if p.tensor and p.name in slots}
    return {name: type(v)(0) for name, v in values.items() if isinstance(v, (int, float))}


def _write(slot, value, args: list, kwargs: dict) -> None:
    if slot.keyword is not None:
        kwargs[slot.keyword] = value
    else:
        args[slot.start:slot.stop] = [value]

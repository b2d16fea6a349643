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

from hyper_parallel.core.dtensor.assembly import equal_shards
from hyper_parallel.core.shard._op_dispatch import RawCall
from hyper_parallel.core.shard.declaration import Bound, Declaration, Operand
from hyper_parallel.core.shard.plan import Plan
from hyper_parallel.core.shard.rules import Inference
from hyper_parallel.errors import UnsupportedOpError
from hyper_parallel.platform.platform import current_platform


def expand_impl(declaration: Declaration, func, layouts, bound: Bound, inference: Inference):
    """The local function with the rule's conversions and static arguments in it, or None when `func` itself is right.

    Args:
        declaration: the operation.
        func: the framework's function.
        layouts: layouts of the tensor operands, in parameter order; without a recorded shape of equal shards.
        bound: the bound call.
        inference: what the rule inferred.

    Raises:
        UnsupportedOpError: in a simulation, where one rank's local arguments are not enough.
    """
    converted = any(inference.varying) or any(inference.once) or inference.constant_once
    needed = converted or bound.localize is not None or bound.kernel is not None
    cut = any(any(layout.value.dims) for layout in layouts)  # a rank may hold nothing, which kernels do not all survive
    if not needed and (not cut or current_platform().simulated):
        return None
    if current_platform().simulated:
        raise UnsupportedOpError(f"{declaration.name}: get_expand_impl gives one process's local function, and a "
                                 f"simulation runs all ranks at once. Call the operation on DTensors instead.")

    def run(*args, **kwargs):
        raw = RawCall(declaration, declaration.name, args, kwargs)
        specs = tuple(layout.value.spec(layout.tensor_shape or equal_shards(layout.value, tuple(t.shape)))
                      for layout, t in zip(layouts, raw.tensors))
        rebound = declaration.bind(declaration.call(_globally(raw.values, [spec.shape for spec in specs])))
        return Plan(declaration, rebound, inference, specs, raw).run_locally(func, args, kwargs)

    return run


def _globally(values: dict, shapes: list) -> dict:
    """The call's values with every operand in its global shape."""
    shapes = list(shapes)

    def lifted(value):
        if isinstance(value, Operand):
            return Operand(shapes.pop(0), value.dtype)
        return tuple(lifted(v) for v in value) if isinstance(value, tuple) else value

    return {name: lifted(value) for name, value in values.items()}

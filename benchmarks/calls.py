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
"""The calls whose first time is measured, and their layout inference alone. No framework is imported here."""
from __future__ import annotations

from math import prod

import numpy as np

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.layout_value import placements_to_value
from hyper_parallel.core.dtensor.placement_types import Replicate, Shard
from hyper_parallel.core.shard.declaration import Operand
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
from hyper_parallel.core.shard.rules import infer

# Operation, registered name, operands among (x, w, y), static arguments. x and y are cut, w is replicated.
CASES = (
    ("matmul", "MatMulExt", "xw", ()),
    ("add", "AddExt", "xy", ()),
    ("transpose", "TransposeExtView", "x", (0, 1)),
)


def shapes(i: int) -> dict:
    """Global shapes of sample i."""
    return {"x": (8 * i, 16), "w": (16, 8 + i), "y": (8 * i, 16)}


def placements(axes: int) -> dict:
    """Placements of the operands on a mesh of so many axes."""
    cut, whole = [Shard(0)] + [Replicate()] * (axes - 1), [Replicate()] * axes
    return {"x": cut, "w": whole, "y": cut}


def bare_mesh(shape, name: str = "axis") -> DeviceMesh:
    """A mesh without a process group: nothing here communicates."""
    ranks = np.arange(prod(shape)).reshape(shape)
    return DeviceMesh("cpu", ranks, mesh_dim_names=tuple(f"{name}{i}" for i in range(len(shape))), _init_backend=False)


def rule_call(mesh, case, sizes: dict):
    """A function that infers the layout of one call, with operands of these global shapes."""
    _, name, operands, static = case
    declaration = get_distributed_op(name).declaration
    layouts = [placements_to_value(mesh, placements(mesh.ndim)[o], 2) for o in operands]
    tensors = [p.name for p in declaration.params if p.tensor]
    statics = [p.name for p in declaration.params if not p.tensor]

    def call():
        values = dict(zip(statics, static))
        values.update(zip(tensors, (Operand(sizes[o]) for o in operands)))
        bound = declaration.bind(declaration.call(values))
        inference = infer(bound.signature, layouts)
        return [value.spec(shape) for value, shape in zip(inference.outputs, bound.out_shapes)]

    return call

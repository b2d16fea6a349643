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
"""Per-rank values for tests: no rank holds the answer, and everything is exact in float32."""
import itertools

import numpy as np

from hyper_parallel.core.dtensor.denotation import denote, shards
from hyper_parallel.core.dtensor.layout_value import placements_to_value
from hyper_parallel.core.dtensor.placement_types import Partial, Replicate

_RANGES = {"sum": 9, "avg": 9, "max": 40, "min": 40, "prod": 3}


def realise(rng, mesh, placements, shape, dtype="float32"):
    """(global value, per-rank locals): addends of mixed sign and unequal size, multiples of the number of ranks."""
    value = placements_to_value(mesh, placements, len(shape))
    spec = value.spec(tuple(shape))
    pending = [axis for axis, op in enumerate(value.partial) if op]
    wholes = {}
    for key in itertools.product(*[range(mesh.mesh_shape[a]) for a in pending]):
        top = _RANGES[value.partial[pending[0]]] if pending else 9
        wholes[key] = (rng.integers(-top, top + 1, shape) * mesh.size() ** max(len(pending), 1)).astype(dtype)
    locals_ = []
    for i, coordinate in enumerate(np.ndindex(*mesh.mesh_shape)):
        whole = wholes[tuple(coordinate[a] for a in pending)]
        locals_.append(shards(whole, spec)[i])
    return denote(locals_, value), locals_


def gradient_label(placements, convention: str) -> tuple:
    """Placements of the gradient of a tensor with these placements (design, section 4)."""
    label = []
    for p in placements:
        if p.is_partial():
            label.append(Replicate() if p.reduce_op == "sum" else Partial("sum"))
        elif p.is_replicate() and convention == "sum_of_ranks":
            label.append(Partial("sum"))
        else:
            label.append(p)
    return tuple(label)

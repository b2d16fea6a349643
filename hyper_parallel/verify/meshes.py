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
"""Meshes of the verifier: pure data, on no running job."""
from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.platform import platform

_NAMES = ("x", "y", "z", "w")


@functools.lru_cache(maxsize=64)
def mesh_of(shape: tuple) -> DeviceMesh:
    """The mesh of this shape, with axes "x", "y", ..., over ranks 0, 1, ..., whatever job is running."""
    ranks = np.arange(math.prod(shape)).reshape(shape)
    stack = platform._ACTIVE.stack  # pylint: disable=protected-access
    stack.append(platform.Platform())
    try:
        return DeviceMesh("cpu", ranks, mesh_dim_names=_NAMES[:len(shape)], _init_backend=False)
    finally:
        stack.pop()


@functools.lru_cache(maxsize=64)
def coordinates(shape: tuple) -> tuple:
    """Mesh coordinates of all ranks, last axis fastest."""
    return tuple(itertools.product(*map(range, shape)))


def parse_mesh(text: str) -> tuple:
    """A mesh shape from text: "2", "3" or "2x2".

    Raises:
        ValueError: for anything else than sizes joined by "x".
    """
    shape = tuple(int(n) for n in text.split("x"))
    if not shape or any(n < 1 for n in shape) or len(shape) > 2:
        raise ValueError(f"A mesh is one or two sizes joined by x, like 2, 3 or 2x2. Got {text!r}.")
    return shape

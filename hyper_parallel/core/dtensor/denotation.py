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
"""What local values mean: the one global value that per-rank arrays under a layout denote. numpy only.

Every check of the package computes through `denote`; `shards` is its inverse for layouts without pending reductions.
"""
from __future__ import annotations

import numpy as np

from hyper_parallel.errors import LayoutError

_REDUCE = {
    "sum": lambda v: np.sum(v, 0, dtype=v[0].dtype),
    "avg": lambda v: np.sum(v, 0, dtype=v[0].dtype) / len(v),
    "max": lambda v: np.max(v, 0),
    "min": lambda v: np.min(v, 0),
    "prod": lambda v: np.prod(v, 0, dtype=v[0].dtype),
    "all": lambda v: np.all(v, 0),
}


def denote(locals_, layout) -> np.ndarray:
    """The global value of per-rank local values.

    Args:
        locals_: one array per rank, in mesh order (last axis fastest).
        layout: a Layout or LayoutValue.

    Raises:
        LayoutError: when replicas differ, the number of locals does not fit, or local shapes are not what the layout
            gives each rank.

    Examples:
        >>> from hyper_parallel.core.dtensor.layout import Layout
        >>> layout = Layout((2,), ("tp",))("None")
        >>> layout.set_partial_by_dev_axis("tp", "sum")
        >>> denote([np.array([1, 2]), np.array([3, 4])], layout).tolist()
        [4, 6]
    """
    layout = getattr(layout, "value", layout)
    mesh = layout.mesh
    locals_ = [np.asarray(v) for v in locals_]
    if len(locals_) != mesh.size():
        raise LayoutError(f"A mesh of {mesh.size()} ranks needs {mesh.size()} local values. Got {len(locals_)}.")
    values = dict(zip(np.ndindex(*mesh.mesh_shape), locals_))
    try:
        whole = _whole(values, layout)
    except ValueError as error:
        raise LayoutError(f"Local values of shapes {[v.shape for v in locals_]} cannot be joined under {layout}: "
                          f"{error}.") from None
    spec = layout.spec(whole.shape)
    for coordinate, value in values.items():
        if value.shape != spec.local_shape(coordinate):
            raise LayoutError(f"Under {layout} of a tensor of shape {whole.shape} the rank at {coordinate} holds "
                              f"ceil-size chunks, shape {spec.local_shape(coordinate)}. Got {value.shape}.")
    return whole


def _whole(values: dict, layout) -> np.ndarray:
    """Join from the innermost cut outwards, reduce what is pending, and check what is replicated."""
    mesh = layout.mesh
    for dim, axes in enumerate(layout.dims):
        for axis in reversed(axes):
            values = _collapse(values, axis, lambda v, d=dim: np.concatenate(v, d))
    for axis, op in enumerate(layout.partial):
        if op:
            values = _collapse(values, axis, _REDUCE[op])
    for axis, dim in enumerate(layout.axis_dim):
        if dim is None and not layout.partial[axis]:
            values = _collapse(values, axis, lambda v, a=axis: _the_replica(v, mesh.axis_name(a)))
    return next(iter(values.values()))


def _collapse(values: dict, axis: int, combine) -> dict:
    """Combine the values along one axis; its coordinate becomes 0."""
    rows: dict = {}
    for coordinate in sorted(values):
        rows.setdefault(coordinate[:axis] + (0,) + coordinate[axis + 1:], []).append(values[coordinate])
    return {coordinate: combine(row) for coordinate, row in rows.items()}


def _the_replica(values, name: str) -> np.ndarray:
    for c, value in enumerate(values):
        equal_nan = np.issubdtype(value.dtype, np.inexact)
        if value.shape != values[0].shape or not np.array_equal(value, values[0], equal_nan=equal_nan):
            raise LayoutError(f"Replicas along mesh axis {name!r} differ: coordinate {c} is not equal to coordinate 0.")
    return values[0]


def shards(value, spec) -> list[np.ndarray]:
    """Per-rank parts of a global value under the cuts of a spec, in mesh order; every addend of a Partial is whole."""
    parts = []
    for coordinate in np.ndindex(*spec.mesh.mesh_shape):
        index = tuple(slice(begin, begin + length) for begin, length in spec.area(coordinate))
        parts.append(np.asarray(value)[index])
    return parts

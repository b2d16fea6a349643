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
"""A log of collectives: what was asked for, over which ranks, in which direction of differentiation."""
from __future__ import annotations

import contextlib
import math
import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Collective:
    """One collective as the platform was asked for it.

    Attributes:
        op: "all_reduce", "all_gather", "reduce_scatter", "all_to_all" or "broadcast".
        axis: name of the mesh axis.
        ranks: ranks of this process's group.
        reduce_op: "sum", "max", ...; None where nothing is reduced.
        dtype: element type of the local value, as text.
        shape: shape of the value that this rank puts in; with a leading rank dimension where it gives chunks.
        nbytes: bytes of that value.
        phase: "forward", "backward", or "check" for the equal-shard checks of from_local.
    """

    op: str
    axis: str
    ranks: tuple
    reduce_op: str | None
    dtype: str
    shape: tuple
    nbytes: int
    phase: str


class _State(threading.local):
    def __init__(self):
        super().__init__()
        self.logs: list[list[Collective]] = []
        self.phase = "forward"


_STATE = _State()


@contextlib.contextmanager
def record_collectives():
    """Collect every collective that this thread asks for, outermost context included.

    Examples:
        >>> with record_collectives() as log:
        ...     pass
        >>> log
        []
    """
    log: list[Collective] = []
    _STATE.logs.append(log)
    try:
        yield log
    finally:
        _STATE.logs.remove(log)


@contextlib.contextmanager
def phase(name: str):
    """Mark the collectives inside as "forward", "backward" or "check" (equal-shard checks of from_local)."""
    before, _STATE.phase = _STATE.phase, name
    try:
        yield
    finally:
        _STATE.phase = before


def recording() -> bool:
    """True while some log of this thread is open."""
    return bool(_STATE.logs)


def record(op: str, mesh, axis: int, ranks: tuple, value, reduce_op: str | None = None) -> None:
    """Note one collective in every open log; `value` is what this rank puts in (a list: one chunk per rank)."""
    parts = value if isinstance(value, list) else [value]
    shape = tuple(parts[0].shape) if parts is not value else (len(parts), *parts[0].shape)
    entry = Collective(op, mesh.axis_name(axis), ranks, reduce_op, str(parts[0].dtype), shape,
                       math.prod(shape) * parts[0].itemsize, _STATE.phase)
    for log in _STATE.logs:
        log.append(entry)

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
"""The frame of each collective: checked before it starts, never run alone or about nothing, never on a view."""
from __future__ import annotations

import abc
from dataclasses import dataclass

from hyper_parallel.errors import CommunicationError
from hyper_parallel.platform.mindspore.base import MindSporePlatform
from hyper_parallel.platform.mindspore.runtime import first_line
from hyper_parallel.platform.mindspore.wire import combine, fresh, reduction


@dataclass(frozen=True)
class AxisGroup:
    """The ranks along one mesh axis as this process sees them.

    Collectives run on the group over the *sorted* ranks, because whether a library keeps another order differs between
    back ends; `order` translates.

    Attributes:
        ranks: global ranks in axis order.
        own: this process's coordinate on the axis.
        order: for each position in the sorted group, the coordinate on the axis.
    """

    ranks: tuple
    own: int
    order: tuple

    @classmethod
    def of(cls, ranks: tuple, rank: int) -> AxisGroup:
        """The axis group of these ranks, seen from one of them."""
        order = tuple(sorted(range(len(ranks)), key=ranks.__getitem__))
        return cls(ranks, ranks.index(rank), order)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    @property
    def position(self) -> int:
        """This process's position in the sorted group."""
        return self.order.index(self.own)

    def to_axis_order(self, parts) -> list:
        """Values given in group order, in axis order."""
        placed = dict(zip(self.order, parts))
        return [placed[coordinate] for coordinate in range(self.size)]

    def to_group_order(self, parts) -> list:
        """Values given in axis order, in group order."""
        return [parts[coordinate] for coordinate in self.order]


class CollectivePlatform(MindSporePlatform, abc.ABC):
    """The five collectives over what a library provides; subclasses say what that is."""

    unreduced: frozenset = frozenset()

    def _forget(self) -> None:
        super()._forget()
        self._axes: dict[tuple, AxisGroup] = {}

    def _axis(self, mesh, axis: int) -> AxisGroup:
        self._notice(mesh.device_type)
        key = (mesh.identity, axis)
        if key not in self._axes:
            self._axes[key] = AxisGroup.of(mesh.ranks_along(axis, self.rank()), self.rank())
        return self._axes[key]

    def _handle(self, at: AxisGroup) -> str:
        if not self.runtime.initialised():
            raise self._no_group()
        return self.group(tuple(sorted(at.ranks)))

    def _run(self, at: AxisGroup, name: str, *args, **kwargs) -> None:
        """Call a collective of the framework over the axis."""
        handle = self._handle(at)
        try:
            getattr(self.comm, name)(*args, group=handle, **kwargs)
        except (RuntimeError, TypeError, ValueError) as cause:
            raise CommunicationError(
                f"{name} over ranks {at.ranks} failed on rank {self.rank()}: {first_line(cause)} Another rank has "
                f"died or waits elsewhere, or the ranks gave tensors of different size.") from cause

    def _all_reduce(self, values, mesh, axis, op):
        value, at = values[0], self._axis(mesh, axis)
        how = reduction(op, value.dtype, self.unreduced)
        if at.size == 1 or value.numel() == 0:
            return [fresh(value)]
        return [self._reduce(value, at, how)]

    def _reduce(self, value, at: AxisGroup, how):
        if how.gathered:
            return combine(self._gather(value, at), how.op)
        buffer = self._private(value) if how.carrier is None else value.astype(how.carrier)
        self._run(at, "all_reduce", buffer, op=how.op)
        return buffer if how.carrier is None else buffer.astype(value.dtype)

    def _all_gather(self, values, mesh, axis):
        value, at = values[0], self._axis(mesh, axis)
        self._check_moved(value.dtype)
        if at.size == 1 or value.numel() == 0:
            return [[fresh(value) for _ in at.ranks]]
        return [self._gather(value, at)]

    def _broadcast(self, values, mesh, axis, source):
        value, at = values[0], self._axis(mesh, axis)
        self._check_moved(value.dtype)
        if not 0 <= source < at.size:
            raise CommunicationError(f"broadcast from coordinate {source} of an axis of size {at.size}: use a "
                                     f"coordinate below the size, not a global rank.")
        if at.size == 1 or value.numel() == 0:
            return [fresh(value)]
        buffer = self._encode(value)
        self._run(at, "broadcast", buffer, at.ranks[source])
        return [self._decode(buffer, value)]

    def _reduce_scatter(self, chunks, mesh, axis, op):
        parts, at = chunks[0], self._axis(mesh, axis)
        how = reduction(op, parts[0].dtype, self.unreduced)
        self._check_chunks("reduce_scatter", parts, at)
        if at.size == 1 or parts[0].numel() == 0:
            return [fresh(parts[at.own])]
        return [self._scatter(parts, at, how)]

    def _all_to_all(self, chunks, mesh, axis):
        parts, at = chunks[0], self._axis(mesh, axis)
        self._check_moved(parts[0].dtype)
        self._check_chunks("all_to_all", parts, at)
        if at.size == 1 or parts[0].numel() == 0:
            return [[fresh(part) for part in parts]]
        return [self._exchange(parts, at)]

    @staticmethod
    def _check_chunks(name: str, parts: list, at: AxisGroup) -> None:
        kinds = {(tuple(part.shape), str(part.dtype)) for part in parts}
        if len(parts) != at.size or len(kinds) != 1:
            raise CommunicationError(f"{name} over {at.size} ranks needs {at.size} chunks of one shape and type. Got "
                                     f"{len(parts)} of {sorted(kinds)}. Pad uneven chunks before the call.")

    # -- what a library provides --------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _check_moved(self, dtype) -> None:
        """Refuse element types that this library cannot move."""

    def _private(self, value):
        """A copy to give to an in-place collective: a view would lose the result, the value itself is the caller's."""
        return fresh(value)

    @abc.abstractmethod
    def _encode(self, value):
        """A private copy of the value in an element type that the library moves."""

    @abc.abstractmethod
    def _decode(self, buffer, like):
        """The value of an encoded buffer, with the type and shape of `like`."""

    @abc.abstractmethod
    def _gather(self, value, at: AxisGroup) -> list:
        """Values of all ranks, in axis order."""

    @abc.abstractmethod
    def _scatter(self, parts: list, at: AxisGroup, how):
        """The reduction of this rank's chunk."""

    @abc.abstractmethod
    def _exchange(self, parts: list, at: AxisGroup) -> list:
        """The chunks that all ranks hold for this one, in axis order."""

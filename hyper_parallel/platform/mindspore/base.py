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
"""A process of MindSpore: who it is, and the communication groups it is a member of."""
from __future__ import annotations

import hashlib
import warnings

from mindspore.mint import distributed

from hyper_parallel.errors import CommunicationError, MeshError
from hyper_parallel.platform.mindspore.runtime import Runtime, first_line, launcher_rank, launcher_world_size
from hyper_parallel.platform.platform import Platform, launched


class MindSporePlatform(Platform):
    """A process of MindSpore and its groups.

    Args:
        runtime: access to the framework's process groups; tests inject a stand-in.
        comm: module with the framework's collectives; tests inject a stand-in.
    """

    backend = ""
    device_type = ""

    def __init__(self, runtime=None, comm=None):
        self.runtime = runtime or Runtime()
        self.comm = comm or distributed
        self._foreign_type: str | None = None
        self._warned = False
        self._forget()

    def _forget(self) -> None:
        self._rank: int | None = None
        self._size: int | None = None
        self._groups: dict[tuple, str] = {}
        self._ranks_of: dict[str, tuple] = {}
        self._made: set[str] = set()

    # -- this process -------------------------------------------------------------------------------------------------

    def rank(self) -> int:
        """Global rank of this process; before the group starts, what the launcher says."""
        if self._rank is None:
            if not self.runtime.initialised():
                return launcher_rank()
            self._rank = self.runtime.rank()
        return self._rank

    def world_size(self) -> int:
        """Number of processes; before the group starts, what the launcher says."""
        if self._size is None:
            if not self.runtime.initialised():
                return launcher_world_size()
            self._size = self.runtime.world_size()
        return self._size

    def tensor(self, array):
        """The array as a tensor of the framework."""
        return self.runtime.tensor(array)

    # -- process groups -----------------------------------------------------------------------------------------------

    def initialised(self) -> bool:
        """True while a process group runs, whoever started it."""
        return self.runtime.initialised()

    def ensure_process_group(self, device_type: str) -> None:
        """Start the process group when a launcher provides one and the program has not done so itself."""
        self._notice(device_type)
        if launched() and not self.runtime.initialised():
            self.runtime.start()

    def start_at(self, init_method, timeout, world_size: int, rank: int, store) -> None:
        """Start the process group at a URL or store, without a launcher's scheduler."""
        self.runtime.start_at(init_method, timeout, world_size, rank, store)

    def check_ranks(self, mesh) -> None:
        """Refuse a mesh with ranks beyond the running job.

        Raises:
            MeshError: naming the ranks and the job's size.
        """
        if not self.runtime.initialised():
            return
        beyond = [rank for rank in mesh.rank_list if rank >= self.world_size()]
        if beyond:
            raise MeshError(f"The mesh holds ranks {beyond}, and this job has {self.world_size()} processes. Start it "
                            f"with msrun --worker_num={max(beyond) + 1}, or use ranks below {self.world_size()}.")

    def group(self, ranks: tuple) -> str:
        """The group over these ranks in this order; members make it on first use.

        Raises:
            RuntimeError: when no process group runs.
            MeshError: when this process is not a member, or ranks are repeated or beyond the job.
        """
        ranks = tuple(int(rank) for rank in ranks)
        if ranks not in self._groups:
            if not self.runtime.initialised():
                return super().group(ranks)
            self._check_members(ranks)
            self._groups[ranks] = self._make(ranks)
        self._warn_once()
        return self._groups[ranks]

    def _check_members(self, ranks: tuple) -> None:
        if self.rank() not in ranks:
            raise MeshError(f"Rank {self.rank()} is not one of the ranks {ranks}. A group is made and used by its "
                            f"members only.")
        if len(set(ranks)) != len(ranks) or min(ranks) < 0 or max(ranks) >= self.world_size():
            raise MeshError(f"A group needs distinct ranks below {self.world_size()}, the number of processes. "
                            f"Got {ranks}.")

    def _make(self, ranks: tuple) -> str:
        if ranks == tuple(range(self.world_size())):
            return self._know(self.runtime.world_group(), ranks)
        name = group_name(ranks)
        try:
            self.runtime.create_group(name, ranks)
        except (RuntimeError, ValueError) as cause:
            raise CommunicationError(f"The group over ranks {ranks} could not be made on rank {self.rank()}: "
                                     f"{first_line(cause)}") from cause
        self._made.add(name)
        return self._know(name, ranks)

    def _know(self, name: str, ranks: tuple) -> str:
        self._ranks_of[name] = ranks
        return name

    def group_ranks(self, group) -> tuple:
        """Ranks of a group in its own order; None means all processes.

        Raises:
            MeshError: when this process is in no group of that name.
        """
        if group is None:
            return tuple(range(self.world_size()))
        if group not in self._ranks_of:
            if not self.runtime.initialised():
                return super().group_ranks(group)
            try:
                ranks = self.runtime.group_ranks(group)
            except (RuntimeError, TypeError) as cause:
                raise MeshError(f"Rank {self.rank()} knows no group {group!r}: {first_line(cause)}") from cause
            self._know(group, ranks)
        return self._ranks_of[group]

    def adopt_group(self, ranks: tuple, group) -> None:
        """Use an existing group for these ranks.

        Raises:
            MeshError: when the group has other ranks, or an order that is neither this one nor the sorted one.
        """
        ranks, held = tuple(int(rank) for rank in ranks), self.group_ranks(group)
        if held not in (ranks, tuple(sorted(ranks))):
            raise MeshError(f"Group {group!r} holds the ranks {held}, not {ranks}. Pass the ranks of the group: "
                            f"mesh={list(held)}.")
        self._groups[ranks] = group

    def destroy(self, group=None) -> None:
        """Destroy one group, or all groups and with them the process group."""
        if group is not None:
            self._destroy_one(group)
            return
        for name in sorted(self._made):
            self.runtime.destroy_group(name)
        self._forget()
        self._stop()

    def _stop(self) -> None:
        self.runtime.stop()

    def _destroy_one(self, group: str) -> None:
        self.group_ranks(group)
        if group == self.runtime.world_group():
            raise CommunicationError(f"{group!r} is the group of all processes. To end communication altogether call "
                                     f"destroy_process_group() without a group.")
        self.runtime.destroy_group(group)
        self._made.discard(group)
        self._ranks_of.pop(group)
        self._groups = {ranks: name for ranks, name in self._groups.items() if name != group}

    # -- the device type of a mesh names intent -----------------------------------------------------------------------

    def _notice(self, device_type: str) -> None:
        if device_type != self.device_type:
            self._foreign_type = device_type

    def _warn_once(self) -> None:
        if self._foreign_type is not None and not self._warned:
            self._warned = True
            warnings.warn(f"A mesh asks for device type {self._foreign_type!r}, and MindSpore runs on "
                          f"{self.device_type!r} here: its collectives go through {self.backend}, with the same "
                          f"results.", stacklevel=3)


def group_name(ranks: tuple) -> str:
    """The name under which all members make the group of these ranks."""
    text = "_".join(str(rank) for rank in ranks)
    if len(text) > 60:  # group names are limited to about 127 characters on Ascend
        text = f"{len(ranks)}_{hashlib.sha1(text.encode()).hexdigest()}"
    return f"hyper_parallel_{text}"

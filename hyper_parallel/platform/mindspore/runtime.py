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
"""What the launcher's environment and MindSpore's communication module say about this process."""
from __future__ import annotations

import os

import mindspore
from mindspore import communication
from mindspore.mint import distributed

from hyper_parallel.errors import CommunicationError, MeshError
from hyper_parallel.platform.platform import launched


def launcher_rank() -> int:
    """Rank of this process before the process group exists, from the launcher's environment.

    msrun exports RANK_ID too, but on several hosts it is a left-over of the scheduler; MS_NODE_ID is the rank.

    Raises:
        MeshError: in a worker whose rank the scheduler assigns only when the group starts.
    """
    if not launched() or os.environ.get("MS_ROLE") == "MS_SCHED":
        return 0
    node = os.environ.get("MS_NODE_ID", "")
    if node.isdigit():
        return int(node)
    raise MeshError("The rank of this worker is not known yet: the launcher was started without --node_rank, so ranks "
                    "are assigned when the process group starts. Call hyper_parallel.init_process_group() first.")


def launcher_world_size() -> int:
    """Number of workers of the launcher's job; 1 without a launcher."""
    return int(os.environ.get("MS_WORKER_NUM", "1")) if launched() else 1


def first_line(error: BaseException) -> str:
    """The first line of a framework error that says something."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line.strip("- ")), type(error).__name__)


class Runtime:
    """MindSpore's process groups; tests put a stand-in in its place."""

    def device_target(self) -> str:
        """"Ascend" or "CPU"."""
        return mindspore.get_context("device_target")

    def initialised(self) -> bool:
        """True while a process group runs, whoever started it."""
        return distributed.is_initialized()

    def start(self) -> None:
        """Start the process group that the launcher provides."""
        try:
            communication.init()
        except RuntimeError as cause:
            raise CommunicationError(
                f"MindSpore's process group did not start: {first_line(cause)} Check that every worker is alive and "
                f"that port {os.environ.get('MS_SCHED_PORT')} is free (msrun --master_port).") from cause

    def start_at(self, init_method, timeout, world_size: int, rank: int, store) -> None:
        """Start the process group at a URL or store instead of a launcher's scheduler."""
        distributed.init_process_group(init_method=init_method, timeout=timeout, world_size=world_size, rank=rank,
                                       store=store)

    def stop(self) -> None:
        """Release the communication library."""
        distributed.destroy_process_group()

    def rank(self) -> int:
        """Global rank of this process."""
        return communication.get_rank()

    def world_size(self) -> int:
        """Number of processes."""
        return communication.get_group_size()

    def world_group(self) -> str:
        """Name of the group of all processes."""
        return communication.GlobalComm.WORLD_COMM_GROUP

    def create_group(self, name: str, ranks: tuple) -> None:
        """Make a group; called by its members only."""
        communication.create_group(name, list(ranks))

    def destroy_group(self, name: str) -> None:
        """Destroy a group made before."""
        communication.destroy_group(name)

    def group_ranks(self, name: str) -> tuple:
        """Ranks of a group, in its own order."""
        return tuple(int(rank) for rank in distributed.get_process_group_ranks(name))

    def tensor(self, array):
        """The array as a tensor."""
        return mindspore.Tensor(array)

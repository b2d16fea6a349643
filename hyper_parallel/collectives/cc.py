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
"""Process groups of the platform in force, by the names that programs for the public library use."""
from __future__ import annotations

from hyper_parallel.errors import CommunicationError, MeshError
from hyper_parallel.platform.platform import get_platform, launched

# What a program may ask for, and the device type it means by that.
_DEVICE_OF = {"hccl": "npu", "mccl": "cpu"}


def init_process_group(backend=None, *, init_method=None, timeout=None, world_size=-1, rank=-1, store=None,
                       pg_options=None, device_id=None) -> None:
    """Start the process group; a group that runs already is used as it is.

    Args:
        backend: "hccl", "mccl" or None for the one of MindSpore's device target. "hccl" on a CPU host uses mccl.
        init_method: URL of the rank-0 process, on Ascend without a launcher; "env://" and None mean the launcher.
        timeout: `datetime.timedelta` for `init_method` or `store`.
        world_size: number of processes, checked when given.
        rank: rank of this process, checked when given.
        store: key-value store instead of `init_method`.
        pg_options: accepted, without effect in MindSpore 2.10.
        device_id: accepted, without effect in MindSpore 2.10.

    Raises:
        CommunicationError: for an unknown backend, without a launcher, when the group does not start, or when
            `world_size` or `rank` differ from the running group's.

    Examples:
        >>> from hyper_parallel import simulate
        >>> with simulate(4):  # under msrun without this line
        ...     init_process_group()
        ...     get_process_group_ranks()
        [0, 1, 2, 3]
    """
    del pg_options, device_id
    if backend is not None and str(backend).lower() not in _DEVICE_OF:
        raise CommunicationError(f"backend must be 'hccl' (Ascend) or 'mccl' (CPU). Got {backend!r}. Leave it out to "
                                 f"get the one of MindSpore's device target.")
    platform = get_platform()
    if platform.simulated:
        return
    device_type = platform.device_type if backend is None else _DEVICE_OF[str(backend).lower()]
    if not platform.initialised() and (store is not None or init_method not in (None, "env://")):
        platform.start_at(init_method, timeout, world_size, rank, store)
    if not platform.initialised() and not launched():
        raise CommunicationError("No launcher started this process, so there is no process group to join. Start the "
                                 "program with: msrun --worker_num=2 --local_worker_num=2 --join=True PROGRAM.py")
    platform.ensure_process_group(device_type)
    _check_given("world_size", world_size, platform.world_size())
    _check_given("rank", rank, platform.rank())


def _check_given(name: str, given: int, actual: int) -> None:
    if given not in (-1, actual):
        raise CommunicationError(f"init_process_group got {name}={given}, and the launcher's job has {name} {actual}. "
                                 f"Leave the argument out.")


def destroy_process_group(group=None) -> None:
    """Destroy one group, or every group and the process group itself.

    MindSpore cannot release its CPU group of all processes: there it stays until the process ends, and only the groups
    made later are destroyed.

    Args:
        group: name of a group, or None for all.

    Raises:
        CommunicationError: when no process group runs, or `group` is the group of all processes.
        MeshError: when this process is in no group of that name.

    Examples:
        >>> from hyper_parallel import simulate
        >>> with simulate(4):
        ...     destroy_process_group()
    """
    platform = get_platform()
    if platform.simulated:
        return
    if not platform.initialised():
        raise CommunicationError("There is no process group to destroy. Start one: init_process_group().")
    platform.destroy(group)


def get_process_group_ranks(group=None) -> list:
    """Global ranks of a group, in its order; of all processes when `group` is None.

    Args:
        group: name of a group, or None.

    Raises:
        MeshError: when this process is in no group of that name.

    Examples:
        >>> from hyper_parallel import init_device_mesh, simulate
        >>> with simulate(4, rank=1):
        ...     mesh = init_device_mesh("npu", (2, 2), mesh_dim_names=("dp", "tp"))
        ...     get_process_group_ranks(mesh.get_group("dp"))
        [1, 3]
    """
    platform = get_platform()
    return list(range(platform.world_size())) if group is None else list(platform.group_ranks(group))


def get_backend(group=None) -> str:
    """The library under the process group: "hccl" on Ascend, "mccl" on CPU, "simulated" in a simulation.

    Args:
        group: name of a group, or None; all groups of a process use one library.

    Raises:
        MeshError: when this process is in no group of that name.

    Examples:
        >>> from hyper_parallel import simulate
        >>> with simulate(2):
        ...     get_backend()
        'simulated'
    """
    platform = get_platform()
    if group is not None:
        platform.group_ranks(group)
    return "simulated" if platform.simulated else platform.backend


def get_group_local_rank(group=None) -> int:
    """Position of this process in a group.

    Args:
        group: name of a group; None means all processes.

    Raises:
        MeshError: when this process is not in the group.

    Examples:
        >>> from hyper_parallel import simulate
        >>> with simulate(4, rank=2):
        ...     get_group_local_rank()
        2
    """
    rank, ranks = get_platform().rank(), get_process_group_ranks(group)
    if rank not in ranks:
        raise MeshError(f"Rank {rank} is not in group {group!r}, whose ranks are {ranks}.")
    return ranks.index(rank)


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None):
    """Make groups out of a parent group; every process gets the one it is in, or None.

    Args:
        parent_pg: name of the parent group; None means all processes.
        split_ranks: lists of positions in the parent group (global ranks when the parent is all processes), without
            overlap.
        timeout: accepted, without effect in MindSpore 2.10.
        pg_options: accepted, without effect.
        group_desc: accepted, without effect.

    Raises:
        MeshError: when the lists are missing, empty, overlap, or hold positions beyond the parent.

    Examples:
        >>> from hyper_parallel import simulate
        >>> with simulate(4, rank=3):
        ...     tp = split_group(split_ranks=[[0, 1], [2, 3]])
        ...     get_process_group_ranks(tp), get_group_local_rank(tp)
        ([2, 3], 1)
    """
    del timeout, pg_options, group_desc
    platform, parent = get_platform(), get_process_group_ranks(parent_pg)
    parts = _check_split(split_ranks, len(parent))
    for part in parts:
        ranks = tuple(parent[position] for position in part)
        if platform.rank() in ranks:
            return platform.group(ranks)
    return None


def _check_split(split_ranks, size: int) -> list:
    parts = [list(part) for part in split_ranks or []]
    flat = [position for part in parts for position in part]
    if not parts or not all(parts):
        raise MeshError(f"split_group needs non-empty lists of positions: split_ranks=[[0, 1], [2, 3]]. "
                        f"Got {split_ranks!r}.")
    if len(set(flat)) != len(flat) or min(flat) < 0 or max(flat) >= size:
        raise MeshError(f"split_ranks must not overlap and must stay below {size}, the size of the parent group. "
                        f"Got {parts}.")
    return parts


def mark_created_groups(groups) -> None:
    """Use groups that the program made itself wherever a mesh axis has the same ranks.

    Args:
        groups: one group name, or several.

    Raises:
        MeshError: when this process is in no group of such a name.

    Examples:
        >>> from hyper_parallel import simulate
        >>> with simulate(4):
        ...     mark_created_groups(split_group(split_ranks=[[0, 1]]))
    """
    platform = get_platform()
    for group in [groups] if isinstance(groups, str) else groups:
        platform.adopt_group(platform.group_ranks(group), group)

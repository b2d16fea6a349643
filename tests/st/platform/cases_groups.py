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
"""Cases on real workers: who a process is, which groups are made, and the process-group functions."""
from __future__ import annotations

import os
import warnings

import mindspore
import numpy as np
from mindspore import communication

from hyper_parallel.collectives import cc
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh, init_device_mesh
from hyper_parallel.errors import CommunicationError, MeshError
from hyper_parallel.platform.platform import current_platform
from tests.common.case import case

BEFORE: dict = {}
WARNED: list = []


def start() -> None:
    """Ask before any group exists; then start it as the program's author chose, by the framework with four workers."""
    platform = current_platform()
    BEFORE.update(rank=platform.rank(), world=platform.world_size(), started=platform.initialised())
    platform.check_ranks(DeviceMesh("cpu", [0, 99], _init_backend=False))
    if platform.world_size() == 4:
        communication.init()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mesh = init_device_mesh("npu", (platform.world_size(),), mesh_dim_names=("tp",))
        BEFORE["before_group"] = len(caught)
        for _ in range(2):
            mesh.get_group("tp")
            platform.all_reduce([mindspore.Tensor([1.0])], mesh, 0, "sum")
        WARNED.extend(str(one.message) for one in caught)


def raises(kind, text, call) -> None:
    """Assert that the call raises this kind of error with the text in its message."""
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"{kind.__name__} was not raised")


@case
def rank_and_size_are_known_before_and_after_the_start():
    """The launcher's answer before the group exists is the framework's answer after it."""
    expected = {"rank": int(os.environ["RANK_ID"]), "world": int(os.environ["MS_WORKER_NUM"]), "started": False,
                "before_group": 0}
    assert BEFORE == expected, BEFORE
    assert current_platform().rank() == communication.get_rank() == BEFORE["rank"]
    assert current_platform().world_size() == communication.get_group_size() == BEFORE["world"]


@case
def a_mesh_of_another_device_type_warns_once():
    """One warning when its first group is made, none before, none after."""
    on_cpu = current_platform().device_type == "cpu"
    assert len(WARNED) == on_cpu and all("'npu'" in text and "mccl" in text for text in WARNED), WARNED


@case
def ranks_beyond_the_job_are_refused():
    """A mesh with more ranks than processes is refused by name; one within the job is not."""
    world = current_platform().world_size()
    raises(MeshError, f"ranks [{world}]", lambda: init_device_mesh("cpu", (world + 1,)))
    raises(MeshError, f"--worker_num={world + 1}", lambda: DeviceMesh("cpu", [0, world]))
    assert DeviceMesh("cpu", list(range(world))).size() == world


@case
def the_group_of_all_processes_is_reused():
    """Ranks in order give the framework's own group; another order or a part gives a group of its own."""
    platform, world = current_platform(), communication.GlobalComm.WORLD_COMM_GROUP
    size = platform.world_size()
    everyone = tuple(range(size))
    assert platform.group(everyone) == world
    turned = platform.group(everyone[::-1])
    assert turned != world and platform.group_ranks(turned) == everyone[::-1]
    assert platform.group(everyone[::-1]) == turned
    assert platform.group_ranks(None) == everyone
    raises(MeshError, "is not one of the ranks", lambda: platform.group(((platform.rank() + 1) % size,)))
    raises(MeshError, "distinct ranks", lambda: platform.group((platform.rank(), size)))


@case
def a_group_of_one_never_communicates():
    """Collectives along an axis of size 1 make no group and give the value itself, on every rank."""
    platform = current_platform()
    mesh = init_device_mesh("cpu", (platform.world_size(), 1), mesh_dim_names=("dp", "one"))
    made = set(platform._made)
    mine = mindspore.Tensor(np.array([1.5, -2.0], np.float32) * (platform.rank() + 1))
    results = [platform.all_reduce([mine], mesh, 1, "sum")[0], platform.all_gather([mine], mesh, 1)[0][0],
               platform.reduce_scatter([[mine]], mesh, 1, "sum")[0], platform.all_to_all([[mine]], mesh, 1)[0][0],
               platform.broadcast([mine], mesh, 1, 0)[0]]
    for result in results:
        assert result is not mine and np.array_equal(result.asnumpy(), mine.asnumpy())
    assert set(platform._made) == made


@case
def a_program_may_bring_its_own_group():
    """from_group and mark_created_groups use a group that the framework made, and refuse other ranks for it."""
    platform = current_platform()
    ranks = list(range(platform.world_size()))[-2:]
    if platform.rank() not in ranks:
        return
    communication.create_group("pair_of_the_program", ranks)
    mesh = DeviceMesh.from_group("pair_of_the_program", "cpu", mesh_dim_names=("tp",))
    assert mesh.rank_list == tuple(ranks) and mesh.get_group("tp") == "pair_of_the_program"
    [total] = platform.all_reduce([mindspore.Tensor([platform.rank()])], mesh, 0, "sum")
    assert total.asnumpy().tolist() == [sum(ranks)]
    raises(MeshError, "holds the ranks", lambda: platform.adopt_group((platform.rank(),), "pair_of_the_program"))
    raises(MeshError, "knows no group 'nobody'", lambda: platform.group_ranks("nobody"))
    cc.mark_created_groups(["pair_of_the_program"])
    assert cc.get_process_group_ranks("pair_of_the_program") == ranks


@case
def process_group_functions():
    """Ranks, backend, local rank and the refusals of the functions that programs call."""
    platform = current_platform()
    size, rank = platform.world_size(), platform.rank()
    cc.init_process_group()
    cc.init_process_group("hccl", init_method="env://", world_size=size, rank=rank)
    assert cc.get_process_group_ranks() == list(range(size))
    assert cc.get_backend() == cc.get_backend(platform.group(tuple(range(size)))) == platform.backend
    assert cc.get_group_local_rank() == rank
    assert cc.get_group_local_rank(platform.group(tuple(range(size))[::-1])) == size - 1 - rank
    raises(CommunicationError, f"has world_size {size}", lambda: cc.init_process_group(world_size=size + 1))
    raises(CommunicationError, "backend must be", lambda: cc.init_process_group("gloo"))
    raises(CommunicationError, "of all processes",
           lambda: cc.destroy_process_group(communication.GlobalComm.WORLD_COMM_GROUP))


@case
def split_group_gives_each_rank_its_part():
    """Parts of one world: each member gets its group, others None; a split group is split by position."""
    platform = current_platform()
    size, rank = platform.world_size(), platform.rank()
    group = cc.split_group(split_ranks=[[size - 1, 0]])
    if rank not in (0, size - 1):
        assert group is None
        return
    assert cc.get_process_group_ranks(group) == [size - 1, 0]
    assert cc.get_group_local_rank(group) == (1 if rank == 0 else 0)
    part = cc.split_group(group, [[0], [1]])
    assert cc.get_process_group_ranks(part) == [rank]
    raises(MeshError, "must not overlap", lambda: cc.split_group(group, [[0, 1], [1]]))
    raises(MeshError, "stay below 2", lambda: cc.split_group(group, [[0, 2]]))


@case(workers=(4,))
def idle_ranks_take_no_part():
    """Three of four ranks reduce in an order of their own; the fourth is refused, and nobody waits for it."""
    platform = current_platform()
    mesh = DeviceMesh("cpu", [3, 0, 1], mesh_dim_names=("tp",))
    value = mindspore.Tensor([platform.rank() + 1])
    if platform.rank() == 2:
        raises(MeshError, "Rank 2 is not in the mesh", lambda: platform.all_reduce([value], mesh, 0, "sum"))
        return
    assert platform.all_reduce([value], mesh, 0, "sum")[0].asnumpy().tolist() == [7]
    assert [p.asnumpy().tolist() for p in platform.all_gather([value], mesh, 0)[0]] == [[4], [1], [2]]


@case
def a_destroyed_group_is_made_again():
    """After destroy_process_group the same ranks get a working group again, and the platform knows its rank."""
    platform = current_platform()
    ranks = tuple(range(platform.world_size()))[::-1]
    name = platform.group(ranks)
    cc.destroy_process_group(name)
    raises(MeshError, "knows no group", lambda: platform.group_ranks(name))
    assert platform.group(ranks) == name
    cc.destroy_process_group()
    mesh = DeviceMesh("cpu", list(ranks), mesh_dim_names=("tp",))
    assert mesh.get_group("tp") == name
    value = mindspore.Tensor([platform.rank()])
    assert [p.asnumpy().tolist() for p in platform.all_gather([value], mesh, 0)[0]] == [[r] for r in ranks]

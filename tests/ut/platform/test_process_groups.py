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
"""The process-group functions on stand-in groups, in a simulation's place, and without any process group."""
from __future__ import annotations

import types

import pytest

from hyper_parallel import collectives
from hyper_parallel.errors import CommunicationError, MeshError
from hyper_parallel.platform import platform as platforms
from hyper_parallel.platform.mindspore.ascend import AscendPlatform
from hyper_parallel.platform.mindspore.cpu import CpuPlatform
from tests.common.fake_mindspore import FakeRuntime

WORKER = {"MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "4", "MS_NODE_ID": "1"}


@pytest.fixture
def use(monkeypatch):
    """A function that puts a platform in force."""
    def choose(platform):
        monkeypatch.setattr(platforms, "_REAL", [platform])
        return platform

    return choose


def on_cpu(rank=1, started=True):
    """A CPU platform of rank `rank` among four."""
    return CpuPlatform(FakeRuntime(rank, 4, started))


@pytest.mark.parametrize("backend, noticed", [(None, None), ("mccl", None), ("hccl", "npu"), ("HCCL", "npu")])
def test_init_starts_the_launchers_group_once(launcher, use, backend, noticed):
    """
    Feature: init_process_group.
    Description: twice, under a launcher, for each spelling of the backend.
    Expectation: started once; hccl on a CPU host counts as a mesh for npu does.
    """
    launcher(**WORKER)
    platform = use(on_cpu(started=False))
    collectives.init_process_group(backend)
    collectives.init_process_group(backend, world_size=4, rank=1)
    assert platform.runtime.log == [("start",)] and platform._foreign_type == noticed


def test_init_uses_a_group_that_the_program_started(launcher, use):
    """
    Feature: init_process_group.
    Description: the framework's group runs already, and no launcher is to be seen.
    Expectation: nothing is started, nothing is refused.
    """
    launcher()
    platform = use(on_cpu())
    collectives.init_process_group(init_method="tcp://127.0.0.1:1", world_size=4, rank=1)
    assert platform.runtime.log == []


@pytest.mark.parametrize("arguments, text", [
    ({"backend": "nccl"}, "'hccl' .Ascend. or 'mccl' .CPU.. Got 'nccl'"),
    ({"world_size": 8}, "world_size=8, and the launcher's job has world_size 4"),
    ({"rank": 0}, "rank=0, and the launcher's job has rank 1"),
])
def test_init_refuses_what_contradicts_the_job(launcher, use, arguments, text):
    """
    Feature: init_process_group.
    Description: an unknown backend, another world size, another rank.
    Expectation: CommunicationError with what was given and what is.
    """
    launcher(**WORKER)
    use(on_cpu())
    with pytest.raises(CommunicationError, match=text):
        collectives.init_process_group(**arguments)


@pytest.mark.parametrize("arguments", [{}, {"init_method": "env://"}])
def test_init_without_launcher_names_the_command(launcher, use, arguments):
    """
    Feature: init_process_group.
    Description: a program started by plain python.
    Expectation: CommunicationError with the msrun command; nothing is started.
    """
    launcher()
    platform = use(on_cpu(started=False))
    with pytest.raises(CommunicationError, match="msrun --worker_num=2"):
        collectives.init_process_group(**arguments)
    assert platform.runtime.log == []


def test_init_at_a_url_starts_without_launcher_on_ascend_only(launcher, use):
    """
    Feature: init_process_group.
    Description: a URL instead of a launcher, on Ascend and on a CPU host.
    Expectation: handed to the framework on Ascend; refused on CPU with the way that works.
    """
    launcher()
    arguments = {"init_method": "tcp://10.0.0.1:6000", "world_size": 4, "rank": 1}
    ascend = use(AscendPlatform(FakeRuntime(1, 4, started=False)))
    collectives.init_process_group(**arguments)
    assert ascend.runtime.log == [("start_at", "tcp://10.0.0.1:6000", None, 4, 1, None)]
    use(on_cpu(started=False))
    with pytest.raises(CommunicationError, match="msrun"):
        collectives.init_process_group(**arguments)


def test_questions_about_groups(use):
    """
    Feature: get_process_group_ranks, get_backend, get_group_local_rank.
    Description: all processes, a group in falling order, a group that does not exist, a group without this rank.
    Expectation: ranks in the group's order, the library, the position; MeshError for the others.
    """
    platform = use(on_cpu())
    group = platform.group((3, 1))
    assert collectives.get_process_group_ranks() == [0, 1, 2, 3]
    assert collectives.get_process_group_ranks(group) == [3, 1]
    assert collectives.get_backend() == collectives.get_backend(group) == "mccl"
    assert (collectives.get_group_local_rank(), collectives.get_group_local_rank(group)) == (1, 1)
    platform.runtime.groups["others"] = (0, 2)
    with pytest.raises(MeshError, match=r"Rank 1 is not in group 'others', whose ranks are \[0, 2\]"):
        collectives.get_group_local_rank("others")
    for ask in (collectives.get_process_group_ranks, collectives.get_backend, collectives.get_group_local_rank,
                collectives.destroy_process_group):
        with pytest.raises(MeshError, match="knows no group 'nobody'"):
            ask("nobody")


@pytest.mark.parametrize("rank, expected", [(0, (0, 2)), (2, (0, 2)), (1, (1, 3)), (3, (1, 3))])
def test_split_group_gives_each_rank_its_part(use, rank, expected):
    """
    Feature: split_group.
    Description: four ranks cut into two parts, as each rank sees it.
    Expectation: the group of the part that holds the rank.
    """
    platform = use(on_cpu(rank))
    assert platform.group_ranks(collectives.split_group(split_ranks=[[0, 2], [1, 3]])) == expected


def test_split_group_counts_positions_of_the_parent(use):
    """
    Feature: split_group.
    Description: split the group (3, 0, 1), where rank 1 has position 2; then leave that position out.
    Expectation: the group of positions 2 and 0; None.
    """
    platform = use(on_cpu())
    parent = platform.group((3, 0, 1))
    assert platform.group_ranks(collectives.split_group(parent, [[2, 0], [1]])) == (1, 3)
    assert collectives.split_group(parent, [[0, 1]]) is None


@pytest.mark.parametrize("parts, text", [(None, "non-empty lists"), ([], "non-empty lists"), ([[0], []], "non-empty"),
                                         ([[0, 1], [1]], "not overlap"), ([[0, 4]], "below 4"), ([[-1]], "below 4")])
def test_split_group_refuses_parts_that_cannot_be(use, parts, text):
    """
    Feature: split_group.
    Description: no parts, empty parts, overlap, positions beyond the parent.
    Expectation: MeshError, on every rank alike.
    """
    for rank in range(4):
        use(on_cpu(rank))
        with pytest.raises(MeshError, match=text):
            collectives.split_group(split_ranks=parts)


@pytest.mark.parametrize("given", ["theirs", ["theirs"], ("theirs",)])
def test_marked_groups_are_used_for_their_ranks(use, given):
    """
    Feature: mark_created_groups.
    Description: a group that the program made, given by name or in a list.
    Expectation: the platform uses it for its ranks and makes none.
    """
    platform = use(on_cpu())
    platform.runtime.groups["theirs"] = (1, 2)
    collectives.mark_created_groups(given)
    assert platform.group((1, 2)) == "theirs" and platform.runtime.log == []


def test_destroy_ends_groups_and_process_group(use):
    """
    Feature: destroy_process_group.
    Description: on Ascend all; on a CPU host all; when nothing runs.
    Expectation: made groups are destroyed; the process group ends on Ascend and stays on CPU; else an error.
    """
    for kind, last in ((AscendPlatform, [("stop",)]), (CpuPlatform, [])):
        platform = use(kind(FakeRuntime(1, 4)))
        name = platform.group((1, 2))
        collectives.destroy_process_group()
        assert platform.runtime.log[1:] == [("destroy", name), *last]
    use(on_cpu(started=False))
    with pytest.raises(CommunicationError, match="no process group to destroy"):
        collectives.destroy_process_group()


def test_a_simulation_needs_no_process_group(monkeypatch):
    """
    Feature: process groups in a simulation.
    Description: start, ask for the backend and end while a simulation is in force.
    Expectation: nothing to start or end; the backend says so.
    """
    monkeypatch.setattr(platforms._ACTIVE, "stack", [types.SimpleNamespace(simulated=True)])
    collectives.init_process_group()
    assert collectives.get_backend() == "simulated"
    collectives.destroy_process_group()

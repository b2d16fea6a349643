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
"""Who a process is, and which groups it makes: no processes, a stand-in for the framework's groups."""
from __future__ import annotations

import warnings

import pytest

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.errors import CommunicationError, MeshError
from hyper_parallel.platform.mindspore.base import group_name
from hyper_parallel.platform.mindspore.collective import AxisGroup
from hyper_parallel.platform.mindspore.cpu import CpuPlatform
from hyper_parallel.platform.mindspore.runtime import Runtime, launcher_rank, launcher_world_size
from tests.common.fake_mindspore import FakeRuntime

WORKER = {"MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "4", "MS_NODE_ID": "2", "RANK_ID": "2"}


def platform(rank=0, world=4, started=True):
    """A CPU platform on stand-in groups."""
    return CpuPlatform(FakeRuntime(rank, world, started))


def mesh(ranks, device_type="cpu"):
    """A mesh that starts no process group."""
    return DeviceMesh(device_type, ranks, _init_backend=False)


@pytest.mark.parametrize("variables, rank, size", [
    ({}, 0, 1),
    (WORKER, 2, 4),
    ({"RANK_ID": "3", "RANK_SIZE": "8"}, 0, 1),
    ({"MS_ROLE": "MS_SCHED", "MS_WORKER_NUM": "4", "RANK_ID": "0"}, 0, 4),
])
def test_launcher_environment_gives_rank_and_size(launcher, variables, rank, size):
    """
    Feature: rank and size before the process group starts.
    Description: no launcher; a worker of msrun; stray rank variables without a launcher; the scheduler of msrun.
    Expectation: 0 of 1 without a launcher, else what the launcher says.
    """
    launcher(**variables)
    assert (launcher_rank(), launcher_world_size()) == (rank, size)
    assert (platform(started=False).rank(), platform(started=False).world_size()) == (rank, size)


def test_rank_that_the_scheduler_assigns_later_is_not_guessed(launcher):
    """
    Feature: rank before the process group starts.
    Description: msrun on several hosts without --node_rank: RANK_ID is a left-over, MS_NODE_ID is missing.
    Expectation: MeshError that says how to get the rank.
    """
    launcher(MS_ROLE="MS_WORKER", MS_WORKER_NUM="16", RANK_ID="0")
    with pytest.raises(MeshError, match="init_process_group"):
        launcher_rank()


def test_running_group_overrules_the_environment(launcher):
    """
    Feature: rank after the process group has started.
    Description: the framework's answer differs from the launcher's variables.
    Expectation: the framework's answer.
    """
    launcher(**WORKER)
    assert (platform(rank=5, world=8).rank(), platform(rank=5, world=8).world_size()) == (5, 8)


@pytest.mark.parametrize("variables, started, log", [
    (WORKER, False, [("start",)]),
    (WORKER, True, []),
    ({}, False, []),
])
def test_process_group_starts_only_under_a_launcher_and_once(launcher, variables, started, log):
    """
    Feature: start of the process group.
    Description: under a launcher; under a launcher when the program has started it itself; without a launcher.
    Expectation: started in the first case only, and not again by a second mesh.
    """
    launcher(**variables)
    subject = platform(started=started)
    subject.ensure_process_group("cpu")
    subject.ensure_process_group("cpu")
    assert subject.runtime.log == log


def test_start_that_fails_names_the_port(launcher, monkeypatch):
    """
    Feature: start of the process group.
    Description: the framework cannot build the cluster.
    Expectation: CommunicationError with its first line, the port and the option that changes it.
    """
    launcher(**WORKER, MS_SCHED_PORT="8118")

    def fail():
        raise RuntimeError("\n-----\nTopology timed out\n---- C++ Call Stack\n")

    monkeypatch.setattr("mindspore.communication.init", fail)
    with pytest.raises(CommunicationError, match="Topology timed out Check .* port 8118 .*--master_port"):
        Runtime().start()


def test_ranks_beyond_the_job_are_refused_when_it_runs():
    """
    Feature: meshes and the running job.
    Description: a mesh with rank 4 in a job of four, and in no job.
    Expectation: MeshError naming the rank and the size when the job runs; nothing otherwise.
    """
    with pytest.raises(MeshError, match=r"ranks \[4\], and this job has 4 .*--worker_num=5"):
        platform().check_ranks(mesh([0, 4]))
    platform().check_ranks(mesh([0, 3]))
    platform(started=False).check_ranks(mesh([0, 4]))


def test_group_is_made_once_per_order_of_ranks():
    """
    Feature: groups.
    Description: ask twice for (0, 2), once for (2, 0).
    Expectation: two groups, each made once, with the ranks in the order asked for.
    """
    subject = platform()
    first = subject.group((0, 2))
    assert subject.group((0, 2)) == first != subject.group((2, 0))
    assert subject.runtime.log == [("create", first, (0, 2)), ("create", subject.group((2, 0)), (2, 0))]
    assert subject.group_ranks(first) == (0, 2)


def test_all_ranks_in_order_are_the_frameworks_own_group():
    """
    Feature: groups.
    Description: all ranks in order, all ranks in another order.
    Expectation: the framework's world group without making any; then a group of its own.
    """
    subject = platform()
    assert subject.group((0, 1, 2, 3)) == "world" and subject.runtime.log == []
    assert subject.group((3, 2, 1, 0)) != "world"
    assert subject.group_ranks(None) == (0, 1, 2, 3)


@pytest.mark.parametrize("ranks, text", [((1, 2), "Rank 0 is not one of"), ((0, 4), "below 4"), ((0, 0), "distinct"),
                                         ((0, -1), "below 4")])
def test_groups_that_cannot_be_are_refused(ranks, text):
    """
    Feature: groups.
    Description: this process is not a member; ranks beyond the job, repeated or negative.
    Expectation: MeshError, and the framework is not asked.
    """
    subject = platform()
    with pytest.raises(MeshError, match=text):
        subject.group(ranks)
    assert subject.runtime.log == []


def test_group_without_process_group_says_how_to_start():
    """
    Feature: groups.
    Description: ask for a group, a group's ranks and a collective's group when none runs.
    Expectation: RuntimeError that names msrun.
    """
    subject = platform(started=False)
    for call in (lambda: subject.group((0, 1)), lambda: subject.group_ranks("x"),
                 lambda: subject.adopt_group((0, 1), "x")):
        with pytest.raises(RuntimeError, match="No process group is initialised"):
            call()


def test_group_that_the_framework_refuses_is_a_communication_error():
    """
    Feature: groups.
    Description: the name is taken by another group of the program.
    Expectation: CommunicationError with ranks, rank and the framework's reason.
    """
    subject = platform()
    subject.runtime.groups[group_name((0, 2))] = (0, 1)
    with pytest.raises(CommunicationError, match=r"ranks \(0, 2\) .* rank 0: group .* refused"):
        subject.group((0, 2))


def test_adopted_group_is_used_for_its_ranks():
    """
    Feature: groups that a program brings.
    Description: adopt a group for its ranks, for another order of them, and for other ranks.
    Expectation: used in the first two cases without making one; MeshError in the third.
    """
    subject = platform()
    subject.runtime.groups["theirs"] = (0, 2)
    subject.adopt_group((0, 2), "theirs")
    subject.adopt_group((2, 0), "theirs")
    assert subject.group((0, 2)) == subject.group((2, 0)) == "theirs" and subject.runtime.log == []
    with pytest.raises(MeshError, match=r"holds the ranks \(0, 2\), not \(0, 3\)"):
        subject.adopt_group((0, 3), "theirs")
    with pytest.raises(MeshError, match="knows no group 'nobody'"):
        subject.adopt_group((0, 3), "nobody")


def test_group_in_an_unknown_order_is_not_adopted_for_sorted_ranks():
    """
    Feature: groups that a program brings.
    Description: the group holds (2, 0); collectives would take it for (0, 2).
    Expectation: MeshError.
    """
    subject = platform()
    subject.runtime.groups["theirs"] = (2, 0)
    with pytest.raises(MeshError, match=r"holds the ranks \(2, 0\)"):
        subject.adopt_group((0, 2), "theirs")


def test_destroyed_group_is_forgotten_and_made_again():
    """
    Feature: groups.
    Description: destroy one group and ask for it again; then destroy all.
    Expectation: made twice; at the end every group of the platform is destroyed, adopted ones are left alone.
    """
    subject = platform()
    name, other = subject.group((0, 2)), subject.group((0, 3))
    subject.runtime.groups["theirs"] = (0, 1)
    subject.adopt_group((0, 1), "theirs")
    subject.destroy(name)
    assert subject.group((0, 2)) == name
    subject.destroy()
    kinds = [entry[:2] for entry in subject.runtime.log]
    assert kinds == [("create", name), ("create", other), ("destroy", name), ("create", name),
                     *[("destroy", one) for one in sorted([name, other])]]
    assert set(subject.runtime.groups) == {"world", "theirs"}
    assert subject.rank() == 0 and subject.group((0, 2)) == name
    with pytest.raises(CommunicationError, match="of all processes"):
        subject.destroy("world")


def test_group_names_are_short_and_differ():
    """
    Feature: group names.
    Description: a handful of ranks, 1,024 ranks, and the same with two of them swapped.
    Expectation: readable when short, bounded when long, never equal for different orders.
    """
    many = tuple(range(1024))
    swapped = (1, 0) + many[2:]
    assert group_name((0, 2)) == "hyper_parallel_0_2"
    assert len(group_name(many)) < 100 and group_name(many) != group_name(swapped)


def test_mesh_of_another_device_type_warns_once_and_only_with_a_group():
    """
    Feature: the device type of a mesh names intent.
    Description: a mesh for npu on a CPU host: noticed, then a group is made twice; a mesh for cpu does the same.
    Expectation: exactly one warning in the first case, when the group is first asked for; none in the second.
    """
    for device_type, expected in (("npu", 1), ("cpu", 0)):
        subject = platform()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            subject.ensure_process_group(device_type)
            assert not caught
            subject.group((0, 2))
            subject.group((0, 2))
            subject.group((0, 3))
        assert len(caught) == expected
        assert all("'npu'" in str(one.message) and "mccl" in str(one.message) for one in caught)


@pytest.mark.parametrize("ranks, rank, order, own", [((0, 1, 2), 1, (0, 1, 2), 1), ((3, 1, 2), 3, (1, 2, 0), 0),
                                                     ((9, 4), 4, (1, 0), 1)])
def test_axis_order_and_group_order_translate(ranks, rank, order, own):
    """
    Feature: collectives run on sorted groups.
    Description: axes whose ranks rise, turn and fall.
    Expectation: values in group order come back in axis order, and the other way round.
    """
    at = AxisGroup.of(ranks, rank)
    assert (at.order, at.own, at.size) == (order, own, len(ranks))
    assert at.to_axis_order(sorted(ranks)) == list(ranks)
    assert at.to_group_order(ranks) == sorted(ranks)

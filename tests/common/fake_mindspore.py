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
"""Stand-ins for MindSpore's process groups and for its collectives, so that a platform runs without processes."""
from __future__ import annotations

import functools

import mindspore
import numpy as np

_REDUCE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


class FakeRuntime:
    """The process groups of one rank of a job that does not exist.

    Args:
        rank: this rank.
        world: number of ranks.
        started: whether the process group runs already.
    """

    def __init__(self, rank: int = 0, world: int = 4, started: bool = True):
        self._rank, self._world, self.started = rank, world, started
        self.groups = {"world": tuple(range(world))}
        self.log: list = []

    def device_target(self):
        """Always CPU."""
        return "CPU"

    def initialised(self):
        """Whether the group runs."""
        return self.started

    def start(self):
        """Start the group."""
        self.log.append(("start",))
        self.started = True

    def start_at(self, init_method, timeout, world_size, rank, store):
        """Start the group at a URL or store."""
        self.log.append(("start_at", init_method, timeout, world_size, rank, store))
        self.started = True

    def stop(self):
        """End the group."""
        self.log.append(("stop",))
        self.started = False

    def rank(self):
        """This rank."""
        return self._rank

    def world_size(self):
        """Number of ranks."""
        return self._world

    def world_group(self):
        """Name of the group of all."""
        return "world"

    def create_group(self, name, ranks):
        """Make a group; the framework refuses a name with other ranks, and a rank that is not a member."""
        self.log.append(("create", name, ranks))
        if self.groups.get(name, ranks) != ranks or self._rank not in ranks:
            raise ValueError(f"group {name} refused")
        self.groups[name] = ranks

    def destroy_group(self, name):
        """Destroy a group."""
        self.log.append(("destroy", name))
        del self.groups[name]

    def group_ranks(self, name):
        """Ranks of a group."""
        if name not in self.groups:
            raise RuntimeError(f"Group {name} doesn't include this rank {self._rank} process.")
        return self.groups[name]

    def tensor(self, array):
        """The array as a tensor."""
        return mindspore.Tensor(array)


class Wire:
    """What every rank puts into its collectives, shared by the stand-ins of all ranks.

    The ranks run one after the other, twice: first each notes what it sends, then each receives what the others sent.
    That works because what a platform sends never depends on what it receives within one collective.
    """

    def __init__(self):
        self.sent: dict = {}
        self.complete = False


class FakeCollectives:
    """The framework's collectives as one rank sees them; notes (op, group, dtype, shape, reduce op) of each call."""

    def __init__(self, runtime: FakeRuntime, wire: Wire):
        self.runtime, self.wire = runtime, wire
        self.log: list = []

    def _exchange(self, name, group, value, op=None) -> list:
        """The values of all members in group order, as arrays."""
        rank, key = self.runtime.rank(), (len(self.log), group)
        self.log.append((name, group, str(value.dtype), tuple(value.shape)) + ((op,) if op else ()))
        self.wire.sent[rank, key] = _array(value)
        members = self.runtime.group_ranks(group)
        assert tuple(sorted(members)) == members, "collectives must run on groups in sorted order"
        return [self.wire.sent[member, key] for member in members] if self.wire.complete else []

    def all_reduce(self, tensor, op="sum", group=None):
        """In place."""
        values = self._exchange("all_reduce", group, tensor, op)
        _put(tensor, functools.reduce(_REDUCE[op], values) if values else None)

    def broadcast(self, tensor, src, group=None):
        """In place; `src` is a global rank."""
        values = self._exchange("broadcast", group, tensor)
        _put(tensor, values[self.runtime.group_ranks(group).index(src)] if values else None)

    def all_gather_into_tensor(self, output, given, group=None):
        """Values joined along dim 0."""
        values = self._exchange("all_gather_into_tensor", group, given)
        _put(output, np.concatenate(values) if values else None)

    def reduce_scatter_tensor(self, output, given, op="sum", group=None):
        """Own chunk of the reduction."""
        values = self._exchange("reduce_scatter_tensor", group, given, op)
        total = functools.reduce(_REDUCE[op], values) if values else None
        _put(output, None if total is None else self._own(total, group))

    def all_to_all_single(self, output, given, group=None):
        """Chunks that the members have for this rank, joined."""
        values = self._exchange("all_to_all_single", group, given)
        _put(output, np.concatenate([self._own(value, group) for value in values]) if values else None)

    def _own(self, array, group):
        members = self.runtime.group_ranks(group)
        return np.split(array, len(members))[members.index(self.runtime.rank())]


def _array(tensor) -> np.ndarray:
    return (tensor.astype(mindspore.float32) if tensor.dtype == mindspore.bfloat16 else tensor).asnumpy().copy()


def _put(tensor, array) -> None:
    if array is not None:
        assert tuple(tensor.shape) == array.shape, (tensor.shape, array.shape)
        tensor.copy_(mindspore.Tensor(array, tensor.dtype))


def run_on_all(platform_type, world: int, program) -> tuple[list, list]:
    """Results of `program(platform)` on every rank, and the collectives that each rank asked its library for."""
    wire, results, logs = Wire(), [], []
    for wire.complete in (False, True):
        results, logs = [], []
        for rank in range(world):
            runtime = FakeRuntime(rank, world)
            comm = FakeCollectives(runtime, wire)
            results.append(program(platform_type(runtime, comm)))
            logs.append(comm.log)
    return results, logs

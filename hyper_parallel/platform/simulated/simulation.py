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
"""The simulated platform: collectives between the local values of all ranks, held in one process."""
from __future__ import annotations

import contextlib
import functools

import mindspore as ms
from mindspore import mint

from hyper_parallel.errors import MeshError
from hyper_parallel.platform.mindspore.cpu_kernels import substitute
from hyper_parallel.platform.mindspore.fresh import fresh_copy
from hyper_parallel.platform.platform import _ACTIVE, Platform

_COMBINE = {"sum": mint.add, "max": mint.maximum, "min": mint.minimum, "prod": mint.mul, "all": mint.logical_and}


def _copies(value, count: int) -> list:
    """The value and `count - 1` copies: every rank owns its result, so an in-place change stays its own."""
    return [value] + [fresh_copy(value) for _ in range(count - 1)]


class SimulatedPlatform(Platform):
    """All ranks of a job of `world` processes; `rank` is the one that rank questions are answered for.

    A DTensor holds one local value per rank of its root mesh, in the order of that mesh's rank list.
    """

    simulated = True

    def __init__(self, world: int, rank: int = 0):
        if world < 1 or not 0 <= rank < world:
            raise MeshError(f"A simulation needs at least one rank, and a rank below their number. "
                            f"Got world={world}, rank={rank}.")
        super().__init__()
        self._world, self._rank = world, rank
        self._groups: dict = {}

    def rank(self):
        return self._rank

    def world_size(self):
        return self._world

    def positions(self, mesh):
        return mesh.root_mesh.rank_list

    def check_ranks(self, mesh):
        highest = max(mesh.rank_list)
        if highest >= self._world:
            raise MeshError(f"The mesh has rank {highest}, but this simulation has {self._world} ranks: "
                            f"simulate({highest + 1}).")

    def group(self, ranks):
        return "simulated_" + "_".join(map(str, ranks))

    def group_ranks(self, group):
        return tuple(int(r) for r in group.split("_")[1:])

    def adopt_group(self, ranks, group):
        """Groups of a simulation are just rank tuples."""

    def tensor(self, array):
        return ms.Tensor(array)

    def kernel(self, name, shapes=()):
        return substitute(name, shapes)

    def expect_equal(self, mesh, shapes):
        if len(set(shapes)) > 1:
            raise self.unequal(mesh, shapes)

    # -- collectives ---------------------------------------------------------------------------------------------------

    def _rows(self, mesh, axis) -> list:
        """Groups along an axis, each as positions in axis order."""
        key = (mesh.identity, axis)
        if key not in self._groups:
            where = {rank: p for p, rank in enumerate(self.positions(mesh))}
            rows = {mesh.ranks_along(axis, rank) for rank in where}
            self._groups[key] = [tuple(where[r] for r in row) for row in sorted(rows)]
        return self._groups[key]

    def _all_reduce(self, values, mesh, axis, op):
        out = list(values)
        for row in self._rows(mesh, axis):
            total = functools.reduce(_COMBINE[op], [values[p] for p in row])
            for p, copy in zip(row, _copies(total, len(row))):
                out[p] = copy
        return out

    def _all_gather(self, values, mesh, axis):
        out = [None] * len(values)
        for row in self._rows(mesh, axis):
            for p in row:
                out[p] = [values[q] for q in row]
        return out

    def _reduce_scatter(self, chunks, mesh, axis, op):
        out = [None] * len(chunks)
        for row in self._rows(mesh, axis):
            for i, p in enumerate(row):
                out[p] = functools.reduce(_COMBINE[op], [chunks[q][i] for q in row])
        return out

    def _all_to_all(self, chunks, mesh, axis):
        out = [None] * len(chunks)
        for row in self._rows(mesh, axis):
            for i, p in enumerate(row):
                out[p] = [chunks[q][i] for q in row]
        return out

    def _broadcast(self, values, mesh, axis, source):
        out = list(values)
        for row in self._rows(mesh, axis):
            for p, copy in zip(row, _copies(values[row[source]], len(row))):
                out[p] = copy
        return out


@contextlib.contextmanager
def simulate(world: int, rank: int = 0):
    """Run the block on `world` simulated ranks in this process.

    Local values are then tuples with one tensor per rank of the mesh: `DTensor.from_local` takes such a tuple (or a
    list), `to_local` returns it. Everything else is as in a real job.

    Args:
        world: number of ranks.
        rank: the rank that `get_rank`-like questions are answered for.

    Raises:
        MeshError: for a world below 1 or a rank outside it.

    Examples:
        >>> from hyper_parallel import DTensor, init_device_mesh, Partial
        >>> with simulate(2):
        ...     mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        ...     x = DTensor.from_local([ms.Tensor([1.0]), ms.Tensor([2.0])], mesh, [Partial()])
        ...     x.full_tensor().asnumpy().tolist()
        [3.0]
    """
    platform = SimulatedPlatform(world, rank)
    _ACTIVE.stack.append(platform)
    try:
        yield platform
    finally:
        _ACTIVE.stack.remove(platform)

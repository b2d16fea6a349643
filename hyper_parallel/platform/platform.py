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
"""What the core asks of a platform: who this process is, collectives, and which platform is in force."""
from __future__ import annotations

import enum
import importlib
import os
import sys
import threading

import numpy as np

from hyper_parallel.errors import CommunicationError, LayoutError, MeshError
from hyper_parallel.platform import recorder


class PlatformType(enum.Enum):
    """Back ends a program may name in HYPER_PARALLEL_PLATFORM."""

    MINDSPORE = "mindspore"
    PYTORCH = "torch"


class Platform:
    """The interface; this base is also the platform of a process without framework or process group.

    Layouts, rules and plans need nothing more than its answers "rank 0 of 1".
    """

    simulated = False
    _expected: tuple = ()

    def rank(self) -> int:
        """Global rank of this process."""
        return 0

    def world_size(self) -> int:
        """Number of processes."""
        return 1

    def positions(self, mesh) -> tuple:  # pylint: disable=unused-argument
        """Global ranks whose local values this process holds: one, or all of them in a simulation."""
        return (self.rank(),)

    def ensure_process_group(self, device_type: str) -> None:
        """Start the framework's process group if a launcher provides one and none is running."""

    def check_ranks(self, mesh) -> None:
        """Refuse a mesh with ranks beyond the running job.

        Raises:
            MeshError: naming the ranks and the job's size.
        """

    def group(self, ranks: tuple):
        """The communication group over these ranks, made on first use."""
        raise RuntimeError(f"No process group is initialised, so there is no group over ranks {ranks}. "
                           f"Start the program under msrun and call hyper_parallel.init_process_group().")

    def group_ranks(self, group) -> tuple:
        """Ranks of a communication group."""
        raise RuntimeError(f"No process group is initialised, so group {group!r} is unknown.")

    def adopt_group(self, ranks: tuple, group) -> None:
        """Use an existing group for these ranks."""
        raise RuntimeError(f"No process group is initialised, so group {group!r} cannot be adopted.")

    def tensor(self, array):
        """The array as a tensor of the framework."""
        return array

    def kernel(self, name: str, shapes: tuple = ()):  # pylint: disable=unused-argument
        """A local substitute for a kernel that this platform lacks (for operands of these local shapes), or None."""
        return None

    def expect_equal(self, mesh, shapes: list) -> None:
        """Note that local shapes (one per position) must be equal over the mesh; checked before the next collective."""
        self._expected = (*self._expected, (mesh, tuple(shapes[0])))

    @staticmethod
    def unequal(mesh, shapes) -> LayoutError:
        """The error for local tensors that were assumed to be equal shards."""
        return LayoutError(f"DTensor.from_local without shape= assumes equal local shapes over the mesh "
                           f"{mesh.mesh_shape}, but they differ: {', '.join(map(str, shapes))}. Pass the global shape: "
                           f"DTensor.from_local(local, mesh, placements, shape=global_shape).")

    def _check_expected(self) -> None:
        """Compare the noted shapes over their meshes, on every rank, before any other communication."""
        expected, self._expected = self._expected, ()
        for mesh, shape in expected:
            self._compare(mesh, shape)

    def _compare(self, mesh, shape: tuple) -> None:
        """Refuse, on every rank of the mesh alike, when some rank noted another shape."""
        sizes = np.zeros(_MOST_DIMS + 1, np.int64)
        sizes[:len(shape) + 1] = (len(shape), *shape)
        values = [self.tensor(np.concatenate([sizes, -sizes]))]
        with recorder.phase("check"):
            for axis in range(mesh.ndim):
                if mesh.mesh_shape[axis] > 1:
                    values = self.all_reduce(values, mesh, axis, "max")
        most, least = np.split(values[0].asnumpy(), 2)
        if not np.array_equal(most, -least):
            raise self.unequal(mesh, [tuple(int(s) for s in bound[1:1 + bound[0]]) for bound in (-least, most)])

    # -- collectives: `values` holds one tensor per position; sizes are equal on all ranks, inputs are never changed ---

    def all_reduce(self, values: list, mesh, axis: int, op: str) -> list:
        """Per position the reduction ("sum", "max", "min", "prod", "all") over the ranks along the axis."""
        self._note("all_reduce", mesh, axis, values[0], op)
        return self._all_reduce(values, mesh, axis, op)

    def all_gather(self, values: list, mesh, axis: int) -> list[list]:
        """Per position the values of all ranks along the axis, in axis order."""
        self._note("all_gather", mesh, axis, values[0])
        return self._all_gather(values, mesh, axis)

    def reduce_scatter(self, chunks: list[list], mesh, axis: int, op: str) -> list:
        """Per position the reduction of its own chunk; each position gives one equal-shaped chunk per rank."""
        self._note("reduce_scatter", mesh, axis, chunks[0], op)
        return self._reduce_scatter(chunks, mesh, axis, op)

    def all_to_all(self, chunks: list[list], mesh, axis: int) -> list[list]:
        """Per position the chunks that the ranks along the axis hold for it, in axis order."""
        self._note("all_to_all", mesh, axis, chunks[0])
        return self._all_to_all(chunks, mesh, axis)

    def broadcast(self, values: list, mesh, axis: int, source: int) -> list:
        """Per position the value of the rank at coordinate `source` of the axis."""
        self._note("broadcast", mesh, axis, values[0])
        return self._broadcast(values, mesh, axis, source)

    def _note(self, op, mesh, axis, value, reduce_op=None) -> None:
        if self._expected:
            self._check_expected()
        if recorder.recording():
            recorder.record(op, mesh, axis, mesh.ranks_along(axis, self.positions(mesh)[0]), value, reduce_op)

    def _all_reduce(self, values, mesh, axis, op):
        raise self._no_group()

    def _all_gather(self, values, mesh, axis):
        raise self._no_group()

    def _reduce_scatter(self, chunks, mesh, axis, op):
        raise self._no_group()

    def _all_to_all(self, chunks, mesh, axis):
        raise self._no_group()

    def _broadcast(self, values, mesh, axis, source):
        raise self._no_group()

    @staticmethod
    def _no_group() -> CommunicationError:
        return CommunicationError("A collective needs a process group, and none is initialised. Start the program "
                                  "under msrun and call hyper_parallel.init_process_group(), or run it in a "
                                  "simulation: `with simulate(8):`.")


class _Active(threading.local):
    """The thread's stack of simulations; empty means the real platform."""

    def __init__(self):
        super().__init__()
        self.stack: list[Platform] = []


_ACTIVE = _Active()
_REAL: list[Platform] = []
_BARE = Platform()
_MOST_DIMS = 16


def platform_type() -> PlatformType:
    """The back end that HYPER_PARALLEL_PLATFORM names; MindSpore when unset.

    Raises:
        ValueError: for an unknown name.
    """
    name = os.environ.get("HYPER_PARALLEL_PLATFORM", "mindspore").lower()
    if name not in {kind.value for kind in PlatformType}:
        raise ValueError(f"HYPER_PARALLEL_PLATFORM must be mindspore or torch. Got {name!r}.")
    return PlatformType(name)


def current_platform() -> Platform:
    """The platform in force: the innermost simulation of this thread, else the real one."""
    if _ACTIVE.stack:
        return _ACTIVE.stack[-1]
    if not _REAL and ("mindspore" in sys.modules or launched()):
        get_platform()
    return _REAL[0] if _REAL else _BARE


def launched() -> bool:
    """True inside a worker that a launcher (msrun) has started."""
    return "MS_ROLE" in os.environ or "MS_WORKER_NUM" in os.environ


def get_platform() -> Platform:
    """The platform in force, loading the framework if no program has done so yet.

    Raises:
        MeshError: when HYPER_PARALLEL_PLATFORM names a back end that this fork does not have.
        ImportError: when MindSpore is missing or of an unsupported version.

    Examples:
        >>> get_platform().world_size()
        1
    """
    if _ACTIVE.stack:
        return _ACTIVE.stack[-1]
    if not _REAL:
        if platform_type() is PlatformType.PYTORCH:
            raise MeshError("HYPER_PARALLEL_PLATFORM=torch, but this fork is built on MindSpore alone. "
                            "Unset it or use HYPER_PARALLEL_PLATFORM=mindspore.")
        _REAL.append(importlib.import_module("hyper_parallel.platform.mindspore").make_platform())
    return _REAL[0]

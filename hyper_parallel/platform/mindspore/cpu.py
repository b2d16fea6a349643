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
"""MindSpore on CPU: MCCL has all-reduce, all-gather and broadcast; the other collectives are composed from them."""
from __future__ import annotations

import mindspore
from mindspore import mint

from hyper_parallel.errors import CommunicationError
from hyper_parallel.platform.mindspore.cpu_kernels import substitute
from hyper_parallel.platform.mindspore.collective import AxisGroup, CollectivePlatform
from hyper_parallel.platform.mindspore.wire import cut, fresh, join

MOVED = frozenset({"Float32", "Float16", "BFloat16", "Float64", "Int8", "UInt8", "Int32", "Int64"})
MOVED_AS_BYTES = frozenset({"Bool", "Int16", "UInt16", "UInt32", "UInt64", "Complex64", "Complex128"})


class CpuPlatform(CollectivePlatform):
    """A worker on a CPU host.

    Reduce-scatter is an all-reduce of all chunks, all-to-all an all-gather of all chunks, of which this rank keeps its
    own: exact, and more bytes than a library with these collectives would move.
    """

    backend = "mccl"
    device_type = "cpu"

    def start_at(self, init_method, timeout, world_size: int, rank: int, store) -> None:
        """Refused: MCCL groups start through a launcher's scheduler only."""
        raise CommunicationError("init_method and store start HCCL groups only. On a CPU host start the program with "
                                 "msrun and call init_process_group() without them.")

    def _stop(self) -> None:
        """MCCL's group of all processes cannot be released and made again; it lives until the process ends."""

    def kernel(self, name: str, shapes: tuple = ()):
        """The local substitute for a kernel that the CPU build lacks, or None."""
        return substitute(name, shapes)

    def _check_moved(self, dtype) -> None:
        if str(dtype) not in MOVED | MOVED_AS_BYTES:
            raise CommunicationError(f"{dtype} tensors cannot be moved between CPU workers. Cast first, to one of "
                                     f"{', '.join(sorted(MOVED))}: x.astype(...).")

    def _encode(self, value):
        if str(value.dtype) in MOVED:
            return fresh(value)
        # The framework crashes when a view of a 0-d tensor is viewed as bytes, so the bytes are those of a copy.
        return fresh(join([value]).view(mindspore.uint8))

    def _decode(self, buffer, like):
        if buffer.dtype == like.dtype:
            return buffer
        return fresh(buffer.view(like.dtype).reshape(like.shape))

    def _gather(self, value, at: AxisGroup) -> list:
        sent = self._encode(value)
        received = [mint.empty(sent.shape, dtype=sent.dtype) for _ in at.ranks]
        self._run(at, "all_gather", received, sent)
        return at.to_axis_order([self._decode(part, value) for part in received])

    def _scatter(self, parts: list, at: AxisGroup, how):
        return cut(self._reduce(join(parts), at, how), at.own, parts[0].shape)

    def _exchange(self, parts: list, at: AxisGroup) -> list:
        return [cut(flat, at.own, parts[0].shape) for flat in self._gather(join(parts), at)]

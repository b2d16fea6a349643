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
"""MindSpore on Ascend: every collective is one HCCL call through the framework's communication functions."""
from __future__ import annotations

import mindspore
from mindspore import mint

from hyper_parallel.errors import CommunicationError
from hyper_parallel.platform.mindspore.collective import AxisGroup, CollectivePlatform
from hyper_parallel.platform.mindspore.wire import combine, cut, join

MOVED = frozenset({"Float32", "Float16", "BFloat16", "Float64", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16",
                   "UInt32", "UInt64"})


class AscendPlatform(CollectivePlatform):
    """A worker on an Ascend device.

    bool moves as uint8. float64, and products of int16 and bfloat16, which HCCL does not reduce, are gathered (in a
    reduce-scatter: exchanged) and combined on the device.
    """

    backend = "hccl"
    device_type = "npu"
    unreduced = frozenset({("prod", "Int16"), ("prod", "BFloat16")})

    def _check_moved(self, dtype) -> None:
        if str(dtype) not in MOVED | {"Bool"}:
            raise CommunicationError(f"{dtype} tensors cannot be moved by HCCL. Cast first, to one of "
                                     f"{', '.join(sorted(MOVED))}: x.astype(...).")

    def _private(self, value):
        # Nothing promises that cat of one tensor copies on every back end; copy_ into new memory does.
        return mint.empty(value.shape, dtype=value.dtype).copy_(value)

    def _encode(self, value):
        return value.astype(mindspore.uint8) if value.dtype == mindspore.bool_ else self._private(value)

    def _decode(self, buffer, like):
        return buffer if buffer.dtype == like.dtype else buffer.astype(like.dtype)

    @staticmethod
    def _flat(parts: list):
        """All elements of the parts in one new 1-D tensor of a type that HCCL moves."""
        flat = join(parts)
        return flat.astype(mindspore.uint8) if flat.dtype == mindspore.bool_ else flat

    def _gather(self, value, at: AxisGroup) -> list:
        sent = self._flat([value])
        received = mint.empty((at.size * sent.numel(),), dtype=sent.dtype)
        self._run(at, "all_gather_into_tensor", received, sent)
        return self._chunks(received, value, at)

    def _scatter(self, parts: list, at: AxisGroup, how):
        if how.gathered:
            return combine(self._exchange(parts, at), how.op)
        sent = join(at.to_group_order(parts))
        if how.carrier is not None:
            sent = sent.astype(how.carrier)
        received = mint.empty((parts[0].numel(),), dtype=sent.dtype)
        self._run(at, "reduce_scatter_tensor", received, sent, op=how.op)
        return self._decode(cut(received, 0, parts[0].shape), parts[0])

    def _exchange(self, parts: list, at: AxisGroup) -> list:
        sent = self._flat(at.to_group_order(parts))
        received = mint.empty((sent.numel(),), dtype=sent.dtype)
        self._run(at, "all_to_all_single", received, sent)
        return self._chunks(received, parts[0], at)

    def _chunks(self, received, like, at: AxisGroup) -> list:
        """The equal chunks of a received buffer, in axis order, with the type and shape of `like`."""
        chunks = [self._decode(cut(received, position, like.shape), like) for position in range(at.size)]
        return at.to_axis_order(chunks)

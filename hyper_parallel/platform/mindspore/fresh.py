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
"""Copies that own their storage, for every element type and every view."""
from __future__ import annotations

import functools

import mindspore as ms
from mindspore import mint


@functools.cache
def _on_cpu() -> bool:
    return ms.get_context("device_target") == "CPU"


def fresh_copy(value):
    """A contiguous copy of a tensor that shares no storage with it.

    On CPU joining the one tensor copies every view and type, while `copy_` refuses a view of part of a storage; on
    other devices nothing promises that a join copies, and `copy_` into new memory does.
    """
    if not _on_cpu():
        return mint.empty(tuple(value.shape), dtype=value.dtype).copy_(value)
    if value.ndim:
        return mint.cat([value], 0)
    return mint.cat([value.reshape(1)], 0).reshape(())

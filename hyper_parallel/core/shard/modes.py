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
"""Modes of dispatch, per thread: skipped, with remedies for refused calls, with plain tensors taken for replicas."""
from __future__ import annotations

import contextlib
import threading


class _State(threading.local):
    """Dispatch modes of a thread."""

    skip = 0
    keep: frozenset = frozenset()
    remedies: tuple = ()  # tried where a rule refuses, the last one first
    plain_ok = 0


STATE = _State()


class SkipDTensorDispatch:
    """While entered, operations run on local tensors and return plain tensors; blocks nest.

    Args:
        no_skip: operation names that stay distributed.

    Examples:
        >>> with SkipDTensorDispatch():
        ...     pass
    """

    def __init__(self, no_skip=None):
        self._keep = frozenset(getattr(f, "name", f) for f in (no_skip or ()))
        self._before: list = []

    def __enter__(self):
        self._before.append((STATE.skip, STATE.keep))
        STATE.skip, STATE.keep = STATE.skip + 1, self._keep
        return self

    def __exit__(self, *exc):
        STATE.skip, STATE.keep = self._before.pop()


@contextlib.contextmanager
def remedied(remedy):
    """Let `remedy(call)` answer calls that a rule refuses, unless it returns NotImplemented; blocks nest."""
    before = STATE.remedies
    STATE.remedies = (*before, remedy)
    try:
        yield
    finally:
        STATE.remedies = before


@contextlib.contextmanager
def implicit_replication():
    """Take plain tensors next to DTensors for values that are equal on every rank.

    Examples:
        >>> from mindspore import Tensor
        >>> from hyper_parallel import Shard, distribute_tensor, init_device_mesh, simulate
        >>> with simulate(2), implicit_replication():
        ...     x = distribute_tensor(Tensor([1.0, 2.0]), init_device_mesh("cpu", (2,)), [Shard(0)])
        ...     (x * Tensor([5.0])).full_tensor().asnumpy().tolist()
        [5.0, 10.0]
    """
    STATE.plain_ok += 1
    try:
        yield
    finally:
        STATE.plain_ok -= 1

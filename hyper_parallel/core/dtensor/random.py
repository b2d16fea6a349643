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
"""The package's random stream: the same whole tensor on every rank, whatever its layout."""
from __future__ import annotations

import threading

import numpy as np


class _Stream(threading.local):
    def __init__(self):
        super().__init__()
        self.generator = np.random.Generator(np.random.Philox(0))


_STREAM = _Stream()


def manual_seed(seed: int) -> None:
    """Restart the stream that `rand` and `randn` draw from; call it with one seed on every rank.

    Args:
        seed: a non-negative int.

    Examples:
        >>> manual_seed(1)
    """
    _STREAM.generator = np.random.Generator(np.random.Philox(seed))


def generator() -> np.random.Generator:
    """The stream of this thread."""
    return _STREAM.generator

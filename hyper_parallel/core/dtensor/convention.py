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
"""The gradient convention in force: what a gradient that one rank holds is the gradient of."""
from __future__ import annotations

import os
import threading

SINGLE_LOSS = "single_loss"
SUM_OF_RANKS = "sum_of_ranks"
CONVENTIONS = (SINGLE_LOSS, SUM_OF_RANKS)


def _checked(name) -> str:
    if name not in CONVENTIONS:
        raise ValueError(f"The gradient convention must be one of {', '.join(CONVENTIONS)}. Got {name!r}.")
    return name


class _State(threading.local):
    def __init__(self):
        super().__init__()
        self.name = _checked(os.environ.get("HYPER_PARALLEL_GRADIENTS", SINGLE_LOSS))


_STATE = _State()


def gradient_convention() -> str:
    """The convention of this thread: "single_loss" or "sum_of_ranks".

    Examples:
        >>> gradient_convention() in CONVENTIONS
        True
    """
    return _STATE.name


class set_gradient_convention:  # pylint: disable=invalid-name
    """Choose the gradient convention, for good or for the length of a `with` block.

    `single_loss`: one logical loss, counted once; a seed of 1 on every rank gives the single-device gradient.
    `sum_of_ranks`: every rank differentiates the sum of all ranks' losses (seed a replicated loss with 1/N); a
    replicated leaf then holds a per-rank part whose sum over the ranks is its gradient.

    Args:
        name: "single_loss" or "sum_of_ranks". The environment variable HYPER_PARALLEL_GRADIENTS sets the default.

    Raises:
        ValueError: for any other name.

    Examples:
        >>> with set_gradient_convention("sum_of_ranks"):
        ...     gradient_convention()
        'sum_of_ranks'
    """

    def __init__(self, name: str):
        self._before = _STATE.name
        _STATE.name = _checked(name)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        _STATE.name = self._before

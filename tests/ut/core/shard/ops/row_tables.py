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
"""Shorthands of the rule tables: data, and sets of rows that many operations share."""
from __future__ import annotations

import numpy as np

_RNG = np.random.default_rng(3)

SUMS = "sum -> sum; avg -> avg"
EXTREMA = "max -> max; min -> min"
SWAPPED = "max -> min; min -> max"
MOVED = f"{SUMS}; {EXTREMA}; prod -> prod; all -> all"
SUMS_OF_TWO = "sum sum -> sum; sum R -> sum; R sum -> sum; avg avg -> avg; avg R -> avg; R avg -> avg"
FIRST_EXTREMA = "max R -> max; min R -> min"
SECOND_EXTREMA = "R max -> max; R min -> min"
MOVED_OF_TWO = (f"{SUMS_OF_TWO}; {FIRST_EXTREMA}; {SECOND_EXTREMA}; max max -> max; min min -> min; prod prod -> prod; "
                "all all -> all; all R -> all; R all -> all")


def numbers(*shape: int, scale: int = 12):
    """Whole float64 numbers of both signs; a multiple of 12 stays whole under every mean of the tables."""
    return _RNG.integers(-3, 4, shape) * float(scale)


def whole(*shape: int, high: int):
    """Indices below `high`."""
    return _RNG.integers(0, high, shape)


def powers(*shape: int):
    """Powers of two: divisors that keep quotients exact."""
    return 2.0 ** _RNG.integers(0, 3, shape)


def masks(*shape: int):
    """Booleans."""
    return _RNG.integers(0, 2, shape) > 0


def cuts(*dims: int) -> str:
    """Rows of one operand whose dims pass unchanged."""
    return "; ".join(f"S{d} -> S{d}" for d in dims)


def rows(*texts: str) -> set:
    """The rows in these texts."""
    return {row.strip() for text in texts for row in text.split(";") if row.strip()}

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
"""Ceil-size cuts: where a chunk of a dimension begins and how long it is."""
from __future__ import annotations


def ceil_div(size: int, n: int) -> int:
    """Smallest int not below size / n."""
    return -(-size // n)


def chunk(size: int, n: int, c: int) -> tuple[int, int]:
    """Begin and length of chunk `c` when `size` is cut in `n`; the tail may be short or empty.

    Examples:
        >>> [chunk(5, 4, c) for c in range(4)]
        [(0, 2), (2, 2), (4, 1), (5, 0)]
    """
    step = ceil_div(size, n)
    begin = min(c * step, size)
    return begin, min(step, size - begin)


def nested_chunk(size: int, sizes, coordinates) -> tuple[int, int]:
    """Begin and length after successive cuts into `sizes`, outermost first, at these coordinates.

    Examples:
        >>> [nested_chunk(5, (2, 2), (i, j)) for i in range(2) for j in range(2)]
        [(0, 2), (2, 1), (3, 1), (4, 1)]
    """
    begin, length = 0, size
    for n, c in zip(sizes, coordinates):
        offset, length = chunk(length, n, c)
        begin += offset
    return begin, length

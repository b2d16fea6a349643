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
"""Marks of a test: where it runs, how often, on how many devices, and whether it blocks a release."""
from __future__ import annotations

import pytest

PLATFORMS = frozenset({"platform_ascend", "platform_ascend910b", "platform_ascend310p", "platform_gpu", "cpu_linux",
                       "cpu_windows", "cpu_macos"})
LEVELS = frozenset({"level0", "level1", "level2", "level3", "level4"})
CARDS = frozenset({"onecard", "allcards", "dryrun", "dryrun_only"})
ESSENTIAL = frozenset({"essential", "unessential"})


def arg_mark(plat_marks, level_mark: str, card_mark: str, essential_mark: str):
    """A decorator that puts the named pytest marks on a test.

    Args:
        plat_marks: list of platforms, at least one of `PLATFORMS`.
        level_mark: one of `LEVELS`.
        card_mark: one of `CARDS`.
        essential_mark: one of `ESSENTIAL`.

    Raises:
        ValueError: for an unknown mark.

    Examples:
        >>> mark = arg_mark(["cpu_linux"], "level0", "onecard", "essential")
    """
    asked = [(name, PLATFORMS) for name in plat_marks]
    asked += [(level_mark, LEVELS), (card_mark, CARDS), (essential_mark, ESSENTIAL)]
    if not plat_marks:
        raise ValueError(f"plat_marks needs at least one of {sorted(PLATFORMS)}.")
    for name, known in asked:
        if name not in known:
            raise ValueError(f"Unknown mark {name!r}: use one of {sorted(known)}.")

    def decorate(test):
        for name, _ in asked:
            test = getattr(pytest.mark, name)(test)
        return test

    return decorate

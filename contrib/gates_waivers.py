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
"""Waivers that a checkout of the public library carries itself: its pylint filter, lizard whitelist, spelling list."""
from __future__ import annotations

import re
from pathlib import Path

from contrib.gates import Waiver

FOLDER = ".jenkins"


def checkout_waivers(root: Path) -> tuple:
    """The waivers of a checkout; none when it has no such files.

    Args:
        root: the checkout. Paths in its lists begin with the repository's name, which is cut off.
    """
    found: list[Waiver] = []
    for name, reader in (("filter_pylint.txt", _filters), ("filter_cpplint.txt", _filters),
                         ("whitelizard.txt", _functions), ("codespell.allow", _words), ("sensitive.allow", _words)):
        for path in sorted((root / FOLDER).rglob(name)):
            lines = [line.split("#", 1)[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
            found += reader(name, filter(None, lines))
    return tuple(found)


def _filters(name: str, lines) -> list[Waiver]:
    """Lines of the form "repository/path prefix" "symbol"."""
    pairs = [re.fullmatch(r'"([^"]*)"\s+"([^"]*)"', line) for line in lines]
    return [Waiver(_inside(pair[1]), pair[2], name) for pair in pairs if pair]


def _functions(name: str, lines) -> list[Waiver]:
    """Lines of the form repository/path:function."""
    pairs = [line.rsplit(":", 1) for line in lines if ":" in line]
    return [Waiver(_inside(path), function.strip(), name) for path, function in pairs]


def _words(name: str, lines) -> list[Waiver]:
    """One accepted word a line, for every file."""
    return [Waiver("", word, name) for word in lines]


def _inside(path: str) -> str:
    """The path without the repository's name."""
    return path.partition("/")[2]

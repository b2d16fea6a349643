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
"""Runs of identical lines between this project and a checkout of the public library."""
from __future__ import annotations

import pathlib
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from contrib.checkout import Checkout
from contrib.gates_tools import HOME
from contrib.gates_tree import all_files

RUN = 6
# Texts that are meant to be the same everywhere.
_SAME = re.compile(r"(^|/)(LICENSE|NOTICE)[^/]*$|\.(lock|svg)$")
_CODE = re.compile(r"\w")
_HEAD = re.compile(r"(?:(?:#|//|/\*| \*)[^\n]*\n)+")


@dataclass(frozen=True)
class Overlap:
    """A run of identical lines.

    Attributes:
        ours: file of this project.
        line: where the run begins in it.
        theirs: file of the checkout.
        their_line: where it begins there.
        length: number of lines that hold more than punctuation.
        first: the first of them.
    """

    ours: str
    line: int
    theirs: str
    their_line: int
    length: int
    first: str

    def __str__(self):
        return f"{self.ours}:{self.line} = {self.theirs}:{self.their_line}, {self.length} lines: {self.first}"


def provenance(checkout: Checkout, project=HOME, run: int = RUN) -> list[Overlap]:
    """Every maximal run of identical lines.

    Lines are compared without blanks at their ends; blank ones, ones of punctuation alone, and the licence block at the
    head of a file do not count. Of the checkout, what its base commit has is compared: what this tool adds is ours.

    Args:
        checkout: the checkout.
        project: folder of this project.
        run: shortest run that is reported.
    """
    windows: dict = {}
    theirs = {path: lines_of(text) for path, text in _base_texts(checkout)}
    for path, lines in theirs.items():
        for i in range(len(lines) - run + 1):
            windows.setdefault(tuple(text for _, text in lines[i:i + run]), []).append((path, i))
    found: list[Overlap] = []
    for path in all_files(project):
        if not _SAME.search(path):
            text = (project / path).read_text(encoding="utf-8", errors="replace")
            found += _overlaps(path, lines_of(text), theirs, windows, run)
    return found


def _base_texts(checkout: Checkout) -> Iterator[tuple]:
    """Path and text of the text files of the base commit."""
    with tempfile.TemporaryDirectory() as folder:
        checkout.extract(checkout.base(), folder)
        for file in sorted(pathlib.Path(folder).rglob("*")):
            path = file.relative_to(folder).as_posix()
            if file.is_file() and not _SAME.search(path) and b"\0" not in (raw := file.read_bytes())[:8192]:
                yield path, raw.decode("utf-8", errors="replace")


def lines_of(text: str) -> list[tuple]:
    """(line number, line) of the lines that count.

    Examples:
        >>> lines_of("# Copyright\\n# Licensed\\n\\nx = 1  \\n)\\n")
        [(4, 'x = 1')]
    """
    head = _HEAD.match(text)
    skipped = head[0].count("\n") if head and "Copyright" in head[0] else 0
    return [(number, line.rstrip()) for number, line in enumerate(text.splitlines(), 1)
            if number > skipped and _CODE.search(line)]


def _overlaps(path: str, lines: list, theirs: dict, windows: dict, run: int) -> Iterator[Overlap]:
    """Runs of one file, the longest match at each place."""
    i = 0
    while i <= len(lines) - run:
        matches = windows.get(tuple(text for _, text in lines[i:i + run]), ())
        if not matches:
            i += 1
            continue
        length, other, j = max((_length(lines, i, theirs[other], j), other, j) for other, j in matches)
        yield Overlap(path, lines[i][0], other, theirs[other][j][0], length, lines[i][1].strip())
        i += length


def _length(lines: list, i: int, others: list, j: int) -> int:
    length = 0
    while i + length < len(lines) and j + length < len(others) and lines[i + length][1] == others[j + length][1]:
        length += 1
    return length

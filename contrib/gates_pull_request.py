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
"""The gate on the text of a pull request."""
from __future__ import annotations

import re
from collections.abc import Iterator

from contrib.gates import Gate
from contrib.gates_commits import forbidden, forbidden_words
from contrib.gates_tree import Finding, Tree
from contrib.pull_request import sections

_ISSUE = re.compile(r"\b(fixes|closes|resolves)\b:? *(\S+)?#\d+", re.IGNORECASE)
_KIND = re.compile(r"^\s*/kind(?: +(?P<label>\S+))?\s*$", re.MULTILINE)
_OPEN_BOX = re.compile(r"^\s*[-*]\s*\[ \]\s*(.*)$", re.MULTILINE)


def check_pull_request(_: Gate, tree: Tree) -> Iterator[Finding]:
    """Every heading has text, an issue is named, boxes are ticked, and no word is one that the workflow forbids."""
    for problem in problems(tree.text, forbidden_words(tree.root)):
        yield Finding("text", 1, "pull-request", problem)


def problems(text: str, words=()) -> list[str]:
    """What is wrong with the text of a pull request.

    Args:
        text: the whole text.
        words: forbidden words; case does not matter.

    Examples:
        >>> problems("## Why\\n\\nIt is wrong.\\n\\n## Issue\\n\\nFixes #1\\n")
        []
        >>> problems("## Why\\n\\n## Issue\\n\\nFixes #\\n")
        ["nothing stands below '## Why'", 'no issue is named: Fixes #N']
    """
    found = [f"nothing stands below {lines[0].strip()!r}" for _, lines in sections(text)[1:]
             if not any(line.strip(" -_*") for line in lines[1:])]
    found += [] if _ISSUE.search(text) else ["no issue is named: Fixes #N"]
    found += ["/kind names no label" for match in _KIND.finditer(text) if not match["label"]]
    found += [f"a box is not ticked: {box.strip()!r}" for box in _OPEN_BOX.findall(text)]
    return found + [f"the text has a word that the checkout's workflow forbids: {word!r}"
                    for word in forbidden(text, words)]

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
"""The gate on commit messages: their form, and words that a checkout's own workflow forbids."""
from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from contrib.gates import Gate
from contrib.gates_tree import Finding, Tree, git

TYPES = ("feat", "fix", "refactor", "docs", "test", "chore")
_SUBJECT = re.compile(rf"({'|'.join(TYPES)})(\([a-z0-9_.,/ -]+\))?: \S.*")
# Alternatives of a quoted search pattern: 'one|two|three'.
_PATTERN = re.compile(r"""(["'])(?P<words>[^"'\n|]+(?:\|[^"'\n|]+){2,})\1""")


def check_commits(gate: Gate, tree: Tree) -> Iterator[Finding]:
    """Subjects of the form type(scope): subject, short, without full stop; messages without forbidden words."""
    words = forbidden_words(tree.root)
    for name, message in _messages(tree):
        for problem in problems(message, gate.limit("subject"), words):
            yield Finding(f"commit {name}", 1, "commit", problem)


def _messages(tree: Tree) -> list[tuple[str, str]]:
    if tree.message is not None:
        return [("message", tree.message)]
    log = git(tree.root, "log", "--no-merges", "--format=%h%n%B%x00", f"{tree.reference}..HEAD")
    entries = [entry.strip("\n").partition("\n") for entry in log.split("\0") if entry.strip()]
    return [(name, message) for name, _, message in entries]


def problems(message: str, length: int, words=()) -> list[str]:
    """What is wrong with one commit message.

    Args:
        message: the whole message.
        length: most characters of the subject line.
        words: forbidden words; case does not matter.

    Examples:
        >>> problems("fix(shard): keep the pending sum", 80)
        []
        >>> problems("Fixed things.", 80)[1]
        "the subject ends with a full stop: 'Fixed things.'"
    """
    subject = message.split("\n", 1)[0]
    found = []
    if not _SUBJECT.fullmatch(subject):
        found.append(f"the subject is not of the form type(scope): subject, type one of {'|'.join(TYPES)}: {subject!r}")
    if subject.endswith("."):
        found.append(f"the subject ends with a full stop: {subject!r}")
    if len(subject) > length:
        found.append(f"the subject has {len(subject)} characters, at most {length} are allowed: {subject!r}")
    return found + [f"the message has a word that the checkout's workflow forbids: {word!r}"
                    for word in forbidden(message, words)]


def forbidden(text: str, words) -> list[str]:
    """The words that a text has, as whole words in any case."""
    return [word for word in words if re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)]


def forbidden_words(root: Path) -> list[str]:
    """Words that the workflow files of a checkout search for with grep; none without such a file."""
    words: list[str] = []
    for path in sorted((root / ".github" / "workflows").glob("*.y*ml")):
        text = path.read_text(encoding="utf-8")
        if "grep" in text:
            found = [word for match in _PATTERN.finditer(text) for word in match["words"].split("|")]
            words += [word.replace("\\b", "").strip(" ()") for word in found]
    return words

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
"""Gates on text: bytes, licence header, relative links, changelog."""
from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Iterator

from contrib.gates import TABS_ALLOWED, Gate
from contrib.gates_tree import Finding, Tree

_LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_VERSION = re.compile(r'__version__ = "([^"]+)"')
SECTIONS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def check_text(gate: Gate, tree: Tree) -> Iterator[Finding]:
    """UTF-8 without tabs or trailing blanks, ended by one newline."""
    for path in tree.matching(gate.globs, gate.exclude):
        raw = (tree.root / path).read_bytes()
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            yield Finding(path, raw[:error.start].count(b"\n") + 1, "utf8", "not valid UTF-8")
            continue
        yield from _lines(path, text)
        if raw and (not text.endswith("\n") or text.endswith("\n\n")):
            yield Finding(path, text.count("\n") + 1, "final-newline", "the file must end with exactly one newline")


def _lines(path: str, text: str) -> Iterator[Finding]:
    tabs = any(fnmatch.fnmatch(path, glob) for glob in TABS_ALLOWED)
    for number, line in enumerate(text.split("\n"), 1):
        if "\t" in line and not tabs:
            yield Finding(path, number, "tab", "tab character: use spaces")
        if line.endswith("\r"):
            yield Finding(path, number, "carriage-return", "line ends with a carriage return")
        elif line != line.rstrip():
            yield Finding(path, number, "trailing-blank", "blanks at the end of the line")


def check_licence(gate: Gate, tree: Tree) -> Iterator[Finding]:
    """A copyright line and the Apache-2.0 notice at the head of every source file that is not empty."""
    for path in tree.matching(gate.globs, gate.exclude):
        text = (tree.root / path).read_text(encoding="utf-8", errors="replace")
        head = "\n".join(text.splitlines()[:gate.limit("lines")])
        if text.strip() and not ("Copyright" in head and "Licensed under the Apache License, Version 2.0" in head):
            yield Finding(path, 1, "licence", f"no Apache-2.0 header in the first {gate.limit('lines')} lines")


def check_links(gate: Gate, tree: Tree) -> Iterator[Finding]:
    """Every relative link names a file of the checkout, every anchor a heading of its file."""
    for path in tree.matching(gate.globs, gate.exclude):
        text = (tree.root / path).read_text(encoding="utf-8", errors="replace")
        # Lines of code are blanked, not removed, so that line numbers stay.
        prose = _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
        for match in _LINK.finditer(prose):
            problem = _link_problem(tree, path, match[1])
            if problem:
                yield Finding(path, prose[:match.start()].count("\n") + 1, "link", problem)


def _link_problem(tree: Tree, path: str, target: str) -> str | None:
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return None
    name, _, anchor = target.partition("#")
    file = (tree.root / path).parent / name if name else tree.root / path
    if not file.exists():
        return f"{target} leads nowhere"
    if anchor and file.suffix == ".md" and anchor not in _anchors(file.read_text(encoding="utf-8")):
        return f"{target} names no heading of {file.name}"
    return None


def _anchors(text: str) -> set[str]:
    """Anchors of a Markdown text's headings, as the hosting sites derive them."""
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ +(.*?) *#*$", _FENCE.sub("", text), re.MULTILINE):
        kept = "".join(c for c in heading.lower() if c in " -_" or unicodedata.category(c)[0] in "LN")
        slug = base = kept.replace(" ", "-")
        count = 0
        while slug in anchors:
            count += 1
            slug = f"{base}-{count}"
        anchors.add(slug)
    return anchors


def check_changelog(gate: Gate, tree: Tree) -> Iterator[Finding]:
    """Versions newest first, sections of the agreed names, and an entry for the version or an Unreleased one."""
    for path in tree.matching(gate.globs, gate.exclude):
        lines = (tree.root / path).read_text(encoding="utf-8").splitlines()
        versions = []
        for number, line in enumerate(lines, 1):
            if line.startswith("## "):
                match = re.fullmatch(r"## \[(Unreleased|\d+\.\d+\.\d+\S*)\]( - \d{4}-\d{2}-\d{2})?", line)
                if not match or (match[1] == "Unreleased") == bool(match[2]):
                    yield Finding(path, number, "version", 'write "## [1.2.3] - 2026-01-31" or "## [Unreleased]"')
                else:
                    versions.append(match[1])
            elif line.startswith("### ") and line[4:] not in SECTIONS:
                yield Finding(path, number, "section", f"{line[4:]!r} is none of {', '.join(SECTIONS)}")
        yield from _versions(path, tree, versions)


def _versions(path: str, tree: Tree, versions: list[str]) -> Iterator[Finding]:
    current = _VERSION.search(_read(tree.root / "hyper_parallel" / "version.py"))
    if current and current[1] not in versions and "Unreleased" not in versions:
        yield Finding(path, 1, "version", f"no entry for version {current[1]} and none for Unreleased")
    if "Unreleased" in versions[1:]:
        yield Finding(path, 1, "order", "Unreleased comes first")


def _read(path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""

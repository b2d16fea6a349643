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
"""Findings and outcomes of gates, and the files that gates look at."""
from __future__ import annotations

import fnmatch
import pathlib
import subprocess
from dataclasses import dataclass, field

PASS, FAIL, NOT_RUN = "pass", "fail", "not run"


@dataclass(frozen=True)
class Finding:
    """One thing a gate objects to."""

    path: str
    line: int
    code: str
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.code} {self.message}"


@dataclass
class Outcome:
    """How one gate ended.

    Attributes:
        status: PASS, FAIL or NOT_RUN.
        reason: why it did not run.
        empty: True when it did not run because there was nothing for it to look at.
    """

    gate: object
    status: str
    reason: str = ""
    empty: bool = False
    files: int = 0
    findings: list = field(default_factory=list)

    @property
    def blocks(self) -> bool:
        """True unless it passed or had nothing to look at: a gate that could not run is no pass."""
        return self.status == FAIL or (self.status == NOT_RUN and not self.empty)


@dataclass(frozen=True)
class Tree:
    """What is checked: a folder, its files, and the commits since a reference.

    Attributes:
        root: the checkout.
        files: paths relative to it.
        reference: commit-ish that the change is measured against, or None.
        message: text of a commit message still to be made, or None.
        text: text of a pull request, or None.
    """

    root: pathlib.Path
    files: tuple
    reference: str | None = None
    message: str | None = None
    text: str | None = None

    def matching(self, globs, exclude=()) -> list[str]:
        """Files that match one of the globs and none of the excluded ones."""
        return [path for path in self.files if _any(path, globs) and not _any(path, exclude)]


def _any(path: str, globs) -> bool:
    return any(fnmatch.fnmatch(path, glob) for glob in globs)


def git(root, *arguments: str) -> str:
    """Output of a git command.

    Raises:
        RuntimeError: with git's message when it fails.
    """
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def all_files(root: pathlib.Path) -> list[str]:
    """Text files of a checkout: tracked, or new and not ignored."""
    return _texts(root, git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"))


def changed_files(root: pathlib.Path, reference: str) -> list[str]:
    """Text files that differ from the merge base with a reference, new ones included."""
    base = git(root, "merge-base", reference, "HEAD").strip()
    changed = git(root, "diff", "-z", "--name-only", "--diff-filter=d", base)
    return _texts(root, changed + git(root, "ls-files", "-z", "--others", "--exclude-standard"))


def _texts(root: pathlib.Path, names: str) -> list[str]:
    paths = sorted(set(filter(None, names.split("\0"))))
    return [path for path in paths if (root / path).is_file() and b"\0" not in (root / path).read_bytes()[:8192]]

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
"""Which files a gate sees: tracked and new ones, changes against a reference, no binary ones."""
import pytest

from contrib.gates import named
from contrib.gates_tools import run_gate
from contrib.gates_tree import PASS, Tree, all_files, changed_files, git


@pytest.fixture(name="checkout")
def fixture_checkout(tmp_path):
    """A repository with two commits: one file unchanged, one changed; and a new, an ignored and a binary file."""
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "config", "user.name", "A")
    git(tmp_path, "config", "user.email", "a@example.org")
    for name, text in ((".gitignore", "ignored.py\n"), ("kept.py", "x = 1\n"), ("changed.py", "x = 1\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0\0")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "feat(a): first")
    (tmp_path / "changed.py").write_text("x = 2\n", encoding="utf-8")
    git(tmp_path, "commit", "-q", "-a", "-m", "Second commit.")
    for name in ("new.py", "ignored.py"):
        (tmp_path / name).write_text("x = 1\n", encoding="utf-8")
    return tmp_path


def test_all_files_are_tracked_or_new_and_text(checkout):
    """
    Feature: files of a checkout.
    Description: list them in a repository with an ignored, a new and a binary file.
    Expectation: the ignored and the binary one are left out.
    """
    assert all_files(checkout) == [".gitignore", "changed.py", "kept.py", "new.py"]


def test_changed_files_are_those_since_the_reference(checkout):
    """
    Feature: --changed-against.
    Description: list the changes against the commit before.
    Expectation: the changed and the new file.
    """
    assert changed_files(checkout, "HEAD~1") == ["changed.py", "new.py"]


def test_commits_since_the_reference_are_read(checkout):
    """
    Feature: the gate on commit messages.
    Description: run it against the commit before, whose successor has a wrong subject, and against HEAD.
    Expectation: the wrong subject is found twice over (form, full stop); nothing against HEAD.
    """
    outcome = run_gate(named("commits"), Tree(checkout, (), "HEAD~1"))
    assert len(outcome.findings) == 2 and all("Second commit." in str(finding) for finding in outcome.findings)
    assert run_gate(named("commits"), Tree(checkout, (), "HEAD")).status == PASS


def test_git_error_is_told(tmp_path):
    """
    Feature: files of a checkout.
    Description: list the files of a folder that is no repository.
    Expectation: git's own message.
    """
    with pytest.raises(RuntimeError, match="not a git repository"):
        all_files(tmp_path)

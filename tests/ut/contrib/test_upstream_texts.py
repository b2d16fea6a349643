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
"""Texts of a checkout: identical runs of lines, and its pull-request template."""
from __future__ import annotations

import pytest

from contrib.checkout import Checkout
from contrib.provenance import lines_of, provenance
from contrib.pull_request import Content, fill, template_of
from tests.ut.contrib import synthetic
from tests.ut.contrib.checkout_fixtures import MATMUL, fresh, pristine

pytestmark = pytest.mark.proof

CONTENT = Content("bug", 12, "WHY", "WHAT", "TESTS")


def project(folder, lines: list[str]):
    """A project of one file."""
    folder.mkdir()
    synthetic.run_git(folder, "init", "--quiet")
    (folder / "mine.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("count, found", [(6, 1), (5, 0)])
def test_runs_of_six_lines_are_reported(count, found, tmp_path):
    """
    Feature: contrib provenance
    Description: six consecutive lines of the checkout's matmul file in a file of the project; then five
    Expectation: one run with both places and its length; then none
    """
    checkout = pristine("legacy")
    numbered = lines_of(checkout.read(MATMUL))[20:20 + count]
    lines = ["x = 1", *[f"{line}   \n" for _, line in numbered], "y = 2"]
    overlaps = provenance(checkout, project(tmp_path / "project", lines))
    assert len(overlaps) == found
    if found:
        assert (overlaps[0].ours, overlaps[0].line, overlaps[0].theirs) == ("mine.py", 2, MATMUL)
        assert (overlaps[0].their_line, overlaps[0].length) == (numbered[0][0], 6)


def test_runs_of_lines_in_another_order_are_none(tmp_path):
    """
    Feature: contrib provenance
    Description: the same lines, every second one moved to the end
    Expectation: no run
    """
    checkout = pristine("legacy")
    lines = [line for _, line in lines_of(checkout.read(MATMUL))[20:40]]
    assert provenance(checkout, project(tmp_path / "project", lines[::2] + lines[1::2])) == []


def test_licence_blocks_do_not_count(tmp_path):
    """
    Feature: contrib provenance
    Description: a file with the checkout's licence block alone
    Expectation: no run
    """
    checkout = pristine("legacy")
    lines = checkout.read(MATMUL).splitlines()[:16]
    assert provenance(checkout, project(tmp_path / "project", lines)) == []


def test_what_the_tool_added_is_not_theirs(tmp_path):
    """
    Feature: contrib provenance
    Description: a file added to the checkout, uncommitted and then committed on a branch; the project has it too
    Expectation: no run: the commit before the change is compared
    """
    checkout = fresh("legacy", tmp_path)
    lines = [f"line_{i} = {i}" for i in range(9)]
    (checkout.root / "hyper_parallel" / "added.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    mine = project(tmp_path / "project", lines)
    assert provenance(checkout, mine) == []
    synthetic.run_git(checkout.root, "checkout", "--quiet", "-b", "fix/it")
    synthetic.commit(checkout.root, "fix: it")
    assert provenance(Checkout(checkout.root), mine) == []
    synthetic.run_git(checkout.root, "branch", "--force", "master", "HEAD")
    assert len(provenance(Checkout(checkout.root), mine)) == 1


def test_package_and_tool_share_nothing_with_the_synthetic_checkout():
    """
    Feature: contrib provenance
    Description: this project against a synthetic checkout, whose text its tests carry
    Expectation: runs in those tests alone
    """
    found = provenance(pristine("three-phase"))
    assert found and all(overlap.ours.startswith("tests/ut/contrib/synthetic") for overlap in found)


def test_template_of_the_newer_form():
    """
    Feature: contrib export
    Description: headings for type, what and why, issue, tests, checklist, with rules between
    Expectation: each is filled in place, comments go, only justified boxes are ticked
    """
    body = fill(pristine("mixed"), CONTENT)
    assert body.template == ".gitcode/PULL_REQUEST_TEMPLATE.md"
    order = ["/kind bug", "WHY\n\nWHAT", "Fixes #12", "TESTS", "- [ ] The design"]
    assert [body.text.index(piece) for piece in order] == sorted(body.text.index(piece) for piece in order)
    assert body.text.count("---") == 4 and "<!--" not in body.text
    assert len(body.open_boxes) == 3 and body.text.count("- [x]") == 2


def test_template_of_the_older_form():
    """
    Feature: contrib export
    Description: four bold Chinese headings
    Expectation: issue, reason, description and tests, each under its own
    """
    body = fill(pristine("legacy"), CONTENT)
    parts = [part.strip() for part in body.text.split("**")]
    assert parts[2::2] == ["Fixes #12", "WHY", "WHAT", "TESTS"] and not body.open_boxes


def test_without_template_everything_is_there(tmp_path):
    """
    Feature: contrib export
    Description: a checkout without a template; then one whose template asks for the issue alone
    Expectation: plain headings for whatever the template does not ask for
    """
    checkout = fresh("legacy", tmp_path)
    template = checkout.root / template_of(checkout)
    template.write_text("# Related issue\n", encoding="utf-8")
    body = fill(checkout, CONTENT)
    assert body.text.startswith("# Related issue\n\nFixes #12") and body.text.count("Fixes #12") == 1
    assert "WHY" in body.text and "WHAT" in body.text and "TESTS" in body.text
    template.unlink()
    body = fill(checkout, CONTENT)
    assert body.template == "" and "Fixes #12" in body.text and "TESTS" in body.text

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
"""The codemod and what `apply` adds: exact edits, nothing twice, refusals, and tests that can fail."""
from __future__ import annotations

import ast
import shutil

import pytest

from contrib import render
from contrib.apply import apply, plan
from contrib.audit import FORGETS
from contrib.checkout import CLASSES, Checkout, Refused
from contrib.codemod import transform
from contrib.detect import detect
from contrib.gate_units import run_units
from tests.ut.contrib import synthetic
from tests.ut.contrib.checkout_fixtures import MATMUL, YEAR, edited, fresh, pristine

pytestmark = pytest.mark.proof

VARIANTS = {"legacy": render.INHERIT, "mixed": render.INHERIT, "three-phase": render.INHERIT,
            "propagating": render.CHECK}


def changed(shape: str, raw: bytes | None = None, year: int = YEAR) -> tuple[bytes, bytes]:
    """The matmul file of a shape before and after the codemod."""
    checkout = pristine(shape)
    raw = (checkout.root / MATMUL).read_bytes() if raw is None else raw
    return raw, transform(raw, checkout.structure, VARIANTS[shape], year)


@pytest.mark.parametrize("shape", synthetic.SHAPES)
def test_edit_adds_seven_lines_and_takes_none(shape):
    """
    Feature: contrib apply
    Description: the edited matmul file, line by line, apart from the licence's year
    Expectation: an import, five decorators on infer_layout and one on get_expand_impl; every old line is there in order
    """
    before, after = (raw.decode().splitlines() for raw in changed(shape))
    assert before[0] == "# Copyright 2025 The Example Authors"
    assert after[0] == "# Copyright 2025-2026 The Example Authors"
    decorator = render.DECORATOR[VARIANTS[shape]]
    added = list(after[1:])
    for line in before[1:]:
        added.remove(line)
    assert sorted(added) == sorted([f"from .matmul_partial import {', '.join(sorted(['counts_bias_once', decorator]))}",
                                    *[f"    @{decorator}"] * 5, "    @counts_bias_once"])
    rest = iter(after[1:])
    assert all(line in rest for line in before[1:])


@pytest.mark.parametrize("shape", synthetic.SHAPES)
def test_decorators_sit_on_the_five_classes(shape):
    """
    Feature: contrib apply
    Description: the edited file, parsed
    Expectation: the decorator on infer_layout of each of the five classes, and nowhere else
    """
    tree = ast.parse(changed(shape)[1])
    found = {node.name: [ast.unparse(d) for method in node.body if isinstance(method, ast.FunctionDef)
                         and method.name == "infer_layout" for d in method.decorator_list]
             for node in tree.body if isinstance(node, ast.ClassDef)}
    marked = {name for name, decorators in found.items() if decorators == [render.DECORATOR[VARIANTS[shape]]]}
    assert marked == set(CLASSES)
    assert found["BaseBatchMatMulDistributedOp"] == []


@pytest.mark.parametrize("shape", synthetic.SHAPES)
def test_codemod_twice_is_codemod_once(shape):
    """
    Feature: contrib apply
    Description: the codemod on its own result, a year later too
    Expectation: the same bytes
    """
    _, once = changed(shape)
    assert changed(shape, once)[1] == once
    assert changed(shape, once, YEAR + 1)[1] == once


AWKWARD = (b"\r\n", b"\n\n\n", b"\n# a comment at the end, without a newline")


@pytest.mark.parametrize("tail", AWKWARD)
def test_nothing_but_the_edit_changes_in_awkward_files(tail):
    """
    Feature: contrib apply
    Description: Windows line ends, many blank lines, a last line without end
    Expectation: the file without the added lines is the old file, byte by byte
    """
    raw = (pristine("legacy").root / MATMUL).read_bytes()
    raw = raw.replace(b"\n", b"\r\n") if tail == b"\r\n" else raw + tail
    before, after = changed("legacy", raw, year=2025)
    kept = [line for line in after.splitlines(keepends=True) if b"@keeps_partial" not in line
            and b"@counts_bias_once" not in line and b"matmul_partial" not in line]
    assert b"".join(kept) == before
    assert (b"\r\n" in after) == (tail == b"\r\n") and after != before


YEARS = (("2025", 2026, "2025-2026"), ("2026", 2026, "2026"), ("2024-2025", 2026, "2024-2026"))


@pytest.mark.parametrize("old, year, new", YEARS)
def test_licence_years(old, year, new):
    """
    Feature: contrib apply
    Description: a licence block of one year or a span
    Expectation: the span until now; years elsewhere in the file stay
    """
    text = f"# Copyright {old} A\n#\nx = 'Copyright 2020'\n"
    assert render.with_year(text, year) == text.replace(f"Copyright {old} A", f"Copyright {new} A")


@pytest.mark.parametrize("shape", ["legacy", "propagating"])
def test_added_files_are_new_this_year_narrow_and_valid(shape):
    """
    Feature: contrib apply
    Description: every file that would be added
    Expectation: the checkout's own licence block with this year alone, no line over 100 columns, valid Python
    """
    change = plan(pristine(shape), 2031)
    assert change.variant == VARIANTS[shape] and len(change.files) == 5
    for path, content in change.files.items():
        text = content.decode("utf-8")
        ast.parse(text)
        assert max(map(len, text.splitlines())) <= 100, path
        if path != MATMUL:
            assert text.startswith("# Copyright 2031 The Example Authors\n")


def test_helper_follows_the_convention():
    """
    Feature: contrib apply
    Description: the helper for each shape
    Expectation: the parameters of that convention, and inheriting only where the rules do not inherit themselves
    """
    texts = {shape: render.helper(pristine(shape), VARIANTS[shape], YEAR) for shape in synthetic.SHAPES}
    assert "def infer_with_partial(self, layouts, extra_args=None)" in texts["legacy"]
    assert "def infer_with_partial(self, values, *rest)" in texts["mixed"]
    assert "def infer_with_partial(self, cache_values)" in texts["three-phase"]
    assert "from hyper_parallel.core.layout import Layout" in texts["legacy"]
    assert ["_without_partial" in texts[shape] for shape in synthetic.SHAPES] == [True, True, True, False]


def test_rules_that_keep_sums_and_forget_means_are_made_to_inherit(tmp_path):
    """
    Feature: contrib apply
    Description: rules that keep a pending sum and forget a pending mean
    Expectation: they count as propagating, and are not relied on: the helper inherits
    """
    checkout = edited(fresh("propagating", tmp_path), MATMUL, ("if op is not None:", "if op == 'sum':"))
    assert detect(checkout).propagates
    change = plan(checkout, YEAR)
    assert change.variant == render.INHERIT and FORGETS in change.causes


def test_dirty_tree_is_refused_and_left_alone(tmp_path):
    """
    Feature: contrib apply
    Description: one uncommitted file
    Expectation: a refusal that names it, and nothing written
    """
    checkout = fresh("legacy", tmp_path)
    (checkout.root / "note.txt").write_text("mine\n", encoding="utf-8")
    with pytest.raises(Refused, match="note.txt"):
        apply(checkout)
    assert checkout.dirty == ["note.txt"]


def test_file_in_the_way_is_refused(tmp_path):
    """
    Feature: contrib apply
    Description: the checkout has a file of the unit tests' name already
    Expectation: a refusal, and nothing written
    """
    checkout = fresh("legacy", tmp_path)
    taken = f"{checkout.unit_folder}/test_matmul_partial.py"
    (checkout.root / taken).write_text("mine = 1\n", encoding="utf-8")
    synthetic.commit(checkout.root, "chore: mine")
    with pytest.raises(Refused, match=taken):
        apply(checkout)
    assert not checkout.dirty


def test_unmatched_structure_is_refused(tmp_path):
    """
    Feature: contrib apply
    Description: a class of the family has another name
    Expectation: a refusal that names the class, and nothing written
    """
    checkout = edited(fresh("mixed", tmp_path), MATMUL, ("class BatchMatMulDistributedOp(", "class Bmm("))
    with pytest.raises(Refused, match="no class BatchMatMulDistributedOp"):
        apply(checkout)
    assert not checkout.dirty


@pytest.mark.parametrize("shape", ["legacy", "propagating"])
def test_rendered_unit_tests_fail_without_the_fix(shape, tmp_path, monkeypatch):
    """
    Feature: contrib apply
    Description: the added unit tests on the fixed rules, then on the unfixed ones
    Expectation: all pass; then some fail, none of them for want of a module
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    checkout = fresh(shape, tmp_path)
    head, change = checkout.base(), apply(checkout, YEAR)
    assert run_units(checkout, list(change.files), head).ok
    shutil.copy(pristine(shape).root / MATMUL, checkout.root / MATMUL)
    unfixed = run_units(Checkout(checkout.root), list(change.files), head)
    assert not unfixed.ok and not unfixed.reason
    assert any("refused" in name for name in unfixed.failed)
    assert all("test_matmul_partial" in name for name in unfixed.failed)

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
"""The coverage report: complete for the listed operations, and the one in docs is the one that the rules give."""
from __future__ import annotations

import pathlib

import pytest

from hyper_parallel.core.shard.ops.parallel_ops_register import registered_ops
from hyper_parallel.verify import __main__ as command
from hyper_parallel.verify import coverage
from hyper_parallel.verify.coverage import _better, _cells, markdown, without_rule
from hyper_parallel.verify.listed import listed
from hyper_parallel.verify.registry import load_references
from hyper_parallel.verify.report import KINDS

DOCUMENT = pathlib.Path(__file__).parents[3] / "docs" / "op_coverage.md"


def test_the_report_in_docs_is_up_to_date():
    """
    Feature: coverage report.
    Description: generate it again from the rules.
    Expectation: the text in docs; else run python -m hyper_parallel.verify --coverage docs/op_coverage.md.
    """
    assert DOCUMENT.read_text(encoding="utf-8") == markdown()


def test_every_listed_operation_has_a_rule_and_a_reference():
    """
    Feature: coverage report.
    Description: the names that programs are known to reach.
    Expectation: none is without a declaration or without a meaning to check it against.
    """
    assert len(listed()) > 200
    assert without_rule() == []
    assert "no rule" not in DOCUMENT.read_text(encoding="utf-8")


def _row(name: str) -> dict:
    return dict(zip(KINDS, _cells(registered_ops().get(name), load_references().get(name))))


@pytest.mark.parametrize("name, exact, refused", [
    ("MatMulExt", ("R", "S", "P(sum)", "P(avg)"), ("P(max)", "P(prod)")),
    ("ReLU", ("R", "S", "P(max)", "P(min)"), ("P(sum)",)),
    ("Embedding", ("R", "S", "P(sum)", "P(max)"), ()),
    ("TraceExt", ("R", "P(sum)"), ("S", "P(max)")),
    ("NonZero", ("R",), ("S", "P(sum)")),
    ("AllGatherMatmul", (), ("R", "S", "P(sum)")),
])
def test_cells_say_what_the_rules_say(name, exact, refused):
    """
    Feature: coverage report.
    Description: operations whose rows are known by heart.
    Expectation: exact where there is a row, a reason where there is none.
    """
    row = _row(name)
    assert all(row[kind] == "exact" for kind in exact)
    assert all(isinstance(row[kind], tuple) and len(row[kind][0]) > 20 for kind in refused)


def test_an_operation_without_rule_or_meaning_shows(monkeypatch):
    """
    Feature: coverage report.
    Description: list a name that nobody declared.
    Expectation: it is reported as without a rule, and so is a declared one without a reference.
    """
    monkeypatch.setattr(coverage, "listed", lambda: ["NobodyDeclaredThis", "MatMulExt"])
    assert without_rule() == ["NobodyDeclaredThis"]
    assert set(_cells(None, None)) == {coverage.NO_RULE}
    assert set(_cells(registered_ops()["MatMulExt"], None)) == {coverage.NO_RULE}


@pytest.mark.parametrize("old, new, kept", [
    (None, "exact", "exact"), (("why",), "4 ulp", "4 ulp"), ("4 ulp", "exact", "exact"), ("exact", ("why",), "exact"),
    (("why",), None, ("why",)), ("exact", "4 ulp", "exact"), (None, None, None), (("why",), ("other",), ("why",)),
])
def test_the_best_verdict_of_the_patterns_counts(old, new, kept):
    """
    Feature: coverage report.
    Description: verdicts of two patterns.
    Expectation: exact before 4 ulp before a refusal before nothing.
    """
    assert _better(old, new) == kept


def test_the_command_writes_the_report(tmp_path):
    """
    Feature: command line.
    Description: --coverage FILE.
    Expectation: the report is written and nothing else is done.
    """
    path = tmp_path / "coverage.md"
    assert command.main(["--coverage", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == DOCUMENT.read_text(encoding="utf-8")

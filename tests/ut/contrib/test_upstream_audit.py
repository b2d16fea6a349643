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
"""The audit finds planted defects, shows true counterexamples, and passes what is sound."""
from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

from contrib import audit as audits
from contrib.__main__ import main
from contrib.apply import apply
from contrib.audit import BIAS_COUNT, BIAS_PENDING, CROSS, FORGETS, NONLINEAR, OTHER, audit
from contrib.audit_report import counterexample, tell
from contrib.checkout import Checkout, Refused
from contrib.child import meanings
from contrib.gate_units import affected
from tests.ut.contrib import synthetic
from tests.ut.contrib.checkout_fixtures import MATMUL, edited, fresh, pristine

pytestmark = pytest.mark.proof

FAMILY = ("MatMulExt", "MatMul", "BatchMatMulExt", "BatchMatMul", "Dense")
OLD = {FORGETS}
OLD_LINEAR = {FORGETS, BIAS_PENDING, BIAS_COUNT}
LEFT = {CROSS, NONLINEAR}
LEFT_LINEAR = {CROSS, NONLINEAR, BIAS_COUNT, BIAS_PENDING}


@functools.lru_cache(maxsize=None)
def report_of(shape: str):
    """The audit of a shape, made once."""
    return audit(pristine(shape))


def outcome_of(report, name: str):
    """The outcome of one operation."""
    return next(outcome for outcome in report.outcomes if outcome.operation.name == name)


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("shape", synthetic.SHAPES)
def test_planted_defects_are_found(shape, name):
    """
    Feature: contrib audit
    Description: every shape has its defects: forgotten sums, or the four that a propagating one leaves
    Expectation: exactly these causes, per operation
    """
    plain, linear = (LEFT, LEFT_LINEAR) if shape == "propagating" else (OLD, OLD_LINEAR)
    assert set(outcome_of(report_of(shape), name).unsound) == (linear if name == "Dense" else plain)


def test_four_defects_have_the_placements_of_the_facts():
    """
    Feature: contrib audit
    Description: the smallest case of each defect of the propagating shape
    Expectation: P with P; P(max); P with a replicated bias; a pending bias alone
    """
    smallest = outcome_of(report_of("propagating"), "Dense").smallest()
    shown = {cause: [" ".join(map(str, p)) for p in one.case.placements if p] for cause, one in smallest.items()}
    assert shown[CROSS] == ["P", "P"]
    assert shown[NONLINEAR] == ["P(max)", "R"]
    assert shown[BIAS_COUNT][0] == "P" and shown[BIAS_COUNT][1] == "R"
    assert shown[BIAS_PENDING] == ["R", "R", "P"]


@pytest.mark.parametrize("shape", ["legacy", "propagating"])
def test_counterexamples_are_true_and_small(shape):
    """
    Feature: contrib audit
    Description: the smallest case of every cause, recomputed here from its local values alone
    Expectation: the reduced operands give the stated truth, and the label another value or none
    """
    reduce = {"sum": np.sum, "avg": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "all": np.min}
    seen = 0
    for outcome in report_of(shape).of_family(meanings.MATMUL):
        for one in outcome.smallest().values():
            if any(p.is_shard() for placements in one.case.placements for p in placements or ()):
                continue
            operands = []
            for placements, (_, parts) in zip(one.case.placements, one.case.values):
                op = placements[0].reduce_op if placements and placements[0].is_partial() else None
                operands.append(None if parts is None else reduce[op](parts, 0) if op else parts[0])
            truth = one.case.meaning.function(*operands, *one.case.form.statics)
            assert np.array_equal(truth, one.case.expected)
            assert isinstance(one.found, str) or not np.array_equal(one.found, truth)
            assert len(one.results) == 2 and max(truth.shape) == 1, counterexample(one)
            seen += 1
    assert seen >= 5


def test_other_operations_are_audited_through_the_registry():
    """
    Feature: contrib audit
    Description: YAML registers a rule that forgets, one that multiplies sums, one that refuses, one of unknown meaning
    Expectation: the first two are unsound, the third is not, the fourth is named
    """
    report = report_of("legacy")
    assert set(outcome_of(report, "TransposeView").unsound) == {FORGETS}
    assert set(outcome_of(report, "Mul").unsound) == {CROSS, NONLINEAR}
    neg = outcome_of(report, "Neg")
    assert (neg.accepted, neg.wrong) == (3, 0)
    assert list(report.unknown) == ["Mystery"]
    assert f"not audited\n  {report.unknown['Mystery']}: Mystery\n" in tell(report, "audit")


WRONG_CUTS = ("out_layout = _template(x_layout)(*x_map[:-1], w_map[-1])",
              "out_layout = _template(x_layout)(*x_map[:-1], x_map[0])")


def test_wrong_cuts_are_found_without_any_partial(tmp_path):
    """
    Feature: contrib audit
    Description: a rule that labels columns with the cut of the rows
    Expectation: a cause of its own, on operands that are only sharded
    """
    report = audit(edited(fresh("legacy", tmp_path), MATMUL, WRONG_CUTS), ["MatMulExt"])
    outcome = outcome_of(report, "MatMulExt")
    assert OTHER in outcome.unsound and not report.matmul_clean
    assert all(not layout.partial[0] for layout in outcome.smallest()[OTHER].case.layouts)


def test_rule_that_cannot_be_judged_is_not_clean(tmp_path):
    """
    Feature: contrib audit
    Description: a rule that refuses every call
    Expectation: no label of it is false, and the report is not clean all the same
    """
    checkout = edited(fresh("legacy", tmp_path), MATMUL, (
        "pending = _contracted(self.op_name, x_map[-1], w_map[1])", "raise ValueError('not today')"))
    report = audit(checkout, ["Dense", "Neg"])
    outcome = outcome_of(report, "Dense")
    assert (outcome.accepted, outcome.wrong) == (0, 0) and not report.matmul_clean
    assert "No call of Dense could be judged" in tell(report, "audit")


def test_labels_that_could_not_be_judged_are_not_clean(tmp_path):
    """
    Feature: contrib audit
    Description: fixed rules, whose local implementation cannot be made here for a linear layer with a bias
    Expectation: no label is false, and the report is not clean but says why
    """
    checkout = fresh("legacy", tmp_path)
    apply(checkout)
    text = checkout.read(MATMUL).replace("    @counts_bias_once\n", "").replace(
        "scale = 1\n", "scale = 1\n        if bias_layout is not None:\n            raise RuntimeError('no device')\n")
    (checkout.root / MATMUL).write_text(text, encoding="utf-8")
    report = audit(Checkout(checkout.root), ["Dense"])
    outcome = outcome_of(report, "Dense")
    assert outcome.accepted and not report.matmul_clean
    assert set(outcome.unjudged) == {"RuntimeError: no device"} and "no device" in tell(report, "audit")


@pytest.mark.parametrize("options, code, rows", [
    (["--op", "Neg"], 0, ["Neg"]), (["--op", "Neg", "--op", "Mul"], 1, ["Mul", "Neg"]),
    (["--matmul"], 1, list(FAMILY)), (["--op", "Nag"], 2, [])])
def test_command_line_narrows_the_audit(capsys, options, code, rows):
    """
    Feature: python -m contrib audit
    Description: one operation, two, the matmul family, and one that does not exist
    Expectation: a row for each of these alone; exit code 1 when one is unsound, 2 when refused
    """
    assert main(["audit", "--checkout", str(pristine("legacy").root), *options]) == code
    table = capsys.readouterr().out.partition("not judged\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in table.splitlines()] == rows


def test_unknown_operation_is_refused():
    """
    Feature: contrib audit
    Description: an operation that the checkout does not register
    Expectation: a refusal with the names there are
    """
    with pytest.raises(Refused, match="Operations: MatMulExt, .*Neg"):
        audit(pristine("legacy"), ["Nag"])


def test_report_shows_rank_by_rank_numbers():
    """
    Feature: contrib audit
    Description: the text of a report
    Expectation: per operation a row, per cause the numbers of each rank and the truth
    """
    text = tell(report_of("propagating"), "audit of it")
    assert text.startswith("audit of it")
    assert "MatMulExt accepts two factors pending on one axis" in text
    assert "rank 0 has" in text and "rank 1 has" in text and "the truth is:" in text
    assert "labels are false" in text


def test_a_division_of_the_bias_is_sound_and_a_full_one_is_not(tmp_path):
    """
    Feature: contrib audit
    Description: the contraction is sharded: the bias is divided by the ranks, or added whole
    Expectation: only the second is unsound
    """
    whole = edited(fresh("propagating", tmp_path), MATMUL, ("func(x, w, bias / scale)", "func(x, w, bias)"))
    sharded = [[one for one in outcome_of(report, "Dense").unsound[BIAS_COUNT]
                if one.case.mesh == (3,) and all(p[0].is_shard() for p in one.case.placements[:2])]
               for report in (report_of("propagating"), audit(whole, ["Dense"]))]
    assert not sharded[0] and sharded[1]


FRAMEWORK = """import numpy as np


class Tensor(np.ndarray):
    def masked_fill(self, mask, value):
        return np.where(mask, value, self).view(Tensor)

    def isfinite(self):
        return np.isfinite(self)


def from_numpy(array):
    return array.view(Tensor)
"""
PROCESS_GROUP = """def get_rank(group=None):
    raise RuntimeError("no process group")
"""


def test_installed_framework_is_used_and_asked_for_no_process_group(tmp_path):
    """
    Feature: contrib audit
    Description: an interpreter that has the checkout's framework, without a process group; fixed rules
    Expectation: the framework does not stand in, each rank is played, and every label is true
    """
    package = tmp_path / "site" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(FRAMEWORK, encoding="utf-8")
    (package / "distributed.py").write_text(PROCESS_GROUP, encoding="utf-8")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={package.parent} exec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    checkout = fresh("propagating", tmp_path)
    apply(checkout)
    report = audit(Checkout(checkout.root), ["Dense"], python=str(python))
    assert "torch" not in report.stood_in and report.matmul_clean
    assert outcome_of(report, "Dense").accepted > 100


def test_the_same_files_are_audited_once(monkeypatch):
    """
    Feature: contrib audit
    Description: a second audit of unchanged files
    Expectation: the same report, without asking the checkout
    """
    report = report_of("legacy")
    monkeypatch.setattr(audits, "ask", None)
    assert audit(pristine("legacy")) is report


def test_affected_tests_are_those_that_name_a_changed_module():
    """
    Feature: contrib gate
    Description: the matmul file changed; then an unrelated file
    Expectation: its test file; then none
    """
    checkout = pristine("legacy")
    assert affected(checkout, [MATMUL]) == ["tests/mindspore/ut/parallel_ops_infer/test_parallel_matmul.py"]
    assert not affected(checkout, ["hyper_parallel/core/shard/ops/parallel_gather.py"])

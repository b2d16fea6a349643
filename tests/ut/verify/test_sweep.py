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
"""The sweep: what is tried, what is refused, what is needlessly refused, and which placements are closed."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.core.shard.declaration import Bound, Declaration, letters, parse_params
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op, registered_ops
from hyper_parallel.core.shard.rules import R, Signature
from hyper_parallel.verify import Budget, Pattern, Reference, verify_declaration
from hyper_parallel.verify.check import own_slopes
from hyper_parallel.verify.declined import DECISIONS
from hyper_parallel.verify.enumerate import MOST_TUPLES, orders_of, tuples
from hyper_parallel.verify.meshes import mesh_of
from hyper_parallel.verify.problem import Problem, Setting, empty_parts, identity_array, letters_of
from hyper_parallel.verify.render import declined_lines, findings
from hyper_parallel.verify.report import OpReport, Report, RowReport
from hyper_parallel.verify.tape import plain

ONE_AXIS = Budget(meshes=((2,),), modes=(("uneven",), ()), refusals=0)


def made(name: str, signature: Signature, **options):
    """A declaration of one operand with a fixed signature; its result has the operand's shape."""
    return Declaration(name, parse_params("input:t"), lambda call: Bound(signature, (call["input"].shape,), **options))


def doubled(table=None, **declared):
    """The declaration of 2 * x on two dimensions, with some of its properties declared."""
    names = letters(2)
    return made("Doubled", Signature("Doubled", (names,), (names,), table=table or {}, **declared))


DOUBLE = Reference(lambda v: v["input"] * 2, (Pattern("input=ab"),))


def test_a_sound_declaration_has_no_findings():
    """
    Feature: verify_declaration.
    Description: a user's operation, 2 * x, declared linear and non-decreasing.
    Expectation: R, two shards, P(sum), P(avg), P(max), P(min) are rows, forward and backward; P(prod) is refused.
    """
    report = verify_declaration(doubled(terms=((0,),), monotone=(1,)), None, DOUBLE, ONE_AXIS)
    rows = {row.operands[0]: (row.outputs[0], row.backward) for row in report.rows.values()}
    assert rows == {p: (p, 1) for p in ("R", "S(0)", "S(1)", "P(sum)", "P(avg)", "P(max)", "P(min)")}
    assert report.ok and not report.needless and report.refused == [("input=ab", ("P(prod)",))]


def test_missing_rows_are_called_needless():
    """
    Feature: needless refusals.
    Description: the same operation declared without any property.
    Expectation: no wrong row, and the four sound rows that it lacks are named.
    """
    report = verify_declaration(doubled(), None, DOUBLE, ONE_AXIS)
    assert report.ok
    assert {text for _, text in report.needless} == {f"{p} -> {p}" for p in ("P(sum)", "P(avg)", "P(max)", "P(min)")}


def test_a_refused_shard_is_called_needless():
    """
    Feature: needless refusals.
    Description: an elementwise operation whose second dimension is declared uncuttable.
    Expectation: the shard of that dimension is listed.
    """
    names = letters(2)
    signature = Signature("Doubled", ((names[0], None),), ((names[0], None),), terms=((0,),), monotone=(1,))
    report = verify_declaration(made("Doubled", signature), None, DOUBLE, ONE_AXIS)
    assert [text for _, text in report.needless] == ["S(1) -> S(1)"]


def test_a_constant_result_calls_nothing_needless():
    """
    Feature: needless refusals.
    Description: a test that no number of the draw passes, without any declared property.
    Expectation: nothing is listed, though every row would agree.
    """
    report = verify_declaration(doubled(), [Pattern("input=ab")], lambda v: np.isinf(plain(v["input"])), ONE_AXIS)
    assert report.ok and not report.needless


def test_a_needless_refusal_must_be_decided():
    """
    Feature: declined rows.
    Description: complete and partial runs with a sound row that nobody declined, and with one that is declined.
    Expectation: only the complete run with the undecided row fails, and names it; the declined one shows its reason.
    """
    undecided = OpReport("Outer", needless=[("input=m other=n", "R, S(0) -> S(1)")] * 2)
    declined = OpReport("Sqrt", needless=[("input=ab", "P(min) -> P(min)")])
    whole, part = Report([undecided, declined], complete=True), Report([undecided])
    assert whole.undecided == [("Outer", "R, S(0) -> S(1)")] and not whole.ok and part.ok
    assert [text for text in findings(whole) if text.startswith("Undecided: Outer refuses R, S(0) -> S(1)")]
    assert Report([declined], complete=True).ok and findings(Report([declined], complete=True)) == []
    assert ["outside the domain" in line and line.endswith(". Sqrt") for line in declined_lines(whole)] == [True]


def test_decisions_name_operations_that_exist():
    """
    Feature: declined rows.
    Description: every operation named by a decision, and every decision.
    Expectation: registered; a decision without a restriction to operations restricts rows.
    """
    assert not {name for d in DECISIONS for name in d.ops.split()} - set(registered_ops())
    assert all(d.ops or d.rows for d in DECISIONS)


@pytest.mark.parametrize("function,declared,operand", [
    (lambda v: v["input"] + 1, {"terms": ((0,),)}, "P(sum)"),
    (lambda v: np.square(v["input"]), {"monotone": (1,)}, "P(max)"),
    (lambda v: np.flip(v["input"], 0), {}, "S(0)"), (lambda v: -v["input"], {"movement": True}, "P(max)"),
    (lambda v: np.floor(v["input"]), {"terms": ((0,),)}, "P(avg)"), (lambda v: plain(v["input"]) * 2.0, {}, None)])
def test_false_properties_are_found_out(function, declared, operand):
    """
    Feature: verify_declaration.
    Description: x + 1 called linear, a square called monotone, a flip called elementwise, a negation called movement,
        a floor called linear; and, for comparison, a doubling with no claim.
    Expectation: the placement that the false property opens is reported as wrong; the honest one is not.
    """
    report = verify_declaration(doubled(**declared), [Pattern("input=ab")], function, ONE_AXIS)
    assert any(f"[{operand}]" in w.operands for w in report.wrong) if operand else report.ok


def test_a_wrong_gradient_is_found_though_the_value_is_right():
    """
    Feature: backward check.
    Description: a doubling whose share of the cotangent goes missing on all ranks but the first.
    Expectation: reported as a gradient, with the convention named.
    """
    calls = []

    def forgetful(v: dict):
        calls.append(1)
        return v["input"] * 2 if len(calls) < 3 else plain(v["input"]) * 2.0

    budget = dataclasses.replace(ONE_AXIS, needless=False)
    report = verify_declaration(doubled(), [Pattern("input=ab")], forgetful, budget)
    assert report.wrong and report.wrong[0].what.startswith("gradient of operand 0 (single_loss)")


@pytest.mark.parametrize("op, expected", [
    ("max", [[0, 0], [1, 0], [0, 1]]), ("min", [[1, 1], [0, 0], [0, 0]]), ("prod", [[10, 0], [4, -3], [10, 0]]),
    ("sum", None)])
def test_slopes_of_what_is_pending(op, expected):
    """
    Feature: backward check.
    Description: the pairs (2, -1), (5, 0) and (2, 3) of three ranks, of which the second ties, or is zero, somewhere.
    Expectation: an extremum has slope 1 at the lowest rank that attains it, a factor the product of the others.
    """
    values = [np.array([2.0, -1.0]), np.array([5.0, 0.0]), np.array([2.0, 3.0])]
    found = own_slopes(layout_value(mesh_of((3,)), ((),), (op,)), values)
    assert (found is None) == (expected is None)
    if found is not None:
        np.testing.assert_array_equal(found, expected)


def test_patterns_that_must_be_refused():
    """
    Feature: refused patterns.
    Description: a call that a declaration must refuse, on one that does and on one that does not.
    Expectation: a refusal is counted; taking the call is a problem.
    """
    communicating = get_distributed_op("AllGatherMatmul").declaration
    refusing = Reference(None, (Pattern("", _refused=True, input=0, more=()),))
    assert verify_declaration(communicating, None, refusing, ONE_AXIS).refusals == 1
    report = verify_declaration(doubled(), [Pattern("input=ab", _refused=True)], DOUBLE.function, ONE_AXIS)
    assert not report.ok and "must refuse" in report.problems[0]


def test_a_pattern_that_cannot_run_is_a_problem():
    """
    Feature: unchecked patterns.
    Description: a pattern without the operation's argument.
    Expectation: not silently skipped.
    """
    report = verify_declaration(doubled(), [Pattern("other=ab")], DOUBLE.function, ONE_AXIS)
    assert not report.ok and "needs the argument 'input'" in report.problems[0]


def test_in_place_rows_must_keep_the_targets_layout():
    """
    Feature: in-place operations.
    Description: x *= y, where y is pending and x is not.
    Expectation: refused in place, a row out of place.
    """
    patterns, found = [Pattern("input=ab other=ab")], {}
    for name in ("Mul", "InplaceMul"):
        report = verify_declaration(get_distributed_op(name).declaration, patterns, lambda v: v["input"] * v["other"],
                                    ONE_AXIS)
        found[name] = {row.operands for row in report.rows.values()}
    assert ("R", "P(sum)") in found["Mul"] and ("R", "P(sum)") not in found["InplaceMul"]
    assert ("P(sum)", "R") in found["InplaceMul"]


# -- enumeration -----------------------------------------------------------------------------------------------------


def _problem(name: str, text: str, shape=(2,), sizes=None, **statics) -> Problem:
    pattern = Pattern(text, **statics)
    setting = Setting(mesh_of(shape), sizes or pattern.sizes(lambda i: 3))
    return Problem(get_distributed_op(name).declaration, DOUBLE, pattern, setting)


def test_every_tuple_of_two_operands_is_tried():
    """
    Feature: enumeration.
    Description: matmul of two matrices on one axis.
    Expectation: 8 placements each (R, two shards, five reduce ops of floats), every pair.
    """
    assert len(tuples(_problem("MatMulExt", "input=mk other=kn"))) == 64


def test_many_operands_keep_every_tuple_that_a_row_can_have():
    """
    Feature: enumeration.
    Description: eight operands of one shape, too many to try every tuple.
    Expectation: within bounds, and all rows of the full product's kind are there: every letter cut everywhere, and
        every subset pending.
    """
    problem = _problem("AddN", f"tensors=[{','.join(['ab'] * 8)}]")
    found = set(tuples(problem))
    assert len(found) <= 2 * MOST_TUPLES
    assert {(("S", d),) * 8 for d in (0, 1)} <= found
    assert (("P", "sum"),) + (R,) * 7 in found and (("P", "avg"),) * 8 in found


def test_letters_replace_dims():
    """
    Feature: enumeration.
    Description: a placement tuple of matmul as its signature looks it up.
    Expectation: dims become letters.
    """
    problem = _problem("MatMulExt", "input=mk other=kn")
    assert letters_of(problem.signature, (("S", 1), ("S", 0))) == (("S", "k"), ("S", "k"))


def test_every_order_of_a_double_cut():
    """
    Feature: enumeration.
    Description: two operands, both cut twice; one cut twice; none.
    Expectation: every combination of orders, mesh order first.
    """
    s = ("S", 0)
    assert orders_of([(s, s), (s, s)], 2) == [(False, False), (False, True), (True, False), (True, True)]
    assert orders_of([(s, R), (s, R)], 2) == [(False, False), (True, False)]
    assert orders_of([(s, R), (R, s)], 2) == [(False, False)]


@pytest.mark.parametrize("identity,dtype,expected", [
    (0, "float64", 0.0), ("max", "float64", -np.inf), ("min", "int64", np.iinfo("int64").max), ("max", "bool", False),
    ("min", "bool", True), (1, "float64", 1.0)])
def test_identities(identity, dtype, expected):
    """
    Feature: empty shards.
    Description: what stands in for an empty shard, by reduction and element type.
    Expectation: the identity of the reduction.
    """
    assert identity_array(identity, (1,), np.dtype(dtype)).tolist() == [expected]


def test_empty_reduced_letters_are_padded_and_kept_ones_leave_replicas_idle():
    """
    Feature: empty shards.
    Description: a matmul on a rank whose part of the contracted dimension, or of the rows, is empty.
    Expectation: the contracted letter is padded; empty rows leave the right operand without gradient.
    """
    from hyper_parallel.verify.enumerate import layouts_of
    from hyper_parallel.verify.problem import Trial
    found = {}
    for cut in ((("S", 1), ("S", 0)), (("S", 0), R)):
        problem = _problem("MatMulExt", "input=mk other=kn", sizes={"m": 1, "k": 1, "n": 2})
        trial = Trial(problem, layouts_of(problem.mesh, [cut], [2, 2]))
        found[cut[0][1]] = empty_parts(problem.bound, trial.places[1])
    assert found == {1: (frozenset("k"), ()), 0: (frozenset(), (1,))}


# -- reports ---------------------------------------------------------------------------------------------------------


def test_closure_gaps():
    """
    Feature: closure.
    Description: an operation that emits a placement which no operand was tested with.
    Expectation: the gap is named and makes a complete run fail, but not a partial one.
    """
    op = OpReport("Odd", tested={(2, "[R]")}, emitted={(2, "[R]"), (3, "[S(2)]")})
    report = Report(ops=[op], complete=True)
    assert report.closure_gaps == [(3, "[S(2)]")] and not report.ok
    assert dataclasses.replace(report, complete=False).ok


def test_row_counts_by_kind_of_placement():
    """
    Feature: the matrix.
    Description: two rows and one refusal.
    Expectation: counted once per kind that an operand has.
    """
    op = OpReport("Odd", refused=[("p", ("S(0)", "P(max)"))])
    rows = (("S(0)", "S(1)"), ("R", "R"))
    op.rows = {operands: RowReport("p", operands, ("R",), ("none",) * 2) for operands in rows}
    counts = op.row_counts()
    assert counts["S"] == [1, 1] and counts["R"] == [1, 0] and counts["P(max)"] == [0, 1]


def test_other_rules_are_audited_through_the_same_sweep():
    """
    Feature: audit.
    Description: a problem class that asks another rule, one which gives every operand's layout to the result, with the
        declaration of a transpose.
    Expectation: its wrong shards are found, though the declaration itself is sound.
    """
    from hyper_parallel.core.shard.rules import Inference
    from hyper_parallel.verify.registry import load_references
    from hyper_parallel.verify.sweep import Sweep

    class Naive(Problem):
        """Asks a rule that does not know what a transpose is."""

        def infer(self, layouts):
            """The operand's own layout."""
            return Inference((layouts[0],), ((),), ((),), (), {})

        def refuses(self, operands):
            """Nothing is refused."""
            return False

    declaration, reference = get_distributed_op("TExt").declaration, load_references()["TExt"]
    wrong = Sweep(declaration, reference, ONE_AXIS, Naive).run().wrong
    assert {w.operands[0] for w in wrong} == {"[S(0)]", "[S(1)]"}
    assert Sweep(declaration, reference, ONE_AXIS).run().ok

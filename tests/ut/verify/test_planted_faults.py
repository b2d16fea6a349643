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
"""The verifier can fail: sixteen wrong rules, planted here and nowhere else, are each caught with a counterexample."""
from __future__ import annotations

import dataclasses
import re

import pytest

from hyper_parallel.core.shard.declaration import Bound
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
from hyper_parallel.core.shard.ops.parallel_reduce import reduced_shape
from hyper_parallel.core.shard.rules import R, Convert, Row, Signature
from hyper_parallel.verify import Budget, Pattern, verify_declaration
from hyper_parallel.verify.registry import load_references

pytestmark = pytest.mark.proof

P_SUM, P_AVG, P_MAX = ("P", "sum"), ("P", "avg"), ("P", "max")
KEEP, VARY, ONCE = Convert.NONE, Convert.VARYING, Convert.ENTER_ONCE
QUICK = Budget(meshes=((2,), (3,), (2, 2)), modes=(("even", "uneven"), ("even",)), pairs=40, refusals=0, needless=False)


def planted_row(name: str, *rows: Row):
    """The declaration of an operation with these rows in place of its own."""
    declaration = get_distributed_op(name).declaration

    def bind(call):
        bound = declaration.bind(call)
        table = {row.operands: row for row in rows}
        return dataclasses.replace(bound, signature=dataclasses.replace(bound.signature, table=table))

    return dataclasses.replace(declaration, bind=bind)


def planted_bound(name: str, change):
    """The declaration of an operation whose bound call is changed."""
    declaration = get_distributed_op(name).declaration
    return dataclasses.replace(declaration, bind=lambda call: change(declaration.bind(call), call))


def mean_as_avg(bound: Bound, call) -> Bound:
    """Every rank averages its own shard, and the result is called the average of the ranks."""
    names = bound.signature.inputs[0]
    signature = Signature("MeanExt", (names,), (names[1:],), reduces={names[0]: "avg"}, terms=())
    return Bound(signature, (reduced_shape(call["input"].shape, (0,), False),))


def unsqueeze_at_the_end(bound: Bound, _call) -> Bound:
    """The new dimension is taken for the last one, wherever it is."""
    names = bound.signature.inputs[0]
    signature = dataclasses.replace(bound.signature, outputs=(names + (None,),), table={})
    return dataclasses.replace(bound, signature=signature)


def orders_unchecked(bound: Bound, _call) -> Bound:
    """Two names for the contracted dimension, so that nothing compares the orders in which it is cut."""
    signature = Signature("MatMulExt", (("m", "k"), ("l", "n")), (("m", "n"),), reduces={"k": "sum", "l": "sum"},
                          terms=((0, 1),))
    pair = (("S", "k"), ("S", "l"))
    signature.table.update({(pair[0], R): None, (R, pair[1]): None, pair: Row(pair, (KEEP, KEEP), (P_SUM,))})
    return dataclasses.replace(bound, signature=signature)


LINEAR = Pattern("input=mk weight=nk bias=n")
CONTRACTED = (("S", "k"), ("S", "k"), R)

# name: declaration, pattern, operands of the wrong row as the message shows them, what is wrong
FAULTS = {
    "drop Partial in matmul": lambda: (
        planted_row("MatMulExt", Row((P_SUM, R), (KEEP, VARY), (R,))), Pattern("input=mk other=kn"),
        ("input [P(sum)]", "other [R]"), "forward"),
    "P x P kept": lambda: (
        planted_row("MatMulExt", Row((P_SUM, P_SUM), (KEEP, KEEP), (P_SUM,))), Pattern("input=mk other=kn"),
        ("input [P(sum)]", "other [P(sum)]"), "forward"),
    "bias added N times": lambda: (
        planted_row("Dense", Row(CONTRACTED, (KEEP, KEEP, VARY), (P_SUM,))), LINEAR,
        ("input [S(1)]", "weight [S(1)]", "bias [R]"), "forward"),
    "bias gradient 1/N": lambda: (
        planted_row("Dense", Row((P_AVG, R, R), (KEEP, VARY, KEEP), (P_AVG,))), LINEAR,
        ("input [P(avg)]", "weight [R]", "bias [R]"), "gradient of operand 2 (single_loss)"),
    "bias at coordinate 0 under P(avg)": lambda: (
        planted_row("Dense", Row((P_AVG, R, R), (KEEP, VARY, ONCE), (P_AVG,))), LINEAR,
        ("input [P(avg)]", "weight [R]", "bias [R]"), "forward"),
    "max through a matmul": lambda: (
        planted_row("MatMulExt", Row((P_MAX, R), (KEEP, VARY), (P_MAX,))), Pattern("input=mk other=kn"),
        ("input [P(max)]", "other [R]"), "forward"),
    "neg keeps max": lambda: (
        planted_row("Neg", Row((P_MAX,), (KEEP,), (P_MAX,))), Pattern("input=ab"), ("input [P(max)]",), "forward"),
    "abs keeps P": lambda: (
        planted_row("Abs", Row((P_SUM,), (KEEP,), (P_SUM,))), Pattern("input=ab"), ("input [P(sum)]",), "forward"),
    "sqrt keeps P(max)": lambda: (
        planted_row("Sqrt", Row((P_MAX,), (KEEP,), (P_MAX,))), Pattern("input=ab/positive"), ("input [P(max)]",),
        "forward"),
    "mean of uneven shards as avg": lambda: (
        planted_bound("MeanExt", mean_as_avg), Pattern("input=ab", dim=0), ("input [S(0)]",), "forward"),
    "transpose drops Partial": lambda: (
        planted_row("Transpose", Row((P_SUM,), (KEEP,), (R,))), Pattern("input=ab", dims=(1, 0)), ("input [P(sum)]",),
        "forward"),
    "squeeze drops Partial": lambda: (
        planted_row("Squeeze", Row((P_SUM,), (KEEP,), (R,))), Pattern("input=a1", dim=1), ("input [P(sum)]",),
        "forward"),
    "wrong dim after unsqueeze": lambda: (
        planted_bound("ExpandDims", unsqueeze_at_the_end), Pattern("input=ab", dim=0), ("input [S(0)]",), "forward"),
    "P + scalar on every rank": lambda: (
        planted_row("AddScalar", Row((P_SUM,), (KEEP,), (P_SUM,), constant_once=False)), Pattern("input=ab", other=2),
        ("input [P(sum)]",), "forward"),
    "contraction with different axis orders": lambda: (
        planted_bound("MatMulExt", orders_unchecked), Pattern("input=mk other=kn"),
        ("input [S(1), S(1)]", "other [SS(0, 2), S(0)]"), "forward"),
    "R -> varying missing in backward": lambda: (
        planted_row("MatMulExt", Row((("S", "m"), R), (KEEP, KEEP), (("S", "m"),))), Pattern("input=mk other=kn"),
        ("input [S(0)]", "other [R]"), "gradient of operand 1 (single_loss)"),
}


def reference_of(declaration):
    """The reference of the operation, without its own patterns."""
    return load_references()[declaration.name]


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_caught(fault):
    """
    Feature: the verifier's teeth.
    Description: one wrong rule is planted in a declaration local to this test, and that declaration is verified.
    Expectation: it is reported, with operation, placements, mesh, and a counterexample small enough to read.
    """
    declaration, pattern, placements, what = FAULTS[fault]()
    report = verify_declaration(declaration, [pattern], reference_of(declaration), QUICK)
    hits = [w for w in report.wrong if w.what == what and all(p in w.message for p in placements)]
    assert hits, [w.message for w in report.wrong]
    message = hits[0].message
    assert declaration.name in message and f"on mesh {hits[0].mesh}" in message
    assert "rank 0" in message and "rank 1" in message
    assert "right" in message or "fails" in message
    sizes = [int(n) for n in re.findall(r"\b[a-z]=(\d+)", message.splitlines()[1])]
    assert all(size <= 4 for size in sizes), message


@pytest.mark.parametrize("fault", FAULTS)
def test_the_rule_without_the_fault_is_sound(fault):
    """
    Feature: the verifier's teeth.
    Description: the same operation and pattern as each planted fault, with the rule as it is registered.
    Expectation: no wrong row, nothing left unchecked, and rows were found.
    """
    declaration, pattern, _, _ = FAULTS[fault]()
    honest = get_distributed_op(declaration.name).declaration
    report = verify_declaration(honest, [pattern], reference_of(honest), QUICK)
    assert report.ok and report.rows, [w.message for w in report.wrong] + report.problems


def test_there_are_sixteen_faults():
    """
    Feature: the verifier's teeth.
    Description: the table of planted faults.
    Expectation: it holds all sixteen.
    """
    assert len(FAULTS) == 16


def test_even_shards_hide_the_mean_fault_and_uneven_ones_show_it():
    """
    Feature: size classes.
    Description: a mean of shards called an average, on even and on uneven sizes.
    Expectation: even sizes cannot tell; uneven ones can, which is why both are generated.
    """
    declaration, pattern, _, _ = FAULTS["mean of uneven shards as avg"]()
    found = {}
    for mode in ("even", "uneven"):
        budget = dataclasses.replace(QUICK, meshes=((2,),), modes=((mode,), ()))
        found[mode] = bool(verify_declaration(declaration, [pattern], reference_of(declaration), budget).wrong)
    assert found == {"even": False, "uneven": True}

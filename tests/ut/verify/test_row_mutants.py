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
"""Every small change to a sound row makes it unsound, and the verifier says so: no mutant survives."""
from __future__ import annotations

import dataclasses

import pytest

from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
from hyper_parallel.core.shard.rules import R, Convert, Row
from hyper_parallel.verify import Budget, Pattern, verify_declaration
from hyper_parallel.verify.enumerate import tuples
from hyper_parallel.verify.meshes import mesh_of
from hyper_parallel.verify.problem import Problem, Setting, letters_of
from hyper_parallel.verify.registry import load_references

pytestmark = pytest.mark.proof

BUDGET = Budget(meshes=((2,), (3,)), modes=(("uneven",), ()), refusals=0, needless=False)
OTHERS = {Convert.VARYING: (Convert.NONE, Convert.ENTER_ONCE), Convert.ENTER_ONCE: (Convert.NONE, Convert.VARYING),
          Convert.NONE: ()}
PATTERNS = {
    "MatMulExt": Pattern("input=mk other=kn"), "Dense": Pattern("input=mk weight=nk bias=n"),
    "AddExt": Pattern("input=ab other=b"), "Mul": Pattern("input=ab other=ab"),
    "AddScalar": Pattern("input=ab", other=2),
    "Maximum": Pattern("input=ab/real other=ab/shifted"), "Select": Pattern("condition=ab/bool input=ab other=ab"),
    "SumExt": Pattern("input=ab", dim=0), "ReduceMax": Pattern("input=ab/distinct", dim=0), "Neg": Pattern("input=ab"),
    "Concat": Pattern("tensors=[ab,cb]", dim=0), "Transpose": Pattern("input=ab", dims=(1, 0)),
    "Embedding": Pattern("input=a/index(n) weight=nc", _sizes={"n": 4}), "ReLU": Pattern("input=ab"),
}


def rows_of(name: str) -> list[Row]:
    """The rows of an operation's pattern on one axis that are not replicas alone."""
    pattern = PATTERNS[name]
    sizes = pattern.sizes(lambda i: 3 + i)
    problem = Problem(get_distributed_op(name).declaration, load_references()[name], pattern,
                      Setting(mesh_of((2,)), sizes))
    found = (problem.signature.row(letters_of(problem.signature, operands)) for operands in tuples(problem))
    return [row for row in found if row is not None and any(p != R for p in row.operands)]


def mutants(row: Row):
    """Rows that differ in one place: a pending label of the result, or one conversion.

    The cuts of a result follow from the letters of its signature, not from its row.
    """
    if row.outputs[0][0] == "P":
        for label in (R, *(("P", op) for op in ("sum", "avg", "max", "min"))):
            if label != row.outputs[0]:
                yield dataclasses.replace(row, outputs=(label,))
    if row.constant_once:
        yield dataclasses.replace(row, constant_once=False)
    for i, convert in enumerate(row.converts):
        for other in OTHERS[convert]:
            yield dataclasses.replace(row, converts=row.converts[:i] + (other,) + row.converts[i + 1:])


def planted(name: str, row: Row):
    """The declaration of an operation with one row in place of its own."""
    declaration = get_distributed_op(name).declaration

    def bind(call):
        bound = declaration.bind(call)
        return dataclasses.replace(bound, signature=dataclasses.replace(bound.signature, table={row.operands: row}))

    return dataclasses.replace(declaration, bind=bind)


@pytest.mark.parametrize("name", PATTERNS)
def test_no_mutant_of_a_row_survives(name):
    """
    Feature: the verifier's teeth.
    Description: for every row of an operation, every other label of the result and every other conversion of a replica.
    Expectation: each mutant is reported as wrong under the placements of its row; the row itself is not.
    """
    reference, survivors, count = load_references()[name], [], 0
    for row in rows_of(name):
        for mutant in mutants(row):
            count += 1
            report = verify_declaration(planted(name, mutant), [PATTERNS[name]], reference, BUDGET)
            if not report.wrong:
                survivors.append((mutant.operands, mutant.converts, mutant.outputs))
    assert count >= 8 and not survivors

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
"""Rows of elementwise and in-place operations, exact and complete."""
import pytest

from tests.ut.core.shard.ops.row_harness import Case, check_pairs, sound_rows
from tests.ut.core.shard.ops.row_tables import (
    EXTREMA, FIRST_EXTREMA, MOVED, MOVED_OF_TWO, SECOND_EXTREMA, SUMS, SUMS_OF_TWO, SWAPPED, cuts, masks, numbers,
    powers, rows,
)

X, Y, V, C, M = numbers(5, 4), numbers(5, 4), numbers(4), numbers(5, 1), masks(5, 4)
SMALL = numbers(5, 4, scale=1)
TWO = "S0 S0 -> S0; S1 S1 -> S1"
ROW = "S0 R -> S0; S1 S0 -> S1"
FALLING_SECOND = "R max -> min; R min -> max"
SWAPPED_FIRST = "max R -> min; min R -> max"

TABLE = [
    # sums of two
    (Case("AddExt", input=X, other=Y), rows(TWO, SUMS_OF_TWO, FIRST_EXTREMA, SECOND_EXTREMA)),
    (Case("Add", input=X, other=V), rows(ROW, SUMS_OF_TWO, FIRST_EXTREMA, SECOND_EXTREMA)),
    (Case("AddExt", input=X, other=Y, alpha=-2), rows(TWO, SUMS_OF_TWO, FIRST_EXTREMA, FALLING_SECOND)),
    (Case("SubExt", input=X, other=Y), rows(TWO, SUMS_OF_TWO, FIRST_EXTREMA, FALLING_SECOND)),
    (Case("SubExt", input=X, other=Y, alpha=-1), rows(TWO, SUMS_OF_TWO, FIRST_EXTREMA, SECOND_EXTREMA)),
    (Case("Sub", input=C, other=V), rows("S0 R -> S0; R S0 -> S1", SUMS_OF_TWO, FIRST_EXTREMA, FALLING_SECOND)),
    (Case("AddN", tensors=[X, Y]), rows(TWO, SUMS_OF_TWO, FIRST_EXTREMA, SECOND_EXTREMA)),
    (Case("BiasAdd", input=X, bias=V), rows(ROW, SUMS_OF_TWO, FIRST_EXTREMA, SECOND_EXTREMA)),
    (Case("Lerp", input=X, end=Y, weight=0.5), rows(TWO, SUMS_OF_TWO, FIRST_EXTREMA, SECOND_EXTREMA)),
    (Case("Lerp", input=X, end=Y, weight=2.0), rows(TWO, SUMS_OF_TWO, SWAPPED_FIRST, SECOND_EXTREMA)),
    (Case("Lerp", input=X, end=Y, weight=-1.0), rows(TWO, SUMS_OF_TWO, FIRST_EXTREMA, FALLING_SECOND)),
    # with scalars: one enters once
    (Case("AddScalar", input=X, other=3), rows(cuts(0, 1), SUMS, EXTREMA)),
    (Case("AddExt", input=X, other=3.5, alpha=2), rows(cuts(0, 1), SUMS, EXTREMA)),
    (Case("SubScalar", input=X, other=3), rows(cuts(0, 1), SUMS, EXTREMA)),
    (Case("Sub", input=1, other=X), rows(cuts(0, 1), SUMS, SWAPPED)),
    # products
    (Case("Mul", input=X, other=Y), rows(TWO, "sum R -> sum; R sum -> sum; avg R -> avg; R avg -> avg")),
    (Case("Mul", input=C, other=V),
     rows("S0 R -> S0; R S0 -> S1; sum R -> sum; R sum -> sum; avg R -> avg; R avg -> avg")),
    (Case("Muls", input=X, other=2), rows(cuts(0, 1), SUMS, EXTREMA)),
    (Case("Muls", input=X, other=-2), rows(cuts(0, 1), SUMS, SWAPPED)),
    (Case("Muls", input=X, other=0), rows(cuts(0, 1), SUMS)),
    (Case("Neg", input=X), rows(cuts(0, 1), SUMS, SWAPPED)),
    (Case("Div", input=X, other=powers(5, 4)), rows(TWO, "sum R -> sum; avg R -> avg")),
    (Case("Divs", input=X, other=-4), rows(cuts(0, 1), SUMS, SWAPPED)),
    (Case("RealDiv", input=2.0, other=powers(5, 4)), rows(cuts(0, 1))),
    (Case("DivMod", input=X, other=4), rows(cuts(0, 1), SUMS, EXTREMA)),
    (Case("DivMod", input=X, other=4, rounding_mode="trunc"), rows(cuts(0, 1), EXTREMA)),
    (Case("FloorDiv", input=X, other=-5), rows(cuts(0, 1), SWAPPED)),
    (Case("FloorDiv", input=X, other=powers(5, 4)), rows(TWO)),
    (Case("RemainderTensorScalar", input=X, other=5), rows(cuts(0, 1))),
    (Case("AddcmulExt", input=X, tensor1=Y, tensor2=V, value=2),
     rows("S0 S0 R -> S0; S1 S1 S0 -> S1; sum sum R -> sum; R sum R -> sum; sum R sum -> sum; R R sum -> sum; "
          "avg avg R -> avg; R avg R -> avg; avg R avg -> avg; R R avg -> avg; max R R -> max; min R R -> min")),
    # non-decreasing and other maps
    *((Case(name, input=SMALL), rows(cuts(0, 1), EXTREMA))
      for name in ("Exp", "Tanh", "Sigmoid", "Sign", "Floor", "Ceil", "Round")),
    *((Case(name, input=SMALL), rows(cuts(0, 1))) for name in ("Abs", "Square", "Sin", "Cos", "IsFinite")),
    *((Case(name, input=powers(5, 4)), rows(cuts(0, 1))) for name in ("Sqrt", "Log")),
    (Case("PowTensorScalar", input=X, exponent=2), rows(cuts(0, 1))),
    (Case("Pow", input=2, exponent=SMALL), rows(cuts(0, 1))),
    (Case("Maximum", input=X, other=Y), rows(TWO, "max R -> max; R max -> max; max max -> max")),
    (Case("Minimum", input=X, other=V), rows(ROW, "min R -> min; R min -> min; min min -> min")),
    (Case("LogAddExp", input=SMALL, other=V / 12), rows(ROW, FIRST_EXTREMA, SECOND_EXTREMA)),
    (Case("ClampScalar", input=X, min=-12), rows(cuts(0, 1))),
    (Case("ClampTensor", input=X, min=V), rows(ROW)),
    # tests
    (Case("Greater", input=X, other=0), rows(cuts(0, 1))),
    (Case("Equal", input=X, other=V), rows(ROW)),
    (Case("LogicalAnd", input=M, other=M), rows(TWO)),
    (Case("LogicalNot", input=M), rows(cuts(0, 1))),
    # selection
    (Case("Select", condition=M, input=X, other=Y),
     rows("S0 S0 S0 -> S0; S1 S1 S1 -> S1", "; ".join(f"R {row}" for row in rows(MOVED_OF_TWO)))),
    (Case("Select", condition=M, input=X, other=0.0),
     rows(TWO, "R sum -> sum; R avg -> avg; R max -> max; R min -> min")),
    (Case("Select", condition=M, input=7.0, other=X),
     rows(TWO, "R sum -> sum; R avg -> avg; R max -> max; R min -> min")),
    (Case("Select", condition=M, input=7.0, other=1.0), rows(cuts(0, 1))),
    (Case("MaskedFillScalar", input=X, mask=M[0], value=-1e9),
     rows("S0 R -> S0; S1 S0 -> S1; sum R -> sum; avg R -> avg; max R -> max; min R -> min")),
    (Case("MaskedFillScalar", input=X, mask=M, value=0),
     rows(TWO, "sum R -> sum; avg R -> avg; max R -> max; min R -> min")),
]

INPLACE = [
    (Case("InplaceAddExt", input=X, other=V, alpha=2), rows(ROW, SUMS_OF_TWO, FIRST_EXTREMA, SECOND_EXTREMA)),
    (Case("InplaceAddsExt", input=X, other=1), rows(cuts(0, 1), SUMS, EXTREMA)),
    (Case("InplaceSubExt", input=X, other=Y), rows(TWO, SUMS_OF_TWO, FIRST_EXTREMA, FALLING_SECOND)),
    (Case("InplaceMuls", input=X, other=-1), rows(cuts(0, 1), SUMS, SWAPPED)),
    (Case("InplaceDiv", input=X, other=powers(5, 4)), rows(TWO, "sum R -> sum; avg R -> avg")),
    (Case("InplaceCopy", input=X, other=V), rows(ROW, MOVED_OF_TWO)),
    (Case("Assign", input=X, other=Y), rows(TWO, MOVED_OF_TWO)),
    (Case("AssignAdd", input=X, other=Y), rows(TWO, SUMS_OF_TWO, FIRST_EXTREMA, SECOND_EXTREMA)),
    (Case("InplaceZero", input=X), rows(cuts(0, 1), MOVED)),
    (Case("InplaceFillScalar", input=X, value=0), rows(cuts(0, 1), MOVED)),
    (Case("InplaceFillScalar", input=X, value=3.0), rows(cuts(0, 1), SUMS, EXTREMA)),
    (Case("InplaceExp", input=SMALL), rows(cuts(0, 1), EXTREMA)),
    (Case("InplaceClampScalar", input=X, min=0, max=12), rows(cuts(0, 1))),
    (Case("InplaceMaskedFillScalar", input=X, mask=M, value=5.0),
     rows(TWO, "sum R -> sum; avg R -> avg; max R -> max; min R -> min")),
]


@pytest.mark.parametrize("case, expected", TABLE + INPLACE, ids=lambda v: getattr(v, "name", ""))
def test_elementwise_rows_are_exact_and_complete(case, expected):
    """
    Feature: rules of elementwise and in-place operations.
    Description: every placement of every operand on meshes (2,) and (3,), and pairs of rows on (2, 2); uneven sizes.
    Expectation: exactly the listed rows are accepted, and each denotes numpy's result on the global values.
    """
    found = sound_rows(case)
    assert found == expected
    assert check_pairs(case, found) > 0

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
"""Rows of transposes, reshapes, expansions, joins, splits, casts, copies and creation, exact and complete."""
import numpy as np
import pytest

from tests.ut.core.shard.ops.row_harness import Case, check_pairs, sound_rows
from tests.ut.core.shard.ops.row_tables import EXTREMA, MOVED, MOVED_OF_TWO, SUMS, cuts, numbers, rows

X, T = numbers(5, 4), numbers(3, 2, 4)
E = numbers(4, 6)
ONE = numbers(5, 1, 4)
LENT = "; ".join(f"{row.partition(' ->')[0]} {p} -> {row.rpartition(' ')[2]}" for row in rows(MOVED)
                 for p in ("R", "sum", "avg", "max", "min", "prod", "all"))
UNREAD = "S0 -> S0; S1 -> S1; sum -> R; avg -> R; max -> R; min -> R; prod -> R; all -> R"

TABLE = [
    # transposes
    (Case("Transpose", input=T, dims=(0, 2, 1)), rows("S0 -> S0; S1 -> S2; S2 -> S1", MOVED)),
    (Case("TransposeView", input=T, dims=(-1, 0, 1)), rows("S0 -> S1; S1 -> S2; S2 -> S0", MOVED)),
    (Case("DeprecatedTranspose", input=X), rows("S0 -> S1; S1 -> S0", MOVED)),
    (Case("TransposeExtView", input=T, dim0=0, dim1=-1), rows("S0 -> S2; S1 -> S1; S2 -> S0", MOVED)),
    (Case("TExt", input=X), rows("S0 -> S1; S1 -> S0", MOVED)),
    # reshapes: S0 of (4, 6) passes on 2 ranks only
    (Case("Reshape", input=E, shape=(24,)), rows("S0 -> S0", MOVED)),
    (Case("Reshape", input=E, shape=(-1, 4, 3)), rows("S0 -> S0", MOVED)),
    (Case("Reshape", input=T, shape=(3, 8)), rows("S0 -> S0; S1 -> S1", MOVED)),
    (Case("Reshape", input=X, shape=(5, 1, 4)), rows("S0 -> S0; S1 -> S2", MOVED)),
    (Case("View", input=ONE, shape=(1, 5, 4, 1)), rows("S0 -> S1; S2 -> S2", MOVED)),
    (Case("View", input=numbers(1, 6, 4), shape=(24,)), rows("S1 -> S0", MOVED)),
    (Case("Reshape", input=E, shape=(3, 8)), rows(MOVED)),
    (Case("Reshape", input=numbers(6, 4), shape=(3, 8)), rows("S0 -> S0", MOVED)),
    (Case("FlattenExt", input=T), rows("S0 -> S0", MOVED)),
    (Case("FlattenExt", input=T, start_dim=1), rows("S0 -> S0; S1 -> S1", MOVED)),
    (Case("ExpandDims", input=X, dim=1), rows("S0 -> S0; S1 -> S2", MOVED)),
    (Case("Squeeze", input=ONE), rows("S0 -> S0; S2 -> S1", MOVED)),
    (Case("Squeeze", input=ONE, dim=0), rows(cuts(0, 1, 2), MOVED)),
    (Case("ViewAs", input=numbers(6, 2), other=numbers(12)), rows("S0 R -> S0", LENT,
     "; ".join(f"S0 {p} -> S0" for p in ("S0", "sum", "avg", "max", "min", "prod", "all")), "R sum -> R; R avg -> R; "
     "R max -> R; R min -> R; R prod -> R; R all -> R; R S0 -> R",
     "; ".join(f"{p} S0 -> {p}" for p in ("sum", "avg", "max", "min", "prod", "all")))),
    # expansions
    (Case("BroadcastTo", input=numbers(5, 1), shape=(2, -1, 4)), rows("S0 -> S1", MOVED)),
    (Case("BroadcastToView", input=X, shape=(2, 5, 4)), rows("S0 -> S1; S1 -> S2", MOVED)),
    (Case("Tile", input=X, dims=(2, 1)), rows("S1 -> S1", MOVED)),
    (Case("Repeat", input=X, dims=(2, 1, 3)), rows("S0 -> S1", MOVED)),
    (Case("RepeatInterleaveInt", input=E, repeats=3, dim=0), rows("S0 -> S0; S1 -> S1", MOVED)),
    # joins and splits
    (Case("Concat", tensors=[X, numbers(2, 4)], dim=0), rows("S1 S1 -> S1", MOVED_OF_TWO)),
    (Case("Concat", tensors=[X, numbers(5, 1)], dim=-1), rows("S0 S0 -> S0", MOVED_OF_TWO)),
    (Case("StackExt", tensors=[X, X], dim=1), rows("S0 S0 -> S0; S1 S1 -> S2", MOVED_OF_TWO)),
    (Case("SplitTensor", input=X, split_size=2, dim=0), {r + " " + " ".join([r.rpartition(" ")[2]] * 2)
                                                         for r in rows("S1 -> S1", MOVED)}),
    (Case("SplitWithSize", input=X, split_size=[1, 3], dim=1), {r + " " + r.rpartition(" ")[2]
                                                                for r in rows("S0 -> S0", MOVED)}),
    (Case("Split", input=X, dim=1, output_num=2), {r + " " + r.rpartition(" ")[2] for r in rows("S0 -> S0", MOVED)}),
    (Case("Chunk", input=X, chunks=4, dim=0), {r + " " + " ".join([r.rpartition(" ")[2]] * 2)
                                               for r in rows("S1 -> S1", MOVED)}),
    (Case("UnstackExtView", input=numbers(5, 2, 4), dim=1), {r + " " + r.rpartition(" ")[2]
                                                             for r in rows("S0 -> S0; S2 -> S1", MOVED)}),
    # casts and copies
    (Case("ToDtype", input=X.astype("float32"), dtype="float64"), rows(cuts(0, 1), SUMS, EXTREMA)),
    (Case("Cast", input=X, dtype="float16"), rows(cuts(0, 1))),
    (Case("ToDtype", input=X, dtype="int32"), rows(cuts(0, 1))),
    (Case("ToDtype", input=X.astype("int16"), dtype="int32"), rows(cuts(0, 1), EXTREMA)),
    (Case("Clone", input=X), rows(cuts(0, 1), MOVED)),
    (Case("StopGradient", input=X), rows(cuts(0, 1), MOVED)),
    # made after another tensor
    (Case("ZerosLike", input=X), rows(UNREAD)),
    (Case("OnesLikeExt", input=X), rows(UNREAD)),
    (Case("FullLike", input=X, fill_value=2.0), rows(UNREAD)),
    (Case("EmptyLike", input=X), rows(UNREAD)),
    (Case("NewOnes", input=X, size=(2, 3)), rows(UNREAD.replace("S0 -> S0; S1 -> S1", "S0 -> R; S1 -> R"))),
]


@pytest.mark.parametrize("case, expected", TABLE, ids=lambda v: getattr(v, "name", ""))
def test_movement_rows_are_exact_and_complete(case, expected):
    """
    Feature: rules of operations that move, join, split, cast, copy or create.
    Description: every placement of every operand on meshes (2,) and (3,), and pairs of rows on (2, 2); uneven sizes.
    Expectation: exactly the listed rows are accepted, and each denotes numpy's result on the global values.
    """
    found = sound_rows(case)
    assert found == expected
    assert check_pairs(case, found) > 0


def test_expand_as_follows_the_cut_of_the_other():
    """
    Feature: ExpandAs of a row to a matrix.
    Description: the other tensor lends only its shape; its cuts of the new dimension pass, its pending ops do not
        matter.
    Expectation: the cut of a shared dimension must agree, the cut of the expanded one makes the row varying.
    """
    found = sound_rows(Case("ExpandAs", input=numbers(4), other=np.zeros((5, 4))))
    assert rows("R S0 -> S0; S0 S1 -> S1; sum R -> sum; max max -> max; R sum -> R") <= found
    assert not any(row.startswith(("R S1", "S0 R", "S0 S0", "sum S", "max S")) for row in found)

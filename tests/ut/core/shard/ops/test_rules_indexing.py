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
"""Rows of indexing, slicing and gathering, exact and complete."""
import numpy as np
import pytest

from tests.ut.core.shard.ops.row_harness import Case, check_pairs, sound_rows
from tests.ut.core.shard.ops.row_tables import EXTREMA, MOVED, MOVED_OF_TWO, SUMS, cuts, numbers, rows, whole

X, T = numbers(5, 4), numbers(3, 2, 4)
ALL = slice(None)
SOURCE = "; ".join(f"{p} R -> {p}" for p in ("sum", "avg", "max", "min", "prod", "all"))

TABLE = [
    (Case("GetItem", input=X, index=(0,)), rows("S1 -> S0", MOVED)),
    (Case("GetItem", input=X, index=-1), rows("S1 -> S0", MOVED)),
    (Case("GetItem", input=X, index=(ALL, slice(1, 3))), rows("S0 -> S0", MOVED)),
    (Case("GetItem", input=X, index=slice(0, 5)), rows(cuts(0, 1), MOVED)),
    (Case("GetItem", input=X, index=(slice(-9, 9, 1), slice(None, None, 2))), rows("S0 -> S0", MOVED)),
    (Case("GetItem", input=T, index=(Ellipsis, 1)), rows("S0 -> S0; S1 -> S1", MOVED)),
    (Case("GetItem", input=X, index=(None, ALL, None)), rows("S0 -> S1; S1 -> S3", MOVED)),
    (Case("GetItem", input=X, index=([0, 2, 0],)), rows("S1 -> S1", MOVED)),
    (Case("GetItem", input=T, index=(ALL, whole(3, high=2))),
     rows("S0 R -> S0; S1 R -> sum; S2 R -> S2; R S0 -> S1", SOURCE)),
    (Case("GetItem", input=X, index=whole(3, high=5)), rows("S0 R -> sum; S1 R -> S1; R S0 -> S0", SOURCE)),
    (Case("SetItem", input=X, index=(slice(1, 3),), value=numbers(2, 4)), rows("S1 S1 -> S1", MOVED_OF_TWO)),
    (Case("SetItem", input=X, index=(ALL, 0), value=numbers(5)), rows("S0 S0 -> S0", MOVED_OF_TWO)),
    (Case("SetItem", input=X, index=(0,), value=numbers(1)), rows("S1 R -> S1", MOVED_OF_TWO)),
    (Case("SetItem", input=X, index=(0,), value=0), rows("S1 -> S1", SUMS, EXTREMA)),
    (Case("SetItem", input=X, index=(Ellipsis, slice(0, 2)), value=7.0), rows("S0 -> S0", SUMS, EXTREMA)),
    (Case("SetItem", input=X, index=ALL, value=7.0), rows(cuts(0, 1), SUMS, EXTREMA)),
    (Case("Narrow", input=X, dim=0, start=1, length=3), rows("S1 -> S1", MOVED)),
    (Case("SelectExtView", input=X, dim=1, index=-1), rows("S0 -> S0", MOVED)),
    (Case("StridedSlice", input=X, begin=(1, 0), end=(3, 4), strides=(1, 1)), rows("S1 -> S1", MOVED)),
    (Case("StridedSlice", input=X, begin=(0, 0), end=(5, 4), strides=(2, 1)), rows("S1 -> S1", MOVED)),
    (Case("StridedSlice", input=X, begin=(0, 1), end=(5, 2), strides=(1, 1), shrink_axis_mask=2),
     rows("S0 -> S0", MOVED)),
    (Case("StridedSlice", input=X, begin=(9, 0), end=(9, 2), strides=(1, 1), begin_mask=1, end_mask=1),
     rows("S0 -> S0", MOVED)),
    (Case("Slice", input=X, begin=(0, 1), size=(5, 2)), rows("S0 -> S0", MOVED)),
    (Case("Slice", input=X, begin=(0, 1), size=(-1, -1)), rows("S0 -> S0", MOVED)),
    (Case("IndexSelect", input=X, dim=1, index=whole(3, high=4)), rows("S0 R -> S0; S1 R -> sum; R S0 -> S1", SOURCE)),
    (Case("IndexSelect", input=X > 0, dim=1, index=whole(3, high=4)),
     rows("S0 R -> S0; S1 R -> max; R S0 -> S1; max R -> max; min R -> min; all R -> all")),
    (Case("Gather", input=X, index=whole(3, 2, high=5), dim=0),
     rows("S0 R -> sum; S1 R -> S2; R S0 -> S0; R S1 -> S1", SOURCE)),
    (Case("Gather", input=X, index=whole(5, 2, high=4), dim=1, batch_dims=1), rows("S0 S0 -> S0; R S1 -> S1", SOURCE)),
    (Case("GatherD", input=X, dim=1, index=whole(5, 3, high=4)),
     rows("S0 S0 -> S0; S1 R -> sum; R S1 -> S1", SOURCE)),
    (Case("GatherD", input=X, dim=0, index=whole(3, 2, high=5)), rows("S0 R -> sum; R S0 -> S0", SOURCE)),
    (Case("GatherNd", input=T, index=whole(5, 2, high=2)), rows("R S0 -> S0; S2 R -> S1", SOURCE)),
    (Case("Embedding", input=whole(3, 2, high=5), weight=X),
     rows("S0 R -> S0; S1 R -> S1; R S0 -> sum; R S1 -> S2", "; ".join(f"R {row}" for row in rows(MOVED)))),
    (Case("OneHotExt", input=whole(3, 2, high=4), num_classes=4), rows("S0 -> S0; S1 -> S1")),
    (Case("OneHotExt", input=whole(3, high=4), num_classes=4, dim=0), rows("S0 -> S1")),
    (Case("Triu", input=T, diagonal=1), rows("S0 -> S0", MOVED)),
    (Case("TrilExt", input=T), rows("S0 -> S0", MOVED)),
    (Case("ReverseV2", input=X, dim=(0,)), rows("S1 -> S1", MOVED)),
    (Case("Roll", input=X, shifts=1, dims=1), rows("S0 -> S0", MOVED)),
    (Case("Roll", input=X, shifts=3), rows(MOVED)),
    (Case("Diagonal", input=T, offset=1, dim1=1, dim2=2), rows("S0 -> S0", MOVED)),
    (Case("Diagonal", input=T, offset=-1, dim1=2, dim2=0), rows("S1 -> S0", MOVED)),
    (Case("TraceExt", input=X), rows(SUMS)),
    (Case("TopkExt", input=X, k=2), rows("S0 -> S0 S0")),
    (Case("SortExt", input=X, dim=0), rows("S1 -> S1 S1")),
    (Case("ConstantPadND", input=X, padding=(1, 2), value=0), rows("S0 -> S0", MOVED)),
    (Case("ConstantPadND", input=X, padding=(0, 0, 1, 0), value=2.0), rows("S1 -> S1", SUMS, EXTREMA)),
]


@pytest.mark.parametrize("case, expected", TABLE, ids=lambda v: getattr(v, "name", ""))
def test_indexing_rows_are_exact_and_complete(case, expected):
    """
    Feature: rules of indexing, slicing and gathering.
    Description: every placement of every operand on meshes (2,) and (3,), and pairs of rows on (2, 2); uneven sizes.
    Expectation: exactly the listed rows are accepted, and each denotes numpy's result on the global values.
    """
    found = sound_rows(case)
    assert found == expected
    assert check_pairs(case, found) > 0


@pytest.mark.parametrize("options, expected", [
    ({"max_norm": 1.0}, set()),
    ({"scale_grad_by_freq": True}, rows("R S1 -> S2", "; ".join(f"R {row}" for row in rows(MOVED)))),
])
def test_embedding_flags_freeze_what_they_look_at(options, expected):
    """
    Feature: embedding with max_norm or scale_grad_by_freq.
    Description: max_norm rewrites whole rows of the table; the frequency of ids is counted over all of them.
    Expectation: nothing may be cut or pending under max_norm, the ids must be whole under scale_grad_by_freq.
    """
    assert sound_rows(Case("Embedding", input=np.array([[0, 1], [3, 2]]), weight=X, **options)) == expected

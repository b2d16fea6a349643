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
"""Rows of reductions, cumulative sums and norms, exact and complete."""
import numpy as np
import pytest

from tests.ut.core.shard.ops.row_harness import Case, check_pairs, mesh_of, check, sound_rows
from tests.ut.core.shard.ops.row_tables import EXTREMA, SUMS, cuts, masks, numbers, rows

X, T, M = numbers(5, 4), numbers(3, 2, 4), masks(5, 4)
SMALL = numbers(5, 4, scale=1)
W = numbers(4)

TABLE = [
    (Case("SumExt", input=X), rows("S0 -> sum; S1 -> sum", SUMS)),
    (Case("SumExt", input=X, dim=0), rows("S0 -> sum; S1 -> S0", SUMS)),
    (Case("SumExt", input=X, dim=-1, keepdim=True), rows("S0 -> S0; S1 -> sum", SUMS)),
    (Case("ReduceSum", input=T, dim=(0, -1)), rows("S0 -> sum; S1 -> S0; S2 -> sum", SUMS)),
    (Case("ReduceSum", input=T, dim=()), rows("S0 -> sum; S1 -> sum; S2 -> sum", SUMS)),
    (Case("DeprecatedSum", input=X, dim=0), rows("S0 -> sum; S1 -> S0", SUMS)),
    (Case("MeanExt", input=numbers(3, 4)), rows("S0 -> sum; S1 -> sum", SUMS)),
    (Case("MeanExt", input=numbers(3, 4), dim=0), rows("S0 -> sum; S1 -> S0", SUMS)),
    (Case("ReduceMean", input=T, dim=2, keepdim=True), rows("S0 -> S0; S1 -> S1; S2 -> sum", SUMS)),
    (Case("ReduceMax", input=X, dim=0), rows("S0 -> max; S1 -> S0; max -> max")),
    (Case("ReduceMin", input=X, dim=1, keepdim=True), rows("S0 -> S0; S1 -> min; min -> min")),
    (Case("Max", input=X), rows("S0 -> max; S1 -> max; max -> max")),
    (Case("Min", input=X), rows("S0 -> min; S1 -> min; min -> min")),
    (Case("ProdExt", input=SMALL, dim=0), rows("S0 -> prod; S1 -> S0; prod -> prod")),
    (Case("ReduceAll", input=M, dim=0), rows("S0 -> all; S1 -> S0; all -> all")),
    (Case("AnyExt", input=M, dim=1), rows("S0 -> S0; S1 -> max; max -> max")),
    (Case("CountNonZero", input=X, dim=1), rows("S0 -> S0; S1 -> sum")),
    # a reduced dimension must be whole
    (Case("MaxDim", input=X, dim=1), rows("S0 -> S0 S0")),
    (Case("ArgMaxExt", input=X, dim=0, keepdim=True), rows("S1 -> S1")),
    (Case("ArgMaxExt", input=X), set()),
    (Case("Var", input=SMALL, dim=1), rows("S0 -> S0")),
    (Case("LogSumExp", input=SMALL, dim=(1,), keepdim=True), rows("S0 -> S0")),
    (Case("CumsumExt", input=X, dim=0), rows("S1 -> S1", SUMS)),
    (Case("CumSum", input=T, dim=-1), rows(cuts(0, 1), SUMS)),
    (Case("Softmax", input=SMALL, dim=-1), rows("S0 -> S0")),
    (Case("LogSoftmaxExt", input=SMALL, dim=0), rows("S1 -> S1")),
    (Case("Swiglu", input=numbers(5, 2, 4, scale=1), dim=-1), rows(cuts(0, 1))),
    (Case("LayerNormExt", input=numbers(3, 2, 4, scale=1), normalized_shape=(4,), weight=W, bias=W),
     rows("S0 R R -> S0 S0 S0; S1 R R -> S1 S1 S1")),
    (Case("RmsNorm", input=numbers(3, 2, 4, scale=1), weight=W), rows("S0 R -> S0 S0; S1 R -> S1 S1")),
    (Case("ReLU", input=X), rows(cuts(0, 1), EXTREMA)),
    (Case("LeakyReLUExt", input=X, negative_slope=0.5), rows(cuts(0, 1), EXTREMA)),
    (Case("LeakyReLUExt", input=X, negative_slope=-0.5), rows(cuts(0, 1))),
    (Case("SiLU", input=SMALL), rows(cuts(0, 1))),
]


@pytest.mark.parametrize("case, expected", TABLE, ids=lambda v: getattr(v, "name", ""))
def test_reduction_rows_are_exact_and_complete(case, expected):
    """
    Feature: rules of reductions, scans, norms and activations.
    Description: every placement on meshes (2,) and (3,), where some shards of 2 rows over 3 ranks are empty, and pairs
        of rows on (2, 2).
    Expectation: exactly the listed rows are accepted, and each denotes numpy's result on the global values.
    """
    found = sound_rows(case)
    assert found == expected
    assert not expected or check_pairs(case, found) > 0


@pytest.mark.parametrize("name, dtype", [("MeanExt", "int64"), ("ReduceMean", "int32")])
def test_mean_of_ints_keeps_whole_dims_only(name, dtype):
    """
    Feature: means of integers, which the framework truncates.
    Description: an integer tensor, reduced along dim 0, cut along either dim and pending.
    Expectation: only the cut of the kept dimension has a rule.
    """
    x = np.arange(20).reshape(5, 4).astype(dtype)
    rng = np.random.default_rng(0)
    assert check(Case(name, input=x * 5, dim=0), mesh_of(2), [("S1",)], rng)
    for placement in ("S0", "sum"):
        with pytest.raises(ValueError, match=name):
            check(Case(name, input=x, dim=0), mesh_of(2), [(placement,)], rng)


@pytest.mark.parametrize("name, dtype, shards, kept", [
    ("SumExt", "int64", "sum", "sum -> sum"), ("SumExt", "int32", "sum", ""),
    ("ReduceSum", "int32", "sum", "sum -> sum"), ("ProdExt", "int64", "prod", "prod -> prod"),
    ("ProdExt", "int32", "prod", ""),
])
def test_small_ints_are_widened_before_they_are_added(name, dtype, shards, kept):
    """
    Feature: sums and products of integers, which accumulate in int64 except in the primitive.
    Description: integer addends pending in the op of the reduction; sums of integers wrap in their own type.
    Expectation: pending passes only where the type is not widened; shards combine in any type.
    """
    x = (np.arange(20).reshape(5, 4) - 7).astype(dtype)
    assert sound_rows(Case(name, input=x, dim=0)) == rows(f"S0 -> {shards}; S1 -> S0", kept)


def test_sum_into_a_narrower_type_refuses_pending():
    """
    Feature: the dtype argument of sums.
    Description: float32 addends summed into float16 (type code 42) and into float64 (44).
    Expectation: cut dims stay legal; a pending sum passes only where the type is no narrower.
    """
    x = numbers(5, 4).astype("float32")
    narrow, wide = Case("SumExt", input=x, dim=0, dtype=42), Case("SumExt", input=x, dim=0, dtype=44)
    assert sound_rows(narrow) == rows("S0 -> sum; S1 -> S0")
    assert sound_rows(wide) == rows("S0 -> sum; S1 -> S0", SUMS)

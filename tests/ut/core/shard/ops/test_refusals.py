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
"""Refusals name the operation, what was found, the rule that it breaks, and the call that fixes it."""
import numpy as np
import pytest

from hyper_parallel.errors import LayoutError, PartialError
from tests.ut.core.shard.ops.row_harness import Case, check, mesh_of
from tests.ut.core.shard.ops.row_tables import masks, numbers, powers, whole

X, Y, V, M, T = numbers(5, 4), numbers(5, 4), numbers(4), masks(5, 4), numbers(3, 2, 4)
RNG = np.random.default_rng(5)
REDUCE = r"Reduce operand \d first: x.reduce_partial\(\)"
WHOLE = r"Dimension \d of operand 0 must be whole on every rank.*Gather it first: x.redistribute"

PENDING = [
    (Case("Mul", input=X, other=Y), ("sum", "sum")),
    (Case("AddExt", input=X, other=Y), ("sum", "avg")),
    (Case("AddExt", input=X, other=Y), ("max", "max")),
    (Case("Div", input=X, other=powers(5, 4)), ("R", "sum")),
    (Case("Reciprocal", input=X), ("sum",)),
    (Case("Divs", input=X, other=0), ("sum",)),
    (Case("Muls", input=X, other=float("inf")), ("sum",)),
    (Case("Muls", input=X, other=0), ("max",)),
    (Case("Mul", input=X, other=np.array(2.0)), ("max", "R")),
    (Case("AddcmulExt", input=X, tensor1=Y, tensor2=V), ("R", "sum", "sum")),
    (Case("Maximum", input=X, other=Y), ("min", "min")),
    (Case("ReduceMax", input=X), ("min",)),
    (Case("ReduceMax", input=X), ("sum",)),
    (Case("SumExt", input=X), ("max",)),
    (Case("Neg", input=X), ("prod",)),
    (Case("Abs", input=X), ("sum",)),
    (Case("Sqrt", input=X), ("max",)),
    (Case("Softmax", input=X), ("sum",)),
    (Case("GeluExt", input=X), ("sum",)),
    (Case("Greater", input=X, other=0), ("sum",)),
    (Case("Select", condition=M, input=X, other=Y), ("all", "R", "R")),
    (Case("ToDtype", input=X, dtype=42), ("sum",)),
    (Case("ToDtype", input=X, dtype="bool"), ("max",)),
    (Case("CumsumExt", input=X, dim=0), ("max",)),
    (Case("LayerNormExt", input=X, normalized_shape=(4,), weight=V, bias=V), ("R", "R", "sum")),
    (Case("Embedding", input=whole(3, high=5), weight=X, max_norm=1.0), ("R", "sum")),
]

CUT = [
    (Case("Softmax", input=X, dim=-1), ("S1",), WHOLE),
    (Case("CumsumExt", input=X, dim=0), ("S0",), WHOLE),
    (Case("Var", input=X), ("S0",), WHOLE),
    (Case("MaxDim", input=X, dim=0), ("S0",), WHOLE),
    (Case("GetItem", input=X, index=(slice(0, 2),)), ("S0",), WHOLE),
    (Case("Narrow", input=X, dim=1, start=0, length=4), ("S1",), WHOLE),
    (Case("Triu", input=T), ("S1",), WHOLE),
    (Case("Tile", input=X, dims=(1, 2)), ("S1",), WHOLE),
    (Case("SplitTensor", input=X, split_size=2), ("S0",), WHOLE),
    (Case("Squeeze", input=numbers(1, 4)), ("S0",), WHOLE),
    (Case("Swiglu", input=X), ("S1",), WHOLE),
    (Case("AddExt", input=X, other=numbers(1, 4)), ("S0", "S0"), r"Dimension 0 of operand 1 must be whole"),
    (Case("AddExt", input=X, other=Y), ("S0", "R"),
     r"Dimension 0 of operand 0 and dimension 0 of operand 1 are the same.*Redistribute operand 1: .*Shard\(0\) on"),
    (Case("AddExt", input=X, other=V), ("R", "S0"),
     r"Dimension 0 of operand 1 and dimension 1 of operand 0 are the same"),
    (Case("AddExt", input=X, other=Y), ("S0", "S1"), "are the same dimension"),
    (Case("Concat", tensors=[X, Y]), ("S0", "S0"), WHOLE),
    (Case("Embedding", input=whole(3, high=5), weight=X, max_norm=1.0), ("R", "S0"),
     r"Dimension 0 of operand 1 must be whole"),
    (Case("InplaceCopy", input=X, other=Y), ("S0", "R"), "are the same dimension"),
]

ARGUMENTS = [
    (Case("AddExt", input=X, other=numbers(3)), "do not broadcast"),
    (Case("Reshape", input=X, shape=(3, 7)), r"global shape \(5, 4\) does not reshape to \(3, 7\)"),
    (Case("Reshape", input=X, shape=(-1, 3)), "does not reshape"),
    (Case("Transpose", input=X, dims=(0, 0)), "is no permutation"),
    (Case("TExt", input=T), "at most 2 dimensions"),
    (Case("SumExt", input=X, dim=2), r"dim must be an int in \[-2, 1\]"),
    (Case("SumExt", input=X, dim=(0, -2)), "named twice"),
    (Case("DeprecatedSum", input=X, initial=1.0), "'initial' has no rule"),
    (Case("DeprecatedMax", input=X, dim=0, return_indices=True), "'return_indices' has no rule"),
    (Case("Split", input=X, dim=0, output_num=2), "does not split into 2 equal parts"),
    (Case("SplitWithSize", input=X, split_size=[1, 1]), "do not add up"),
    (Case("GetItem", input=X, index=(7,)), "out of range for dimension 0 of the global shape"),
    (Case("GetItem", input=X, index=(0, 0, 0)), "3 indices for the 2 dimensions"),
    (Case("GetItem", input=X, index=(M,)), "would depend on data"),
    (Case("GetItem", input=X, index=True), "would depend on data"),
    (Case("GetItem", input=X, index=(0, whole(2, high=4))), "one tensor or list"),
    (Case("SetItem", input=X, index=0, value=numbers(3)), "does not broadcast to the part"),
    (Case("StridedSlice", input=X, begin=(0,), end=(1,), new_axis_mask=1), "no rule for ellipsis_mask"),
    (Case("Concat", tensors=[X, T]), "differ in their number of dimensions"),
    (Case("StackExt", tensors=[X, V[None]]), "do not fit together"),
    (Case("BroadcastTo", input=X, shape=(5, 8)), "does not expand"),
    (Case("LayerNormExt", input=X, normalized_shape=(5,)), "does not end with"),
    (Case("OneHotExt", input=whole(3, high=4), num_classes=-1), "num_classes must be given"),
]


def _place(case: Case, placements):
    return check(case, mesh_of(2), [(p,) for p in placements], RNG)


@pytest.mark.parametrize("case, placements", PENDING, ids=lambda v: getattr(v, "name", None))
def test_pending_without_rule_is_refused(case, placements):
    """
    Feature: refusal of pending reductions.
    Description: operations that do not commute with what is pending, by kind of operation, scalar and dtype.
    Expectation: PartialError that names the operation, what was found on which axis, and the reduction to call.
    """
    with pytest.raises(PartialError, match=rf"{case.name} has no sound rule on mesh axis 'a' for operand 0.*{REDUCE}"):
        _place(case, placements)


@pytest.mark.parametrize("case, placements, text", CUT, ids=lambda v: getattr(v, "name", None))
def test_cut_without_rule_is_refused(case, placements, text):
    """
    Feature: refusal of cuts.
    Description: dimensions that an operation acts on, broadcasts or joins, and operands cut differently.
    Expectation: LayoutError that names the operation, operand and dimension, and the redistribution to call.
    """
    with pytest.raises(LayoutError, match=f"{case.name} has no sound rule.*{text}"):
        _place(case, placements)


@pytest.mark.parametrize("case, text", ARGUMENTS, ids=lambda v: getattr(v, "name", None))
def test_bad_arguments_are_refused_on_global_shapes(case, text):
    """
    Feature: argument checks of binders.
    Description: shapes that do not fit, dims out of range, indices without a rule; everything replicated.
    Expectation: LayoutError that starts with the operation's name.
    """
    with pytest.raises(LayoutError, match=f"{case.name}.*{text}"):
        _place(case, ["R"] * len(case.arrays))


def test_mixed_families_of_a_result_are_refused():
    """
    Feature: one family of reductions per layout.
    Description: a maximum over a cut dimension of a tensor with a pending maximum, and one with a pending minimum.
    Expectation: the first denotes numpy's maximum, the second is refused.
    """
    case, mesh = Case("ReduceMax", input=X, dim=0), mesh_of(2, 2)
    assert check(case, mesh, [("S0", "max")], RNG)[0].partial == ("max", "max")
    with pytest.raises(PartialError, match="ReduceMax"):
        check(case, mesh, [("S0", "min")], RNG)

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
"""Arguments as the framework hands them over: star or tuple, keyword names of its methods, deprecated forms, dtypes."""
import pytest

from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.core.shard.declaration import Operand, locate, read
from hyper_parallel.core.shard.ops.dtypes import dtype_name, keeps_extrema, keeps_sums
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op, registered_ops
from hyper_parallel.errors import LayoutError
from tests.ut.core.shard.ops.row_harness import mesh_of

X, T, I = Operand((5, 4)), Operand((2, 3, 4)), Operand((3,), "int64")

CALLS = [  # name, positional, keywords, output shapes
    ("Transpose", (T, 0, 2, 1), {}, ((2, 4, 3),)),
    ("Transpose", (T, (0, 2, 1)), {}, ((2, 4, 3),)),
    ("Transpose", (X, [1, 0]), {}, ((4, 5),)),
    ("DeprecatedTranspose", (T, 0, 2, 1), {}, ((2, 4, 3),)),
    ("DeprecatedTranspose", (T,), {}, ((4, 3, 2),)),
    ("TransposeExtView", (T, 0, -1), {}, ((4, 3, 2),)),
    ("Reshape", (T, 6, 4), {}, ((6, 4),)),
    ("Reshape", (T, (6, 4)), {}, ((6, 4),)),
    ("Reshape", (T, -1), {}, ((24,),)),
    ("Reshape", (T,), {"shape": (4, 6)}, ((4, 6),)),
    ("BroadcastTo", (X, 2, -1, 4), {}, ((2, 5, 4),)),
    ("Tile", (X, 2, 1), {}, ((10, 4),)),
    ("Tile", (X, (2, 1, 3)), {}, ((2, 5, 12),)),
    ("ExpandDims", (X, -1), {}, ((5, 4, 1),)),
    ("DeprecatedUnsqueeze", (X,), {"dim": 0}, ((1, 5, 4),)),
    ("Squeeze", (Operand((1, 4)),), {"axis": 0}, ((4,),)),
    ("FlattenExt", (T, 1, -1), {}, ((2, 12),)),
    ("SumExt", (X, None, False, None), {}, ((),)),
    ("SumExt", (X,), {"dim": 1, "keepdim": True}, ((5, 1),)),
    ("DeprecatedSum", (X,), {"axis": 0, "keepdims": True}, ((1, 4),)),
    ("DeprecatedMean", (X,), {"axis": 0, "keep_dims": True}, ((1, 4),)),
    ("DeprecatedMax", (X,), {"axis": 0}, ((4,),)),
    ("DeprecatedReduceAny", (X,), {"axis": 0}, ((4,),)),
    ("DeprecatedVar", (X, 0), {}, ((4,),)),
    ("ReduceSum", (X, (), False, True), {}, ((5, 4),)),
    ("ReduceSum", (X, (), False, False), {}, ((),)),
    ("MaxDim", (X,), {"dim": 1, "keepdim": True}, ((5, 1), (5, 1))),
    ("CumSum", (X, 0, False, False), {}, ((5, 4),)),
    ("AddExt", (X, X), {"alpha": 2}, ((5, 4),)),
    ("DivMod", (X, X), {"rounding_mode": "floor"}, ((5, 4),)),
    ("ClampScalar", (X,), {"min": 0}, ((5, 4),)),
    ("Select", (X, X, 0.0), {}, ((5, 4),)),
    ("GeluExt", (X,), {"approximate": "tanh"}, ((5, 4),)),
    ("Concat", ([X, X], 0), {}, ((10, 4),)),
    ("Concat", ((X, X), 1), {}, ((5, 8),)),
    ("StackExt", ((X, X), -1), {}, ((5, 4, 2),)),
    ("SplitTensor", (X,), {"split_size": 2, "dim": 0}, ((2, 4), (2, 4), (1, 4))),
    ("SplitWithSize", (X, [1, 3], -1), {}, ((5, 1), (5, 3))),
    ("Split", (X, 1, 2), {}, ((5, 2), (5, 2))),
    ("Chunk", (X,), {"chunks": 3, "dim": 0}, ((2, 4), (2, 4), (1, 4))),
    ("UnstackExtView", (X,), {"dim": 1}, ((5,),) * 4),
    ("StridedSlice", (X, (1, 0), (3, 4), (1, 1), 0, 0, 0, 0, 0), {}, ((2, 4),)),
    ("Slice", (X, (0, 1), (2, 2)), {}, ((2, 2),)),
    ("Narrow", (X,), {"dim": 0, "start": 0, "length": 2}, ((2, 4),)),
    ("Gather", (X, I, 0, 0), {}, ((3, 4),)),
    ("GatherD", (X,), {"dim": 0, "index": Operand((2, 4))}, ((2, 4),)),
    ("IndexSelect", (X,), {"dim": 1, "index": I}, ((5, 3),)),
    ("Embedding", (I, X, None, None, 2.0, False), {}, ((3, 4),)),
    ("Softmax", (X, (-1,)), {}, ((5, 4),)),
    ("LayerNormExt", (X, (4,), Operand((4,)), Operand((4,)), 1e-05), {}, ((5, 4), (5, 1), (5, 1))),
    ("LayerNorm", (X, Operand((4,)), Operand((4,)), -1, -1, 1e-07), {}, ((5, 4), (5, 1), (5, 1))),
    ("RmsNorm", (X, Operand((4,)), 1e-06), {}, ((5, 4), (5, 1))),
    ("Swiglu", (X, -1), {}, ((5, 2),)),
    ("TopkExt", (X, 2), {}, ((5, 2), (5, 2))),
    ("TopK", (X, 2), {}, ((5, 2), (5, 2))),
    ("Cast", (X, 42), {}, ((5, 4),)),
    ("ToDtype", (X, "float16"), {"copy": True}, ((5, 4),)),
    ("NewOnes", (X,), {"size": (2,), "dtype": None}, ((2,),)),
    ("NewZeros", (X, (2, 2)), {}, ((2, 2),)),
    ("InplaceCopy", (X, X, True), {}, ((5, 4),)),
    ("InplaceSubExt", (X, X), {"alpha": 2}, ((5, 4),)),
    ("BiasAdd", (X, Operand((4,)), 0), {}, ((5, 4),)),
]


@pytest.mark.parametrize("name, args, kwargs, shapes", CALLS)
def test_call_forms_bind(name, args, kwargs, shapes):
    """
    Feature: argument forms of the framework's calls.
    Description: positions, star arguments, keywords of methods and deprecated methods, as they were logged.
    Expectation: every form is bound, to numpy's global output shapes.
    """
    declaration = get_distributed_op(name).declaration
    slots = locate(name, declaration.params, args, kwargs)
    values = {p.name: read(slots[p.name], p, args, kwargs) for p in declaration.params if p.name in slots}
    assert declaration.bind(declaration.call(values)).out_shapes == shapes


@pytest.mark.parametrize("name, args, kwargs", [("SumExt", (X,), {"where": X}), ("Neg", (X, X), {})])
def test_unknown_arguments_are_refused(name, args, kwargs):
    """
    Feature: argument forms of the framework's calls.
    Description: a keyword without a parameter, and one argument too many.
    Expectation: LayoutError with the operation's name.
    """
    with pytest.raises(LayoutError, match=name):
        locate(name, get_distributed_op(name).declaration.params, args, kwargs)


@pytest.mark.parametrize("value, name", [
    (42, "float16"), (43, "float32"), (45, "bfloat16"), (30, "bool"), ("mindspore.bfloat16", "bfloat16"),
    ("Float32", "float32"), ("BFloat16", "bfloat16"), ("bool_", "bool"), (None, None), (999, "code 999"),
])
def test_dtype_names(value, name):
    """
    Feature: element types as text.
    Description: type codes of the framework, its objects as text, nothing.
    Expectation: one lower-case name per type; unknown codes stay unknown.
    """
    assert dtype_name(value) == name


@pytest.mark.parametrize("source, target, sums, extrema", [
    ("float32", "float32", True, True), ("float32", "bfloat16", True, True), ("bfloat16", "float32", True, True),
    ("float16", "bfloat16", True, True), ("float16", "float32", True, True), ("float32", "float64", True, True),
    ("float32", "float16", False, False), ("bfloat16", "float16", False, False), ("float64", "float32", False, False),
    ("float32", "int32", False, False), ("int32", "float32", False, False), ("int64", "int32", False, False),
    ("int64", "int64", True, True), ("int8", "int32", False, True), ("uint8", "int16", False, True),
    ("int8", "uint8", False, False), ("bool", "int32", False, False), ("float32", "bool", False, False),
    ("bool", "bool", False, False), (None, "float32", False, False),
])
def test_casts_that_keep_what_is_pending(source, target, sums, extrema):
    """
    Feature: casts of pending tensors.
    Description: exponent ranges of floats, value ranges of integers (whose sums wrap), booleans, unknown types.
    Expectation: kept where no addend can overflow, wrap or be truncated; refused otherwise.
    """
    assert (keeps_sums(source, target), keeps_extrema(source, target)) == (sums, extrema)


@pytest.mark.parametrize("name, layouts, extra, dims, partial", [
    ("AddExt", [((0,), ()), ((0,), ())], [1], ((0,), ()), (None,)),
    ("SumExt", [((0,), ())], [0, False, None], ((),), ("sum",)),
    ("ReduceMax", [((0,), ())], [1, True], ((0,), ()), (None,)),
    ("Transpose", [((0,), ())], [(1, 0)], ((), (0,)), (None,)),
    ("Softmax", [((0,), ())], [-1], ((0,), ()), (None,)),
])
def test_rules_answer_on_layouts_alone(name, layouts, extra, dims, partial):
    """
    Feature: the older infer_layout(layouts, extra_args) call.
    Description: layouts without shapes and static arguments in parameter order.
    Expectation: the layout that the rule gives to tensors of any fitting shape.
    """
    handles = [Layout.of(layout_value(mesh_of(2), cut)) for cut in layouts]
    found = get_distributed_op(name).infer_layout(handles, extra).value
    assert (found.dims, found.partial) == (dims, partial)


def test_listed_operations_have_rules():
    """
    Feature: breadth of the registry.
    Description: the operations that chains of real programs reach, in the framework's spellings.
    Expectation: each has a rule.
    """
    listed = """
    Transpose TransposeView TransposeExtView DeprecatedTranspose TExt Reshape View ViewAs FlattenExt ExpandDims
    ExpandDimsView Squeeze BroadcastTo BroadcastToView ExpandAs Tile Repeat RepeatInterleaveInt AddExt Add Sub
    SubExt AddScalar SubScalar Mul Muls Div Divs RealDiv DivMod Neg Reciprocal Pow PowTensorScalar
    PowScalarTensor Abs Square Sqrt Rsqrt Exp Log Sin Cos Tanh Sigmoid Erf Sign Floor Ceil Round FloorDiv
    RemainderTensorScalar Mod Equal EqScalar NotEqual Greater GreaterEqual Less LessEqual LogicalAnd LogicalOr
    LogicalNot BitwiseAndTensor BitwiseOrTensor Maximum Minimum ClampScalar ClampTensor Select MaskedFillScalar
    MaskedFill Lerp AddcmulExt IsFinite BiasAdd InplaceAddExt InplaceAddsExt InplaceSubExt InplaceSubScalar
    InplaceMul InplaceMuls InplaceDiv InplaceDivs InplaceCopy InplaceZero InplaceFillScalar InplaceClampScalar
    InplaceExp InplaceMaskedFillScalar Assign AssignAdd SumExt DeprecatedSum ReduceSum MeanExt DeprecatedMean
    ReduceMean ReduceMax ReduceMin Max Min MaxDim MinDim ProdExt ReduceProd ReduceAll AnyExt ReduceAny Var Std
    LogSumExp LinalgVectorNorm ArgMaxExt DeprecatedArgmax ArgMaxWithValue CumsumExt CumSum Norm ToDtype Cast
    TypeAs Clone Identity StopGradient Contiguous Concat StackExt Stack AddN SplitTensor SplitTensorView
    SplitWithSize SplitWithSizeView Split Chunk ChunkView UnstackExtView GetItem SetItem NarrowView Narrow
    SelectExtView StridedSlice Slice IndexSelect Gather GatherD GatherNd Embedding Triu TrilExt ReverseV2 Roll
    ConstantPadND OneHotExt ReLU SiLU GeluExt GeLU Softmax LogSoftmax LogSoftmaxExt LeakyReLU SoftplusExt Swiglu
    LayerNormExt LayerNorm RmsNorm ZerosLike ZerosLikeExt OnesLike OnesLikeExt FullLike EmptyLike NewZeros
    NewOnes
    """
    assert set(listed.split()) <= set(registered_ops())

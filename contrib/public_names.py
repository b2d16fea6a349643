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
"""Public names of operations: what each stands for here, or why it is not audited."""
from __future__ import annotations

# Operations here whose leading operands are multiplied, and how many.
FACTORS = {"Mul": 2, "Muls": 2, "Outer": 2, "Mm": 2, "Mv": 2, "Dot": 2}

# Public name -> the operation here, with arguments that the name implies ("dtype=int32").
ALIASES = {
    "Silu": "SiLU", "AllExt": "ReduceAll",
    # Names of the other framework.
    "relu": "ReLU", "gelu": "GeluExt", "abs": "Abs", "rsqrt": "Rsqrt", "sqrt": "Sqrt", "sigmoid": "Sigmoid",
    "silu": "SiLU", "cos": "Cos", "sin": "Sin", "log": "Log", "neg": "Neg", "exp": "Exp", "tanh": "Tanh",
    "square": "Square", "cast": "Cast", "contiguous": "Contiguous", "clone": "Clone", "__invert__": "LogicalNot",
    "long": "ToDtype dtype=int32", "int": "ToDtype dtype=int32", "float": "ToDtype dtype=float32",
    "ge": "GreaterEqual", "gt": "Greater", "le": "LessEqual", "lt": "Less", "ne": "NotEqual", "eq": "Equal",
    "not_equal": "NotEqual", "__eq__": "Equal", "__and__": "LogicalAnd", "__or__": "LogicalOr", "pow": "Pow",
    "remainder": "Mod", "minimum": "Minimum", "maximum": "Maximum", "floor_divide": "FloorDiv",
    "__floordiv__": "FloorDiv", "div": "DivMod", "mul": "Mul", "add": "AddExt", "add_": "AddExt", "sub": "SubExt",
    "sub_": "SubExt", "masked_fill": "MaskedFillScalar", "masked_fill_": "MaskedFillScalar", "where": "Select",
    "sum": "SumExt", "mean": "MeanExt", "prod": "ProdExt", "all": "ReduceAll", "max": "Max", "min": "Min",
    "amax": "ReduceMax", "amin": "ReduceMin", "permute": "TransposeView", "transpose": "TransposeExtView",
    "reshape": "Reshape", "view": "Reshape", "unsqueeze": "ExpandDims", "squeeze": "Squeeze", "flatten": "FlattenExt",
    "softmax": "Softmax", "swiglu": "Swiglu", "layer_norm": "LayerNormExt", "cat": "Concat", "stack": "StackExt",
    "split": "SplitTensor", "chunk": "Chunk", "unbind": "UnstackExtView", "embedding": "Embedding",
    "index_select": "IndexSelect", "gather": "GatherD", "topk": "TopkExt", "sort": "SortExt", "argsort": "ArgSort",
    "cumsum": "CumsumExt", "expand": "BroadcastTo", "expand_as": "ExpandAs", "repeat": "Tile",
    "repeat_interleave": "RepeatInterleaveInt", "pad": "ConstantPadND", "tril": "Tril", "scatter": "Scatter",
    "index_add": "IndexAddExt", "new_ones": "NewOnes", "outer": "Outer", "mm": "Mm", "histc": "HistcExt",
    "conv1d": "Conv1DExt", "conv3d": "Conv3DExt",
}
DRAWN = "its values are drawn at random"
KERNEL = "what the kernel computes is not told by its name"
COMMUNICATES = "it communicates inside"
UNREFERRED = "the verifier has no reference for it"
INDEXES = "its arguments are slices and indices, which the registered rule takes in a form of its own"
REASONS = {
    **dict.fromkeys(("dropout", "multinomial"), DRAWN),
    **dict.fromkeys(("AllGatherMatmul", "MatmulReduceScatter"), COMMUNICATES),
    **dict.fromkeys(("getitem", "setitem", "__getitem__", "__setitem__", "Slice", "StridedSlice"), INDEXES),
    **dict.fromkeys(("isin", "tensor_split", "atleast_1d", "vstack"), UNREFERRED),
    **dict.fromkeys(("npu_fusion_attention", "scaled_dot_product_attention"),
                    "no reference takes its arguments; FlashAttentionScore, the same kernel, is audited"),
    "CellBackwardHook": "it computes nothing: it hands tensors through",
    "masked_scatter": "which source element goes where depends on the whole mask",
    "__rsub__": "its operands come in the other order than those of any reference",
    "nonzero": "the size of its result depends on values",
}


def target(name: str) -> tuple[str, dict]:
    """The operation here that a public name stands for, and the arguments that the name implies.

    Examples:
        >>> target("permute"), target("float")
        (('TransposeView', {}), ('ToDtype', {'dtype': 'float32'}))
    """
    operation, *implied = ALIASES.get(name, name).split()
    return operation, dict(word.split("=") for word in implied)

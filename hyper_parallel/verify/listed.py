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
"""Names of operations that programs are known to reach, for the coverage report."""
from __future__ import annotations

# what the registries of the public library name, under the names of this framework
PUBLIC = """
    Abs Add AddExt AddScalar Addmm Addmv AllGatherMatmul ArgMaxExt ArgMaxWithValue ArgSort Baddbmm BatchMatMul
    BatchMatMulExt BroadcastTo BroadcastToView Cast ChunkView Clone Concat ConstantPadND Contiguous Conv1DExt
    Conv3DExt Cos CumsumExt Dense Div Divs Dot Einsum Embedding Equal Exp ExpandAs ExpandDims ExpandDimsView
    FlashAttentionScore FlattenExt FloorDiv FuncDropoutExt GLU Gather GatherD GatherNd GeluExt GetItem Greater
    GreaterEqual HistcExt IndexAddExt IndexSelect InplaceCopy InplaceScatterValue InplaceZero LayerNormExt LessEqual
    LightningIndexer LinalgVectorNorm Log LogSoftmaxExt LogicalOr MaskedFillScalar MaskedScatter MatMul MatMulExt
    MatmulReduceScatter Max MaxDim Maximum MeanExt Min Minimum Mm Mod Mul Muls MultinomialExt Mv NarrowView Neg
    NewOnes NonZero NotEqual OneHotExt OnesLikeExt Outer PagedAttention PowTensorScalar ProdExt ReLU RealDiv
    ReduceMax Repeat RepeatInterleaveInt Reshape RmsNorm RotaryPositionEmbedding Rsqrt Scatter ScatterUpdate Select
    SetItem SiLU Sigmoid Sin Slice SliceExt Softmax SortExt Split SplitTensor SplitTensorView SplitWithSize
    SplitWithSizeView Sqrt Square Squeeze StackExt StridedSlice Sub SubExt SubScalar SumExt Swiglu TExt Tanh Tile
    ToDtype TopkExt Transpose TransposeExtView TransposeView TrilExt UnstackExtView ViewAs ZerosLikeExt
""".split()
# what a whole mixture-of-experts model with low-rank adapters calls
MODEL = """
    AddExt AddScalar ArgSort Cast Concat Contiguous CumsumExt Dense Div ExpandDims FlashAttentionScore
    FloorDivScalar GatherD GroupedMatmul HistcExt IndexSelect InplaceAddExt InplaceFillScalar InplaceNormal
    InplaceScatterValue InplaceZero LayerNormExt MaskedFillScalar MatMulExt MoeTokenPermute Mul Muls OnesLikeExt
    Outer Reshape RmsNorm RotaryPositionEmbedding ScatterAddExt SiLU Sigmoid SortExt SplitWithSizeView StackExt
    SumExt Swiglu Tile TopkExt TransposeExtView TransposeView TrilExt ZerosLikeExt
""".split()
# what the entry points of mint, ops, tensors and primitives report as their names
ENTRIES = """
    Abs Add AddExt AddScalar Addmm Addmv ArgMaxExt Baddbmm BatchMatMul BatchMatMulExt Cast Clone Contiguous Dense
    DeprecatedMean Div Divs Dot Embedding EqualExt Exp ExpandAs ExpandDims FlattenExt Gather GeluExt Greater
    InplaceAddsExt InplaceZero IsFinite Lerp LogSoftmaxExt LogSumExp MaskedFillScalar MatMul MatMulExt Max MaxDim
    MeanExt Min Mm Mul Muls Mv Neg OneHotExt Outer PowTensorScalar ProdExt ReLU ReduceMax ReduceMean ReduceSum
    Repeat Reshape RmsNorm Rsqrt SiLU Sigmoid Slice Softmax Split Sqrt Square Squeeze Std StopGradient StridedSlice
    Sub SubExt SubScalar SumExt TExt Tanh Tile ToDtype Transpose TransposeExtView TransposeView Var ViewAs
""".split()
# what else transformers, their losses, their random numbers and their optimizers reach
PROGRAMS = """
    Adam AdamW AdamWeightDecay AddLayerNormV2 AddRmsNorm AnyExt ApplyMomentum ArgMinExt Assign AssignAdd
    BCEWithLogitsLoss BernoulliExt BinaryCrossEntropy CrossEntropyLoss Diagonal Dropout Dropout2dExt EqualExt
    GroupNorm GroupedMatmulV4 IncreFlashAttention IndexFillScalar IndexPut InplaceBernoulliScalar
    InplaceBernoulliTensor InplaceDiv InplaceExponential InplaceIndexAddExt InplaceIndexCopy InplaceIndexPut
    InplaceMaskedFillScalar InplaceMul InplaceRandom InplaceScatterAdd InplaceScatterSrc InplaceSubExt
    InplaceUniform KLDiv L1LossExt LogSumExp MSELossExt MaskedFill MedianDim MoeTokenUnpermute NLLLoss NLLLoss2d Norm
    NormalTensorTensor PromptFlashAttention RandIntLike RandLikeExt RandnLike ReduceAll ReduceMin ReverseV2 Roll
    ScatterNd ScatterValue SmoothL1Loss SoftmaxCrossEntropyWithLogits Sort SparseSoftmaxCrossEntropyWithLogits Std
    TensorScatterAdd TensorScatterElements TensorScatterUpdate TopK TraceExt Triu UnsortedSegmentSum Var VarMean
    View
""".split()
# kernels that packages beside the framework bring; a user declares them with register_op
FOREIGN = ("mhc_head", "mhc_post", "mhc_pre_cmhc", "mhc_pre_sinkhorn", "npu_dense_lightning_indexer",
           "npu_sparse_flash_attention", "npu_sparse_lightning_indexer", "situ_glu")


def listed() -> list:
    """All names, sorted."""
    return sorted({*PUBLIC, *MODEL, *ENTRIES, *PROGRAMS})

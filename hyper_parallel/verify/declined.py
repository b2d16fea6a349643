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
"""Sound rows that the rules decline all the same, each for a reason; `needless.py` finds them.

A needless refusal that no decision here covers is a row to add, and a complete run of the verifier fails on it.
"""
from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """Rows that are declined.

    Attributes:
        reason: why, one sentence.
        ops: names of operations, separated by blanks; empty for all.
        rows: regular expression found in the row's text.
    """

    reason: str
    ops: str = ""
    rows: str = ""

    def covers(self, op: str, row: str) -> bool:
        """True when the row of this operation is one of these."""
        return (not self.ops or op in self.ops.split()) and re.search(self.rows, row) is not None


_BIASED = "Addbmm Addmm Addmv Baddbmm InplaceAddmm Conv1DExt Conv2DExt Conv3DExt Dense Addcmul AddcmulExt"
_ONE_PENDING = r"^[^P]*P\([a-z]+\)[^P]* -> P"
DECISIONS = (
    Decision("a pending product passes movement alone: nothing is multiplied into it", rows=r"P\(prod\)"),
    Decision("a test is reduced first: its result is a flag that programs branch on",
             "Any AnyExt BitwiseAndScalar BitwiseAndTensor BitwiseNot BitwiseOrScalar BitwiseOrTensor CountNonZero "
             "DeprecatedReduceAny EqScalar Equal EqualExt Greater GreaterEqual GreaterEqualScalar IsClose IsFinite "
             "IsInf IsNan IsNegInf Less LessEqual LessScalar LogicalAnd LogicalNot LogicalOr NeScalar NotEqual "
             "ReduceAll ReduceAny"),
    Decision("a cast to a narrower or another kind of number may overflow or truncate an addend",
             "Assign Cast InplaceCopy ToDevice ToDtype ToOther TypeAs"),
    Decision("a bias is pending only where the product is", _BIASED, _ONE_PENDING),
    Decision("the map is affine, not linear, in this operand", "BCEWithLogitsLoss BinaryCrossEntropy KLDiv Lerp "
             "NormalFloatTensor NormalTensorFloat NormalTensorTensor OneHot OneHotExt PReLU", r"P\("),
    Decision("scale, shift and class weights come whole: other results do not depend on them",
             "AddLayerNormV2 AddRmsNorm GroupNorm LayerNorm LayerNormExt NLLLoss NLLLoss2d RmsNorm", r"P\("),
    Decision("other results (statistics of the softmax) do not depend on this operand", "FlashAttentionScore", r"P\("),
    Decision("what an extremum leaves out may lie outside the domain, and give nan",
             "Acosh AcoshExt InplaceLog Log Log10 Log1p Log2 Pow PowScalarTensor PowTensorScalar Rsqrt Sqrt",
             r"P\((max|min)\)"),
    Decision("where it turns flat, a gradient may reach a rank that does not hold the extremum (not in this draw)",
             "ClampScalar ClampTensor Hardtanh InplaceClampScalar InplaceClampTensor InplaceHardtanh Maximum Minimum "
             "ReLU6", r"P\((max|min)\)"),
    Decision("it steps down or rounds for some thresholds, so it is not monotone for all",
             "HShrink InplaceThreshold Round Softplus SoftplusExt Threshold", r"P\((max|min)\)"),
    Decision("the sign of a bit pattern may flip", "LeftShift RightShift", r"P\("),
    Decision("nan and infinities among the addends are not those of the sum", "NanToNum Nansum", r"P\("),
    Decision("a fill with -inf hides the operand; other values do not", "InplaceMaskedFillScalar MaskedFillScalar",
             r"P\("),
    Decision("what is scattered need not hit every place, so an extremum alone would lose the target",
             "IndexPut InplaceIndexPut MoeTokenUnpermute ScatterAddExt", r"P\((max|min)\)"),
    Decision("a cut of a dimension of size 1 leaves all ranks but one empty",
             "InplaceIndexPut InplaceScatterAdd RotaryPositionEmbedding Scatter ScatterAddExt", r"S\("),
    Decision("the weight is renormalised, or its gradient scaled, by all indices of the call", "Embedding", r"S\("),
    Decision("the window covers the dimension for this kernel size alone", "Conv3DExt", r"S\("),
    Decision("the shape of the result depends on data, so it is made of replicas alone",
             "BincountExt MaskedSelect RepeatInterleaveTensor"),
    Decision("one tensor alone is not concatenated", "Concat", r"^S\(\d\) -> "),
    Decision("indices must be whole where they address the other operand's rows", "MoeTokenUnpermute", r"S\("),
)


def reason_for(op: str, row: str) -> str | None:
    """Why a sound row of an operation is declined, or None when nobody decided.

    Args:
        op: operation name.
        row: its text, "P(sum), R -> P(sum)".

    Examples:
        >>> reason_for("Sqrt", "P(min) -> P(min)")
        'what an extremum leaves out may lie outside the domain, and give nan'
        >>> reason_for("Outer", "R, S(0) -> S(1)") is None
        True
    """
    return next((d.reason for d in DECISIONS if d.covers(op, row)), None)

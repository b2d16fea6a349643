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
"""Meaning of in-place operations: the value that the target holds afterwards, which keeps the target's element type."""
from __future__ import annotations

import numpy as np

from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.references import elementwise as plain_forms
from hyper_parallel.verify.registry import reference

_PAIR = tuple(Pattern(f"input=ab other={other}") for other in ("ab", "b", "a1", "."))
_SCALARS = tuple(Pattern("input=ab", other=value, _degenerate=value == 0) for value in (2, -0.5, 0))
_ALPHAS = (Pattern("input=ab other=ab", alpha=-2), Pattern("input=ab", other=3, alpha=2))
_BY = tuple(Pattern(f"input=ab other={other}/factor") for other in ("ab", "b", "a1", "."))
_BY_SCALAR = tuple(Pattern("input=ab", other=value) for value in (2, -4))
_MODES = tuple(Pattern("input=ab", other=value, rounding_mode=mode) for value in (2, -2) for mode in ("floor", "trunc"))

reference("InplaceAddExt InplaceAddsExt", plain_forms.add, *_PAIR, *_SCALARS, *_ALPHAS)
reference("InplaceSubExt InplaceSubScalar", plain_forms.sub, *_PAIR, *_SCALARS, *_ALPHAS)
reference("AssignAdd", plain_forms.add, *_PAIR[:1], *_SCALARS[:1])
reference("AssignSub", plain_forms.sub, *_PAIR[:1], *_SCALARS[:1])
reference("InplaceMul InplaceMuls", plain_forms.mul, *_PAIR, *_SCALARS)
reference("InplaceDiv InplaceDivs", plain_forms.div, *_BY, *_BY_SCALAR)
reference("InplaceDivMod InplaceDivMods", plain_forms.div, *_BY, *_BY_SCALAR, *_MODES)
reference("InplaceFloorDivide InplaceFloorDivides", plain_forms.floor_div, *_BY, *_BY_SCALAR)
reference("InplaceRemainderTensorTensor InplaceRemainderTensorScalar",
          lambda v: np.remainder(v["input"], v["other"]), *_BY, *_BY_SCALAR)
reference("InplaceClampScalar", plain_forms.clamp, *plain_forms.CLAMPED)
reference("InplaceClampTensor", plain_forms.clamp, *plain_forms.CLAMPED_BY)
reference("InplaceMaskedFillScalar", plain_forms.masked_fill, *plain_forms.FILLED)
reference("InplaceMaskedFillTensor", plain_forms.masked_fill, *plain_forms.FILLED_BY)


def copied(v: dict):
    """other, in the shape and type of input."""
    x, other = v["input"], np.broadcast_to(v["other"], v["input"].shape)
    return other if other.dtype == x.dtype else other.astype(x.dtype)


def filled(v: dict):
    """One value in the shape of input."""
    value = v["value"]
    shape = v["input"].shape
    return np.full(shape, value, v["input"].dtype) if isinstance(value, (int, float)) else np.broadcast_to(value, shape)


reference("InplaceCopy Assign", copied, Pattern("input=ab other=ab"), Pattern("input=ab other=b"),
          Pattern("input=ab/digit@float32 other=ab/digit@float16", _grad=False),
          Pattern("input=ab/digit@float16 other=ab/digit@float32", _grad=False),
          Pattern("input=ab/int other=ab", _grad=False))
reference("InplaceZero", lambda v: np.zeros_like(v["input"]), Pattern("input=ab", _degenerate=True))
reference("InplaceFillScalar", filled, *(Pattern("input=ab", value=value, _degenerate=True) for value in (0, 2, -1.5)))
reference("InplaceFillTensor", filled, Pattern("input=ab value=.", _degenerate=True))

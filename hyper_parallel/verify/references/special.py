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
"""Meaning of operations that fit no larger family."""
from __future__ import annotations

import math

import numpy as np

from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.references import matmul as products
from hyper_parallel.verify.references import unary
from hyper_parallel.verify.references.unary import _tanh_gelu, _tanh_gelu_slope
from hyper_parallel.verify.registry import reference
from hyper_parallel.verify.tape import elementwise, plain


def histogram(v: dict):
    """Counts in equal bins over [min, max], or over the range of the data."""
    x = v["input"]
    span = (v["min"], v["max"]) if v["min"] != v["max"] else (x.min(initial=0), x.max(initial=0))
    return np.histogram(x, v["bins"], span)[0].astype(x.dtype)


def _axis(v: dict):
    return v["dim"] if v["dim"] is None or isinstance(v["dim"], int) else tuple(v["dim"])


def spread(root: bool):
    """(deviation or variance, mean)."""

    def function(v: dict) -> tuple:
        x, axis, keep = v["input"], _axis(v), bool(v["keepdim"])
        value = np.var(x, axis, ddof=v["correction"], keepdims=keep)
        return np.asarray(np.sqrt(value) if root else value), np.asarray(np.mean(x, axis, keepdims=keep))

    return function


def kth(position):
    """(values, indices) of the element at a position of the order along a dimension."""

    def function(v: dict) -> tuple:
        x, dim = v["input"], v["dim"]
        index = np.take(np.argsort(x, dim, kind="stable"), [position(v, x.shape[dim])], dim)
        values = np.take_along_axis(x, index, dim)
        return (values, index) if v["keepdim"] else (np.squeeze(values, dim), np.squeeze(index, dim))

    return function


def addbmm(v: dict):
    """beta * addend + alpha * the sum over the batch of the products."""
    return v["input"] * v["beta"] + np.einsum("bmk,bkn->mn", v["mat1"], v["mat2"]) * v["alpha"]


def prelu(v: dict):
    """x, or its multiple by the slope of its channel where negative."""
    x, weight = v["input"], v["weight"]
    slope = np.reshape(weight, (1, -1) + (1,) * (x.ndim - 2)) if x.ndim > 1 else weight
    return np.where(plain(x) > 0, x, x * slope)


def nan_to_num(v: dict):
    """nan and infinities replaced."""
    x = plain(v["input"])
    ends = {"nan": v["nan"] or 0.0, "posinf": v["posinf"], "neginf": v["neginf"]}
    return np.where(np.isfinite(x), v["input"], np.nan_to_num(x, **ends))


def shrunk(x, bound: float, soft: bool):
    """Zero within the bound; outside x, or x moved towards zero."""
    moved = x - bound * np.sign(plain(x)) if soft else x
    return np.where(np.abs(plain(x)) > bound, moved, np.zeros_like(plain(x)))


_TWO = (Pattern("input=ab/digit"), Pattern("input=ab/digit", dim=0), Pattern("input=ab/digit", dim=(1,), keepdim=True))
_DIM = (Pattern("input=nb/distinct", _sizes={"n": 5}, dim=0),
        Pattern("input=bn/distinct", _sizes={"n": 4}, dim=-1, keepdim=True))
reference("EqualExt", lambda v: np.asarray(np.array_equal(v["input"], v["other"])),
          Pattern("input=ab/bool other=ab/bool", _degenerate=True),
          Pattern("input=ab/int other=ab/int", _degenerate=True),
          Pattern("input=ab/index(1) other=ab/index(1)", _degenerate=True), Pattern("input=./bool other=./bool"))
reference("HistcExt", histogram, Pattern("input=ab/digit", bins=4, min=-4, max=4, _grad=False),
          Pattern("input=ab/digit", bins=3, _grad=False))
reference("StdMean", spread(True), *_TWO, differentiable=False, approximate=True)
reference("VarMean", spread(False), *_TWO, differentiable=False, approximate=True)
reference("MedianExt", lambda v: np.reshape(np.take(np.sort(np.ravel(v["input"])), [(v["input"].size - 1) // 2]), ()),
          Pattern("input=ab/distinct"))
reference("MedianDim", kth(lambda v, n: (n - 1) // 2), *_DIM)
reference("Kthvalue", kth(lambda v, n: v["k"] - 1), Pattern("input=nb/distinct", _sizes={"n": 5}, dim=0, k=2))
reference("Nansum", lambda v: np.asarray(np.nansum(v["input"], _axis(v), keepdims=bool(v["keepdim"]))),
          Pattern("input=ab/quarter"), Pattern("input=ab/quarter", dim=0),
          Pattern("input=ab/quarter", dim=1, keepdim=True),
          differentiable=False)
reference("NanToNum", nan_to_num, Pattern("input=ab/special", nan=1.0, posinf=3.0, neginf=-3.0, _grad=False),
          Pattern("input=ab"))
reference("DiagExt", lambda v: np.diag(v["input"], v["diagonal"]), Pattern("input=a"), Pattern("input=ab", diagonal=1))
reference("Addbmm", addbmm, Pattern("input=mn mat1=bmk mat2=bkn"),
          Pattern("input=1n mat1=bmk mat2=bkn", alpha=2, beta=-1))
reference("InplaceAddmm", products.added, Pattern("input=mn mat1=mk mat2=kn"))
reference("PReLU", prelu, Pattern("input=ab weight=b"), Pattern("input=abc weight=1"))
reference("SearchSorted", lambda v: np.searchsorted(np.sort(v["sorted"]), v["values"]),
          Pattern("sorted=n/digit values=ab/digit", _degenerate=True))
reference("LeftShift", lambda v: np.left_shift(v["input"], v["other"]), Pattern("input=ab/int other=b/natural"),
          Pattern("input=ab/int", other=2))
reference("RightShift", lambda v: np.right_shift(v["input"], v["other"]), Pattern("input=ab/int other=b/natural"))
reference("Threshold InplaceThreshold", lambda v: np.where(plain(v["input"]) > v["threshold"], v["input"],
                                                           np.full(v["input"].shape, v["value"])),
          Pattern("input=ab", threshold=0.5, value=-3.0), Pattern("input=ab", threshold=-1.0, value=2.0))
reference("HShrink", lambda v: shrunk(v["input"], v["parameter"], False), Pattern("input=ab/digit", parameter=3.0))
reference("SoftShrink", lambda v: shrunk(v["input"], v["lambd"], True), Pattern("input=ab/digit", lambd=2.0))


def _elu(v: dict):
    """x above 0, alpha (exp(x) - 1) below."""
    alpha = v["alpha"]
    unit = elementwise(lambda a: a if a > 0 else alpha * math.expm1(a),
                       lambda g, o, a: g * np.where(a > 0, 1.0, o + alpha))
    return unit(v["input"])


def _celu(v: dict):
    """x above 0, alpha (exp(x / alpha) - 1) below."""
    alpha = v["alpha"]
    unit = elementwise(lambda a: a if a > 0 else alpha * math.expm1(a / alpha),
                       lambda g, o, a: g * np.where(a > 0, 1.0, o / alpha + 1))
    return unit(v["input"])


_ALPHAS = (Pattern("input=ab/unit"), Pattern("input=ab/unit", alpha=2.0), Pattern("input=ab/unit", alpha=-1.0))
_logit = elementwise(lambda a: math.log(a / (1 - a)), lambda g, o, a: g / (a * (1 - a)))
_gelu = elementwise(_tanh_gelu, lambda g, o, a: g * np.vectorize(_tanh_gelu_slope, otypes=[float])(a, o))
reference("Elu EluExt InplaceElu", _elu, *_ALPHAS)
reference("CeLU", _celu, *_ALPHAS[:2])
reference("Logit", lambda v: _logit(v["input"]), Pattern("input=ab/probability"))
reference("NpuGelu", lambda v: _gelu(v["input"]), Pattern("input=ab"))
reference("InplaceHardtanh", lambda v: unary.bounded(float(v["min_val"]), float(v["max_val"]))(v["input"]),
          Pattern("input=ab"))

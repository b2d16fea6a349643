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
"""Operations that fit no larger family: whole-tensor equality, histograms, thresholds, statistics in pairs, diagonals.

    equal:        S(d), S(d) -> P(all)
    histogram:    S(d) -> P(sum) for a static range; a range taken from the data needs the whole tensor
    x*beta + sum_b a_b @ b_b:  the batch is contracted too, so S(b), S(b) -> P(sum) and the addend enters once
"""
from __future__ import annotations

from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters, normal_dim, normal_dims
from hyper_parallel.core.shard.ops.nature import CLAMPED, NONLINEAR, RISING, Nature, bind_nature, binder
from hyper_parallel.core.shard.ops.parallel_activation import exponential
from hyper_parallel.core.shard.ops.parallel_index import pick_signature
from hyper_parallel.core.shard.ops.parallel_matmul import _added, product_signature
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.ops.parallel_reduce import reduced_shape, reduction_signature, reducer
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError


def bind_equal(call: Call) -> Bound:
    """One answer for two whole tensors of one shape."""
    x, y = call["input"], call["other"]
    if x.shape != y.shape:
        raise LayoutError(f"{call.name}: the shapes {x.shape} and {y.shape} differ. Compare the shapes first.")
    names = letters(len(x.shape))
    signature = Signature(call.name, (names, names), ((),), reduces=dict.fromkeys(names, "all"),
                          no_grad=frozenset((0, 1)))
    return Bound(signature, ((),), identity=True)


def bind_histogram(call: Call) -> Bound:
    """Counts per bin; with min = max = 0 the range is that of the data."""
    x, bins = call["input"], call["bins"]
    names = letters(len(x.shape))
    ranged = call["min"] != call["max"]
    signature = Signature(call.name, (names if ranged else (None,) * len(names),), ((None,),),
                          reduces=dict.fromkeys(names, "sum") if ranged else {}, no_grad=frozenset((0,)))
    outside = call["max"] + 1  # a value in no bin, for an empty shard
    return Bound(signature, ((bins,),), identity=outside)


def bind_two_statistics(call: Call) -> Bound:
    """(deviation or variance, mean): reduced dimensions must be whole."""
    x, keepdim = call["input"], bool(call["keepdim"])
    dims = normal_dims(call.name, call["dim"], len(x.shape))
    shape = reduced_shape(x.shape, dims, keepdim)
    return Bound(reduction_signature(call.name, len(x.shape), dims, keepdim, None, outputs=2), (shape, shape),
                 multi=True)


def bind_median(call: Call) -> Bound:
    """The median of everything: all dimensions must be whole."""
    ndim = len(call["input"].shape)
    return Bound(reduction_signature(call.name, ndim, tuple(range(ndim)), False, None), ((),))


def bind_kth(call: Call) -> Bound:
    """(values, indices) along one dimension, which must be whole."""
    x, keepdim = call["input"], bool(call["keepdim"])
    dims = (normal_dim(call.name, call["dim"], len(x.shape)),)
    shape = reduced_shape(x.shape, dims, keepdim)
    return Bound(reduction_signature(call.name, len(x.shape), dims, keepdim, None, outputs=2), (shape, shape),
                 multi=True)


def bind_diag(call: Call) -> Bound:
    """A matrix from a vector, or a vector from a matrix; positions change, so everything must be whole."""
    x, offset = call["input"], abs(call["diagonal"])
    if len(x.shape) not in (1, 2):
        raise LayoutError(f"{call.name} takes a vector or a matrix. Got {x.shape}.")
    if len(x.shape) == 1:
        shape = (x.shape[0] + offset,) * 2
    else:
        down, right = max(-call["diagonal"], 0), max(call["diagonal"], 0)
        shape = (max(min(x.shape[0] - down, x.shape[1] - right), 0),)
    return Bound(pick_signature(call.name, (None,) * len(x.shape), (None,) * len(shape)), (shape,))


def bind_addbmm(call: Call) -> Bound:
    """beta * addend + alpha * the sum over the batch of x @ w."""
    addend, x, w = call["input"], call["mat1"], call["mat2"]
    if len(x.shape) != 3 or len(w.shape) != 3 or len(addend.shape) != 2:
        raise LayoutError(f"{call.name} takes a matrix and two batches of matrices. Got {addend.shape}, {x.shape} and "
                          f"{w.shape}.")
    shape = (x.shape[1], w.shape[2])
    own = tuple(c if n == m else None for c, n, m in zip(("m", "n"), addend.shape, shape))
    base = product_signature(call.name, ("b", "m", "k"), ("b", "k", "n"), ("m", "n"), own)
    signature = Signature(call.name, (own, ("b", "m", "k"), ("b", "k", "n")), (("m", "n"),), reduces=base.reduces,
                          terms=((1, 2), (0,)))
    return Bound(signature, (shape,))


def bind_channels(call: Call) -> Bound:
    """A slope per channel (dimension 1), or one for all: nonlinear in x, linear in the slope."""
    x, weight = call["input"], call["weight"]
    names = letters(len(x.shape))
    own = (names[1],) if len(x.shape) > 1 and x.shape[1] == weight.shape[0] else (None,)
    return Bound(Signature(call.name, (names, own), (names,)), (x.shape,))


def bind_search(call: Call) -> Bound:
    """Positions in a sorted vector, which must be whole."""
    row, values = call["sorted"], call["values"]
    if len(row.shape) != 1 or not isinstance(values, Operand) or call["sorter"] is not None:
        raise LayoutError(f"{call.name} has a rule for one sorted vector without sorter. Got {row.shape}.")
    names = letters(len(values.shape))
    return Bound(Signature(call.name, ((None,), names), (names,), no_grad=frozenset((0, 1))), (values.shape,))


def bind_shifted(call: Call) -> Bound:
    """Bits shifted."""
    return bind_nature(call, ("input", "other"), Nature(no_grad=("input", "other")))


declare("EqualExt", "input:t other:t", bind_equal)
declare("HistcExt", "input:t bins=100 min=0 max=0", bind_histogram)
for _name in ("StdMean", "VarMean"):
    declare(_name, "input:t dim=None correction=1 keepdim=False", bind_two_statistics)
declare("MedianExt", "input:t", bind_median)
declare("MedianDim", "input:t dim=-1 keepdim=False", bind_kth)
declare("Kthvalue", "input:t k dim=-1 keepdim=False", bind_kth)
declare("Nansum", "input:t dim=None keepdim=False dtype=None", reducer("sum", linear=False), needs_dtype=True)
declare("NanToNum", "input:t nan=None posinf=None neginf=None", binder(NONLINEAR))
declare("DiagExt", "input:t diagonal=0", bind_diag)
declare("Addbmm", "input:t mat1:t mat2:t beta=1 alpha=1", bind_addbmm)
declare("InplaceAddmm", "input:t mat1:t mat2:t beta=1 alpha=1", _added((2, 2)), inplace=True)
declare("PReLU", "input:t weight:t", bind_channels)
declare("SearchSorted", "sorted:t values:t sorter:t=None dtype=None right=False", bind_search)
for _name in ("LeftShift", "RightShift"):
    declare(_name, "input:t other:t", bind_shifted)
declare("Threshold", "input:t threshold value", binder(NONLINEAR))
declare("InplaceThreshold", "input:t threshold value", binder(NONLINEAR), inplace=True)
for _name in ("HShrink", "Logit"):
    declare(_name, "input:t parameter=0.5", binder(NONLINEAR))
declare("CeLU", "input:t alpha=1.0", binder(exponential))
declare("SoftShrink", "input:t lambd=0.5", binder(RISING))
declare("NpuGelu", "input:t approximate='none'", binder(NONLINEAR))
declare("InplaceElu", "input:t alpha=1.0", binder(exponential), inplace=True)
declare("InplaceHardtanh", "input:t min_val=-1 max_val=1", binder(CLAMPED), inplace=True)

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
"""Reductions, scans, sorting and counting that the CPU build lacks or gets wrong."""
from __future__ import annotations

import math

import numpy as np
from mindspore import mint, ops
from mindspore import dtype as mstype

from hyper_parallel.platform.mindspore.cpu_kernels_common import (as_dtype, axes_of, axis, clone, constant, extent,
                                                                  filled, host, is_float, like, max_over, number,
                                                                  reduced_shape, scaled, sum_over, widened)


def _order(values, dim, descending):
    """Stable order along a dim: equal elements keep theirs, and nan counts as the greatest."""
    if not descending:
        return np.argsort(values, axis=dim, kind="stable")
    backwards = np.argsort(np.flip(values, dim), axis=dim, kind="stable")
    return np.flip(values.shape[dim] - 1 - backwards, dim)


def _pick(x, dim, order):
    """The values at these places along a dim, differentiable, and the places."""
    index = constant(order, mstype.int64)
    if x.ndim == 0:
        return mint.reshape(mint.gather(mint.reshape(x, (1,)), 0, mint.reshape(index, (1,))), ()), index
    return mint.gather(x, dim, index), index


def _lines(x):
    """The values, with at least one dimension."""
    return np.atleast_1d(host(x))


def topk(x, k, dim=-1, largest=True, sorted=True):  # pylint: disable=redefined-builtin,unused-argument
    """The k largest or smallest along a dim, sorted, and where they stand; of equal ones the first."""
    dim = axis(x.ndim, dim)
    order = np.take(_order(_lines(x), dim, largest), np.arange(k), axis=dim)
    return _pick(x, dim, order.reshape(order.shape if x.ndim else ()))


def sort(x, dim=-1, descending=False, stable=False):  # pylint: disable=unused-argument
    """The values along a dim in order, and where they stood; always stable."""
    dim = axis(x.ndim, dim)
    return _pick(x, dim, _order(_lines(x), dim, descending).reshape(x.shape))


def argsort(x, dim=-1, descending=False, stable=False):  # pylint: disable=unused-argument
    """Places along a dim in the order of their values; always stable."""
    return constant(_order(_lines(x), axis(x.ndim, dim), descending).reshape(x.shape), mstype.int64)


def _arg_extreme(find):
    def run(x, dim=None, keepdim=False):
        where = find(_lines(x), axis=None if dim is None else axis(x.ndim, dim), keepdims=bool(keepdim) and x.ndim > 0)
        return constant(np.asarray(where).reshape(reduced_shape(x.shape, dim, keepdim)), mstype.int64)
    return run


def median_dim(x, dim=-1, keepdim=False):
    """The lower median along a dim and where it stands."""
    dim = axis(x.ndim, dim)
    order = _order(_lines(x), dim, False)
    middle = np.take(order, [(order.shape[dim] - 1) // 2], axis=dim)
    values, index = _pick(x, dim, middle.reshape(middle.shape if x.ndim else ()))
    shape = reduced_shape(x.shape, dim, keepdim)
    return mint.reshape(values, shape), mint.reshape(index, shape)


def median(x):
    """The lower median of all elements."""
    return median_dim(mint.reshape(x, (x.size,)), 0)[0]


def _scan_extreme(better):
    def run(x, dim):
        dim = axis(x.ndim, dim)
        values = np.moveaxis(_lines(x), dim, 0)
        best = np.zeros(values.shape, np.int64)
        for i in range(1, len(values)):
            held = np.take_along_axis(values, best[i - 1:i], 0)[0]
            best[i] = np.where(better(values[i], held) | np.isnan(values[i]), i, best[i - 1])
        return _pick(x, dim, np.moveaxis(best, 0, dim).reshape(x.shape))
    return run


def any_over(x, dim=None, keepdim=False):
    """Logical or; the CPU kernel reads wide elements byte by byte and is wrong for them."""
    truth = x if x.dtype == mstype.bool_ else x != 0
    if truth.size == 0:
        return filled(truth, reduced_shape(x.shape, dim, keepdim), False)
    return ops.ReduceAny(keep_dims=bool(keepdim))(truth, axes_of(x.ndim, dim))


def var_mean(x, dim=None, correction=1, keepdim=False):
    """Variance with divisor n - correction, and mean."""
    wide, count = widened(x), extent(x.shape, dim)
    mean = scaled(sum_over(wide, dim, True), _reciprocal(count))
    square = sum_over((wide - mean) * (wide - mean), dim, keepdim)
    shape = reduced_shape(x.shape, dim, keepdim)
    return like(scaled(square, _reciprocal(max(count - correction, 0))), x), like(mint.reshape(mean, shape), x)


def _reciprocal(count):
    """1 / count; nan for a count of 0, as the mean of nothing."""
    return 1.0 / count if count else math.nan


def var(x, dim=None, correction=1, keepdim=False):
    """Variance with divisor n - correction."""
    return var_mean(x, dim, correction, keepdim)[0]


def std_mean(x, dim=None, correction=1, keepdim=False):
    """Standard deviation and mean."""
    variance, mean = var_mean(widened(x), dim, correction, keepdim)
    return like(_root(variance), x), like(mean, x)


def std(x, dim=None, correction=1, keepdim=False):
    """Standard deviation; its gradient is 0 where it is 0."""
    return std_mean(x, dim, correction, keepdim)[0]


def _root(square):
    """Square root whose gradient at 0 is 0 instead of nan."""
    zero = square == 0
    return mint.sqrt(square.masked_fill(zero, 1.0)).masked_fill(zero, 0.0)


def vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None):  # pylint: disable=redefined-builtin
    """(sum |x|^ord)^(1/ord), with its limits at 0 and at plus or minus infinity."""
    x = x if dtype is None else x.astype(as_dtype(dtype))
    size = mint.abs(widened(x))
    if ord == math.inf:
        out = max_over(size, dim, keepdim) if x.size else filled(x, reduced_shape(x.shape, dim, keepdim), 0)
    elif ord == -math.inf:
        out = -max_over(-size, dim, keepdim)
    elif ord == 0:
        out = sum_over((size != 0).astype(size.dtype), dim, keepdim)
    elif ord == 1:
        out = sum_over(size, dim, keepdim)
    elif ord == 2:
        out = _root(sum_over(size * size, dim, keepdim))
    else:
        out = _power_norm(size, ord, dim, keepdim)
    return like(out, x)


def _power_norm(size, power, dim, keepdim):
    total = sum_over(mint.pow(size, number(float(power), size)), dim, keepdim)
    zero = total == 0
    return mint.pow(total.masked_fill(zero, 1.0), number(1.0 / power, size)).masked_fill(zero, 0.0)


def lp_norm(x, p=2, dim=None, keepdim=False, epsilon=1e-12):
    """The p-norm, no smaller than epsilon."""
    del epsilon
    return vector_norm(x, p, dim, keepdim)


def logsumexp(x, dim, keepdim=False):
    """log(sum(exp(x))) around the maximum, so that nothing overflows."""
    wide = widened(x if is_float(x) else x.astype(mstype.float32))
    top = ops.stop_gradient(max_over(wide, dim, True))
    top = top.masked_fill(mint.abs(top) == math.inf, 0.0)
    total = mint.log(sum_over(mint.exp(wide - top), dim, True)) + top
    total = mint.reshape(total, reduced_shape(x.shape, dim, keepdim))
    return like(total, x) if is_float(x) else total


def cumsum(x, dim, dtype=None):
    """Running sum along a dim; integers sum in int64."""
    dtype = as_dtype(dtype) or (x.dtype if is_float(x) else mstype.int64)
    x = x if x.dtype == dtype else x.astype(dtype)
    if x.ndim == 0 or x.size == 0:
        return clone(x)
    return like(ops.cumsum(widened(x), axis(x.ndim, dim)), x)


def count_nonzero(x, dim=None):
    """Number of elements that are not 0, int64."""
    return sum_over((x != 0).astype(mstype.int64), dim)


def equal(x, other):
    """0-d bool: same shape and all elements equal."""
    return constant(x.shape == other.shape and bool(np.all(host(x) == host(other))))


def histogram(x, bins=100, min=0, max=0):  # pylint: disable=redefined-builtin
    """Counts in equal bins over [min, max], or over the range of the data when both are 0."""
    values = host(x).reshape(-1)
    span = (min, max)
    if min == max == 0 and values.size:
        span = (values.min(), values.max())
    if span[0] == span[1]:
        span = (span[0] - 1, span[1] + 1)
    return constant(np.histogram(values, bins, span)[0], x.dtype)


def unique(x, sorted=True, return_inverse=False, return_counts=False):  # pylint: disable=redefined-builtin
    """Distinct values, where each element's value stands among them, and how often each occurs."""
    del sorted, return_inverse, return_counts
    values = host(x)
    distinct, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (constant(distinct, x.dtype), constant(inverse.reshape(values.shape), mstype.int64),
            constant(counts, mstype.int64))


TABLE = {
    "TopkExt": topk, "SortExt": sort, "ArgSort": argsort, "ArgMaxExt": _arg_extreme(np.argmax),
    "ArgMinExt": _arg_extreme(np.argmin), "MedianDim": median_dim, "MedianExt": median,
    "Cummax": _scan_extreme(np.greater_equal), "CumminExt": _scan_extreme(np.less_equal),
    "AnyExt": any_over, "Any": any_over, "ReduceAny": any_over, "Var": var, "Std": std, "VarMean": var_mean,
    "StdMean": std_mean, "LinalgVectorNorm": vector_norm, "LpNormV2": lp_norm, "LogSumExp": logsumexp,
    "CumsumExt": cumsum, "CountNonZero": count_nonzero, "EqualExt": equal, "HistcExt": histogram, "Unique2": unique,
}

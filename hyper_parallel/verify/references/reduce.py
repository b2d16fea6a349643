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
"""Meaning of reductions and of operations along a dimension."""
from __future__ import annotations

import numpy as np

from hyper_parallel.verify.kernels import kernel
from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference
from hyper_parallel.verify.tape import plain

DIMS = ({}, {"dim": 0}, {"dim": -1, "keepdim": True}, {"dim": (0, 2)}, {"dim": 1})


def reductions(domain: str = "real", *, choices=DIMS, **options) -> tuple:
    """One dimension, several, all; kept or not; and a tensor without dimensions."""
    return (*(Pattern(f"input=abc/{domain}", **choice, **options) for choice in choices),
            Pattern(f"input=ab/{domain}", **options), Pattern(f"input=./{domain}", _degenerate=True, **options))


def axis_of(v: dict):
    """The dimensions as numpy wants them: None for all."""
    dim = v.get("dim")
    if dim is None or dim in ((), []):
        return () if v.get("skip_mode") and dim is not None else None
    dim = tuple(dim) if isinstance(dim, (tuple, list)) else dim
    return None if np.ndim(plain(v["input"])) == 0 else dim


def converted(v: dict):
    """The input, in the type that a `dtype` argument asks for."""
    return v["input"] if v.get("dtype") is None else v["input"].astype(v["dtype"])


def reducing(function):
    """The reference of a numpy reduction."""

    def apply(v: dict):
        x, axis = converted(v), axis_of(v)
        return x * 1 if axis == () else function(x, axis=axis, keepdims=bool(v.get("keepdim", False)))

    return apply


@kernel("mean")
def local_mean(v: dict, dims: tuple, keepdim: bool, dtype, count: int):
    """This rank's addend of a mean: the local sum over the global extent."""
    return np.sum(converted({**v, "dtype": dtype}), axis=tuple(dims), keepdims=keepdim) / count


_PRIMITIVE = ({}, {"dim": 0}, {"dim": (-1,), "keepdim": True}, {"dim": (0, 2)})
# A cast before the reduction: one that widens keeps what is pending, one that narrows or truncates does not.
_TYPED = tuple(Pattern(f"input=ab/{source}", dim=0, dtype=target, _grad=False) for source, target in (
    ("digit@float16", "float32"), ("digit@float32", "float16"), ("quarter@float32", "int32")))
_TYPED_MEAN = tuple(Pattern(f"input=ab/{source}", dim=0, dtype=target, _grad=False, _approximate=True)
                    for source, target in (("digit@float16", "float32"), ("digit@float32", "float16")))
reference("SumExt DeprecatedSum", reducing(np.sum), *reductions(), *_TYPED)
reference("ReduceSum", reducing(np.sum), *reductions(choices=_PRIMITIVE),
          Pattern("input=ab", dim=(), skip_mode=True, _degenerate=True))
reference("MeanExt DeprecatedMean", reducing(np.mean), *reductions(), *_TYPED_MEAN)
reference("ReduceMean", reducing(np.mean), *reductions(choices=_PRIMITIVE))
reference("ProdExt DeprecatedProd", reducing(np.prod), *reductions("factor"))
reference("ReduceProd", reducing(np.prod), *reductions("factor", choices=_PRIMITIVE))
_EXTREME = (*reductions("distinct", choices=_PRIMITIVE), Pattern("input=ab/int", dim=0))
reference("ReduceMax DeprecatedMax", reducing(np.max), *_EXTREME)
reference("ReduceMin DeprecatedMin", reducing(np.min), *_EXTREME)
_FULL = (Pattern("input=abc/distinct"), Pattern("input=./real", _degenerate=True), Pattern("input=ab/int"))
reference("Max", reducing(np.max), *_FULL)
reference("Min", reducing(np.min), *_FULL)
_ALL, _ANY = ((*reductions(domain), Pattern("input=ab/bool", dim=0), Pattern("input=ab/natural", dim=0))
              for domain in ("mostly", "rarely"))
reference("ReduceAll", reducing(np.all), *_ALL, differentiable=False)
reference("AnyExt ReduceAny Any DeprecatedReduceAny", reducing(np.any), *_ANY, differentiable=False)
reference("CountNonZero", lambda v: np.asarray(np.count_nonzero(v["input"], axis_of(v)), np.int64),
          *(Pattern("input=abc/natural", **d) for d in ({}, {"dim": 0}, {"dim": (0, 2)})), Pattern("input=ab/bool"),
          differentiable=False)

# -- along a dimension that must be whole ------------------------------------------------------------------------------


def picked(argument):
    """(values, indices) of an extremum along a dimension."""

    def apply(v: dict):
        x, dim = v["input"], v["dim"]
        index = argument(x, axis=dim)
        index = np.expand_dims(index, dim)
        values = np.take_along_axis(x, index, dim)
        return (values, index) if v["keepdim"] else (np.squeeze(values, dim), np.squeeze(index, dim))

    return apply


def located(argument):
    """Index of an extremum; of the flattened tensor when no dimension is given."""

    def apply(v: dict):
        x, dim = plain(v["input"]), v["dim"]
        index = argument(x, axis=dim)
        return np.expand_dims(index, tuple(range(x.ndim)) if dim is None else dim) if v["keepdim"] else index

    return apply


def _moment(power: float):
    """Variance (power 1) or standard deviation (power 1/2)."""

    def apply(v: dict):
        x, axis, keep = v["input"], axis_of(v), bool(v["keepdim"])
        axes = tuple(range(x.ndim)) if axis is None else axis
        centred = x - np.mean(x, axis=axes, keepdims=True)
        count = np.prod([x.shape[a] for a in np.atleast_1d(axes)]) if x.ndim else 1
        total = np.sum(centred * centred, axis=axes, keepdims=keep) / (count - v.get("correction", v.get("ddof")))
        return total if power == 1 else np.sqrt(total)

    return apply


def logsumexp(v: dict):
    """log(sum(exp(x)))."""
    x, axis = plain(v["input"]), axis_of(v)
    top = np.max(x, axis=axis, keepdims=True)
    out = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return out if v["keepdim"] else np.squeeze(out, axis)


def norm(v: dict):
    """The Euclidean norm."""
    return np.sqrt(np.sum(np.square(v["input"]), axis=axis_of(v), keepdims=bool(v["keepdim"])))


_ONE = tuple(Pattern("input=abc/distinct", dim=d, keepdim=k) for d in (0, -1) for k in (False, True))
reference("MaxDim ArgMaxWithValue", picked(np.argmax), *_ONE)
reference("MinDim ArgMinWithValue", picked(np.argmin), *_ONE)
_WHERE = (*_ONE, Pattern("input=ab/distinct"))
reference("ArgMaxExt DeprecatedArgmax", located(np.argmax), *_WHERE, differentiable=False)
reference("ArgMinExt DeprecatedArgmin", located(np.argmin), *_WHERE, differentiable=False)
_WHOLE = tuple(Pattern("input=abc", **d) for d in DIMS)
reference("Var", _moment(1), *_WHOLE, Pattern("input=ab", dim=0, correction=0), approximate=True)
reference("Std", _moment(0.5), *_WHOLE, Pattern("input=ab", dim=0, correction=0), approximate=True)
_SPREAD = (*_WHOLE, Pattern("input=ab", dim=0, ddof=1))
reference("DeprecatedVar", _moment(1), *_SPREAD, approximate=True)
reference("DeprecatedStd", _moment(0.5), *_SPREAD, approximate=True)
reference("LogSumExp", logsumexp, *(Pattern("input=abc/unit", dim=d, keepdim=k) for d in (0, (0, 2)) for k in (0, 1)),
          approximate=True, differentiable=False)
reference("LinalgVectorNorm Norm", norm, *_WHOLE, approximate=True)


def cumsum(v: dict):
    """Running sums, possibly from the end, possibly without the element itself."""
    x, dim = converted(v), v["dim"]
    x = np.flip(x, dim) if v.get("reverse") else x
    out = np.cumsum(x, dim, dtype=x.dtype)
    out = out - x if v.get("exclusive") else out
    return np.flip(out, dim) if v.get("reverse") else out


def cumprod(v: dict):
    """Running products."""
    x, dim = v["input"], v["dim"]
    x = np.flip(x, dim) if v["reverse"] else x
    ones = np.ones_like(np.take(plain(x), [0], dim))
    factors = [np.prod(np.take(x, np.arange(i + 1 - bool(v["exclusive"])), dim), axis=dim, keepdims=True) + ones * 0
               for i in range(x.shape[dim])]
    out = np.concatenate(factors, dim)
    return np.flip(out, dim) if v["reverse"] else out


def running(better):
    """(values, indices) of running extrema."""

    def apply(v: dict):
        x, dim = v["input"], v["dim"]
        value = np.moveaxis(plain(x), dim, 0)
        index = np.zeros(value.shape, np.int64)
        best = value[:1]
        for i in range(len(value)):
            wins = better(value[i:i + 1], best)
            best = np.where(wins, value[i:i + 1], best)
            index[i] = np.where(wins[0], i, index[max(i - 1, 0)])
        index = np.moveaxis(index, 0, dim)
        return np.take_along_axis(x, index, dim), index

    return apply


_ALONG = tuple(Pattern("input=abc", dim=d) for d in (0, -1))
reference("CumsumExt", cumsum, *_ALONG, *_TYPED)
reference("CumSum", cumsum, *_ALONG, Pattern("input=ab", dim=0, exclusive=True),
          Pattern("input=ab", dim=1, reverse=True))
reference("CumProd", cumprod, *(Pattern("input=ab/factor", dim=d) for d in (0, -1)),
          Pattern("input=ab/factor", dim=0, exclusive=True), Pattern("input=ab/factor", dim=1, reverse=True))
_RUNNING = tuple(Pattern("input=ab/distinct", dim=d) for d in (0, -1))
reference("Cummax", running(np.greater_equal), *_RUNNING)
reference("Cummin CumminExt", running(np.less_equal), *_RUNNING)

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
"""Reductions over dimensions.

One mesh axis; k: reduced dimension, d: kept dimension:
    S(d) -> S(d)    S(k) -> P(sum), P(max), P(min), P(prod) or P(all), as the op combines shards; an empty shard
    contributes the identity. mean: local sum over the global extent, P(sum). any: P(max) of booleans.
    sum, mean, cumsum: P(sum), P(avg) -> same. amax: P(max) -> P(max); amin, prod, all likewise with their own op.
var, std, norms, logsumexp, argmax: a reduced dimension must be whole, and nothing pending.
"""
from __future__ import annotations

import functools
import math

from hyper_parallel.core.shard.declaration import Bound, Call, letters, normal_dim, normal_dims
from hyper_parallel.core.shard.ops.dtypes import accumulator, is_floating, keeps_sums
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError

_COMMUTES = {"max": ("max",), "min": ("min",), "prod": ("prod",), "all": ("all",)}


@functools.lru_cache(maxsize=4096)
def reduction_signature(name: str, ndim: int, dims: tuple, keepdim: bool, op: str | None, linear=False, pending=True,
                        outputs=1) -> Signature:
    """A reduction over `dims`; `op` tells how shards combine (None: not at all), `pending` whether pending ops pass."""
    names = letters(ndim)
    x = names if op else tuple(None if i in dims else c for i, c in enumerate(names))
    out = tuple(None if i in dims else c for i, c in enumerate(names) if keepdim or i not in dims)
    return Signature(name, (x,), (out,) * outputs, reduces={names[i]: op for i in dims} if op else {},
                     terms=((0,),) if linear and pending else (), commutes=_COMMUTES.get(op, ()) if pending else ())


def reduced_shape(shape: tuple, dims: tuple, keepdim: bool) -> tuple:
    """Shape after reducing `dims`."""
    return tuple(1 if i in dims else s for i, s in enumerate(shape) if keepdim or i not in dims)


def _dims(call: Call) -> tuple:
    """The reduced dimensions; none with `skip_mode` and an empty list, and none of a 0-d tensor."""
    dim = call["dim"]
    if not call["input"].shape or call.values.get("skip_mode") and dim in ((), []):
        return ()
    return normal_dims(call.name, dim, len(call["input"].shape))


def _keeps(call: Call) -> bool:
    """What is pending survives the cast that a `dtype` argument asks for, or that sums of small integers undergo."""
    if "dtype" not in call.values:
        return True
    source = call["input"].dtype
    target = accumulator(source) if call["dtype"] is None else call["dtype"]
    return source is None and call["dtype"] is None or keeps_sums(source, target)


def reducer(op: str | None, linear=False, identity=0):
    """The binder of a reduction whose shards combine by `op`; an identity "max" or "min" is that of the type."""

    def bind(call: Call) -> Bound:
        x, dims, keepdim = call["input"], _dims(call), bool(call.values.get("keepdim", False))
        _refuse_extras(call)
        signature = reduction_signature(call.name, len(x.shape), dims, keepdim, op, linear, _keeps(call))
        return Bound(signature, (reduced_shape(x.shape, dims, keepdim),), identity=identity)

    return bind


def _refuse_extras(call: Call) -> None:
    """Arguments of the deprecated methods that would apply once per rank."""
    for param, default in (("initial", None), ("where", True), ("return_indices", False)):
        if call.values.get(param, default) is not default:
            raise LayoutError(f"{call.name}: {param!r} has no rule. Apply it outside the reduction: max(dim=...) gives "
                              f"indices, where(mask, x, identity) selects.")


_bind_sum, _bind_whole_mean = reducer("sum", linear=True), reducer(None)


def bind_mean(call: Call) -> Bound:
    """The mean; over a cut dimension the local sum is divided by the global extent. Integer means truncate."""
    dtype = call.values.get("dtype")
    if not is_floating(call["input"].dtype if dtype is None else dtype):
        return _bind_whole_mean(call)
    summed, dims = _bind_sum(call), _dims(call)
    count = math.prod(call["input"].shape[d] for d in dims)
    static = {"dims": dims, "keepdim": bool(call["keepdim"]), "dtype": dtype, "count": count}

    def kernel(place):
        return ("mean", static) if place.inference.reduced else None

    return Bound(summed.signature, summed.out_shapes, kernel=kernel)


def bind_full(op: str):
    """The binder of an extremum over all dimensions."""

    def bind(call: Call) -> Bound:
        x = call["input"]
        dims = tuple(range(len(x.shape)))
        return Bound(reduction_signature(call.name, len(x.shape), dims, False, op), ((),), identity=op)

    return bind


def bind_whole(call: Call) -> Bound:
    """A nonlinear reduction: reduced dimensions must be whole."""
    x, dims, keepdim = call["input"], _dims(call), bool(call["keepdim"])
    signature = reduction_signature(call.name, len(x.shape), dims, keepdim, None)
    return Bound(signature, (reduced_shape(x.shape, dims, keepdim),))


def bind_pair(call: Call) -> Bound:
    """(values, indices) along one dimension, which must be whole."""
    x, keepdim = call["input"], bool(call["keepdim"])
    dims = (normal_dim(call.name, call["dim"], len(x.shape)),)
    shape = reduced_shape(x.shape, dims, keepdim)
    signature = reduction_signature(call.name, len(x.shape), dims, keepdim, None, outputs=2)
    return Bound(signature, (shape, shape), multi=True)


@functools.lru_cache(maxsize=1024)
def along_signature(name: str, ndim: int, dims: tuple, linear=False, outputs=1) -> Signature:
    """Shape is kept; the dimensions acted on must be whole."""
    names = tuple(None if i in dims else c for i, c in enumerate(letters(ndim)))
    return Signature(name, (names,), (names,) * outputs, terms=((0,),) if linear else ())


def scanner(linear=False, outputs=1):
    """The binder of an operation along one dimension that keeps the shape (cumulative sums and kin)."""

    def bind(call: Call) -> Bound:
        x = call["input"]
        dims = (normal_dim(call.name, call["dim"], len(x.shape)),)
        signature = along_signature(call.name, len(x.shape), dims, linear and _keeps(call), outputs)
        return Bound(signature, (x.shape,) * outputs, multi=outputs > 1)

    return bind


_X = "input:t dim=None keepdim=False"
_XD = _X + " dtype=None"
_PRIMITIVE = "input:t dim=() keepdim=False"

declare("SumExt", _XD, _bind_sum, needs_dtype=True)
declare("DeprecatedSum", "input:t dim=None dtype=None keepdim=False initial=None", _bind_sum, needs_dtype=True)
declare("ReduceSum", _PRIMITIVE + " skip_mode=False", _bind_sum)
declare("MeanExt", _XD, bind_mean, needs_dtype=True)
declare("DeprecatedMean", _X + " dtype=None", bind_mean, needs_dtype=True)
declare("ReduceMean", _PRIMITIVE, bind_mean, needs_dtype=True)
declare("ProdExt", _XD, reducer("prod", identity=1), needs_dtype=True)
declare("DeprecatedProd", _XD, reducer("prod", identity=1), needs_dtype=True)
declare("ReduceProd", _PRIMITIVE, reducer("prod", identity=1))
for _op, _names in {"max": ("ReduceMax", "DeprecatedMax"), "min": ("ReduceMin", "DeprecatedMin")}.items():
    for _name in _names:
        declare(_name, _PRIMITIVE + " initial=None where=True return_indices=False", reducer(_op, identity=_op))
declare("Max", "input:t", bind_full("max"))
declare("Min", "input:t", bind_full("min"))
declare("ReduceAll", _X, reducer("all", identity=True))
for _name in ("AnyExt", "ReduceAny", "Any", "DeprecatedReduceAny"):  # P(max) of booleans
    declare(_name, _X, reducer("max", identity=False))
declare("CountNonZero", "input:t dim=None", reducer("sum"))

for _name in ("MaxDim", "MinDim"):
    declare(_name, "input:t dim keepdim=False", bind_pair)
for _name in ("ArgMaxWithValue", "ArgMinWithValue"):
    declare(_name, "input:t dim=0 keepdim=False", bind_pair)
for _name in ("ArgMaxExt", "ArgMinExt", "DeprecatedArgmax", "DeprecatedArgmin"):
    declare(_name, _X, bind_whole)
for _name in ("Var", "Std"):
    declare(_name, "input:t dim=None correction=1 keepdim=False", bind_whole)
for _name in ("DeprecatedVar", "DeprecatedStd"):
    declare(_name, "input:t dim=None ddof=0 keepdim=False", bind_whole)
declare("LogSumExp", "input:t dim keepdim=False", bind_whole)
declare("LinalgVectorNorm", "input:t ord=2.0 dim=None keepdim=False dtype=None", bind_whole)
declare("Norm", "input:t p=2.0 dim=None keepdim=False dtype=None", bind_whole)

declare("CumsumExt", "input:t dim dtype=None", scanner(linear=True), needs_dtype=True)
declare("CumSum", "input:t dim exclusive=False reverse=False", scanner(linear=True))
declare("CumProd", "input:t dim exclusive=False reverse=False", scanner())
for _name in ("Cummax", "Cummin", "CumminExt"):
    declare(_name, "input:t dim", scanner(outputs=2))

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
"""Calls on tensors without elements, whose CPU kernels hand out uninitialised memory or fail.

A short tail of an uneven shard is empty, so these calls are everyday ones. Three things go wrong on the CPU build:
a reduction or a contraction over nothing returns whatever the memory held; the backward of a broadcast does the same
for the operand that was stretched; and some kernels refuse an empty input.
"""
from __future__ import annotations

import numpy as np
from mindspore import Tensor, mint
from mindspore import dtype as mstype
from mindspore.common.api import _no_grad

from hyper_parallel.platform.mindspore.cpu_kernels_common import (as_dtype, connected, contract, filled, full, is_float,
                                                                  product_shape, reduced_shape)
from hyper_parallel.platform.mindspore.cpu_kernels_movement import repeat


def tensors_of(args, kwargs=None) -> list:
    """Every tensor among the arguments, those inside lists included."""
    found = []
    for value in (*args, *(kwargs or {}).values()):
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found.extend(tensors_of(value))
    return found


def _lowest(dtype):
    if dtype == mstype.bool_:
        return False
    return -np.inf if dtype in (mstype.float16, mstype.float32, mstype.float64) else np.iinfo(
        mstype.dtype_to_nptype(dtype)).min


def _highest(dtype):
    if dtype == mstype.bool_:
        return True
    return np.inf if dtype in (mstype.float16, mstype.float32, mstype.float64) else np.iinfo(
        mstype.dtype_to_nptype(dtype)).max


def _summing(value):
    """A reduction that adds or multiplies: integers come out as int64, unless a dtype is asked for."""
    def run(x, dim=None, keepdim=False, dtype=None, **named):
        dim, keepdim = _named(dim, keepdim, named)
        dtype = as_dtype(dtype) or (x.dtype if is_float(x) else mstype.int64)
        return filled(x, reduced_shape(x.shape, dim, keepdim), value, dtype)
    return run


def _keeping(value):
    """A reduction in the dtype of its input; `value` may depend on that dtype."""
    def run(x, dim=None, keepdim=False, *_, **named):
        dim, keepdim = _named(dim, keepdim, named)
        chosen = value(x.dtype) if callable(value) else value
        return filled(x, reduced_shape(x.shape, dim, keepdim), chosen)
    return run


def _truth(value):
    def run(x, dim=None, keepdim=False, **named):
        dim, keepdim = _named(dim, keepdim, named)
        return full(reduced_shape(x.shape, dim, keepdim), value, mstype.bool_)
    return run


def _named(dim, keepdim, named):
    """The reduction's dims and flag under the older names too."""
    dim = named.get("axis", dim)
    keepdim = named.get("keepdims", named.get("keep_dims", keepdim))
    return dim, bool(keepdim)


def _matmul(a, b, transpose_a=False, transpose_b=False):
    """Zeros of the shape of a matrix product whose contracted extent is 0."""
    a = mint.transpose(a, -2, -1) if transpose_a else a
    b = mint.transpose(b, -2, -1) if transpose_b else b
    return contract(a, b)


def _dense(x, weight, bias=None):
    """A linear layer over a contracted extent of 0: the bias alone."""
    shape = product_shape(x.shape, (weight.shape[1], weight.shape[0]) if weight.ndim > 1 else weight.shape)
    out = connected(full(shape, 0, x.dtype), x, weight)
    return out if bias is None else out + bias


_SUM, _PRODUCT = _summing(0), _summing(1)
_MAX, _MIN, _MEAN = _keeping(_lowest), _keeping(_highest), _keeping(float("nan"))

# What a call with a non-empty result gives when its input has no elements; the identity of its reduction.
_IDENTITIES = {
    "SumExt": _SUM, "DeprecatedSum": _SUM, "Nansum": _SUM, "ReduceSum": _keeping(0),
    "MeanExt": _MEAN, "ReduceMean": _MEAN, "DeprecatedMean": _MEAN,
    "Max": _MAX, "ReduceMax": _MAX, "Min": _MIN, "ReduceMin": _MIN,
    "ProdExt": _PRODUCT, "DeprecatedProd": _PRODUCT, "ReduceProd": _keeping(1),
    "ReduceAll": _truth(True), "AnyExt": _truth(False), "Any": _truth(False), "ReduceAny": _truth(False),
    "MatMulExt": contract, "BatchMatMulExt": contract, "MatMul": _matmul, "BatchMatMul": _matmul, "Dense": _dense,
    "Tile": repeat,
}


def empty_safe(name: str, call):
    """`call`, the operation of this name on plain tensors, made right for arguments without elements.

    Consult it where a shape is known to hold a 0, once per cached plan rather than once per call: with elements
    everywhere the call runs as it is, behind one look at the sizes. Otherwise

    * a result without elements gets zero gradients for every operand and stays linked to them, so that a collective
      in the backward of an operand is still reached;
    * a reduction gives its identity (mean: nan), a contraction zeros, and their operands zero gradients;
    * anything else (cat, pad, in-place forms) runs as it is.

    Args:
        name: the intercepted name, e.g. "SumExt".
        call: the function that runs it, with the arguments of the intercepted call, already unpacked.

    Returns:
        A function with the arguments of `call`.

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor, mint
        >>> total = empty_safe("SumExt", mint.sum)
        >>> total(Tensor(np.ones((0, 2), np.float32)), 0).asnumpy().tolist()
        [0.0, 0.0]
        >>> total(Tensor(np.ones((3, 2), np.float32)), 0).asnumpy().tolist()
        [3.0, 3.0]
    """
    identity = _IDENTITIES.get(name)

    def run(*args, **kwargs):
        tensors = tensors_of(args, kwargs)
        if name.startswith("Inplace") or all(t.size for t in tensors):
            return call(*args, **kwargs)
        with _no_grad():
            out = (identity or call)(*args, **kwargs)
        if any(t.size for t in tensors_of((out,))):
            return (identity or call)(*args, **kwargs)
        return _link(out, tensors)

    return run


def _link(out, tensors):
    if isinstance(out, (tuple, list)):
        return type(out)(_link(part, tensors) for part in out)
    return connected(out, *tensors) if isinstance(out, Tensor) else out

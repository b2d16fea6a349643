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
"""What the CPU substitutes share: dtypes, dimensions, sums and products that survive empty tensors."""
from __future__ import annotations

import numpy as np
from mindspore import Tensor, mint
from mindspore import dtype as mstype
from mindspore._c_expression import typing
from mindspore.common._grad_function import _Function

FLOATS = (mstype.float16, mstype.bfloat16, mstype.float32, mstype.float64)
HALVES = (mstype.float16, mstype.bfloat16)


def as_dtype(dtype):
    """The dtype object for what a call carries: functions pass the framework's int code, methods the object."""
    return typing.type_id_to_type(dtype) if isinstance(dtype, int) else dtype


def is_float(x: Tensor) -> bool:
    """True for a tensor that can carry a gradient."""
    return x.dtype in FLOATS


def widened(x: Tensor) -> Tensor:
    """Half precision as float32, so that sums and transcendental functions keep its last bits; others unchanged."""
    return x.astype(mstype.float32) if x.dtype in HALVES else x


def like(value: Tensor, x: Tensor) -> Tensor:
    """The value in the dtype of x."""
    return value if value.dtype == x.dtype else value.astype(x.dtype)


def host(x: Tensor) -> np.ndarray:
    """The values as numpy, bfloat16 as float32."""
    return x.astype(mstype.float32).asnumpy() if x.dtype == mstype.bfloat16 else x.asnumpy()


def axes_of(ndim: int, dim) -> tuple:
    """Sorted non-negative dims; None and () mean all of them."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    return tuple(sorted({axis(ndim, d) for d in dims}))


def axis(ndim: int, dim: int) -> int:
    """Non-negative dim; a 0-d tensor counts as one of length 1.

    Raises:
        ValueError: when the dim is out of range.
    """
    size = max(ndim, 1)
    if not -size <= dim < size:
        raise ValueError(f"dim {dim} is out of range for a tensor of {ndim} dimensions; "
                         f"use a dim in [{-size}, {size - 1}].")
    return dim % size


def reduced_shape(shape: tuple, dim, keepdim: bool) -> tuple:
    """Shape after a reduction over these dims."""
    gone = axes_of(len(shape), dim)
    if keepdim:
        return tuple(1 if d in gone else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in gone)


class _Connected(_Function):
    """Identity on its first argument; every other floating argument gets a zero gradient of its own shape."""

    @staticmethod
    def forward(ctx, out, *sources):
        """Hand `out` through and remember what the zero gradients look like."""
        ctx.zeros = [(s.shape, s.dtype) if is_float(s) else None for s in sources]
        return out

    @staticmethod
    def backward(ctx, _):
        """Zeros, whatever comes in: an empty operand cannot influence a value."""
        return (None, *[z and mint.zeros(z[0], dtype=z[1]) for z in ctx.zeros])


def connected(out: Tensor, *sources: Tensor) -> Tensor:
    """`out` as a function of `sources` that does not depend on their values.

    The link matters: a backward boundary upstream holds a collective, and every rank has to reach it.
    """
    return _Connected.apply(out, *sources) if is_float(out) else out


def full(shape, value, dtype) -> Tensor:
    """A tensor filled with a Python scalar, in any dtype."""
    if dtype == mstype.bfloat16:
        return Tensor(np.full(shape, value, np.float32)).astype(dtype)
    return Tensor(np.full(shape, value).astype(mstype.dtype_to_nptype(dtype)))


def filled(x: Tensor, shape, value, dtype=None) -> Tensor:
    """A constant of this shape that stays linked to x."""
    return connected(full(shape, value, dtype or x.dtype), x)


def sum_over(x: Tensor, dim=None, keepdim: bool = False) -> Tensor:
    """Sum over dims; zero over nothing, where the CPU kernel hands out uninitialised memory."""
    if x.size == 0:
        dtype = x.dtype if is_float(x) else mstype.int64
        return filled(x, reduced_shape(x.shape, dim, keepdim), 0, dtype)
    return mint.sum(x, axes_of(x.ndim, dim), keepdim) if x.ndim else mint.sum(x)


def max_over(x: Tensor, dim=None, keepdim: bool = False) -> Tensor:
    """Maximum over dims; minus infinity over nothing. For floating tensors."""
    if x.size == 0:
        return filled(x, reduced_shape(x.shape, dim, keepdim), -np.inf)
    return mint.amax(x, axes_of(x.ndim, dim), keepdim) if x.ndim else x


def extent(shape: tuple, dim) -> int:
    """Number of elements that a reduction over these dims combines."""
    return int(np.prod([shape[d] for d in axes_of(len(shape), dim)], dtype=np.int64))


def product_shape(a: tuple, b: tuple) -> tuple:
    """Shape of a matrix product of operands of any rank."""
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    return (*np.broadcast_shapes(a[:-2], b[:-2]), *rows, *columns)


def contract(a: Tensor, b: Tensor) -> Tensor:
    """Matrix product; zeros when the contracted extent is 0, where the CPU kernel leaves the output unset."""
    if a.size and b.size:
        return mint.matmul(a, b)
    return connected(full(product_shape(a.shape, b.shape), 0, a.dtype), a, b)


def clone(x: Tensor) -> Tensor:
    """A copy with its own memory, differentiable; copy_ fails on a view while a gradient records."""
    return mint.cat([x], 0) if x.ndim else mint.reshape(mint.cat([mint.reshape(x, (1,))], 0), ())


def number(value, x: Tensor):
    """A Python scalar for arithmetic with x; beside float64 the CPU build would round it to float32 first."""
    return full((), value, x.dtype) if x.dtype == mstype.float64 and isinstance(value, float) else value


def scaled(x: Tensor, factor) -> Tensor:
    """x times a Python scalar in the dtype of x."""
    return x if factor == 1 else like(x * number(factor, x), x)


def constant(array, dtype=None) -> Tensor:
    """A numpy array as a tensor."""
    return Tensor(np.asarray(array, order="C"), dtype)


def reduce_loss(loss: Tensor, reduction) -> Tensor:
    """Apply a loss's reduction, given as the framework's int code or by name; the mean of nothing is nan."""
    kind = {0: "sum", 1: "mean", 2: "none"}.get(reduction, reduction)
    if kind == "none":
        return loss
    total = sum_over(loss)
    return total if kind == "sum" else scaled(total, 1.0 / loss.size if loss.size else float("nan"))

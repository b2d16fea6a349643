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
"""In-place methods: on CPU most of them have no kernel or return a new tensor and leave theirs unchanged."""
from __future__ import annotations

import numpy as np
from mindspore import Tensor, mint
from mindspore.common.api import _pynative_executor

from hyper_parallel.errors import UnsupportedOpError
from hyper_parallel.platform.mindspore.cpu_kernels_common import (axis, clone, connected, constant, full, host,
                                                                  is_float, like)
from hyper_parallel.platform.mindspore.cpu_kernels_matmul import addmm
from hyper_parallel.platform.mindspore.cpu_kernels_movement import index_add, scatter, scatter_add, spread
from hyper_parallel.platform.mindspore.cpu_kernels_pointwise import divide, elu, floor_divide, hardtanh

# Names of recorded operations whose output shares the memory of their input.
_VIEW_NODES = ("Reshape", "View", "ExpandDims", "Squeeze", "Transpose", "StridedSlice", "Narrow", "Select", "TExt")


def recording(*operands) -> bool:
    """True while a call on these operands enters a gradient's graph."""
    return _pynative_executor.grad_flag() and any(getattr(t, "_requires_grad", False) for t in operands)


def is_part(x) -> bool:
    """True for a view that is not the whole of its memory in order; a copy into it is lost on CPU."""
    return not x.is_contiguous() or x.nbytes != x.untyped_storage().nbytes()


def _is_recorded_view(x) -> bool:
    node = x._grad_node  # pylint: disable=protected-access
    return node is not None and any(part in node.name() for part in _VIEW_NODES)


def _refuse_view(x, why):
    return UnsupportedOpError(f"An in-place update on CPU found a view of shape {tuple(x.shape)} {why}. "
                              f"Update the whole tensor, or compute a new one out of place.")


def write(x, value):
    """Change x to the value and return x.

    Raises:
        ValueError: when the value does not fit the shape of x.
        TypeError: for a floating value into integers.
        UnsupportedOpError: for a view whose update the CPU build would lose or differentiate wrongly.
    """
    if tuple(value.shape) != tuple(x.shape):
        raise ValueError(f"An in-place update found a result of shape {tuple(value.shape)} for a tensor of shape "
                         f"{tuple(x.shape)}; the other operand must broadcast to it. Call the out-of-place form.")
    if is_float(value) and not is_float(x):
        raise TypeError(f"An in-place update found a {value.dtype} result for a {x.dtype} tensor. "
                        f"Call the out-of-place form.")
    value = like(value, x)
    _check_target(x, value)
    if x.size and is_part(x):
        return _write_part(x, value)
    return x.copy_(clone(value) if value.size and is_part(value) else value)


def _check_target(x, *operands):
    """Refuse a view as the target of a recorded update."""
    if recording(x, *operands) and (is_part(x) or _is_recorded_view(x)):
        raise _refuse_view(x, "inside a differentiated function, whose gradient would be wrong")


def _write_part(x, value):
    if x.ndim == 0:
        raise _refuse_view(x, "of one element, which cannot be written")
    x[:] = value
    return x


def in_place(function):
    """The in-place form of a function of the tensor and further arguments."""
    def run(x, *args, **kwargs):
        if x.size == 0:
            operands = [t for t in args if hasattr(t, "_requires_grad")]
            write(x, connected(full(x.shape, 0, x.dtype), x, *operands))
            return x
        _check_target(x, *args)
        # The graph keeps operands for backward; the original must not be the one that changes.
        source = clone(x) if recording(x, *args) else x
        write(x, function(source, *args, **kwargs))
        return x
    return run


def get_item(x, index):
    """Basic indexing; slices with a step go by position, since the backward of a strided slice is wrong."""
    items = index if isinstance(index, tuple) else (index,)
    if not any(isinstance(i, slice) and i.step not in (None, 1) for i in items):
        return x[index]
    given = sum(1 for i in items if i is not None and i is not Ellipsis)
    items = [j for i in items for j in ([slice(None)] * (x.ndim - given) if i is Ellipsis else [i])]
    dim = 0
    for position, item in enumerate(items):
        if isinstance(item, slice) and item.step not in (None, 1):
            rows = np.arange(x.shape[dim])[item].astype(np.int32)
            x = x.index_select(dim, Tensor(rows))
            items[position] = slice(None)
        dim += item is not None
    return x[tuple(items)]


def set_item(x, index, value):
    """Assignment by index, refused where its gradient would be wrong."""
    operands = [value] if hasattr(value, "_requires_grad") else []
    if x.size == 0:
        return x.copy_(connected(full(x.shape, 0, x.dtype), x, *operands))  # the value's gradient must flow: as zero
    _check_target(x, *operands)
    x[index] = value
    return x


def copy(x, source, non_blocking=False):
    """copy_, which on CPU works on whole tensors and is lost on views."""
    del non_blocking
    write(x, mint.broadcast_to(like(source, x), x.shape) if source.shape != x.shape else like(source, x))
    return x


def _threshold(x, threshold, value):
    return mint.where(x > threshold, x, full((), value, x.dtype))


def _clamp(x, min=None, max=None):  # pylint: disable=redefined-builtin
    return mint.clamp(x, min, max)


def _fill(x, value):
    if hasattr(value, "dtype"):
        return mint.broadcast_to(like(value, x), x.shape)
    return full(x.shape, value, x.dtype)


def _index_copy(x, dim, index, tensor):
    dim = axis(x.ndim, dim)
    return scatter(x, dim, spread(index, dim, tensor.shape), tensor)


def _index_fill(x, dim, index, value):
    dim = axis(x.ndim, dim)
    hit = np.zeros(x.shape[dim], bool)
    hit[host(index)] = True
    shape = tuple(x.shape[dim] if d == dim else 1 for d in range(x.ndim))
    return x.masked_fill(constant(hit.reshape(shape)), value)


def _index_put(x, indices, values, accumulate=False):
    flat = np.arange(x.size).reshape(x.shape)[tuple(host(i) for i in indices)]
    index = constant(flat.reshape(-1))
    source = mint.reshape(mint.broadcast_to(like(values, x), flat.shape), (flat.size,))
    line = mint.reshape(x, (x.size,))
    line = scatter_add(line, 0, index, source) if accumulate else scatter(line, 0, index, source)
    return mint.reshape(line, x.shape)


def _fill_diagonal(x, fill_value, wrap=False):
    mask = np.zeros(x.shape, bool)
    np.fill_diagonal(mask, True, wrap)
    return x.masked_fill(constant(mask), fill_value)


TABLE = {
    "SetItem": set_item, "GetItem": get_item, "InplaceCopy": copy,
    "InplaceAddExt": in_place(mint.add), "InplaceAddsExt": in_place(mint.add),
    "InplaceSubExt": in_place(mint.sub), "InplaceSubScalar": in_place(mint.sub),
    "InplaceMul": in_place(mint.mul), "InplaceMuls": in_place(mint.mul),
    "InplaceDiv": in_place(mint.div), "InplaceDivs": in_place(mint.div),
    "InplaceDivMod": in_place(divide), "InplaceDivMods": in_place(divide),
    "InplaceFloorDivide": in_place(floor_divide), "InplaceFloorDivides": in_place(floor_divide),
    "InplaceRemainderTensorTensor": in_place(mint.remainder), "InplaceRemainderTensorScalar": in_place(mint.remainder),
    "InplaceExp": in_place(mint.exp), "InplaceLog": in_place(mint.log), "InplaceFloor": in_place(mint.floor),
    "InplaceSigmoid": in_place(mint.sigmoid), "InplaceTanh": in_place(mint.tanh),
    "InplaceReLU": in_place(mint.nn.functional.relu), "InplaceSiLU": in_place(mint.nn.functional.silu),
    "InplaceElu": in_place(elu), "InplaceHardtanh": in_place(hardtanh),
    "InplaceThreshold": in_place(_threshold),
    "InplaceClampScalar": in_place(_clamp), "InplaceClampTensor": in_place(_clamp),
    "InplaceZero": in_place(lambda x: _fill(x, 0)),
    "InplaceFillScalar": in_place(_fill), "InplaceFillTensor": in_place(_fill),
    "InplaceFillDiagonal": in_place(_fill_diagonal),
    "InplaceMaskedFillScalar": in_place(lambda x, mask, value: x.masked_fill(mask, value)),
    "InplaceMaskedFillTensor": in_place(lambda x, mask, value: x.masked_fill(mask, value)),
    "InplaceScatterAdd": in_place(scatter_add), "InplaceScatterSrc": in_place(scatter),
    "InplaceScatterValue": in_place(scatter), "InplaceIndexAddExt": in_place(index_add),
    "InplaceIndexCopy": in_place(_index_copy), "InplaceIndexPut": in_place(_index_put),
    "InplaceIndexFillScalar": in_place(_index_fill), "InplaceIndexFillTensor": in_place(_index_fill),
    "InplaceAddmm": in_place(addmm),
}

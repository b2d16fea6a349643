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
"""Data movement: stacking, splitting, padding, gathering, scattering and repeating."""
from __future__ import annotations

import numpy as np
from mindspore import mint, ops
from mindspore import dtype as mstype

from hyper_parallel.errors import UnsupportedOpError
from hyper_parallel.platform.mindspore.cpu_kernels_common import (axis, clone, constant, filled, full, host, like,
                                                                  scaled)


def stack(tensors, dim=0):
    """The tensors along a new dimension."""
    dim = axis(tensors[0].ndim + 1, dim)
    return mint.cat([mint.unsqueeze(t, dim) for t in tensors], dim)


def select(x, dim, index):
    """One slice, without its dimension; the CPU kernel has no backward."""
    dim = axis(x.ndim, dim)
    size = x.shape[dim]
    if not -size <= index < size:
        raise IndexError(f"select found index {index} for dim {dim} of {size} elements; "
                         f"use an index in [{-size}, {size - 1}].")
    return mint.reshape(mint.narrow(x, dim, index % size, 1), x.shape[:dim] + x.shape[dim + 1:])


def unbind(x, dim=0):
    """All slices along a dimension."""
    return tuple(select(x, dim, i) for i in range(x.shape[axis(x.ndim, dim)]))


def split(x, split_size, dim=0):
    """Pieces of one size, or of the sizes given; the CPU kernel's gradient is wrong for strided cotangents.

    Raises:
        ValueError: when sizes do not add up to the extent.
    """
    dim = axis(x.ndim, dim)
    size = x.shape[dim]
    sizes = split_size
    if isinstance(split_size, int):
        count = max(-(-size // split_size), 1)
        sizes = [min(split_size, size - i * split_size) for i in range(count)]
    if sum(sizes) != size:
        raise ValueError(f"split found sizes {tuple(sizes)} for dim {dim} of {size} elements; they must add up to it.")
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(mint.narrow(x, dim, start, n) for start, n in zip(starts, sizes))


def constant_pad(x, padding, value=0.0):
    """Pairs of paddings from the last dimension on; negative ones crop."""
    for pair in range(len(padding) // 2):
        x = _pad_dim(x, x.ndim - 1 - pair, padding[2 * pair], padding[2 * pair + 1], value)
    return x


def _pad_dim(x, dim, before, after, value):
    crop = max(-before, 0), max(-after, 0)
    if any(crop):
        x = mint.narrow(x, dim, crop[0], x.shape[dim] - sum(crop))
    blocks = [full((*x.shape[:dim], n, *x.shape[dim + 1:]), value, x.dtype) if n > 0 else None for n in (before, after)]
    parts = [part for part in (blocks[0], x, blocks[1]) if part is not None]
    return mint.cat(parts, dim) if len(parts) > 1 else x


def roll(x, shifts, dims=None):
    """Elements moved on along dims, those that fall off entering at the front; without dims the flat order moves."""
    if dims is None:
        return mint.reshape(_roll_dim(mint.reshape(x, (x.size,)), _first(shifts), 0), x.shape)
    for shift, dim in zip(_tuple(shifts), _tuple(dims)):
        x = _roll_dim(x, shift, axis(x.ndim, dim))
    return x


def _roll_dim(x, shift, dim):
    size = x.shape[dim]
    cut = shift % size if size else 0
    if cut == 0:
        return x
    return mint.cat([mint.narrow(x, dim, size - cut, cut), mint.narrow(x, dim, 0, size - cut)], dim)


def _tuple(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _first(value):
    return _tuple(value)[0]


def tril(x, diagonal=0):
    """Lower triangles of the trailing two dimensions."""
    return ops.tril(x, diagonal)


def diag(x, diagonal=0):
    """A vector as a diagonal of a matrix, or a diagonal of a matrix as a vector."""
    if x.ndim == 1:
        return _diag_matrix(x, diagonal)
    rows = np.arange(x.shape[0])
    rows = rows[(rows + diagonal >= 0) & (rows + diagonal < x.shape[1])]
    flat = mint.reshape(x, (x.size,))
    return take(flat, constant(rows * x.shape[1] + rows + diagonal))


def _diag_matrix(x, diagonal):
    size = x.shape[0] + abs(diagonal)
    mask = np.eye(size, k=diagonal, dtype=bool)
    if x.size == 0:
        return filled(x, mask.shape, 0)
    place = np.minimum(np.arange(size), x.shape[0] - 1)
    values = ops.gather(x, constant(np.broadcast_to(place[:, None] if diagonal >= 0 else place, mask.shape)), 0)
    return values.masked_fill(constant(~mask), 0)


def index_select(x, dim, index):
    """Slices along a dimension, in the order of a 1-D index."""
    return ops.gather(x, mint.reshape(index, (index.size,)), axis(x.ndim, dim))


def take(x, index):
    """Elements of the flat x; negative indices count from the end."""
    flat = mint.reshape(x, (x.size,))
    return ops.gather(flat, mint.where(index < 0, index + x.size, index), 0)


def scatter_add(x, dim, index, src):
    """x with src added at the places that index names along a dimension."""
    if index.size == 0:
        return clone(x)
    return ops.tensor_scatter_elements(x, index, _cropped(src, index.shape), axis(x.ndim, dim), "add")


def scatter(x, dim, index, src, reduce=0):
    """x with src, a tensor or a scalar, at the places that index names; the CPU kernel mixes up successive shapes.

    Args:
        reduce: 0 or none to replace, 1 or "add" to add; the framework's codes.
    """
    source = src if hasattr(src, "dtype") else full(index.shape, src, x.dtype)
    if reduce in (1, "add"):
        return scatter_add(x, dim, index, source)
    if reduce not in (0, None, "none"):
        raise UnsupportedOpError(f"scatter on CPU found reduce={reduce}; it replaces or adds. "
                                 f"Write a multiplication as x * mint.scatter(ones, ...).")
    source = _cropped(source, index.shape)
    return ops.tensor_scatter_elements(x, index, like(source, x), axis(x.ndim, dim), "none") if index.size else clone(x)


def _cropped(src, shape):
    """The leading part of src that has this shape."""
    for dim, size in enumerate(shape):
        src = src if src.shape[dim] == size else mint.narrow(src, dim, 0, size)
    return src


def strided_slice(x, begin, end, strides, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0,
                  shrink_axis_mask=0):
    """x[begin:end:strides] dim by dim; the CPU kernel's backward fails for steps after other shapes."""
    if ellipsis_mask or new_axis_mask:
        raise UnsupportedOpError("strided_slice on CPU found an ellipsis or new-axis mask; index with x[...] instead.")
    shrunk = []
    for dim, (start, stop, step) in enumerate(zip(begin, end, strides)):
        size = x.shape[dim]
        if shrink_axis_mask >> dim & 1:
            start, stop, step = start % size, start % size + 1, 1
            shrunk.append(dim)
        window = slice(None if begin_mask >> dim & 1 else start, None if end_mask >> dim & 1 else stop, step)
        x = _window(x, dim, range(size)[window])
    kept = tuple(n for dim, n in enumerate(x.shape) if dim not in shrunk)
    return mint.reshape(x, kept) if shrunk else x


def _window(x, dim, places):
    if len(places) == x.shape[dim] and places.step == 1:
        return x
    if places.step == 1 or len(places) < 2:
        return mint.narrow(x, dim, min(places.start, x.shape[dim]), len(places))
    return index_select(x, dim, constant(np.asarray(places)))


def spread(index, dim, shape):
    """A 1-D index along `dim`, repeated to the shape."""
    bent = mint.reshape(index, tuple(index.size if d == dim else 1 for d in range(len(shape))))
    return mint.broadcast_to(bent, shape)


def index_add(x, dim, index, source, alpha=1):
    """x with alpha times the slices of source added at the slices that index names; the CPU kernel changes x itself."""
    dim = axis(x.ndim, dim)
    return scatter_add(x, dim, spread(index, dim, source.shape), scaled(source, alpha))


def one_hot(x, num_classes, on_value, off_value, dim=-1):
    """on_value where a class index equals the position along a new dimension, else off_value; -1 means max + 1."""
    classes = num_classes if num_classes >= 0 else int(host(x).max()) + 1
    dim = axis(x.ndim + 1, dim)
    hot = mint.unsqueeze(x, dim) == mint.reshape(constant(np.arange(classes)), (classes,) + (1,) * (x.ndim - dim))
    return mint.where(hot, on_value, off_value)


def repeat_interleave(x, repeats, dim=None, output_size=None):
    """Every element along a dimension, repeated in place; without a dim along the flat order."""
    del output_size
    counts = repeats if isinstance(repeats, int) else host(repeats)
    flat = mint.reshape(x, (x.size,)) if dim is None else x
    dim = 0 if dim is None else axis(x.ndim, dim)
    return index_select(flat, dim, constant(np.repeat(np.arange(flat.shape[dim]), counts)))


def repeat(x, *repeats):
    """x tiled; leading repeats add dimensions."""
    counts = tuple(repeats[0]) if len(repeats) == 1 and isinstance(repeats[0], (tuple, list)) else repeats
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    if x.size and all(counts):
        return mint.tile(mint.reshape(x, shape), counts)
    return filled(x, tuple(n * size for n, size in zip(counts, shape)), 0)


def bincount(x, weights=None, minlength=0):
    """Occurrences of every integer of a vector, or the sums of its weights."""
    values = host(x)
    counts = np.bincount(values, None if weights is None else host(weights), minlength)
    if not values.size:
        counts = np.zeros(0, np.int64)
    return constant(counts, mstype.int64 if weights is None else weights.dtype)


def trace(x):
    """Sum of the main diagonal of a matrix."""
    return mint.sum(diag(x)) if min(x.shape) else filled(x, (), 0)


TABLE = {
    "StackExt": stack, "SelectExtView": select, "UnstackExtView": unbind, "SplitTensor": split, "SplitWithSize": split,
    "SplitTensorView": split, "SplitWithSizeView": split, "ConstantPadND": constant_pad, "Roll": roll, "TrilExt": tril,
    "DiagExt": diag, "TraceExt": trace, "IndexSelect": index_select, "Take": take, "ScatterAddExt": scatter_add,
    "IndexAddExt": index_add, "Scatter": scatter, "ScatterValue": scatter, "StridedSlice": strided_slice,
    "OneHotExt": one_hot, "RepeatInterleaveInt": repeat_interleave, "RepeatInterleaveTensor": repeat_interleave,
    "Repeat": repeat, "BincountExt": bincount,
}

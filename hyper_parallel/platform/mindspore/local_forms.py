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
"""Local forms: what a rank runs where the operation itself, on local values, would not compute its part.

Every form takes the call's values by parameter name (tensors are local) and what its rule adds. The simulator and the
verifier have the same forms in numpy; a rule names them in its `kernel`.
"""
from __future__ import annotations

import mindspore
from mindspore import mint, ops

from hyper_parallel.core.shard.ops.dtypes import dtype_name
from hyper_parallel.platform.mindspore import attention_forms, lookup_forms, loss_forms, random_forms
from hyper_parallel.platform.mindspore.cpu_kernels_common import reduced_shape


def mean(values: dict, dims: tuple, keepdim: bool, dtype, count: int):
    """This rank's addend of a mean: the local sum over the global extent `count`."""
    x = values["input"]
    if dtype is not None:
        x = x.astype(_framework_dtype(dtype))
    if not x.size:  # the CPU's sums leave memory unset where there is nothing to add, and their backward fails
        return lookup_forms.nothing(reduced_shape(x.shape, dims, keepdim), x)
    total = x if not dims else mint.sum(x, dims, keepdim)
    return total / count


def reshape(values: dict, shape: tuple):
    """The local tensor in its local shape; squeezes and views whose arguments name global sizes."""
    return mint.reshape(values["input"], shape)


def zeros_like(values: dict):
    """Zeros in the shape of the local tensor."""
    zeros = ops.zeros_like(values["input"])
    dtype = values.get("dtype")
    return zeros if dtype is None else zeros.astype(_framework_dtype(dtype))


def new_zeros(values: dict):
    """Zeros of a global shape, the same on every rank."""
    size, dtype = values["size"], values.get("dtype")
    size = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    return mint.zeros(size, dtype=values["input"].dtype if dtype is None else _framework_dtype(dtype))


def _framework_dtype(dtype):
    """A framework type from itself or from its integer code."""
    if not isinstance(dtype, int):
        return dtype
    name = dtype_name(dtype)
    return getattr(mindspore, "bool_" if name == "bool" else name)


FORMS = {"mean": mean, "reshape": reshape, "zeros_like": zeros_like, "new_zeros": new_zeros,
         **attention_forms.FORMS, **lookup_forms.FORMS, **loss_forms.FORMS, **random_forms.FORMS}

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
"""The one table of local substitutes for kernels that MindSpore's CPU build lacks or gets wrong.

The dispatcher consults it on CPU only; on Ascend the real kernel runs. A name is listed for one of these faults of the
CPU build, and a test runs the real entry point of every name to show that the fault is still there:

* no kernel: the call raises "kernel unregistered", "create kernelmod failed" or "not supported on this device";
* no backward, or a wrong one (split, select, unbind, strided slices, softplus, cummax);
* a kernel that keeps state from its first call and is wrong for later shapes (scatter, the gradient of softmax);
* an in-place form that returns a new tensor and leaves its own unchanged;
* a wrong value (any over elements wider than a byte; index_add, which changes its input).
"""
from __future__ import annotations

from types import MappingProxyType

from hyper_parallel.platform.mindspore import (cpu_kernels_attention, cpu_kernels_inplace, cpu_kernels_matmul,
                                               cpu_kernels_movement, cpu_kernels_norm, cpu_kernels_pointwise,
                                               cpu_kernels_random, cpu_kernels_reduce, likelihood)
from hyper_parallel.platform.mindspore.cpu_kernels_matmul import matmul_of_batches

__all__ = ["SUBSTITUTES", "substitute"]

_FAMILIES = (cpu_kernels_matmul, cpu_kernels_pointwise, cpu_kernels_norm, cpu_kernels_movement, cpu_kernels_reduce,
             cpu_kernels_random, cpu_kernels_inplace, cpu_kernels_attention,
             likelihood)

SUBSTITUTES = MappingProxyType({name: call for family in _FAMILIES for name, call in family.TABLE.items()})


def substitute(name: str, shapes: tuple = ()):
    """The local function that stands in for an intercepted name on CPU, or None where the real kernel is right.

    It takes the positional and keyword arguments of the intercepted call, unpacked, with plain local tensors, and
    returns what the kernel would: a tensor, or the kernel's tuple. It is differentiable by the framework.

    Args:
        name: what an intercepted call reports as its name, e.g. "Mm" or "InplaceAddExt".
        shapes: local shapes of the tensor operands, for kernels that are wrong for some shapes alone.

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> x = Tensor(np.arange(4, dtype=np.float32))
        >>> substitute("InplaceAddsExt")(x, 1).asnumpy().tolist(), x.asnumpy().tolist()
        ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0])
        >>> substitute("MatMulExt") is None
        True
    """
    if name == "MatMulExt" and any(len(shape) > 2 for shape in shapes) and any(1 in shape[:-1] for shape in shapes):
        return matmul_of_batches
    return SUBSTITUTES.get(name)

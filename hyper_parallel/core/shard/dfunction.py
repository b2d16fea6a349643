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
"""`DFunction`: a function with its own forward and backward on local tensors, dispatched by layout."""
from __future__ import annotations

from mindspore.common._grad_function import _Function

from hyper_parallel.core.dtensor.dtensor_base import DTensorBase
from hyper_parallel.core.shard._op_dispatch import dispatch_named


class DFunction(_Function):
    """Base of functions with static `forward(ctx, *args)` and `backward(ctx, *grads)` on local tensors.

    Set `_op_name` to the name of a registered distributed operation, whose rule gives the layouts of the outputs.

    Examples:
        >>> from mindspore import Tensor
        >>> class Twice(DFunction):
        ...     _op_name = "Twice"
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         return g * 2
        >>> Twice.apply(Tensor([1.0])).asnumpy().tolist()
        [2.0]
    """

    _op_name: str | None = None

    @classmethod
    def apply(cls, *args):
        """Run the function; DTensor arguments go through the dispatcher under `_op_name`.

        Raises:
            ValueError: when an argument is a DTensor and `_op_name` is not set.
        """
        if not any(isinstance(a, DTensorBase) for a in args):
            return super().apply(*args)
        if cls._op_name is None:
            raise ValueError(f"{cls.__name__} got a DTensor, but has no _op_name, so no rule gives the layout of its "
                             f"result. Set _op_name to a registered distributed operation.")
        return dispatch_named(cls._op_name, super().apply, *args)

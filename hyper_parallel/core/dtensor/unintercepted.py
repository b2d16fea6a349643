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
"""What the framework does not intercept on a DTensor: indexing, reflected operators, reading values, copies."""
from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, ops

from hyper_parallel.core.dtensor.dtensor_base import (
    LOCAL, DTensorBase, forget, plain, running_local, values_of, wrap, wrap_shared,
)
from hyper_parallel.core.shard._op_dispatch import dispatch_named
from hyper_parallel.errors import LayoutError, PartialError
from hyper_parallel.platform.mindspore.fresh import fresh_copy


class UninterceptedMethods(DTensorBase):
    """Methods that work on the distributed value, or refuse, where the framework would silently use the local part."""

    def _unreduced(self, what: str, more: str = "") -> PartialError:
        return PartialError(f"The tensor is {self._spec.layout}: {what}. Reduce it first: x.reduce_partial(){more}.")

    def numel(self) -> int:
        """Number of elements of the global tensor (of the local one while a local operation runs)."""
        return int(self.size)

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of a 0-d tensor.")
        return self.shape[0]

    def __iter__(self):
        if LOCAL.active:
            return iter(plain(self))
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index):
        if LOCAL.active:
            return plain(self)[index]
        return dispatch_named("GetItem", _getitem, self, index)

    def __setitem__(self, index, value):
        if LOCAL.active:
            Tensor.__setitem__(self, index, value)
            return
        dispatch_named("SetItem", _setitem, self, index, value)

    def contiguous(self) -> DTensorBase:
        """This tensor with contiguous local parts."""
        with running_local():
            values = [v.contiguous() for v in values_of(self)]
        return wrap_shared(values, self._spec)

    def value(self) -> DTensorBase:
        """This tensor."""
        return self

    @property
    def data(self):
        """This tensor, sharing storage (the local one while a local operation runs)."""
        return plain(self) if LOCAL.active else wrap_shared(values_of(self), self._spec)

    def type_as(self, other) -> DTensorBase:
        """This tensor in the element type of `other`."""
        return self.to(other.dtype)

    def set_dtype(self, dtype) -> DTensorBase:
        """Change the element type of every part in place; refused for a Partial tensor, whose cast may not commute.

        Raises:
            PartialError: for a Partial tensor.
        """
        if self._spec.layout.is_partial:
            raise self._unreduced("set_dtype() would cast unreduced addends")
        with running_local():
            Tensor.set_dtype(self, dtype)
            for value in self._locals or ():
                value.set_dtype(dtype)
        forget(self)
        return self

    def __pos__(self):
        return self

    def __radd__(self, other):
        return _reflected("AddExt", mint.add, other, self)

    def __rsub__(self, other):
        return _reflected("SubExt", mint.sub, other, self)

    def __rmul__(self, other):
        return _reflected("Mul", mint.mul, other, self)

    def __rtruediv__(self, other):
        return _reflected("Div", mint.div, other, self)

    def __rpow__(self, other):
        return _reflected("Pow", ops.pow, other, self)

    def __rmatmul__(self, other):
        return _reflected("MatMulExt", mint.matmul, other, self)

    def __rfloordiv__(self, other):
        return _reflected("FloorDiv", mint.floor_divide, other, self)

    def __rmod__(self, other):
        return _reflected("RemainderScalarTensor", mint.remainder, other, self)

    __array_ufunc__ = None  # `ndarray + d` must come to __radd__, not to numpy

    def __array__(self, *args, **kwargs):
        return np.asarray(self._whole("an array").asnumpy(), *args, **kwargs)

    # -- values leaving the tensor world -------------------------------------------------------------------------------

    def _readable(self, call: str):
        """The local tensor, when it is the tensor's value or, for arrays, its honest shard."""
        if self._spec.layout.is_partial and not LOCAL.active:
            raise self._unreduced(f"{call} would give an unreduced addend")
        return values_of(self)[0]

    def _whole(self, call: str):
        local = self._readable(call)
        if not LOCAL.active and self._spec.has_cuts:
            raise LayoutError(f"{call} needs the whole value, and the tensor is {self._spec.layout}. "
                              f"Gather it first: x.full_tensor().")
        return local

    def asnumpy(self):
        """This rank's part as an array; refused for a Partial tensor."""
        return self._readable("asnumpy()").asnumpy()

    numpy = asnumpy

    def item(self):
        """The one element as a Python scalar; the tensor must be replicated."""
        return self._whole("item()").item()

    def tolist(self):
        """The whole value as nested lists; the tensor must be replicated."""
        return self._whole("tolist()").tolist()

    def __float__(self):
        return float(self._whole("float()"))

    def __int__(self):
        return int(self._whole("int()"))

    def __bool__(self):
        return bool(self._whole("bool()"))

    def __index__(self):
        return int(self._whole("an index"))

    def __repr__(self):
        values = [np.array2string(v.asnumpy(), prefix="  ") for v in values_of(self)]
        mark = "unreduced local" if self._spec.layout.is_partial else "local"
        shown = values[0] if self._locals is None else " | ".join(values)
        return (f"DTensor(shape={self._spec.shape}, placements={self._spec.layout}, mesh={self._spec.mesh.mesh_shape}, "
                f"{mark}={shown})")

    __str__ = __repr__

    def __format__(self, spec):
        return format(self.item(), spec) if spec else repr(self)

    def __hash__(self):
        return id(self)

    # -- copies --------------------------------------------------------------------------------------------------------

    def _copied(self):
        with running_local():
            values = [fresh_copy(v) for v in values_of(self)]
        return wrap(values, self._spec)

    def __copy__(self):
        return wrap_shared(values_of(self), self._spec)

    def __deepcopy__(self, memo):
        return self._copied()

    def copy(self) -> DTensorBase:
        """A copy that shares nothing, outside any recording."""
        return self._copied()

    def __reduce_ex__(self, protocol):
        values = tuple(v.asnumpy() for v in values_of(self))
        return _unpickled, (values, str(self.dtype), self._spec.layout, self._spec.shape)

    def numpy_locals(self) -> list:
        """The local parts of all positions as arrays, Partial or not: for tests and inspection."""
        return [v.asnumpy() for v in values_of(self)]


def _getitem(local, index):
    return plain(local)[index]


def _setitem(local, index, value):
    # On the object itself: an alias would lose the gradient.
    Tensor.__setitem__(local, index, value)  # pylint: disable=unnecessary-dunder-call
    return local


def _reflected(name: str, function, other, tensor):
    """`other (op) tensor` where the left side is a plain tensor, an array or a number."""
    if isinstance(other, np.ndarray):
        other = Tensor(other)
    return dispatch_named(name, function, other, tensor)


def _unpickled(values, dtype, layout, shape):
    kind = getattr(ms, dtype.lower().replace("bool", "bool_"), None)
    return wrap([Tensor(v) if kind is None else Tensor(v).to(kind) for v in values], layout.spec(shape))

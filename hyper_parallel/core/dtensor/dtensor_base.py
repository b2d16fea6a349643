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
"""The storage side of a DTensor: a framework tensor that carries a spec, and how values get in and out of it.

In a real process a DTensor *is* its local tensor, re-tagged by class. In a simulation it also carries `_locals`, one
plain tensor per position. While a local operation runs, `shape` and `size` answer for the local tensor.
"""
from __future__ import annotations

import threading

from mindspore import Tensor
from mindspore._c_expression import NoFallbackGuard

from hyper_parallel.core.dtensor.boundaries import grad_enabled
from hyper_parallel.core.dtensor.layout_value import TensorSpec
from hyper_parallel.platform.platform import current_platform

_make = Tensor._make_subclass
_raw_shape = Tensor.shape.__get__
_raw_size = Tensor.size.__get__


class _Local(threading.local):
    """Whether a local operation is running in this thread."""

    active = False


LOCAL = _Local()


class running_local:  # pylint: disable=invalid-name
    """While entered, DTensors behave as their local tensors: no interception, local shapes."""

    __slots__ = ("_guard", "_before")

    def __enter__(self):
        self._before, LOCAL.active = LOCAL.active, True
        self._guard = NoFallbackGuard()
        self._guard.__enter__()

    def __exit__(self, *exc):
        self._guard.__exit__(None, None, None)
        LOCAL.active = self._before


class CallableSize(int):
    """The number of elements, which may also be called as `size(dim=None)`."""

    _shape: tuple = ()

    def __new__(cls, shape: tuple):
        total = 1
        for n in shape:
            total *= n
        made = super().__new__(cls, total)
        made._shape = shape
        return made

    def __call__(self, dim=None):
        return self._shape if dim is None else self._shape[dim]


class DTensorBase(Tensor):
    """A tensor with a spec; the public class adds methods and dispatch."""

    _locals = None
    _memo = None
    _escaped = False  # a plain alias of the storage was handed out: nothing may be remembered about its contents

    @property
    def shape(self):
        """The global shape."""
        return _raw_shape(self) if LOCAL.active else self._spec.shape

    @property
    def size(self):
        """The number of elements of the global tensor; callable as `size(dim=None)` for the global shape."""
        return _raw_size(self) if LOCAL.active else CallableSize(self._spec.shape)


class _Types:
    """The public DTensor class, set by the module that defines it."""

    dtensor: type = DTensorBase


TYPES = _Types()


def plain(tensor):
    """A plain tensor object that shares storage and autograd identity with `tensor`."""
    return _make(Tensor, tensor)


def own_object(result):
    """The result itself when it is a plain tensor, else a plain object on the same storage."""
    return result if type(result) is Tensor else plain(result)  # pylint: disable=unidiomatic-typecheck


def values_of(tensor) -> list:
    """The local values of a DTensor, one plain tensor per position."""
    return list(tensor._locals) if tensor._locals is not None else [plain(tensor)]


def wrap(values: list, spec: TensorSpec):
    """A DTensor around fresh local values (objects that nobody else holds)."""
    first = values[0]
    if len(values) > 1 or current_platform().simulated:
        made = _make(TYPES.dtensor, first)
        made._locals = tuple(values)
    elif type(first) is Tensor:  # pylint: disable=unidiomatic-typecheck
        first.__class__ = TYPES.dtensor
        made = first
    else:
        made = _make(TYPES.dtensor, first)
    made._spec = spec
    return made


def wrap_shared(values: list, spec: TensorSpec, cls: type | None = None):
    """A DTensor around values that somebody else holds too: their objects keep their class."""
    made = _make(cls or TYPES.dtensor, values[0])
    if len(values) > 1 or current_platform().simulated:
        made._locals = tuple(map(own_object, values))
    made._spec = spec
    return made


# In-place updates of DTensors so far. A view does not say whose storage it shares, so one update ends every memo.
_UPDATES = [0]


# -- memos -----------------------------------------------------------------------------------------------------------


def remembered(tensor, key, make) -> list:
    """The values that `make()` gives for a tensor, made once per recording, gradient mode and version of the tensor.

    They are for reading: whoever hands them out copies them.

    A form made in a recording whose backward has run, before an update, or in another gradient mode is made anew.
    """
    if tensor._escaped:
        return make()
    state = (tensor._version, grad_enabled(), tensor._requires_grad, _UPDATES[0])
    memo = tensor._memo
    if memo is None:
        memo = tensor._memo = {}
    entry = memo.get(key)
    if entry is not None and entry[0] == state and all(map(_alive, entry[1])):
        return entry[1]
    values = make()
    memo[key] = (state, values)
    return values


def _alive(value) -> bool:
    """False once the framework has freed the graph that made the value."""
    try:
        node = value._grad_node
        return node is None or node.name is not None
    except RuntimeError:
        return False


def forget(tensor) -> None:
    """Drop the remembered forms of a tensor whose data changed, and make all others stale: it may be their view."""
    tensor._memo = None
    _UPDATES[0] += 1

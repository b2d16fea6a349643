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
"""`Parameter(DTensor)`: a framework parameter that keeps its layout."""
from __future__ import annotations

# pylint: disable=unexpected-keyword-arg,access-member-before-definition  # the constructor is the framework's
import copy
import importlib

from mindspore import Parameter, Tensor

from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.core.dtensor.dtensor_base import LOCAL, forget, plain, running_local, values_of
from hyper_parallel.errors import LayoutError
from hyper_parallel.platform.mindspore.fresh import fresh_copy


class ParameterDTensor(Parameter, DTensor):
    """What `mindspore.Parameter(dtensor, name=...)` makes; a parameter first, so names and checkpoints are its own."""

    def __init__(self, default_input, name=None, requires_grad=True, **kwargs):
        with running_local():
            Parameter.__init__(self, default_input, name=name, requires_grad=requires_grad, **kwargs)

    @property
    def shape(self):
        """The global shape (the local one while a local operation runs)."""
        return DTensor.shape.fget(self)

    @property
    def data(self):
        """This rank's part as a plain tensor that shares storage: what checkpoints and optimizers work on."""
        return plain(self)

    def value(self):
        """This parameter as a DTensor."""
        return self

    def set_data(self, data, slice_shape=False):
        """Replace the data: by a DTensor (its layout is adopted), or by this rank's part as a plain tensor.

        Raises:
            LayoutError: when a plain tensor has another shape than this rank's part.
        """
        spec, locals_ = self._spec, None
        if isinstance(data, DTensor):
            spec, values = data._spec, values_of(data)
            locals_ = None if data._locals is None else tuple(fresh_copy(v).to(self.dtype) for v in values)
            data = values[0]
        elif self._locals is not None:
            raise LayoutError("In a simulation a parameter holds the parts of all ranks, and one plain tensor is none "
                              "of them. Distribute the whole value: "
                              "p.set_data(distribute_tensor(value, mesh, p.placements)).")
        elif isinstance(data, Tensor) and not slice_shape and tuple(data.shape) != tuple(plain(self).shape):
            raise LayoutError(f"Parameter {self.name!r} holds a part of shape {tuple(plain(self).shape)} of the global "
                              f"shape {spec.shape}. Got {tuple(data.shape)}. Distribute the whole value first: "
                              f"p.set_data(distribute_tensor(value, mesh, p.placements)).")
        with running_local():
            Parameter.set_data(self, data, slice_shape)
        self._spec, self._locals = spec, locals_
        forget(self)
        return self

    def assign_value(self, value):
        """As `set_data`."""
        return Tensor.assign_value(self, value) if LOCAL.active else self.set_data(value)

    def __deepcopy__(self, memo):
        made = type(self)(self._copied(), name=self.name, requires_grad=self.requires_grad)
        memo[id(self)] = made
        return made

    def __copy__(self):
        return type(self)(DTensor.__copy__(self), name=self.name, requires_grad=self.requires_grad)

    def clone(self, init="same"):
        """A copy with the same layout.

        Args:
            init: "same", "zeros", "ones" or a number that fills the whole value.

        Raises:
            LayoutError: for any other initialiser: drawn per rank, it would make replicas differ.
        """
        made = copy.deepcopy(self)
        if init == "same":
            return made
        value = {"zeros": 0, "ones": 1}.get(init, init) if isinstance(init, str) else init
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise LayoutError(f"clone(init={init!r}) would draw values on every rank by itself. Draw the whole value "
                              f"once: p.clone().set_data(distribute_tensor(value, mesh, p.placements)).")
        full = importlib.import_module("hyper_parallel.core.dtensor.factories").full
        made.set_data(full(self.shape, value, device_mesh=self.device_mesh, placements=self.placements,
                           dtype=self.dtype))
        return made

    def copy(self):
        """A copy with the same layout."""
        return self.clone()

    def asnumpy(self):
        """This rank's part as an array; refused for a Partial parameter."""
        return DTensor.asnumpy(self)

    def __repr__(self):
        return plain(self).__repr__() if LOCAL.active else f"Parameter(name={self.name}, {DTensor.__repr__(self)})"

    __str__ = __repr__

    def __reduce_ex__(self, protocol):
        return _unpickled, (self._copied(), self.name, self.requires_grad)

    def __hash__(self):
        return id(self)


def _unpickled(data, name, requires_grad):
    return ParameterDTensor(data, name=name, requires_grad=requires_grad)


# The framework looks a combined class up by this name, before it would build one with the bases the other way round.
Parameter._base_type["ParameterDTensor"] = ParameterDTensor

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
"""`DTensor`: a framework tensor with a layout, whose framework calls reach the dispatcher; and `distribute_tensor`."""
from __future__ import annotations

import importlib

from mindspore import Tensor

from hyper_parallel.core.dtensor.assembly import (
    assembled, check_dtype, check_replicas, check_same, layout_from, local_values, with_gradient,
)
from hyper_parallel.core.dtensor.boundaries import FanIn, FanOut, apply
from hyper_parallel.core.dtensor.convention import SINGLE_LOSS, gradient_convention
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.dtensor_base import TYPES, plain, remembered, values_of, wrap, wrap_shared
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.layout_value import LayoutValue, layout_value
from hyper_parallel.core.dtensor.planner import plan
from hyper_parallel.core.dtensor.steps import run_steps
from hyper_parallel.core.dtensor.unintercepted import UninterceptedMethods
from hyper_parallel.core.shard._op_dispatch import SkipDTensorDispatch, dispatcher
from hyper_parallel.errors import LayoutError, MeshError
from hyper_parallel.platform.mindspore.fresh import fresh_copy
from hyper_parallel.platform.platform import current_platform


class DTensor(UninterceptedMethods):
    """A tensor distributed over a device mesh.

    Args:
        local_tensor: this rank's part (in a simulation, a tuple with one part per rank).
        device_mesh: the mesh.
        placements: one placement per mesh axis; or, per tensor dimension, an axis name, "None" or a tuple of names.
        layout: a complete Layout in place of mesh and placements.
        shape: global shape; needed when the shards are not equal.

    Raises:
        LayoutError: when placements do not fit mesh and tensor, or the local shape does not fit `shape`.

    Examples:
        >>> from hyper_parallel import simulate, init_device_mesh, Partial
        >>> with simulate(2):
        ...     mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        ...     x = DTensor((Tensor([1.0]), Tensor([2.0])), mesh, [Partial()])
        ...     (x * 2 + 1).full_tensor().asnumpy().tolist()
        [7.0]
    """

    def __new__(cls, local_tensor, device_mesh=None, placements=None, *, layout=None, shape=None):
        if isinstance(local_tensor, DTensor):
            check_same(local_tensor, device_mesh, placements, layout)
            return wrap_shared(values_of(local_tensor), local_tensor._spec, cls)
        values = local_values(local_tensor)
        value = layout.value if layout is not None else layout_from(device_mesh, placements, values[0].ndim)
        return assembled(values, value, shape, cls)

    def __init__(self, *args, **kwargs):  # pylint: disable=super-init-not-called
        """Everything is done in `__new__`; the framework's initialiser would copy data."""

    def __fallback__(self, func, args, kwargs=None):
        return dispatcher.dispatch(func, args, kwargs)

    # -- making and reading --------------------------------------------------------------------------------------------

    @staticmethod
    def from_local(local_tensor, device_mesh, placements, *, run_check=None, shape=None, stride=None,
                   grad_placements=None) -> DTensor:
        """The DTensor whose parts the ranks hold; no copy, and (but for `run_check=True`) no communication now.

        Args:
            local_tensor: this rank's part.
            device_mesh: the mesh.
            placements: one placement per mesh axis.
            run_check: None compares local shapes (without `shape`) over the mesh before the next collective; True
                also compares the replicas' values now; False checks nothing.
            shape: global shape, for shards that are not equal.
            stride: accepted with `shape`; layouts are contiguous.
            grad_placements: placements of the gradient that is handed back to the local tensor; default: as the
                layout implies (Shard: shard, Replicate: complete, Partial(sum): complete).

        Raises:
            LayoutError: when placements, local shape and `shape` do not fit, or checked replicas differ.

        Examples:
            >>> from hyper_parallel import simulate, init_device_mesh, Shard
            >>> with simulate(2):
            ...     mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
            ...     x = DTensor.from_local([Tensor([1.0]), Tensor([2.0])], mesh, [Shard(0)])
            ...     x.shape, x.placements
            ((2,), (Shard(dim=0),))
        """
        if stride is not None and shape is None:
            raise LayoutError("DTensor.from_local takes a stride only together with the global shape=.")
        values = [plain(v) for v in local_values(local_tensor)]
        layout = layout_from(device_mesh, placements, values[0].ndim)
        made = assembled(values, layout, shape, DTensor)
        if shape is None and run_check is not False and device_mesh.size() > 1:
            current_platform().expect_equal(device_mesh, [tuple(v.shape) for v in values])
        if run_check:
            check_replicas(made)
        if grad_placements is not None:
            made = wrap(with_gradient(made, grad_placements, forwards=False), made._spec)
        return made

    @staticmethod
    def from_local_with_layout(local_tensor, layout: Layout, *, shape=None) -> DTensor:
        """As `from_local`, with a complete Layout."""
        values = [plain(v) for v in local_values(local_tensor)]
        return assembled(values, layout.value, shape or layout.tensor_shape, DTensor)

    def to_local(self, *, grad_placements=None, partial_ok=False):
        """This rank's part as a plain tensor (in a simulation, the tuple of all parts).

        Args:
            grad_placements: placements of the gradient that arrives at the local tensor, when they differ from what
                the layout implies: `[Partial("sum")]` for a replica used by differing local work.
            partial_ok: read the unreduced addend of a Partial tensor knowingly.

        Raises:
            PartialError: for a Partial tensor without `partial_ok=True` (under single_loss).
        """
        if self._spec.layout.is_partial and not partial_ok and gradient_convention() == SINGLE_LOSS:
            raise self._unreduced("to_local() gives this rank's unreduced addend, which is not the tensor's value",
                                  ", or ask for the addend: x.to_local(partial_ok=True)")
        self._escaped = self._escaped or self._spec.layout.is_partial
        values = values_of(self) if grad_placements is None else with_gradient(self, grad_placements, forwards=True)
        return tuple(values) if self._locals is not None else values[0]

    def redistribute(self, device_mesh=None, placements=None) -> DTensor:
        """This tensor under other placements; the source is not changed, and shares storage only when already there.

        Args:
            device_mesh: the mesh of this tensor (default).
            placements: one placement per mesh axis, or axis names per tensor dimension.

        Raises:
            MeshError: for another mesh.
            LayoutError: for placements that do not fit, or a change of the pending reduce op.
        """
        mesh = self._spec.mesh
        if device_mesh is not None and not isinstance(device_mesh, DeviceMesh):
            device_mesh, placements = None, device_mesh
        if device_mesh is not None and not device_mesh.matches(mesh):
            raise MeshError(f"The tensor lives on {mesh}, the target is {device_mesh}. Between meshes, go through the "
                            f"whole tensor: distribute_tensor(x.full_tensor(), mesh, placements).")
        return self._to_layout(layout_from(mesh, placements, len(self._spec.shape)))

    def _to_layout(self, layout: LayoutValue) -> DTensor:
        spec = self._spec
        if layout is spec.layout:
            return wrap_shared(values_of(self), spec)
        steps = plan(spec.layout, layout, spec.shape)
        if layout.is_partial:
            check_dtype(layout, self.dtype)
        if spec.layout.is_partial:
            key = ("steps", layout, gradient_convention())
            values = remembered(self, key, lambda: run_steps(steps, values_of(self)))
            # Copies: what one caller does to the result must not reach the next one's, nor the remembered form.
            return wrap([fresh_copy(v) for v in values], layout.spec(spec.shape))
        return wrap(run_steps(steps, values_of(self)), layout.spec(spec.shape))

    def reduce_partial(self) -> DTensor:
        """This tensor with every pending reduction made (all-reduce); reduced once, remembered after that."""
        layout = self._spec.layout
        return self._to_layout(layout.replace(partial=(None,) * layout.mesh.ndim))

    def full_tensor(self):
        """The whole value as a plain tensor of its own on every rank."""
        layout = self._spec.layout
        target = layout_value(layout.mesh, ((),) * layout.ndim)
        whole = values_of(self._to_layout(target))
        if target is layout:
            whole = [fresh_copy(v) for v in whole]
        return apply(FanIn(layout.mesh), whole)[0] if len(whole) > 1 else whole[0]

    @property
    def layout(self) -> Layout:
        """A new handle on the layout, with the global shape recorded."""
        return Layout.of(self._spec.layout, self._spec.shape)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple:
        """One placement per mesh axis."""
        return self._spec.layout.placements

    @property
    def local_shape(self) -> tuple:
        """Shape of this rank's part."""
        return tuple(values_of(self)[0].shape)


TYPES.dtensor = DTensor


# -- from whole tensors ------------------------------------------------------------------------------------------------


def distribute_tensor(tensor, device_mesh, placements, *, src_data_rank=None) -> DTensor:
    """Distribute a whole tensor that every rank holds (or, with `src_data_rank`, that one rank holds).

    Args:
        tensor: the whole value, as tensor or array; a DTensor is redistributed.
        device_mesh: the mesh.
        placements: one placement per mesh axis; under Partial("sum") coordinate 0 keeps the value.
        src_data_rank: global rank whose value counts; default: every rank takes its part of its own copy.

    Raises:
        LayoutError: for placements that do not fit.
        MeshError: when `src_data_rank` is not in the mesh.

    Examples:
        >>> from hyper_parallel import simulate, init_device_mesh, Shard
        >>> with simulate(2):
        ...     mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        ...     distribute_tensor(Tensor([0.0, 1.0, 2.0]), mesh, [Shard(0)]).to_local()[1].asnumpy().tolist()
        [2.0]
    """
    if isinstance(tensor, DTensor):
        return tensor.redistribute(device_mesh, placements)
    tensor = tensor if isinstance(tensor, Tensor) else Tensor(tensor)
    target = layout_from(device_mesh, placements, tensor.ndim)
    check_dtype(target, tensor.dtype)
    values = apply(FanOut(device_mesh), [plain(tensor)])
    if src_data_rank is not None:
        values = _from_source(values, device_mesh, src_data_rank)
    whole = layout_value(device_mesh, ((),) * tensor.ndim)
    shape = tuple(tensor.shape)
    steps = plan(whole, target, shape)
    return wrap(run_steps(steps, values), target.spec(shape)) if steps else wrap_shared(values, target.spec(shape))


def _from_source(values: list, mesh: DeviceMesh, rank: int) -> list:
    coordinate = mesh.coordinate_of(rank)
    if coordinate is None:
        raise MeshError(f"src_data_rank={rank} is not in the mesh of ranks {mesh.rank_list}.")
    for axis, source in enumerate(coordinate):
        if mesh.mesh_shape[axis] > 1:
            values = current_platform().broadcast(values, mesh, axis, source)
    return values


__all__ = ["DTensor", "SkipDTensorDispatch", "distribute_tensor"]

_FACTORIES = ("ones", "zeros", "empty", "full", "rand", "randn")
_ELSEWHERE = {"distribute_module": "module", **dict.fromkeys(_FACTORIES, "factories")}


def __getattr__(name: str):
    """Names that programs import from here and that live in modules built on this one."""
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"hyper_parallel.core.dtensor.{_ELSEWHERE[name]}"), name)


def _complete() -> None:
    """Make the framework's Parameter and its unintercepted functions know DTensors."""
    importlib.import_module("hyper_parallel.core.dtensor.parameter")
    importlib.import_module("hyper_parallel.core.dtensor.framework_calls").install()


_complete()

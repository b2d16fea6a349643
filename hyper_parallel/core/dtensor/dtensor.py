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
"""`DTensor`: a framework tensor with a layout. Framework calls on it reach the dispatcher; what the framework does not
intercept is a method here. Also the functions that make DTensors from whole tensors.
"""
from __future__ import annotations

import importlib

import numpy as np
from mindspore import Tensor, mint, ops
from mindspore import dtype as mstype

from hyper_parallel.core.dtensor.boundaries import FanIn, FanOut, Identity, apply
from hyper_parallel.core.dtensor.convention import SINGLE_LOSS, gradient_convention
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.dtensor_base import (
    LOCAL, TYPES, DTensorBase, forget, plain, remembered, running_local, values_of, wrap, wrap_shared,
)
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.layout_value import LayoutValue, TensorSpec, layout_value, placements_to_value
from hyper_parallel.core.dtensor.placement_types import Partial, Placement, Replicate, Shard
from hyper_parallel.core.dtensor.planner import plan
from hyper_parallel.core.dtensor.steps import run_steps
from hyper_parallel.core.shard._op_dispatch import SkipDTensorDispatch, dispatch_named, dispatcher
from hyper_parallel.errors import LayoutError, MeshError, PartialError
from hyper_parallel.platform.mindspore.fresh import fresh_copy
from hyper_parallel.platform import recorder
from hyper_parallel.platform.platform import current_platform


def _locals(local) -> list:
    """The local values that a user passes: one tensor, or in a simulation one per rank."""
    if current_platform().simulated:
        if not isinstance(local, (tuple, list)):
            raise LayoutError("In a simulation a local value is a tuple with one tensor per rank of the mesh. "
                              f"Got {type(local).__name__}.")
        values = [v if isinstance(v, Tensor) else Tensor(v) for v in local]
        if len({v.dtype for v in values}) > 1:
            raise LayoutError(f"Local tensors of one DTensor must have one element type. Got {[str(v.dtype) for v in values]}.")
        return values
    if not isinstance(local, Tensor):
        raise TypeError(f"A local value must be a mindspore.Tensor. Got {type(local).__name__}: Tensor(value).")
    return [local]


def _layout_of(mesh: DeviceMesh, placements, ndim: int) -> LayoutValue:
    """The layout of placements (one per mesh axis) or of axis names (one entry per tensor dim)."""
    if mesh is None or placements is None:
        raise LayoutError("A DTensor needs a device mesh and placements.")
    placements = tuple(placements) if isinstance(placements, (tuple, list)) else (placements,)
    if placements and not any(isinstance(p, Placement) for p in placements) \
            and all(isinstance(p, (str, tuple)) for p in placements):
        if len(placements) != ndim:
            raise LayoutError(f"Axis names are given per tensor dimension: {ndim} are needed. Got {placements}.")
        return Layout.from_device_mesh(mesh)(*placements).value
    return placements_to_value(mesh, placements, ndim)


def _check_same(tensor: DTensor, mesh, placements, layout) -> None:
    """A DTensor is copied as it is; other placements are a redistribution."""
    if mesh is None and layout is None:
        return
    asked = layout.value if layout is not None else _layout_of(mesh, placements, len(tensor.shape))
    if asked is not tensor._spec.layout:
        raise LayoutError(f"DTensor(x) of a DTensor is a copy with its own layout {tensor._spec.layout}. Got {asked}: "
                          f"use x.redistribute(mesh, placements).")


def _check_dtype(layout: LayoutValue, dtype) -> None:
    """Refuse pending reductions that have no meaning for the element type."""
    for op in filter(None, layout.partial):
        if (op == "all") != (dtype == mstype.bool_):
            raise LayoutError(f"A pending {op} of {dtype} has no meaning: bool is pending under 'all' only, and 'all' of bool "
                              f"only. Cast first: x.to(mindspore.int32).")
        if op == "avg" and not dtype.is_floating_point:
            raise LayoutError(f"A pending avg of {dtype} is not exact. Cast first: x.to(mindspore.float32), or use "
                              f"Partial('sum').")


def _equal_shards(layout: LayoutValue, local_shape: tuple) -> tuple:
    """Global shape when every rank holds an equal shard."""
    sizes = layout.mesh.mesh_shape
    return tuple(size * int(np.prod([sizes[a] for a in axes], dtype=int)) for size, axes in zip(local_shape, layout.dims))


class DTensor(DTensorBase):
    """A tensor distributed over a device mesh.

    Args:
        local_tensor: this rank's part (in a simulation, a tuple with one part per rank).
        device_mesh: the mesh.
        placements: one placement per mesh axis; or, per tensor dimension, an axis name, "None" or a tuple of names.
        layout: a complete Layout in place of mesh and placements.
        shape: global shape; needed when the shards are not equal.

    Raises:
        LayoutError: when placements do not fit mesh and tensor, or the local shape does not fit `shape`.
    """

    def __new__(cls, local_tensor, device_mesh=None, placements=None, *, layout=None, shape=None):
        if isinstance(local_tensor, DTensor):
            _check_same(local_tensor, device_mesh, placements, layout)
            return wrap_shared(values_of(local_tensor), local_tensor._spec, cls)
        values = _locals(local_tensor)
        value = layout.value if layout is not None else _layout_of(device_mesh, placements, values[0].ndim)
        return _checked(values, value, shape, cls)

    def __init__(self, *args, **kwargs):
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
        values = [plain(v) for v in _locals(local_tensor)]
        layout = _layout_of(device_mesh, placements, values[0].ndim)
        made = _checked(values, layout, shape, DTensor)
        if shape is None and run_check is not False and device_mesh.size() > 1:
            current_platform().expect_equal(device_mesh, [tuple(v.shape) for v in values])
        if run_check:
            _check_replicas(made)
        if grad_placements is not None:
            made = wrap(_with_gradient(made, grad_placements, forwards=False), made._spec)
        return made

    @staticmethod
    def from_local_with_layout(local_tensor, layout: Layout, *, shape=None) -> DTensor:
        """As `from_local`, with a complete Layout."""
        return _checked([plain(v) for v in _locals(local_tensor)], layout.value, shape or layout.tensor_shape, DTensor)

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
        values = values_of(self) if grad_placements is None else _with_gradient(self, grad_placements, forwards=True)
        return tuple(values) if self._locals is not None else values[0]

    def _unreduced(self, what: str, more: str = "") -> PartialError:
        return PartialError(f"The tensor is {self._spec.layout}: {what}. Reduce it first: x.reduce_partial(){more}.")

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
        return self._to_layout(_layout_of(mesh, placements, len(self._spec.shape)))

    def _to_layout(self, layout: LayoutValue) -> DTensor:
        spec = self._spec
        if layout is spec.layout:
            return wrap_shared(values_of(self), spec)
        steps = plan(spec.layout, layout, spec.shape)
        if layout.is_partial:
            _check_dtype(layout, self.dtype)
        if spec.layout.is_partial:
            values = remembered(self, ("steps", layout, gradient_convention()), lambda: run_steps(steps, values_of(self)))
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

    # -- what the framework does not intercept -------------------------------------------------------------------------

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

    def contiguous(self) -> DTensor:
        """This tensor with contiguous local parts."""
        with running_local():
            values = [v.contiguous() for v in values_of(self)]
        return wrap_shared(values, self._spec)

    def value(self) -> DTensor:
        """This tensor."""
        return self

    @property
    def data(self):
        """This tensor, sharing storage (the local one while a local operation runs)."""
        return plain(self) if LOCAL.active else wrap_shared(values_of(self), self._spec)

    def type_as(self, other) -> DTensor:
        """This tensor in the element type of `other`."""
        return self.to(other.dtype)

    def set_dtype(self, dtype) -> DTensor:
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

    def copy(self) -> DTensor:
        """A copy that shares nothing, outside any recording."""
        return self._copied()

    def __reduce_ex__(self, protocol):
        values = tuple(v.asnumpy() for v in values_of(self))
        return _unpickled, (values, str(self.dtype), self._spec.layout, self._spec.shape)

    def numpy_locals(self) -> list:
        """The local parts of all positions as arrays, Partial or not: for tests and inspection."""
        return [v.asnumpy() for v in values_of(self)]


TYPES.dtensor = DTensor


def _getitem(local, index):
    return plain(local)[index]


def _setitem(local, index, value):
    Tensor.__setitem__(local, index, value)  # on the object itself: an alias would lose the gradient
    return local


def _reflected(name: str, function, other, tensor):
    """`other (op) tensor` where the left side is a plain tensor, an array or a number."""
    if isinstance(other, np.ndarray):
        other = Tensor(other)
    return dispatch_named(name, function, other, tensor)


def _checked(values: list, layout: LayoutValue, shape, cls) -> DTensor:
    """A DTensor around local values; their shapes must be what layout and global shape say."""
    _check_dtype(layout, values[0].dtype)
    shape = _equal_shards(layout, tuple(values[0].shape)) if shape is None else tuple(shape)
    spec = layout.spec(shape)
    ranks = current_platform().positions(layout.mesh)
    if len(ranks) != len(values):
        raise LayoutError(f"The mesh has {len(ranks)} simulated ranks, so {len(ranks)} local tensors are needed. "
                          f"Got {len(values)}.")
    for rank, value in zip(ranks, values):
        coordinate = layout.mesh.coordinate_of(rank)
        if coordinate is None:
            raise MeshError(f"Rank {rank} is not in the mesh {layout.mesh}, so it holds no part of this tensor.")
        expected = spec.local_shape(coordinate)
        if tuple(value.shape) != expected:
            raise LayoutError(f"Rank {rank} holds a part of shape {tuple(value.shape)}, but {layout} of a tensor of shape "
                              f"{shape} gives it {expected}. Pass the true global shape: shape=...; shards are ceil-size "
                              f"chunks, the tail short or empty.")
    return wrap_shared(values, spec, cls)


def _check_replicas(tensor: DTensor) -> None:
    """Refuse, on every rank alike, replicas whose values differ from coordinate 0's."""
    mesh, platform = tensor._spec.mesh, current_platform()
    values = values_of(tensor)
    with recorder.phase("check"):
        firsts = values
        for axis, placement in enumerate(tensor.placements):
            if placement.is_replicate() and mesh.mesh_shape[axis] > 1:
                firsts = platform.broadcast(firsts, mesh, axis, 0)
        wrong = [Tensor(np.array([not np.array_equal(_array(v), _array(f))], np.int32)) for v, f in zip(values, firsts)]
        for axis in range(mesh.ndim):
            if mesh.mesh_shape[axis] > 1:
                wrong = platform.all_reduce(wrong, mesh, axis, "max")
    if wrong[0].asnumpy().any():
        raise LayoutError(f"DTensor.from_local(run_check=True): the replicas of {tensor._spec.layout} differ between ranks. "
                          f"Make them equal first: distribute_tensor(value, mesh, placements, src_data_rank=0).")


def _array(value):
    """The value as an array that numpy compares; bfloat16 as float32."""
    return (value.to(mstype.float32) if value.dtype == mstype.bfloat16 else value).asnumpy()


def _gradient_layout(layout: LayoutValue) -> LayoutValue:
    """Layout of the gradient that a tensor's own layout implies under single_loss."""
    labels = {"sum": None, "avg": "sum", "max": "sum", "min": "sum", "prod": "sum"}
    return layout.replace(partial=tuple(labels.get(op) for op in layout.partial))


def _with_gradient(tensor: DTensor, grad_placements, forwards: bool) -> list:
    """Local values whose gradient is converted between the given placements and the tensor's own gradient layout."""
    spec = tensor._spec
    given = placements_to_value(spec.mesh, tuple(grad_placements), len(spec.shape))
    own = _gradient_layout(spec.layout)
    source, target = (given, own) if forwards else (own, given)
    if gradient_convention() != SINGLE_LOSS:
        return values_of(tensor)
    for rank in current_platform().positions(spec.mesh):
        coordinate = spec.mesh.coordinate_of(rank)
        if given.spec(spec.shape).local_shape(coordinate) != spec.local_shape(coordinate):
            raise LayoutError(f"grad_placements {given} give rank {rank} a gradient of shape "
                              f"{given.spec(spec.shape).local_shape(coordinate)}, but its local tensor has shape "
                              f"{spec.local_shape(coordinate)}. A gradient has the shape of its tensor: cut the same dims.")
    steps = plan(source, target, spec.shape)
    return apply(Identity(spec.mesh, lambda grads: run_steps(steps, grads)), values_of(tensor))


def _unpickled(values, dtype, layout, shape):
    import mindspore as ms
    kind = getattr(ms, dtype.lower().replace("bool", "bool_"), None)
    return wrap([Tensor(v) if kind is None else Tensor(v).to(kind) for v in values], layout.spec(shape))


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
        ...     distribute_tensor(np.arange(3.0), mesh, [Shard(0)]).to_local()[1].asnumpy().tolist()
        [2.0]
    """
    if isinstance(tensor, DTensor):
        return tensor.redistribute(device_mesh, placements)
    tensor = tensor if isinstance(tensor, Tensor) else Tensor(tensor)
    target = _layout_of(device_mesh, placements, tensor.ndim)
    _check_dtype(target, tensor.dtype)
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


__all__ = ["DTensor", "SkipDTensorDispatch", "distribute_tensor", "Partial", "Replicate", "Shard", "TensorSpec", "forget"]


_ELSEWHERE = {"distribute_module": "module", **dict.fromkeys(("ones", "zeros", "empty", "full", "rand", "randn"), "factories")}


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

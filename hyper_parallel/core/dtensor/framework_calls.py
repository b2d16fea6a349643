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
"""The one table of framework calls that would silently work on local data: each is dispatched or refused.

Everything else that the framework does not intercept is a method of `DTensor`.
"""
from __future__ import annotations

import functools

from mindspore import Tensor, mint, ops
from mindspore.common.generator import default_generator
from mindspore.graph import api
from mindspore.ops.function.nn_func import generator_step_
from mindspore.train import serialization

from hyper_parallel.core.dtensor.dtensor_base import LOCAL, DTensorBase, running_local, values_of
from hyper_parallel.core.shard._op_dispatch import STATE, dispatch_named
from hyper_parallel.errors import LayoutError, PartialError, UnsupportedOpError
from hyper_parallel.platform.mindspore.cpu_kernels_random import dropout
from hyper_parallel.platform.platform import current_platform


def _holds(values) -> bool:
    """True when a DTensor is among the values, or one level inside them."""
    for value in values:
        if isinstance(value, DTensorBase):
            return True
        if isinstance(value, (tuple, list)) and any(isinstance(v, DTensorBase) for v in value):
            return True
    return False


def _dispatched(name: str):
    """Route a primitive on a tuple of tensors through the dispatcher, with its own attributes behind."""

    def call(original, primitive, *args):
        static = (primitive.axis,) if name == "Stack" else ()
        return dispatch_named(name, lambda tensors, *_: original(primitive, tensors), list(_members(args)), *static)

    return call


def _members(args):
    return args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


def _refused(what: str, instead: str):
    """Refuse a call that the dispatcher cannot see into."""

    def call(original, *args, **kwargs):
        raise UnsupportedOpError(f"{what} does not see that an argument is a DTensor and would work on this rank's "
                                 f"part alone. {instead}")

    return call


def _no_construction(original, *args, **kwargs):
    raise LayoutError("Tensor(x) of a DTensor would silently give this rank's part. Say which value is meant: "
                      "x.to_local() for the part, x.full_tensor() for the whole.")


def _no_plain_target(original, target, index, value):
    raise LayoutError("Assigning a DTensor into a plain tensor would silently store this rank's part. Say which value "
                      "is meant: target[i] = x.to_local(), or target[i] = x.full_tensor().")


def _dropout(original, primitive, x):
    """(what is kept, mask): the mask of the whole tensor, from the framework's generator, which ranks seed alike."""
    del original
    seed, offset = default_generator._step(generator_step_)

    def dropped(tensor):
        return dispatch_named("Dropout", dropout, tensor, 1 - primitive.keep_prob, True, False, seed, offset)

    return dropped(x), mint.ne(dropped(mint.ones_like(x)), 0).to(x.dtype)


_LOCAL_FIRST = "Run it on x.to_local(), or register a distributed operation."

# (owner, attribute, what to do when an argument is a DTensor)
TABLE = (
    (ops.Stack, "__call__", _dispatched("Stack")),
    (ops.AddN, "__call__", _dispatched("AddN")),
    (ops.Dropout, "__call__", _dropout),
    (ops.AccumulateNV2, "__call__", _dispatched("AddN")),
    (ops.Broadcast, "__call__", _refused("ops.Broadcast", "Use x.redistribute(mesh, placements).")),
    (ops.IdentityN, "__call__", _refused("ops.IdentityN", _LOCAL_FIRST)),
    (ops.ParallelConcat, "__call__", _refused("ops.ParallelConcat", "Use mint.cat.")),
    (api._JitExecutor, "__call__", _refused("mindspore.jit", "Call the function without jit.")),
    (Tensor, "__init__", _no_construction),
    (Tensor, "__setitem__", _no_plain_target),
)


def _wrapped(original, handler):
    @functools.wraps(original)
    def call(self, *args, **kwargs):
        if not LOCAL.active and not STATE.skip and (args or kwargs) and _holds((*args, *kwargs.values())):
            return handler(original, self, *args, **kwargs)
        return original(self, *args, **kwargs)

    call.hyper_parallel_wrapped = True
    return call


def _with_parts(original):
    """Checkpoints hold this rank's part of a DTensor, never a part under the global shape."""

    @functools.wraps(original)
    def call(*args, **kwargs):
        with running_local():
            entries = original(*args, **kwargs)
        for entry in entries:
            if isinstance(entry, dict) and isinstance(entry.get("data"), DTensorBase):
                entry["data"] = _part(entry["name"], entry["data"])
        return entries

    call.hyper_parallel_wrapped = True
    return call


def _part(name: str, tensor):
    if tensor._spec.layout.is_partial:
        raise PartialError(f"save_checkpoint: {name!r} is {tensor._spec.layout}, and an unreduced addend is not its "
                           f"value. Reduce it first: x.reduce_partial().")
    platform = current_platform()
    return values_of(tensor)[platform.positions(tensor._spec.mesh).index(platform.rank())]


def install() -> None:
    """Wrap the framework's functions of the table, once per process."""
    entries = serialization._convert_save_obj_to_param_list
    if not getattr(entries, "hyper_parallel_wrapped", False):
        serialization._convert_save_obj_to_param_list = _with_parts(entries)
    for owner, attribute, handler in TABLE:
        original = getattr(owner, attribute)
        if not getattr(original, "hyper_parallel_wrapped", False):
            setattr(owner, attribute, _wrapped(original, handler))

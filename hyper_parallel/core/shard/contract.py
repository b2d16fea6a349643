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
"""Running a user's `DistributedOp` by its own contract: three phases, or the older layouts-and-arguments call."""
from __future__ import annotations

from mindspore import Tensor

from hyper_parallel.core.dtensor.assembly import assembled, equal_shards
from hyper_parallel.core.dtensor.boundaries import Enter, apply, grad_enabled
from hyper_parallel.core.dtensor.dtensor_base import TYPES, DTensorBase, own_object, running_local, values_of, wrap
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.core.shard.plan import call_local, unpack
from hyper_parallel.errors import LayoutError
from hyper_parallel.platform.platform import current_platform


def run_contract(op, func, args, kwargs):
    """The result of `func` under the rule of a user's distributed operation.

    A replicated operand that meets sharded or pending work becomes varying, so that its gradient is complete.

    Raises:
        LayoutError: when the operation returns another number of layouts than it has outputs.
    """
    primitive, args = unpack(op.op_name, args)
    outputs, run = asked(op, func, args, kwargs)[2:]
    args, kwargs = varying_arguments(args, kwargs, outputs)
    prepared = op.preprocess(args, kwargs)
    if prepared is not None:
        args, kwargs = prepared[:2]
    results = _run_everywhere(run, func, primitive, op.op_name, args, kwargs)
    return _wrapped(op, results, outputs)


def asked(op, func, args, kwargs) -> tuple:
    """What a user's distributed operation says of a call.

    Returns:
        Local positional and keyword arguments (the DTensors themselves in the older contract), layouts of the outputs,
        and the local function in place of `func`, or None.
    """
    prepared = op.preprocess(args, kwargs)
    if prepared is None:
        layouts = [layout_handle(a) for a in args]
        extra = tuple(a for a in args if a is not None and not isinstance(a, DTensorBase))
        inferred = op.infer_layout(layouts, extra)
        outputs = inferred if isinstance(inferred, tuple) else (inferred,)
        run = op.get_expand_impl(func, inferred, layouts, extra) if _overrides(op) else None
        return args, kwargs, outputs, run
    inferred = op.infer_layout(prepared[2])
    run = op.get_expand_impl(func, inferred, prepared[2])
    return prepared[0], prepared[1], tuple(inferred[0]), run


def _overrides(op) -> bool:
    """The older call passes four arguments, which the base's three-phase default does not take."""
    return type(op).get_expand_impl is not DistributedOp.get_expand_impl


def layout_handle(value) -> Layout | None:
    """A handle on a DTensor's layout, None for anything else."""
    return value.layout if isinstance(value, DTensorBase) else None


# -- conversions -----------------------------------------------------------------------------------------------------


def varying_arguments(args, kwargs, outputs) -> tuple[tuple, dict]:
    """Arguments in which replicas that meet sharded or pending work are varying (design, section 4)."""
    if not grad_enabled():
        return tuple(args), dict(kwargs)
    layouts = [a.layout.value for a in _tensors((*args, *kwargs.values()))]
    busy = busy_axes(layouts + [handle.value for handle in outputs if handle is not None])
    return tuple(varying(a, busy) for a in args), {k: varying(v, busy) for k, v in kwargs.items()}


def busy_axes(layouts: list) -> list:
    """Mesh axes on which some layout is cut or pending."""
    return [a for a in range(layouts[0].mesh.ndim) if not all(replicated(layout, a) for layout in layouts)]


def replicated(layout, axis: int) -> bool:
    """True when the layout is neither cut nor pending on a mesh axis."""
    return not layout.partial[axis] and layout.axis_dim[axis] is None


def varying(value, busy: list):
    """The value, where it is a replica on busy axes in its varying form: its gradient is summed over them.

    Args:
        value: a DTensor, a sequence that may hold some, or anything else.
        busy: mesh axes on which some operand or output is sharded or pending.
    """
    if isinstance(value, (tuple, list)):
        return type(value)(varying(v, busy) for v in value)
    if not isinstance(value, DTensorBase):
        return value
    layout = value.layout.value
    axes = tuple(a for a in busy if replicated(layout, a))
    if not axes or not value.dtype.is_floating_point:
        return value
    return wrap(apply(Enter(layout.mesh, axes, ()), values_of(value)), layout.spec(value.shape))


def _tensors(values):
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _tensors(value)
        elif isinstance(value, DTensorBase):
            yield value


# -- local runs ------------------------------------------------------------------------------------------------------


def _run_everywhere(run, func, primitive, name: str, args, kwargs) -> list:
    """The local result of every position."""
    results = []
    with running_local():
        for p in range(_positions((*args, *kwargs.values()))):
            local_args = [part_at(a, p) for a in args]
            local_kwargs = {k: part_at(v, p) for k, v in kwargs.items()}
            if run is not None:
                results.append(run(*local_args, **local_kwargs))
            else:
                results.append(call_local(func, primitive, name, local_args, local_kwargs))
    return results


def _positions(values) -> int:
    """Number of local values that the arguments hold: of DTensors, or of simulated parts that `to_local` gave."""
    if not current_platform().simulated:
        return 1
    counts = [len(values_of(t)) for t in _tensors(values)] + [len(v) for v in values if _is_parts(v)]
    return max(counts, default=1)


def _is_parts(value) -> bool:
    return (current_platform().simulated and isinstance(value, tuple) and len(value) > 0
            and all(type(v) is Tensor for v in value))  # pylint: disable=unidiomatic-typecheck


def part_at(value, p: int):
    """The value of one position: of a DTensor, of simulated parts, of sequences that hold some; else as it is."""
    if isinstance(value, DTensorBase):
        return values_of(value)[p]
    if _is_parts(value):
        return value[p]
    if isinstance(value, (tuple, list)) and any(isinstance(v, (Tensor, tuple)) for v in value):
        return type(value)(part_at(v, p) for v in value)
    return value


# -- results ---------------------------------------------------------------------------------------------------------


def _wrapped(op, results: list, layouts: tuple):
    """The outputs as DTensors, by the operation's own `wrap_output`; in a simulation it gets tuples of parts."""
    many = isinstance(results[0], (tuple, list))
    columns = list(zip(*results)) if many else [tuple(results)]
    if len(columns) != len(layouts):
        raise LayoutError(f"{op.op_name} returned {len(columns)} outputs and {len(layouts)} layouts. "
                          f"infer_layout must give one layout per output.")
    keep = current_platform().simulated
    parts = tuple(c if keep and layout is not None else c[0] for c, layout in zip(columns, layouts))
    return op.wrap_output(parts if many else parts[0], layouts if many else layouts[0])


def wrap_local(local, layout: Layout):
    """A DTensor around local values under a layout handle; without a recorded shape, of equal shards (checked)."""
    values = [own_object(v) for v in (local if isinstance(local, (tuple, list)) else [local])]
    shape = layout.tensor_shape
    if shape is None:
        shape = equal_shards(layout.value, tuple(values[0].shape))
        current_platform().expect_equal(layout.mesh, [tuple(v.shape) for v in values])
    return assembled(values, layout.value, shape, TYPES.dtensor)

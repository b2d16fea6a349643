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

from hyper_parallel.core.dtensor.dtensor_base import DTensorBase, running_local, values_of, wrap
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.core.shard.plan import call_local, unpack
from hyper_parallel.errors import LayoutError


def run_contract(op, func, args, kwargs):
    """The result of `func` under the rule of a user's distributed operation.

    Raises:
        LayoutError: when the operation returns another number of layouts than it has outputs.
    """
    primitive, args = unpack(op.op_name, args)
    prepared = op.preprocess(args, kwargs)
    if prepared is None:
        layouts = [_layout(a) for a in args if a is not None]
        extra = tuple(a for a in args if a is not None and not isinstance(a, DTensorBase))
        inferred = op.infer_layout(layouts, extra)
        outputs = inferred if isinstance(inferred, tuple) else (inferred,)
        run = op.get_expand_impl(func, inferred, layouts, extra) if _overrides(op) else None
    else:
        cache_values = prepared[2]
        inferred = op.infer_layout(cache_values)
        outputs = inferred[0]
        run = op.get_expand_impl(func, inferred, cache_values)
    results = _run_everywhere(run, func, primitive, op.op_name, args, kwargs)
    return _wrap(op, results, outputs)


def _overrides(op) -> bool:
    return type(op).get_expand_impl is not DistributedOp.get_expand_impl


def _layout(value):
    return value.layout if isinstance(value, DTensorBase) else None


def _run_everywhere(run, func, primitive, name: str, args, kwargs) -> list:
    """The local result of every position."""
    tensors = [a for a in _flat((*args, *kwargs.values())) if isinstance(a, DTensorBase)]
    count = len(values_of(tensors[0]))
    results = []
    with running_local():
        for p in range(count):
            local_args = [_at(a, p) for a in args]
            local_kwargs = {k: _at(v, p) for k, v in kwargs.items()}
            if run is not None:
                results.append(run(*local_args, **local_kwargs))
            else:
                results.append(call_local(func, primitive, name, local_args, local_kwargs))
    return results


def _flat(values):
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _flat(value)
        else:
            yield value


def _at(value, p: int):
    if isinstance(value, DTensorBase):
        return values_of(value)[p]
    if isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value):
        return type(value)(_at(v, p) for v in value)
    return value


def _wrap(op, results: list, layouts: tuple):
    if hasattr(op, "wrap_output") and len(results) == 1:
        return op.wrap_output(results[0], layouts if len(layouts) > 1 else layouts[0])
    many = isinstance(results[0], (tuple, list))
    columns = list(zip(*results)) if many else [tuple(results)]
    if len(columns) != len(layouts):
        raise LayoutError(f"{op.op_name} returned {len(columns)} outputs and {len(layouts)} layouts. "
                          f"infer_layout must give one layout per output.")
    wrapped = tuple(c[0] if layout is None else wrap_local(list(c), layout) for c, layout in zip(columns, layouts))
    return wrapped if many else wrapped[0]


def wrap_local(values: list, layout: Layout):
    """A DTensor around local values under a layout handle; without a recorded shape, of equal shards."""
    shape = layout.tensor_shape or layout.mesh.get_global_shape(tuple(values[0].shape), layout.tensor_map)
    return wrap(values, layout.value.spec(tuple(shape)))

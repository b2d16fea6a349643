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
"""`DistributedOp`: the three-phase contract of a distributed operation, and `RuleOp`, which derives it from a rule."""
from __future__ import annotations

import importlib

from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.shard.declaration import (
    MISSING, Declaration, Operand, Param, Place, locate, parse_params, read,
)
from hyper_parallel.core.shard.ops.parallel_ops_register import register_distributed_op
from hyper_parallel.core.shard.rules import infer
from hyper_parallel.errors import LayoutError, PartialError, UnsupportedOpError

_THREE_PHASE = object()


class DistributedOp:
    """Base of distributed operations; constructing one registers it under its name.

    A subclass gives `preprocess`, `infer_layout` and, where the local operation differs, `get_expand_impl`.

    Args:
        op_name: the framework's operation name.

    Attributes:
        report: what the verifier found at registration, or None when it was not asked.
    """

    report = None
    _allow_partial_inputs = False

    def __init__(self, op_name: str):
        self.op_name = op_name
        register_distributed_op(op_name, self)

    def preprocess(self, args, kwargs):  # pylint: disable=unused-argument
        """(local args, local kwargs, cache values) of a call, or None for the older two-argument contract."""
        return None

    def infer_layout(self, cache_values, extra_args=_THREE_PHASE):
        """((output layouts...), extra) of the cache values; or one Layout when called with `extra_args`."""
        raise NotImplementedError(f"{type(self).__name__} must define infer_layout.")

    def get_expand_impl(self, func, infer_result, cache_values):  # pylint: disable=unused-argument
        """The local function to run in place of `func`, or None."""
        return None

    def wrap_output(self, py_output, output_layouts):
        """DTensors around local outputs: one layout for one output, a tuple for several; None passes one through."""
        wrap_local = importlib.import_module("hyper_parallel.core.shard.contract").wrap_local
        if not isinstance(output_layouts, (tuple, list)):
            return py_output if output_layouts is None else wrap_local(py_output, output_layouts)
        return tuple(o if layout is None else wrap_local(o, layout) for o, layout in zip(py_output, output_layouts))

    def _check_partial_inputs(self, layouts) -> None:
        """Refuse pending inputs.

        Raises:
            PartialError: naming the operation and the input.
        """
        for i, layout in enumerate(layouts):
            if layout is not None and not self._allow_partial_inputs and layout.is_partial():
                raise PartialError(f"{self.op_name}: input {i} is {layout.value}, and the operation takes no Partial "
                                   f"input. Reduce it first: x.reduce_partial().")


class RuleOp(DistributedOp):
    """A distributed operation whose layouts follow from a declaration."""

    def __init__(self, declaration: Declaration):
        self.declaration = declaration
        super().__init__(declaration.name)

    # -- the rule asked directly, on layouts alone ---------------------------------------------------------------------

    def infer_layout(self, cache_values, extra_args=_THREE_PHASE):
        """Layouts of the outputs.

        Args:
            cache_values: the arguments in parameter order: a Layout (or None) per tensor, static values as they are.
            extra_args: static values alone; giving it selects the older call with layouts only in `cache_values`.

        Returns:
            ((output layouts...), Place-independent inference), or one Layout (a tuple of several) in the older call.

        Raises:
            LayoutError: when there is no sound rule for these layouts.
        """
        old = extra_args is not _THREE_PHASE
        values = list(cache_values)
        if old:
            values = self._merge(values, () if extra_args is None else tuple(extra_args))
        layouts, bound, inference = self._infer(values)
        if bound.out_shapes is None:
            raise UnsupportedOpError(f"{self.op_name}: every output is Replicate, and only a run tells how many there "
                                     f"are and of which shape.")
        outputs = tuple(Layout.of(v, s if self._exact(layouts) else None)
                        for v, s in zip(inference.outputs, bound.out_shapes))
        if old:
            return outputs if bound.multi else outputs[0]
        return outputs, (layouts, bound, inference)

    def _merge(self, layouts: list, extra: tuple) -> list:
        """Layouts and static values in parameter order, from the older call."""
        layouts, extra, merged = list(layouts), list(extra), []
        for param in self.declaration.params:
            source = layouts if param.tensor else extra
            if source:
                merged.append(source.pop(0))
            elif param.default is not MISSING:
                merged.append(param.default)
        if layouts or extra:
            raise LayoutError(f"{self.op_name} takes {self._usage()}. Got {len(layouts) + len(extra)} too many.")
        return merged

    def _usage(self) -> str:
        return ", ".join(p.name + (" (a layout)" if p.tensor else "") for p in self.declaration.params)

    def _infer(self, values: list):
        if len(values) > len(self.declaration.params):
            raise LayoutError(f"{self.op_name} takes {self._usage()}. Got {len(values)} values.")
        given, layouts = {}, []
        for param, value in zip(self.declaration.params, values):
            given[param.name] = _as_operand(value, layouts)
            if param.tensor and value is None and param.default is MISSING:
                raise LayoutError(f"{self.op_name}: {param.name!r} has no layout. A plain tensor next to a DTensor is "
                                  f"not replicated silently: distribute_tensor(t, mesh, [Replicate()] * mesh.ndim).")
        if not layouts:
            raise LayoutError(f"{self.op_name} needs at least one layout.")
        bound = self.declaration.bind(self.declaration.call(given))
        return layouts, bound, infer(bound.signature, [layout.value for layout in layouts])

    @staticmethod
    def _exact(layouts) -> bool:
        return all(layout.tensor_shape is not None for layout in layouts)

    # -- the contract on tensors ---------------------------------------------------------------------------------------

    def preprocess(self, args, kwargs):
        """(local args, local kwargs, cache values) of a call on DTensors."""
        kwargs = kwargs or {}
        slots = locate(self.op_name, self.declaration.params, args, kwargs)
        values = []
        for param in self.declaration.params:
            value = read(slots[param.name], param, args, kwargs) if param.name in slots else param.default
            values.append(_layout_of(value))
        local_args = tuple(_local_of(a) for a in args)
        return local_args, {k: _local_of(v) for k, v in kwargs.items()}, values

    def get_expand_impl(self, func, infer_result, cache_values):
        """The local function with conversions and rewritten static arguments, or None when `func` itself is right."""
        layouts, bound, inference = infer_result[1]
        # This phase needs the framework; the inference of layouts does not.
        execution = importlib.import_module("hyper_parallel.core.shard.execution")
        return execution.expand_impl(self.declaration, func, layouts, bound, inference)


def declare(name: str, params: str | tuple[Param, ...], bind, **options) -> RuleOp:
    """Register the operation `name` by declaration and return it."""
    parsed = parse_params(params) if isinstance(params, str) else params
    return RuleOp(Declaration(name, parsed, bind, **options))


def _as_operand(value, layouts: list):
    """Layouts become operands (and are collected); everything else stays."""
    if isinstance(value, Layout):
        layouts.append(value)
        return layout_operand(value)
    if isinstance(value, (tuple, list)) and any(isinstance(v, Layout) for v in value):
        return tuple(_as_operand(v, layouts) for v in value)
    return value


def layout_operand(layout: Layout) -> Operand:
    """The operand of a layout; without a recorded shape a pretended one: cut dims long, others of size 1."""
    if layout.tensor_shape is not None:
        return Operand(tuple(layout.tensor_shape), layout.tensor_dtype)
    sizes = tuple(layout.mesh.size() * 2 if axes else 1 for axes in layout.value.dims)
    return Operand(sizes, layout.tensor_dtype, exact=False)


def _layout_of(value):
    spec = getattr(value, "_spec", None)
    if spec is not None:
        return Layout.of(spec.layout, spec.shape)
    if isinstance(value, (tuple, list)) and any(getattr(v, "_spec", None) is not None for v in value):
        return tuple(_layout_of(v) for v in value)
    return value


def _local_of(value):
    if getattr(value, "_spec", None) is not None:
        return value.to_local(partial_ok=True)
    if isinstance(value, (tuple, list)):
        return type(value)(_local_of(v) for v in value)
    return value


__all__ = ["DistributedOp", "RuleOp", "declare", "layout_operand", "Place"]

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
"""Checks a programmed rule, a `DistributedOp` subclass, as the verifier checks declarations.

The rule is asked as the dispatcher asks it, on simulated DTensors: `preprocess`, then `infer_layout`, then
`get_expand_impl`. What every rank computes is the reference on the local arguments that `preprocess` gives. A local
function of `get_expand_impl` runs on the framework's tensors, so its values are checked and its gradients are not.
"""
from __future__ import annotations

import math

import numpy as np
from mindspore import Tensor

from hyper_parallel.core.dtensor.assembly import assembled
from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.core.shard.contract import asked, busy_axes, part_at, replicated
from hyper_parallel.core.shard.declaration import Declaration, parse_params
from hyper_parallel.core.shard.ops.parallel_whole import bind_whole
from hyper_parallel.core.shard.rules import Inference
from hyper_parallel.errors import LayoutError
from hyper_parallel.platform.simulated.simulation import simulate
from hyper_parallel.verify.problem import Problem
from hyper_parallel.verify.report import OpReport
from hyper_parallel.verify.sweep import Budget, Sweep
from hyper_parallel.verify.tape import NoDerivative, Tracked

_REFUSALS = (ValueError, RuntimeError, NotImplementedError)  # what programmed rules raise where they have no layout


class ProgrammedProblem(Problem):
    """A problem whose rule is asked of `operation`."""

    operation = None

    def __init__(self, *args):
        super().__init__(*args)
        self._calls: dict = {}

    def refuses(self, operands: tuple) -> bool:
        """Nothing is known before the rule is asked."""
        return False

    def infer(self, layouts) -> Inference:
        """The layouts that the rule gives, and the replicas that the dispatcher makes varying.

        Raises:
            LayoutError: when the rule refuses.
            TypeError: when its answer fits no call.
        """
        layouts = tuple(layouts)
        with simulate(math.prod(self.mesh.mesh_shape)):
            tensors = [assembled([Tensor(v) for v in self.locals_of(i, layout)], layout, x.shape, DTensor)
                       for i, (x, layout) in enumerate(zip(self.inputs, layouts))]
            try:
                args, kwargs, given, run = asked(self.operation, self._local, self._arguments(tensors), {})
            except LayoutError:
                raise
            except _REFUSALS as error:
                raise LayoutError(str(error)) from error
            local = [([part_at(a, r) for a in args], {k: part_at(v, r) for k, v in kwargs.items()})
                     for r in range(math.prod(self.mesh.mesh_shape))]
        held = _count((*local[0][0], *local[0][1].values()))
        if held != len(layouts):
            raise TypeError(f"preprocess gave {held} local tensors for {len(layouts)} operands")
        if len(given) != len(self.outputs):
            raise TypeError(f"infer_layout gave {len(given)} layouts for {len(self.outputs)} results")
        outputs = tuple(self._output(j, handle) for j, handle in enumerate(given))
        self._calls[layouts] = (local, run)
        return Inference(outputs, self._varying(layouts, outputs), ((),) * len(layouts), (), {})

    def own_run(self, layouts: tuple, rank: int):
        """What this rank computes of its parts."""
        local, run = self._calls[tuple(layouts)]
        args, kwargs = local[rank]

        def computed(*arrays):
            parts = iter(arrays)
            values = [_filled(a, parts) for a in args]
            named = {k: _filled(v, parts) for k, v in kwargs.items()}
            results = self.reference.function(values, named) if run is None else _on_tensors(run, values, named)
            return tuple(results) if isinstance(results, (tuple, list)) else (results,)

        return computed

    def call(self, tensors, replaced=None, form=None):
        """The reference on these arrays, called as the operation is."""
        results = self.reference.function(self._arguments(tensors), {})
        return tuple(results) if isinstance(results, (tuple, list)) else (results,)

    def _arguments(self, tensors) -> list:
        return list(self.arguments.fill(tensors).values())

    def _local(self, *args, **kwargs):
        """The operation's local function, as `get_expand_impl` is handed it."""
        results = self.reference.function([_array(a) for a in args], {k: _array(v) for k, v in kwargs.items()})
        many = isinstance(results, (tuple, list))
        made = tuple(Tensor(np.asarray(r)) for r in (results if many else (results,)))
        return made if many else made[0]

    def _output(self, j: int, handle):
        value = getattr(handle, "value", None)
        if value is None or len(value.dims) != self.outputs[j].ndim:
            raise TypeError(f"infer_layout gave {handle} for a result of {self.outputs[j].ndim} dimensions")
        return layout_value(self.mesh, value.dims, value.partial)

    def _varying(self, layouts: tuple, outputs: tuple) -> tuple:
        """Axes on which a floating replica meets cut or pending work: there its gradient is summed."""
        busy = busy_axes([*layouts, *outputs])
        return tuple(tuple(a for a in busy if replicated(layout, a)) if x.dtype.kind == "f" else ()
                     for x, layout in zip(self.inputs, layouts))


def _filled(value, parts):
    """The next part where the rule's local arguments hold a tensor."""
    if isinstance(value, Tensor):
        return next(parts)
    if isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value):
        return type(value)([_filled(v, parts) for v in value])
    return value


def _count(values) -> int:
    return sum(_count(v) if isinstance(v, (tuple, list)) else isinstance(v, Tensor) for v in values)


def _array(value):
    if isinstance(value, Tensor):
        return value.asnumpy()
    return type(value)(map(_array, value)) if isinstance(value, (tuple, list)) else value


def _on_tensors(run, values: list, named: dict):
    if any(isinstance(v, Tracked) for v in (*values, *named.values())):
        raise NoDerivative("a local function works on the framework's tensors")
    results = run(*map(_tensor, values), **{k: _tensor(v) for k, v in named.items()})
    return _array(tuple(results) if isinstance(results, (tuple, list)) else results)


def _tensor(value):
    return Tensor(value) if isinstance(value, np.ndarray) else value


def verify_programmed(operation, params: str, reference, budget: Budget) -> OpReport:
    """Check a programmed rule over the patterns of its reference.

    Args:
        operation: the instance of a `DistributedOp` subclass.
        params: the parameters in the call's order, as `register_op` takes them.
        reference: a `Reference` whose function takes (positional arguments, keyword arguments).
        budget: how much to check.

    Returns:
        The report; `report.wrong` lists unsound answers with their smallest counterexamples.
    """
    declaration = Declaration(operation.op_name, parse_params(params), bind_whole)
    problem = type("Problem", (ProgrammedProblem,), {"operation": operation})
    return Sweep(declaration, reference, budget, problem).run()

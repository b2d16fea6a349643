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
"""Optimizer steps: elementwise over a parameter, its gradient and its states, changed in place.

All of them must be cut alike; a step is not linear in the gradient, so nothing may be pending: reduce it first.
"""
from __future__ import annotations

import functools

from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError


def stepper(*params: str):
    """The binder of a step; the first of `params` is the parameter, 0-d tensors are numbers that all ranks share."""

    def bind(call: Call) -> Bound:
        shape = call[params[0]].shape
        held = [v for v in call.operands() if isinstance(v, Operand)]
        full = [call[p] for p in params if isinstance(call[p], Operand)]
        if any(o.shape != shape for o in full) or any(o.shape not in (shape, ()) for o in held):
            raise LayoutError(f"{call.name}: parameter, gradient and states must have one shape. "
                              f"Got {[o.shape for o in held]}.")
        return Bound(step_signature(call.name, len(shape), tuple(bool(o.shape) or not shape for o in held)), (shape,))

    return bind


@functools.lru_cache(maxsize=256)
def step_signature(name: str, ndim: int, full: tuple) -> Signature:
    """Tensors of the parameter's shape, and numbers; no gradient flows through a step."""
    names = letters(ndim)
    return Signature(name, tuple(names if f else () for f in full), (names,), no_grad=frozenset(range(len(full))))


declare("AdamW", "input:t exp_avg:t exp_avg_sq:t max_exp_avg_sq:t grad:t step:t lr beta1 beta2 decay eps amsgrad=False "
        "maximize=False", stepper("input", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "grad"), inplace=True)
declare("AdamWeightDecay", "input:t m:t v:t lr:t beta1:t beta2:t epsilon:t decay:t grad:t use_locking=False",
        stepper("input", "m", "v", "grad"), inplace=True)
declare("Adam", "input:t m:t v:t beta1_power:t beta2_power:t lr:t beta1:t beta2:t epsilon:t grad:t use_locking=False "
        "use_nesterov=False", stepper("input", "m", "v", "grad"), inplace=True)
declare("ApplyMomentum", "input:t accumulation:t lr:t grad:t momentum:t use_nesterov=False use_locking=False "
        "gradient_scale=1.0", stepper("input", "accumulation", "grad"), inplace=True)

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
"""Sharding whole programs: `parallelize_value_and_grad`; `shard_module` is a name only so far."""
from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, mint, ops

from hyper_parallel.core.dtensor.convention import SINGLE_LOSS, gradient_convention
from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.core.dtensor.dtensor_base import plain
from hyper_parallel.core.dtensor.gradients import _recording_ends, _reduced, _weights
from hyper_parallel.core.not_built import not_built

shard_module = not_built("shard_module", __name__, "Replace parameters by Parameter(distribute_tensor(p, mesh, placements)).")


def parallelize_value_and_grad(fn, weights, sens=None):
    """A function giving `(value, gradients)` of the first output with respect to `weights`, as plain local tensors.

    Under single_loss the gradients are those of one logical loss; under sum_of_ranks a replicated loss is seeded with
    1 over the number of ranks that hold it, so that gradients summed over replicas are those of one loss.

    Args:
        fn: function that returns a loss, or a tuple whose first member is the loss.
        weights: a Parameter or a sequence of Parameters.
        sens: None, or one float per output: the seed that multiplies each output's own.

    Raises:
        TypeError: when `sens` is not a list or tuple with one float per output, or is given for a single output.
    """
    params = _weights(weights)

    def differentiated(*args, **kwargs):
        seeds_of = []

        def run(*inputs):
            out = fn(*inputs, **kwargs)
            outputs = tuple(_reduced(o) for o in out) if isinstance(out, (tuple, list)) else (_reduced(out),)
            seeds_of.append(_seeds(outputs, isinstance(out, (tuple, list)), sens))
            total = sum(_weighted(o, s) for o, s in zip(outputs, seeds_of[-1]) if s)
            return (total, *outputs)

        with _recording_ends():
            (_, *outputs), gradients = ms.value_and_grad(run, None, params, has_aux=True)(*args)
        return (outputs[0] if len(outputs) == 1 else tuple(outputs)), gradients

    return differentiated


def _seeds(outputs: tuple, many: bool, sens) -> list:
    if sens is None:
        factors = [1.0] + [0.0] * (len(outputs) - 1)
    elif not many:
        raise TypeError("sens is for functions with several outputs; a single loss has the seed that the gradient "
                        "convention gives it.")
    elif not isinstance(sens, (list, tuple)) or len(sens) != len(outputs) or not all(isinstance(s, float) for s in sens):
        raise TypeError(f"sens must be a list or tuple with one float per output ({len(outputs)}). Got {sens!r}.")
    else:
        factors = list(sens)
    return [factor * _own_seed(output) for factor, output in zip(factors, outputs)]


def _own_seed(output) -> float:
    """1, or under sum_of_ranks one over the ranks that hold the same value."""
    if gradient_convention() == SINGLE_LOSS or not isinstance(output, DTensor):
        return 1.0
    return 1.0 / output.layout.repeat_num()


def _weighted(output: Tensor, seed: float):
    return mint.mul(ops.cast(mint.sum(plain(output)), ms.float32), seed)

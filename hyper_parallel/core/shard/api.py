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

from mindspore import Parameter

from hyper_parallel.core.dtensor.convention import SINGLE_LOSS, gradient_convention
from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.core.dtensor.gradients import value_and_grad
from hyper_parallel.core.not_built import not_built

shard_module = not_built("shard_module", __name__,  # pylint: disable=invalid-name
                         "Replace parameters by Parameter(distribute_tensor(p, mesh, placements)).")


def parallelize_value_and_grad(fn, weights, sens=None):
    """A function giving `(value, gradients)` of the first output with respect to `weights`, as plain local tensors.

    Under single_loss the gradients are those of one logical loss; under sum_of_ranks a loss is seeded with 1 over the
    number of ranks, so that gradients summed over replicas are those of one loss.

    Args:
        fn: function that returns a loss, or a tuple whose first member is the loss.
        weights: a Parameter or a sequence of Parameters.
        sens: None, or one float per output: the seed that multiplies each output's own.

    Raises:
        TypeError: when `sens` is not a list or tuple with one float per output, or is given for a single output.

    Examples:
        >>> from mindspore import Parameter, Tensor
        >>> from hyper_parallel import simulate, init_device_mesh, Shard, distribute_tensor
        >>> with simulate(2):
        ...     mesh = init_device_mesh("cpu", (2,))
        ...     w = Parameter(distribute_tensor(Tensor([1.0, 2.0]), mesh, [Shard(0)]), name="w")
        ...     value, (g,) = parallelize_value_and_grad(lambda: (w * w).sum(), [w])()
        ...     value.full_tensor().item(), [part.asnumpy().tolist() for part in g]
        (5.0, [[2.0], [4.0]])
    """

    def run(*args, **kwargs):
        out = fn(*args, **kwargs)
        many = isinstance(out, (tuple, list))
        outputs = tuple(out) if many else (out,)
        total = sum(_counted(o) * factor for o, factor in zip(outputs, _factors(outputs, many, sens)) if factor)
        return (total, *outputs)

    both = value_and_grad(run, None, [weights] if isinstance(weights, Parameter) else list(weights), has_aux=True)

    def differentiated(*args, **kwargs):
        (_, *outputs), gradients = both(*args, **kwargs)
        whole = [o.reduce_partial() if isinstance(o, DTensor) else o for o in outputs]
        return (whole[0] if len(whole) == 1 else tuple(whole)), tuple(_part(g) for g in gradients)

    return differentiated


def _part(gradient):
    return gradient.to_local(partial_ok=True) if isinstance(gradient, DTensor) else gradient


def _factors(outputs: tuple, many: bool, sens) -> list:
    if sens is None:
        return [1.0] + [0.0] * (len(outputs) - 1)
    if not many:
        raise TypeError("sens is for functions with several outputs; a single loss has the seed that the gradient "
                        "convention gives it.")
    if not isinstance(sens, (list, tuple)) or len(sens) != len(outputs) or not all(isinstance(s, float) for s in sens):
        raise TypeError(f"sens must be a list or tuple with one float per output ({len(outputs)}). Got {sens!r}.")
    return list(sens)


def _counted(output):
    """The output's sum, reduced; under sum_of_ranks over the number of ranks that then hold it."""
    if not isinstance(output, DTensor):
        return output.sum()
    total = output.sum().reduce_partial()
    return total if gradient_convention() == SINGLE_LOSS else total * (1.0 / output.device_mesh.size())

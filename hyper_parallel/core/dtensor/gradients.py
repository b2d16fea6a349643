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
"""`value_and_grad` and `grad`: gradients as DTensors, labelled by the layout of what they are gradients of."""
from __future__ import annotations

import contextlib
import functools

import mindspore as ms
from mindspore import Parameter, Tensor
from mindspore.common.api import _pynative_executor

from hyper_parallel.core.dtensor.assembly import implied_gradient_layout
from hyper_parallel.core.dtensor.convention import SINGLE_LOSS, gradient_convention
from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.core.dtensor.dtensor_base import values_of, wrap, wrap_shared
from hyper_parallel.errors import LayoutError
from hyper_parallel.platform.platform import current_platform


def gradient_layout(layout):
    """Layout of a tensor's gradient: Shard -> Shard, Replicate -> Replicate, P(sum) -> Replicate, others -> P(sum).

    Under sum_of_ranks a replicated tensor holds a per-rank part, P(sum), on every axis where it is Replicate.
    """
    if gradient_convention() == SINGLE_LOSS:
        return implied_gradient_layout(layout)
    partial = tuple("sum" if op not in (None, "sum") or (op is None and layout.axis_dim[a] is None) else None
                    for a, op in enumerate(layout.partial))
    return layout.replace(partial=partial)


def _labelled(source, values: list):
    """A gradient with the layout that the tensor it belongs to implies."""
    if isinstance(source, DTensor):
        spec = source._spec
        for own, value in zip(values_of(source), values):
            if tuple(own.shape) != tuple(value.shape):
                raise LayoutError(f"The framework gave a gradient of shape {tuple(value.shape)} for a part of shape "
                                  f"{tuple(own.shape)}. Some operation's backward is wrong for local shapes like "
                                  f"these: please report the program.")
        return wrap(values, gradient_layout(spec.layout).spec(spec.shape))
    return values[0] if len(values) == 1 else tuple(values)


def _reduced(loss):
    """A pending loss is reduced before it is differentiated, so that a seed of 1 counts it once."""
    return loss.reduce_partial() if isinstance(loss, DTensor) and loss._spec.layout.is_partial else loss


def value_and_grad(fn, grad_position=0, weights=None, has_aux=False):
    """A function that returns the value of `fn` and its gradients as labelled DTensors.

    Args:
        fn: function of tensors and DTensors that returns a loss, or a tuple whose first member is the loss.
        grad_position: index or indices of the arguments to differentiate, or None.
        weights: a Parameter or a sequence of Parameters to differentiate too, or None.
        has_aux: differentiate the first output only.

    Returns:
        A function of the same arguments giving `(value, gradients)`; gradients are one tensor, a tuple, or
        (inputs, weights) when both are asked for, as the framework's own function does.

    Raises:
        ValueError: when `grad_position` names no positional argument, or there is nothing to differentiate.

    Examples:
        >>> from hyper_parallel import simulate, init_device_mesh, Shard, distribute_tensor
        >>> with simulate(2):
        ...     x = distribute_tensor(Tensor([1.0, 2.0, 3.0]), init_device_mesh("cpu", (2,)), [Shard(0)])
        ...     loss, g = value_and_grad(lambda x: (x * x).sum())(x)
        ...     g.placements, g.full_tensor().asnumpy().tolist()
        ((Shard(dim=0),), [2.0, 4.0, 6.0])
    """
    run = _simulated if current_platform().simulated else _real

    def differentiated(*args, **kwargs):
        _check_positions(grad_position, weights, len(args))
        with _recording_ends():
            return run(functools.partial(fn, **kwargs) if kwargs else fn, grad_position, weights, has_aux, args)

    return differentiated


def _check_positions(grad_position, weights, count: int) -> None:
    positions = _positions(grad_position)
    if any(isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < count for i in positions):
        raise ValueError(f"grad_position must be an int or a tuple of ints in [0, {count - 1}], the positional "
                         f"arguments of the call. Got {grad_position!r}.")
    if not positions and weights is None:
        raise ValueError("There is nothing to differentiate: give grad_position, weights, or both.")


@contextlib.contextmanager
def _recording_ends():
    """End a recording that an error interrupts; the framework would go on recording everything that follows."""
    before = _pynative_executor.grad_flag()
    try:
        yield
    except BaseException:
        if not before:
            _pynative_executor.set_grad_flag(False)
            _pynative_executor.clear_res()
        raise


def grad(fn, grad_position=0, weights=None, has_aux=False):
    """As `value_and_grad`, returning the gradients (and with `has_aux` the further outputs) alone.

    Examples:
        >>> grad(lambda x: (x * x).sum())(Tensor([3.0])).asnumpy().tolist()
        [6.0]
    """
    both = value_and_grad(fn, grad_position, weights, has_aux)

    def differentiated(*args, **kwargs):
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1:]) if has_aux else gradients

    return differentiated


def _first_reduced(out):
    return (_reduced(out[0]), *out[1:]) if isinstance(out, tuple) else _reduced(out)


def _positions(grad_position) -> tuple:
    if grad_position is None:
        return ()
    return (grad_position,) if isinstance(grad_position, int) else tuple(grad_position)


def _weights(weights) -> list:
    if weights is None:
        return []
    return [weights] if isinstance(weights, Parameter) else list(weights)


def _arranged(grad_position, weights, inputs: list, params: list):
    """Gradients in the framework's arrangement."""
    of_inputs = inputs[0] if isinstance(grad_position, int) else tuple(inputs)
    of_weights = params[0] if isinstance(weights, Parameter) else tuple(params)
    if weights is None:
        return of_inputs
    return of_weights if grad_position is None else (of_inputs, of_weights)


def _real(fn, grad_position, weights, has_aux, args):
    positions, params = _positions(grad_position), _weights(weights)
    raw = ms.value_and_grad(lambda *a: _first_reduced(fn(*a)), positions or None, params or None, has_aux)
    value, gradients = raw(*args)
    inputs, of_params = (gradients if positions and params else (gradients, ()) if positions else ((), gradients))
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    of_params = of_params if isinstance(of_params, (tuple, list)) else (of_params,)
    return value, _arranged(grad_position, weights, [_labelled(args[i], [g]) for i, g in zip(positions, inputs)],
                            [_labelled(p, [g]) for p, g in zip(params, of_params)])


def _simulated(fn, grad_position, weights, has_aux, args):
    """Differentiate with respect to the local values of all ranks at once: every rank's loss has a seed of 1."""
    positions, params = _positions(grad_position), _weights(weights)
    sources = [args[i] for i in positions] + params
    flat = [v for source in sources for v in _members(source)]
    outputs = []

    def local(*values):
        rest = list(values)
        remade = [_remade(source, [rest.pop(0) for _ in _members(source)]) for source in sources]
        inside = list(args)
        for i, tensor in zip(positions, remade):
            inside[i] = tensor
        with _standing_in(params, remade[len(positions):]):
            out = _first_reduced(fn(*inside))
        outputs.append(out)
        counted = out if isinstance(out, tuple) and not has_aux else (out[0] if isinstance(out, tuple) else out,)
        return sum(v.sum() for tensor in counted for v in _members(tensor))

    gradients = ms.grad(local, tuple(range(len(flat))))(*flat)
    rest = list(gradients) if isinstance(gradients, (tuple, list)) else [gradients]
    labelled = [_labelled(source, [rest.pop(0) for _ in _members(source)]) for source in sources]
    return outputs[-1], _arranged(grad_position, weights, labelled[:len(positions)], labelled[len(positions):])


def _members(tensor) -> list:
    return values_of(tensor) if isinstance(tensor, DTensor) else [tensor]


def _remade(source, values: list):
    return wrap_shared(values, source._spec) if isinstance(source, DTensor) else values[0]


class _standing_in:  # pylint: disable=invalid-name
    """Parameters hold the differentiated local values while entered."""

    def __init__(self, params, stand_ins):
        self._pairs = [(p, s) for p, s in zip(params, stand_ins) if isinstance(p, DTensor)]

    def __enter__(self):
        self._before = [p._locals for p, _ in self._pairs]
        for param, stand_in in self._pairs:
            param._locals, param._memo = stand_in._locals, None

    def __exit__(self, *exc):
        for (param, _), locals_ in zip(self._pairs, self._before):
            param._locals, param._memo = locals_, None


__all__ = ["Tensor", "grad", "gradient_layout", "value_and_grad"]

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
"""Cross entropy of logits whose classes (a vocabulary) are cut over ranks, without gathering them.

    log softmax   x - m - log(sum(exp(x - m))), m the maximum: both reductions are all-reduces of one number per row
    likelihood    every rank picks the labels among its classes, the others give zero: one all-reduce per label

The gradients follow from those of the parts: softmax minus one at the label, cut as the logits are.
"""
from __future__ import annotations

import contextlib
import logging

from mindspore import mint, ops

from hyper_parallel.core.dtensor.boundaries import FanOut, apply
from hyper_parallel.core.dtensor.dtensor_base import DTensorBase, wrap_shared
from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.core.shard._op_dispatch import Refused, remedied
from hyper_parallel.core.shard.declaration import normal_dim
from hyper_parallel.platform.mindspore.cpu_kernels_common import as_dtype
from hyper_parallel.platform.mindspore.likelihood import likelihood

logger = logging.getLogger("hyper_parallel.loss_parallel")


@contextlib.contextmanager
def loss_parallel():
    """Let losses reduce what they need of logits whose class dimension is cut, and log each reduction.

    Inside, `mint.nn.functional.cross_entropy`, `log_softmax`, `nll_loss`, `ops.cross_entropy` and the loss layers take
    cut classes and a cut batch, with every reduction, class weights, ignored labels and label smoothing: where a rule
    refuses, log softmax and likelihood are put together from reductions, and other operations get their pending
    operands reduced. Shards are never gathered. Outside, such a call is refused. Backward may run inside or outside.
    Labels must name a class or be the ignored one: over cut classes nobody compares them with the number of classes.

    The logger is "hyper_parallel.loss_parallel", the level INFO.

    Examples:
        >>> import mindspore as ms
        >>> from hyper_parallel import Replicate, Shard, distribute_tensor, init_device_mesh, simulate
        >>> from hyper_parallel.core.tensor_parallel import loss_parallel
        >>> with simulate(2), loss_parallel():
        ...     mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        ...     logits = distribute_tensor(ms.Tensor([[2.0, 0.0, 0.0, 2.0]]), mesh, [Shard(1)])
        ...     label = distribute_tensor(ms.Tensor([3]), mesh, [Replicate()])
        ...     round(ms.mint.nn.functional.cross_entropy(logits, label).item(), 4)
        0.8201
    """
    with remedied(_remedy):
        yield


def _remedy(call: Refused):
    """The result of a refused call, or NotImplemented."""
    arguments = call.arguments()
    form = _FORMS.get(call.name)
    if form is not None and not any(_pending(v) for v in arguments.values()):
        return form(**arguments)
    if not any(_pending(v) for v in call.operands()):
        return NotImplemented
    return call.again(lambda operand: _reduced(call.name, operand))


def _pending(value) -> bool:
    return isinstance(value, DTensorBase) and value._spec.layout.is_partial  # pylint: disable=protected-access


def _reduced(name: str, operand):
    if not _pending(operand):
        return operand
    logger.info("%s: an operand of shape %s is reduced from %s", name, tuple(operand.shape), operand.layout)
    return operand.reduce_partial()


def _log_softmax(input, dim=-1, dtype=None):  # pylint: disable=redefined-builtin  # the rule's own parameter names
    """The maximum is a constant of the sum, so it carries no gradient."""
    x = input if dtype is None else input.to(as_dtype(dtype))
    if dim is None:
        dim = 0 if x.ndim in (0, 1, 3) else 1
    dim = normal_dim("log_softmax", dim, x.ndim)
    shifted = x - ops.stop_gradient(mint.amax(x, dim, True).reduce_partial())
    return shifted - mint.log(mint.sum(mint.exp(shifted), dim, True).reduce_partial())


def _likelihood(input, target, weight, reduction=1, ignore_index=-100):  # pylint: disable=redefined-builtin
    """(loss, sum of weights), as the kernel gives them; shapes that do not fit keep their refusal."""
    classes = 1 if input.ndim > 1 else 0
    if not (isinstance(input, DTensorBase) and isinstance(target, DTensorBase)):
        return NotImplemented
    rows, count = input.shape[:classes] + input.shape[classes + 1:], input.shape[classes:classes + 1]
    if (tuple(target.shape), tuple(weight.shape)) != (tuple(rows), tuple(count)):
        return NotImplemented
    if not isinstance(weight, DTensorBase):
        mesh = input.device_mesh
        replica = layout_value(mesh, ((),) * weight.ndim).spec(tuple(weight.shape))
        weight = wrap_shared(apply(FanOut(mesh), [weight]), replica)
    return likelihood(input, target, weight, reduction, ignore_index, lambda t: t.reduce_partial())


_FORMS = {"LogSoftmaxExt": _log_softmax, "LogSoftmax": _log_softmax, "NLLLoss": _likelihood, "NLLLoss2d": _likelihood}

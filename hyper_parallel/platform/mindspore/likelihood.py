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
"""Negative log likelihood from elementary operations, for the CPU kernel that is missing and for cut classes."""
from __future__ import annotations

from mindspore import mint, ops

_KINDS = {0: "sum", 1: "mean", 2: "none", "sum": "sum", "mean": "mean", "none": "none"}


def likelihood(x, target, weight, reduction="mean", ignore_index=-100, complete=lambda t: t):
    """Loss of every label, or their sum or weighted mean, and the sum of the weights that count.

    Args:
        x: log probabilities, classes in dimension 1 (0 of a vector).
        target: labels, the shape of x without the classes.
        weight: weight of every class.
        reduction: "none", "sum", "mean", or the framework's code.
        ignore_index: the label that does not count.
        complete: makes a value whole that ranks may hold in part.
    """
    classes = 1 if x.ndim > 1 else 0
    ignored = mint.eq(target, ignore_index)
    label = target.masked_fill(ignored, 0)
    share = complete(ops.gather(ops.stop_gradient(weight), label, 0)).masked_fill(ignored, 0)
    picked = mint.gather(x, classes, mint.unsqueeze(label, classes))
    losses = mint.neg(complete(mint.squeeze(picked, classes)) * share).masked_fill(ignored, 0)
    kind, total = _KINDS[reduction], mint.sum(share)
    if kind == "none":
        return losses, total
    return (complete(mint.sum(losses)) / complete(total) if kind == "mean" else mint.sum(losses)), total


TABLE = {"NLLLoss2d": likelihood}

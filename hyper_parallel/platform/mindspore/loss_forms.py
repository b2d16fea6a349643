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
"""Local forms of losses over cut dimensions: the local sum over a global count, and ranks that hold no element."""
from __future__ import annotations

from mindspore import mint

from hyper_parallel.platform.mindspore.cpu_kernels import SUBSTITUTES
from hyper_parallel.platform.mindspore.cpu_kernels_common import scaled
from hyper_parallel.platform.mindspore.lookup_forms import nothing

F = mint.nn.functional
_SUMS = {
    "MSELossExt": lambda v: SUBSTITUTES["MSELossExt"](v["input"], v["target"], "sum"),
    "L1LossExt": lambda v: SUBSTITUTES["L1LossExt"](v["input"], v["target"], "sum"),
    "SmoothL1Loss": lambda v: F.smooth_l1_loss(v["input"], v["target"], reduction="sum", beta=v["beta"]),
    "BinaryCrossEntropy": lambda v: F.binary_cross_entropy(v["input"], v["target"], v["weight"], reduction="sum"),
    "BCEWithLogitsLoss": lambda v: F.binary_cross_entropy_with_logits(
        v["input"], v["target"], v["weight"], reduction="sum", pos_weight=v["pos_weight"]),
    "KLDiv": lambda v: F.kl_div(v["input"], v["target"], reduction="sum", log_target=v["log_target"]),
}


def loss(values: dict, name: str, count: int):
    """This rank's addend of a loss that is summed, or averaged over `count` elements."""
    tensors = [v for v in values.values() if hasattr(v, "dtype")]
    if not all(t.size for t in tensors):
        return nothing((), *tensors)
    return scaled(_SUMS[name](values), 1.0 / count) if count else nothing((), *tensors)


def no_loss(values: dict, shape: tuple):
    """(loss, weight) of no labels."""
    x = values["input"]
    return nothing(shape, x), mint.zeros((), dtype=x.dtype)


FORMS = {"loss": loss, "no_loss": no_loss}

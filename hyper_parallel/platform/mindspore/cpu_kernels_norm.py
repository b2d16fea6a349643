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
"""Normalisations, losses and the embedding look-up that the CPU build lacks."""
from __future__ import annotations

from mindspore import mint, ops

from hyper_parallel.errors import UnsupportedOpError
from hyper_parallel.platform.mindspore.cpu_kernels_common import (extent, like, number, reduce_loss, scaled, sum_over,
                                                                  widened)


def _mean_over(x, dims):
    return scaled(sum_over(x, dims, True), 1.0 / max(extent(x.shape, dims), 1))


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Layer normalisation over the trailing dims, its mean and its reciprocal deviation, as the kernel's triple."""
    dims = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    wide = widened(x)
    mean = _mean_over(wide, dims)
    centred = wide - mean
    rstd = mint.rsqrt(_mean_over(centred * centred, dims) + number(eps, wide))
    out = centred * rstd
    out = out if weight is None else out * weight
    out = out if bias is None else out + bias
    return like(out, x), mean, rstd


def rms_norm(x, gamma, epsilon=1e-6):
    """x over its root mean square along the trailing dims of gamma, and the reciprocal of that root."""
    dims = tuple(range(x.ndim - gamma.ndim, x.ndim))
    wide = widened(x)
    rstd = mint.rsqrt(_mean_over(wide * wide, dims) + number(epsilon, wide))
    return like(wide * rstd * gamma, x), rstd


def add_rms_norm(x1, x2, gamma, epsilon=1e-6):
    """rms_norm of x1 + x2, the reciprocal root and the sum itself."""
    total = x1 + x2
    return (*rms_norm(total, gamma, epsilon), total)


def embedding(ids, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False):
    """Rows of weight (n, width) picked by ids; the row padding_idx gets no gradient.

    Raises:
        UnsupportedOpError: for max_norm, which would change the weight, and for scale_grad_by_freq.
    """
    del norm_type
    if max_norm is not None or scale_grad_by_freq:
        raise UnsupportedOpError("embedding on CPU found max_norm or scale_grad_by_freq; the first rewrites the weight "
                                 "and the second its gradient by counts that one shard does not know. Call it "
                                 "without them.")
    rows = ops.gather(weight, ids, 0)
    if padding_idx is None:
        return rows
    padding = mint.unsqueeze(ids == padding_idx % weight.shape[0], -1)
    return mint.where(padding, ops.stop_gradient(rows), rows)


def mse_loss(x, target, reduction="mean"):
    """Squared error, reduced."""
    error = x - target
    return reduce_loss(error * error, reduction)


def l1_loss(x, target, reduction="mean"):
    """Absolute error, reduced."""
    return reduce_loss(mint.abs(x - target), reduction)


TABLE = {
    "LayerNormExt": layer_norm, "RmsNorm": rms_norm, "AddRmsNorm": add_rms_norm, "Embedding": embedding,
    "MSELossExt": mse_loss, "L1LossExt": l1_loss,
}

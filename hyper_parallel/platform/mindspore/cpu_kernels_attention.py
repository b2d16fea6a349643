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
"""Fused attention of the accelerators, composed from products and a softmax."""
from __future__ import annotations

import numpy as np
from mindspore import dtype as mstype
from mindspore import mint, ops

from hyper_parallel.errors import UnsupportedOpError
from hyper_parallel.platform.mindspore.cpu_kernels_common import constant, contract, like, max_over, sum_over, widened

_LAYOUTS = ("BSH", "BNSD", "SBH", "BSND")
# Permutations of the split tensor to (batch, heads, sequence, width) and back.
_TO_HEADS = {"BSH": (0, 2, 1, 3), "BSND": (0, 2, 1, 3), "SBH": (1, 2, 0, 3), "BNSD": (0, 1, 2, 3)}
_FROM_HEADS = {"BSH": (0, 2, 1, 3), "BSND": (0, 2, 1, 3), "SBH": (2, 0, 1, 3), "BNSD": (0, 1, 2, 3)}
_MASKED = -1e30


def _heads(x, layout, width):
    """x as (batch, heads, sequence, width)."""
    if x.ndim == 3:
        x = mint.reshape(x, (*x.shape[:2], x.shape[2] // width, width))
    return mint.permute(x, _TO_HEADS[layout])


def _band(rows, columns, mode, before, after):
    """Places that a sparse mode masks out, None for none; modes 3 and 4 align the lower right corners."""
    offset = columns - rows if mode in (3, 4) else 0
    before, after = (rows + columns, 0) if mode in (2, 3) else (before, after)
    distance = np.arange(columns) - np.arange(rows)[:, None] - offset
    outside = (distance > after) | (distance < -before)
    return outside if outside.any() else None


def _check(layout, mode, unsupported):
    if layout not in _LAYOUTS or mode not in range(5) or unsupported:
        raise UnsupportedOpError(f"flash attention on CPU found layout {layout} and sparse mode {mode}"
                                 f"{' with ' + ', '.join(unsupported) if unsupported else ''}; it has layouts "
                                 f"{', '.join(_LAYOUTS)} and modes 0 to 4 without shift, dropout and prefix. "
                                 f"Write the attention as matmul and softmax.")


def flash_attention(query, key, value, real_shift=None, drop_mask=None, padding_mask=None, attn_mask=None, prefix=None,
                    actual_seq_qlen=None, actual_seq_kvlen=None, head_num=1, keep_prob=1.0, scale_value=1.0,
                    pre_tokens=2147483647, next_tokens=2147483647, inner_precise=0, input_layout=0, sparse_mode=0):
    """softmax(scale * q k^T, masked where attn_mask is set) v, with grouped heads where k has fewer.

    Returns:
        The kernel's quadruple: row maxima and row sums (batch, heads, sequence, 8), an unused one, the attention.
    """
    del padding_mask, actual_seq_qlen, actual_seq_kvlen, inner_precise
    layout = _LAYOUTS[input_layout] if input_layout in range(4) else str(input_layout)
    _check(layout, sparse_mode, [name for name, given in (
        ("real_shift", real_shift is not None), ("drop_mask", drop_mask is not None or keep_prob != 1.0),
        ("prefix", prefix is not None)) if given])
    width = query.shape[-1] // head_num if query.ndim == 3 else query.shape[-1]
    q, k, v = (_heads(widened(t), layout, width) for t in (query, key, value))
    if k.shape[1] != q.shape[1]:
        k, v = (_grouped(t, q.shape[1] // k.shape[1]) for t in (k, v))
    scores = contract(q, mint.transpose(k, -2, -1)) * scale_value
    scores = _mask(scores, attn_mask, sparse_mode, pre_tokens, next_tokens)
    top = ops.stop_gradient(max_over(scores, -1, True))
    weights = mint.exp(scores - top)
    total = sum_over(weights, -1, True)
    out = mint.permute(contract(weights / total, v), _FROM_HEADS[layout])
    wide = (*top.shape[:-1], 8)
    return (mint.broadcast_to(top, wide), mint.broadcast_to(total, wide), mint.zeros((), dtype=mstype.float32),
            like(mint.reshape(out, query.shape), query))


def _grouped(x, times):
    """Each head repeated for the queries that share it."""
    batch, heads, length, width = x.shape
    wide = mint.broadcast_to(mint.unsqueeze(x, 2), (batch, heads, times, length, width))
    return mint.reshape(wide, (batch, heads * times, length, width))


def _mask(scores, attn_mask, mode, before, after):
    if mode in (0, 1) and attn_mask is not None:
        scores = scores.masked_fill(attn_mask.astype(mstype.bool_), _MASKED)
    if mode > 1 or (mode == 0 and attn_mask is not None):
        outside = _band(*scores.shape[-2:], mode, before, after)
        scores = scores if outside is None else scores.masked_fill(constant(outside), _MASKED)
    return scores


TABLE = {"FlashAttentionScore": flash_attention}

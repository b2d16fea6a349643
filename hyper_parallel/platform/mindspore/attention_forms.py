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
"""The local form of fused attention: the heads that this rank holds, and an unused result in the shape of its part."""
from __future__ import annotations

from mindspore import mint
from mindspore.ops.auto_generate.gen_ops_prim import FlashAttentionScore

from hyper_parallel.platform.mindspore.lookup_forms import nothing
from hyper_parallel.platform.platform import current_platform

_NAME = "FlashAttentionScore"
LAYOUTS = ("BSH", "BNSD", "SBH", "BSND", "TND")


def attention(values: dict, heads: int, rows: tuple):
    """Attention of this rank's queries.

    Args:
        values: the operation's values in order.
        heads: number of query heads here.
        rows: shape of the row maxima here, (batch, heads, positions, 8).
    """
    query, key, value = (values[p] for p in ("query", "key", "value"))
    if not query.size:
        top = mint.zeros(rows, dtype=query.dtype)
        return top, top, mint.zeros(rows[:3], dtype=query.dtype), nothing(query.shape, query, key, value)
    run = current_platform().kernel(_NAME) or _kernel()
    top, total, _, out = run(*{**values, "head_num": heads}.values())
    return top, total, mint.zeros(rows[:3], dtype=top.dtype), out


def _kernel():
    """The accelerator's kernel, called with the canonical values in order."""
    def run(*values):
        *tensors, heads, keep, scale, before, after, precise, layout, sparse = values
        layout = LAYOUTS[layout] if isinstance(layout, int) else layout
        return FlashAttentionScore(heads, keep, scale, before, after, precise, layout, sparse)(*tensors)

    return run


FORMS = {"attention": attention}

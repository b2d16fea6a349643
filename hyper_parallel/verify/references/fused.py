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
"""Meaning of fused attention, rotary embedding, fused norms, products of groups of rows, and optimizer steps."""
from __future__ import annotations

import math

import numpy as np

from hyper_parallel.verify.kernels import kernel
from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.references import nn as norms
from hyper_parallel.verify.registry import reference
from hyper_parallel.verify.tape import elementwise, plain

_exp = elementwise(lambda a: math.exp(a) if a > -700 else 0.0, lambda g, o, a: g * o)
_TO_HEADS = {0: (0, 2, 1, 3), 1: (0, 1, 2, 3), 2: (1, 2, 0, 3), 3: (0, 2, 1, 3)}
_BACK = {0: (0, 2, 1, 3), 1: (0, 1, 2, 3), 2: (2, 0, 1, 3), 3: (0, 2, 1, 3)}


def _heads(x, layout: int, width: int):
    x = np.reshape(x, x.shape[:2] + (x.shape[2] // width, width)) if x.ndim == 3 else x
    return np.transpose(x, _TO_HEADS[layout])


def attention(v: dict) -> tuple:
    """(row maxima, row sums, unused, softmax(scale * q k^T, masked) v)."""
    q, layout = v["query"], v["input_layout"]
    width = q.shape[-1] // v["head_num"] if q.ndim == 3 else q.shape[-1]
    q4, k4, v4 = (_heads(v[p], layout, width) for p in ("query", "key", "value"))
    times = q4.shape[1] // max(k4.shape[1], 1)
    k4, v4 = np.repeat(k4, times, 1), np.repeat(v4, times, 1)
    scores = np.einsum("bnsd,bntd->bnst", q4, k4) * v["scale_value"]
    rows, columns = scores.shape[2:]
    if v["sparse_mode"] == 2:
        scores = np.where(np.arange(columns) > np.arange(rows)[:, None], -1e30, scores)
    elif v["attn_mask"] is not None:
        scores = np.where(v["attn_mask"], -1e30, scores)
    top = np.max(plain(scores), -1, keepdims=True, initial=-1e30)
    powers = _exp(scores - top)
    total = np.sum(powers, -1, keepdims=True)
    out = np.reshape(np.transpose(np.einsum("bnst,bntd->bnsd", powers / total, v4), _BACK[layout]), q.shape)
    wide = top.shape[:3] + (8,)
    return np.broadcast_to(top, wide), np.broadcast_to(plain(total), wide), np.zeros(top.shape[:3]), out


@kernel("attention")
def local_attention(v: dict, heads: int, rows: tuple) -> tuple:
    """A rank's heads and rows."""
    q = v["query"]
    if q.size:
        return attention({**v, "head_num": heads})
    linked = np.reshape(np.ravel(q)[:0], q.shape)
    gone = sum(np.sum(v[p]) for p in ("key", "value")) * 0
    return np.zeros(rows), np.zeros(rows), np.zeros(rows[:3]), linked + gone


def rotary(v: dict):
    """x * cos + rotated(x) * sin; mode 0 rotates halves, mode 1 pairs."""
    x = v["input"]
    half = x.shape[-1] // 2
    if v["mode"] == 0:
        turned = np.concatenate([-np.take(x, np.arange(half, 2 * half), -1), np.take(x, np.arange(half), -1)], -1)
    else:
        odd, even = np.take(x, np.arange(1, 2 * half, 2), -1), np.take(x, np.arange(0, 2 * half, 2), -1)
        turned = np.reshape(np.stack([-odd, even], -1), x.shape)
    return x * v["cos"] + turned * v["sin"]


def added_rms(v: dict) -> tuple:
    """(norm of the sum, reciprocal root, sum)."""
    total = v["input"] + v["other"]
    return (*norms.rms_norm({"input": total, "weight": v["weight"], "eps": v["epsilon"]}), total)


def added_layer(v: dict) -> tuple:
    """(norm of the sum, mean, reciprocal deviation, sum)."""
    total = v["input"] + v["other"]
    return (*norms.layer_norm_ext({**v, "input": total, "normalized_shape": v["weight"].shape, "eps": v["epsilon"]}),
            total)


def group_norm(v: dict) -> tuple:
    """(result, mean, reciprocal deviation) per sample and group of channels."""
    x, groups = v["input"], v["num_groups"]
    flat = np.reshape(x, (x.shape[0], groups, math.prod(x.shape[1:]) // groups))
    mean = np.mean(flat, axis=2, keepdims=True)
    centred = flat - mean
    scale = 1 / np.sqrt(np.mean(centred * centred, axis=2, keepdims=True) + v["eps"])
    out = np.reshape(centred * scale, x.shape)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    out = out if v["weight"] is None else out * np.reshape(v["weight"], shape) + np.reshape(v["bias"], shape)
    return out, np.squeeze(mean, 2), np.squeeze(scale, 2)


def grouped(v: dict) -> tuple:
    """Rows in groups, each times its weight; `group_list` counts rows cumulatively."""
    (x,), (w,) = ((t if isinstance(t, tuple) else (t,)) for t in (v["input"], v["weight"]))
    ends = np.minimum(np.sort(v["group_list"]), x.shape[0])
    ends = np.concatenate([ends[:-1], [x.shape[0]]])
    group = np.searchsorted(ends, np.arange(x.shape[0]), side="right")
    return (np.einsum("tk,tkn->tn", x, np.take(w, group, 0)),)


def permuted(v: dict) -> tuple:
    """(rows in the order of their expert, where they went)."""
    ids = np.ravel(v["indices"])
    order = np.argsort(ids, kind="stable")
    return np.take(v["input"], order // v["indices"].shape[1], 0), np.argsort(order, kind="stable")


def unpermuted(v: dict):
    """Rows back in their order, weighed and summed over the experts of a token."""
    rows = np.take(v["input"], v["sorted_indices"], 0)
    if v["probs"] is None:
        return rows
    tokens, experts = v["probs"].shape
    return np.einsum("teh,te->th", np.reshape(rows, (tokens, experts, rows.shape[1])), v["probs"])


def adam(v: dict):
    """The parameter after one decoupled step; bias corrections follow from `step`."""
    m = v["exp_avg"] * v["beta1"] + (1 - v["beta1"]) * v["grad"]
    s = v["exp_avg_sq"] * v["beta2"] + (1 - v["beta2"]) * v["grad"] ** 2
    step = v["step"] + 1
    root = np.sqrt(s / (1 - v["beta2"] ** step)) + v["eps"]
    return v["input"] * (1 - v["lr"] * v["decay"]) - v["lr"] * (m / (1 - v["beta1"] ** step)) / root


def weight_decay_adam(v: dict):
    """The parameter after one step without bias correction."""
    m = v["beta1"] * v["m"] + (1 - v["beta1"]) * v["grad"]
    s = v["beta2"] * v["v"] + (1 - v["beta2"]) * v["grad"] ** 2
    return v["input"] - v["lr"] * (m / (np.sqrt(s) + v["epsilon"]) + v["decay"] * v["input"])


def plain_adam(v: dict):
    """The parameter after one step with powers handed over."""
    m = v["beta1"] * v["m"] + (1 - v["beta1"]) * v["grad"]
    s = v["beta2"] * v["v"] + (1 - v["beta2"]) * v["grad"] ** 2
    rate = v["lr"] * np.sqrt(1 - v["beta2_power"]) / (1 - v["beta1_power"])
    return v["input"] - rate * m / (np.sqrt(s) + v["epsilon"])


_QKV = {0: "query=bt4/unit key=bt4/unit value=bt4/unit", 1: "query=b432/unit key=b222/unit value=b222/unit",
        2: "query=tb4/unit key=tb4/unit value=tb4/unit"}
_SMALL = {"_sizes": {"t": 2}, "scale_value": 0.5}
reference("FlashAttentionScore", attention,
          Pattern(_QKV[0], input_layout=0, head_num=2, **_SMALL),
          Pattern(_QKV[2], input_layout=2, head_num=4, **_SMALL),
          Pattern(_QKV[1], input_layout=1, head_num=4, **_SMALL),
          Pattern("query=b6t2/unit key=b6t2/unit value=b6t2/unit", input_layout=1, head_num=6, **_SMALL),
          Pattern("query=b342/unit key=b222/unit value=b222/unit", input_layout=3, head_num=4, **_SMALL),
          Pattern(_QKV[1] + " attn_mask=32/rarely", input_layout=1, head_num=4, _degenerate=True, **_SMALL),
          Pattern(_QKV[1] + " attn_mask=b132/rarely", input_layout=1, head_num=4, _degenerate=True, **_SMALL),
          Pattern(_QKV[1] + " attn_mask=32/bool", input_layout=1, head_num=4, sparse_mode=2, _degenerate=True,
                  **_SMALL),
          Pattern(_QKV[0], input_layout=0, head_num=2, keep_prob=0.5, _refused=True, **_SMALL),
          Pattern(_QKV[0], input_layout=4, head_num=2, _refused=True, **_SMALL), approximate=True)
reference("RotaryPositionEmbedding", rotary, Pattern("input=ab4 cos=b4/factor sin=b4/factor"),
          Pattern("input=ab14 cos=1b14/factor sin=1b14/factor", mode=1))
reference("AddRmsNorm", added_rms, Pattern("input=ab4/unit other=ab4/unit weight=4/digit"), approximate=True)
reference("AddLayerNormV2", added_layer, Pattern("input=a4/unit other=a4/unit weight=4/digit bias=4/digit"),
          approximate=True)
reference("GroupNorm", group_norm, Pattern("input=a4b/unit weight=4/digit bias=4/digit", num_groups=2,
                                           _modes=("even", "uneven")), approximate=True)
reference("GroupedMatmul GroupedMatmulV4", grouped,
          Pattern("input=[5k] weight=[3kn] group_list=3/index(5)", split_item=3, group_type=0),
          Pattern("input=[5k] weight=[3kn] group_list=3/index(5)", split_item=0, group_type=0, _refused=True))
reference("MoeTokenPermute", permuted, Pattern("input=ah indices=a2/index(3)", _degenerate=True))
reference("MoeTokenUnpermute", unpermuted, Pattern("input=6h sorted_indices=6/pick(6) probs=32/factor"),
          Pattern("input=6h sorted_indices=6/pick(6)"))
_ADAM = {"lr": 0.5, "beta1": 0.5, "beta2": 0.75, "decay": 0.25}
reference("AdamW", adam,
          Pattern("input=ab/unit exp_avg=ab/unit exp_avg_sq=ab/probability max_exp_avg_sq=ab/probability grad=ab/unit "
                  "step=./natural", eps=1e-8, **_ADAM, _degenerate=True), differentiable=False)
reference("AdamWeightDecay", weight_decay_adam,
          Pattern("input=ab/unit m=ab/unit v=ab/probability grad=ab/unit", epsilon=1e-8, **_ADAM, _degenerate=True),
          differentiable=False)
reference("Adam", plain_adam, Pattern("input=ab/unit m=ab/unit v=ab/probability grad=ab/unit", epsilon=1e-8, lr=0.5,
                                      beta1=0.5, beta2=0.75, beta1_power=0.5, beta2_power=0.75, _degenerate=True),
          differentiable=False)
reference("ApplyMomentum", lambda v: v["input"] - v["lr"] * (v["momentum"] * v["accumulation"] + v["grad"]),
          Pattern("input=ab accumulation=ab grad=ab", lr=0.5, momentum=0.5, _degenerate=True), differentiable=False)

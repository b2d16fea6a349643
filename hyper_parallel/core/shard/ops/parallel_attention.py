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
"""Fused attention, rotary embedding, fused norms, products of groups of rows.

Attention, one mesh axis; q, k, v -> result (b: batch, n: heads, s: positions of q; those of k and v are whole):
    S(b), S(b), S(b) -> S(b)    S(n), S(n), S(n) -> S(n)
    S(s), R, R -> S(s), where no mask depends on the position in q
Heads are cut in whole groups: every key head stays with the query heads that share it.
Grouped products: columns of the weights pass, a cut contraction gives P(sum); rows and groups must be whole, because
`group_list` counts rows of the whole tensor.
"""
from __future__ import annotations

import functools
import math

from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters
from hyper_parallel.core.shard.ops.nature import broadcast, carried
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError

# Dimension of batch, heads, sequence and width per layout; in three dimensions heads and width are one.
_PLACES = {"BSH": (0, 2, 1, 2), "BNSD": (0, 1, 2, 3), "SBH": (1, 2, 0, 2), "BSND": (0, 2, 1, 3)}
_CODES = dict(enumerate(("BSH", "BNSD", "SBH", "BSND")))
_WITHOUT = ("real_shift", "drop_mask", "padding_mask", "prefix", "actual_seq_qlen", "actual_seq_kvlen")


def _layout(call: Call) -> str:
    layout = _CODES.get(call["input_layout"], call["input_layout"])
    given = [p for p in _WITHOUT if call[p] is not None] + (["keep_prob"] if call["keep_prob"] != 1.0 else [])
    if layout not in _PLACES or given:
        raise LayoutError(f"{call.name} has a rule for the layouts {', '.join(_PLACES)} without {', '.join(_WITHOUT)} "
                          f"and dropout. Got {layout} with {given}. Write the attention as matmul and softmax.")
    return layout


def _free_rows(call: Call, rows: int, columns: int) -> bool:
    """No mask depends on where in the sequence a query stands, so queries may be cut."""
    reach = rows + columns
    return call["sparse_mode"] in (0, 1) and call["pre_tokens"] >= reach and call["next_tokens"] >= reach


def bind_flash_attention(call: Call) -> Bound:
    """(row maxima, row sums, unused, attention)."""
    layout = _layout(call)
    batch, head, sequence, width = _PLACES[layout]
    q, k, heads = call["query"], call["key"], call["head_num"]
    if q.exact and (len(q.shape) != len(layout) or len(k.shape) != len(layout)):
        raise LayoutError(f"{call.name}: {layout} has {len(layout)} dimensions. Got {q.shape} and {k.shape}.")
    each = q.shape[width] // heads if head == width else q.shape[width]
    shared = k.shape[head] // each if head == width else k.shape[head]
    rows = "s" if _free_rows(call, q.shape[sequence], k.shape[sequence]) else None
    names = {batch: "b", sequence: rows, head: "n"}
    own = tuple(names.get(d) for d in range(len(layout)))
    other = tuple({batch: "b", head: "n" if shared > 1 or heads == 1 else None}.get(d) for d in range(len(layout)))
    mask = call["attn_mask"]
    shape = (q.shape[batch], heads, q.shape[sequence], k.shape[sequence])
    spread = None if not isinstance(mask, Operand) else _mask_letters(call, mask, ("b", "n", rows, None), shape)
    signature = attention_signature(call.name, own, other, spread, ("b", "n", rows), heads, shared)
    top = (*shape[:3], 8)
    axis = signature.inputs[0].index("n")

    def kernel(place):
        share = place.in_shape(0)[axis]
        return "attention", {"heads": share // each if head == width else share,
                             "rows": place.out_shape(0)}

    return Bound(signature, (top, top, shape[:3], q.shape), multi=True, kernel=kernel)


def _mask_letters(call: Call, mask: Operand, names: tuple, shape: tuple) -> tuple:
    if call["sparse_mode"] > 1:
        return (None,) * len(mask.shape)
    return carried(mask.shape, names, shape)


@functools.lru_cache(maxsize=256)
def attention_signature(name: str, q: tuple, k: tuple, mask: tuple | None, out: tuple, heads: int,
                        shared: int) -> Signature:
    """Attention of q to k and v; `heads` of q share `shared` of k."""
    inputs = (q, k, k) if mask is None else (q, k, k, mask)

    def whole_groups(sizes: tuple):
        count = math.prod(sizes)
        groups = heads if shared == 1 else shared
        return None if groups % count == 0 else (f"{groups} heads cannot be cut into {count} equal parts, and uneven "
                                                 f"ones would separate queries from their keys.")

    return Signature(name, inputs, (out + (None,), out + (None,), out, q), conditions={"n": whole_groups},
                     no_grad=frozenset((3,)) if mask is not None else frozenset())


def bind_rotary(call: Call) -> Bound:
    """x * cos + rotated(x) * sin; the rotation needs the last dimension whole."""
    x, cos, sin = call["input"], call["cos"], call["sin"]
    inputs, names, shape = broadcast(call.name, [x, cos, sin])
    if shape != x.shape:
        raise LayoutError(f"{call.name}: cos {cos.shape} and sin {sin.shape} must broadcast to {x.shape}.")
    last = names[-1]
    inputs = tuple(tuple(None if c == last else c for c in dims) for dims in inputs)
    return Bound(rotary_signature(call.name, inputs), (shape,))


@functools.lru_cache(maxsize=256)
def rotary_signature(name: str, inputs: tuple) -> Signature:
    """Linear in x, and in cos and sin together."""
    return Signature(name, inputs, (inputs[0],), terms=((0, 1), (0, 2)))


# -- fused norms -----------------------------------------------------------------------------------------------------


def added_norm(statistics: int):
    """The binder of a norm of x1 + x2: result, statistics, and the sum itself."""

    def bind(call: Call) -> Bound:
        x, y, weight = call["input"], call["other"], call["weight"]
        begin = len(x.shape) - len(weight.shape)
        if x.shape != y.shape or (x.exact and weight.exact and x.shape[begin:] != weight.shape):
            raise LayoutError(f"{call.name}: {x.shape} and {y.shape} must be equal and end with {weight.shape}.")
        own = letters(begin) + (None,) * len(weight.shape)
        held = [p for p in ("weight", "bias") if isinstance(call.values.get(p), Operand)]
        inputs = (own, own) + tuple((None,) * len(call[p].shape) for p in held)
        kept = x.shape[:begin] + (1,) * len(weight.shape)
        signature = Signature(call.name, inputs, (own,) * (statistics + 2))
        return Bound(signature, (x.shape, *(kept,) * statistics, x.shape), multi=True)

    return bind


def bind_group_norm(call: Call) -> Bound:
    """(result, mean, reciprocal deviation) per sample and group of channels; only samples may be cut."""
    x, groups = call["input"], call["num_groups"]
    own = ("b",) + (None,) * (len(x.shape) - 1)
    held = [p for p in ("weight", "bias") if isinstance(call[p], Operand)]
    signature = Signature(call.name, (own,) + ((None,),) * len(held), (own, ("b", None), ("b", None)))
    return Bound(signature, (x.shape, (x.shape[0], groups), (x.shape[0], groups)), multi=True)


# -- products of groups of rows --------------------------------------------------------------------------------------


def bind_grouped_matmul(call: Call) -> Bound:
    """Rows of x in groups, each times the weight of its group: one x, one weight of three dimensions."""
    xs, ws, ids = _members(call["input"]), _members(call["weight"]), call["group_list"]
    more = [p for p in call.values if p not in ("input", "weight", "group_list", "split_item", "group_type",
                                                "group_list_type", "act_type") and call[p] not in (None, False)]
    if len(xs) != 1 or len(ws) != 1 or more or call["split_item"] != 3 or call["group_type"] != 0:
        raise LayoutError(f"{call.name} has a rule for one x and one weight with split_item=3 and group_type=0. "
                          f"Got {len(xs)} and {len(ws)} with {more}. Call it per group, or use matmul.")
    x, w = xs[0], ws[0]
    if x.exact and (len(x.shape) != 2 or len(w.shape) != 3 or x.shape[1] != w.shape[1]):
        raise LayoutError(f"{call.name}: x {x.shape} and the weights {w.shape} must be (rows, k) and (groups, k, n).")
    held = ((None,),) if isinstance(ids, Operand) else ()
    return Bound(grouped_signature(call.name, held), ((x.shape[0], w.shape[2]),), multi=True)


def _members(value) -> tuple:
    return value if isinstance(value, tuple) else (value,)


@functools.lru_cache(maxsize=16)
def grouped_signature(name: str, held: tuple) -> Signature:
    """Bilinear in rows and weights."""
    return Signature(name, ((None, "k"), (None, "k", "n")) + held, ((None, "n"),), reduces={"k": "sum"},
                     terms=((0, 1),), no_grad=frozenset((2,)) if held else frozenset())


def bind_permuted(call: Call) -> Bound:
    """(rows in the order of their expert, where they went): the order runs over all rows, and both results are made at
    once, so everything must be whole.
    """
    x, ids = call["input"], call["indices"]
    count = call["num_out_tokens"] or math.prod(ids.shape)
    signature = Signature(call.name, ((None,) * len(x.shape), (None,) * len(ids.shape)), ((None, None), (None,)),
                          no_grad=frozenset((1,)))
    return Bound(signature, ((count, x.shape[1]), (math.prod(ids.shape),)), multi=True)


def bind_unpermuted(call: Call) -> Bound:
    """Rows back in their order, weighed by probabilities and summed; the width may be cut."""
    x, ids, probs = call["input"], call["sorted_indices"], call["probs"]
    held = isinstance(probs, Operand)
    rows = probs.shape[0] if held else ids.shape[0]
    inputs = ((None, "h"), (None,)) + (((None, None),) if held else ())
    signature = Signature(call.name, inputs, ((None, "h"),), terms=((0, 2),) if held else ((0,),),
                          no_grad=frozenset((1,)))
    return Bound(signature, ((rows, x.shape[1]),))


declare("FlashAttentionScore", "query:t key:t value:t real_shift:t=None drop_mask:t=None padding_mask:t=None "
        "attn_mask:t=None prefix=None actual_seq_qlen=None actual_seq_kvlen=None head_num=1 keep_prob=1.0 "
        "scale_value=1.0 pre_tokens=2147483647 next_tokens=2147483647 inner_precise=0 input_layout=0 sparse_mode=0",
        bind_flash_attention)
declare("RotaryPositionEmbedding", "input:t cos:t sin:t mode=0", bind_rotary)
declare("AddRmsNorm", "input:t other:t weight:t epsilon=1e-06", added_norm(1))
declare("AddLayerNormV2", "input:t other:t weight:t bias:t epsilon=1e-05 additional=False", added_norm(2))
declare("GroupNorm", "input:t num_groups weight:t=None bias:t=None eps=1e-05", bind_group_norm,
        optional_plain=frozenset(("weight", "bias")))
_LISTS = "input:t weight:t bias=None scale=None offset=None antiquant_scale=None antiquant_offset=None"
declare("GroupedMatmul", _LISTS + " group_list:t=None split_item=0 group_type=-1 transpose_a=False "
        "transpose_b=False",
        bind_grouped_matmul)
declare("GroupedMatmulV4", _LISTS + " pre_token_scale=None group_list:t=None activation_input=None "
        "activation_quant_scale=None activation_quant_offset=None split_item=0 group_type=-1 group_list_type=0 "
        "act_type=0 output_dtype=None", bind_grouped_matmul)
declare("MoeTokenPermute", "input:t indices:t num_out_tokens=None padded_mode=False", bind_permuted)
declare("MoeTokenUnpermute", "input:t sorted_indices:t probs:t=None padded_mode=False restore_shape=None",
        bind_unpermuted)

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
"""Operations that need everything whole, on one mesh axis: R, ..., R -> R.

Either the shape of the result depends on data, or a fused kernel mixes positions of whole tensors. Every rank computes
the same from its replicas; what is cut or pending is refused. Kernels that communicate, or change a cache that lives on
one rank, have no rule at all.
"""
from __future__ import annotations

from hyper_parallel.core.shard.declaration import Bound, Call
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError

_BY_DATA = ("The shape of its result depends on data, which no rank sees whole: gather it, or mask with where and "
            "reduce.")
_MIXES = "Its kernel mixes positions of whole tensors: no rank can do its part alone."
_COMMUNICATES = "it communicates inside its kernel. Call matmul, and redistribute its result"
_SERVING = "it writes a cache that lives on one rank. Run it on local tensors: hyper_parallel.custom_shard"

# name -> parameters
BY_DATA = {
    "MaskedSelect": "input:t mask:t", "NonZero": "input:t", "NonZeroExt": "input:t",
    "Unique2": "input:t sorted=True return_inverse=False return_counts=False",
    "UniqueConsecutive": "input:t return_inverse=False return_counts=False dim=None",
    "BincountExt": "input:t weights:t=None minlength=0",
    "RepeatInterleaveTensor": "input:t repeats:t dim=None output_size=None",
}
_LENGTHS = " actual_seq_lengths:t=None actual_seq_lengths_kv:t=None"
_SCALES = " deq_scale1:t=None quant_scale1:t=None deq_scale2:t=None quant_scale2:t=None quant_offset2:t=None"
MIXING = {
    "CrossEntropyLoss": "input:t target:t weight:t=None reduction=1 ignore_index=-100 label_smoothing=0.0 "
                        "lse_square_scale_for_zloss=0.0 return_zloss=False",
    "PromptFlashAttention": "query:t key:t value:t attn_mask:t=None" + _LENGTHS + " pse_shift:t=None" + _SCALES +
                            " num_heads=1 scale_value=1.0 pre_tokens=2147483647 next_tokens=0 input_layout=0 "
                            "num_key_value_heads=0 sparse_mode=0 inner_precise=1",
    "IncreFlashAttention": "query:t key:t value:t attn_mask:t=None actual_seq_lengths:t=None pse_shift:t=None" +
                           _SCALES + " antiquant_scale:t=None antiquant_offset:t=None block_table:t=None "
                           "kv_padding_size:t=None num_heads=1 input_layout=0 scale_value=1.0 num_key_value_heads=0 "
                           "block_size=0 inner_precise=1",
    "PagedAttention": "query:t key_cache:t value_cache:t=None block_tables:t=None context_lens:t=None "
                      "antiquant_scale:t=None antiquant_offset:t=None attn_mask:t=None q_seq_lens:t=None "
                      "alibi_mask:t=None head_num=1 scale_value=1.0 kv_head_num=1 kv_cache_quant_mode=0 mask_mode=0 "
                      "mla_v_dim=0",
    "LightningIndexer": "query:t key:t weights:t actual_seq_lengths_query:t=None actual_seq_lengths_key:t=None "
                        "block_table:t=None layout_query=0 layout_key=0 sparse_count=2048 sparse_mode=3 "
                        "pre_tokens=None next_tokens=None return_value=False",
    "SparseFlashAttention": "query:t key:t value:t sparse_indices:t scale_value block_table:t=None "
                            "actual_seq_lengths_query:t=None actual_seq_lengths_kv:t=None query_rope:t=None "
                            "key_rope:t=None sparse_block_size=1 layout_query=0 layout_kv=0 sparse_mode=3 "
                            "pre_tokens=None next_tokens=None attention_mode=0 return_softmax_lse=False",
    "SpeedFusionAttention": "query:t key:t value:t head_num input_layout seed:t offset:t pse:t=None "
                            "padding_mask:t=None atten_mask:t=None scale=1.0 keep_prob=1.0 pre_tokens=None "
                            "next_tokens=None inner_precise=0 prefix=None actual_seq_qlen=None actual_seq_kvlen=None "
                            "sparse_mode=0 gen_mask_parallel=True sync=False pse_type=1 q_start_idx=None "
                            "kv_start_idx=None",
    "RingAttentionUpdate": "prev_attn_out:t prev_softmax_max:t prev_softmax_sum:t cur_attn_out:t cur_softmax_max:t "
                           "cur_softmax_sum:t actual_seq_qlen:t=None layout=0",
    "MoeInitRouting": "x:t row_idx:t expert_idx:t active_num",
    "MoeInitRoutingV2": "x:t expert_idx:t active_num expert_capacity expert_num drop_pad_mode "
                        "expert_tokens_count_or_cumsum_flag expert_tokens_before_capacity_flag",
    "MoeFinalizeRouting": "expanded_x:t x1:t x2:t=None bias:t=None scales:t=None expanded_row_idx:t=None "
                          "expanded_expert_idx:t=None",
    "MoeGatingTopKSoftmax": "x:t finished:t=None k=1", "MoeComputeExpertTokens": "sorted_experts:t num_expert",
    "FusedAddTopKDiv": "x:t add_num:t group_num group_topk n k activate_type=0 is_norm=True scale=2.5 "
                       "mapping_num:t=None mapping_table:t=None enable_expert_mapping=False",
    "Gmm": "x:t weight:t bias:t=None group_list:t=None group_type=0 group_list_type=0",
    "GmmV2": "x:t weight:t bias:t=None group_list:t=None group_type=0 group_list_type=0",
    "FFNExt": "x:t weight1:t weight2:t expertTokens:t=None bias1:t=None bias2:t=None scale:t=None offset:t=None "
              "deqScale1:t=None deqScale2:t=None antiquant_scale1:t=None antiquant_scale2:t=None "
              "antiquant_offset1:t=None antiquant_offset2:t=None activation=0 inner_precise=0",
}
# name -> why no layout has a rule
REFUSED = {
    "AllGatherMatmul": _COMMUNICATES, "MatmulReduceScatter": _COMMUNICATES, "MatmulAllReduceAddRmsNorm": _COMMUNICATES,
    "MoeDistributeDispatch": _COMMUNICATES, "MoeDistributeCombine": _COMMUNICATES, "ReshapeAndCache": _SERVING,
    "PagedAttentionMask": _SERVING, "KVCacheScatterUpdate": _SERVING, "FusedInferAttentionScore": _SERVING,
    "ApplyRotaryPosEmb": _SERVING,
}


def bind_whole(call: Call) -> Bound:
    """Every operand whole; the results are replicas, of the shapes that the local operation gives."""
    inputs = tuple((None,) * len(operand.shape) for operand in call.operands())
    return Bound(Signature(call.name, inputs, ()), None)


def refuser(why: str):
    """The binder that refuses every call for this reason."""

    def bind(call: Call) -> Bound:
        raise LayoutError(f"{call.name} has no rule: {why}.")

    return bind


for _table, _advice in ((BY_DATA, _BY_DATA), (MIXING, _MIXES)):
    for _name, _params in _table.items():
        declare(_name, _params, bind_whole, advice=_advice)
for _name, _why in REFUSED.items():
    declare(_name, "input *more", refuser(_why))

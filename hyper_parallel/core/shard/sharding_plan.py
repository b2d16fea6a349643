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
"""`ShardingPlan`: which parameters, inputs and outputs of a module get which placements."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ShardingPlan:
    """Placements by name.

    Attributes:
        plan: parameter path -> placements, one per mesh axis.
        input_plan: "input" or "<submodule>.input" -> placements.
        output_plan: "output" or "<submodule>.output" -> placements.
        return_local_tensor: submodules whose outputs are handed out as local tensors.

    Examples:
        >>> from hyper_parallel import Shard
        >>> ShardingPlan(plan={"weight": (Shard(0),)}).plan
        {'weight': (Shard(dim=0),)}
    """

    plan: dict | None = None
    input_plan: dict | None = None
    output_plan: dict | None = None
    return_local_tensor: list | None = None

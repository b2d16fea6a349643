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
"""Process groups: starting and ending them, making groups, and asking who is in them."""
from hyper_parallel.collectives.cc import (
    destroy_process_group,
    get_backend,
    get_group_local_rank,
    get_process_group_ranks,
    init_process_group,
    mark_created_groups,
    split_group,
)

__all__ = [
    "destroy_process_group",
    "get_backend",
    "get_group_local_rank",
    "get_process_group_ranks",
    "init_process_group",
    "mark_created_groups",
    "split_group",
]

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
"""Tensor parallelism: losses over a cut vocabulary; the styles are names only so far."""
from hyper_parallel.core.not_built import fill
from hyper_parallel.core.tensor_parallel.loss_parallel import loss_parallel

__all__ = ["loss_parallel"]

fill(globals(), (
    "ColwiseParallel", "RowwiseParallel", "SequenceParallel", "PrepareModuleInput", "PrepareModuleOutput",
    "PrepareModuleInputOutput", "NoParallel", "ParallelStyle", "parallelize_module", "MC2Linear",
    "MC2ColwiseParallel", "MC2RowwiseParallel",
))

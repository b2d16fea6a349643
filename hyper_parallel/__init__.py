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
"""DTensor for MindSpore in which no operation ever mislabels a tensor. Names load on first use."""
from __future__ import annotations

import importlib

from hyper_parallel.version import __version__

_MODULES = {
    "hyper_parallel.core.dtensor.dtensor": ("DTensor", "distribute_tensor"),
    "hyper_parallel.core.dtensor.module": ("distribute_module",),
    "hyper_parallel.core.dtensor.factories": ("ones", "zeros", "empty", "full", "rand", "randn"),
    "hyper_parallel.core.dtensor.random": ("manual_seed",),
    "hyper_parallel.core.dtensor.layout": ("Layout",),
    "hyper_parallel.core.dtensor.device_mesh": ("DeviceMesh", "init_device_mesh", "get_current_mesh"),
    "hyper_parallel.core.dtensor.placement_types": ("Placement", "Shard", "Replicate", "Partial", "RaggedShard"),
    "hyper_parallel.core.dtensor.parameter_init": ("init_parameters",),
    "hyper_parallel.core.dtensor.init_weights": ("init_empty_weights", "init_on_device"),
    "hyper_parallel.core.dtensor.convention": ("gradient_convention", "set_gradient_convention"),
    "hyper_parallel.core.dtensor.gradients": ("grad", "value_and_grad"),
    "hyper_parallel.core.dtensor.denotation": ("denote",),
    "hyper_parallel.core.shard._op_dispatch": (
        "SkipDTensorDispatch", "implicit_redistribution", "implicit_replication"),
    "hyper_parallel.core.shard.api": ("shard_module", "parallelize_value_and_grad"),
    "hyper_parallel.core.shard.custom_shard": ("custom_shard",),
    "hyper_parallel.core.shard.dfunction": ("DFunction",),
    "hyper_parallel.core.shard.register": ("register_op",),
    "hyper_parallel.core.tensor_parallel": (
        "ColwiseParallel", "RowwiseParallel", "SequenceParallel", "PrepareModuleInput", "PrepareModuleOutput",
        "PrepareModuleInputOutput", "NoParallel", "ParallelStyle", "parallelize_module", "MC2Linear",
        "MC2ColwiseParallel", "MC2RowwiseParallel"),
    "hyper_parallel.core.fully_shard.api": ("fully_shard", "HSDPModule", "hsdp_sync_stream"),
    "hyper_parallel.core.pipeline_parallel": (
        "PipelineStage", "ScheduleInterleaved1F1B", "ScheduleMPipeTranspose", "MetaStep", "MetaStepType",
        "BatchDimSpec"),
    "hyper_parallel.core.context_parallel": (
        "ContextParallel", "AsyncContextParallel", "DSAIndexerContextParallel", "DSAIndexerLossContextParallel",
        "DSASparseAttentionContextParallel", "AsyncDSAIndexerContextParallel", "AsyncDSAIndexerLossContextParallel",
        "AsyncDSASparseAttentionContextParallel"),
    "hyper_parallel.collectives.cc": (
        "init_process_group", "destroy_process_group", "get_process_group_ranks", "get_backend", "split_group",
        "get_group_local_rank", "mark_created_groups"),
    "hyper_parallel.platform.platform": ("get_platform",),
    "hyper_parallel.platform.recorder": ("record_collectives",),
    "hyper_parallel.platform.simulated": ("simulate",),
    "hyper_parallel.errors": (
        "CommunicationError", "HyperParallelError", "LayoutError", "MeshError", "PartialError", "UnsupportedOpError",
        "VerificationError"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME) + ["__version__"]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'hyper_parallel' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOME})

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
"""The public names: each imports from the package and from its own module; what is not built yet says so by name."""
import importlib

import pytest

import hyper_parallel
from hyper_parallel.core.not_built import fill, not_built
from hyper_parallel.errors import UnsupportedOpError

# Module path -> names that a program may import from it and from `hyper_parallel` itself.
EXPORTS = {
    "platform": "get_platform",
    "core.dtensor.dtensor": "DTensor SkipDTensorDispatch distribute_module distribute_tensor ones zeros empty full "
                            "rand randn",
    "core.dtensor": "DTensor",
    "core.dtensor.layout": "Layout",
    "core.dtensor.device_mesh": "DeviceMesh init_device_mesh get_current_mesh",
    "core.dtensor.placement_types": "Placement Shard Replicate Partial RaggedShard",
    "core.dtensor.parameter_init": "init_parameters",
    "core.dtensor.init_weights": "init_empty_weights init_on_device",
    "core.dtensor.random": "manual_seed",
    "core.shard.api": "shard_module parallelize_value_and_grad",
    "core.shard.custom_shard": "custom_shard",
    "core.shard.local_func": "custom_shard",
    "core.shard.dfunction": "DFunction",
    "core.tensor_parallel": "ColwiseParallel RowwiseParallel SequenceParallel PrepareModuleInput PrepareModuleOutput "
                            "PrepareModuleInputOutput NoParallel ParallelStyle parallelize_module MC2Linear "
                            "MC2ColwiseParallel MC2RowwiseParallel",
    "core.fully_shard.api": "fully_shard HSDPModule hsdp_sync_stream",
    "core.pipeline_parallel": "PipelineStage ScheduleInterleaved1F1B ScheduleMPipeTranspose MetaStep MetaStepType "
                              "BatchDimSpec",
    "core.context_parallel": "ContextParallel AsyncContextParallel DSAIndexerContextParallel "
                             "DSAIndexerLossContextParallel DSASparseAttentionContextParallel "
                             "AsyncDSAIndexerContextParallel AsyncDSAIndexerLossContextParallel "
                             "AsyncDSASparseAttentionContextParallel",
    "collectives.cc": "init_process_group destroy_process_group get_process_group_ranks get_backend split_group "
                      "get_group_local_rank mark_created_groups",
    "collectives": "init_process_group destroy_process_group get_process_group_ranks get_backend split_group "
                   "get_group_local_rank mark_created_groups",
}
# Names that live in their module only.
INSIDE = {
    "core.dtensor.placement_types": "StridedShard",
    "core.dtensor.device_mesh": "_mesh_resources",
    "core.dtensor.layout": "_infer_slice_area_by_rank",
    "core.shard.sharding_plan": "ShardingPlan",
    "core.shard.ops.parallel_ops": "DistributedOp",
    "core.shard.ops.parallel_ops_register": "get_distributed_op",
    "core.shard.ops.parallel_matmul": "MatMulExtDistributedOp MatMulDistributedOp BatchMatMulExtDistributedOp "
                                      "BatchMatMulDistributedOp LinearDistributedOp",
    "core.fully_shard.utils": "MixedPrecisionPolicy OffloadPolicy CPUOffloadPolicy",
    "core.fully_shard.api": "MixedPrecisionPolicy OffloadPolicy",
    "core.tensor_parallel": "loss_parallel",
    "core.pipeline_parallel": "ScheduleGPipe Schedule1F1B",
    "core.distributed_checkpoint": "save load async_save save_checkpoint load_checkpoint get_current_layout "
                                   "save_layout load_layout combine_layout get_global_layout ReshardHandler "
                                   "FileSystemWriter FileSystemReader",
    "platform": "Platform PlatformType",
    "platform.platform": "Platform PlatformType get_platform",
}
# Names of this fork alone.
OWN = ("gradient_convention set_gradient_convention grad value_and_grad denote implicit_redistribution "
       "implicit_replication record_collectives simulate CommunicationError HyperParallelError LayoutError MeshError "
       "PartialError UnsupportedOpError VerificationError register_op").split()


def _pairs(table) -> list:
    return [(module, name) for module, names in table.items() for name in names.split()]


def _in_module(module: str, name: str):
    return getattr(importlib.import_module(f"hyper_parallel.{module}"), name)


@pytest.mark.parametrize("module, name", _pairs(EXPORTS))
def test_an_export_is_one_object_at_the_top_and_in_its_module(module, name):
    """
    Feature: public names.
    Description: every export of the public library, from the package and from its module path.
    Expectation: both import, and they are the same object.
    """
    assert _in_module(module, name) is getattr(hyper_parallel, name)
    assert name in hyper_parallel.__all__ and name in dir(hyper_parallel)


@pytest.mark.parametrize("module, name", _pairs(INSIDE))
def test_a_name_of_a_module_imports_from_its_path(module, name):
    """
    Feature: public names.
    Description: names that programs import from a module path, not from the package.
    Expectation: they import; the package does not export the ones that are not meant to be.
    """
    assert _in_module(module, name) is not None
    assert name not in hyper_parallel.__all__ or getattr(hyper_parallel, name) is _in_module(module, name)


def test_the_package_exports_exactly_the_listed_names():
    """
    Feature: public names.
    Description: `__all__` against the tables of this file.
    Expectation: nothing more, nothing less; an unknown name is an AttributeError.
    """
    listed = {name for _, name in _pairs(EXPORTS)} | set(OWN) | {"__version__"}
    assert set(hyper_parallel.__all__) == listed
    assert all(getattr(hyper_parallel, name) is not None for name in hyper_parallel.__all__)
    assert hyper_parallel.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(hyper_parallel, "no_such_name")


def _placeholders() -> list:
    kind = type(not_built("x", __name__))
    return [(n, v) for m, n in _pairs(EXPORTS) + _pairs(INSIDE) for v in [_in_module(m, n)] if isinstance(v, kind)]


def test_a_name_that_is_not_built_refuses_by_name_when_used():
    """
    Feature: names without an implementation.
    Description: call each placeholder with and without arguments; use it in isinstance and as a base class.
    Expectation: UnsupportedOpError that starts with the name; isinstance answers False and a subclass can be
        made.
    """
    for name, found in _placeholders():
        for args, kwargs in (((), {}), ((1, 2), {"device_mesh": None})):
            with pytest.raises(UnsupportedOpError, match=f"^{name} is not built yet"):
                found(*args, **kwargs)
        mine = type("Mine", (found,), {})
        assert not isinstance(1, found) and issubclass(mine, found)
        with pytest.raises(UnsupportedOpError, match="^Mine is not built yet"):
            mine()
    assert _placeholders(), "everything is built: this test can go"


def test_a_placeholder_says_what_to_use_instead():
    """
    Feature: names without an implementation.
    Description: not_built and fill, with and without a hint.
    Expectation: the hint is in the error; fill puts the names and `__all__` into the namespace.
    """
    with pytest.raises(UnsupportedOpError, match="somewhere is not built yet.*Use the other one."):
        not_built("somewhere", "a.b", "Use the other one.")()
    space = {"__name__": "a.b", "__all__": ["old"]}
    fill(space, ("new", "newer"))
    assert space["__all__"] == ["new", "newer", "old"] and space["new"].__module__ == "a.b"
    with pytest.raises(UnsupportedOpError, match="^newer is not built yet.*redistribute"):
        space["newer"]()


def test_what_the_core_promises_is_built():
    """
    Feature: names without an implementation.
    Description: the names of the core, process groups, custom_shard and DFunction included.
    Expectation: none of them is a placeholder.
    """
    built = ("DTensor SkipDTensorDispatch distribute_tensor ones zeros empty full rand randn Layout DeviceMesh "
             "init_device_mesh get_current_mesh Shard Replicate Partial RaggedShard manual_seed custom_shard DFunction "
             "parallelize_value_and_grad init_process_group destroy_process_group get_process_group_ranks get_backend "
             "split_group get_group_local_rank mark_created_groups get_platform implicit_redistribution").split()
    assert not set(built) & {name for name, _ in _placeholders()}

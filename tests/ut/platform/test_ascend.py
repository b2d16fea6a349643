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
"""What the Ascend platform asks of HCCL, call by call, and that the answers land where they belong.

No Ascend device is involved: a stand-in answers in HCCL's place, rank by rank.
"""
from __future__ import annotations

import functools

import mindspore as ms
import numpy as np
import pytest

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.errors import CommunicationError
from hyper_parallel.platform.mindspore.ascend import AscendPlatform
from tests.common.fake_mindspore import FakeCollectives, FakeRuntime, Wire, run_on_all

MESHES = {"line": ([0, 1, 2, 3], 0), "reversed": ([3, 2, 1, 0], 0), "rows": ([[0, 1], [2, 3]], 1),
          "columns": ([[0, 1], [2, 3]], 0), "turned": ([[3, 1], [0, 2]], 0)}
COMBINE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "all": np.logical_and}


def mesh_of(name):
    """A mesh for npu and the axis to communicate over."""
    ranks, axis = MESHES[name]
    return DeviceMesh("npu", ranks, _init_backend=False), axis


def data(rank, dtype, draw=0, shape=(2, 3)):
    """Small integers that no two ranks share, as numpy holds them."""
    values = np.random.RandomState(100 * draw + rank).randint(-4, 5, shape) + rank
    return values % 3 != 0 if dtype == ms.bool_ else values.astype(np.float32 if dtype == ms.bfloat16 else
                                                                   ms.dtype_to_nptype(dtype))


def array(tensor):
    """The tensor as numpy holds it."""
    return (tensor.astype(ms.float32) if tensor.dtype == ms.bfloat16 else tensor).asnumpy()


def reduced(values, op):
    """The reduction in numpy."""
    return functools.reduce(COMBINE[op], values).astype(values[0].dtype)


def check(results, expected, dtype):
    """Every rank's tensors are equal to numpy's and of the type."""
    for found, wanted in zip(results, expected, strict=True):
        assert found.dtype == dtype and np.array_equal(array(found), wanted), (array(found), wanted)


REDUCTIONS = [("sum", ms.float32, "sum", "Float32"), ("max", ms.bfloat16, "max", "BFloat16"),
              ("prod", ms.int32, "prod", "Int32"), ("min", ms.int64, "min", "Int64"), ("sum", ms.uint8, "sum", "Int32"),
              ("all", ms.bool_, "min", "Int8"), ("max", ms.bool_, "max", "Int8")]
GATHERED = [("sum", ms.float64), ("prod", ms.int16), ("prod", ms.bfloat16)]
MOVED = [(ms.float32, "Float32"), (ms.bfloat16, "BFloat16"), (ms.float64, "Float64"), (ms.int16, "Int16"),
         (ms.uint8, "UInt8"), (ms.bool_, "UInt8")]


@pytest.mark.parametrize("where", list(MESHES))
@pytest.mark.parametrize("op, dtype, asked, carried", REDUCTIONS)
def test_all_reduce_is_one_all_reduce(op, dtype, asked, carried, where):
    """
    Feature: collectives on Ascend.
    Description: all-reduce of each kind over lines, rows and columns, in rising and turned order.
    Expectation: one all_reduce on the sorted group in the carrying type; the reduction on every rank.
    """
    mesh, axis = mesh_of(where)
    results, logs = run_on_all(AscendPlatform, 4, lambda p: p.all_reduce(
        [ms.Tensor(data(p.rank(), dtype), dtype)], mesh, axis, op)[0])
    for rank in range(4):
        ranks = mesh.ranks_along(axis, rank)
        assert logs[rank] == [("all_reduce", group_of(ranks), carried, (2, 3), asked)]
        check([results[rank]], [reduced([data(r, dtype) for r in ranks], op)], dtype)


def group_of(ranks):
    """Name of the group that collectives over these ranks run on."""
    return "world" if len(ranks) == 4 else "hyper_parallel_" + "_".join(str(r) for r in sorted(ranks))


@pytest.mark.parametrize("where", list(MESHES))
@pytest.mark.parametrize("op, dtype", GATHERED)
def test_all_reduce_that_hccl_lacks_is_one_all_gather(op, dtype, where):
    """
    Feature: collectives on Ascend.
    Description: all-reduce of float64, and products of int16 and bfloat16.
    Expectation: one all_gather_into_tensor; the reduction in axis order on every rank.
    """
    mesh, axis = mesh_of(where)
    results, logs = run_on_all(AscendPlatform, 4, lambda p: p.all_reduce(
        [ms.Tensor(data(p.rank(), dtype), dtype)], mesh, axis, op)[0])
    for rank in range(4):
        ranks = mesh.ranks_along(axis, rank)
        assert logs[rank] == [("all_gather_into_tensor", group_of(ranks), str(dtype), (6,))]
        check([results[rank]], [reduced([data(r, dtype) for r in ranks], op)], dtype)


@pytest.mark.parametrize("where", list(MESHES))
@pytest.mark.parametrize("dtype, carried", MOVED)
def test_all_gather_is_one_all_gather_into_tensor(dtype, carried, where):
    """
    Feature: collectives on Ascend.
    Description: all-gather of each type, over axes in every order.
    Expectation: one all_gather_into_tensor of the flat value; the ranks' values in axis order.
    """
    mesh, axis = mesh_of(where)
    results, logs = run_on_all(AscendPlatform, 4, lambda p: p.all_gather(
        [ms.Tensor(data(p.rank(), dtype), dtype)], mesh, axis)[0])
    for rank in range(4):
        ranks = mesh.ranks_along(axis, rank)
        assert logs[rank] == [("all_gather_into_tensor", group_of(ranks), carried, (6,))]
        check(results[rank], [data(r, dtype) for r in ranks], dtype)


@pytest.mark.parametrize("where", list(MESHES))
@pytest.mark.parametrize("dtype, carried", MOVED)
def test_all_to_all_is_one_all_to_all_single(dtype, carried, where):
    """
    Feature: collectives on Ascend.
    Description: all-to-all of each type, over axes in every order.
    Expectation: one all_to_all_single of the joined chunks; the chunks meant for this rank, in axis order.
    """
    mesh, axis = mesh_of(where)
    size = mesh.mesh_shape[axis]
    results, logs = run_on_all(AscendPlatform, 4, lambda p: p.all_to_all(
        [[ms.Tensor(data(p.rank(), dtype, draw), dtype) for draw in range(size)]], mesh, axis)[0])
    for rank in range(4):
        ranks = mesh.ranks_along(axis, rank)
        assert logs[rank] == [("all_to_all_single", group_of(ranks), carried, (6 * size,))]
        check(results[rank], [data(r, dtype, ranks.index(rank)) for r in ranks], dtype)


@pytest.mark.parametrize("where", list(MESHES))
@pytest.mark.parametrize("op, dtype, asked, carried", REDUCTIONS)
def test_reduce_scatter_is_one_reduce_scatter_tensor(op, dtype, asked, carried, where):
    """
    Feature: collectives on Ascend.
    Description: reduce-scatter of each kind, over axes in every order.
    Expectation: one reduce_scatter_tensor of the joined chunks; the reduction of the chunk for this rank's coordinate.
    """
    mesh, axis = mesh_of(where)
    size = mesh.mesh_shape[axis]
    results, logs = run_on_all(AscendPlatform, 4, lambda p: p.reduce_scatter(
        [[ms.Tensor(data(p.rank(), dtype, draw), dtype) for draw in range(size)]], mesh, axis, op)[0])
    for rank in range(4):
        ranks = mesh.ranks_along(axis, rank)
        assert logs[rank] == [("reduce_scatter_tensor", group_of(ranks), carried, (6 * size,), asked)]
        check([results[rank]], [reduced([data(r, dtype, ranks.index(rank)) for r in ranks], op)], dtype)


@pytest.mark.parametrize("op, dtype", GATHERED)
def test_reduce_scatter_that_hccl_lacks_is_one_all_to_all(op, dtype):
    """
    Feature: collectives on Ascend.
    Description: reduce-scatter of float64, and products of int16 and bfloat16.
    Expectation: one all_to_all_single, then the reduction in axis order.
    """
    mesh, axis = mesh_of("turned")
    results, logs = run_on_all(AscendPlatform, 4, lambda p: p.reduce_scatter(
        [[ms.Tensor(data(p.rank(), dtype, draw), dtype) for draw in range(2)]], mesh, axis, op)[0])
    for rank in range(4):
        ranks = mesh.ranks_along(axis, rank)
        assert logs[rank] == [("all_to_all_single", group_of(ranks), str(dtype), (12,))]
        check([results[rank]], [reduced([data(r, dtype, ranks.index(rank)) for r in ranks], op)], dtype)


@pytest.mark.parametrize("where", list(MESHES))
@pytest.mark.parametrize("dtype, carried", MOVED)
def test_broadcast_is_one_broadcast_from_the_global_rank(dtype, carried, where):
    """
    Feature: collectives on Ascend.
    Description: broadcast from the last coordinate, which on a turned axis is not the last rank.
    Expectation: one broadcast; that rank's value everywhere.
    """
    mesh, axis = mesh_of(where)
    source = mesh.mesh_shape[axis] - 1
    results, logs = run_on_all(AscendPlatform, 4, lambda p: p.broadcast(
        [ms.Tensor(data(p.rank(), dtype), dtype)], mesh, axis, source)[0])
    for rank in range(4):
        ranks = mesh.ranks_along(axis, rank)
        assert logs[rank] == [("broadcast", group_of(ranks), carried, (2, 3))]
        check([results[rank]], [data(ranks[source], dtype)], dtype)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3)])
def test_scalars_and_empty_values(shape):
    """
    Feature: collectives on Ascend.
    Description: 0-d, one-element and empty values through all five collectives.
    Expectation: right values and shapes; nothing is sent about empty ones.
    """
    mesh, axis = mesh_of("reversed")

    def program(platform):
        mine = ms.Tensor(data(platform.rank(), ms.int32, 0, shape), ms.int32)
        chunks = [mine for _ in range(4)]
        return [platform.all_reduce([mine], mesh, axis, "sum")[0], platform.broadcast([mine], mesh, axis, 1)[0],
                platform.reduce_scatter([chunks], mesh, axis, "max")[0], *platform.all_gather([mine], mesh, axis)[0],
                *platform.all_to_all([chunks], mesh, axis)[0]]

    values = [data(rank, ms.int32, 0, shape) for rank in (3, 2, 1, 0)]
    expected = [np.sum(values, 0, dtype=np.int32), values[1], np.max(values, 0), *values, *values]
    results, logs = run_on_all(AscendPlatform, 4, program)
    for rank in range(4):
        check(results[rank], expected, ms.int32)
        assert all(tuple(found.shape) == shape for found in results[rank])
        assert len(logs[rank]) == (0 if 0 in shape else 5)


def test_inputs_are_never_written_to():
    """
    Feature: collectives on Ascend.
    Description: the in-place collectives, all-reduce and broadcast, of a caller's tensor.
    Expectation: the caller's tensor keeps its value.
    """
    mesh, axis = mesh_of("line")

    def program(platform):
        mine = ms.Tensor(data(platform.rank(), ms.float32))
        platform.all_reduce([mine], mesh, axis, "sum")
        platform.broadcast([mine], mesh, axis, 3)
        return mine

    results, _ = run_on_all(AscendPlatform, 4, program)
    for rank, mine in enumerate(results):
        check([mine], [data(rank, ms.float32)], ms.float32)


@pytest.mark.parametrize("call", [lambda p, x, m: p.all_gather([x], m, 0), lambda p, x, m: p.broadcast([x], m, 0, 0),
                                  lambda p, x, m: p.all_to_all([[x, x, x, x]], m, 0),
                                  lambda p, x, m: p.all_reduce([x], m, 0, "sum")])
def test_types_that_hccl_cannot_carry_are_refused(call):
    """
    Feature: collectives on Ascend.
    Description: complex values.
    Expectation: CommunicationError before HCCL is asked.
    """
    runtime = FakeRuntime(0, 4)
    platform = AscendPlatform(runtime, FakeCollectives(runtime, Wire()))
    with pytest.raises(CommunicationError, match="Cast first"):
        call(platform, ms.Tensor([1 + 2j], ms.complex64), mesh_of("line")[0])
    assert platform.comm.log == []

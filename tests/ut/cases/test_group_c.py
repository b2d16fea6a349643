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
"""Cases C: redistribution, uneven and empty shards, meshes of several axes."""
from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor, mint

from hyper_parallel import (
    DTensor, Layout, Partial, Shard, implicit_redistribution, init_device_mesh, record_collectives,
)
from tests.ut.cases.harness import Job, check, outcome, placements_of, program, programmed, refused, same, text_of


def _to(tensor, placements: str):
    return tensor.redistribute(tensor.device_mesh, placements_of(placements))


def _rows(tensor) -> list:
    return [v.shape[0] for v in tensor.numpy_locals()]


@program("C46")
def uneven_shards_gathered(job: Job):
    """No padding row remains, on the way there or back."""
    y = _to(job.load("x"), "S(0)")
    assert y.shape == (5, 10) and _rows(y) == [2, 2, 1, 0]
    return {"z": _to(y, "R"), "z@full": y.full_tensor()}


@program("C47")
def nested_uneven_cuts_gathered(job: Job):
    """Cut by cut, innermost first: 2, 1, 1, 1 rows are not the flat 2, 2, 1, 0."""
    x = job.load("x")
    assert _rows(x) == [2, 1, 1, 1]
    return {"z": _to(x, "R R"), "z@in_steps": _to(_to(x, "S(0) R"), "R R"), "z@full": x.full_tensor()}


@program("C48")
def uneven_locals_with_and_without_a_global_shape(job: Job):
    """With the shape all is known; without it the sizes are compared before anything is communicated."""
    y = job.parts(job.data.loc, "S(0)", shape=(10, 2))
    assert y.shape == (10, 2)
    refused(lambda: job.parts(job.data.loc, "S(0)"), says="shape=")
    refused(lambda: job.parts(job.data.loc, "S(0)", shape=(12, 2)), says="shape")
    return {"y": _to(y, "R")}


@program("C51")
def all_to_all_of_sizes_that_divide_neither_way(job: Job):
    """Shards of either side are exact, and the way back is the identity."""
    x = job.load("x")
    with record_collectives() as log:
        y = _to(x, "S(1)")
    assert [c.op for c in log] == ["all_to_all"]
    check(_to(y, "S(0)"), job.data.x, "there and back")
    return {f"y{rank}": part for rank, part in enumerate(y.numpy_locals())}


@program("C52")
def outer_of_two_cuts_undone(job: Job):
    """What remains is a plain shard over the inner axis, with its rows in order."""
    x = job.load("x")
    y = _to(x, "R S(0)")
    parts = y.numpy_locals()
    for i in (0, 1):
        same(parts[2 * i], parts[0], "replica over the outer axis")
        same(parts[2 * i + 1], parts[1], "replica over the outer axis")
    return {"local_j0": parts[0], "local_j1": parts[1], "z": _to(y, "R R")}


@program("C53")
def inner_mesh_axis_cuts_first(job: Job):
    """The layout keeps the order of the cuts; sizes even and uneven."""
    layout = Layout.from_device_mesh(job.mesh)(("tp", "dp"))
    locals_ = [Tensor(job.data.loc[c]) for c in np.ndindex(2, 2)]
    x = DTensor.from_local_with_layout(locals_, layout, shape=(5,))
    eight = np.arange(8.0)
    even = [Tensor(eight[2 * (2 * t + d):][:2].copy()) for d, t in np.ndindex(2, 2)]
    tensor = DTensor.from_local_with_layout(even, layout, shape=(8,))
    check(tensor, eight, "even sizes")
    check(_to(tensor, "S(0) S(0)"), eight, "even sizes in mesh order")
    mesh_order = job.whole(np.arange(5.0), "S(0) S(0)")
    refused(lambda: mint.add(x, mesh_order), says="order")
    with implicit_redistribution():
        doubled = mint.add(x, mesh_order)
    return {"x": x, "x@implicit": doubled / 2, "x@full": x.full_tensor(), "x@mesh_order": _to(x, "S(0) S(0)")}


@program("C54")
def negative_shard_dimension(job: Job):
    """The same layout as the positive one: nothing moves."""
    x = job.load("x")
    with record_collectives() as log:
        y = _to(x, "S(1)")
    plain = job.whole(job.data.x, "S(1)")
    assert not log and x.placements == plain.placements == (Shard(1),)
    assert x.layout.value is plain.layout.value and hash(x.layout.value) == hash(plain.layout.value)
    return {"y": y, "y@sum": x + plain - plain}


@program("C55")
def keeper_of_a_pending_sum_without_rank_zero(job: Job):
    """The keeper is the first coordinate of the axis, whatever its global rank."""
    x = job.load("x")
    y = _to(x, "P(sum)")
    assert y.placements == (Partial(),) and job.mesh.rank_list == (1, 3)
    return {"z": _to(y, "R"), "z@pending": y}


@program("C59")
def reshard_beside_a_pending_sum(job: Job):
    """What is pending on the other axis stays pending, and is reduced once."""
    x = job.load("x")
    with record_collectives() as log:
        y = _to(x, "S(1) P(sum)")
    assert not log and text_of(y) == "S(1) P(sum)"
    return {"local00": y.numpy_locals()[0], "z": _to(y, "R R")}


@program("C60")
def pending_reductions_that_do_not_commute(job: Job):
    """Refused where the layout is made, naming both."""
    locals_ = [job.data.l[c] for c in np.ndindex(2, 2)]
    refusal = refused(lambda: job.parts(locals_, "P(sum) P(max)"), says="max")
    refused(lambda: _to(job.whole(1.0, "R P(max)"), "P(sum) P(max)"), says="max")
    return {name: refusal for name in job.case.expected}


@program("C61")
def source_of_a_redistribution(job: Job):
    """Neither the source nor a tensor that shares its layout changes."""
    x = job.load("x")
    y = DTensor.from_local_with_layout([Tensor(v) for v in job.data.l], x.layout)
    handle = x.layout
    a = _to(x, "R")
    assert text_of(x) == text_of(y) == "P(sum)" and handle.placements == (Partial(),)
    for part, given in zip(x.numpy_locals(), job.data.l):
        same(part, given, "addends of the source")
    a += 1.0
    return {"a": a - 1.0, "b": _to(x, "R"), "b@shared_layout": _to(y, "R")}


@program("C62")
def layouts_that_differ_in_axis_order_alone(job: Job):
    """Two calls in a row with axes of one size keep apart."""
    first, second = job.load("x"), job.whole(job.data.x, "S(1) S(0)")
    y_first, y_second = first + 0, second + 0
    assert (text_of(y_first), text_of(y_second)) == ("S(0) S(1)", "S(1) S(0)")
    return {"y": y_first, "y@second": y_second, "local01_first": y_first.numpy_locals()[1],
            "local01_second": y_second.numpy_locals()[1]}


@program("C64")
def mesh_axis_of_size_one(job: Job):
    """An axis like any other: it can cut, and it can be pending."""
    a, b = job.load("A", "B")
    y = mint.matmul(a, b)
    assert text_of(y) == "S(0) P(sum)"
    single = init_device_mesh("cpu", (1,), mesh_dim_names=("tp",), rank_list=(0,))
    return {"y": y, "y@reduced": _to(y, "R R")} | _on_one_rank(job, single)


def _on_one_rank(job: Job, mesh) -> dict:
    a, b = job.whole(job.data.A, "S(1)", mesh), job.whole(job.data.B, "S(0)", mesh)
    y = mint.matmul(a, b)
    assert y.placements == (Partial(),)
    return {"y@one_rank": y.reduce_partial().numpy_locals()[0]}


@program("C65")
def empty_shards(job: Job):
    """A rank without rows takes part in everything."""
    x = job.load("x")
    assert _rows(x) == [1, 0]
    z, w = _to(x, "S(1)"), _to(x * 2 + 1, "R")
    check(mint.sum(x), job.data.x.sum(), "sum over an empty shard")
    return {"y": _to(x, "R"), "z1": z.numpy_locals()[1], "w": w}


@pytest.mark.parametrize("case_id", programmed("C"))
def test_case_of_group_c_gives_the_global_value(case_id):
    """
    Feature: redistribution.
    Description: run the program of one public case on simulated ranks, cold and warm.
    Expectation: the numpy value on the global data on every rank, or a refusal where the case accepts one.
    """
    assert outcome(case_id)

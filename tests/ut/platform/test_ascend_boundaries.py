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
"""Every boundary and planner step on Ascend: the sequence of HCCL calls it makes, forward and backward.

No Ascend device is involved: a stand-in answers in HCCL's place, rank by rank.
"""
from __future__ import annotations

import types

import mindspore as ms
import numpy as np
import pytest

from hyper_parallel.core.dtensor.boundaries import Enter
from hyper_parallel.core.dtensor.convention import set_gradient_convention
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.layout_value import placements_to_value
from hyper_parallel.core.dtensor.placement_types import Partial, Replicate, Shard
from hyper_parallel.core.dtensor.planner import plan
from hyper_parallel.core.dtensor.steps import _BOUNDARIES
from hyper_parallel.platform.mindspore.ascend import AscendPlatform
from hyper_parallel.platform.platform import _ACTIVE
from hyper_parallel.platform.simulated import simulate
from tests.common.distributed_values import realise
from tests.common.fake_mindspore import run_on_all

R, S0, S1 = Replicate(), Shard(0), Shard(1)
SUM, AVG, MAX = Partial("sum"), Partial("avg"), Partial("max")
SHAPE = (4, 6)
AR, ARMAX, ARMIN = ("all_reduce", "sum"), ("all_reduce", "max"), ("all_reduce", "min")
RS, AG, A2A = ("reduce_scatter_tensor", "sum"), ("all_gather_into_tensor", None), ("all_to_all_single", None)

# source, target, forward, backward under single_loss, backward under sum_of_ranks
STEPS = [
    (SUM, R, [AR], [], [AR]), (AVG, R, [AR], [], [AR]), (MAX, R, [ARMAX, ARMIN], [], [AR]),
    (SUM, S0, [RS], [AG], [AG]), (AVG, S1, [RS], [AG], [AG]), (MAX, S0, [ARMAX, ARMIN], [AG], [AG]),
    (S0, R, [AG], [], [RS]), (S1, R, [AG], [], [RS]), (R, S0, [], [AG], []), (S0, S1, [A2A], [A2A], [A2A]),
    (S0, SUM, [], [], []), (R, SUM, [], [], []), (R, AVG, [], [AR], []), (R, MAX, [], [AR], []),
]


def _sequence(log) -> list:
    """(operation, reduce op) of the logged calls, all of which are on the world group in float32."""
    assert all(entry[1] == "world" and entry[2] == "Float32" for entry in log), log
    return [(entry[0], entry[4] if len(entry) > 4 else None) for entry in log]


def _run(boundaries, values, grads):
    """Forward through all boundaries, then backward; what each of the two gave."""
    contexts = [types.SimpleNamespace() for _ in boundaries]
    for boundary, ctx in zip(boundaries, contexts):
        values = boundary.forward(values, ctx)
    for boundary, ctx in reversed(list(zip(boundaries, contexts))):
        grads = boundary.backward(grads, ctx)
    return values, grads


def _on_ascend(make, locals_, cotangents):
    def program(platform):
        _ACTIVE.stack.append(platform)
        try:
            rank = platform.rank()
            return _run(make(), [ms.Tensor(locals_[rank])], [ms.Tensor(cotangents[rank])])
        finally:
            _ACTIVE.stack.remove(platform)

    return run_on_all(AscendPlatform, 2, program)


def _compare(make, locals_, cotangents, forward, backward):
    """The calls are the expected ones, and every rank has what the simulation has."""
    results, logs = _on_ascend(make, locals_, cotangents)
    with simulate(2):
        values, grads = _run(make(), [ms.Tensor(v) for v in locals_], [ms.Tensor(g) for g in cotangents])
    for rank, (value, grad) in enumerate(results):
        assert _sequence(logs[rank]) == forward + backward
        assert np.array_equal(value[0].asnumpy(), values[rank].asnumpy())
        assert np.array_equal(grad[0].asnumpy(), grads[rank].asnumpy())


@pytest.mark.parametrize("convention, column", [("single_loss", 3), ("sum_of_ranks", 4)])
@pytest.mark.parametrize("row", STEPS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_planner_steps_make_these_hccl_calls(row, convention, column):
    """
    Feature: redistribution on Ascend.
    Description: each row of the boundary table on two ranks, forward and backward, in both gradient conventions.
    Expectation: exactly the listed calls on the world group, and the values of the simulation on every rank.
    """
    source, target, forward = row[:3]
    mesh = DeviceMesh("npu", [0, 1], _init_backend=False)
    _, locals_ = realise(np.random.default_rng(0), mesh, [source], SHAPE)
    before, after = (placements_to_value(mesh, [p], 2) for p in (source, target))
    cotangents = [np.random.default_rng(r).integers(-4, 5, after.spec(SHAPE).local_shape((r,))).astype("float32")
                  for r in range(2)]

    def make():
        with set_gradient_convention(convention):
            return [_BOUNDARIES[step.kind](step) for step in plan(before, after, SHAPE)]

    _compare(make, locals_, cotangents, forward, row[column])


@pytest.mark.parametrize("convention, varying", [("single_loss", [AR]), ("sum_of_ranks", [])])
def test_a_varying_replica_is_one_all_reduce_in_backward(convention, varying):
    """
    Feature: conversions of operands on Ascend.
    Description: a replica that becomes varying, and one that enters a pending sum once.
    Expectation: an all-reduce in backward for the first under single_loss alone; nothing for the second.
    """
    mesh = DeviceMesh("npu", [0, 1], _init_backend=False)
    locals_ = [np.arange(24, dtype="float32").reshape(SHAPE)] * 2
    cotangents = [np.full(SHAPE, r + 1, "float32") for r in range(2)]
    for axes, backward in ((((0,), ()), varying), (((), (0,)), [])):
        def make(axes=axes):
            with set_gradient_convention(convention):
                return [Enter(mesh, *axes)]

        _compare(make, locals_, cotangents, [], backward)

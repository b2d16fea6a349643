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
"""Redistribution on simulated ranks: every pair of layouts, uneven and empty shards, values and gradients."""

import itertools

import numpy as np
import pytest
from mindspore import Tensor

from hyper_parallel import (
    DTensor,
    LayoutError,
    MeshError,
    Partial,
    Replicate,
    Shard,
    denote,
    distribute_tensor,
    init_device_mesh,
    record_collectives,
    set_gradient_convention,
    simulate,
    value_and_grad,
)
from hyper_parallel.core.dtensor.placement_types import StridedShard
from tests.common.distributed_values import gradient_label, realise

ONE_AXIS = [Replicate(), Shard(0), Shard(1), Partial("sum"), Partial("avg"), Partial("max"), Partial("min")]


def _reachable(source, target) -> bool:
    """Every pair but a change of the pending op on one axis, and layouts that mix reduce families."""
    changed = any(s.is_partial() and t.is_partial() and s != t for s, t in zip(source, target))
    families = [
        {{"avg": "sum"}.get(p.reduce_op, p.reduce_op) for p in side if p.is_partial()} for side in (source, target)
    ]
    return not changed and all(len(family) < 2 for family in families)


def _layouts(ndim):
    return itertools.product(ONE_AXIS, repeat=ndim)


@pytest.mark.parametrize("mesh_shape, shape", [((2,), (4, 6)), ((3,), (7, 5)), ((4,), (5, 1)), ((2,), (1, 3))])
def test_every_pair_on_one_axis_keeps_the_value(mesh_shape, shape):
    """
    Feature: redistribute.
    Description: every source and target placement on one axis, even, uneven and empty shards.
    Expectation: the value is exactly the same and the source is unchanged; a change of reduce op is refused.
    """
    with simulate(int(np.prod(mesh_shape))):
        mesh = init_device_mesh("cpu", mesh_shape)
        for source, target in itertools.product(_layouts(1), _layouts(1)):
            _check_pair(mesh, source, target, shape)


@pytest.mark.parametrize("shape", [(4, 8), (5, 3), (3, 1)])
def test_every_pair_on_two_axes_keeps_the_value(shape):
    """
    Feature: redistribute.
    Description: a sample of source and target layouts on a (2, 2) mesh, nested cuts included.
    Expectation: the value is exactly the same.
    """
    nested = [(StridedShard(0, 2), Shard(0)), (Shard(0), Shard(0)), (StridedShard(1, 2), Shard(1))]
    layouts = [p for p in _layouts(2) if _reachable(p, p)] + nested
    rng = np.random.default_rng(7)
    pairs = list(itertools.product(layouts, layouts))
    with simulate(4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        for i in rng.choice(len(pairs), 220, replace=False):
            _check_pair(mesh, *pairs[i], shape)


def _check_pair(mesh, source, target, shape):
    rng = np.random.default_rng(len(str(source) + str(target)))
    value, locals_ = realise(rng, mesh, source, shape)
    x = DTensor.from_local([Tensor(v) for v in locals_], mesh, source, shape=shape)
    before = x.placements
    if not _reachable(source, target):
        with pytest.raises(LayoutError):
            x.redistribute(mesh, target)
        return
    y = x.redistribute(mesh, target)
    assert np.array_equal(denote(y.numpy_locals(), y.layout), value), (source, target)
    assert y.shape == shape and x.placements == before
    assert np.array_equal(denote(x.numpy_locals(), x.layout), value)
    assert np.array_equal(y.full_tensor().asnumpy(), value)


@pytest.mark.parametrize("convention", ["single_loss", "sum_of_ranks"])
@pytest.mark.parametrize("mesh_shape, shape", [((2,), (4, 6)), ((3,), (7, 5)), ((2,), (1, 4))])
def test_every_boundary_has_the_gradient_of_its_layout(convention, mesh_shape, shape):
    """
    Feature: backward of redistribute.
    Description: loss = sum(redistributed x * weight) for every pair of placements, in both conventions.
    Expectation: the gradient of x, read through its label, is exactly the weight.
    """
    n = int(np.prod(mesh_shape))
    with simulate(n), set_gradient_convention(convention):
        mesh = init_device_mesh("cpu", mesh_shape)
        for source, target in itertools.product(_layouts(1), _layouts(1)):
            if _reachable(source, target):
                _check_gradient(mesh, source, target, shape, convention)


def _check_gradient(mesh, source, target, shape, convention):
    rng = np.random.default_rng(3)
    n = mesh.size()
    _, locals_ = realise(rng, mesh, source, shape)
    weight = rng.integers(-4, 5, shape).astype("float32") * n
    x = DTensor.from_local([Tensor(v) for v in locals_], mesh, source, shape=shape)
    w = distribute_tensor(weight, mesh, [Replicate()])

    def loss(x):
        return (x.redistribute(mesh, target).redistribute(mesh, [Replicate()]) * w).sum()

    _, g = value_and_grad(loss)(x)
    seeds = 1 if convention == "single_loss" else n  # N replicas of the loss, each with a seed of 1
    assert g.placements == gradient_label(source, convention), (source, target)
    assert np.array_equal(denote(g.numpy_locals(), g.layout), weight * seeds), (source, target, g.numpy_locals())


def test_a_partial_on_an_axis_that_the_target_keeps_is_not_touched():
    """
    Feature: redistribute.
    Description: [R, P(sum)] -> [S(1), P(sum)] on a (2, 2) mesh.
    Expectation: no collective, the tp axis still pending, the local of (0, 0) is the slice of its own addend.
    """
    addends = [np.arange(8.0).reshape(2, 4), 10 * np.arange(8.0).reshape(2, 4)]
    with simulate(4), record_collectives() as log:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        x = DTensor.from_local([Tensor(addends[r % 2]) for r in range(4)], mesh, [Replicate(), Partial()])
        y = x.redistribute(mesh, [Shard(1), Partial()])
        assert log == [] and y.placements == (Shard(1), Partial())
        assert np.array_equal(y.numpy_locals()[0], addends[0][:, :2])
        assert np.array_equal(y.full_tensor().asnumpy(), addends[0] + addends[1])


def test_a_partial_to_shard_is_one_reduce_scatter():
    """
    Feature: redistribute.
    Description: P(sum) -> S(0) on two ranks.
    Expectation: exactly one reduce-scatter.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        x = DTensor.from_local([Tensor(np.ones((4, 2), "float32"))] * 2, mesh, [Partial()], shape=(4, 2))
        with record_collectives() as log:
            x.redistribute(mesh, [Shard(0)])
        assert [c.op for c in log] == ["reduce_scatter"]


def test_negative_shard_dims_are_the_same_layout():
    """
    Feature: Shard(-1).
    Description: Shard(-1) on a 2-D tensor against Shard(1).
    Expectation: the same layout value and no collective between them.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        x = distribute_tensor(np.arange(8.0).reshape(2, 4), mesh, [Shard(-1)])
        with record_collectives() as log:
            y = x.redistribute(mesh, [Shard(1)])
        assert log == [] and x.placements == (Shard(1),) and x.layout.value is y.layout.value


def test_another_mesh_is_refused():
    """
    Feature: redistribute.
    Description: a target on a mesh of another shape over the same ranks.
    Expectation: MeshError that names the way through the whole tensor.
    """
    with simulate(4):
        a = init_device_mesh("cpu", (4,))
        b = init_device_mesh("cpu", (2, 2))
        x = distribute_tensor(np.arange(8.0), a, [Shard(0)])
        with pytest.raises(MeshError, match="full_tensor"):
            x.redistribute(b, [Shard(0), Replicate()])

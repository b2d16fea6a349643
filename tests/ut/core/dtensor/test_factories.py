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
"""Factories: the value is numpy's under every layout, Partial and uneven shards included; one random stream."""
import mindspore as ms
import numpy as np
import pytest

from hyper_parallel import (
    DTensor, LayoutError, Partial, Replicate, Shard, denote, empty, full, init_device_mesh, manual_seed, ones, rand,
    randn, record_collectives, simulate, zeros,
)

R, S, P = Replicate(), Shard, Partial
LAYOUTS = [[R], [S(0)], [S(1)], [S(-1)], [P("sum")], [P("avg")], [P("max")], [P("min")], [P("prod")]]
GRIDS = [[S(0), S(0)], [S(0), P()], [P(), P("avg")], [R, S(1)], [P("max"), P("max")], [P("prod"), P("prod")]]


def _value(x):
    assert isinstance(x, DTensor)
    found = denote(x.numpy_locals(), x.layout)
    spec = x.layout.value.spec(x.shape)
    for local, coordinate in zip(x.numpy_locals(), np.ndindex(*x.device_mesh.mesh_shape)):
        assert local.shape == spec.local_shape(coordinate)
    return found


def _full(value):
    return lambda size, mesh, placements, **options: full(size, value, device_mesh=mesh, placements=placements,
                                                          **options)


CONSTANTS = {"zeros": (zeros, 0.0), "ones": (ones, 1.0), "full 3": (_full(3), 3.0),
             "full -2.5": (_full(-2.5), -2.5), "full 0": (_full(0), 0.0)}


@pytest.mark.parametrize("name", list(CONSTANTS))
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_constant_is_that_constant_under_every_layout(name, ranks):
    """
    Feature: zeros, ones, full.
    Description: a (5, 3) constant under every placement, uneven and empty shards, one Partial of each op.
    Expectation: the value is the constant, in float32; nothing is communicated.
    """
    make, constant = CONSTANTS[name]
    with simulate(ranks), record_collectives() as log:
        mesh = init_device_mesh("cpu", (ranks,))
        for placements in LAYOUTS:
            x = make((5, 3), mesh, placements)
            assert x.shape == (5, 3) and x.dtype == ms.float32 and _value(x).dtype == np.float32
            assert np.array_equal(_value(x), np.full((5, 3), constant)), placements
    assert log == []


@pytest.mark.parametrize("placements", GRIDS)
def test_constants_on_two_axes(placements):
    """
    Feature: zeros, ones, full.
    Description: pairs of placements on (2, 3), two Partials among them.
    Expectation: the value is the constant.
    """
    with simulate(6):
        mesh = init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp"))
        for make, constant in CONSTANTS.values():
            assert np.array_equal(_value(make((5, 7), mesh, placements)), np.full((5, 7), constant)), placements


@pytest.mark.parametrize("size, shape", [(4, (4,)), ((4,), (4,)), ([2, 3], (2, 3)), ((), ()), ((0, 3), (0, 3))])
def test_sizes_come_as_int_tuple_or_list(size, shape):
    """
    Feature: size of a factory.
    Description: an int, tuples, a list, a scalar, an empty tensor.
    Expectation: that global shape from every factory.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        for make in (zeros, ones, empty, rand, randn, _full(2)):
            assert make(size, mesh, [R]).shape == shape


@pytest.mark.parametrize("dtype, kind", [(ms.float16, np.float16), (ms.float64, np.float64), (ms.int32, np.int32),
                                         (ms.int64, np.int64)])
def test_a_dtype_can_be_asked_for(dtype, kind):
    """
    Feature: dtype= of a factory.
    Description: floats and ints, cut and pending.
    Expectation: the constant in that type.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        for placements in ([S(0)], [P()]):
            for make, value in ((zeros, 0), (ones, 1), (_full(3), 3)):
                x = make((3,), mesh, placements, dtype=dtype)
                assert x.dtype == dtype and _value(x).dtype == kind and _value(x).tolist() == [value] * 3


def test_booleans_and_conjunctions():
    """
    Feature: dtype= of a factory.
    Description: bool ones and zeros, cut and under a pending conjunction.
    Expectation: True and False everywhere.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        for placements in ([S(0)], [P("all")]):
            assert _value(ones((3,), mesh, placements, dtype=ms.bool_)).tolist() == [True] * 3
            assert _value(zeros((3,), mesh, placements, dtype=ms.bool_)).tolist() == [False] * 3


@pytest.mark.parametrize("placements", LAYOUTS + [[P("all")]])
def test_uninitialised_storage_denotes_one_value(placements):
    """
    Feature: empty.
    Description: empty under every placement on three ranks.
    Expectation: the right local shapes; replicas are equal, so that it denotes a value at all.
    """
    dtype = ms.bool_ if placements == [P("all")] else ms.float32
    with simulate(3):
        x = empty((5, 2), init_device_mesh("cpu", (3,)), placements, dtype=dtype)
        assert x.shape == (5, 2) and x.dtype == dtype and _value(x).shape == (5, 2)


@pytest.mark.parametrize("draw", [rand, randn])
def test_random_tensors_do_not_depend_on_layout_or_rank_count(draw):
    """
    Feature: rand, randn, manual_seed.
    Description: after the same seed, a (5, 3) tensor under every layout on 1 to 4 ranks and on a (2, 2) mesh.
    Expectation: the same whole tensor every time (a mean over three ranks rounds); another seed and a second draw
        give others.
    """
    seen = []
    for ranks in (1, 2, 3, 4):
        with simulate(ranks):
            mesh = init_device_mesh("cpu", (ranks,))
            for placements in LAYOUTS:
                manual_seed(7)
                value = _value(draw((5, 3), mesh, placements))
                if (ranks, placements) == (3, [P("avg")]):
                    np.testing.assert_array_max_ulp(value, seen[0], 1)
                    continue
                seen.append(value)
    with simulate(4):
        grid = init_device_mesh("cpu", (2, 2))
        manual_seed(7)
        seen.append(_value(draw((5, 3), grid, [S(0), S(1)])))
        second = _value(draw((5, 3), grid, [S(0), S(1)]))
        manual_seed(8)
        other = _value(draw((5, 3), grid, [S(0), S(1)]))
    assert all(np.array_equal(v, seen[0]) for v in seen) and seen[0].dtype == np.float32
    assert not np.array_equal(second, seen[0]) and not np.array_equal(other, seen[0])
    assert np.unique(seen[0]).size == 15


def test_random_values_have_their_distribution():
    """
    Feature: rand, randn.
    Description: 20000 values of each.
    Expectation: uniform in [0, 1) and standard normal, within five standard errors.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        manual_seed(0)
        uniform, normal = (_value(draw((20000,), mesh, [S(0)])).astype("float64") for draw in (rand, randn))
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 5 * 0.2887 / 141
    assert abs(normal.mean()) < 5 / 141 and abs(normal.std() - 1) < 5 * 0.7071 / 141


@pytest.mark.parametrize("make", [zeros, ones, empty, rand, randn, _full(1)])
def test_placements_that_do_not_fit_are_refused(make):
    """
    Feature: factories.
    Description: too many placements, a dim out of range, an unknown op.
    Expectation: LayoutError.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        for placements in ([R, R], [S(2)], [], ["S0"]):
            with pytest.raises(LayoutError):
                make((2, 2), mesh, placements)


def test_axis_names_and_a_lone_placement_serve_as_placements():
    """
    Feature: factories.
    Description: one axis name per tensor dimension in place of placements; a placement that is not in a list.
    Expectation: the layout that they give, as everywhere else.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        for make in (zeros, ones, empty, rand, randn, _full(1)):
            assert make((4, 2), mesh, ("tp", "None")).placements == (S(0),) == make((4, 2), mesh, S(0)).placements


def test_positional_and_keyword_forms():
    """
    Feature: factories.
    Description: mesh and placements by keyword.
    Expectation: the same tensors; full takes them by keyword only.
    """
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        for make in (zeros, ones, empty, rand, randn):
            assert make((2,), device_mesh=mesh, placements=[S(0)]).placements == make((2,), mesh, [S(0)]).placements
        with pytest.raises(TypeError):
            full((2,), 1.0, mesh, [S(0)])

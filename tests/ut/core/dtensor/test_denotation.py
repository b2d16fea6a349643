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
"""denote: the one global value of per-rank locals, checked against values composed by hand; what denotes nothing."""
import itertools

import numpy as np
import pytest

from hyper_parallel import LayoutError, Partial, Replicate, Shard, denote
from hyper_parallel.core.dtensor.denotation import shards
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.layout_value import placements_to_value
from hyper_parallel.core.dtensor.placement_types import StridedShard

R, S, SS, P = Replicate(), Shard, StridedShard, Partial


def _layout(shape, placements, ndim):
    names = ("dp", "cp", "tp")[:len(shape)]
    mesh = DeviceMesh("cpu", np.arange(int(np.prod(shape))).reshape(shape), mesh_dim_names=names, _init_backend=False)
    return placements_to_value(mesh, placements, ndim)


A, B, C, D = ([v] for v in (1, -20, 300, -4000))
# mesh, placements, locals in mesh order, global value
BY_HAND = [
    ((2,), (R,), [A, A], [1]),
    ((2,), (S(0),), [A, B], [1, -20]),
    ((3,), (S(0),), [[1, 2], [3, 4], [5]], [1, 2, 3, 4, 5]),
    ((4,), (S(0),), [[1, 2], [3, 4], [5], []], [1, 2, 3, 4, 5]),
    ((3,), (S(0),), [[1], [], []], [1]),
    ((2,), (P("sum"),), [A, B], [-19]),
    ((2,), (P("avg"),), [[1.0], [-20.0]], [-9.5]),
    ((2,), (P("max"),), [[1, -5], [-20, 3]], [1, 3]),
    ((2,), (P("min"),), [[1, -5], [-20, 3]], [-20, -5]),
    ((3,), (P("prod"),), [[2], [-3], [5]], [-30]),
    ((2,), (P("all"),), [[True, True], [True, False]], [True, False]),
    ((2, 2), (S(0), S(0)), [A, B, C, D], [1, -20, 300, -4000]),
    ((2, 2), (SS(0, 2), S(0)), [A, B, C, D], [1, 300, -20, -4000]),
    ((2, 2), (S(0), S(0)), [[1, 2], [3], [4], [5]], [1, 2, 3, 4, 5]),
    ((2, 2), (SS(0, 2), S(0)), [[1, 2], [4], [3], [5]], [1, 2, 3, 4, 5]),
    ((2, 2), (P("sum"), S(0)), [A, B, C, D], [301, -4020]),
    ((2, 2), (S(0), P("sum")), [A, B, C, D], [-19, -3700]),
    ((2, 2), (P("sum"), P("sum")), [A, B, C, D], [-3719]),
    ((2, 2), (P("sum"), P("avg")), [[1.0], [-20.0], [300.0], [-4000.0]], [-1859.5]),
    ((2, 2), (R, P("max")), [A, B, A, B], [1]),
    ((2, 2), (P("min"), R), [A, A, C, C], [1]),
    ((2, 2), (R, S(0)), [A, B, A, B], [1, -20]),
    ((1, 2), (P("sum"), S(0)), [A, B], [1, -20]),
    ((1,), (P("avg"),), [[7.0]], [7.0]),
]


@pytest.mark.parametrize("mesh, placements, locals_, value", BY_HAND)
def test_a_value_composed_by_hand(mesh, placements, locals_, value):
    """
    Feature: denote.
    Description: 1-D locals of every placement, several axes, uneven and empty shards, orders of cuts.
    Expectation: the value that the table says, in the type of the locals.
    """
    locals_ = [np.array(v, np.array(locals_[0]).dtype) for v in locals_]
    found = denote(locals_, _layout(mesh, placements, 1))
    assert found.tolist() == value and found.dtype == locals_[0].dtype


def test_a_scalar_and_a_handle_are_welcome():
    """
    Feature: denote.
    Description: 0-d locals; a Layout handle in place of its value; nested lists as locals.
    Expectation: the same values.
    """
    assert denote([1.0, 2.0], _layout((2,), (P(),), 0)) == 3.0
    layout = Layout.of(_layout((2,), (S(1),), 2))
    assert denote([[[1], [2]], [[3], [4]]], layout).tolist() == [[1, 3], [2, 4]]


ALL = [R, S(0), S(1), S(-1), P("sum"), P("avg"), P("max"), P("min")]


@pytest.mark.parametrize("shape", [(4, 6), (5, 3), (1, 7), (3, 1)])
def test_cutting_and_denoting_are_inverse(shape):
    """
    Feature: denote, shards.
    Description: every pair of cuts and replicas on (2, 3), (3, 2) and three axes of (2, 2, 2); orders of cuts.
    Expectation: the value again.
    """
    value = np.random.default_rng(0).integers(-99, 99, shape)
    plain = [R, S(0), S(1)]
    layouts = [(m, p) for m in ((2, 3), (3, 2)) for p in itertools.product(plain, repeat=2)]
    layouts += [((2, 2, 2), p) for p in itertools.product(plain, repeat=3)]
    layouts += [((2, 3), (SS(0, 3), S(0))), ((3, 2), (SS(1, 2), S(1))), ((2, 2, 2), (SS(0, 4), SS(0, 2), S(0))),
                ((2, 2, 2), (SS(0, 2), S(1), S(0)))]
    for mesh, placements in layouts:
        layout = _layout(mesh, placements, 2)
        parts = shards(value, layout.spec(shape))
        assert len(parts) == int(np.prod(mesh)) and np.array_equal(denote(parts, layout), value), placements


def test_cuts_are_joined_before_sums_are_made():
    """
    Feature: denote.
    Description: random locals under a cut, a pending sum and a replica on (2, 2, 2), against numpy on an array of
        them.
    Expectation: joined along the cut axis, summed over the pending one, read off the replicated one.
    """
    rng = np.random.default_rng(1)
    grid = rng.integers(-9, 9, (2, 2, 2, 3, 4))  # dp, cp, tp, then the local (3, 4)
    grid[1] = grid[0]
    want = np.concatenate([grid[0, :, t].sum(0) for t in range(2)], 1)
    assert np.array_equal(denote(list(grid.reshape(8, 3, 4)), _layout((2, 2, 2), (R, P(), S(1)), 2)), want)


def test_sums_stay_in_their_element_type():
    """
    Feature: denote.
    Description: pending sums of int8 that wrap around, of float16 and of float64.
    Expectation: numpy's sum in that type.
    """
    layout = _layout((2,), (P(),), 1)
    assert denote([np.array([100], np.int8)] * 2, layout).tolist() == [-56]
    for dtype in (np.float16, np.float64, np.int64):
        assert denote([np.array([3], dtype)] * 2, layout).dtype == dtype


def test_replicas_that_differ_denote_nothing():
    """
    Feature: denote.
    Description: replicas that differ in a value, in shape, between the sums of their rows; equal NaNs and
        infinities.
    Expectation: LayoutError that names the axis and the coordinate; equal NaNs are equal.
    """
    one = _layout((2,), (R,), 1)
    for bad in ([A, B], [[1], [1, 2]], [[1.0], [float("nan")]]):
        with pytest.raises(LayoutError, match="axis 'dp' differ: coordinate 1"):
            denote(bad, one)
    assert np.isnan(denote([[np.nan, np.inf]] * 2, one)[0]) and denote([[True]] * 2, one).tolist() == [True]
    rows = _layout((2, 2), (R, P()), 1)
    assert denote([[1], [2], [2], [1]], rows).tolist() == [3]  # other addends, the same sum
    with pytest.raises(LayoutError, match="axis 'dp' differ"):
        denote([[1], [2], [2], [2]], rows)
    with pytest.raises(LayoutError, match="axis 'cp' differ: coordinate 1"):
        denote([A, B, A, B], _layout((2, 2), (S(0), R), 1))


def test_a_wrong_number_of_locals_is_refused():
    """
    Feature: denote.
    Description: one and three locals for two ranks.
    Expectation: LayoutError with both numbers.
    """
    for locals_ in ([A], [A, A, A], []):
        with pytest.raises(LayoutError, match=f"needs 2 local values. Got {len(locals_)}"):
            denote(locals_, _layout((2,), (R,), 1))


@pytest.mark.parametrize("placements, locals_", [
    ((S(0),), [[[1, 2]], [[1]]]), ((S(0),), [[1], [[2]]]), ((P(),), [[1, 2], [1, 2, 3]]),
])
def test_locals_that_do_not_fit_each_other_are_refused(placements, locals_):
    """
    Feature: denote.
    Description: chunks whose other dims differ, chunks of another rank, addends of other shapes.
    Expectation: LayoutError.
    """
    with pytest.raises(LayoutError):
        denote(locals_, _layout((2,), placements, np.ndim(locals_[0])))


def test_chunks_that_are_not_ceil_size_are_refused():
    """
    Feature: denote.
    Description: 2 + 3 elements for 5 over two ranks, where ceil-size chunks are 3 + 2.
    Expectation: LayoutError: such locals are no layout of any tensor.
    """
    with pytest.raises(LayoutError):
        denote([[1, 2], [3, 4, 5]], _layout((2,), (S(0),), 1))

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
"""What a layout notes about its cuts: their order, pending ops of one family, and the areas of all ranks."""
import numpy as np
import pytest

from hyper_parallel import LayoutError, Partial, Replicate, Shard
from hyper_parallel.core.dtensor.cuts import nested_chunk
from hyper_parallel.core.dtensor.layout import _infer_slice_area_by_rank
from hyper_parallel.core.dtensor.layout_value import layout_value, placements_to_value
from hyper_parallel.core.dtensor.placement_types import StridedShard
from tests.common.tensors import bare_mesh, template

R, S, SS, P = Replicate(), Shard, StridedShard, Partial


# -- orders of cuts --------------------------------------------------------------------------------------------------

# mesh, order of the axes that cut dim 0, placements
ORDERS = [
    ((2, 3), (0, 1), (S(0), S(0))), ((2, 3), (1, 0), (SS(0, 3), S(0))), ((1, 3), (1, 0), (SS(0, 3), S(0))),
    ((2, 2, 2), (0, 1, 2), (S(0), S(0), S(0))), ((2, 2, 2), (2, 1, 0), (SS(0, 4), SS(0, 2), S(0))),
    ((2, 2, 2), (1, 2, 0), (SS(0, 4), S(0), S(0))), ((2, 2, 2), (1, 0, 2), (SS(0, 2), S(0), S(0))),
    ((2, 2, 2), (0, 2, 1), (S(0), SS(0, 2), S(0))), ((2, 2, 2), (2, 0, 1), (SS(0, 2), SS(0, 2), S(0))),
    ((2, 3, 4), (2, 0), (SS(0, 4), R, S(0))), ((2, 3, 4), (1, 0), (SS(0, 3), S(0), R)),
]


@pytest.mark.parametrize("shape, order, placements", ORDERS)
def test_a_strided_shard_notes_the_order_of_cuts(shape, order, placements):
    """
    Feature: StridedShard.
    Description: every order of the axes that cut one dim, to placements and back.
    Expectation: the factor is the product of the sizes of later mesh axes that cut before; both ways.
    """
    value = layout_value(bare_mesh(shape), [order])
    assert value.placements == placements
    assert placements_to_value(bare_mesh(shape), placements, 1) is value


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (1, 1), (1, 2, 1), (2, 1, 2)])
def test_axes_of_size_one_keep_a_sound_order(shape):
    """
    Feature: StridedShard with axes of size 1.
    Description: every order of cuts on meshes with such axes, to placements and back.
    Expectation: the layout that comes back gives every rank the same part, though the order may be noted
        otherwise.
    """
    mesh = bare_mesh(shape)
    for order in _permutations(len(shape)):
        value = layout_value(mesh, [order])
        back = placements_to_value(mesh, value.placements, 1)
        assert back.placements == value.placements
        for coordinate in np.ndindex(*shape):
            assert back.spec((7,)).area(coordinate) == value.spec((7,)).area(coordinate)


def _permutations(n: int) -> list:
    return [(0,)] if n == 1 else [p[:i] + (n - 1,) + p[i:] for p in _permutations(n - 1) for i in range(n)]


@pytest.mark.parametrize("shape, placements", [
    ((2, 3), (SS(0, 2), S(0))), ((2, 3), (SS(0, 6), S(0))), ((2, 3), (SS(0, 3), R)), ((2, 3), (SS(0, 3), S(1))),
    ((2, 3), (S(0), SS(0, 2))), ((2, 2, 2), (SS(0, 8), S(0), S(0))), ((2, 2, 2), (SS(0, 4), R, S(0))),
    ((2, 3, 4), (SS(0, 4), S(0), S(0))),
])
def test_a_factor_that_disagrees_with_the_order_is_refused(shape, placements):
    """
    Feature: StridedShard.
    Description: factors that no order of the cuts gives.
    Expectation: LayoutError with the axis, the factor and the sizes.
    """
    with pytest.raises(LayoutError, match="split_factor .* disagrees") as caught:
        placements_to_value(bare_mesh(shape), placements, 2)
    assert "axis 'dp'" in str(caught.value) or "axis 'cp'" in str(caught.value)


# -- pending ops -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ops, fits", [
    (("sum", "sum"), True), (("sum", "avg"), True), (("max", "max"), True), (("min", "min"), True),
    (("prod", "prod"), True),
    (("all", "all"), True), (("sum", "max"), False), (("avg", "prod"), False), (("max", "min"), False),
    (("all", "min"), False),
    (("sum", "all"), False),
])
def test_pending_ops_come_from_one_family(ops, fits):
    """
    Feature: families of reduce ops.
    Description: pairs of ops on two axes, by placements and by setters.
    Expectation: one family is accepted; a mix is refused both ways, and the setter leaves the handle as it was.
    """
    layout = template((2, 2))("None")
    layout.set_partial_by_dev_axis("dp", ops[0])
    if fits:
        layout.set_partial_by_dev_axis("cp", ops[1])
        assert layout.value is placements_to_value(bare_mesh((2, 2)), [P(op) for op in ops], 1)
        return
    for make in (lambda: layout.set_partial_by_dev_axis("cp", ops[1]),
                 lambda: placements_to_value(bare_mesh((2, 2)), [P(op) for op in ops], 1)):
        with pytest.raises(LayoutError, match="one family"):
            make()
    assert layout.partial == [ops[0], None]


# -- slices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh_shape, tensor_map, shape", [
    ((2,), (0, -1), (4, 3)), ((2, 2), (1, 0), (4, 6)), ((2, 2), ((1, 0),), (8,)), ((2, 2), ((0, 1), -1), (8, 2)),
    ((3,), (0,), (7,)), ((2, 2), ((1, 0),), (5,)), ((2, 3), (-1, (0, -1)), (2, 7)), ((4,), (0,), (2,)),
    ((2, 2), (-1,), (3,)),
])
def test_slice_areas_are_successive_ceil_cuts(mesh_shape, tensor_map, shape):
    """
    Feature: _infer_slice_area_by_rank.
    Description: every rank's (begin, end) per dim, uneven and empty parts, several axes on one dim.
    Expectation: numpy's successive ceil cuts; the parts of all ranks cover the tensor equally often.
    """
    covered = np.zeros(shape, int)
    reverse = mesh_shape[::-1]
    for rank, coordinate in enumerate(np.ndindex(*mesh_shape)):
        area = _infer_slice_area_by_rank(mesh_shape, tensor_map, rank, shape)
        expected = []
        for size, entry in zip(shape, tensor_map):
            ids = [i for i in (entry if isinstance(entry, tuple) else (entry,)) if i >= 0]
            begin, length = _cut(size, [reverse[i] for i in ids], [coordinate[::-1][i] for i in ids])
            expected.append((begin, begin + length))
        assert area == expected
        covered[tuple(slice(b, e) for b, e in area)] += 1
    assert covered.min() == covered.max()


def _cut(size, sizes, coordinates):
    """Successive ceil cuts, by splitting a list of indices."""
    part = list(range(size))
    begin = 0
    for n, c in zip(sizes, coordinates):
        step = -(-len(part) // n)
        begin += min(c * step, len(part))
        part = part[c * step:(c + 1) * step]
    return begin, len(part)


def test_successive_cuts_are_not_one_flat_cut():
    """
    Feature: nested cuts.
    Description: 5 over (2, 2).
    Expectation: 2, 1, 1, 1, not 2, 2, 1, 0.
    """
    spec = layout_value(bare_mesh((2, 2)), [(0, 1)]).spec((5,))
    assert [spec.local_shape(c)[0] for c in np.ndindex(2, 2)] == [2, 1, 1, 1]
    assert [nested_chunk(5, (4,), (c,))[1] for c in range(4)] == [2, 2, 1, 0]

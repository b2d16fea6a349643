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
"""Reshapes of cut dimensions: every rank holds the same block before and after, uneven and nested cuts included."""
import itertools

import numpy as np
import pytest

from hyper_parallel.core.dtensor.cuts import nested_chunk
from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.core.shard.declaration import Call, Operand
from hyper_parallel.core.shard.ops.parallel_reshape import groups, same_blocks
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
from hyper_parallel.core.shard.rules import infer
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.errors import LayoutError
from tests.ut.core.shard.ops.row_harness import Case, check, mesh_of

RNG = np.random.default_rng(9)

ACCEPTED = [  # shape, new shape, mesh, cut per axis
    ((16, 6), (96,), (2,), ("S0",)),
    ((16, 6), (4, 4, 6), (4,), ("S0",)),
    ((7, 2), (14,), (4,), ("S0",)),  # 2, 2, 2, 1 rows are 4, 4, 4, 2 elements
    ((5, 3), (5, 1, 3), (2,), ("S0",)),
    ((1, 5, 3), (5, 3), (3,), ("S1",)),
    ((1, 8, 3), (24,), (4,), ("S1",)),
    ((8, 6), (48,), (2, 2), ("S0", "S0")),
    ((8, 6), (4, 12), (2, 2), ("S0", "S0")),
    ((4, 6), (2, 2, 6), (2, 3), ("S0", "S1")),
    ((2, 1, 6), (2, 2, 3), (2,), ("S2",)),
    ((4, 5), (4, 5), (3,), ("S1",)),
    ((0, 4), (0, 4), (2,), ("S1",)),
]

REFUSED = [  # ..., text
    ((16, 6), (6, 16), (4,), ("S0",), r"\(16, 6\) -> \(6, 16\), where the cuts of 16 and of 6 give a rank different"),
    ((6, 16), (16, 6), (2,), ("S1",), "it is not the leading dimension"),
    ((5, 2), (10,), (2,), ("S0",), "the cuts of 5 and of 10"),
    ((10,), (5, 2), (2,), ("S0",), "the cuts of 10 and of 5"),
    ((4, 6), (24,), (3,), ("S0",), "the cuts of 4 and of 24"),
    ((4, 6), (24,), (2,), ("S1",), "it is not the leading dimension"),
    ((4, 6), (24,), (2, 2), ("S0", "S1"), "dimension 1 of .* is cut"),
    ((12,), (6, 2), (2, 2), ("S0", "S0"), r"axes of sizes \(2, 2\)"),  # 6, 6 then 3, 3: half a pair
    ((1, 6), (6,), (2,), ("S0",), "it is not the leading dimension"),
    ((0, 4), (4, 0), (2,), ("S1",), "without elements"),
]


@pytest.mark.parametrize("shape, new, mesh, placements", ACCEPTED)
def test_reshape_of_a_cut_dim_is_exact(shape, new, mesh, placements):
    """
    Feature: Reshape of cut dimensions.
    Description: leading dimensions, factors of 1, several axes on one dimension, uneven cuts that still match.
    Expectation: what the ranks' parts denote is numpy's reshape.
    """
    x = np.arange(float(np.prod(shape))).reshape(shape)
    check(Case("Reshape", input=x, shape=new), mesh_of(*mesh), [placements], RNG)


@pytest.mark.parametrize("shape, new, mesh, placements, text", REFUSED)
def test_reshape_that_would_mix_blocks_is_refused(shape, new, mesh, placements, text):
    """
    Feature: Reshape of cut dimensions.
    Description: a cut that is not on the leading dimension, or whose blocks are no chunks of the result.
    Expectation: LayoutError with the reason and the gather to call.
    """
    x = np.arange(float(np.prod(shape))).reshape(shape)
    with pytest.raises(LayoutError, match=f"Reshape: .*{text}.*Gather it first"):
        check(Case("Reshape", input=x, shape=new), mesh_of(*mesh), [placements], RNG)


def test_same_blocks_agrees_with_every_coordinate():
    """
    Feature: the block condition.
    Description: all extents up to 12 x 4 reshaped to all divisors, for axis sizes (2,) to (2, 2, 2) and (4, 3).
    Expectation: the closed form says what comparing every rank's begin and length says, both true and false often.
    """
    outcomes = []
    sizes = [(2,), (3,), (4,), (2, 2), (3, 2), (4, 3), (2, 2, 2)]
    for lead, rest, axes in itertools.product(range(1, 13), range(1, 5), sizes):
        for new in (d for d in range(1, lead * rest + 1) if lead * rest % d == 0):
            unit = lead * rest // new
            found = same_blocks(lead, rest, new, unit, axes)
            assert found == all(_same(lead, rest, new, unit, axes, c) for c in itertools.product(*map(range, axes)))
            outcomes.append(found)
    assert 0.1 < np.mean(outcomes) < 0.9


def _same(lead, rest, new, unit, axes, coordinate) -> bool:
    begin, length = nested_chunk(lead, axes, coordinate)
    new_begin, new_length = nested_chunk(new, axes, coordinate)
    return length * rest == new_length * unit and (length == 0 or begin * rest == new_begin * unit)


@pytest.mark.parametrize("shape, new, expected", [
    ((6, 4, 5), (24, 5), [([0, 1], [0]), ([2], [1])]),
    ((4,), (1, 4, 1), [([], [0]), ([0], [1]), ([], [2])]),
    ((2, 1, 3), (2, 3), [([0], [0]), ([1], []), ([2], [1])]),
    ((1, 4, 6), (1, 24), [([0], [0]), ([1, 2], [1])]),
    ((2, 3, 4), (6, 2, 2), [([0, 1], [0]), ([2], [1, 2])]),
    ((), (1,), [([], [0])]),
])
def test_groups_are_the_finest(shape, new, expected):
    """
    Feature: grouping of dimensions.
    Description: merges, splits, factors of 1 at either end.
    Expectation: pairs of dimension lists of equal extent, none of which could be split further.
    """
    assert groups(shape, new) == expected


def test_a_layout_without_shape_is_refused():
    """
    Feature: rules asked on layouts alone.
    Description: a cut layout without a recorded shape, and the same layout with one.
    Expectation: the first is refused with the call to make, the second is answered.
    """
    layout = Layout.of(layout_value(mesh_of(2), ((0,), ())))
    op = get_distributed_op("Reshape")
    with pytest.raises(LayoutError, match=r"set_tensor_meta\(shape\)"):
        op.infer_layout([layout], [(24,)])
    layout.set_tensor_meta((4, 6))
    assert op.infer_layout([layout], [(24,)]).value.dims == ((0,),)


def test_inference_does_not_depend_on_rank_counts():
    """
    Feature: cost of the rule on large meshes.
    Description: a dimension of 2**20 cut by three axes of 128, 128 and 8 is merged with the next.
    Expectation: answered from chunk lengths alone; an enumeration of 131072 ranks would not end in time.
    """
    bound = get_distributed_op("Reshape").declaration
    call = Call("Reshape", {"input": Operand((2 ** 20, 6), None), "shape": (2 ** 20 * 6,)})
    signature = bound.bind(call).signature
    assert signature.conditions["d0"]((128, 128, 8)) is None
    assert "different elements" in signature.conditions["d0"]((128, 128, 7))
    assert infer(signature, [layout_value(mesh_of(2, 2), ((0, 1), ()))]).outputs[0].dims == ((0, 1),)

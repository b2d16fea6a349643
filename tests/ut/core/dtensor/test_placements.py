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
"""Placements: constructors, what they refuse, questions, equality, hashes and texts; all frozen."""
import copy
import dataclasses
import pickle

import pytest

from hyper_parallel import LayoutError
from hyper_parallel.core.dtensor.placement_types import (
    Partial, Placement, RaggedShard, Replicate, Shard, StridedShard,
)

# placement, repr, str, (is_shard, is_replicate, is_partial, is_ragged_shard)
TABLE = [
    (Shard(0), "Shard(dim=0)", "S(0)", (True, False, False, False)),
    (Shard(-1), "Shard(dim=-1)", "S(-1)", (True, False, False, False)),
    (StridedShard(0, 2), "StridedShard(dim=0, split_factor=2)", "SS(0, 2)", (True, False, False, False)),
    (RaggedShard((0, 1), (3, 1)), "RaggedShard(dims=(0, 1), local_units=(3, 1))", "RS((0, 1), (3, 1))",
     (False, False, False, True)),
    (Replicate(), "Replicate()", "R", (False, True, False, False)),
    (Partial(), "Partial(reduce_op='sum')", "P", (False, False, True, False)),
    (Partial("max"), "Partial(reduce_op='max')", "P(max)", (False, False, True, False)),
]


@pytest.mark.parametrize("placement, representation, text, answers", TABLE)
def test_a_placement_answers_and_shows_itself(placement, representation, text, answers):
    """
    Feature: placements.
    Description: repr, str and the four questions of every kind.
    Expectation: as the public library spells them; all are Placements.
    """
    assert (repr(placement), str(placement)) == (representation, text)
    asked = (placement.is_shard(), placement.is_replicate(), placement.is_partial(), placement.is_ragged_shard())
    assert asked == answers and isinstance(placement, Placement)


@pytest.mark.parametrize("placement", [row[0] for row in TABLE])
def test_a_placement_is_frozen_hashable_and_survives_copies(placement):
    """
    Feature: placements.
    Description: copy, deepcopy and pickle; assignment to a field.
    Expectation: equal values with equal hashes of the same type; assignment is refused.
    """
    for made in (copy.copy(placement), copy.deepcopy(placement), pickle.loads(pickle.dumps(placement))):
        assert made == placement and hash(made) == hash(placement) and type(made) is type(placement)
    for field in dataclasses.fields(placement):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(placement, field.name, 1)


def test_placements_are_equal_as_whole_values_only():
    """
    Feature: placements.
    Description: all pairs of a list of different placements.
    Expectation: each is equal to itself alone: no class passes for another, no dim is normalised.
    """
    different = [Shard(0), Shard(1), Shard(-1), StridedShard(0, 1), StridedShard(0, 2), StridedShard(1, 2),
                 Replicate(),
                 *map(Partial, ("sum", "avg", "max", "min", "prod", "all")), RaggedShard((0,), (1, 2)),
                 RaggedShard((0,), (2, 1)), RaggedShard((0, 1), (1, 2))]
    for i, a in enumerate(different):
        assert [j for j, b in enumerate(different) if a == b] == [i] == [j for j, b in enumerate(different) if b == a]
    assert len(set(different)) == len(different)
    assert Replicate() != "R" and Shard(0) != 0 and Partial() != "sum"


def test_equal_values_are_equal_however_they_were_written():
    """
    Feature: placements.
    Description: keywords, upper case, the compatibility flag of Shard, lists for tuples.
    Expectation: equal to the plain form.
    """
    assert Shard(dim=1) == Shard(1) == Shard(1, uneven_shard=True) and hash(Shard(1, True)) == hash(Shard(1))
    assert Shard(1, uneven_shard=True).uneven_shard is True and Shard(1).uneven_shard is False
    assert Partial("SUM") == Partial() == Partial(reduce_op="sum") and Partial("Max").reduce_op == "max"
    assert StridedShard(dim=0, split_factor=2, uneven_shard=True) == StridedShard(0, 2)
    assert RaggedShard([0], [1, 2]) == RaggedShard((0,), (1, 2))


@pytest.mark.parametrize("placement, question, answer", [
    (Shard(1), lambda p: p.is_shard(1), True), (Shard(1), lambda p: p.is_shard(0), False),
    (Shard(1), lambda p: p.is_shard(dim=1), True), (StridedShard(1, 2), lambda p: p.is_shard(1), True),
    (StridedShard(1, 2), lambda p: p.is_shard(0), False), (Replicate(), lambda p: p.is_shard(0), False),
    (Partial("max"), lambda p: p.is_partial("max"), True), (Partial("max"), lambda p: p.is_partial("sum"), False),
    (Partial(), lambda p: p.is_partial(reduce_op="sum"), True), (Shard(0), lambda p: p.is_partial("sum"), False),
    (Placement(), lambda p: p.is_shard() or p.is_replicate() or p.is_partial() or p.is_ragged_shard(), False),
])
def test_a_question_can_name_the_dim_or_the_op(placement, question, answer):
    """
    Feature: placements.
    Description: is_shard(dim), is_partial(op).
    Expectation: True for the placement's own dim or op only.
    """
    assert question(placement) is answer


REFUSED = {
    "dim of another type": (lambda: Shard("0"), "Shard dim"),
    "dim None": (lambda: Shard(None), "Shard dim"),
    "dim float": (lambda: Shard(0.0), "Shard dim"),
    "dim bool": (lambda: Shard(True), "Shard dim"),
    "factor 0": (lambda: StridedShard(0, 0), "split_factor must be an int of at least 1"),
    "factor negative": (lambda: StridedShard(0, -2), "split_factor"),
    "factor float": (lambda: StridedShard(0, 2.0), "split_factor"),
    "strided dim": (lambda: StridedShard("x", 2), "StridedShard dim"),
    "unknown op": (lambda: Partial("mean"), "one of sum, avg, max, min, prod, all"),
    "op None": (lambda: Partial(None), "reduce_op"),
    "op number": (lambda: Partial(1), "reduce_op"),
    "ragged dims": (lambda: RaggedShard((1,), (1, 2)), "prefix"),
    "ragged gap": (lambda: RaggedShard((0, 2), (1, 2)), "prefix"),
    "ragged no dims": (lambda: RaggedShard((), (1, 2)), "prefix"),
    "ragged negative": (lambda: RaggedShard((0,), (1, -1)), "units"),
    "ragged float": (lambda: RaggedShard((0,), (1.0, 1)), "units"),
    "ragged zero": (lambda: RaggedShard((0,), (0, 0)), "positive sum"),
    "ragged empty": (lambda: RaggedShard((0,), ()), "positive sum"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_placement_that_means_nothing_is_refused(name):
    """
    Feature: placements.
    Description: values that denote no placement.
    Expectation: LayoutError, which is a ValueError, that names the argument and shows what was given.
    """
    make, text = REFUSED[name]
    with pytest.raises(ValueError, match=text) as caught:
        make()
    assert isinstance(caught.value, LayoutError) and "Got" in str(caught.value)

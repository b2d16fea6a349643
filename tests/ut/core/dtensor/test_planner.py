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
"""Redistribution plans: least in bytes, sound after every step, refused where no plan exists."""
from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hyper_parallel.core.dtensor import plan_search
from hyper_parallel.core.dtensor.denotation import denote
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.layout_value import layout_value, placements_to_value
from hyper_parallel.core.dtensor.placement_types import Partial, Replicate, Shard, StridedShard
from hyper_parallel.core.dtensor.planner import cost, plan
from hyper_parallel.errors import LayoutError, MeshError
from tests.ut.core.dtensor.plan_oracle import (
    changes_op, collectives, distances, layouts, least, make_mesh, random_locals, run,
)

R, S0, S1, S2, P, MAX, AVG, ALL = (Replicate(), Shard(0), Shard(1), Shard(2), Partial(), Partial("max"),
                                   Partial("avg"), Partial("all"))
ROOT = Path(__file__).resolve().parents[4]


def pairs_of(values, count=None, seed=0) -> list:
    """All pairs of layouts that redistribution allows, or a seeded sample of them."""
    if count is None:
        pairs = [(a, b) for a in values for b in values]
    else:
        rng = random.Random(seed)
        pairs = [(rng.choice(values), rng.choice(values)) for _ in range(count)]
    return [(a, b) for a, b in pairs if not changes_op(a, b)]


def check_chain(steps, source, target):
    """The steps lead from source to target without a gap, and each changes something."""
    ends = [source, *(step.after for step in steps)]
    assert [step.before for step in steps] == ends[:-1]
    assert ends[-1] is target
    assert all(step.before is not step.after for step in steps)


def check_pair(source, target, shape):
    """The plan is a chain, and least in elements and then in collectives."""
    steps = plan(source, target, shape)
    check_chain(steps, source, target)
    found = cost(steps), collectives(steps)
    assert found == least(source, target, shape), f"{source}{source.dims} -> {target}{target.dims} of {shape}"


def check_meaning(source, target, shape, rng):
    """Locals of every rank keep their shapes and denote one value, exactly, after every step."""
    ops = [op for op in source.partial + target.partial if op]
    locals_ = random_locals(source, shape, rng, ops)
    truth = denote(locals_, source)
    for step in plan(source, target, shape):
        locals_ = run(step, locals_)
        spec = step.after.spec(shape)
        where = f"{source} -> {target} of {shape}, after {step}"
        for coordinate, value in zip(np.ndindex(*source.mesh.mesh_shape), locals_):
            assert value.shape == spec.local_shape(coordinate), where
        value = denote(locals_, step.after)
        assert value.shape == truth.shape and np.array_equal(value, truth), where


# -- optimal ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape, ops", [
    ((8, 4), ("sum", "max")),
    ((5, 3), ("sum", "avg")),
    ((1, 7), ("prod", "all")),
    ((0, 4), ("sum",)),
    ((6,), ("sum", "min", "all")),
    ((), ("sum", "max")),
    ((4, 8, 6), ("sum",)),
    ((3, 1, 5), ("sum",)),
])
def test_plan_of_every_pair_on_2x2_is_least(shape, ops):
    """
    Feature: redistribution planner.
    Description: every pair of layouts on a (2, 2) mesh, nested orders of cuts and pending reductions included, for
        even, uneven and empty sizes, against relaxation over all layouts.
    Expectation: equal elements received and equal number of collectives.
    """
    for source, target in pairs_of(layouts(make_mesh((2, 2)), len(shape), ops)):
        check_pair(source, target, shape)


@pytest.mark.parametrize("mesh_shape, shape, ops, count", [
    ((2, 2, 2), (8, 8, 8), ("sum",), 150),
    ((2, 2, 2), (4, 6), ("sum", "max"), 150),
    ((4, 2, 2), (64, 64, 64), ("sum",), 60),
    ((2, 3, 2), (5, 7), ("sum", "avg"), 150),
    ((4, 8), (16, 16), ("sum", "max"), 150),
    ((3, 5), (7, 2, 2), ("all",), 150),
    ((2, 2, 2, 2), (16, 8), ("sum",), 10),
    ((2, 2), (4, 4, 1, 4, 4), ("sum",), 60),
])
def test_plan_of_sampled_pairs_is_least(mesh_shape, shape, ops, count):
    """
    Feature: redistribution planner.
    Description: a seeded sample of pairs of layouts on meshes of two to four axes, axes of unequal size among them, and
        of tensors with more equal dimensions than the search looks at.
    Expectation: equal elements received and equal number of collectives as relaxation over all layouts finds.
    """
    for source, target in pairs_of(layouts(make_mesh(mesh_shape), len(shape), ops), count):
        check_pair(source, target, shape)


@pytest.mark.parametrize("mesh_shape", [(1, 2), (2, 1), (1, 1), (1, 2, 1)])
@pytest.mark.parametrize("shape, ops", [((4, 5), ("sum", "max")), ((3,), ("sum", "all"))])
def test_axes_of_one_rank_cost_nothing(mesh_shape, shape, ops):
    """
    Feature: redistribution planner.
    Description: pairs of layouts on meshes with axes of size 1, which may sit anywhere among the cuts of a dimension.
    Expectation: the plan reaches the very target, and its cost and collectives are those of the other axes.
    """
    for source, target in pairs_of(layouts(make_mesh(mesh_shape), len(shape), ops), 250):
        check_pair(source, target, shape)


@pytest.mark.parametrize("mesh_shape, shape, ops", [
    ((4, 2, 2), (64, 64, 64), ("sum",)), ((2, 3, 2), (5, 7, 1), ("sum", "avg")), ((2, 4, 3), (12, 9), ("sum", "max")),
])
def test_bound_of_search_never_exceeds_what_is_left(mesh_shape, shape, ops):
    """
    Feature: A* bound of the redistribution planner.
    Description: distances to the goal from every state that is reachable, by relaxing all moves backwards.
    Expectation: the bound of no state is above its distance, so the search is exact; and it is zero at the goal.
    """
    for source, target in pairs_of(layouts(make_mesh(mesh_shape), len(shape), ops), 12, seed=3):
        space = plan_search.Space(source, target, shape)
        moves, states = {}, [space.start]
        while states:
            state = states.pop()
            if state not in moves:
                moves[state] = list(space.moves(state))
                states += [after for _, after in moves[state]]
        left, changed = {space.goal: 0}, True
        while changed:
            changed = False
            for state, found in moves.items():
                length = min((w + left[after] for w, after in found if after in left), default=None)
                if length is not None and length < left.get(state, length + 1):
                    left[state], changed = length, True
        assert space.bound(space.goal) == 0
        assert all(space.bound(state) <= length for state, length in left.items())


def test_greedy_would_be_beaten_on_2x2x2():
    """
    Feature: redistribution planner.
    Description: [S(0), S(1), R] -> [S(1), S(0), R]: swapping two cuts needs a third dimension to park on, or a gather.
    Expectation: the plan is cheaper than gathering both and slicing again, and so is not vacuously least.
    """
    mesh = make_mesh((2, 2, 2))
    source, target = (placements_to_value(mesh, p, 3) for p in ((S0, S1, R), (S1, S0, R)))
    whole = placements_to_value(mesh, (R, R, R), 3)
    detour = plan(source, whole, (8, 8, 8)) + plan(whole, target, (8, 8, 8))
    assert cost(plan(source, target, (8, 8, 8))) < cost(detour)


# -- sound ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ops", [("sum", "avg"), ("max",), ("sum", "min"), ("prod",), ("all",)])
@pytest.mark.parametrize("mesh_shape, shape", [((2, 2), (5, 3)), ((2, 2), (1, 5)), ((2, 2), (6, 0))])
def test_every_step_on_2x2_denotes_the_same_value(mesh_shape, shape, ops):
    """
    Feature: redistribution planner.
    Description: steps of sampled pairs run in numpy on every rank, on integers of mixed sign and unequal size; sizes
        are uneven under nested cuts (5 over (2, 2) is 2, 1, 1, 1), below the number of ranks, or 0.
    Expectation: after every step each local has the shape of its layout, and together they denote the first value.
    """
    rng = np.random.default_rng(0)
    for source, target in pairs_of(layouts(make_mesh(mesh_shape), 2, ops), 200):
        check_meaning(source, target, shape, rng)


@pytest.mark.parametrize("mesh_shape, shape, ops", [
    ((4,), (1, 6), ("sum", "avg")), ((3,), (7, 2), ("sum", "avg")), ((3,), (7, 5), ("max", "sum")),
    ((2, 3), (7, 5), ("sum", "avg")), ((4, 2), (5, 9), ("sum", "max")), ((2, 2, 2), (5, 6, 3), ("sum", "avg")),
    ((2, 3, 2), (7, 4), ("sum", "min")), ((1, 3), (7, 4), ("sum", "avg")), ((2, 1, 2), (5, 3), ("all",)),
])
def test_every_step_of_sampled_pairs_denotes_the_same_value(mesh_shape, shape, ops):
    """
    Feature: redistribution planner.
    Description: as above on one to three axes of two to four ranks, and with axes of one rank.
    Expectation: exact after every step.
    """
    rng = np.random.default_rng(1)
    for source, target in pairs_of(layouts(make_mesh(mesh_shape), len(shape), ops), 120, seed=1):
        check_meaning(source, target, shape, rng)


def test_wrong_step_does_not_denote_the_same_value():
    """
    Feature: the check of steps itself.
    Description: an all-gather of the outer of two nested cuts (in a wrong order of pieces), and an all-reduce of a
        Partial that is then labelled as still pending.
    Expectation: the denoted value differs or cannot be formed, so the tests above can fail.
    """
    mesh, rng = make_mesh((2, 2)), np.random.default_rng(0)
    nested, inner = layout_value(mesh, [(0, 1)]), layout_value(mesh, [(1,)])
    swapped = layout_value(mesh, [(1, 0)])
    step = plan(swapped, inner, (8,))[-1]
    assert step.kind == "all_gather"
    locals_ = random_locals(nested, (8,), rng)
    assert not np.array_equal(denote(run(step, locals_), inner), denote(locals_, nested))
    pending = layout_value(mesh, [()], (None, "sum"))
    locals_ = random_locals(pending, (8,), rng)
    step = plan(pending, layout_value(mesh, [()]), (8,))[0]
    assert not np.array_equal(denote(run(step, locals_), pending), denote(locals_, pending))


@pytest.mark.parametrize("ops", [("sum", "avg"), ("max", "sum")])
def test_kept_partial_is_never_touched_and_no_reduction_is_added(ops):
    """
    Feature: redistribution planner.
    Description: all layouts between source and target of sampled pairs on a (2, 2, 2) mesh.
    Expectation: an axis that is Partial at both ends is so throughout; one that is Partial in between is Partial with
        that op at an end.
    """
    seen = 0
    for source, target in pairs_of(layouts(make_mesh((2, 2, 2)), 2, ops), 400, seed=2):
        for step in plan(source, target, (8, 8)):
            for old, now, new in zip(source.partial, step.after.partial, target.partial):
                assert now in (old, new)
                assert now or not (old and new)
                seen += bool(now)
    assert seen > 100


# -- what plans look like ---------------------------------------------------------------------------------------------


def described(steps) -> list:
    """Kind, axis, dim, source dim and op of every step."""
    return [(step.kind, step.axis, step.dim, step.source_dim, step.op) for step in steps]


@pytest.mark.parametrize("source, target, expected", [
    ((R,), (R,), []),
    ((P,), (P,), []),
    ((R,), (S1,), [("slice", 0, 1, None, None)]),
    ((S1,), (R,), [("all_gather", 0, 1, None, None)]),
    ((S0,), (S1,), [("all_to_all", 0, 1, 0, None)]),
    ((P,), (R,), [("all_reduce", 0, None, None, "sum")]),
    ((P,), (S1,), [("reduce_scatter", 0, 1, None, "sum")]),
    ((MAX,), (S0,), [("reduce_scatter", 0, 0, None, "max")]),
    ((AVG,), (S0,), [("reduce_scatter", 0, 0, None, "avg")]),
    ((ALL,), (S0,), [("all_reduce", 0, None, None, "all"), ("slice", 0, 0, None, None)]),
    ((R,), (P,), [("mask", 0, None, None, "sum")]),
    ((R,), (AVG,), [("mask", 0, None, None, "avg")]),
    ((S1,), (P,), [("mask", 0, 1, 1, "sum")]),
    ((S1,), (AVG,), [("all_gather", 0, 1, None, None), ("mask", 0, None, None, "avg")]),
    ((S1,), (MAX,), [("all_gather", 0, 1, None, None), ("mask", 0, None, None, "max")]),
])
def test_plan_on_one_axis(source, target, expected):
    """
    Feature: redistribution planner.
    Description: each pair of placements on a 1-D mesh.
    Expectation: the one step (two, where a bool or non-sum reduction has no direct one), with every field.
    """
    mesh = make_mesh((4,))
    steps = plan(placements_to_value(mesh, source, 2), placements_to_value(mesh, target, 2), (8, 8))
    assert described(steps) == expected
    assert all(step.shape == (8, 8) for step in steps)


@pytest.mark.parametrize("source, target, expected", [
    ((R, P), (S1, P), [("slice", 0, 1, None, None)]),
    ((S0, P), (S0, R), [("all_reduce", 1, None, None, "sum")]),
    ((P, S0), (S1, S0), [("reduce_scatter", 0, 1, None, "sum")]),
    ((R, P), (R, R), [("all_reduce", 1, None, None, "sum")]),
    ((S0, S0), (S0, R), [("all_gather", 1, 0, None, None)]),
    ((StridedShard(0, 2), S0), (R, S0), [("all_gather", 0, 0, None, None)]),
    ((S0, S0), (P, P), [("mask", 1, 0, 0, "sum"), ("mask", 0, 0, 0, "sum")]),
    ((MAX, R), (R, P), [("slice", 1, 0, None, None), ("all_reduce", 0, None, None, "max"), ("mask", 1, 0, 0, "sum")]),
    ((R, S1), (S0, R), [("slice", 0, 0, None, None), ("all_gather", 1, 1, None, None)]),
])
def test_plan_on_two_axes(source, target, expected):
    """
    Feature: redistribution planner.
    Description: pairs on a (2, 2) mesh where another axis must be left alone, comes first, or lies in the way.
    Expectation: only the innermost cut moves; a free slice comes first, even one that a mask of the shard undoes; a
        mask waits for reductions of another family.
    """
    mesh = make_mesh((2, 2))
    steps = plan(placements_to_value(mesh, source, 2), placements_to_value(mesh, target, 2), (8, 8))
    assert described(steps) == expected


def test_slices_come_before_collectives_that_they_do_not_need():
    """
    Feature: redistribution planner.
    Description: all plans of sampled pairs on a (2, 2, 2) mesh, for a shape where slices save nothing (one element).
    Expectation: no slice directly follows a step of another kind on other dimensions and another axis.
    """
    for source, target in pairs_of(layouts(make_mesh((2, 2, 2)), 2), 300, seed=4):
        steps = plan(source, target, (1, 1))
        for first, second in zip(steps, steps[1:]):
            if second.kind == "slice" and first.kind != "slice" and first.axis != second.axis:
                assert second.dim in (first.dim, first.source_dim)


@pytest.mark.parametrize("mesh_shape, shape, source, target, expected", [
    ((4,), (5, 3), (S0,), (R,), 3 * 2 * 3),
    ((4,), (8, 8), (S0,), (S1,), 3 * 2 * 2),
    ((4,), (5, 3), (S0,), (S1,), 3 * 2 * 1),
    ((4,), (8, 8), (P,), (S0,), 3 * 16),
    ((4,), (5, 3), (P,), (S0,), 3 * 6),
    ((4,), (8, 8), (P,), (R,), 2 * 3 * 16),
    ((4,), (5, 3), (P,), (R,), 2 * 3 * 4),
    ((4,), (5, 3), (R,), (S0,), 0),
    ((4,), (5, 3), (S0,), (P,), 0),
    ((2, 2), (5,), (S0, S0), (R, R), 1 * 2 + 1 * 3),
    ((2, 2), (0, 4), (P, S1), (R, R), 0),
])
def test_cost_is_elements_received(mesh_shape, shape, source, target, expected):
    """
    Feature: cost of a plan.
    Description: ring formulas worked by hand on padded shapes: (n-1) chunks in, twice that for an all-reduce.
    Expectation: the int, exactly.
    """
    mesh = make_mesh(mesh_shape)
    ends = [placements_to_value(mesh, placements, len(shape)) for placements in (source, target)]
    found = cost(plan(*ends, shape))
    assert found == expected and isinstance(found, int)


# -- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source, target, fix", [
    ((P,), (MAX,), "x.redistribute(mesh, [Replicate()]).redistribute(mesh, [Partial(reduce_op='max')])"),
    ((AVG,), (P,), "x.redistribute(mesh, [Replicate()]).redistribute(mesh, [Partial(reduce_op='sum')])"),
])
def test_change_of_reduce_op_is_refused(source, target, fix):
    """
    Feature: redistribution planner.
    Description: Partial of one op to Partial of another on one axis.
    Expectation: LayoutError that names the axis, both ops and the two calls to type.
    """
    mesh = make_mesh((2,), ("tp",))
    ends = [placements_to_value(mesh, placements, 1) for placements in (source, target)]
    with pytest.raises(LayoutError, match=re.escape(fix)) as caught:
        plan(*ends, (4,))
    assert "'tp'" in str(caught.value) and all(repr(p.reduce_op) in str(caught.value) for p in source + target)


def test_two_calls_of_the_refusal_work():
    """
    Feature: redistribution planner.
    Description: every refused pair on a (2, 2) mesh, with the placements of the two calls read from the message.
    Expectation: both calls have plans, and the second ends at the target.
    """
    mesh, refused = make_mesh((2, 2)), 0
    values = layouts(mesh, 2, ("sum", "avg", "max"))
    written = {repr(placement): placement for value in values for placement in value.placements}
    for source in values:
        for target in values:
            if changes_op(source, target):
                with pytest.raises(LayoutError) as caught:
                    plan(source, target, (8, 8))
                calls = re.findall(r"redistribute\(mesh, \[(.*?)\]\)", str(caught.value))
                first, second = (placements_to_value(mesh, map(written.get, re.findall(r"\w+\(.*?\)", call)), 2)
                                 for call in calls)
                check_chain(plan(source, first, (8, 8)) + plan(first, second, (8, 8)), source, target)
                refused += 1
    assert refused > 50


@pytest.mark.parametrize("other, error, pattern", [
    (lambda: layout_value(make_mesh((2, 2), ("a", "c")), [(), ()]), MeshError, r"one mesh.*\('a', 'b'\).*\('a', 'c'\)"),
    (lambda: layout_value(make_mesh((4,), ("a",)), [(), ()]), MeshError, r"one mesh.*full_tensor"),
    (lambda: layout_value(DeviceMesh("cpu", [[0, 1], [2, 4]], mesh_dim_names=("a", "b"), _init_backend=False),
                          [(), ()]), MeshError, "shape, names or ranks"),
    (lambda: layout_value(make_mesh((2, 2), ("a", "b")), [()]), LayoutError, "keeps the tensor dimensions.*reshape"),
    (lambda: layout_value(make_mesh((2, 2), ("a", "b")), [(), (), ()]), LayoutError, "source layout of 2"),
])
def test_other_mesh_or_rank_is_refused(other, error, pattern):
    """
    Feature: redistribution planner.
    Description: a target on a mesh of other names, shape or ranks, or for another number of tensor dimensions.
    Expectation: MeshError or LayoutError that says which, with the call that helps.
    """
    source = layout_value(make_mesh((2, 2), ("a", "b")), [(0,), (1,)])
    with pytest.raises(error, match=pattern):
        plan(source, other(), (4, 4))


def test_shape_of_other_rank_is_refused():
    """
    Feature: redistribution planner.
    Description: a global shape with another number of dimensions than the layouts.
    Expectation: LayoutError that shows the shape.
    """
    value = layout_value(make_mesh((2,)), [(0,)])
    with pytest.raises(LayoutError, match=re.escape("(4, 4)")):
        plan(value, value, (4, 4))


# -- meshes, cache, scale ---------------------------------------------------------------------------------------------


def test_equal_meshes_need_not_be_one_object():
    """
    Feature: redistribution planner.
    Description: source and target on two meshes of equal shape, names and ranks, one of them cut from a larger mesh.
    Expectation: equal layouts need no step; others are planned on the mesh of the source.
    """
    root = make_mesh((2, 2), ("dp", "tp"))
    mesh, same = make_mesh((2,), ("tp",)), root["tp"]
    assert mesh.identity != same.identity and mesh.matches(same)
    assert not plan(layout_value(mesh, [(0,)]), layout_value(same, [(0,)]), (4,))
    step, = plan(layout_value(mesh, [(0,)]), layout_value(same, [()]), (4,))
    assert step.kind == "all_gather" and step.after is layout_value(mesh, [()])


def test_plan_is_cached_and_bounded():
    """
    Feature: plan cache.
    Description: the same plan asked for twice, for a second shape, and the size of the cache.
    Expectation: the very object the first time; another plan for another shape; a finite cache.
    """
    mesh = make_mesh((2,))
    ends = layout_value(mesh, [(0,), ()]), layout_value(mesh, [(), (0,)])
    assert plan(*ends, (4, 6)) is plan(*ends, (4, 6))
    assert cost(plan(*ends, (4, 6))) != cost(plan(*ends, (4, 12)))
    assert plan.cache_info().maxsize is not None


def test_planning_lists_no_ranks(monkeypatch):
    """
    Feature: redistribution planner.
    Description: plans on a mesh of 16384 ranks with everything that walks over ranks made to fail.
    Expectation: plans are found all the same; an all-to-all of 128 chunks costs what the formula says.
    """
    mesh = make_mesh((128, 128), ("dp", "tp"))
    ends = [placements_to_value(mesh, placements, 2) for placements in ((S0, S0), (S0, S1))]

    def fail(*_):
        raise AssertionError("planning walks over ranks")

    for name in ("rank_list", "ranks_along", "coordinate_of", "_coordinates"):
        monkeypatch.setattr(DeviceMesh, name, property(fail))
    assert cost(plan(*ends, (2 ** 14, 2 ** 14))) == 127 * 2 ** 7


def test_search_out_of_effort_still_plans(monkeypatch):
    """
    Feature: redistribution planner.
    Description: the search is given no effort, so the direct plan (gather, reduce, slice, mask) is taken.
    Expectation: a sound chain for every pair on a (2, 2) mesh, never cheaper than the least; and unequal for some pair,
        so the direct plan was really taken.
    """
    monkeypatch.setattr(plan_search, "MAX_STATES", 0)
    rng, dearer = np.random.default_rng(0), 0
    mesh = make_mesh((2, 2), ("direct", "only"))
    for source, target in pairs_of(layouts(mesh, 2, ("sum", "max"))):
        steps = plan(source, target, (5, 3))
        check_chain(steps, source, target)
        check_meaning(source, target, (5, 3), rng)
        assert cost(steps) >= least(source, target, (5, 3))[0]
        dearer += cost(steps) > least(source, target, (5, 3))[0]
    assert dearer


def test_plan_is_the_same_in_every_process():
    """
    Feature: redistribution planner.
    Description: all plans between layouts on a (2, 2) mesh, printed by two processes with different hash seeds.
    Expectation: the same text: ranks that plan apart run the same collectives.
    """
    program = ("from hyper_parallel.core.dtensor.planner import plan\n"
               "from tests.ut.core.dtensor.plan_oracle import layouts, make_mesh\n"
               "values = layouts(make_mesh((2, 2)), 2)\n"
               "for a in values:\n"
               "    for b in values:\n"
               "        print(*plan(a, b, (1, 4)), sep='; ')\n")
    runs = [subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True,
                           timeout=60, env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}).stdout
            for seed in ("1", "2")]
    assert runs[0] == runs[1] and "all_to_all" in runs[0]


def test_oracle_counts_what_it_says():
    """
    Feature: the exhaustive shortest path that plans are compared with.
    Description: distances from [R, S(0)] on a (2, 2) mesh, worked by hand for a tensor of 8 x 8.
    Expectation: gather 32, all-to-all 16 (8 after a free slice of the other axis), slices nothing.
    """
    mesh = make_mesh((2, 2))
    found = distances(placements_to_value(mesh, (R, S0), 2), (None, None), (8, 8))
    for placements, expected in (((R, R), (32, 1)), ((R, S1), (16, 1)), ((S1, S0), (0, 0)), ((S1, S1), (8, 1))):
        assert found[placements_to_value(mesh, placements, 2)] == expected

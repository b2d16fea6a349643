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
"""Generated values: they denote what they stand for, and no rank holds the answer."""
from __future__ import annotations

import numpy as np
import pytest

from hyper_parallel.core.dtensor.denotation import denote
from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.core.dtensor.placement_types import REDUCE_OPS
from hyper_parallel.verify.enumerate import layouts_of, orders_of, universe
from hyper_parallel.verify.generate import draw, realisable, realise, seed_of, sizes_for, step_for
from hyper_parallel.verify.meshes import mesh_of, parse_mesh
from hyper_parallel.verify.pattern import Pattern, TensorSlot

DOMAINS = ("real", "int", "bool", "factor", "digit@float16", "int@int8", "natural@uint8")
MESHES = ((2,), (3,), (2, 2))


def _layouts(mesh, ndim: int, dtype):
    """Every layout of one placement per axis, cut orders included."""
    axes = universe(ndim, dtype)
    for pair in ([(a,)] for a in axes) if mesh.ndim == 1 else ([(a,), (b,)] for a in axes for b in axes):
        for orders in orders_of(pair, 1):
            made = layouts_of(mesh, pair, [ndim], orders)
            if made is not None:
                yield made[0]


@pytest.mark.parametrize("shape", MESHES, ids=str)
@pytest.mark.parametrize("domain", DOMAINS)
def test_per_rank_values_denote_the_global_one(shape, domain):
    """
    Feature: realise.
    Description: every layout of a 2-D tensor on the mesh, uneven sizes, every kind of element.
    Expectation: the per-rank values denote the global value exactly.
    """
    mesh = mesh_of(shape)
    sizes = {"a": 5, "b": 3}
    step = step_for(shape, sizes)
    value = draw(TensorSlot("ab", domain), sizes, step, seed_of(domain))
    for layout in _layouts(mesh, 2, value.dtype):
        locals_ = realise(value, layout, step, seed_of(str(layout)))
        found = denote(locals_, layout)
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value, err_msg=str(layout))


@pytest.mark.parametrize("op", REDUCE_OPS)
def test_no_rank_holds_the_answer_of_a_pending_value(op):
    """
    Feature: realise.
    Description: a pending value of 20 elements on three ranks.
    Expectation: no rank's own values equal the global value.
    """
    mesh = mesh_of((3,))
    domain = "bool" if op == "all" else "factor" if op == "prod" else "real"
    value = draw(TensorSlot("ab", domain), {"a": 4, "b": 5}, 1.0, seed_of(op))
    for part in realise(value, layout_value(mesh, ((), ()), (op,)), 1.0, seed_of("parts")):
        assert not np.array_equal(part, value)


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float64", "int64", "uint8"])
def test_knots_sit_among_what_an_extremum_leaves_out(op, dtype):
    """
    Feature: realise.
    Description: a pending extremum of 400 elements on three ranks, with a number and an array as knots.
    Expectation: the parts still denote the value; some addend sits on each knot, and never where the value does.
    """
    mesh, rng = mesh_of((3,)), seed_of(op, dtype)
    value = rng.integers(0, 40, (20, 20)).astype(dtype)
    knots = (20, np.full((20,), 11.0))
    layout = layout_value(mesh, ((), ()), (op,))
    parts = realise(value, layout, 1.0, rng, knots)
    plain_parts = realise(value, layout, 1.0, seed_of(op, dtype))
    np.testing.assert_array_equal(denote(parts, layout), value)
    for knot in (20, 11):
        assert any(np.sum((part == knot) & (value != knot)) > 10 for part in parts)
    assert sum(np.sum(p == 20) for p in parts) > sum(np.sum(p == 20) for p in plain_parts)


@pytest.mark.parametrize("op,dtype,expected", [
    ("avg", np.dtype("int64"), False), ("avg", np.dtype("float64"), True), ("sum", np.dtype(bool), False),
    ("all", np.dtype(bool), True), ("all", np.dtype("float64"), False), ("max", np.dtype(bool), True)])
def test_which_types_can_be_pending(op, dtype, expected):
    """
    Feature: realisable.
    Description: reduce ops beside element types.
    Expectation: int refused for avg, bool never with sum, all for bool only.
    """
    assert realisable(op, dtype) is expected


def test_addends_of_small_integers_wrap_around():
    """
    Feature: realise.
    Description: addends of an int8 sum.
    Expectation: their true sum leaves the range of the type, as a sum that wraps around may.
    """
    value = np.arange(-8, 8, dtype=np.int8)
    parts = realise(value, layout_value(mesh_of((2,)), ((),), ("sum",)), 1, seed_of(0))
    assert np.abs(np.sum(parts, 0, dtype=np.int64)).max() > 127


@pytest.mark.parametrize("mode,mesh,expected", [
    ("even", (2,), {"m": 2, "k": 4}), ("uneven", (2,), {"m": 3, "k": 5}), ("empty", (3,), {"m": 2, "k": 1}),
    ("uneven", (2, 2), {"m": 5, "k": 9})])
def test_size_classes(mode, mesh, expected):
    """
    Feature: sizes.
    Description: size classes on several meshes.
    Expectation: multiples of the ranks, short tails, and fewer elements than ranks.
    """
    assert sizes_for(Pattern("input=mk"), mesh, mode) == expected


def test_fixed_and_derived_sizes():
    """
    Feature: patterns.
    Description: a letter with a size of its own, one derived from another, one that no tensor has.
    Expectation: each as declared.
    """
    pattern = Pattern("input=nh", _sizes={"n": lambda s: 2 * s["a"], "h": 7, "a": None}, shape=lambda s: (s["a"], -1))
    sizes = sizes_for(pattern, (2,), "even")
    assert sizes == {"n": 4, "h": 7, "a": 2} and pattern.resolve(sizes) == {"shape": (2, -1)}


@pytest.mark.parametrize("text,expected", [("2", (2,)), ("2x2", (2, 2))])
def test_mesh_text(text, expected):
    """
    Feature: meshes.
    Description: mesh shapes as the command line takes them.
    Expectation: parsed; anything else is refused.
    """
    assert parse_mesh(text) == expected
    with pytest.raises(ValueError, match="A mesh is"):
        parse_mesh("2x2x2")

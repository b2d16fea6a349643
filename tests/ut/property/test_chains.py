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
"""Random programs on random layouts and meshes are what they are on one device; planted faults are found."""
import dataclasses

import numpy as np
import pytest

from hyper_parallel import denote
from hyper_parallel.core.shard import rules
from hyper_parallel.core.shard._op_dispatch import dispatcher
from hyper_parallel.core.shard.rules import Convert
from hyper_parallel.verify.meshes import mesh_of
from tests.ut.property import hunt
from tests.ut.property.check import TALLY, Tally, Wrong, check
from tests.ut.property.program import Cut, Leaf, Program, Step

pytestmark = pytest.mark.proof

# 20 x 100 programs. Classes are what xdist spreads over its workers.
CHAINS = 100
ONE_AXIS, TWO_AXES, THREE_AXES = ((2,), (3,), (4,)), ((2, 2), (1, 2), (2, 1), (2, 3)), ((2, 2, 2),)


def _chains(meshes, number: int) -> None:
    before = TALLY.chains
    hunt.run(meshes, CHAINS, number)
    # hypothesis stops early only when a space is exhausted, which this one is not
    assert TALLY.chains - before >= CHAINS


class TestOneAxis:
    """Meshes of one axis, of 2, 3 and 4 ranks."""

    @pytest.mark.parametrize("number", range(9))
    def test_chains_of_operations_are_what_they_are_on_one_device(self, number):
        """
        Feature: soundness of whole programs.
        Description: 100 chains of up to 6 operations and a loss: uneven sizes, pending operands, redistributions.
        Expectation: every value, denoted on its layout, and every gradient equal those of one device.
        """
        _chains(ONE_AXIS, number)


class TestTwoAxes:
    """Meshes of two axes, some of size 1: dimensions are cut twice, in both orders."""

    @pytest.mark.parametrize("number", range(100, 108))
    def test_chains_of_operations_are_what_they_are_on_one_device(self, number):
        """
        Feature: soundness of whole programs.
        Description: as above, with nested cuts and several pending axes.
        Expectation: every value, denoted on its layout, and every gradient equal those of one device.
        """
        _chains(TWO_AXES, number)


class TestThreeAxes:
    """Eight ranks."""

    @pytest.mark.parametrize("number", range(200, 203))
    def test_chains_of_operations_are_what_they_are_on_one_device(self, number):
        """
        Feature: soundness of whole programs.
        Description: as above, on a mesh of (2, 2, 2).
        Expectation: every value, denoted on its layout, and every gradient equal those of one device.
        """
        _chains(THREE_AXES, number)


# -- the checker itself ----------------------------------------------------------------------------------------------


def _without_varying(_signature, operands):
    return (Convert.NONE,) * len(operands)


def _everywhere(row):
    """Replicas that must enter a pending sum once enter on every rank."""
    converts = tuple(Convert.VARYING if c is Convert.ENTER_ONCE else c for c in row.converts)
    return dataclasses.replace(row, converts=converts, constant_once=False)


def _linear_row_everywhere(signature, operands, op, letters, _right=rules._linear_row):
    row = _right(signature, operands, op, letters)
    return row and _everywhere(row)


FAULTS = {
    "a replica keeps its rank's part of the gradient": ("_varying", _without_varying, "gradient"),
    "what is added to a pending sum counts on every rank": ("_linear_row", _linear_row_everywhere, "denotes"),
    "a decreasing map keeps a pending maximum": ("_direction", lambda signature, pending: 1, "denotes"),
}


@pytest.fixture(name="unplanned")
def _unplanned():
    """No plan made under a wrong rule outlives it, and none made before hides it."""
    dispatcher.clear()
    yield
    dispatcher.clear()


@pytest.mark.usefixtures("unplanned")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(monkeypatch, fault):
    """
    Feature: the property tests can fail.
    Description: a wrong rule is planted; up to 300 chains are run.
    Expectation: a chain goes wrong where the fault is.
    """
    name, replacement, where = FAULTS[fault]
    monkeypatch.setattr(rules, name, replacement)
    monkeypatch.setattr(rules.Signature, "row", lambda self, operands: rules._derive_read(self, operands))
    with pytest.raises(Wrong, match=where):
        hunt.run(((2,), (2, 2)), 300, 5, shrink=False)


LORA = Program(
    (2,),
    (Leaf("a", (2, 3), Cut(((), (0,)), (None,)), 1), Leaf("b", (4, 3), Cut(((), (0,)), (None,)), 2),
     Leaf("c", (2, 4), Cut(((), ()), (None,)), 3)),
    (Step("t0", "linear", ("a", "b"), {}), Step("t1", "shift", ("t0",), {"k": 2}), Step("t2", "mul", ("t1", "c"), {}),
     Step("t3", "sum_all", ("t2",), {})), "single_loss", False, False)


def test_a_program_prints_as_text_that_runs():
    """
    Feature: failures that anyone can run.
    Description: the text of a low-rank chain is run.
    Expectation: its loss and gradients are numpy's.
    """
    names: dict = {}
    exec(LORA.source(), names)  # pylint: disable=exec-used
    a, b, c = (leaf.value() for leaf in LORA.leaves)
    assert names["value"].item() == ((a @ b.T + 2) * c).sum()
    for g, expected in zip(names["grads"], (c @ b, c.T @ a, a @ b.T + 2)):
        assert np.array_equal(denote(g.numpy_locals(), g.layout), expected)


@pytest.mark.parametrize("implicit, refusals", [(False, 1), (True, 0)])
def test_a_refused_call_is_replaced_by_the_form_its_message_names(implicit, refusals):
    """
    Feature: refusals.
    Description: the square of a pending product, explicitly and inside implicit_redistribution().
    Expectation: one refusal is counted and rewritten, or none is raised; the values are right either way.
    """
    steps = (LORA.steps[0], Step("t1", "square", ("t0",), {}), *LORA.steps[2:])
    tally = Tally()
    check(dataclasses.replace(LORA, steps=steps, implicit=implicit), tally)
    assert (tally.chains, tally.refusals["square"], tally.exact, tally.gradients) == (1, refusals, 1, 1)


@pytest.mark.parametrize("partial", [("sum", None), (None, "avg"), ("max", "max"), ("sum", "avg")])
def test_a_leaf_denotes_its_value(partial):
    """
    Feature: random leaves.
    Description: parts of a pending tensor, cut along the axis that is left.
    Expectation: they denote the value, and no rank of a pending axis has it alone.
    """
    cut = Cut((tuple(axis for axis, op in enumerate(partial) if not op), ()), partial)
    leaf, mesh = Leaf("a", (3, 5), cut, 4), mesh_of((2, 2))
    parts = leaf.parts(mesh)
    assert np.array_equal(denote(parts, cut.on(mesh)), leaf.value())
    assert not any(p.shape == leaf.shape and np.array_equal(p, leaf.value()) for p in parts)

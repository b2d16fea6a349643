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
"""What `detect` says of checkouts in each shape, and what it refuses."""
from __future__ import annotations

import pytest

from contrib.checkout import CLASSES, LEGACY, LINEAR, MIXED, THREE_PHASE, Checkout, Refused, structure_of
from contrib.detect import BEHAVIOUR, FORGETS, KEEPS, REFUSES, SYNTAX, detect, tell
from tests.ut.contrib import synthetic
from tests.ut.contrib.checkout_fixtures import MATMUL, edited, fresh, pristine

EXPECTED = {
    "legacy": (LEGACY, "hyper_parallel.core.layout", "platform", "tests/mindspore/ut/parallel_ops_infer", "msrun"),
    "mixed": (MIXED, "hyper_parallel.core.dtensor.layout", "platform", "tests/ut/core/shard/ops", "msrun"),
    "three-phase": (THREE_PHASE, "hyper_parallel.core.dtensor.layout", "dist", "tests/ut/core/shard/ops", "torchrun"),
    "propagating": (THREE_PHASE, "hyper_parallel.core.dtensor.layout", "dist", "tests/ut/core/shard/ops", "torchrun"),
}


@pytest.mark.parametrize("shape", synthetic.SHAPES)
def test_each_shape_is_told_apart(shape):
    """
    Feature: contrib detect
    Description: one synthetic checkout per shape
    Expectation: generation, import paths, what tests replace, test folders and git's own blob id
    """
    checkout = pristine(shape)
    structure = checkout.structure
    assert (structure.generation, structure.layout, checkout.mock_target, checkout.unit_folder,
            checkout.system_folder[0]) == EXPECTED[shape]
    assert checkout.blob == synthetic.run_git(checkout.root, "rev-parse", f"HEAD:{MATMUL}").strip()
    assert checkout.mesh_caches == ("_DEVICE_MESH_MAP",)


def test_only_linear_differs_in_the_mixed_shape():
    """
    Feature: contrib detect
    Description: the mixed shape, class by class
    Expectation: Linear follows the newer convention and the other four the older one
    """
    infer = pristine("mixed").structure.infer
    assert infer == {name: THREE_PHASE if name == LINEAR else LEGACY for name in CLASSES}


@pytest.mark.parametrize("shape, word", [("legacy", FORGETS), ("mixed", FORGETS), ("three-phase", FORGETS),
                                         ("propagating", KEEPS)])
def test_behaviour_is_asked_without_framework(shape, word):
    """
    Feature: contrib detect
    Description: rules called on layouts; importing the checkout's package as it is would raise
    Expectation: every operation forgets a pending sum, or keeps it, on both sides
    """
    found = detect(pristine(shape))
    assert found.by == BEHAVIOUR
    assert set(found.pending_x.values()) | set(found.pending_w.values()) == {word}
    assert found.propagates == (word == KEEPS)
    assert not found.applied


def test_refusing_and_keeping_rules_are_told_apart(tmp_path):
    """
    Feature: contrib detect
    Description: one class rejects Partial inputs, the others forget them
    Expectation: the one refuses, and the checkout does not count as propagating
    """
    line = "x_layout, w_layout, bias_layout = cache_values\n        x_map"
    checkout = edited(fresh("mixed", tmp_path), MATMUL, (
        line, f"self._check_partial_inputs(cache_values)\n        {line}"))
    found = detect(checkout)
    assert (found.pending_x["Dense"], found.pending_x["MatMul"], found.propagates) == (REFUSES, FORGETS, False)


@pytest.mark.parametrize("shape, reads", [("propagating", True), ("legacy", False)])
def test_syntax_decides_where_rules_cannot_be_called(shape, reads, tmp_path):
    """
    Feature: contrib detect
    Description: the layout module cannot be imported, whatever stands in
    Expectation: the reason, and a verdict from what the matmul file reads
    """
    checkout = fresh(shape, tmp_path)
    path = checkout.module_path(checkout.structure.layout)
    checkout = edited(checkout, path, ("_OPS = (", "import no_such_module_anywhere\n_OPS = ("))
    found = detect(checkout)
    assert (found.by, found.propagates) == (SYNTAX, reads)
    assert "no_such_module_anywhere" in found.reason and found.reason in tell(checkout, found)


def test_dirty_trees_show(tmp_path):
    """
    Feature: contrib detect
    Description: a new file and a changed one
    Expectation: both are named; a clean tree says clean
    """
    checkout = fresh("legacy", tmp_path)
    assert ", clean" in tell(checkout, detect(checkout))
    (checkout.root / "new.txt").write_text("new\n", encoding="utf-8")
    (checkout.root / MATMUL).write_text(checkout.read(MATMUL) + "\n", encoding="utf-8")
    assert sorted(checkout.dirty) == [MATMUL, "new.txt"]
    assert "2 uncommitted changes" in tell(checkout, detect(checkout))


def test_matmul_file_is_found_by_its_classes(tmp_path):
    """
    Feature: contrib detect
    Description: the file under another name; then two such files
    Expectation: found; then refused, naming both
    """
    checkout = fresh("legacy", tmp_path)
    other = MATMUL.replace("parallel_matmul", "matmul_family")
    (checkout.root / MATMUL).rename(checkout.root / other)
    assert Checkout(checkout.root).matmul == other
    twin = other.replace("family", "twin")
    (checkout.root / twin).write_text(checkout.read(other), encoding="utf-8")
    with pytest.raises(Refused, match="matmul_family.py, .*matmul_twin.py"):
        _ = Checkout(checkout.root).matmul


UNMATCHED = (
    ("class MatMulDistributedOp(", "class MatmulOp(", "no class MatMulDistributedOp"),
    ("def get_expand_impl(self, func, output_layout, layouts, extra_args)", "def expand(self)", "get_expand_impl 0"),
    ("layouts, extra_args=None", "layouts, extra, more", "takes .self, layouts, extra, more"),
    ("layouts, extra_args=None", "*layouts", r"takes .self, \*layouts"),
    ("from hyper_parallel.core.layout import Layout", "import hyper_parallel", "does not import Layout"),
    ("def _axes(entry):", "def _axes(entry:", "not valid Python"),
)


@pytest.mark.parametrize("old, new, message", UNMATCHED)
def test_structure_that_does_not_match_is_refused(old, new, message):
    """
    Feature: contrib detect
    Description: a class, method, parameter or import that is not as expected
    Expectation: a refusal that names it
    """
    text = synthetic.matmul_text("legacy")
    assert old in text
    with pytest.raises(Refused, match=message):
        structure_of(text.replace(old, new), "hyper_parallel.core.shard.ops.parallel_matmul")


def test_folder_without_the_package_is_no_checkout(tmp_path):
    """
    Feature: contrib detect
    Description: an empty folder
    Expectation: a refusal that names the option
    """
    with pytest.raises(Refused, match="--checkout PATH"):
        Checkout(tmp_path)

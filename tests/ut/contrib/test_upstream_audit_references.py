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
"""The audit outside the matmul family: every public name, calls as the verifier makes them, true and false labels."""
from __future__ import annotations

import json
import sys

import pytest

from contrib.ask import Operation
from contrib.audit import FORGETS, OTHER_OP, audit
from contrib.audit_cases import alias_map
from contrib.audit_references import referred_cases, why_not
from contrib.audit_report import tell
from contrib.checkout import Checkout, Refused
from contrib.registry import meaning_of, operations
from hyper_parallel.errors import LayoutError
from hyper_parallel.verify.problem import Trial, local_form, static_changes
from tests.ut.contrib import synthetic

# Names that the public registries give to operations outside the matmul family.
PUBLIC = """
AddScalar Add AddExt ArgMaxWithValue Cast ChunkView Concat Contiguous Cos CumsumExt Div Embedding Exp ExpandDims
FlashAttentionScore FloorDiv GatherD GatherNd GreaterEqual IndexSelect LessEqual Log LogicalOr MaxDim MeanExt Minimum
Mod Mul Neg NotEqual OneHotExt OnesLikeExt ReLU RealDiv ReduceMax Reshape RmsNorm ScatterUpdate Sigmoid Silu Sin
SliceExt Softmax SortExt Split SplitTensor SplitTensorView SplitWithSize SplitWithSizeView Square Squeeze Sub SubExt
SubScalar SumExt Swiglu Tile ToDtype TopkExt Transpose TransposeExtView TransposeView
__and__ __eq__ __floordiv__ __invert__ __or__ abs add add_ all argsort cast cat clone contiguous conv1d conv3d cos
cumsum div embedding exp expand expand_as flatten float ge gelu gt index_add int le layer_norm log long lt masked_fill
masked_fill_ max mean min mul ne neg new_ones not_equal outer pad permute pow prod relu remainder repeat
repeat_interleave reshape rsqrt scatter sigmoid silu sin softmax sort split square squeeze stack sub sub_ sum swiglu
topk transpose tril unbind unsqueeze view
""".split()
NOT_AUDITED = """
AllGatherMatmul CellBackwardHook MatmulReduceScatter Slice __rsub__ atleast_1d dropout getitem isin masked_scatter
multinomial nonzero npu_fusion_attention scaled_dot_product_attention setitem tensor_split vstack
""".split()
OPS = "hyper_parallel__core__shard__ops__"
RULE = '''"""Synthetic rules that look their labels up."""
import json
import pathlib
from hyper_parallel.core.layout import Layout
from .parallel_ops import DistributedOp

TABLE = json.loads(pathlib.Path(__file__).with_name("table.json").read_text(encoding="utf-8"))


def _lists(value):
    return [_lists(v) for v in value] if isinstance(value, (list, tuple)) else value


class TableDistributedOp(DistributedOp):
    """Labels from the table; a call that is not in it is refused."""

    def infer_layout(self, layouts, extra_args):
        """One layout per output."""
        placed = [one and [_lists(one.alias_tensor_map), list(one.partial)] for one in layouts]
        first = next(one for one in layouts if one is not None)
        made = []
        for cuts, pending in TABLE[json.dumps([self.op_name, placed, _lists(extra_args)])]:
            made.append(Layout(first.mesh_shape, first.alias_name, first.rank_list)(*cuts))
            for axis, op in zip(first.alias_name, pending):
                if op:
                    made[-1].set_partial_by_dev_axis(axis, op)
        return tuple(made)
'''


def labels(name: str, change=lambda outputs: outputs) -> dict:
    """This project's labels of the calls of one operation, as far as the plain operation on locals bears them."""
    found = {}
    for case in referred_cases(Operation(name, "", ""), meaning_of(name)):
        given = [layout for layout in case.layouts if layout is not None]
        try:
            inference = case.problem.infer(given)
        except LayoutError:
            continue
        if inference.constant_once or any(inference.once) or not _plain(case.problem, given, inference):
            continue
        asked = case.asked(False)
        placed = [operand and [operand["map"], operand["partial"]] for operand in asked["operands"]]
        shapes = [list(operand["shape"]) for operand in asked["operands"] if operand]
        key = json.dumps([name, placed, [*(v for v in asked["statics"] if v is not None), shapes]])
        found[key] = change([[alias_map(out), list(out.partial)] for out in inference.outputs])
    return found


def _whole(layouts) -> bool:
    """True when nothing is cut and nothing pending."""
    return all(p.is_replicate() for layout in layouts for p in layout.placements)


def _plain(problem, layouts, inference) -> bool:
    """True when every rank runs the operation itself, with the arguments of the call."""
    if _whole(layouts):
        return True
    places = Trial(problem, layouts, inference).places
    return not any(static_changes(problem, place) or local_form(problem.bound, place) for place in places)


def checkout_of(folder, table: dict, names) -> Checkout:
    """A synthetic checkout that registers these names, with these labels."""
    entry = ("  distributed_op_class: TableDistributedOp\n  distributed_op_file: parallel_table\n"
             "  infer_layout_suffix: WithShape\n")
    return Checkout(synthetic.build("legacy", folder, **{
        OPS + "parallel_table_py": RULE, OPS + "table.json": json.dumps(table),
        OPS + "yaml__other_ops.yaml": "".join(f'"{name}":\n{entry}' for name in names)}))


RESHAPE = '''"""A synthetic rule that hands the shape of the local result to the kernel."""
from hyper_parallel.core.layout import Layout
from .parallel_ops import DistributedOp


class ReshapeDistributedOp(DistributedOp):
    """A cut of the first dimension stays where it is, if that dimension does."""

    def infer_layout(self, layouts, extra_args):
        """Layout and local shape of the result."""
        x, (target, source) = layouts[0], extra_args
        cuts = ["None"] * len(target)
        if any(cut != "None" for cut in x.alias_tensor_map[1:]) or any(x.partial) and not FORGET:
            raise ValueError("refused")
        if x.alias_tensor_map[0] != "None":
            if target[0] != source[0]:
                raise ValueError("refused")
            cuts[0], target = x.alias_tensor_map[0], (target[0] // 2, *target[1:])
        return Layout(x.mesh_shape, x.alias_name, x.rank_list)(*cuts), target


FORGET = False
'''


@pytest.mark.parametrize("forget, causes", [(False, set()), (True, {FORGETS})])
def test_shape_that_a_rule_gives_the_kernel_is_used(tmp_path, forget, causes):
    """
    Feature: contrib audit
    Description: a rule of the older form that returns a layout and the shape of the local result
    Expectation: cut results have that shape and are judged: true, and false where the rule forgets what is pending
    """
    checkout = Checkout(synthetic.build("legacy", tmp_path / "checkout", **{
        OPS + "parallel_reshape_py": RESHAPE.replace("FORGET = False", f"FORGET = {forget}"),
        OPS + "yaml__other_ops.yaml": "Reshape:\n  distributed_op_class: ReshapeDistributedOp\n"
                                      "  distributed_op_file: parallel_reshape\n  infer_layout_suffix: Reshape\n"}))
    outcome, = audit(checkout, ["Reshape"]).outcomes
    assert outcome.accepted > len(meaning_of("Reshape").forms) and set(outcome.unsound) == causes


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_has_a_meaning(name):
    """
    Feature: contrib audit
    Description: a name of the public registries
    Expectation: there are calls of it, and one with every operand whole is among them
    """
    cases = referred_cases(Operation(name, "", ""), meaning_of(name))
    assert any(_whole(layout for layout in case.layouts if layout is not None) for case in cases)


@pytest.mark.parametrize("name", NOT_AUDITED)
def test_name_that_is_not_audited_has_a_reason_of_its_own(name):
    """
    Feature: contrib audit
    Description: a public name whose results cannot be compared
    Expectation: no meaning, and a reason other than that of a name nobody knows
    """
    assert meaning_of(name) is None and why_not(name) != why_not("Mystery")


UNREGISTERED = '''"""Synthetic rules outside of the registry's files."""
from .parallel_ops import DistributedOp


class CommonDistributedOp(DistributedOp):
    """What both share."""

    def infer_layout(self, layouts, extra_args):
        """Layout of the operand, whatever is pending."""
        return layouts[0]


class AbsDistributedOp(CommonDistributedOp):
    """Registers itself."""


class LonelyDistributedOp(CommonDistributedOp):
    """Nobody registers it."""


_ABS = AbsDistributedOp("abs")
'''


def test_every_class_is_audited_or_named_with_a_reason(tmp_path):
    """
    Feature: contrib audit
    Description: a class made at module level, one that nobody registers, one others derive from, an entry without class
    Expectation: the first is audited; the second and the entry are named, each with its reason; the third is not
    """
    checkout = Checkout(synthetic.build("legacy", tmp_path / "checkout", **{
        OPS + "parallel_loose_py": UNREGISTERED, OPS + "yaml__loose.yaml": "Neg:\n  dist_op_name: _neg\n"}))
    found, unknown = operations(checkout)
    assert [operation.class_name for operation in found if operation.name == "abs"] == ["AbsDistributedOp"]
    assert unknown == {"LonelyDistributedOp": "no operation is registered for it", "Neg": "its entry names no class",
                       "Mystery": why_not("Mystery")}
    outcome, = audit(checkout, ["abs"]).outcomes
    assert set(outcome.unsound) == {OTHER_OP}
    assert all(any(one.case.layouts[0].partial) for one in outcome.unsound[OTHER_OP])


@pytest.mark.parametrize("name, text, said", [
    ("yaml__loose.yaml", "a: [\n", "loose.yaml is no registry"),
    ("loose_py", "class (\n", "loose.py is not valid Python")])
def test_file_that_cannot_be_read_is_refused(tmp_path, name, text, said):
    """
    Feature: contrib audit
    Description: a registry file that is no YAML, and a file of rules that is no Python
    Expectation: a refusal that names the file
    """
    checkout = Checkout(synthetic.build("legacy", tmp_path / "checkout", **{OPS + name: text}))
    with pytest.raises(Refused, match=said):
        operations(checkout)


BROKEN = """import sys


class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "hyper_parallel.verify.references.sort":
            raise SyntaxError("too new")


sys.meta_path.insert(0, Refuse())
"""


def test_meaning_that_the_interpreter_cannot_load_is_not_judged(tmp_path):
    """
    Feature: contrib audit
    Description: an interpreter of the checkout's that cannot load the verifier's references
    Expectation: no call is judged, with the reason; no label is called true or false
    """
    (tmp_path / "sitecustomize.py").write_text(BROKEN, encoding="utf-8")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    checkout = checkout_of(tmp_path / "checkout", labels("Neg"), ["Neg"])
    outcome, = audit(checkout, ["Neg"], python=str(python)).outcomes
    assert (outcome.accepted, outcome.wrong) == (0, 0)
    assert [reason.endswith("SyntaxError: too new") for reason in outcome.unjudged] == [True]


@pytest.mark.proof
def test_true_labels_of_every_public_name_are_found_true(tmp_path):
    """
    Feature: contrib audit
    Description: a checkout that registers all public names, with labels that this project has proved
    Expectation: every name has labels that are judged, and none is called false
    """
    names = [name for name in dict.fromkeys(PUBLIC) if labels(name)]
    table = {key: label for name in names for key, label in labels(name).items()}
    report = audit(checkout_of(tmp_path / "checkout", table, names))
    outcomes = [outcome for outcome in report.outcomes if outcome.family == "other"]
    assert not [outcome.operation.name for outcome in outcomes if outcome.wrong or not outcome.accepted]
    assert sum(outcome.accepted for outcome in outcomes) > 1700 and len(outcomes) > 85


@pytest.mark.parametrize("name", ["Neg", "SumExt", "Concat", "SplitTensor", "ToDtype", "Transpose"])
def test_label_that_forgets_a_sum_is_found(tmp_path, name):
    """
    Feature: contrib audit
    Description: the labels of a linear operation, without what is pending
    Expectation: called false for exactly that cause, with a counterexample that says so
    """
    table = labels(name, lambda outputs: [[cuts, [None] * len(pending)] for cuts, pending in outputs])
    report = audit(checkout_of(tmp_path / "checkout", table, [name]), [name])
    outcome, = report.outcomes
    assert FORGETS in outcome.unsound and set(outcome.unsound) <= {FORGETS, OTHER_OP}
    assert f"{name} {FORGETS}" in tell(report, "audit")


def test_false_label_of_a_second_output_is_found(tmp_path):
    """
    Feature: contrib audit
    Description: values and indices of the largest elements; the indices are said to be pending
    Expectation: called false, although the label of the values is true
    """
    table = labels("TopkExt", lambda outputs: [outputs[0], [outputs[1][0], ["sum"]]])
    table = {key: outputs for key, outputs in table.items() if outputs[1][0] == ["None", "None"]}
    report = audit(checkout_of(tmp_path / "checkout", table, ["TopkExt"]), ["TopkExt"])
    outcome, = report.outcomes
    assert outcome.accepted and set(outcome.unsound) == {OTHER_OP} and outcome.wrong == outcome.accepted

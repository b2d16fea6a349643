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
"""What a checkout is, and whether it already keeps pending reductions: by behaviour first, else by syntax."""
from __future__ import annotations

from dataclasses import dataclass

from contrib.ask import ask, question
from contrib.audit_report import table
from contrib.checkout import HELPER, MIXED, Checkout, Refused
from contrib.child import meanings
from contrib.registry import matmul_operations

KEEPS, FORGETS, REFUSES = "keeps it", "forgets it", "refuses it"
BEHAVIOUR, SYNTAX = "behaviour", "syntax"


@dataclass(frozen=True)
class Detection:
    """What a checkout does with a pending operand.

    Attributes:
        by: BEHAVIOUR or SYNTAX.
        reason: why behaviour could not be asked for; empty otherwise.
        stood_in: frameworks that were missing.
        pending_x: operation -> KEEPS, FORGETS or REFUSES, for a pending first operand.
        pending_w: the same for a pending second operand.
        propagates: True when every operation keeps both.
        applied: True when this tool's change is in place.
    """

    by: str
    reason: str
    stood_in: tuple
    pending_x: dict
    pending_w: dict
    propagates: bool
    applied: bool


def detect(checkout: Checkout, python: str | None = None) -> Detection:
    """Find out what a checkout does with a pending operand.

    Raises:
        Refused: when the matmul file or its structure does not match.
    """
    structure = checkout.structure
    applied = HELPER in checkout.read(checkout.matmul)
    try:
        found, stood_in = _behaviour(checkout, python)
    except Refused as error:
        return Detection(SYNTAX, str(error), (), {}, {}, structure.reads_partial, applied)
    kept = all(word == KEEPS for side in found for word in side.values())
    return Detection(BEHAVIOUR, "", stood_in, *found, kept, applied)


def _behaviour(checkout: Checkout, python) -> tuple:
    """Per side, operation -> what it does; and the frameworks that were missing."""
    asked = []
    for pending in (0, 1):
        for operation in matmul_operations(checkout):
            form = meanings.named(operation.name).forms[0]
            operands = [_operand(dims, "sum" if i == pending else None) for i, dims in enumerate(form.operands)]
            asked.append(question(operation, operation.name, (2,), operands, form.statics))
    answers = ask(checkout, asked, python=python)
    words = list(map(_word, answers.by_rank[0]))
    names = [operation.name for operation in matmul_operations(checkout)]
    return (dict(zip(names, words)), dict(zip(names, words[len(names):]))), answers.stood_in


def _operand(dims, pending):
    return None if dims is None else {"shape": [2] * len(dims), "map": ["None"] * len(dims), "partial": [pending]}


def _word(answer: dict) -> str:
    if "unjudged" in answer:
        raise Refused(answer["unjudged"])
    if "refused" in answer:
        return REFUSES
    return KEEPS if answer["layouts"][0]["partial"] == ["sum"] else FORGETS


def tell(checkout: Checkout, found: Detection) -> str:
    """The report for a terminal."""
    structure, dirty = checkout.structure, checkout.dirty
    state = f"{len(dirty)} uncommitted change{'s' * (len(dirty) > 1)}" if dirty else "clean"
    kinds = sorted(structure.infer.items())
    shapes = ", ".join(f"{name.removesuffix('DistributedOp')}: {kind}" for name, kind in kinds)
    system = checkout.system_folder
    rows = [("checkout", f"{checkout.root} at {checkout.commit} on {checkout.branch}, {state}"),
            ("matmul rules", f"{checkout.matmul}, blob {checkout.blob}"),
            ("generation", structure.generation + (f" ({shapes})" if structure.generation == MIXED else "")),
            ("layouts", f"{structure.layout}.Layout"),
            ("unit tests", f"{checkout.unit_folder or 'no known folder'}, in place of devices: {checkout.mock_target}"),
            ("system tests", f"{system[1]}, under {system[0]}" if system else "no known folder"),
            ("keeps Partial", ("yes" if found.propagates else "no") + f", by {found.by}" + _how(found))]
    lines = table(("", ""), rows)[1:]
    if found.pending_x:
        operations = [(name, found.pending_x[name], found.pending_w[name]) for name in found.pending_x]
        lines += ["", *table(("operation", "pending sum in x", "pending sum in w"), operations)]
    return "\n".join(lines)


def _how(found: Detection) -> str:
    if found.by == SYNTAX:
        return f": {found.reason}"
    return f" (stand-ins for {', '.join(found.stood_in)})" if found.stood_in else ""

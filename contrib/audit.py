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
"""The audit: is what a checkout's layout rules say of their outputs true?

For every placement of every operand: local values that stand for global ones, the operation on each rank, and the value
that the results denote under the layout that the checkout's own `infer_layout` gave them. A rule is unsound where that
is not the operation on the global values. A refused call is sound.
"""
from __future__ import annotations

import functools
import hashlib
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from contrib.ask import Answers, Operation, ask
from contrib.audit_cases import NAMES, Case, single_axis_cases, two_axis_cases
from contrib.audit_references import referred_cases
from contrib.checkout import Checkout, Refused
from contrib.child import meanings
from contrib.registry import meaning_of, operations
from hyper_parallel.core.dtensor.denotation import denote
from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.core.dtensor.placement_types import REDUCE_OPS
from hyper_parallel.errors import LayoutError
from hyper_parallel.verify.meshes import mesh_of

RANKS = 4
DRAWS = 8  # sets of small numbers to choose a counterexample from
LINEAR_OPS = ("sum", "avg")
FORGETS = "forgets a pending reduction of an operand"
CROSS = "accepts two factors pending on one axis: their cross terms are lost"
NONLINEAR = "forwards a reduction that does not commute with a product"
BIAS_COUNT = "adds the bias on every rank of a pending sum"
BIAS_PENDING = "ignores that the bias is pending"
OTHER = "labels a result that does not denote the product"
OTHER_OP = "labels a result that does not denote the global one"
# Causes that the change made by `apply` removes, in the matmul family.
COVERED = (FORGETS, CROSS, NONLINEAR, BIAS_COUNT, BIAS_PENDING)


@dataclass(frozen=True, eq=False)
class Unsound:
    """One unsound case.

    Attributes:
        case: the call.
        claimed: the checkout's layout of an output, as {"map", "partial"}.
        results: local results, one per rank.
        found: the value that the claim makes of them, or why it makes none.
        truth: the global result.
    """

    case: Case
    claimed: dict
    results: tuple
    found: object
    truth: np.ndarray

    @property
    def cause(self) -> str:
        """Why, in the words of this module."""
        return cause_of(self.case, self.claimed["partial"])

    @property
    def size(self) -> tuple:
        """Small first: few ranks, few pending or cut operands, small data, the plain sum before other reductions."""
        placed = [p for placements in self.case.placements for p in placements or ()]
        return (len(self.results), sum(not p.is_replicate() for p in placed), sum(p.is_shard() for p in placed),
                sum(len(dims or "") for dims in self.case.form.operands),
                sum(REDUCE_OPS.index(p.reduce_op) for p in placed if p.is_partial()), [str(p) for p in placed])

    @property
    def dullness(self) -> int:
        """Number of zeros in the local values, and of ranks that compute the same: they hide what happens."""
        zeros = sum(int(np.sum(np.asarray(part) == 0)) for _, parts in self.case.values if parts for part in parts)
        return zeros + len(self.results) - len({result.tobytes() for result in self.results})


@dataclass
class Outcome:
    """What the audit found out about one operation."""

    operation: Operation
    family: str
    tried: int = 0
    accepted: int = 0
    unsound: dict = field(default_factory=dict)  # cause -> cases
    unjudged: Counter = field(default_factory=Counter)  # reason -> cases

    @property
    def wrong(self) -> int:
        """Number of unsound cases."""
        return sum(map(len, self.unsound.values()))

    def smallest(self) -> dict:
        """Cause -> its smallest case."""
        return {cause: min(cases, key=lambda one: one.size) for cause, cases in self.unsound.items()}


@dataclass(frozen=True)
class Report:
    """The outcomes, what stood in for missing frameworks, and the names that are not audited, with reasons."""

    outcomes: tuple
    stood_in: tuple
    unknown: dict = field(default_factory=dict)

    def of_family(self, family: str) -> tuple:
        """Outcomes of one family."""
        return tuple(outcome for outcome in self.outcomes if outcome.family == family)

    def causes(self, family: str = meanings.MATMUL) -> set:
        """Causes found in one family."""
        return {cause for outcome in self.of_family(family) for cause in outcome.unsound}

    @property
    def clean(self) -> bool:
        """True when every label that was checked is true."""
        return self.matmul_clean and not any(outcome.unsound for outcome in self.outcomes)

    @property
    def matmul_clean(self) -> bool:
        """True when every label in the matmul family was judged and is true, and every operation gives some."""
        return all(o.accepted and not o.unsound and not o.unjudged for o in self.of_family(meanings.MATMUL))


def audit(checkout: Checkout, only=(), python: str | None = None) -> Report:
    """Check the rules of a checkout.

    Args:
        checkout: the checkout.
        only: names of the operations to check; default: all.
        python: interpreter with the checkout's framework; default: this one.

    Raises:
        Refused: when its modules cannot be loaded.
    """
    key = _digest(checkout), tuple(only), python
    if key not in _KNOWN:
        _KNOWN[key] = _audit(checkout, only, python)
    return _KNOWN[key]


# The same files give the same report: the state before a change is asked for more than once.
_KNOWN: dict = {}


def _digest(checkout: Checkout) -> str:
    """Fingerprint of the checkout's package."""
    digest = hashlib.sha256()
    for path in sorted((checkout.root / "hyper_parallel").rglob("*")):
        if path.suffix in (".py", ".yaml", ".yml"):
            digest.update(f"{path.relative_to(checkout.root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _audit(checkout: Checkout, only, python: str | None) -> Report:
    found, unknown = _chosen(checkout, only)
    put = functools.partial(ask, checkout, python=python)
    outcomes = [Outcome(operation, meaning_of(operation.name).family) for operation in found]
    accepted, stood_in = _accepted(put, outcomes)
    answers = put([case.asked(True) for _, case in accepted], ranks=RANKS)
    for (outcome, case), *by_rank in zip(accepted, *answers.by_rank):
        _judge(outcome, case, by_rank)
    for outcome in outcomes:
        if outcome.accepted:
            del outcome.unjudged[_REFUSED]
    _shrink(put, outcomes)
    return Report(tuple(outcomes), stood_in, unknown)


def _chosen(checkout: Checkout, only) -> tuple[list, dict]:
    """The operations to check, and the registered ones that have no meaning here, with reasons."""
    found, unknown = operations(checkout)
    missing = sorted(set(only) - {operation.name for operation in found})
    if missing:
        raise Refused(f"Nothing is known of {', '.join(missing)}. Operations: {', '.join(o.name for o in found)}.")
    return ([operation for operation in found if operation.name in only], {}) if only else (found, unknown)


def _accepted(put, outcomes: list) -> tuple[list, tuple]:
    """The cases that the checkout labels, on one axis and then on two, and the frameworks that were missing."""
    cases = [(o, case) for o in outcomes for case in _first_cases(o.operation, meaning_of(o.operation.name))]
    accepted, stood_in = _labelled(put, cases)
    pairs = []
    for o in outcomes:
        rows = [case for other, case in accepted if other is o]
        if o.family == meanings.MATMUL:
            pairs += [(o, case) for case in two_axis_cases(o.operation, meaning_of(o.operation.name), rows)]
    return accepted + _labelled(put, pairs)[0], stood_in


def _first_cases(operation: Operation, meaning) -> list[Case]:
    """The calls with every placement on one axis."""
    cases = single_axis_cases if meaning.family == meanings.MATMUL else referred_cases
    return cases(operation, meaning)


def _labelled(put, cases: list) -> tuple[list, tuple]:
    """The cases that the checkout labels, counted, and the frameworks that were missing."""
    answers = put([case.asked(False) for _, case in cases])
    return [pair for pair, answer in zip(cases, answers.by_rank[0]) if _note(pair[0], answer)], answers.stood_in


_REFUSED = "every call was refused"


def _note(outcome: Outcome, answer: dict) -> bool:
    """Count one answer; True when the checkout labels the call's result."""
    outcome.tried += 1
    if "unjudged" in answer:
        outcome.unjudged[answer["unjudged"]] += 1
    elif "refused" in answer:
        outcome.unjudged[_REFUSED] += 1
    return "layouts" in answer


def _judge(outcome: Outcome, case: Case, by_rank) -> None:
    """Enter one case that the checkout accepts."""
    told = by_rank[:len(case.values[0][1])]
    reason = next((answer["unjudged"] for answer in told if "unjudged" in answer), None)
    if reason is not None:
        outcome.unjudged[reason] += 1
        return
    if any("refused" in answer for answer in told):
        return  # labelled, and then the kernel refused its local arguments: no result bears the label
    outcome.accepted += 1
    wrong = verdict(case, told)
    if wrong is not None:
        outcome.unsound.setdefault(wrong.cause, []).append(wrong)


def verdict(case: Case, told) -> Unsound | None:
    """The unsound case, or None when what the checkout says is true, or it refuses to compute.

    Args:
        case: the call.
        told: one answer with layouts and values per rank.
    """
    if any("values" not in answer for answer in told):
        return None
    labels, by_rank = told[0]["layouts"], zip(*[answer["values"] for answer in told])
    uneven = any(answer["layouts"] != labels for answer in told)
    for claimed, results, truth in zip(labels, by_rank, case.outputs):
        if claimed is not None:
            results = tuple(map(np.asarray, results))
            found = "ranks are given different layouts" if uneven else _denoted(case, claimed, results)
            if isinstance(found, str) or not _same(found, truth, case.meaning.exact):
                return Unsound(case, claimed, results, found, truth)
    return None


def _denoted(case: Case, claimed: dict, results: tuple):
    """The value that local results have under a label, or why they have none."""
    try:
        return denote(results, claimed_layout(case.mesh, claimed))
    except (LayoutError, ValueError) as error:
        return _void(error)


def _void(error: Exception) -> str:
    """Why local results denote nothing under a label."""
    text = str(error)
    return "it says that ranks hold the same value, and they do not" if "Replicas" in text else text


def _same(found, expected, exact: bool) -> bool:
    if np.shape(found) != np.shape(expected):
        return False
    if exact:
        return bool(np.array_equal(found, expected, equal_nan=True))
    return bool(np.allclose(found, expected, rtol=1e-12, atol=1e-12, equal_nan=True))


def claimed_layout(mesh: tuple, claimed: dict):
    """The layout that the checkout's axis names and reductions describe, in this project's terms."""
    names = [entry if isinstance(entry, list) else [entry] for entry in claimed["map"]]
    dims = [[NAMES.index(name) for name in entry if name != "None"] for entry in names]
    return layout_value(mesh_of(mesh), dims, claimed["partial"])


def cause_of(case: Case, claimed_partial) -> str:
    """The cause of an unsound case, from what was pending before and what is said to be pending after."""
    factors = case.meaning.factors
    if _forgets(case.layouts[:factors or None], claimed_partial):
        return FORGETS
    if not factors:
        return OTHER_OP
    return _cause_in_factors(case.layouts[:factors], claimed_partial) or _cause_in_addends(case, claimed_partial)


def _forgets(layouts, claimed_partial) -> bool:
    return any(layout.partial[axis] and not op for layout in filter(None, layouts)
               for axis, op in enumerate(claimed_partial))


def _cause_in_factors(layouts, claimed_partial) -> str | None:
    for axis, op in enumerate(claimed_partial):
        pending = [layout.partial[axis] for layout in filter(None, layouts) if layout.partial[axis]]
        if len(pending) > 1:
            return CROSS
        if pending and op not in LINEAR_OPS:
            return NONLINEAR
    return None


def _cause_in_addends(case: Case, claimed_partial) -> str:
    factors = case.meaning.factors
    if any(any(layout.partial) for layout in filter(None, case.layouts[factors:])):
        return BIAS_PENDING
    has_addend = any(dims is not None for dims in case.form.operands[factors:])
    return BIAS_COUNT if has_addend and any(claimed_partial) else OTHER


def _shrink(put, outcomes) -> None:
    """Replace the smallest case of each cause by one at the smallest sizes, where that is unsound too."""
    chosen = [(outcome, cause, one) for outcome in outcomes for cause, one in outcome.smallest().items()]
    small = [one.case.shrunk(draw) for _, _, one in chosen for draw in range(DRAWS)]
    answers: Answers = put([case.asked(True) for case in small], ranks=RANKS) if small else None
    for i, (outcome, cause, one) in enumerate(chosen):
        draws = range(i * DRAWS, (i + 1) * DRAWS)
        wrong = [verdict(small[d], [by_rank[d] for by_rank in answers.by_rank][:len(one.results)]) for d in draws]
        wrong = [found for found in wrong if found is not None and found.cause == cause]
        if wrong:
            cases = outcome.unsound[cause]
            cases[cases.index(one)] = min(wrong, key=lambda found: found.dullness)

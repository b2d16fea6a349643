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
"""What an audit found, as text for a terminal and as the table of a pull request."""
from __future__ import annotations

import numpy as np

from contrib.audit import Outcome, Report, Unsound, claimed_layout
from contrib.audit_cases import NAMES
from contrib.child import meanings

SHOWN = 8


def tell(report: Report, title: str) -> str:
    """The whole report.

    Args:
        report: the audit's report.
        title: its first line.
    """
    lines = [title + (f" (stand-ins for {', '.join(report.stood_in)})" if report.stood_in else ""), ""]
    rows = [(o.operation.name, o.tried, o.accepted, o.wrong, "; ".join(_unjudged(o))) for o in report.outcomes]
    lines += table(("operation", "calls", "labelled", "unsound", "not judged"), rows)
    for outcome in report.outcomes:
        for cause, one in sorted(outcome.smallest().items()):
            lines += ["", f"{outcome.operation.name} {cause}.", *_rules(outcome, cause), *counterexample(one)]
    if report.unknown:
        lines += ["", "not audited", *(f"  {reason}: {', '.join(names)}" for reason, names in _by_reason(report))]
    return "\n".join([*lines, "", verdict_of(report)])


def _by_reason(report: Report) -> list[tuple]:
    """Reason -> the names that are not audited for it."""
    return [(reason, [name for name, other in report.unknown.items() if other == reason])
            for reason in dict.fromkeys(report.unknown.values())]


def verdict_of(report: Report) -> str:
    """How many labels are false, in the matmul family and elsewhere."""
    silent = [o.operation.name for o in report.of_family(meanings.MATMUL) if not o.accepted]
    lines = [f"No call of {', '.join(silent)} could be judged."] if silent else []
    for family, title in ((meanings.MATMUL, "matmul family"), (meanings.OTHER, "other operations")):
        outcomes = report.of_family(family)
        wrong, total = sum(o.wrong for o in outcomes), sum(o.accepted for o in outcomes)
        if total:
            told = f"{wrong} of {total} labels are false" if wrong else f"all {total} labels are true"
            lines.append(f"{title}: {told}")
    return "\n".join(lines)


def table(head, rows) -> list[str]:
    """Columns of equal width; numbers to the right."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    numbers = [all(isinstance(row[i], int) for row in rows) for i in range(len(head))]
    return ["  ".join(cell.rjust(width) if number else cell.ljust(width)
                      for cell, width, number in zip(row, widths, numbers)).rstrip() for row in cells]


def _unjudged(outcome: Outcome) -> list[str]:
    return [f"{count}: {reason}" for reason, count in outcome.unjudged.most_common(2)]


def _rules(outcome: Outcome, cause: str) -> list[str]:
    """The placements on one mesh axis that a cause shows with."""
    cases = sorted((one for one in outcome.unsound[cause] if len(one.case.mesh) == 1), key=lambda one: one.size)
    shown = list(dict.fromkeys(f"({placements_of(one)}) -> {label_of(one)}" for one in cases))
    more = [f"and {len(shown) - SHOWN} more"] if len(shown) > SHOWN else []
    count = len(outcome.unsound[cause])
    return [f"  {count} call{'s' * (count > 1)}: {', '.join([*shown[:SHOWN], *more])}"] if shown else []


def placements_of(one: Unsound) -> str:
    """The operands' placements: "P, R"."""
    shown = []
    for i, (placements, dims) in enumerate(zip(one.case.placements, one.case.form.operands)):
        if dims is not None:
            shown.append("plain" if i in one.case.form.plain else " ".join(map(str, placements)))
    return ", ".join(shown)


def label_of(one: Unsound) -> str:
    """The label that the checkout gives the result."""
    return str(claimed_label(one.case.mesh, one.claimed))


def claimed_label(mesh, claimed) -> str:
    """A label in letters; in the checkout's words where it is no layout."""
    try:
        return " ".join(map(str, claimed_layout(mesh, claimed).placements))
    except ValueError:
        return f"{claimed['map']} pending {claimed['partial']}"


def counterexample(one: Unsound) -> list[str]:
    """One call with its numbers, rank by rank."""
    case = one.case
    axes = ", ".join(f"{name}={size}" for name, size in zip(NAMES, case.mesh))
    flags = f", {', '.join(map(repr, case.statics))}" if case.statics else ""
    lines = [f"  smallest: mesh ({axes}), operands ({placements_of(one)}){flags}, labelled {label_of(one)}"]
    parts = [parts for _, parts in case.values if parts is not None]
    for rank, result in enumerate(one.results):
        operands = " and ".join(_short(part[rank]) for part in parts)
        lines.append(f"    rank {rank} has {operands}, computes {_short(result)}")
    said = f"label is void: {one.found}" if isinstance(one.found, str) else f"label says: {_short(one.found)}"
    return [*lines, f"    the {said}", f"    the truth is: {_short(one.truth)}"]


def _short(value) -> str:
    """An array on one line, whole numbers without a point."""
    value = np.asarray(value)
    if value.dtype.kind == "f" and np.all(np.isfinite(value)) and np.all(value == np.round(value)):
        value = value.astype(int)
    return str(value.tolist())


def before_after(before: Report, after: Report) -> list[str]:
    """A Markdown table of the matmul family before and after the change."""
    lines = ["| rule | labels before | false | labels after | false |", "| --- | ---: | ---: | ---: | ---: |"]
    for old, new in zip(before.of_family(meanings.MATMUL), after.of_family(meanings.MATMUL)):
        lines.append(f"| {old.operation.name} | {old.accepted} | {old.wrong} | {new.accepted} | {new.wrong} |")
    return lines

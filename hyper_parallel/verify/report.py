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
"""What a verification found, as data."""
from __future__ import annotations

from dataclasses import asdict, dataclass, field

from hyper_parallel.verify.declined import reason_for

KINDS = ("R", "S", "P(sum)", "P(avg)", "P(max)", "P(min)", "P(prod)", "P(all)")


@dataclass
class RowReport:
    """One row of one pattern: placements on one axis, and how often it was checked.

    Attributes:
        pattern: the argument pattern as text.
        operands: placements of the operands.
        outputs: placements of the outputs.
        converts: conversions of the operands.
        forward: forward cases checked (meshes, sizes, partner rows).
        backward: of those, the ones with gradients checked in both conventions.
    """

    pattern: str
    operands: tuple
    outputs: tuple
    converts: tuple
    forward: int = 0
    backward: int = 0


@dataclass
class WrongRow:
    """A row that is not sound, with its smallest counterexample as text."""

    op: str
    pattern: str
    mesh: tuple
    operands: tuple
    outputs: tuple
    what: str
    message: str


@dataclass
class OpReport:
    """What was found about one operation."""

    name: str
    patterns: int = 0
    rows: dict = field(default_factory=dict)
    cases: int = 0
    gradients: int = 0
    refusals: int = 0
    refused: list = field(default_factory=list)
    refused_pairs: int = 0
    needless: list = field(default_factory=list)
    wrong: list = field(default_factory=list)
    problems: list = field(default_factory=list)
    approximate: bool = False
    undifferentiated: bool = False
    tested: set = field(default_factory=set)
    emitted: set = field(default_factory=set)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True when no row is wrong and every pattern could be checked."""
        return not self.wrong and not self.problems

    def row_counts(self) -> dict:
        """Placement kind -> (rows with an operand of that kind, refused tuples with one)."""
        counts = {kind: [0, 0] for kind in KINDS}
        for row in self.rows.values():
            for kind in {kind_of(p) for p in row.operands}:
                counts[kind][0] += 1
        for _, operands in self.refused:
            for kind in {kind_of(p) for p in operands}:
                counts[kind][1] += 1
        return counts


def kind_of(placement: str) -> str:
    """The column of a placement: every S(d) is one kind."""
    return "S" if placement.startswith("S") else placement


@dataclass
class Report:
    """What was found about all operations of one run.

    Attributes:
        ops: one report per operation.
        unreferenced: registered operations without a reference: nothing is known about them.
        meshes: mesh shapes that were used.
        complete: every registered operation was part of the run.
        seconds: wall time.
    """

    ops: list = field(default_factory=list)
    unreferenced: list = field(default_factory=list)
    meshes: tuple = ()
    complete: bool = False
    seconds: float = 0.0

    @property
    def wrong(self) -> list:
        """All wrong rows."""
        return [w for op in self.ops for w in op.wrong]

    @property
    def problems(self) -> list:
        """Patterns that could not be checked, as (operation, text)."""
        return [(op.name, text) for op in self.ops for text in op.problems]

    @property
    def closure_gaps(self) -> list:
        """Placements that some rule emits and no operand was tested with, as (number of dims, placement)."""
        tested = set().union(*(op.tested for op in self.ops)) if self.ops else set()
        emitted = set().union(*(op.emitted for op in self.ops)) if self.ops else set()
        return sorted(emitted - tested)

    @property
    def undecided(self) -> list:
        """Sound rows that the rules lack and nobody declined, as (operation, row)."""
        return sorted({(op.name, text) for op in self.ops for _, text in op.needless if not reason_for(op.name, text)})

    @property
    def declined(self) -> dict:
        """Reason -> operations -> number of sound rows that the rules decline for it, over all patterns."""
        found: dict = {}
        for op in self.ops:
            for reason in filter(None, (reason_for(op.name, text) for _, text in op.needless)):
                counts = found.setdefault(reason, {})
                counts[op.name] = counts.get(op.name, 0) + 1
        return found

    @property
    def ok(self) -> bool:
        """True when no row is wrong and, in a complete run, nothing is missing."""
        return not self.wrong and not self.problems and not (
            self.complete and (self.unreferenced or self.closure_gaps or self.undecided))

    def totals(self) -> dict:
        """Sums over all operations."""
        return {
            "ops": len(self.ops), "patterns": sum(op.patterns for op in self.ops),
            "rows": sum(len(op.rows) for op in self.ops), "cases": sum(op.cases for op in self.ops),
            "gradients": sum(op.gradients for op in self.ops), "refusals": sum(op.refusals for op in self.ops),
            "refused_pairs": sum(op.refused_pairs for op in self.ops),
            "needless": sum(len(op.needless) for op in self.ops), "undecided": len(self.undecided),
            "approximate_rows": sum(len(op.rows) for op in self.ops if op.approximate),
            "wrong": len(self.wrong), "unreferenced": len(self.unreferenced), "seconds": round(self.seconds, 1),
        }

    def as_dict(self) -> dict:
        """Plain data for JSON."""
        ops = [{
            "name": op.name, "patterns": op.patterns, "cases": op.cases, "gradients": op.gradients,
            "refusals": op.refusals, "refused_pairs": op.refused_pairs, "approximate": op.approximate,
            "undifferentiated": op.undifferentiated, "seconds": round(op.seconds, 3),
            "rows": [asdict(row) for row in op.rows.values()],
            "needless": op.needless, "wrong": [asdict(w) for w in op.wrong], "problems": op.problems,
            "matrix": {kind: {"rows": r, "refused": n} for kind, (r, n) in op.row_counts().items()},
        } for op in self.ops]
        return {"ok": self.ok, "totals": self.totals(), "meshes": [list(m) for m in self.meshes],
                "declined": self.declined, "undecided": self.undecided,
                "unreferenced": self.unreferenced, "closure_gaps": self.closure_gaps, "ops": ops}

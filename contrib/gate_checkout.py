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
"""The gates and the affected unit tests, on a checkout's changed files only, with the checkout's own lists."""
from __future__ import annotations

import pathlib
import tempfile
from dataclasses import dataclass

from contrib.audit_report import table
from contrib.checkout import Checkout
from contrib.gate_units import UnitResult, run_units
from contrib.gates import GATES
from contrib.gates_tools import run_gate
from contrib.gates_tree import FAIL, NOT_RUN, PASS, Tree, changed_files
from contrib.gates_waivers import checkout_waivers

SHOWN = 10


@dataclass(frozen=True)
class GateReport:
    """How the gates and the unit tests ended.

    Attributes:
        base: the commit that the change is measured against.
        changed: the changed text files.
        outcomes: one per gate.
        units: the affected unit tests.
        known: findings of failing gates that were there before: (gate, path, code, message).
    """

    base: str
    changed: tuple
    outcomes: tuple
    units: UnitResult
    known: frozenset = frozenset()

    @property
    def failed(self) -> bool:
        """True when a gate or a unit test fails."""
        return any(outcome.status == FAIL for outcome in self.outcomes) or bool(self.units.failed)

    @property
    def not_run(self) -> list[str]:
        """What could not run, with the reason; what had nothing to look at is not among it."""
        found = [f"{o.gate.name}: {o.reason}" for o in self.outcomes if o.status == NOT_RUN and not o.empty]
        return found + ([f"unit tests: {self.units.reason}"] if self.units.reason else [])

    def rows(self) -> list[tuple]:
        """Name, what is asked for, number of files, result."""
        found = [(o.gate.name, o.gate.title, o.files or "", _result(o)) for o in self.outcomes]
        return [*found, ("unit tests", "the affected ones pass", len(self.units.files), _units(self.units))]


def gate(checkout: Checkout, python: str | None = None) -> GateReport:
    """Run the gates and the affected unit tests.

    Args:
        checkout: the checkout.
        python: interpreter with the checkout's framework, for the unit tests; default: this one.
    """
    base = checkout.base()
    changed = changed_files(checkout.root, base)
    # Commits are looked at once there are any: until then the message is not written.
    reference = None if checkout.dirty else base
    tree, waivers = Tree(checkout.root, tuple(changed), reference), checkout_waivers(checkout.root)
    outcomes = tuple(run_gate(one, tree, waivers) for one in GATES) if changed else ()
    known = _known(checkout, base, changed, [outcome.gate for outcome in outcomes if outcome.status == FAIL])
    return GateReport(base, tuple(changed), outcomes, run_units(checkout, changed, base, python), known)


def _known(checkout: Checkout, base: str, changed, failing) -> frozenset:
    """Findings of the failing gates in the same files before the change: whole files are looked at, by the CI too."""
    if not failing:
        return frozenset()
    with tempfile.TemporaryDirectory() as folder:
        checkout.extract(base, folder)
        root = pathlib.Path(folder)
        tree, waivers = Tree(root, tuple(p for p in changed if (root / p).is_file())), checkout_waivers(root)
        outcomes = [run_gate(one, tree, waivers) for one in failing]
    return frozenset(_key(outcome, finding) for outcome in outcomes for finding in outcome.findings)


def _key(outcome, finding) -> tuple:
    return outcome.gate.name, finding.path, finding.code, finding.message


def tell(checkout: Checkout, report: GateReport) -> str:
    """The report for a terminal."""
    lines = [f"gates on {len(report.changed)} files of {checkout.root} that differ from {report.base[:12]}", ""]
    for outcome in report.outcomes:
        lines += [f"{outcome.gate.name}: {finding}"
                  + (" (there before the change)" if _key(outcome, finding) in report.known else "")
                  for finding in outcome.findings[:SHOWN]]
        if len(outcome.findings) > SHOWN:
            lines.append(f"{outcome.gate.name}: and {len(outcome.findings) - SHOWN} more")
    lines += [f"fails because of the change: {name}" for name in report.units.failed]
    lines += [f"failed before it too: {name}" for name in report.units.known]
    lines += [""] if len(lines) > 2 else []
    return "\n".join([*lines, *table(("gate", "asks for", "files", "result"), report.rows())])


def _result(outcome) -> str:
    if outcome.status == PASS:
        return PASS
    return f"fail: {len(outcome.findings)}" if outcome.status == FAIL else f"{outcome.status}: {outcome.reason}"


def _units(units: UnitResult) -> str:
    if units.reason:
        return f"{NOT_RUN}: {units.reason}"
    told = f"{FAIL if units.failed else PASS}: {units.passed} passed"
    told += f", {len(units.failed)} failed" if units.failed else ""
    told += f", {len(units.known)} failed before too" if units.known else ""
    return told + (" (on stand-ins)" if units.stood_in else "")

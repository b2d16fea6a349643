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
"""Apply the fix to a checkout: the edited matmul file, the helper beside it, unit and system tests."""
from __future__ import annotations

import datetime
from dataclasses import dataclass

from contrib import render
from contrib.audit import BIAS_COUNT, BIAS_PENDING, COVERED, FORGETS, Report, audit
from contrib.checkout import HELPER, Checkout, Refused
from contrib.codemod import LONGEST, transform
from contrib.detect import Detection, detect


@dataclass(frozen=True)
class Change:
    """What is to be written.

    Attributes:
        variant: render.INHERIT or render.CHECK.
        causes: what the audit found that the change removes; empty when the audit could not run.
        files: path -> content.
        skipped: what was left out, with the reason.
    """

    variant: str
    causes: tuple
    files: dict
    skipped: tuple = ()


def apply(checkout: Checkout, year: int | None = None, python: str | None = None) -> Change:
    """Write the change to a clean checkout.

    Args:
        checkout: the checkout.
        year: for licence blocks; default: this year.
        python: interpreter with the checkout's framework; default: this one.

    Raises:
        Refused: on a dirty tree, an unmatched structure, or when nothing is left to fix. Nothing is written then.
    """
    if checkout.dirty:
        shown = ", ".join(checkout.dirty[:5]) + (", ..." if len(checkout.dirty) > 5 else "")
        raise Refused(f"The checkout has uncommitted changes: {shown}. Commit or stash them first; to go on with a "
                      f"change that this tool has made, run: python -m contrib gate --checkout {checkout.root}")
    change = plan(checkout, year or datetime.date.today().year, python)
    taken = [path for path in change.files if path != checkout.matmul and (checkout.root / path).exists()]
    if taken:
        raise Refused(f"The checkout already has {', '.join(taken)}. Move it away first.")
    for path, content in change.files.items():
        (checkout.root / path).write_bytes(content)
    return change


def plan(checkout: Checkout, year: int, python: str | None = None) -> Change:
    """The change that a checkout needs.

    Raises:
        Refused: see `apply`.
    """
    found = detect(checkout, python)
    if found.applied:
        raise Refused(f"Nothing is left to fix: {checkout.matmul} uses {HELPER} already.")
    causes = _causes(checkout, found, python)
    # Rules that keep a sum and forget another reduction are not relied on.
    variant = render.CHECK if found.propagates and FORGETS not in causes else render.INHERIT
    expand = variant == render.INHERIT or bool({BIAS_COUNT, BIAS_PENDING} & set(causes)) or not found.pending_x
    raw = (checkout.root / checkout.matmul).read_bytes()
    files = {checkout.matmul: transform(raw, checkout.structure, variant, year, expand)}
    folder = checkout.matmul.rpartition("/")[0]
    texts = {f"{folder}/{HELPER}.py": render.helper(checkout, variant, year)}
    path, text = render.unit_test(checkout, year)
    texts[path] = text
    system = render.system_tests(checkout, year)
    texts.update(system)
    _check_width(texts)
    files.update({path: text.encode("utf-8") for path, text in texts.items()})
    skipped = () if system else ("system tests: no folder that this tool knows",)
    return Change(variant, tuple(causes), files, skipped)


def _causes(checkout: Checkout, found: Detection, python) -> list[str]:
    """What the audit finds and the change removes, in a fixed order.

    Raises:
        Refused: when there is nothing.
    """
    if not found.pending_x:
        return []  # the rules cannot be called here: syntax has decided
    report: Report = audit(checkout, python=python)
    causes = [cause for cause in COVERED if cause in report.causes()]
    if not causes:
        raise Refused("Nothing is left to fix: no label of the matmul family is false.")
    return causes


def _check_width(texts: dict) -> None:
    for path, text in texts.items():
        long = [line for line in text.splitlines() if len(line) > LONGEST]
        if long:
            raise Refused(f"A line of {path} would be longer than {LONGEST} columns: {long[0]!r}.")


def tell(checkout: Checkout, change: Change) -> str:
    """The report for a terminal."""
    what = "operands' Partial state is inherited" if change.variant == render.INHERIT else (
        "the rules keep Partial already; what they keep wrongly is refused")
    lines = [f"applied to {checkout.root}: {what}", ""]
    lines += [f"  removes   {cause}" for cause in change.causes]
    lines += [f"  {'edited' if path == checkout.matmul else 'added'}{' ' * (4 if path == checkout.matmul else 5)}{path}"
              for path in change.files]
    return "\n".join([*lines, *(f"  left out  {reason}" for reason in change.skipped)])

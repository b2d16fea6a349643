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
"""Turn an applied change into one commit, a patch file and the text of a pull request. Nothing is pushed."""
from __future__ import annotations

import contextlib
import pathlib
import tempfile
from dataclasses import dataclass

from contrib import render
from contrib.audit import COVERED, Report, audit
from contrib.audit_report import before_after, counterexample
from contrib.checkout import HELPER, Checkout, Refused
from contrib.child.meanings import MATMUL
from contrib.gate_checkout import GateReport, gate
from contrib.gates import named
from contrib.gates_commits import forbidden, forbidden_words, problems
from contrib.gates_tree import git
from contrib.pull_request import Body, Content, fill

SUBJECT = {render.INHERIT: "fix(shard): keep operand Partial state in matmul layout inference",
           render.CHECK: "fix(shard): refuse unsound Partial operands, count matmul bias once"}


@dataclass(frozen=True)
class Export:
    """What was made.

    Attributes:
        branch: the new branch, with one commit.
        patch: the patch file.
        body_file: the pull request's text.
        body: the same, with what is left for a person.
        title: the pull request's title.
        not_run: gates that did not run.
    """

    branch: str
    patch: pathlib.Path
    body_file: pathlib.Path
    body: Body
    title: str
    not_run: tuple


def export(checkout: Checkout, issue: int | None, out=None, accept_not_run: bool = False,
           python: str | None = None) -> Export:
    """Commit the change on a branch of its own, and write patch and pull-request text beside the checkout.

    Args:
        checkout: a checkout with an applied, uncommitted change.
        issue: number of the issue that it fixes.
        out: folder for patch and text; default: the checkout's folder name with "-pr" behind it.
        accept_not_run: go on when a gate could not run; the text says so.
        python: interpreter with the checkout's framework; default: this one.

    Raises:
        Refused: when there is no change, a label is still false, a gate fails or did not run, the text holds a
            forbidden word, or the branch exists. Nothing is committed then.
    """
    if issue is None:
        raise Refused("The pull request must name the issue that it fixes: --issue N.")
    if not checkout.dirty or HELPER not in checkout.read(checkout.matmul):
        raise Refused(f"There is no uncommitted fix. First: python -m contrib apply --checkout {checkout.root}")
    variant = _variant(checkout)
    base = checkout.base()
    with _at(checkout, base) as old:
        before = audit(old, python=python)
    after = audit(checkout, python=python)
    if not after.matmul_clean:
        raise Refused(f"A label of the matmul family is still false. "
                      f"See: python -m contrib audit --checkout {checkout.root}")
    gates = gate(checkout, python)
    _check_gates(checkout, gates, accept_not_run)
    title, message = SUBJECT[variant], _message(variant, before, issue)
    body = fill(checkout, _content(variant, issue, before, after, gates))
    _check_words(checkout, message, f"{title}\n{body.text}")
    branch = f"fix/{HELPER.replace('_', '-')}-{issue}"
    folder = pathlib.Path(out or f"{checkout.root}-pr").resolve()
    if folder.is_relative_to(checkout.root):
        raise Refused(f"{folder} lies in the checkout, which must stay clean: give another folder with --out.")
    _commit(checkout, branch, message)
    folder.mkdir(parents=True, exist_ok=True)
    patch = git(checkout.root, "format-patch", "-1", "--output-directory", str(folder), "HEAD").strip()
    body_file = folder / "pull_request.md"
    body_file.write_text(body.text, encoding="utf-8")
    return Export(branch, pathlib.Path(patch), body_file, body, title, tuple(gates.not_run))


@contextlib.contextmanager
def _at(checkout: Checkout, commit: str):
    """The checkout as it was at a commit, in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        checkout.extract(commit, folder)
        yield Checkout(folder)


def _variant(checkout: Checkout) -> str:
    keeps = render.DECORATOR[render.INHERIT] in checkout.structure.decorators
    return render.INHERIT if keeps else render.CHECK


def _check_gates(checkout: Checkout, gates: GateReport, accept_not_run: bool) -> None:
    again = f"See: python -m contrib gate --checkout {checkout.root}"
    if gates.failed:
        raise Refused(f"A gate or a unit test fails. {again}")
    if gates.not_run and not accept_not_run:
        raise Refused(f"Not run: {'; '.join(gates.not_run)}. {again}; with --accept-not-run the text will say so.")


def _check_words(checkout: Checkout, message: str, text: str) -> None:
    words = forbidden_words(checkout.root)
    found = problems(message, named("commits").limit("subject"), words)
    found += [f"the pull request's text has a word that the checkout's workflow forbids: {word!r}"
              for word in forbidden(text, words)]
    if found:
        raise Refused("; ".join(found))


def _commit(checkout: Checkout, branch: str, message: str) -> None:
    if git(checkout.root, "branch", "--list", branch).strip():
        raise Refused(f"The branch {branch} exists. Delete it, or give the fix another issue number.")
    start = checkout.branch
    git(checkout.root, "checkout", "--quiet", "-b", branch)
    try:
        git(checkout.root, "add", "--all")
        git(checkout.root, "commit", "--quiet", "--message", message)
    except RuntimeError as error:
        # A hook said no, or git knows no author: leave the change as it was found.
        git(checkout.root, "reset", "--quiet")
        git(checkout.root, "checkout", "--quiet", start)
        git(checkout.root, "branch", "--quiet", "--delete", branch)
        raise Refused(f"The commit was not made. {error}") from error


# -- text -------------------------------------------------------------------------------------------------------------

_LINEAR = ("A product is linear in each factor: with x = sum_c x_c, x @ w = sum_c (x_c @ w), and likewise for a mean. "
           "So an operand that is Partial(sum) or Partial(avg) on an axis leaves the product Partial in the same way.")
_WHY = {
    render.INHERIT: "The layout rules of the matmul family look at their own contraction only. An operand that is "
                    "already Partial loses that state: chained products, such as (x @ A) @ B with a sharded "
                    "contraction in the first, are labelled complete while every rank holds an addend.",
    render.CHECK: "The layout rules of the matmul family forward the Partial state of their operands also where the "
                  "product does not commute with the reduction, and the bias of a linear layer is not counted once.",
}
_WHAT = (
    "Both factors Partial on one axis are refused (cross terms), and so are max, min, prod and all, which do not "
    "commute with a product.",
    "A bias enters a pending sum once: coordinate 0 of the axis contributes it and the others contribute zeros. A bias "
    "that is Partial itself is accepted only where the product is Partial alike.",
    "The five rules and the linear layer's get_expand_impl get one decorator each; their bodies are unchanged. Layouts "
    "without Partial state are inferred as before.",
    "Rules of other operators reject Partial inputs. The matmul family is the exception, because it is linear.",
)


def _message(variant: str, before: Report, issue: int) -> str:
    """The commit message: subject, reason, issue."""
    lines = [_WHY[variant], "", _LINEAR, "", "What was found in the rules before this change:"]
    wrapped = [part for line in lines for part in _wrap(line)]
    wrapped += [f"- a rule {cause}" for cause in COVERED if cause in before.causes()]
    return "\n".join([SUBJECT[variant], "", *wrapped, "", f"Fixes #{issue}"])


def _wrap(line: str, width: int = 80) -> list[str]:
    lines, current = [], ""
    for word in line.split():
        if current and len(current) + 1 + len(word) > width:
            lines.append(current)
            current = word
        else:
            current = f"{current} {word}".strip()
    return [*lines, current]


def _content(variant: str, issue: int, before: Report, after: Report, gates: GateReport) -> Content:
    causes = [cause for cause in COVERED if cause in before.causes()]
    why = "\n\n".join([_WHY[variant], "Found in the rules, with the smallest example of each:",
                       *(_example(before, cause) for cause in causes)])
    what = "\n".join(f"- {line}" for line in ((_LINEAR,) if variant == render.INHERIT else ()) + _WHAT)
    return Content("bug", issue, why, what, _tests(before, after, gates))


def _example(report: Report, cause: str) -> str:
    """A cause, where it was found, and the smallest case of all."""
    found = [outcome for outcome in report.of_family(MATMUL) if cause in outcome.unsound]
    one = min((outcome.smallest()[cause] for outcome in found), key=lambda case: case.size)
    numbers = "\n".join(line.strip() for line in counterexample(one))
    name = one.case.operation.name
    others = ", ".join(outcome.operation.name for outcome in found if outcome.operation.name != name)
    return f"- a rule {cause}: {name}{f' (also {others})' if others else ''}\n\n```text\n{numbers}\n```"


def _tests(before: Report, after: Report, gates: GateReport) -> str:
    """Test plan and results: what was run, and what was not."""
    units = gates.units
    ran = f"{units.passed} passed" + (f", {len(units.known)} failed before this change too" if units.known else "")
    system = [path for path in gates.changed if "/st/" in path or path.startswith("tests/torch/")]
    lines = ["Every placement of every operand on meshes of 2, 3 and 2 x 2 ranks, checked against numpy on the global "
             "values (a refused call has no label):", "", *before_after(before, after), "",
             f"Unit tests ({', '.join(units.files)}): {units.reason and 'not run: ' + units.reason or ran}."]
    lines += [f"- failed before: {name}" for name in units.known]
    if system:
        lines += ["", f"System tests, to be run on devices (not run yet): {', '.join(system)}."]
    lines += ["", "| gate | result |", "| --- | --- |"]
    lines += [f"| {name} | {result} |" for name, _, files, result in gates.rows() if files or name == "unit tests"]
    return "\n".join(lines)


def tell(checkout: Checkout, made: Export) -> str:
    """The report for a terminal, with the commands that a person runs next."""
    lines = [f"committed on {made.branch}: {made.title}", f"patch: {made.patch}",
             f"text:  {made.body_file} ({made.body.template or 'the checkout has no template'})"]
    lines += [f"not run: {reason}" for reason in made.not_run]
    lines += [f"for you to tick: {box}" for box in made.body.open_boxes]
    return "\n".join([*lines, "", "Nothing was pushed. To open the pull request:",
                      f"  git -C {checkout.root} push --set-upstream origin {made.branch}",
                      f"  title: {made.title}", f"  body:  {made.body_file}", "",
                      "next, when you have read and completed the text:",
                      f"  nox -s lint -- --gate pull_request --text {made.body_file} --upstream {checkout.root}"])

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
"""From a checkout of the public library to a pull request: `python -m contrib VERB --checkout PATH`.

The road is detect, audit, apply, gate, export; provenance compares texts. Each verb prints what to run next, and ends
with 0 when all is well, 1 when it found something wrong, 2 when it refused to work.
"""
from __future__ import annotations

import argparse
import pathlib
import sys

# The current folder may be the checkout, whose package has the same name as ours.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

# pylint: disable=wrong-import-position
try:
    from contrib import apply as apply_change
    from contrib import audit, audit_report, detect, export, gate_checkout, provenance
    from contrib.checkout import Checkout, Refused
    from contrib.registry import MATMUL
except ModuleNotFoundError as missing:
    print(f"refused: {missing}. The nox sessions upstream_... bring what they need; without nox: "
          f"pip install numpy libcst pyyaml pytest rich", file=sys.stderr)
    sys.exit(2)

VERBS = {
    "detect": "which generation the checkout is, and whether it keeps pending reductions",
    "audit": "check its layout rules against numpy and show the unsound ones",
    "apply": "edit the matmul rules and add helper and tests",
    "gate": "run the gates and the affected unit tests on the changed files",
    "export": "commit on a branch, and write the patch and the text of the pull request",
    "provenance": "report six or more identical lines in a row between this project and the checkout",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one verb."""
    options = _parser().parse_args(arguments)
    try:
        checkout = Checkout(options.checkout)
        return globals()[f"_{options.verb}"](checkout, options)
    except (Refused, RuntimeError) as error:
        print(f"refused: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m contrib", description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, text in VERBS.items():
        sub = verbs.add_parser(verb, help=text, description=text)
        sub.add_argument("--checkout", required=True, metavar="PATH", help="root of the checkout")
        if verb != "provenance":
            sub.add_argument("--python", help="interpreter with the checkout's framework (default: this one)")
        if verb == "audit":
            sub.add_argument("--matmul", action="store_true", help="the matmul family alone")
            sub.add_argument("--op", action="append", default=[], help="this operation alone; may be repeated")
        if verb == "export":
            sub.add_argument("--issue", type=int, metavar="N", help="the issue that is fixed")
            sub.add_argument("--out", metavar="DIR", help="folder for patch and text (default: PATH-pr)")
            sub.add_argument("--accept-not-run", action="store_true", help="go on when a gate could not run")
    return parser


def _next(checkout: Checkout, verb: str, extra: str = "") -> str:
    return f"\nnext: nox -s upstream_{verb} -- --checkout {checkout.root}{extra}"


def _detect(checkout: Checkout, options) -> int:
    found = detect.detect(checkout, options.python)
    print(detect.tell(checkout, found))
    print(_next(checkout, "gate" if found.applied else "audit"))
    return 0


def _audit(checkout: Checkout, options) -> int:
    only = (*(MATMUL if options.matmul else ()), *options.op)
    report = audit.audit(checkout, only, options.python)
    print(audit_report.tell(report, f"audit of {checkout.root}"))
    if report.matmul_clean:
        print(_next(checkout, "gate") if checkout.dirty else "")
    else:
        print(_next(checkout, "apply"))
    return 0 if report.clean else 1


def _apply(checkout: Checkout, options) -> int:
    print(apply_change.tell(checkout, apply_change.apply(checkout, python=options.python)))
    print(_next(checkout, "gate"))
    return 0


def _gate(checkout: Checkout, options) -> int:
    report = gate_checkout.gate(checkout, options.python)
    print(gate_checkout.tell(checkout, report))
    if not report.changed:
        print(f"\nNothing differs from {report.base[:12]}." + _next(checkout, "apply"))
        return 1
    good = not report.failed and not report.not_run
    if good and not checkout.dirty:
        print(f"\nnext: git -C {checkout.root} push --set-upstream origin {checkout.branch}")
    else:
        print(_next(checkout, "export", " --issue N") if good else _next(checkout, "gate"))
    return 0 if good else 1


def _export(checkout: Checkout, options) -> int:
    made = export.export(checkout, options.issue, options.out, options.accept_not_run, options.python)
    print(export.tell(checkout, made))
    return 0


def _provenance(checkout: Checkout, options) -> int:
    del options
    found = provenance.provenance(checkout)
    for overlap in found:
        print(overlap)
    print(f"{len(found)} runs of {provenance.RUN} or more identical lines between this project and {checkout.root}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

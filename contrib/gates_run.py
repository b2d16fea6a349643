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
"""Run gates and print one table: `python -m contrib.gates_run [files]`, behind `nox -s lint` and the hooks."""
from __future__ import annotations

import argparse
import pathlib
import sys

from rich.console import Console
from rich.table import Table

from contrib.gates import GATES, WAIVERS, named, of_session
from contrib.gates_tools import HOME, run_gate
from contrib.gates_tree import FAIL, PASS, Outcome, Tree, all_files, changed_files
from contrib.gates_waivers import checkout_waivers

SHOWN = 30
STYLE = {PASS: "green", FAIL: "bold red"}


def main(arguments: list[str] | None = None) -> int:
    """Run the gates that the arguments choose; 0 only when every one passed or had nothing to look at."""
    options = _parser().parse_args(arguments)
    if options.list:
        _console().print(_catalogue())
        return 0
    try:
        gates = [named(name) for name in options.gate] if options.gate else of_session(options.session)
        tree = _tree(options)
    except (KeyError, OSError, RuntimeError, ValueError) as error:
        print(f"refused: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        return 2
    waivers = checkout_waivers(tree.root) if options.upstream else WAIVERS
    outcomes = [run_gate(gate, tree, waivers) for gate in gates]
    _report(outcomes, options)
    return 1 if any(outcome.blocks for outcome in outcomes) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m contrib.gates_run", description=__doc__)
    parser.add_argument("files", nargs="*", help="files to look at; default: all of the checkout")
    parser.add_argument("--session", default="lint", help="run the gates of this nox session (default: lint)")
    parser.add_argument("--gate", action="append", help="run this gate alone; may be repeated")
    parser.add_argument("--changed-against", metavar="REF", help="look at files and commits since REF alone")
    parser.add_argument("--upstream", metavar="PATH",
                        help="look at this checkout of the public library, with its own filter and whitelist files")
    parser.add_argument("--message", metavar="FILE", help="check this commit message")
    parser.add_argument("--text", metavar="FILE", help="check this text of a pull request")
    parser.add_argument("--list", action="store_true", help="show the table of gates and stop")
    return parser


def _tree(options) -> Tree:
    root = pathlib.Path(options.upstream).resolve() if options.upstream else HOME
    message = None
    if options.message:
        lines = pathlib.Path(options.message).read_text(encoding="utf-8").splitlines()
        message = "\n".join(line for line in lines if not line.startswith("#"))
    if options.files:
        files = [pathlib.Path(name).resolve().relative_to(root).as_posix() for name in options.files]
    elif options.changed_against:
        files = changed_files(root, options.changed_against)
    else:
        files = all_files(root)
    text = pathlib.Path(options.text).read_text(encoding="utf-8") if options.text else None
    return Tree(root, tuple(files), options.changed_against, message, text)


def _report(outcomes: list[Outcome], options) -> None:
    console = _console()
    # A gate that runs alone shows everything; among others it must not push them out of sight.
    shown = SHOWN if len(outcomes) > 1 else sys.maxsize
    for outcome in outcomes:
        for finding in outcome.findings[:shown]:
            console.print(f"{outcome.gate.name}: {finding}", markup=False, highlight=False, soft_wrap=True)
        if len(outcome.findings) > shown:
            console.print(f"{outcome.gate.name}: and {len(outcome.findings) - shown} more", markup=False)
    table = Table(title="gates", title_justify="left")
    for column in ("gate", "asks for", "files", "result"):
        table.add_column(column)
    for outcome in outcomes:
        table.add_row(outcome.gate.name, outcome.gate.title, str(outcome.files or ""), _result(outcome),
                      style=STYLE.get(outcome.status, "" if outcome.empty else "bold yellow"))
    console.print(table)
    console.print(f"next: {next_command(outcomes, options)}", markup=False, highlight=False, soft_wrap=True)


def _result(outcome: Outcome) -> str:
    if outcome.status == FAIL:
        return f"fail: {len(outcome.findings)} finding{'s' * (len(outcome.findings) > 1)}"
    return outcome.status if outcome.status == PASS else f"{outcome.status}: {outcome.reason}"


def next_command(outcomes: list[Outcome], options) -> str:
    """The command to type next: the first failing gate alone; pylint after the fast gates; the tests after that."""
    blocking = [outcome.gate for outcome in outcomes if outcome.blocks]
    if not blocking and options.upstream:
        return f"nox -s upstream_gate -- --checkout {options.upstream}"
    if not blocking and (options.gate or options.session != "lint"):
        return "nox -s tests"
    scope = [f"--changed-against {options.changed_against}"] if options.changed_against else []
    scope += [f"{name} {value}" for name, value in (("--message", options.message), ("--text", options.text),
                                                    ("--upstream", options.upstream)) if value]
    if not blocking:
        return " ".join(["nox -s lint_pylint", *(["--", *scope] if scope else [])])
    return " ".join([f"nox -s {blocking[0].session} --", f"--gate {blocking[0].name}", *scope])


def _catalogue() -> Table:
    table = Table(title="gates")
    for column in ("gate", "asks for", "tool", "mirrors", "session"):
        table.add_column(column)
    for gate in GATES:
        tool = f"{gate.tool} {gate.pin}" if gate.tool else "built in"
        table.add_row(gate.name, gate.title, tool, gate.mirrors, f"nox -s {gate.session}")
    return table


def _console() -> Console:
    # A log file has no width of its own: the table must not break there.
    return Console(width=None if sys.stdout.isatty() else 160)


if __name__ == "__main__":
    sys.exit(main())

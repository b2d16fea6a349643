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
"""Run one gate on a tree: a check of this package, or an outside tool whose findings are read from its output."""
from __future__ import annotations

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys

from contrib import gates_commits, gates_pull_request, gates_tests, gates_text
from contrib.gates import WAIVERS, Gate, Waiver
from contrib.gates_tree import FAIL, NOT_RUN, PASS, Finding, Outcome, Tree

HOME = pathlib.Path(__file__).resolve().parent.parent
CHECKS = {function.__name__: function for function in (
    gates_text.check_text, gates_text.check_licence, gates_text.check_links, gates_text.check_changelog,
    gates_tests.check_test_form, gates_tests.check_st_marks, gates_commits.check_commits,
    gates_pull_request.check_pull_request)}
TIME_LIMIT = 600


def run_gate(gate: Gate, tree: Tree, waivers=WAIVERS) -> Outcome:
    """How one gate ends on a tree.

    Args:
        gate: the gate.
        tree: what it looks at.
        waivers: findings that are accepted.
    """
    files = tree.matching(gate.globs, gate.exclude)
    if gate.check == "check_commits":
        if tree.reference is None and tree.message is None:
            return Outcome(gate, NOT_RUN, "neither --changed-against nor --message names a commit", empty=True)
    elif gate.check == "check_pull_request":
        if tree.text is None:
            return Outcome(gate, NOT_RUN, "no --text names a file", empty=True)
    elif not files:
        return Outcome(gate, NOT_RUN, f"no file of its kind ({', '.join(gate.globs)})", empty=True)
    if gate.check:
        return _judged(gate, list(CHECKS[gate.check](gate, tree)), len(files), waivers)
    missing = tool_problem(gate)
    if missing:
        return Outcome(gate, NOT_RUN, missing, files=len(files))
    return _run_tool(gate, tree, files, waivers)


def _judged(gate: Gate, findings: list, files: int, waivers) -> Outcome:
    kept = [finding for finding in findings if not any(accepts(waiver, finding) for waiver in waivers)]
    return Outcome(gate, FAIL if kept else PASS, files=files, findings=kept)


def accepts(waiver: Waiver, finding: Finding) -> bool:
    """True when the waiver covers the finding; pylint's codes may be given as number or as symbol."""
    return finding.path.startswith(waiver.prefix) and waiver.code in (finding.code, *finding.code.split(":"))


def tool_problem(gate: Gate) -> str | None:
    """Why the gate's tool cannot be run at its pinned version, with the call that installs it; None when it can."""
    if gate.registry == "npm":
        return None if shutil.which("npx") else f"npx is missing: install Node.js, then nox -s {gate.session}"
    try:
        found = importlib.metadata.version(gate.tool)
    except importlib.metadata.PackageNotFoundError:
        return f"{gate.tool} is missing: pip install {gate.tool}=={gate.pin}"
    if found != gate.pin:
        return f"{gate.tool} {found} is installed and {gate.pin} wanted: pip install {gate.tool}=={gate.pin}"
    return None


def _run_tool(gate: Gate, tree: Tree, files: list[str], waivers) -> Outcome:
    try:
        done = subprocess.run([*command(gate, tree.root), *files], cwd=tree.root, env=_environment(), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=TIME_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(gate, NOT_RUN, f"{gate.tool} did not end within {TIME_LIMIT} s", files=len(files))
    output = done.stdout + done.stderr
    findings = [finding for finding in parse(gate, output) if len(finding.code) >= dict(gate.limits).get("shortest", 0)]
    if done.returncode and not re.search(gate.finding, output, re.MULTILINE):
        # It said neither "clean" nor what it objects to: an error of the tool itself.
        reason = f"{gate.tool} ended with {done.returncode}: {_last_line(output)}"
        return Outcome(gate, NOT_RUN, reason, files=len(files))
    return _judged(gate, findings, len(files), waivers)


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "(no output)"


def command(gate: Gate, root) -> list[str]:
    """The gate's command without file names."""
    filled = {"{python}": sys.executable, "{home}": str(HOME), "{root}": str(root)}
    words = []
    for word in gate.command:
        for name, value in filled.items():
            word = word.replace(name, value)
        words.append(word)
    return words


def parse(gate: Gate, output: str) -> list[Finding]:
    """The findings in a tool's output."""
    found = []
    for match in re.finditer(gate.finding, output, re.MULTILINE):
        path = match["path"].strip().removeprefix("./")
        found.append(Finding(path, int(match["line"]), match["code"], match["message"].strip()))
    return found


def _environment() -> dict:
    """This process's environment, with the tools of this interpreter first."""
    beside = os.path.dirname(sys.executable)
    return {**os.environ, "PATH": f"{beside}{os.pathsep}{os.environ.get('PATH', '')}", "NO_COLOR": "1"}

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
"""The unit tests of a checkout that a change affects, and whether those that fail failed before it too."""
from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from contrib.ask import CHILD, Answers, ask, environment
from contrib.checkout import Checkout, Refused

TIME_LIMIT = 900
_FOLDERS = ("tests/ut", "tests/mindspore/ut")
# pytest: tests failed; anything above means that it could not run them.
_FAILED = 1
_RESULT = re.compile(r"^(?:FAILED|ERROR|SUBFAIL.*?) (\S+\.py(?:::\S+)?)", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|failed|error|errors|skipped|xfailed|subtests passed)\b")


@dataclass(frozen=True)
class UnitResult:
    """How the affected unit tests ended.

    Attributes:
        files: the test files.
        passed: number of tests that passed.
        failed: tests that fail because of the change.
        known: tests that failed before the change too.
        reason: why they did not run; empty otherwise.
        stood_in: True when they ran on stand-ins.
    """

    files: tuple
    passed: int = 0
    failed: tuple = ()
    known: tuple = ()
    reason: str = ""
    stood_in: bool = False

    @property
    def ok(self) -> bool:
        """True when they ran and the change breaks none."""
        return not self.reason and not self.failed and self.passed > 0


def affected(checkout: Checkout, changed) -> list[str]:
    """Unit-test files that are changed themselves, or name a changed module."""
    stems = {pathlib.PurePosixPath(path).stem for path in changed
             if path.startswith("hyper_parallel/") and path.endswith(".py")}
    files = []
    for folder in _FOLDERS:
        for path in sorted((checkout.root / folder).rglob("test_*.py")):
            text = path.read_text(encoding="utf-8", errors="replace")
            name = path.relative_to(checkout.root).as_posix()
            if name in changed or any(re.search(rf"\b{re.escape(stem)}\b", text) for stem in stems):
                files.append(name)
    return files


def run_units(checkout: Checkout, changed, base: str, python: str | None = None) -> UnitResult:
    """Run the affected unit tests; on stand-ins when they cannot be collected without.

    Args:
        checkout: the checkout.
        changed: the changed paths.
        base: the commit before the change.
        python: interpreter with the checkout's framework; default: this one.
    """
    files = affected(checkout, changed)
    if not files:
        return UnitResult((), reason="no unit test names a changed module")
    names, code, output = None, _FAILED + 1, ""
    if _imports(checkout, python):
        code, output = _pytest(checkout.root, files, python, names)
    if code > _FAILED:
        try:
            names = _stand_ins(ask(checkout, [], python=python))
        except Refused as error:
            return UnitResult(tuple(files), reason=str(error))
        code, output = _pytest(checkout.root, files, python, names)
    if code > _FAILED:
        return UnitResult(tuple(files), reason=f"pytest ended with {code}: {_last(output)}", stood_in=True)
    failing = _failing(output) or (["a test that pytest does not name"] if code else [])
    known = _known(checkout, failing, base, python, names) if failing else set()
    counts = {what: int(count) for count, what in _COUNT.findall(_last(output))}
    return UnitResult(tuple(files), counts.get("passed", 0), tuple(n for n in failing if n not in known),
                      tuple(n for n in failing if n in known), stood_in=names is not None)


def _imports(checkout: Checkout, python) -> bool:
    """True when the checkout's rules can be imported as they are."""
    command = [python or sys.executable, "-c", f"import {checkout.matmul_module}"]
    return subprocess.run(command, cwd=checkout.root, env=environment(), capture_output=True, timeout=TIME_LIMIT,
                          check=False).returncode == 0


def _failing(output: str) -> list[str]:
    """Tests that failed, subtests among them."""
    return list(dict.fromkeys(match[1] for match in _RESULT.finditer(output)))


def _stand_ins(answers: Answers) -> dict:
    return {"frameworks": answers.stood_in, "packages": answers.shells}


def _pytest(root, tests, python, names) -> tuple[int, str]:
    extra = {} if names is None else {"PYTHONPATH": str(CHILD), "CHECKOUT_STAND_INS": json.dumps(names)}
    plugin = [] if names is None else ["-p", "pytest_stand_ins"]
    command = [python or sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=short", "-p", "no:cacheprovider", *plugin,
               *tests]
    done = subprocess.run(command, cwd=root, env=environment(**extra), capture_output=True, text=True,
                          timeout=TIME_LIMIT, check=False)
    return done.returncode, done.stdout + done.stderr


def _last(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "(no output)"


def _known(checkout: Checkout, failing, base: str, python, names) -> set[str]:
    """Which of the failing tests fail at the base commit too."""
    with tempfile.TemporaryDirectory() as folder:
        checkout.extract(base, folder)
        there = [name for name in failing if (pathlib.Path(folder) / name.split("::")[0]).exists()]
        if not there:
            return set()
        _, output = _pytest(folder, there, python, names)
        return set(_failing(output))

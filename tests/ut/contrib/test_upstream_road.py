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
"""The whole road on each shape: detect, audit, apply, gate, audit, export, in a repository of its own."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

from contrib.__main__ import main
from contrib.checkout import Checkout
from contrib.gates_pull_request import problems
from tests.ut.contrib import synthetic
from tests.ut.contrib.checkout_fixtures import HELPER, MATMUL, fresh

pytestmark = pytest.mark.proof

ROOT = pathlib.Path(__file__).resolve().parents[3]
ADDED = {"legacy": ("tests/mindspore/ut/parallel_ops_infer/test_matmul_partial.py",
                    "tests/mindspore/st/shard/test_ops_matmul_partial_shell.py",
                    "tests/mindspore/st/shard/matmul_partial_shard_in_python.py"),
         "mixed": ("tests/ut/core/shard/ops/test_matmul_partial.py",
                   "tests/mindspore/st/shard/test_ops_matmul_partial_shell.py",
                   "tests/mindspore/st/shard/matmul_partial_shard_in_python.py"),
         "three-phase": ("tests/ut/core/shard/ops/test_matmul_partial.py",
                         "tests/torch/shard/ops/test_matmul_partial.py",
                         "tests/torch/shard/ops/parallel_op_matmul_partial.py")}
ADDED["propagating"] = ADDED["three-phase"]
# Labels of MatMulExt that the rules give before the change, and the false ones among them.
ROWS = {"legacy": "232 | 202", "mixed": "232 | 202", "three-phase": "232 | 202", "propagating": "104 | 43"}


@pytest.fixture(autouse=True)
def _no_plugins(monkeypatch):
    """The checkouts' own tests need no plugin of this environment, and start faster without."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


class Road:
    """The verbs on one checkout, with exit codes and texts kept.

    Args:
        shape: the synthetic shape.
        folder: where it lies.
        capsys: pytest's capture.
    """

    def __init__(self, shape: str, folder, capsys):
        self.checkout, self.shape, self.capsys, self.said = fresh(shape, folder), shape, capsys, []

    def go(self, verb: str, *options: str) -> tuple[int, str]:
        """Exit code and output of one verb."""
        code = main([verb, "--checkout", str(self.checkout.root), *options])
        captured = self.capsys.readouterr()
        self.said += captured.out.splitlines()
        return code, captured.out + captured.err

    @property
    def files(self) -> dict:
        """Every file of the working tree."""
        root = self.checkout.root
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*")
                if path.is_file() and ".git" not in path.relative_to(root).parts}


def _to_applied(road: Road) -> None:
    """detect, audit with the planted defects, apply, audit clean; then a second apply that changes nothing."""
    code, text = road.go("detect")
    assert code == 0 and f"next: nox -s upstream_audit -- --checkout {road.checkout.root}" in text
    code, text = road.go("audit")
    assert code == 1 and re.search(r"matmul family: \d+ of \d+ labels are false", text)
    found = "forgets a pending reduction" in text.partition("TransposeView forgets")[0]
    assert found == (road.shape != "propagating")
    before = road.files
    code, text = road.go("apply")
    assert code == 0 and "upstream_gate" in text
    after = road.files
    assert set(after) - set(before) == {HELPER, *ADDED[road.shape]}
    assert [path for path in before if before[path] != after[path]] == [MATMUL]
    assert all(len(line) <= 100 for path in (HELPER, *ADDED[road.shape]) for line in after[path].decode().splitlines())
    code, text = road.go("apply")
    assert code == 2 and "uncommitted changes" in text and road.files == after
    code, text = road.go("audit")
    assert code == 1 and re.search(r"matmul family: all \d+ labels are true", text)
    assert "other operations: 78 of 113 labels are false" in text


def _gated(road: Road) -> None:
    """The built-in gates and the unit tests pass; a tool that is missing is said to be."""
    _, text = road.go("gate")
    rows = {line.split("  ")[0]: line for line in text.splitlines()}
    for name in ("text", "licence", "test_form", "st_marks"):
        assert rows[name].endswith("pass"), rows[name]
    for name in ("pylint", "lizard", "codespell"):
        assert rows[name].endswith("pass") or "not run: " in rows[name], rows[name]
    assert re.search(r"pass: \d+ passed", rows["unit tests"])
    stale = r"failed before it too: \S+/test_parallel_matmul.py::test_stale_expectation"
    assert bool(re.search(stale, text)) == (road.shape == "legacy")


def _exported(road: Road, tmp_path) -> None:
    """One commit on fix/..., a patch that applies, a filled template; the tree is clean and main untouched."""
    root, out = road.checkout.root, tmp_path / "hyper-parallel-pr"
    code, text = road.go("export", "--issue", "685", "--accept-not-run")
    assert code == 0, text
    assert f"git -C {root} push --set-upstream origin fix/matmul-partial-685" in text
    checkout = Checkout(root)
    assert (checkout.branch, checkout.dirty) == ("fix/matmul-partial-685", [])
    assert synthetic.run_git(root, "rev-list", "--count", "master..HEAD").strip() == "1"
    message = synthetic.run_git(root, "log", "-1", "--format=%B")
    assert re.match(r"fix\(shard\): \S.{0,68}[^.]\n\n", message) and "Fixes #685" in message
    assert max(map(len, message.splitlines())) <= 80
    patch = next(pathlib.Path(out).glob("0001-*.patch"))
    synthetic.run_git(root, "checkout", "--quiet", "master")
    synthetic.run_git(root, "apply", "--check", str(patch))
    _check_body(road.shape, (out / "pull_request.md").read_text(encoding="utf-8"))
    synthetic.run_git(root, "checkout", "--quiet", "fix/matmul-partial-685")


def _check_body(shape: str, body: str) -> None:
    assert "<!--" not in body and "Fixes #685" in body and f"| MatMulExt | {ROWS[shape]} | 61 | 0 |" in body
    assert body.count("the truth is") == body.count("\n- a rule ") == (4 if shape == "propagating" else 3)
    assert "not run yet" in body
    # What the gate still asks for is what only a person can say.
    assert all("a box is not ticked" in problem for problem in problems(body))
    assert len(problems(body)) == (0 if shape == "legacy" else 3)
    if shape == "legacy":
        assert body.index("**关联的 issue**") < body.index("Fixes #685") < body.index("**修改原因**")
        assert body.index("**测试用例**") < body.index("| MatMulExt |")
        return
    assert "\n/kind bug\n" in body and "Fixes #\n" not in body
    assert "- [x] Tests are part of this PR." in body
    assert "- [x] The text above holds the verification evidence." in body
    assert "- [ ] The design was reviewed by a maintainer." in body


@pytest.mark.parametrize("shape", synthetic.SHAPES)
def test_the_whole_road(shape, tmp_path, capsys):
    """
    Feature: contrib
    Description: a synthetic checkout goes from detect to export; then gate and apply once more
    Expectation: defects found, fixed, tested and written up in one commit; the second apply finds nothing to fix
    """
    road = Road(shape, tmp_path, capsys)
    _to_applied(road)
    _gated(road)
    _exported(road, tmp_path)
    before = road.files
    code, text = road.go("apply")
    assert code == 2 and "Nothing is left to fix" in text and road.files == before
    if shape == "legacy":
        _check_guide(road)


def _check_guide(road: Road) -> None:
    """The output that CONTRIBUTING.md shows is what the verbs said, apart from what differs between hosts."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = [line.replace("/tmp/hyper-parallel", str(road.checkout.root))
             for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    # The commit, the frameworks that are missing, the tools that are installed; and lines that are cut.
    vary = re.compile(r"\$ |checkout  |keeps Partial  |pylint|lizard|codespell|.*\.\.\.$|$")
    assert not [line for line in shown if not vary.match(line) and line not in road.said]
    assert len(shown) > 40


def test_export_refuses_what_the_gates_would(tmp_path, capsys):
    """
    Feature: contrib export
    Description: no change; no issue; a gate that fails; a folder in the checkout; a word that its workflow forbids
    Expectation: each is refused with its reason, on master, and nothing is committed
    """
    road = Road("three-phase", tmp_path, capsys)
    root, options = road.checkout.root, ("--issue", "1", "--accept-not-run")
    code, text = road.go("export", *options)
    assert code == 2 and "no uncommitted fix" in text
    road.go("apply")
    code, text = road.go("export")
    assert code == 2 and "--issue N" in text
    path = root / ADDED["three-phase"][0]
    path.write_text(path.read_text(encoding="utf-8") + "X = 1\t\n", encoding="utf-8")
    code, text = road.go("export", *options)
    assert code == 2 and "gate or a unit test fails" in text
    path.write_text(path.read_text(encoding="utf-8").replace("X = 1\t\n", ""), encoding="utf-8")
    code, text = road.go("export", *options, "--out", str(root / "out"))
    assert code == 2 and "lies in the checkout" in text
    workflow = root / ".github" / "workflows" / "content.yml"
    workflow.write_text(workflow.read_text(encoding="utf-8").replace("oracleword", "ranks"), encoding="utf-8")
    code, text = road.go("export", *options)
    assert code == 2 and "workflow forbids: 'ranks'" in text
    assert Checkout(root).branch == "master" and MATMUL in Checkout(root).dirty


def test_gate_of_a_committed_fix_says_how_to_push(tmp_path, capsys, monkeypatch):
    """
    Feature: contrib gate
    Description: a checkout whose unit tests pass, before and after export
    Expectation: the next command is export, then the push of the branch
    """
    monkeypatch.setattr("contrib.gate_checkout.GATES", ())
    road = Road("three-phase", tmp_path, capsys)
    road.go("apply")
    code, text = road.go("gate")
    assert code == 0 and "next: nox -s upstream_export" in text
    road.go("export", "--issue", "9")
    code, text = road.go("gate")
    assert code == 0
    assert f"next: git -C {road.checkout.root} push --set-upstream origin fix/matmul-partial-9" in text


def test_what_is_missing_is_told_in_one_line(tmp_path):
    """
    Feature: python -m contrib
    Description: an interpreter without numpy
    Expectation: exit code 2, one line that names the module and what to install
    """
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError(\"No module named 'numpy'\")\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "contrib", "detect", "--checkout", str(tmp_path)], cwd=ROOT, text=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, check=False)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.startswith("refused: No module named 'numpy'.") and done.stderr.count("\n") == 1


def test_export_asks_for_gates_that_did_not_run(tmp_path, capsys, monkeypatch):
    """
    Feature: contrib export
    Description: the tool of one gate is missing
    Expectation: refused, naming the gate and the option that goes on; nothing is committed
    """
    monkeypatch.setattr("contrib.gates_tools.tool_problem", lambda gate: f"{gate.tool} is missing")
    road = Road("mixed", tmp_path, capsys)
    road.go("apply")
    code, text = road.go("export", "--issue", "1")
    assert code == 2 and "pylint is missing" in text and "--accept-not-run" in text
    assert Checkout(road.checkout.root).branch == "master"


def test_commit_that_a_hook_refuses_leaves_no_trace(tmp_path, capsys):
    """
    Feature: contrib export
    Description: the checkout's commit hook says no
    Expectation: refused with git's reason, on the branch it was, with the change in place
    """
    road = Road("propagating", tmp_path, capsys)
    root = road.checkout.root
    road.go("apply")
    hook = root / ".git" / "hooks" / "commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not this one >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    before = road.files
    code, text = road.go("export", "--issue", "7", "--accept-not-run")
    assert code == 2 and "not this one" in text
    assert (Checkout(root).branch, road.files) == ("master", before)
    assert synthetic.run_git(root, "branch", "--list", "fix/*") == ""

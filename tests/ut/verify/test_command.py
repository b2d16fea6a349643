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
"""The command line and the reports that it writes; the verifier where MindSpore is not installed."""
from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from hyper_parallel.core.shard.ops import parallel_ops_register
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.ops.parallel_ops_register import registered_ops
from hyper_parallel.errors import UnsupportedOpError
from hyper_parallel.verify import FAST, Pattern, reference, registry, verify
from hyper_parallel.verify.__main__ import main
from hyper_parallel.verify.render import PlainConsole, plain_table, render_text


@pytest.fixture(name="_wrong_op")
def fixture_wrong_op(monkeypatch):
    """An operation `Wrong` that calls the absolute value linear, registered for one test."""
    monkeypatch.setattr(parallel_ops_register, "_OPS", registered_ops())
    monkeypatch.setattr(registry, "_TABLE", registry.load_references())
    from hyper_parallel.core.shard.ops.nature import LINEAR_MOVE, binder
    declare("Wrong", "input:t", binder(LINEAR_MOVE))
    reference("Wrong", lambda v: abs(v["input"]), Pattern("input=ab"))


def test_a_sound_operation_exits_with_zero(tmp_path, capsys):
    """
    Feature: command line.
    Description: two operations on all meshes, JSON and HTML written.
    Expectation: exit code 0; totals, matrix and rows in all three.
    """
    files = tmp_path / "r.json", tmp_path / "r.html"
    assert main(["Outer", "TExt", "--json", str(files[0]), "--html", str(files[1]), "--jobs", "1"]) == 0
    data = json.loads(files[0].read_text())
    assert data["ok"] and data["totals"]["ops"] == 2 and data["totals"]["wrong"] == 0
    outer = next(op for op in data["ops"] if op["name"] == "Outer")
    assert {"operands": ["P(sum)", "R"], "outputs": ["P(sum)"], "converts": ["none", "varying"]}.items() <= next(
        row for row in outer["rows"] if row["operands"] == ["P(sum)", "R"]).items()
    page = files[1].read_text()
    assert page.startswith("<!doctype html>") and "Outer" in page and "every row exact" in page
    text = capsys.readouterr().out
    assert "every row exact" in text and "TExt" in text


def test_a_wrong_row_exits_with_one(_wrong_op, capsys):
    """
    Feature: command line.
    Description: an operation with a wrong rule.
    Expectation: exit code 1, and the message with placements, mesh and values.
    """
    assert main(["Wrong", "--mesh", "2", "--jobs", "1"]) == 1
    text = capsys.readouterr().out
    assert "Wrong rule: Wrong with input [P(sum)] -> [P(sum)] on mesh (2,)" in " ".join(text.split())


@pytest.mark.parametrize("arguments,message", [(["NoSuchOp"], "No operation is registered as NoSuchOp"),
                                               (["Outer", "--mesh", "2x2x2"], "A mesh is one or two sizes")])
def test_bad_arguments_exit_with_two(arguments, message, capsys):
    """
    Feature: command line.
    Description: an unknown operation; a mesh of three axes.
    Expectation: exit code 2 and one sentence.
    """
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_two_axes_alone_are_checked_with_the_rows_of_one():
    """
    Feature: command line.
    Description: only the 2x2 mesh is asked for.
    Expectation: rows are found on one axis first, and pairs of them are checked.
    """
    assert main(["TExt", "--mesh", "2x2", "--jobs", "1", "--quiet"]) == 0


def test_unknown_names_are_refused():
    """
    Feature: verify.
    Description: a name that is not registered.
    Expectation: refused by name.
    """
    with pytest.raises(UnsupportedOpError, match="Nowhere"):
        verify(["Nowhere"], FAST)


def test_two_processes_find_what_one_finds(_wrong_op):
    """
    Feature: runner.
    Description: three operations, one of them wrong, in one process and in two.
    Expectation: the same rows and the same wrong ones.
    """
    found = []
    for jobs in (1, 2):
        report = verify(["Outer", "TExt", "Wrong"], FAST, jobs)
        found.append([(op.name, sorted(op.rows, key=str), len(op.wrong), op.cases) for op in report.ops])
    assert found[0] == found[1] and found[0][2][2] > 0


def test_text_without_rich(capsys):
    """
    Feature: text report.
    Description: the plain console that stands in for rich.
    Expectation: aligned columns and the line of totals.
    """
    report = verify(["Outer"], FAST, 1)
    render_text(report, PlainConsole())
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == plain_table(report) and len(lines[0]) == len(lines[1])
    assert lines[-1].startswith("every row exact: 1 ops")


def test_it_runs_where_the_framework_is_not_installed():
    """
    Feature: numpy only.
    Description: a fresh interpreter in which importing mindspore fails.
    Expectation: an operation is verified all the same, and nothing tried the import.
    """
    program = textwrap.dedent("""
        import sys

        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "mindspore":
                    raise ImportError("not installed: " + name)

        sys.meta_path.insert(0, Absent())
        from hyper_parallel.verify.__main__ import main
        code = main(["MatMulExt", "--fast", "--jobs", "1", "--quiet"])
        assert "mindspore" not in sys.modules
        sys.exit(code)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

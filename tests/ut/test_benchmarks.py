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
"""The benchmarks run with a few repetitions and print the fields that they promise. No test here looks at a time."""
from __future__ import annotations

import ast
import contextlib
import functools
import io
import json
import pathlib

import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks import bars, calls, cold, dispatch, planner, report, scale, simulation, timing, verifier

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAIRED = {"calls", "rounds", "median_us", "p10_us", "min_us", "plain_us", "overhead_us", "p10_overhead_us"}
JUDGED = {"bench", "load", "bar", "met"}
COLD = {"mesh", "op", "median_us", "max_us", "first_us", "samples"}
PLAN = {"planner", "mesh", "pairs", "targets", "cold_median_us", "cold_max_us", "cached_median_us", "mean_hops"}
OPS = {"transpose", "add", "matmul", "relu", "sum", "add_scalar"}

# Module, arguments beside --quick, fields of each result, number of results.
SCRIPTS = [
    (dispatch, (), JUDGED | PAIRED | {"kind", "mode", "mesh", "op", "placements", "grad"}, 21),
    (dispatch, ("--mode", "async"), JUDGED | PAIRED | {"kind", "mode", "mesh", "op", "placements", "grad"}, 18),
    (cold, (), JUDGED | COLD, 18),
    (planner, (), JUDGED | PLAN, 4),
    (simulation, ("--world", "2"), JUDGED | {"world", "backward", "exact", "first_ms", "warm_median_ms"}, 2),
    (scale, (), JUDGED | {"ranks", "ratio", "median_us", "small_us", "samples", "mesh_ms"}, 4),
    (verifier, (), JUDGED | {"budget", "seconds", "exact", "totals"}, 1),
]


def _results(printed: str) -> list:
    return [json.loads(line[6:]) for line in printed.splitlines() if line.startswith("BENCH ")]


@functools.cache
def _run(module, *arguments) -> list:
    """What a script prints with few repetitions; each is run once."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        module.main([*arguments, "--quick"])
    return _results(printed.getvalue())


@pytest.mark.parametrize("module, arguments, fields, count", SCRIPTS,
                         ids=[" ".join((m.__name__, *a)) for m, a, _, _ in SCRIPTS])
def test_script_prints_its_fields(module, arguments, fields, count):
    """
    Feature: benchmark scripts.
    Description: each script with --quick.
    Expectation: the expected number of results, each with all promised fields; what claims to be exact is exact.
    """
    results = _run(module, *arguments)
    assert len(results) == count
    for result in results:
        assert fields <= set(result), fields - set(result)
        assert result.get("exact", True) is True


def test_dispatch_covers_every_case_with_and_without_gradients():
    """
    Feature: benchmark scripts.
    Description: cases of the dispatch script.
    Expectation: every operation without and with gradients, and intercepted only; the dispatcher alone for three.
    """
    results = _run(dispatch)
    for grad in (False, True):
        assert {r["op"] for r in results if r["kind"] == "dtensor" and r["grad"] is grad} == OPS
    assert {r["op"] for r in results if r["kind"] == "floor"} == OPS
    assert [r["op"] for r in results if r["kind"] == "self"] == ["transpose", "add", "matmul"]


def test_torch_side_has_the_same_cases():
    """
    Feature: comparison with PyTorch.
    Description: the tables of PyTorch's script, read without importing PyTorch.
    Expectation: same operations and placements as ours for warm calls, and same operations for cold ones.
    """
    tree = ast.parse((ROOT / "benchmarks" / "torch_dtensor.py").read_text(encoding="utf-8"))
    tables = {node.targets[0].id: node.value for node in tree.body
              if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
    warm = [tuple(ast.literal_eval(member) for member in row.elts[:3]) for row in tables["DISPATCH"].elts]
    assert warm == [case[:3] for case in dispatch.CASES]
    assert [ast.literal_eval(row.elts[0]) for row in tables["COLD"].elts] == [case[0] for case in calls.CASES]
    assert ast.literal_eval(tables["MESHES"]) == cold.MESHES


def _overhead(op: str, value: float, **more) -> dict:
    return {"bench": "dispatch", "kind": "dtensor", "mode": "blocking", "mesh": "(1,)", "op": op, "placements": "S0",
            "grad": False, "overhead_us": value, **more}


BARS = [
    (_overhead("transpose", 8.0), 8.0, True),
    (_overhead("transpose", 8.1), 8.0, False),
    (_overhead("add", 12.5), 12.0, False),
    (_overhead("matmul", 15.0), 16.0, True),
    (_overhead("relu", 99.0), None, None),
    (_overhead("add", 99.0, grad=True), None, None),
    (_overhead("sum", 15.5, mode="async"), 15.0, False),
    (_overhead("add", 8.5, kind="self"), 8.0, False),
    (_overhead("add", 99.0, kind="floor"), None, None),
    ({"bench": "rule_cold", "median_us": 101.0}, 100.0, False),
    ({"bench": "redistribute_plan", "cold_median_us": 80.0, "cold_max_us": 2100.0}, [200.0, 2000.0], False),
    ({"bench": "redistribute_plan", "cold_median_us": 80.0, "cold_max_us": 1900.0}, [200.0, 2000.0], True),
    ({"bench": "localtensor", "backward": True, "warm_median_ms": 20.5}, 20.0, False),
    ({"bench": "localtensor", "backward": False, "warm_median_ms": 20.5}, None, None),
    ({"bench": "verify", "budget": "complete", "seconds": 301.0}, 300.0, False),
    ({"bench": "verify", "budget": "fast", "seconds": 301.0}, None, None),
    ({"bench": "scale", "ratio": 1.6}, 1.5, False),
    ({"bench": "ratio", "of": "dispatch", "op": "add", "grad": False, "ratio": 0.99}, 1.0, True),
    ({"bench": "ratio", "of": "dispatch", "op": "transpose", "grad": False, "ratio": 1.01}, 1.0, False),
    ({"bench": "ratio", "of": "dispatch", "op": "matmul", "grad": False, "ratio": 2.0}, None, None),
    ({"bench": "machine"}, None, None),
]


@pytest.mark.parametrize("row, limit, met", BARS)
def test_bar_and_whether_it_is_met(row, limit, met):
    """
    Feature: bars.
    Description: results on both sides of each bar, and results that have none.
    Expectation: the bar of the design, and whether the result meets it.
    """
    judged = bars.judged(row)
    assert (judged["bar"], judged["met"]) == (limit, met)


def test_results_of_torch_are_not_judged():
    """
    Feature: bars.
    Description: a result that carries PyTorch's version.
    Expectation: it is left as it is.
    """
    row = _overhead("add", 7.0, torch="2.13.0")
    assert bars.judged(row) == row


def test_best_round_is_the_quickest_not_the_most_flattering():
    """
    Feature: paired timing.
    Description: two rounds of three pairs; the first has slower plain calls, so the smaller difference.
    Expectation: all fields are those of the second round; microseconds per call.
    """
    rounds = [([4000, 4000, 4000], [6000, 7000, 8000]), ([1000, 1000, 1000], [5000, 6000, 7000])]
    fields = timing.best_round(rounds, calls=2)
    assert fields == {"median_us": 3.0, "p10_us": 2.5, "min_us": 2.5, "plain_us": 0.5, "overhead_us": 2.5,
                      "p10_overhead_us": 2.0, "calls": 6, "rounds": 2}


def test_ratios_pair_cases_and_the_table_shows_every_case(capsys):
    """
    Feature: comparison with PyTorch.
    Description: two rounds of two operations of ours, one of PyTorch's, whose other cases are different.
    Expectation: one ratio, of the best rounds, judged; every case of ours is in the table, met or missed.
    """
    rows = [_overhead("add", 10.0), _overhead("add", 8.0), _overhead("matmul", 20.0)]
    rows = [bars.judged(row) for row in rows]
    rows += [_overhead("add", 16.0, torch="2.13.0"), _overhead("add", 20.0, torch="2.13.0"),
             _overhead("matmul", 1.0, torch="2.13.0", placements="S1@S0")]
    compared = report.ratios(rows)
    (ratio,) = _results(capsys.readouterr().out)
    assert (ratio["ratio"], ratio["rounds"], ratio["bar"], ratio["met"]) == (0.5, [0.625, 0.4], 1.0, True)
    written = io.StringIO()
    report.table(rows, compared, Console(file=written, width=130))
    shown = written.getvalue().splitlines()
    assert any("add" in line and "8.0 us" in line and "12 met" in line and "16.0 us" in line for line in shown)
    assert any("matmul" in line and "20.0 us" in line and "16 missed" in line for line in shown)


def test_command_runs_parts_and_keeps_lines(tmp_path, capsys):
    """
    Feature: python -m benchmarks.
    Description: two rounds of one part in child processes, without PyTorch, with --output.
    Expectation: exit code 0; every line carries its round; the file holds the same results.
    """
    kept = tmp_path / "results.jsonl"
    code = command.main(["scale", "--quick", "--rounds", "2", "--no-torch", "--output", str(kept)])
    printed = [row for row in _results(capsys.readouterr().out) if row["bench"] == "scale"]
    assert code == 0
    assert [row["round"] for row in printed] == [1] * 4 + [2] * 4
    assert [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] == printed


def test_command_reports_a_part_that_fails(monkeypatch, capsys):
    """
    Feature: python -m benchmarks.
    Description: a part whose module does not exist.
    Expectation: exit code 1 and the command that failed on stderr.
    """
    monkeypatch.setitem(command.PARTS, "scale", (("benchmarks.absent",), None))
    assert command.main(["scale", "--rounds", "1", "--no-torch"]) == 1
    assert "-m benchmarks.absent` ended with 1" in capsys.readouterr().err


def test_unknown_part_is_refused(capsys):
    """
    Feature: python -m benchmarks.
    Description: a part that does not exist.
    Expectation: exit code 2 and the list of parts.
    """
    with pytest.raises(SystemExit) as stop:
        command.main(["speed"])
    assert stop.value.code == 2
    assert "no part is called speed" in capsys.readouterr().err

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
"""Results of several rounds brought together: the best of each side, ratios to PyTorch, and one table."""
from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks.timing import emit

# bench -> the field that is compared, and its unit.
HEADLINE = {"dispatch": ("overhead_us", "us"), "rule_cold": ("median_us", "us"), "dispatch_cold": ("median_us", "us"),
            "redistribute_plan": ("cold_median_us", "us"), "localtensor": ("warm_median_ms", "ms"),
            "scale": ("ratio", "x"), "verify": ("seconds", "s")}
TITLES = {"rule_cold": "rule inference, new shape", "dispatch_cold": "whole first call, new shape",
          "redistribute_plan": "redistribution plan, cold", "scale": "16,384 ranks against 8", "verify": "verifier"}
# Fields that tell one case from another; what one side does not print is None on both.
CASE = ("bench", "kind", "mode", "mesh", "op", "placements", "grad", "targets", "backward", "budget")


def case_of(row: dict) -> tuple:
    """The case that a result belongs to, the same for both libraries."""
    return tuple(row.get(field) for field in CASE)


def title(row: dict) -> str:
    """The case in words."""
    if row["bench"] == "dispatch":
        what = {"dtensor": "overhead", "floor": "interception alone", "self": "dispatcher alone"}[row["kind"]]
        return f"{what}, {row['mode']}{', with gradients' if row['grad'] else ''}"
    if row["bench"] == "localtensor":
        return f"low-rank chain, {row['world']} ranks, forward{' and backward' if row['backward'] else ''}"
    return TITLES[row["bench"]]


def detail(row: dict) -> str:
    """What tells the case from others of its title."""
    fields = [row.get(f) for f in ("op", "mesh", "targets", "budget")]
    return " ".join(str(f) for f in fields if f not in (None, "(1,)"))


def value_of(row: dict) -> float:
    """The compared number."""
    return row[HEADLINE[row["bench"]][0]]


def grouped(rows: list) -> tuple[dict, dict]:
    """Case -> results of all rounds for this package, and (case, planner) -> the same for PyTorch."""
    ours, theirs = {}, {}
    for row in rows:
        if row["bench"] not in HEADLINE:
            continue
        if "torch" in row:
            theirs.setdefault(case_of(row), {}).setdefault(row.get("planner", ""), []).append(row)
        else:
            ours.setdefault(case_of(row), []).append(row)
    return ours, theirs


def ratios(rows: list) -> dict:
    """Print ours over PyTorch's for every case that both libraries have, best round of each; case -> those results."""
    ours, theirs = grouped(rows)
    return {case: [_ratio(own, other, planner) for planner, other in theirs.get(case, {}).items()]
            for case, own in ours.items()}


def _ratio(own: list, other: list, planner: str) -> dict:
    """One printed ratio; `rounds` has that of every round, of two runs one after the other."""
    mine, best = min(map(value_of, own)), min(map(value_of, other))
    case = {field: own[0].get(field) for field in CASE[1:]}
    return emit(**case, bench="ratio", of=own[0]["bench"], planner=planner, ours=mine, theirs=best,
                torch_version=other[0]["torch"], ratio=round(mine / best, 4),
                rounds=[round(value_of(a) / value_of(b), 4) for a, b in zip(own, other)])


def table(rows: list, compared: dict, console: Console) -> None:
    """Show every case once: the best of our rounds, the bar, PyTorch's best, and the ratio."""
    shown = Table(title="Best of all rounds", caption="ratio: ours over PyTorch's; below 1 is less time")
    for heading in ("what", "case", "ours", "bar", "PyTorch", "ratio"):
        shown.add_column(heading, justify="left" if heading in ("what", "case") else "right", no_wrap=True, min_width=6)
    for case, own in grouped(rows)[0].items():
        best = min(own, key=value_of)
        for match in compared.get(case) or [None]:
            shown.add_row(title(best), detail(best), _number(value_of(best), best), _bar(best), *_theirs(match, best))
    console.print(shown)


def _number(value: float, row: dict) -> str:
    return f"{value:,.1f} {HEADLINE[row['bench']][1]}"


def _bar(row: dict) -> str:
    if row["bar"] is None:
        return ""
    limits = row["bar"] if isinstance(row["bar"], list) else [row["bar"]]
    mark = "[green]met[/]" if row["met"] else "[red]missed[/]"
    return f"{' / '.join(f'{limit:g}' for limit in limits)} {mark}"


def _theirs(match: dict | None, row: dict) -> tuple[str, str]:
    if match is None:
        return "", ""
    ratio = f"{match['ratio']:.2g}"
    if match["met"] is not None:
        ratio = f"[{'green' if match['met'] else 'red'}]{ratio}[/]"
    return f"{_number(match['theirs'], row)} {match['planner']}".rstrip(), ratio

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
"""A report as text (with rich, if it is installed) and as one HTML page."""
from __future__ import annotations

import html
import sys
from collections import Counter

from hyper_parallel.verify.report import KINDS, OpReport, Report


WIDTH = 150  # of the table, when it is written to a file


def grouped_needless(op: OpReport) -> list:
    """Needless refusals of an operation, as (placements, number of patterns), most frequent first."""
    return Counter(text for _, text in op.needless).most_common()


def cell(rows: int, refused: int) -> str:
    """One cell of the matrix: rows / refused tuples that have an operand of the kind."""
    return f"{rows}/{refused}" if rows or refused else ""


def summary(report: Report) -> str:
    """One line of totals."""
    t = report.totals()
    state = "every row exact" if report.ok else f"{t['wrong']} wrong rows, {len(report.problems)} problems"
    meshes = ", ".join("x".join(map(str, m)) for m in report.meshes)
    return (f"{state}: {t['ops']} ops, {t['patterns']} patterns, {t['rows']} rows ({t['approximate_rows']} within 4 "
            f"ulp), {t['cases']} cases, {t['gradients']} with gradients, {t['refusals']} refusals, "
            f"{t['refused_pairs']} refused pairs, {t['needless']} needless refusals ({t['undecided']} undecided), "
            f"{report.seconds:.1f} s on meshes {meshes}")


def declined_lines(report: Report) -> list:
    """Needless refusals by the reason for which they are declined, most frequent first."""
    lines = []
    for reason, ops in sorted(report.declined.items(), key=lambda item: -sum(item[1].values())):
        lines.append(f"needless: {sum(ops.values())} rows that no draw contradicts, declined: {reason}. "
                     f"{', '.join(sorted(ops))}")
    return lines


def findings(report: Report) -> list:
    """Everything that makes a complete run fail, as texts."""
    found = [w.message for w in report.wrong]
    found += [f"Not checked: {name}({text})" for name, text in report.problems]
    found += [f"Undecided: {name} refuses {row}, which would be sound. Add the row, or say in "
              f"hyper_parallel/verify/declined.py why not" for name, row in report.undecided]
    if report.complete:
        found += [f"No reference: {name} is registered, and nothing says what it means" for name in report.unreferenced]
        found += [f"Not closed: rules emit {layout} for {ndim} dimensions, and no operand was tested with it"
                  for ndim, layout in report.closure_gaps]
    return found


def render_text(report: Report, console=None) -> None:
    """Print the op x placement matrix, needless refusals, findings and totals."""
    console = make_console() if console is None else console
    if isinstance(console, PlainConsole):
        for line in plain_table(report):
            console.print(line)
    else:
        console.print(_table(report))
    for text in [*declined_lines(report), *findings(report), summary(report)]:
        _say(console, text)


def _say(console, text: str) -> None:
    """Print text as it is: no markup, no colours, no wrapping."""
    if isinstance(console, PlainConsole):
        console.print(text)
    else:
        console.print(text, markup=False, highlight=False, soft_wrap=True)


class PlainConsole:
    """Stands in for rich's console."""

    @staticmethod
    def print(text="") -> None:
        """Print one text."""
        print(text)


def make_console():
    """A rich console, or a plain one."""
    try:
        from rich.console import Console
    except ImportError:
        return PlainConsole()
    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


def _columns(op: OpReport) -> list:
    counts = op.row_counts()
    kind = "4 ulp" if op.approximate else "exact"
    state = kind if op.ok else "WRONG" if op.wrong else "UNCHECKED"
    return [op.name, state, str(op.patterns), str(len(op.rows)), *(cell(*counts[kind]) for kind in KINDS),
            str(op.refusals), str(len(op.needless)), f"{op.seconds:.1f}"]


HEADERS = ["op", "result", "patterns", "rows", *KINDS, "refused", "needless", "s"]


def _table(report: Report):
    from rich.table import Table
    table = Table(title="rows / refused tuples, by placement of an operand on one mesh axis", box=None, pad_edge=False)
    for header in HEADERS:
        table.add_column(header, justify="left" if header in ("op", "result") else "right", no_wrap=True)
    for op in report.ops:
        table.add_row(*_columns(op), style=None if op.ok else "bold red")
    return table


def plain_table(report: Report) -> list:
    """The matrix as aligned lines."""
    rows = [HEADERS] + [_columns(op) for op in report.ops]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADERS))]
    return ["  ".join(text.ljust(w) if i < 2 else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths)))
            for row in rows]


# -- html ------------------------------------------------------------------------------------------------------------

_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2rem; color: #1c1c1c; }
table { border-collapse: collapse; } th, td { padding: 2px 8px; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; } .wrong { background: #fdd; } .ok { background: #efe; }
pre { background: #f6f6f6; padding: 8px; overflow-x: auto; } details { margin: 4px 0; }
"""


def render_html(report: Report) -> str:
    """One page: totals, findings, the matrix, and all rows of every operation."""
    head = "".join(f"<th>{html.escape(h)}</th>" for h in HEADERS)
    body = "".join(f"<tr class='{'ok' if op.ok else 'wrong'}'>"
                   + "".join(f"<td>{html.escape(c)}</td>" for c in _columns(op)) + "</tr>" for op in report.ops)
    found = "".join(f"<pre>{html.escape(text)}</pre>" for text in findings(report))
    details = "".join(_details(op) for op in report.ops)
    return (f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Layout rules, verified</title>"
            f"<style>{_STYLE}</style><h1>Layout rules, verified</h1><p>{html.escape(summary(report))}</p>{found}"
            f"<p>Cells: rows / refused tuples that have an operand of the kind.</p>"
            f"<table><tr>{head}</tr>{body}</table><h2>Rows</h2>{details}</html>\n")


def _details(op: OpReport) -> str:
    rows = "".join(f"<tr><td>{html.escape(row.pattern)}</td><td>{html.escape(', '.join(row.operands))}</td>"
                   f"<td>{html.escape(', '.join(row.outputs))}</td><td>{html.escape(', '.join(row.converts))}</td>"
                   f"<td>{row.forward}</td><td>{row.backward}</td></tr>" for row in op.rows.values())
    needless = "".join(f"<li>{html.escape(text)} ({count} patterns)</li>" for text, count in grouped_needless(op))
    return (f"<details><summary>{html.escape(op.name)}: {len(op.rows)} rows, {op.refusals} refusals</summary>"
            f"<table><tr><th>call</th><th>operands</th><th>result</th><th>conversions</th><th>forward</th>"
            f"<th>backward</th></tr>{rows}</table>" + (f"<p>Needless:</p><ul>{needless}</ul>" if needless else "")
            + "</details>")

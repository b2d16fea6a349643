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
"""Compare a coverage report with the least share that each package must reach."""
from __future__ import annotations

import json
import pathlib
import sys


def shares(report: dict, packages) -> dict:
    """Per cent of executed statements by package; a package without statements has none.

    Args:
        report: what coverage writes as JSON.
        packages: folders, as paths from the root of the checkout.

    Examples:
        >>> shares({"files": {"a/b.py": {"summary": {"covered_lines": 3, "num_statements": 4}}}}, ["a", "c"])
        {'a': 75.0, 'c': None}
    """
    found = {}
    for package in packages:
        files = [entry["summary"] for path, entry in report["files"].items() if path.startswith(package + "/")]
        total = sum(summary["num_statements"] for summary in files)
        found[package] = 100 * sum(summary["covered_lines"] for summary in files) / total if total else None
    return found


def main(arguments: list[str]) -> int:
    """Arguments: the report, then package=least share, ...; 1 when a package falls short or was not measured."""
    targets = {package: float(least) for package, _, least in (item.partition("=") for item in arguments[1:])}
    report = json.loads(pathlib.Path(arguments[0]).read_text(encoding="utf-8"))
    short = 0
    for package, share in shares(report, targets).items():
        reached = share is not None and share >= targets[package]
        short += not reached
        measured = "not measured" if share is None else f"{share:.1f} %"
        print(f"{'pass' if reached else 'fail'}: {package}: {measured} (at least {targets[package]:g} %)")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

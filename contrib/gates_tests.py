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
"""Gates on tests: the docstring form of every test, the marks of system tests."""
from __future__ import annotations

import ast
from collections.abc import Iterator

from contrib.gates import Gate
from contrib.gates_tree import Finding, Tree

FORM = ("Feature:", "Description:", "Expectation:")
# The arguments of arg_mark, and the plain marks that it expands to.
MARKS = (("plat_marks", ("platform_", "cpu_linux", "cpu_windows", "cpu_macos")), ("level_mark", ("level",)),
         ("card_mark", ("onecard", "allcards", "dryrun")), ("essential_mark", ("essential", "unessential")))


def check_test_form(gate: Gate, tree: Tree) -> Iterator[Finding]:
    """Every test function's docstring has lines that begin with Feature:, Description: and Expectation:."""
    for path, function, _ in _tests(gate, tree):
        lines = [line.strip() for line in (ast.get_docstring(function) or "").splitlines()]
        missing = [word for word in FORM if not any(line.startswith(word) for line in lines)]
        if missing:
            yield Finding(path, function.lineno, "test-form", f"{function.name}: no line {', '.join(missing)}")


def check_st_marks(gate: Gate, tree: Tree) -> Iterator[Finding]:
    """Every system test says on which platform, at which level and on how many cards it runs, and whether it blocks."""
    for path, function, module_marks in _tests(gate, tree):
        marks = module_marks + [ast.unparse(node) for node in function.decorator_list]
        missing = [argument for argument, names in MARKS if not any(_says(mark, argument, names) for mark in marks)]
        if missing:
            yield Finding(path, function.lineno, "st-marks", f"{function.name}: no {', '.join(missing)}")


def _says(mark: str, argument: str, names) -> bool:
    if mark.startswith("arg_mark("):
        return f"{argument}=" in mark
    return any(f"mark.{name}" in mark for name in names)


def _tests(gate: Gate, tree: Tree) -> Iterator[tuple]:
    """Path, test function and marks of the whole module, for every test of the matching files."""
    for path in tree.matching(gate.globs, gate.exclude):
        module = ast.parse((tree.root / path).read_text(encoding="utf-8"), path)
        module_marks = [ast.unparse(node.value) for node in module.body
                        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"]
        for node in ast.walk(module):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test"):
                yield path, node, module_marks

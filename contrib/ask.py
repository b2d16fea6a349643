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
"""Put questions to a checkout's own layout rules, in a process of its own (child/answer.py answers)."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from contrib.checkout import CLASSES, Checkout, Refused

CHILD = pathlib.Path(__file__).resolve().parent / "child"
TIME_LIMIT = 900


@dataclass(frozen=True)
class Operation:
    """An operation of a checkout: its registered name, where its class is, and how its arguments are passed."""

    name: str
    class_name: str
    module: str
    suffix: str = ""


@dataclass(frozen=True)
class Answers:
    """What a checkout answered.

    Attributes:
        stood_in: frameworks that were missing.
        shells: packages whose `__init__` did not run.
        by_rank: per rank one answer per question: {"refused": ...}, {"unjudged": ...}, or {"layouts": ...} with
            "values" where local values were given.
    """

    stood_in: tuple
    shells: tuple
    by_rank: tuple


def ask(checkout: Checkout, questions: list, ranks: int = 1, python: str | None = None) -> Answers:
    """Answers of the checkout, once per rank.

    Args:
        checkout: the checkout.
        questions: see child/answer.py.
        ranks: ranks 0 ... ranks-1 answer.
        python: interpreter with the checkout's framework; default: this one.

    Raises:
        Refused: when the checkout's modules cannot be loaded.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked, told = pathlib.Path(folder, "questions.json"), pathlib.Path(folder, "answers.json")
        asked.write_text(json.dumps({"first": checkout.matmul_module, "layout": checkout.structure.layout,
                                     "ranks": ranks, "questions": questions}), encoding="utf-8")
        command = [python or sys.executable, str(CHILD / "answer.py"), str(checkout.root), str(asked), str(told)]
        try:
            done = subprocess.run(command, cwd=checkout.root, env=environment(), capture_output=True, text=True,
                                  timeout=TIME_LIMIT, check=False)
        except subprocess.TimeoutExpired as error:
            raise Refused(f"The rules of {checkout.root} gave no answer within {TIME_LIMIT} s.") from error
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise Refused(f"The rules of {checkout.root} cannot be called: {lines[-1]}")
        found = json.loads(told.read_text(encoding="utf-8"))
    return Answers(tuple(found["stood_in"]), tuple(found["shells"]), tuple(map(tuple, found["answers"])))


def environment(**extra: str) -> dict:
    """This process's environment, in which the checkout's package is the only one of its name, and stays clean."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **extra}


def question(operation: Operation, meaning: str, mesh, operands, statics=(), locals_=None) -> dict:
    """One question.

    Args:
        operation: the operation.
        meaning: its name in child/meanings.py.
        mesh: sizes of the mesh axes, which are named x, y, z.
        operands: per operand None, or {"shape", "map", "partial"} with axis names; a map of None is a plain tensor.
        statics: every other argument.
        locals_: per rank the operands' local values, when local results are asked for.
    """
    return {"op": operation.name, "class": operation.class_name, "module": operation.module, "mesh": list(mesh),
            "suffix": operation.suffix, "meaning": meaning, "operands": list(operands), "statics": list(statics),
            # What the first phase of the matmul family makes of its arguments is documented: it is not asked.
            "ask_preprocess": operation.class_name not in CLASSES, "locals": locals_}

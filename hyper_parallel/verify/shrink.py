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
"""The smallest counterexample of a wrong row, and the message that shows it."""
from __future__ import annotations

import itertools
import math

import numpy as np

from hyper_parallel.errors import HyperParallelError
from hyper_parallel.verify.check import Mismatch, agree, check
from hyper_parallel.verify.enumerate import layouts_of, show
from hyper_parallel.verify.problem import Problem, Setting, Trial
from hyper_parallel.verify.report import WrongRow

MOST_SETTINGS = 200
SEEDS = 3


def counterexample(problem: Problem, axes: list, orders, trial: Trial, mismatch: Mismatch) -> WrongRow:
    """The wrong row with the smallest sizes and values that still show it.

    Args:
        problem: where it was found.
        axes: per mesh axis the placements of the operands.
        orders: per operand, cuts in reverse mesh order.
        trial: the failing trial.
        mismatch: what was wrong.
    """
    for setting in _smaller(problem):
        smaller = _failing(problem, setting, axes, orders)
        if smaller is not None:
            trial, mismatch = smaller
            break
    operands = tuple("[" + ", ".join(show(a[i]) for a in axes) + "]" for i in range(len(axes[0])))
    outputs = tuple(str(layout) for layout in trial.inference.outputs)
    return WrongRow(problem.declaration.name, str(problem.pattern), problem.mesh.mesh_shape, operands, outputs,
                    mismatch.what, message(trial, mismatch))


def _smaller(problem: Problem):
    """Settings on the same mesh, by rising number of elements; integers near zero."""
    most = max(problem.mesh.mesh_shape) + 2
    choices = itertools.product(range(1, most), repeat=problem.pattern.free_letters())
    for chosen in sorted(choices, key=lambda c: (math.prod(c), max(c, default=0)))[:MOST_SETTINGS]:
        sizes = problem.pattern.sizes(lambda i, c=chosen: c[i])
        for seed in range(SEEDS):
            yield Setting(problem.mesh, sizes, seed, small=True)


def _failing(problem: Problem, setting: Setting, axes, orders):
    """(trial, mismatch) of the same claim at a setting, or None."""
    try:
        smaller = type(problem)(problem.declaration, problem.reference, problem.pattern, setting)
        layouts = layouts_of(problem.mesh, axes, [x.ndim for x in smaller.inputs], orders)
        trial = Trial(smaller, layouts)
        mismatch = check(trial)
    except (HyperParallelError, ValueError, TypeError, IndexError, KeyError, ZeroDivisionError):
        return None
    return (trial, mismatch) if mismatch and _material(mismatch) else None


def _material(mismatch: Mismatch) -> bool:
    """More than the rounding that small integers, which nothing divides, bring in."""
    if mismatch.found is None or mismatch.found.dtype != mismatch.expected.dtype:
        return True
    return not agree(mismatch.found, mismatch.expected, approximate=True)


# -- the message -----------------------------------------------------------------------------------------------------


def message(trial: Trial, mismatch: Mismatch) -> str:
    """Operation, placements, mesh, what is wrong, and every value of the counterexample."""
    problem = trial.problem
    names = operand_names(problem)
    claim = ", ".join(f"{name} {layout}" for name, layout in zip(names, trial.layouts))
    results = ", ".join(str(layout) for layout in trial.inference.outputs)
    sizes = ", ".join(f"{k}={v}" for k, v in problem.setting.sizes.items())
    lines = [f"Wrong rule: {problem.declaration.name} with {claim} -> {results} on mesh {problem.mesh.mesh_shape} is "
             f"not sound ({mismatch.what}).",
             f"  call: {problem.pattern}" + (f"  with {sizes}" if sizes else "") + _converted(trial, names)]
    for name, layout, value, locals_ in zip(names, trial.layouts, problem.inputs, trial.locals_in):
        lines.append(f"  {name} = {text(value)}, held as {layout}: {_per_rank(locals_)}")
    lines += _outcome(trial, mismatch)
    return "\n".join(lines)


def _outcome(trial: Trial, mismatch: Mismatch) -> list:
    if mismatch.note and mismatch.expected is None:
        return [f"  {mismatch.note}"]
    lines = []
    if mismatch.what.startswith("forward"):
        for values, layout in zip(trial.locals_out, trial.inference.outputs):
            lines.append(f"  ranks compute {_per_rank(values)}, labelled {layout}")
    else:
        lines += [f"  cotangent of the result: {text(g)}" for g in trial.problem.cotangents if g is not None]
    where = "" if mismatch.rank is None else f" on rank {mismatch.rank}"
    lines.append(f"  right{where}: {text(mismatch.expected)}")
    if mismatch.found is not None:
        lines.append(f"  wrong{where}: {text(mismatch.found)}")
    return lines + ([f"  {mismatch.note}"] if mismatch.note else [])


def operand_names(problem: Problem) -> list:
    """Parameter names of the operands, members of a list numbered."""
    found = []
    for param in problem.declaration.params:
        slot = problem.pattern.tensors.get(param.name)
        if isinstance(slot, tuple):
            found += [f"{param.name}[{i}]" for i in range(len(slot))]
        elif slot is not None:
            found.append(param.name)
    return found


def _converted(trial: Trial, names) -> str:
    kinds = [f"{name} enters once" for name, axes in zip(names, trial.inference.once) if axes]
    kinds += [f"{name} varying" for name, axes in zip(names, trial.inference.varying) if axes]
    return f"; {', '.join(kinds)}" if kinds else "; no conversions"


def _per_rank(values) -> str:
    return "; ".join(f"rank {r} {text(v)}" for r, v in enumerate(values))


def text(value) -> str:
    """An array on one line, integers without a point."""
    value = np.asarray(value)
    if np.issubdtype(value.dtype, np.floating) and np.all(np.isfinite(value)) and np.all(value == np.rint(value)):
        value = value.astype(np.int64)
    shown = np.array2string(value, separator=", ", threshold=40, max_line_width=10 ** 6)
    return " ".join(shown.split()) + (f" (shape {value.shape})" if 0 in value.shape else "")

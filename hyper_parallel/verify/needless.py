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
"""Needless refusals: placements without a row for which a row would be sound.

Every conversion of replicas and every output placement is tried on what the ranks compute; a candidate that agrees
exactly with the global operation, forward and backward, on several meshes, sizes and draws, is listed.
"""
from __future__ import annotations

import itertools

import numpy as np

from hyper_parallel.core.shard.rules import R, Convert, Inference
from hyper_parallel.errors import LayoutError
from hyper_parallel.verify.check import check, check_forward
from hyper_parallel.verify.enumerate import layouts_of, show, universe
from hyper_parallel.verify.generate import seed_of, sizes_for
from hyper_parallel.verify.meshes import mesh_of
from hyper_parallel.verify.problem import Problem, Setting, Trial

MOST_REFUSED = 256  # per pattern: a seeded sample beyond
# (mesh shape, size class, seed): the first one filters, all of them confirm.
_DRAWS = (((2,), "uneven", 0), ((3,), "uneven", 1), ((2,), "even", 2), ((3,), "empty", 3),
          *(((2,), "uneven", seed) for seed in range(4, 12)), *(((3,), "even", seed) for seed in range(12, 16)),
          *(((2,), "empty", seed) for seed in range(16, 24)))


def needless(sweep, pattern, refused) -> list:
    """Texts of sound rows that the table lacks.

    Args:
        sweep: the running sweep, for declaration and reference.
        pattern: the argument pattern.
        refused: placement tuples on one axis that the rule refuses.
    """
    chosen = list(refused)
    if len(chosen) > MOST_REFUSED:
        rng = seed_of("needless", sweep.declaration.name, str(pattern))
        chosen = [chosen[i] for i in rng.choice(len(chosen), MOST_REFUSED, replace=False)]
    problems: dict = {}
    found = []
    if _says_nothing(_problem(sweep, pattern, _DRAWS[0], problems)):
        return found
    for operands in chosen:
        for converts, once, outputs in _candidates(_problem(sweep, pattern, _DRAWS[0], problems), operands):
            if sweep.declaration.inplace and outputs[0] != operands[0]:
                continue
            if all(_sound(_problem(sweep, pattern, draw, problems), operands, converts, once, outputs)
                   for draw in _DRAWS if draw[1] in pattern.modes):
                found.append(_text(operands, converts, once, outputs))
                break
    return found


def _says_nothing(problem: Problem) -> bool:
    """The results are one constant (no number is equal to 0.3, no finite one is infinite): any row would agree."""
    return all(np.array_equal(o, np.broadcast_to(o.flat[0], o.shape), equal_nan=o.dtype.kind == "f")
               for o in problem.outputs if o.size)


def _problem(sweep, pattern, draw: tuple, problems: dict) -> Problem:
    if draw not in problems:
        shape, mode, seed = draw
        setting = Setting(mesh_of(shape), sizes_for(pattern, shape, mode), seed)
        problems[draw] = sweep.problem(sweep.declaration, sweep.reference, pattern, setting)
    return problems[draw]


def _candidates(problem: Problem, operands: tuple):
    """(conversions, scalar enters once, output placements) that agree forward on the first draw."""
    replicas = [i for i, p in enumerate(operands) if p == R and problem.inputs[i].dtype != bool
                and i not in problem.signature.no_grad]
    scalars = (False, True) if _has_scalar(problem) else (False,)
    for kinds, once in itertools.product(itertools.product((Convert.VARYING, Convert.ENTER_ONCE),
                                                           repeat=len(replicas)), scalars):
        converts = [Convert.NONE] * len(operands)
        for i, kind in zip(replicas, kinds):
            converts[i] = kind
        for outputs in _agreeing(problem, operands, converts, once):
            yield tuple(converts), once, outputs


def _has_scalar(problem: Problem) -> bool:
    tensors = {param.name for param in problem.declaration.params if param.tensor}
    return any(isinstance(v, (int, float)) and not isinstance(v, bool) and name in tensors
               for name, v in problem.arguments.template.items())


def _agreeing(problem: Problem, operands, converts, once):
    """Output placements under which the ranks' results denote the global ones; outputs are judged together."""
    choices = [universe(o.ndim, o.dtype) for o in problem.outputs]
    if len(choices) > 1:
        candidates = [tuple(choice[k] for choice in choices) for k in range(min(map(len, choices)))]
    else:
        candidates = list(itertools.product(*choices))
    shared = None
    for outputs in candidates:
        trial = _trial(problem, operands, converts, once, outputs)
        if trial is None:
            continue
        if shared is not None and problem.bound.localize is None and problem.bound.kernel is None:
            trial.__dict__["runs"] = shared
        if check_forward(trial) is None:
            yield outputs
        shared = trial.__dict__.get("runs", shared)


def _trial(problem: Problem, operands, converts, once, outputs) -> Trial | None:
    mesh = problem.mesh
    layouts = layouts_of(mesh, [operands], [x.ndim for x in problem.inputs])
    results = layouts_of(mesh, [outputs], [o.ndim for o in problem.outputs])
    if layouts is None or results is None:
        return None
    inference = Inference(results, tuple((0,) if c is Convert.VARYING else () for c in converts),
                          tuple((0,) if c is Convert.ENTER_ONCE else () for c in converts), (0,) if once else (), {})
    return Trial(problem, layouts, inference)


def _sound(problem: Problem, operands, converts, once, outputs) -> bool:
    try:
        trial = _trial(problem, operands, converts, once, outputs)
        return trial is not None and check(trial) is None
    except (LayoutError, IndexError):  # at other sizes the result may have other dimensions
        return False


def _text(operands, converts, once, outputs) -> str:
    shown = ", ".join(show(p) + (" (once)" if c is Convert.ENTER_ONCE else "") for p, c in zip(operands, converts))
    return f"{shown}{', scalar once' if once else ''} -> {', '.join(map(show, outputs))}"

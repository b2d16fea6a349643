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
"""The two checks of a trial: its forward value, and its gradients in both conventions. Exact, zero tolerance."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyper_parallel.core.dtensor.denotation import denote, shards
from hyper_parallel.errors import LayoutError
from hyper_parallel.verify.meshes import coordinates
from hyper_parallel.verify.problem import Trial

CONVENTIONS = ("single_loss", "sum_of_ranks")
# A replica's parts of a cotangent under `sum_of_ranks`: no rank holds the whole, and their sum, in this order, is exact
# even behind an inexact derivative, because every weight is a power of two.
_PARTS = {1: (1,), 2: (2, -1), 3: (4, -2, -1), 4: (8, -4, -2, -1)}
ULPS = 4  # tolerance of re-associated rows, in units of the last place of the largest magnitude


@dataclass(frozen=True)
class Mismatch:
    """What a wrong row got wrong.

    Attributes:
        what: "forward", or "gradient of operand i (convention)".
        expected: the global value, or this rank's part of the gradient.
        found: what the row gives.
        note: how it shows, when there is no value to compare.
        rank: the rank whose value is shown, or None.
    """

    what: str
    expected: object = None
    found: object = None
    note: str = ""
    rank: int | None = None


def check(trial: Trial) -> Mismatch | None:
    """The first thing that is wrong with a trial, or None.

    Args:
        trial: a problem under layouts, with the outputs that a rule claims for them.
    """
    with np.errstate(all="ignore"):
        return check_forward(trial) or check_backward(trial)


# -- forward ---------------------------------------------------------------------------------------------------------


def check_forward(trial: Trial) -> Mismatch | None:
    """Local results, denoted on the claimed layouts, against the global results."""
    problem = trial.problem
    try:
        locals_out = trial.locals_out
    except (ValueError, IndexError, TypeError, ZeroDivisionError, KeyError, OverflowError) as error:
        return Mismatch("forward", note=f"the local operation fails on these shards: {type(error).__name__}: {error}")
    for j, (values, layout, expected) in enumerate(zip(locals_out, trial.inference.outputs, problem.outputs)):
        what = "forward" if len(locals_out) == 1 else f"forward (output {j})"
        found = _denoted(values, layout, expected.shape)
        if isinstance(found, str):
            return Mismatch(what, expected, None, found)
        if not agree(found, expected, problem.approximate):
            return Mismatch(what, expected, found)
    return None


def _denoted(values, layout, shape):
    """The global value, or why these locals denote none."""
    for r, (value, coordinate) in enumerate(zip(values, coordinates(layout.mesh.mesh_shape))):
        expected = layout.spec(tuple(shape)).local_shape(coordinate)
        if value.shape != expected:
            return f"rank {r} computes shape {value.shape}, its part of {layout} has shape {expected}"
    try:
        return denote(values, layout)
    except (LayoutError, ValueError, TypeError) as error:
        return str(error)


def agree(found: np.ndarray, expected: np.ndarray, approximate: bool = False, magnitude: float = 0) -> bool:
    """Equal shape, type and elements (nan equals nan); when approximate, within 4 ulp of the largest magnitude.

    Args:
        found: what a row gives.
        expected: what is right.
        approximate: sums were re-associated.
        magnitude: sum of the absolute terms, where they may have cancelled.
    """
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if (found == expected).all():
        return True
    if expected.dtype.kind != "f":
        return False
    if not approximate:
        return np.array_equal(found, expected, equal_nan=True)
    scale = np.max(np.abs(expected), initial=magnitude, where=np.isfinite(expected))
    return bool(np.allclose(found, expected, rtol=0, atol=ULPS * np.spacing(scale), equal_nan=True))


# -- backward --------------------------------------------------------------------------------------------------------


def check_backward(trial: Trial) -> Mismatch | None:
    """Gradients of every floating operand, in both conventions, against their labels."""
    if not backward_applies(trial):
        return None
    before, pulled = [], []
    for convention in CONVENTIONS:
        cotangents = [local_cotangents(trial, j, convention) for j in range(len(trial.inference.outputs))]
        if not _same(before, cotangents):
            pulled = [pull([None if g is None else g[r] for g in cotangents]) for r, (_, pull) in enumerate(trial.runs)]
            before = cotangents
        found = _check_convention(trial, convention, pulled)
        if found:
            return found
    return None


def backward_applies(trial: Trial) -> bool:
    """True when gradients exist and every pending op on the way has a backward rule."""
    pending = {op for layout in (*trial.layouts, *trial.inference.outputs) for op in layout.partial if op}
    return (trial.problem.has_gradients and "all" not in pending
            and all(pull is not None for _, pull in trial.runs))


def _same(a: list, b: list) -> bool:
    """The very same arrays, so that one pullback serves both conventions."""
    flat_a, flat_b = ([v for per_rank in c if per_rank is not None for v in per_rank] for c in (a, b))
    return len(a) == len(b) and len(flat_a) == len(flat_b) and all(p is q for p, q in zip(flat_a, flat_b))


def local_cotangents(trial: Trial, j: int, convention: str):
    """Per rank the cotangent of output j, by the table "tensor -> its local gradient"; None without gradient.

    Under `sum_of_ranks` a replica's cotangents are per-rank parts, whose sum over the ranks is the whole.
    """
    g = trial.problem.cotangents[j]
    if g is None:
        return None
    layout = trial.inference.outputs[j]
    return local_gradients(trial, g, layout, [outs[j] for outs, _ in trial.runs], convention)


def local_gradients(trial: Trial, g: np.ndarray, layout, values, convention: str) -> list:
    """Per rank what the layout of a tensor makes of the gradient g of its global value.

    Args:
        trial: whose problem remembers the answer.
        g: gradient of the global value.
        layout: layout of the tensor.
        values: the tensor's local values, for the tie rule of max and min, and for the factors of a product.
        convention: "single_loss" or "sum_of_ranks".
    """
    key = (id(g), layout, convention if _replica_axes(layout) else "any")
    cache = trial.problem.__dict__.setdefault("_cotangents", {})
    parts = cache.get(key)
    if parts is None:
        parts = cache[key] = _shared_out(g, layout, convention)
    slopes = own_slopes(layout, values)
    return parts if slopes is None else [part * slope for part, slope in zip(parts, slopes)]


def _shared_out(g, layout, convention: str) -> list:
    for axis, op in enumerate(layout.partial):
        if op == "avg":
            g = g / layout.mesh.mesh_shape[axis]
    parts = shards(g, layout.spec(g.shape))
    if convention == "sum_of_ranks":
        for axis in _replica_axes(layout):
            weights = _PARTS[layout.mesh.mesh_shape[axis]]
            parts = [part * weights[c[axis]] for part, c in zip(parts, coordinates(layout.mesh.mesh_shape))]
    return parts


def _replica_axes(layout) -> list:
    return [a for a, (dim, op) in enumerate(zip(layout.axis_dim, layout.partial)) if dim is None and not op]


def own_slopes(layout, values):
    """Per rank the slope of a pending max, min or product in its own value; None when none is pending.

    Of an extremum it is 1 where the rank attains it, lowest coordinate first; of a product, the product of the others.
    """
    axes = [a for a, op in enumerate(layout.partial) if op in ("max", "min", "prod")]
    if not axes:
        return None
    groups: dict = {}
    for r, coordinate in enumerate(coordinates(layout.mesh.mesh_shape)):
        groups.setdefault(tuple(c for a, c in enumerate(coordinate) if a not in axes), []).append(r)
    slopes: list = [None] * len(values)
    for ranks in groups.values():
        found = _SLOPES[layout.partial[axes[0]]]([values[r] for r in ranks])
        for r, slope in zip(ranks, found):
            slopes[r] = slope
    return slopes


def _attained(values, best) -> list:
    masks, taken = [], np.zeros(best.shape, bool)
    for value in values:
        masks.append((value == best) & ~taken)
        taken |= masks[-1]
    return masks


def _others(values) -> list:
    return [np.prod([v for j, v in enumerate(values) if j != i], 0) for i in range(len(values))]


_SLOPES = {"max": lambda values: _attained(values, np.max(values, 0)),
           "min": lambda values: _attained(values, np.min(values, 0)), "prod": _others}


def _check_convention(trial: Trial, convention: str, pulled) -> Mismatch | None:
    problem = trial.problem
    for i, g in enumerate(problem.gradients):
        if g is None or i in problem.signature.no_grad:
            continue
        grads = convert_back(trial, i, [p[i] for p in pulled], convention)
        found = _against_label(trial, i, g, grads, convention)
        if found:
            return found
    return None


def convert_back(trial: Trial, i: int, grads: list, convention: str) -> list:
    """Backward side of the conversions of operand i.

    VARYING: all-reduce in `single_loss`, identity in `sum_of_ranks`. ENTER_ONCE: identity in `single_loss`; in
    `sum_of_ranks` coordinate 0 keeps its part and the others, whose value did not enter, hold zeros.
    """
    inference = trial.inference
    if convention == "single_loss":
        for axis in inference.varying[i]:
            grads = all_reduced(grads, trial.mesh, axis)
        return grads
    return [np.zeros_like(g) if any(c[a] for a in inference.once[i]) else g for g, c in zip(grads, trial.coordinates)]


def all_reduced(values: list, mesh, axis: int) -> list:
    """Per rank the sum over the ranks that differ from it along the axis only."""
    keys = [c[:axis] + c[axis + 1:] for c in coordinates(mesh.mesh_shape)]
    total: dict = {}
    for key, value in zip(keys, values):
        total[key] = total[key] + value if key in total else value
    return [total[key] for key in keys]


def _against_label(trial: Trial, i: int, g, grads: list, convention: str) -> Mismatch | None:
    """Compare with the label of operand i's layout; parts of a replica are summed first in `sum_of_ranks`."""
    layout = trial.layouts[i]
    what = f"gradient of operand {i} ({convention})"
    expected = local_gradients(trial, g, layout, trial.locals_in[i], "single_loss")
    if convention == "sum_of_ranks":
        for axis in _replica_axes(layout):
            grads = all_reduced(grads, trial.mesh, axis)
    magnitude = sum(np.sum(np.abs(c)) for c in trial.problem.cotangents if c is not None)
    for r, (found, right) in enumerate(zip(grads, expected)):
        if not agree(found, right, trial.problem.approximate, magnitude):
            return Mismatch(what, right, found, "" if found.shape == right.shape else "wrong shape", r)
    return None

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
"""Public bug reports as executable cases: the table, the ranks and data of one case, and the judgement of its result.

A case names its data as numpy expressions on global values; its program is ours, in a `test_group_*.py`. A value is
right when the locals of every rank denote it, when every rank holds it after a gather, and when a second run, which
finds every plan in the cache, gives it again. Real processes can run a program too; each then checks its own local.
"""
from __future__ import annotations

import functools
import json
import pathlib
import re
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from mindspore import Tensor

from hyper_parallel import (
    DTensor, LayoutError, Partial, PartialError, Replicate, Shard, denote, distribute_tensor, gradient_convention,
    implicit_redistribution, init_device_mesh, record_collectives, set_gradient_convention, simulate, value_and_grad,
)
from hyper_parallel.core.dtensor.denotation import shards
from hyper_parallel.platform.platform import current_platform

CONVENTIONS = ("single_loss", "sum_of_ranks")
RIGHT, REFUSED = "right", "refused"
MAY_REFUSE = ("value_or_clean_error", "clean_error")

# Per tensor: label of its gradient on one axis, under either convention.
GRADIENT_LABELS = {
    "single_loss": {"R": "R", "P(sum)": "R", "P(avg)": "P(sum)", "P(max)": "P(sum)", "P(min)": "P(sum)"},
    "sum_of_ranks": {"R": "P(sum)", "P(sum)": "R", "P(avg)": "P(sum)", "P(max)": "P(sum)", "P(min)": "P(sum)"},
}


# -- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes:
        id: number of the case; numbers are not consecutive.
        group: letter of its group.
        accept: "value", "value_or_clean_error", "clean_error" or "property".
        kind: the fault that the case guards against.
        mesh: shape, axis names and, if they are not 0, 1, ..., the ranks.
        setup: numpy statements that make the data.
        tensors: name -> placements, outermost axis first, and after "=" the expression of one local value per rank.
        expected: name -> expression of the right global value.
        wrong: name -> expression of the value that a faulty system gives.
    """

    id: str
    group: str
    accept: str
    kind: str
    mesh: dict
    setup: tuple = ()
    tensors: dict = field(default_factory=dict)
    expected: dict = field(default_factory=dict)
    wrong: dict = field(default_factory=dict)

    @property
    def world(self) -> int:
        """Number of ranks that the case needs."""
        return max(self.mesh.get("ranks", range(int(np.prod(self.mesh["shape"]))))) + 1

    def names(self) -> dict:
        """The data by name, made anew."""
        known = dict(_PRELUDE)
        for statement in self.setup:
            exec(statement, known)  # pylint: disable=exec-used  # statements of our own table
        return known

    def value(self, expression: str) -> np.ndarray:
        """Value of an expression on the global data."""
        return np.asarray(eval(expression, self.names()))  # pylint: disable=eval-used  # as above


def _chunks(x, n: int, axis: int = 0) -> list:
    """Contiguous ceil-size chunks; the tail may be short or empty."""
    step = -(-x.shape[axis] // n)
    return np.split(x, [min(i * step, x.shape[axis]) for i in range(1, n)], axis)


def _log_softmax(x, axis: int = -1):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


_PRELUDE = {
    "np": np, "chunks": _chunks, "logsm": _log_softmax,
    "softmax": lambda x, axis=-1: np.exp(_log_softmax(x, axis)),
    "rms": lambda x, g, eps=1e-6: x / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps) * g,
    "relu": lambda x: np.where(x > 0, x, 0 * x),
}
_TABLE = json.loads((pathlib.Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))
CASES = {row["id"]: Case(**row) for row in _TABLE}


# -- comparing -------------------------------------------------------------------------------------------------------


def array_of(value) -> np.ndarray:
    """A plain value as an array."""
    return value.asnumpy() if isinstance(value, Tensor) else np.asarray(value)


def same(found, expected, what: str) -> None:
    """Shape, kind of element and value agree: integers and integer-valued floats exactly, other floats to rounding."""
    found, expected = array_of(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    assert found.dtype.kind == expected.dtype.kind, f"{what}: type {found.dtype}, expected {expected.dtype}"
    exact = expected.dtype.kind != "f" or np.array_equal(expected, np.round(expected))
    tolerance = 0 if exact else 1e-12 if found.dtype == np.float64 else 2e-6
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=False, err_msg=what)


def check(found, expected, what: str) -> None:
    """A result is the expected global value: as its locals denote it, and on every rank after a gather."""
    if not isinstance(found, DTensor):
        same(found, expected, what)
        return
    layout, mesh, locals_ = found.layout.value, found.device_mesh, found.numpy_locals()
    assert tuple(found.shape) == np.shape(expected), f"{what}: shape {found.shape}, expected {np.shape(expected)}"
    spec = layout.spec(tuple(found.shape))
    for position, part in zip(held_positions(mesh), locals_):
        right = shards(expected, spec)[position]
        assert part.shape == right.shape, f"{what}: {part.shape} at {position} under {layout}, expected {right.shape}"
        if not layout.is_partial:
            same(part, right, f"{what}: local at {position} under {layout}")
    if current_platform().simulated:
        same(denote(locals_, layout), expected, f"{what}: value of the locals under {layout}")
    whole = found.redistribute(mesh, [Replicate()] * mesh.ndim)
    for position, value in zip(held_positions(mesh), whole.numpy_locals()):
        same(value, expected, f"{what}: at {position} after a gather")


def held_positions(mesh) -> list:
    """Positions of the mesh whose locals this process holds: all in a simulation, its own on a real rank."""
    return [mesh.rank_list.index(rank) for rank in current_platform().positions(mesh) if rank in mesh.rank_list]


@dataclass(frozen=True)
class Refusal:
    """A call that was refused as it should be."""

    error: Exception


def refused(call, *operands, error=LayoutError, says: str = "") -> Refusal:
    """The call raises exactly such an error with such a text, before any collective."""
    with record_collectives() as log, pytest.raises(error) as caught:
        call(*operands)
    assert not log, f"refused only after {[c.op for c in log]}"
    assert says in str(caught.value), f"the message lacks {says!r}: {caught.value}"
    return Refusal(caught.value)


# -- ranks and data of one case --------------------------------------------------------------------------------------


def placements_of(text: str) -> list:
    """"S(0) R P(max)" as placements, one per mesh axis."""
    made = {"S": lambda dim: Shard(int(dim)), "P": Partial, "R": lambda _: Replicate()}
    return [made[kind](argument) for kind, argument in re.findall(r"([SRP])(?:\(([-\w]+)\))?", text)]


def text_of(tensor) -> str:
    """Placements of a DTensor in the notation of the table."""
    return " ".join(f"P({p.reduce_op})" if p.is_partial() else str(p) for p in tensor.placements)


class Job:
    """The mesh of a case, and its data as tensors on it."""

    def __init__(self, case: Case):
        self.case = case
        self.data = SimpleNamespace(**case.names())
        self.mesh = init_device_mesh("cpu", tuple(case.mesh["shape"]), mesh_dim_names=tuple(case.mesh["names"]),
                                     rank_list=case.mesh.get("ranks"))

    def whole(self, value, placements: str, mesh=None) -> DTensor:
        """A global value, distributed."""
        return distribute_tensor(Tensor(np.array(value)), mesh or self.mesh, placements_of(placements))

    def parts(self, locals_, placements: str, **options) -> DTensor:
        """The tensor whose local values are given, one per rank."""
        return DTensor.from_local(self.held(locals_), self.mesh, placements_of(placements), **options)

    def held(self, locals_):
        """What `from_local` takes here of one local value per rank: all of them, or a real rank's own."""
        tensors = [Tensor(np.array(locals_[p])) for p in held_positions(self.mesh)]
        return tensors if current_platform().simulated else tensors[0]

    def load(self, *names: str):
        """The tensors of these names, placed as the table says; one alone, several as a tuple."""
        made = []
        for name in names:
            placements, _, locals_ = self.case.tensors[name].partition(" = ")
            known = eval(locals_ or name, vars(self.data))  # pylint: disable=eval-used  # expression of our own table
            made.append(self.parts(known, placements) if locals_ else self.whole(known, placements))
        return made[0] if len(made) == 1 else tuple(made)

    def after_fix(self, name, call, operands, fix=DTensor.reduce_partial, error=PartialError,
                  says: str = "reduce_partial()") -> dict:
        """Results of a call that is refused as it stands, gives the value once the operands are fixed as the message
        says, and gives it as it stands where redistribution may be implicit.
        """
        refused(call, *operands, error=error, says=says)
        explicit = call(*(fix(t) if isinstance(t, DTensor) else t for t in operands))
        with implicit_redistribution():
            implicit = call(*operands)
        return {**_named(name, explicit), **_named(name, implicit, "@implicit")}

    def gathered(self, name, call, operands, **options) -> dict:
        """As `after_fix`, where the fix is to gather every operand."""
        to_all = [Replicate()] * self.mesh.ndim
        return self.after_fix(name, call, operands, lambda t: t.redistribute(self.mesh, to_all), LayoutError,
                              options.get("says", "redistribute"))

    def gradients(self, loss, suffix: str = "", **sources) -> dict:
        """Gradients of `loss(*sources)` by name, under both conventions, with the labels that the sources imply."""
        found = {}
        for convention in CONVENTIONS:
            with set_gradient_convention(convention):
                _, grads = value_and_grad(lambda *s: _seeded(loss(*s)), tuple(range(len(sources))))(*sources.values())
            for (name, source), grad in zip(sources.items(), grads):
                labels = [GRADIENT_LABELS[convention].get(p, p) for p in text_of(source).split()]
                assert text_of(grad).split() == labels, f"{name}, {convention}: {text_of(grad)}, expected {labels}"
                found[f"{name}@{suffix}{convention}"] = grad
        return found

    def local_gradients(self, loss, locals_) -> list:
        """Gradient of `loss(locals)` with respect to each rank's own plain local tensor."""
        plain = [Tensor(np.array(v)) for v in locals_]
        return list(value_and_grad(lambda *v: loss(list(v)), tuple(range(len(plain))))(*plain)[1])


def _named(name, results, suffix: str = "") -> dict:
    names = name if isinstance(name, tuple) else (name,)
    results = results if isinstance(name, tuple) else (results,)
    assert len(names) == len(results)
    return {f"{n}{suffix}": r for n, r in zip(names, results)}


def _seeded(loss):
    """A reduced loss with the seed of its convention: 1, or under sum_of_ranks one over the ranks that replicate it."""
    if gradient_convention() == "single_loss":
        return loss
    whole = loss.redistribute(loss.device_mesh, [Replicate()] * loss.device_mesh.ndim)
    return whole / float(loss.device_mesh.size())


# -- running ---------------------------------------------------------------------------------------------------------

PROGRAMS: dict = {}


def program(case_id: str):
    """Make a function of a `Job` the program of a case; it returns results by the names that the case expects.

    A suffix after "@" tells several ways to one value apart. A program without expected names checks all by itself.
    """
    def register(function):
        assert case_id in CASES and PROGRAMS.get(case_id, function).__name__ == function.__name__, case_id
        PROGRAMS[case_id] = function
        return function
    return register


def judge(case: Case, results: dict) -> str:
    """`RIGHT` or `REFUSED` for the results of a program.

    Raises:
        AssertionError: for a wrong value, a missing one, or a refusal that the case does not accept.
    """
    assert {name.partition("@")[0] for name in results} == set(case.expected), f"{case.id}: results {sorted(results)}"
    refusals = {name for name, result in results.items() if isinstance(result, Refusal)}
    assert not refusals or case.accept in MAY_REFUSE, f"{case.id} refuses {sorted(refusals)}"
    for name, result in results.items():
        if name not in refusals:
            check(result, case.value(case.expected[name.partition("@")[0]]), f"{case.id} {name}")
    return REFUSED if refusals else RIGHT


@functools.lru_cache(maxsize=None)
def outcome(case_id: str) -> str:
    """What a case gives, run twice: with plans to be made, and with plans at hand."""
    case = CASES[case_id]
    with simulate(case.world):
        found = {judge(case, PROGRAMS[case_id](Job(case)) or {}) for _ in ("cold", "warm")}
    assert len(found) == 1, f"{case_id}: {found}"
    return REFUSED if case.accept == "clean_error" else found.pop()


def programmed(group: str) -> list:
    """Ids of the group that have a program, in order."""
    return [case_id for case_id, case in CASES.items() if case.group == group and case_id in PROGRAMS]

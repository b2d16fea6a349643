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
"""Axis rules: what an operation declares about itself, and the one sound case ("row") that follows per mesh axis.

A declaration (`Signature`) says which letter every tensor dimension carries, how a letter that vanishes is reduced, and
how the operation treats unreduced operands. Rows are independent per mesh axis, so inference is one lookup per axis.

The identities behind the rows, with c running over the ranks of one axis:
  shard        op acts letter by letter:         op(concat_c x_c) = concat_c op(x_c)
  contraction  a letter summed away:             op(concat_c x_c, concat_c y_c) = sum_c op(x_c, y_c)
  multilinear  a term linear in each operand:    t(sum_c x_c, y) = sum_c t(x_c, y); likewise for the mean
  additive     a sum of terms:  sum_c a_c + b = sum_c (a_c + [c == 0] b);  mean_c a_c + b = mean_c (a_c + b)
  monotone     f(max_c x_c) = max_c f(x_c) for a non-decreasing f; a non-increasing one swaps max and min. The gradient
               goes to one rank that attains f(max_c x_c); so f' must be a function of f, which it is not where f turns
               flat with its upper slope: clamp keeps no pending extremum, maximum(x, y) keeps the maximum alone
  movement     elements are copied, never combined: any elementwise reduction commutes with it
"""
from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from hyper_parallel.core.dtensor.layout_value import LayoutValue, layout_value
from hyper_parallel.errors import LayoutError, MeshError, PartialError

R = "R"
LINEAR_OPS = ("sum", "avg")
SWAPPED = {"max": "min", "min": "max"}
_IDEMPOTENT = ("max", "min", "all")


class Convert(Enum):
    """What a replicated operand undergoes on one axis before the local op; exactly one per operand and row."""

    NONE = "none"
    VARYING = "varying"  # identity forward, all-reduce backward: a replica that meets sharded or pending work
    ENTER_ONCE = "enter once"  # R -> P(sum): coordinate 0 keeps its value, the others contribute zeros


@dataclass(frozen=True, eq=False)
class Signature:
    """What an operation declares about one pattern of its arguments. Compared by identity: binders intern it.

    Attributes:
        name: operation name, for messages.
        inputs: per tensor operand the letter of every dimension; None marks one that can never be cut.
        outputs: the same per output.
        reduces: letter -> "sum", "max", "min", "prod" or "all", for letters that vanish and whose shards combine so.
        terms: the op is a sum of terms, each linear in every operand that it lists; empty means not linear.
        monotone: per operand +1 (non-decreasing), -1 (non-increasing) or 0; empty means none.
        keeps: pending extrema that commute with the monotone map in value and in gradient.
        joint: reduce ops under which several operands may be pending at once.
        movement: elements are only moved; every pending reduction commutes with that.
        constant: a scalar is added, which must enter once under a pending sum.
        no_grad: operands (indices, masks) that carry no gradient.
        frozen: letters that can never be cut, whatever their dimension carries elsewhere.
        commutes: reduce ops that the op commutes with though it is not monotone: amax with max, prod with prod.
        shape_only: operands of which only the shape is read; their pending ops and letterless cuts do not matter.
        conditions: letter -> (sizes of the axes that cut it) -> why that cut has no rule, or None.
    """

    name: str
    inputs: tuple
    outputs: tuple
    reduces: dict = field(default_factory=dict)
    terms: tuple = ()
    monotone: tuple = ()
    keeps: tuple = ("max", "min")
    joint: tuple = ()
    movement: bool = False
    constant: bool = False
    no_grad: frozenset = frozenset()
    frozen: frozenset = frozenset()
    commutes: tuple = ()
    shape_only: frozenset = frozenset()
    conditions: dict = field(default_factory=dict)
    table: dict = field(default_factory=dict, repr=False)

    def letters(self) -> list:
        """Letters that may be cut, in order of appearance."""
        seen = dict.fromkeys(c for dims in self.inputs for c in dims if c is not None)
        return [c for c in seen if c not in self.frozen and self._everywhere_known(c)]

    def _everywhere_known(self, letter) -> bool:
        return letter in self.reduces or all(letter in dims for dims in self.outputs)

    def row(self, operands: tuple) -> Row | None:
        """The sound case for these placements of the operands on one axis, or None."""
        try:
            return self.table[operands]
        except KeyError:
            return self.table.setdefault(operands, _derive_read(self, operands))


@dataclass(frozen=True)
class Row:
    """One sound case on one axis: operand placements, their conversions, output placements."""

    operands: tuple
    converts: tuple
    outputs: tuple
    constant_once: bool = False


def _derive_read(sig: Signature, operands: tuple) -> Row | None:
    """As `_derive`, with operands of which only the shape is read taken as replicas where that is all they say."""
    if not sig.shape_only:
        return _derive(sig, operands)
    read = tuple(R if i in sig.shape_only and (p[0] == "P" or p == ("S", None)) else p for i, p in enumerate(operands))
    row = _derive(sig, read)
    return row and Row(operands, row.converts, row.outputs, row.constant_once)


def _derive(sig: Signature, operands: tuple) -> Row | None:
    letters = {p[1] for p in operands if p[0] == "S"}
    pending = {p[1] for p in operands if p[0] == "P"}
    if not letters and not pending:
        return Row(operands, (Convert.NONE,) * len(operands), (R,) * len(sig.outputs))
    if not letters <= set(sig.letters()) or len(letters) > 1 or len(pending) > 1:
        return None
    if not pending:
        return _shard_row(sig, operands, letters.pop())
    if letters or pending <= set(LINEAR_OPS):
        return _linear_row(sig, operands, pending.pop(), letters)
    return _ordered_row(sig, operands, pending.pop())


def _varying(sig: Signature, operands: tuple) -> tuple:
    return tuple(Convert.VARYING if p == R and i not in sig.no_grad else Convert.NONE for i, p in enumerate(operands))


def _shard_row(sig: Signature, operands: tuple, letter) -> Row | None:
    if any((p == ("S", letter)) != (letter in dims) for p, dims in zip(operands, sig.inputs)):
        return None
    op = sig.reduces.get(letter)
    if op == "sum" and sig.terms:
        return _linear_row(sig, operands, "sum", {letter})
    outputs = tuple(("S", letter) if letter in dims else ("P", op) for dims in sig.outputs)
    return Row(operands, _varying(sig, operands), outputs)


def _linear_row(sig: Signature, operands: tuple, op: str, letters: set) -> Row | None:
    """The pending row of a sum of multilinear terms: every term is pending in `op`, or a lone replica that enters."""
    if not _summed(sig, op, letters) or not _others_replicated(sig, operands, letters):
        return None
    replicas = [term for term in sig.terms if all(operands[i] == R for i in term)]
    if not all(term in replicas or _is_addend(sig, operands, term, letters) for term in sig.terms):
        return None
    if any(len(term) > 1 for term in replicas):  # no single operand stands for the term, so it cannot enter once
        return None
    converts = list(_varying(sig, operands))
    for term in replicas if op == "sum" else ():
        converts[term[0]] = Convert.ENTER_ONCE
    return Row(operands, tuple(converts), (("P", op),) * len(sig.outputs), sig.constant and op == "sum")


def _summed(sig: Signature, op: str, letters: set) -> bool:
    """Letters cut on the axis are summed away, which a pending sum can take in."""
    return not letters or (op == "sum" and all(sig.reduces.get(letter) == "sum" for letter in letters))


def _others_replicated(sig: Signature, operands: tuple, letters: set) -> bool:
    """Operands in which the op is not linear (divisors, conditions, indices) are whole, and carry no cut letter."""
    linear = {i for term in sig.terms for i in term}
    return all(p == R and not letters.intersection(sig.inputs[i]) for i, p in enumerate(operands) if i not in linear)


def _is_addend(sig: Signature, operands: tuple, term: tuple, letters: set) -> bool:
    """The term gives an addend on every rank: by one pending operand, or by a letter cut in all that carry it."""
    pending = sum(operands[i][0] == "P" for i in term)
    if not any(operands[i][0] == "S" for i in term):
        return pending == 1
    return not pending and all((operands[i][0] == "S") == bool(letters & set(sig.inputs[i])) for i in term)


def _ordered_row(sig: Signature, operands: tuple, op: str) -> Row | None:
    """The pending row of a monotone map, or of pure movement."""
    pending = [i for i, p in enumerate(operands) if p[0] == "P"]
    direction = _direction(sig, pending) if op in sig.keeps else 0
    if sig.no_grad.intersection(pending) or not (direction or sig.movement or op in sig.commutes):
        return None
    if len(pending) > 1 and op not in sig.joint and not sig.movement:
        return None
    if op not in _IDEMPOTENT and _has_replica(sig, operands):
        return None
    op = SWAPPED[op] if direction < 0 else op
    return Row(operands, _varying(sig, operands), (("P", op),) * len(sig.outputs))


def _has_replica(sig: Signature, operands: tuple) -> bool:
    return any(p == R for i, p in enumerate(operands) if i not in sig.no_grad)


def _direction(sig: Signature, pending: list) -> int:
    """+1 or -1 where the op rises or falls with all pending operands alike, else 0."""
    found = {sig.monotone[i] if sig.monotone else 0 for i in pending}
    return found.pop() if len(found) == 1 else 0


# -- inference over all axes -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Inference:
    """What follows from a signature and the layouts of its operands.

    Attributes:
        outputs: layout of every output.
        varying: per operand the mesh axes on which a replica becomes varying.
        once: per operand the mesh axes on which it enters once.
        constant_once: the mesh axes on which an added scalar enters once.
        reduced: letters that are cut and reduced, with their mesh axes.
    """

    outputs: tuple
    varying: tuple
    once: tuple
    constant_once: tuple
    reduced: dict


def infer(sig: Signature, layouts: list[LayoutValue]) -> Inference:
    """Layouts of the outputs, and the conversions of the operands, by one row lookup per mesh axis.

    Args:
        sig: the bound signature.
        layouts: one layout per tensor operand, all on one mesh.

    Raises:
        MeshError: when operands live on different meshes.
        PartialError: when a pending operand has no sound row.
        LayoutError: when cuts have no sound row, or mesh axes cut one dimension in different orders.
    """
    mesh = layouts[0].mesh
    for i, layout in enumerate(layouts):
        if layout.mesh is not mesh and not layout.mesh.matches(mesh):
            raise MeshError(f"{sig.name}: operand 0 lives on {mesh}, operand {i} on {layout.mesh}. Operands of one "
                            f"operation must share one mesh: bring the data over with full_tensor() and "
                            f"distribute_tensor(data, mesh, placements).")
    cuts = _letter_cuts(sig, layouts)
    _check_conditions(sig, cuts, mesh)
    rows = []
    for axis in range(mesh.ndim):
        operands = tuple(on_axis(sig.inputs[i], layout, axis) for i, layout in enumerate(layouts))
        row = sig.row(operands)
        if row is None:
            raise refusal(sig, layouts, axis)
        rows.append(row)
    outputs = tuple(_output(sig, j, rows, cuts, mesh) for j in range(len(sig.outputs)))
    return Inference(outputs, _axes(rows, len(layouts), Convert.VARYING), _axes(rows, len(layouts), Convert.ENTER_ONCE),
                     tuple(a for a, row in enumerate(rows) if row.constant_once),
                     {letter: axes for letter, axes in cuts.items() if letter in sig.reduces})


def on_axis(letters: tuple, layout: LayoutValue, axis: int):
    if layout.partial[axis]:
        return ("P", layout.partial[axis])
    dim = layout.axis_dim[axis]
    return R if dim is None else ("S", letters[dim])


def _letter_cuts(sig: Signature, layouts) -> dict:
    """Letter -> the ordered axes that cut it; all operands that carry a cut letter must agree on the order."""
    cuts: dict = {}
    for i, layout in enumerate(layouts):
        for letter, axes in zip(sig.inputs[i], layout.dims):
            if not axes or letter is None:
                continue
            known = cuts.setdefault(letter, axes)
            if known != axes and sorted(known) == sorted(axes):
                names = [[layout.mesh.axis_name(a) for a in order] for order in (known, axes)]
                raise LayoutError(f"{sig.name}: one dimension is cut in the order {names[0]} in one operand and "
                                  f"{names[1]} in another, so their chunks do not match. Redistribute one of them to "
                                  f"the other's layout: x.redistribute(mesh, y.placements).")
    return cuts


def _check_conditions(sig: Signature, cuts: dict, mesh) -> None:
    """Refuse cuts whose axis sizes do not suit the operation."""
    for letter, condition in sig.conditions.items():
        if letter in cuts:
            reason = condition(tuple(mesh.mesh_shape[a] for a in cuts[letter]))
            if reason:
                axes = ", ".join(repr(mesh.axis_name(a)) for a in cuts[letter])
                raise LayoutError(f"{sig.name}: {reason} Gather it first: x.redistribute(mesh, placements) with "
                                  f"Replicate() on {axes}.")


def _output(sig: Signature, j: int, rows, cuts: dict, mesh) -> LayoutValue:
    partial = tuple(row.outputs[j][1] if row.outputs[j][0] == "P" else None for row in rows)
    dims = tuple(cuts.get(letter, ()) if letter is not None else () for letter in sig.outputs[j])
    try:
        return layout_value(mesh, dims, partial)
    except LayoutError as error:
        raise type(error)(f"{sig.name}: {error}") from None


def _axes(rows, count: int, convert: Convert) -> tuple:
    return tuple(tuple(a for a, row in enumerate(rows) if row.converts[i] is convert) for i in range(count))


# -- refusals --------------------------------------------------------------------------------------------------------


def refusal(sig: Signature, layouts, axis: int) -> LayoutError:
    """The error for operands without a sound row: what was found, the rule it breaks, and the call that fixes it."""
    mesh = layouts[0].mesh
    found = ", ".join(f"operand {i} {layout.short(axis)}" for i, layout in enumerate(layouts))
    head = f"{sig.name} has no sound rule on mesh axis {mesh.axis_name(axis)!r} for {found}."
    pending = [i for i, layout in enumerate(layouts) if layout.partial[axis]]
    if pending:
        return PartialError(f"{head} {_partial_reason(sig, layouts, axis, pending)} Reduce operand {pending[-1]} "
                            f"first: x.reduce_partial(), or x.redistribute(mesh, placements) without that Partial.")
    return LayoutError(f"{head} {_shard_reason(sig, layouts, axis)}")


def _partial_reason(sig: Signature, layouts, axis: int, pending: list) -> str:
    op = layouts[pending[0]].partial[axis]
    if op in LINEAR_OPS and not sig.terms:
        return f"{sig.name} is not linear, so it does not commute with a pending {op}."
    if op in SWAPPED and op not in sig.keeps and sig.monotone:
        return (f"Where the result stops following a pending {op}, its gradient could reach a rank that does not hold "
                f"the {op}.")
    if op not in LINEAR_OPS:
        return f"A pending {op} commutes only with maps that are monotone in (or only move) that operand."
    if len({layouts[i].partial[axis] for i in pending}) > 1:
        return "Pending sums and means cannot be combined before they are reduced."
    if any(layout.axis_dim[axis] is not None for layout in layouts):
        return "A pending operand holds addends of the whole value; it cannot meet chunks cut along the same axis."
    if len(pending) > 1:
        return "The product of two pending sums has cross terms that no rank computes."
    return f"The operation is not linear in operand {pending[0]}, or another term could not enter just once."


def _shard_reason(sig: Signature, layouts, axis: int) -> str:
    for i, layout in enumerate(layouts):
        dim = layout.axis_dim[axis]
        if dim is None:
            continue
        letter = sig.inputs[i][dim]
        if letter is None or letter not in sig.letters():
            return (f"Dimension {dim} of operand {i} must be whole on every rank here (it is acted on, or broadcast). "
                    f"Gather it first: x.redistribute(mesh, [... Replicate() on {layout.mesh.axis_name(axis)!r} ...]).")
        partner = next((j for j, dims in enumerate(sig.inputs) if letter in dims
                        and layouts[j].axis_dim[axis] != dims.index(letter)), None)
        if partner is not None:
            where = sig.inputs[partner].index(letter)
            name = layout.mesh.axis_name(axis)
            return (f"Dimension {dim} of operand {i} and dimension {where} of operand {partner} are the same dimension "
                    f"and must be cut alike. Redistribute operand {partner}: x.redistribute(mesh, [... "
                    f"Shard({where}) on {name!r} ...]), or gather operand {i}: x.redistribute(mesh, [... Replicate() "
                    f"on {name!r} ...]).")
    cut = [i for i, layout in enumerate(layouts) if layout.axis_dim[axis] is not None]
    name = layouts[0].mesh.axis_name(axis)
    return (f"One axis cannot cut two different dimensions of the result. Gather operand {cut[-1]} there: "
            f"x.redistribute(mesh, [... Replicate() on {name!r} ...]).")

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
"""A small exact check of layout rules, in numpy: every placement of every operand of one call on one mesh.

`sound_rows` gives the rows that a declaration accepts for a call, one line of text each ("S0 R -> S0", "sum sum ->
sum"), after computing each of them: operands are realised per rank so that no rank holds the answer, conversions are
applied, the local operation runs per rank with its localised arguments, and what the results denote is compared with
the operation on the global values.
"""
from __future__ import annotations

import itertools

import numpy as np

from hyper_parallel.core.dtensor.denotation import denote
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.core.shard.declaration import Operand, Place
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
from hyper_parallel.core.shard.rules import infer
from hyper_parallel.errors import LayoutError
from tests.ut.core.shard.ops.numpy_ops import FORMS, NUMPY

OPS = ("sum", "avg", "max", "min", "prod", "all")
_MESHES: dict = {}


def mesh_of(*shape: int) -> DeviceMesh:
    """A mesh of this shape over ranks 0, 1, ..., without a process group."""
    if shape not in _MESHES:
        ranks = np.arange(int(np.prod(shape))).reshape(shape)
        names = ("a", "b", "c")[:len(shape)]
        _MESHES[shape] = DeviceMesh("cpu", ranks, mesh_dim_names=names, _init_backend=False)
    return _MESHES[shape]


class Case:
    """One call: an operation and its arguments; arrays are operands.

    Args:
        name: operation name.
        values: parameter -> array, list of arrays, index tuple with an array, or static value.
    """

    def __init__(self, name: str, **values):
        self.name, self.values = name, values
        self.declaration = get_distributed_op(name).declaration
        self.arrays = [a for v in values.values() for a in _arrays(v)]

    def bound(self, like=None):
        """The call bound to global shapes and element types; `like` replaces the arrays."""
        arrays = iter(self.arrays if like is None else like)
        seen = {p: _each(v, lambda _: _operand(next(arrays))) for p, v in self.values.items()}
        return self.declaration.bind(self.declaration.call(seen))

    def run(self, arrays, changes=None, form=None):
        """The operation in numpy on these arrays; a tuple of results."""
        left = iter(arrays)
        values = {p.name: p.default for p in self.declaration.params}
        values.update({p: _each(v, lambda _: next(left)) for p, v in self.values.items()})
        values.update(changes or {})
        result = FORMS[form[0]](values, **form[1]) if form else NUMPY[self.name](values)
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _arrays(value) -> list:
    members = value if isinstance(value, (tuple, list)) else (value,)
    return [m for m in members if isinstance(m, np.ndarray)]


def _each(value, change):
    if isinstance(value, (tuple, list)):
        return type(value)(change(m) if isinstance(m, np.ndarray) else m for m in value)
    return change(value) if isinstance(value, np.ndarray) else value


def _operand(array) -> Operand:
    return Operand(array.shape, str(array.dtype))


# -- layouts and the locals that stand for a value -------------------------------------------------------------------


def layout_of(mesh, ndim: int, placements: tuple):
    """The layout of one text per axis: R, S0, sum ...; several cuts of one dim nest in axis order."""
    dims = [tuple(a for a, p in enumerate(placements) if p == f"S{d}") for d in range(ndim)]
    return layout_value(mesh, dims, [p if p in OPS else None for p in placements])


def realise(value, layout, rng) -> list:
    """Per-rank arrays that denote `value`; with a pending reduction no rank holds the answer."""
    mesh, spec = layout.mesh, layout.spec(value.shape)
    whole = {(): value}
    for axis in reversed(range(mesh.ndim)):
        op, n = layout.partial[axis], mesh.mesh_shape[axis]
        grown = {}
        for rest, v in whole.items():
            for c, part in enumerate(_addends(op, v, n, rng) if op else [v] * n):
                grown[(c, *rest)] = part
        whole = grown
    return [whole[c][tuple(slice(b, b + k) for b, k in spec.area(c))] for c in np.ndindex(*mesh.mesh_shape)]


def _addends(op: str, value, n: int, rng) -> list:
    if op in ("sum", "avg"):
        parts = [rng.integers(-9, 10, value.shape) * 24 for _ in range(n - 1)]
        total = value * n if op == "avg" else value
        return [np.asarray(p).astype(value.dtype) for p in (*parts, total - sum(parts))]
    holder = rng.integers(0, n, value.shape)
    if op == "all":
        others = [rng.integers(0, 2, value.shape) > 0 for _ in range(n)]
        return [np.where(holder == c, value, value | others[c]) for c in range(n)]
    if op == "prod":
        signs = [rng.choice([-1, 1], value.shape) for _ in range(n)]
        total = np.prod(signs, 0)
        return [np.where(holder == c, value * total * s, s).astype(value.dtype) for c, s in enumerate(signs)]
    if value.dtype == bool:
        return [np.where(holder == c, value, op == "min") for c in range(n)]
    step = 1 if op == "min" else -1
    return [np.where(holder == c, value, value + step * rng.integers(1, 9, value.shape)).astype(value.dtype)
            for c in range(n)]


# -- the check -------------------------------------------------------------------------------------------------------


def check(case: Case, mesh, placements, rng):
    """Outputs' layouts of one combination, computed and compared; raises LayoutError when the rule refuses."""
    arrays = case.arrays
    if any("all" in p for p in placements):
        arrays = [_boolean(a, p) for a, p in zip(case.arrays, placements)]
    bound = case.bound(arrays)
    layouts = [layout_of(mesh, a.ndim, p) for a, p in zip(arrays, placements)]
    inference = infer(bound.signature, layouts)
    locals_ = [realise(a, layout, rng) for a, layout in zip(arrays, layouts)]
    in_specs = tuple(layout.spec(a.shape) for layout, a in zip(layouts, arrays))
    out_specs = tuple(layout.spec(s) for layout, s in zip(inference.outputs, bound.out_shapes))
    results = []
    for rank, coordinate in enumerate(np.ndindex(*mesh.mesh_shape)):
        place = Place(coordinate, in_specs, out_specs, inference)
        mine = [_entered(v[rank], coordinate, once) for v, once in zip(locals_, inference.once)]
        outs = case.run(mine, bound.localize and bound.localize(place), bound.kernel and bound.kernel(place))
        for j, out in enumerate(outs):
            assert np.shape(out) == place.out_shape(j), (case.name, placements, coordinate, np.shape(out))
        results.append(outs)
    exact = bool(bound.signature.terms) or bound.signature.movement
    for j, want in enumerate(case.run(arrays)):
        _compare(denote([r[j] for r in results], inference.outputs[j]), want, exact, (case.name, placements))
    return inference.outputs


def _boolean(array, placements):
    """An operand of a call with a pending conjunction: numbers become booleans, unless they are addends or indices."""
    return array > 0 if array.dtype.kind == "f" and not {"sum", "avg", "prod"} & set(placements) else array


def _entered(value, coordinate, once):
    return np.zeros_like(value) if any(coordinate[a] for a in once) else value


def _compare(found, want, exact: bool, what) -> None:
    assert found.shape == np.shape(want), (what, found.shape, np.shape(want))
    if exact:
        assert np.array_equal(found, want), what
    else:
        np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12, err_msg=str(what))


def choices(array) -> list:
    """All placements of one operand on one axis, as text; sums of booleans and conjunctions of indices do not exist."""
    cuts = ["R"] + [f"S{d}" for d in range(array.ndim)]
    if array.dtype == bool:
        return cuts + ["max", "min", "all"]
    return cuts + [op for op in OPS if op != "avg" or array.dtype.kind == "f"]


def sound_rows(case: Case, sizes=(2, 3)) -> set:
    """The accepted combinations on one axis, each computed on meshes of these sizes; all-replica is left out."""
    rng, found = np.random.default_rng(7), {}
    for n in sizes:
        rows = set()
        for placements in itertools.product(*(choices(a) for a in case.arrays)):
            if set(placements) == {"R"}:
                check(case, mesh_of(n), [(p,) for p in placements], rng)
                continue
            try:
                outs = check(case, mesh_of(n), [(p,) for p in placements], rng)
            except LayoutError:
                continue
            rows.add(" ".join(placements) + " -> " + " ".join(_text(o, 0) for o in outs))
        found[n] = rows
    return set.union(*found.values())


def _text(layout, axis: int) -> str:
    dim = layout.axis_dim[axis]
    return layout.partial[axis] or ("R" if dim is None else f"S{dim}")


def check_pairs(case: Case, rows: set, count=12) -> int:
    """Compute a seeded sample of pairs of rows on a (2, 2) mesh; the number of pairs that the rule accepts."""
    rng = np.random.default_rng(11)
    rows, accepted = sorted(rows), 0
    pairs = [(a, b) for a in rows for b in rows]
    for i in rng.permutation(len(pairs))[:count]:
        left, right = (row.partition(" -> ")[0].split() for row in pairs[i])
        try:
            check(case, mesh_of(2, 2), list(zip(left, right)), rng)
        except LayoutError:
            continue
        accepted += 1
    return accepted

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
"""Writing at positions that a tensor of indices names: scatter, index_add, index_put and kin.

One mesh axis; x, index, source -> result (k: the dimension written in, whole; d: any other; i: of what is added):
    S(d), S(d), S(d) -> S(d)
    replaced:   elements come from x or from source: P(op), R, P(op) -> P(op); R on one side enters a pending sum once
    added:      P(sum), R, P(sum) -> P(sum) likewise, and R, S(i), S(i) -> P(sum), x enters once, because
                x + sum_i e[index_i] source_i is a sum over the shards of i
Where the dimension written in is cut, no rank knows which of the others' rows it would have to write: refused.
"""
from __future__ import annotations

import dataclasses
import functools

from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters, normal_dim
from hyper_parallel.core.shard.ops.nature import is_scalar, sign_of
from hyper_parallel.core.shard.ops.parallel_index import put_signature
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError

ADDED = "i"  # prefix of the letters of what is added up
_REDUCTIONS = {0: "none", 1: "add", None: "none", "none": "none", "add": "add"}


@dataclasses.dataclass(frozen=True, eq=False)
class AddedAt(Signature):
    """A sum of terms, one of which is added at indices.

    Attributes:
        terms: the terms where the indices are whole.
        cut_terms: the terms where the indices are cut together with what is added.
    """

    cut_terms: tuple = ()

    @functools.cached_property
    def _cut(self) -> Signature:
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(Signature) if f.init and f.name != "table"}
        return Signature(**{**fields, "terms": self.cut_terms})

    def row(self, operands: tuple):
        """A row of either reading; indices are never pending, and cut exactly where what is added is."""
        cut = {p[1] for p in operands if p[0] == "S"} & set(self.reduces)
        if any(operands[i][0] == "P" or cut & set(self.inputs[i]) and operands[i][0] != "S" for i in self.no_grad):
            return None
        return super().row(operands) or self._cut.row(operands)


@functools.lru_cache(maxsize=2048)
def added_signature(name: str, x: tuple, index: tuple, source: tuple) -> Signature:
    """x plus `source` at the positions that `index` names; letters of the indices that x lacks are summed."""
    gone = {c for c in (*index, *source) if c is not None} - set(x)
    return AddedAt(name, (x, index, source), (x,), reduces=dict.fromkeys(gone, "sum"), terms=((0,), (2,)),
                   cut_terms=((0,), (1, 2)), monotone=(1, 0, 0), no_grad=frozenset((1,)))


def _once(call: Call, param: str, constant: bool):
    """`localize` of a scalar that is written into a pending sum once."""
    if not constant:
        return None
    zero = {param: type(call[param])(0)}

    def localize(place) -> dict:
        return zero if any(place.coordinate[a] for a in place.inference.constant_once) else {}

    return localize


def _written(call: Call, x, index, value, param: str, added: bool = False) -> Bound:
    """The bound write of an operand or a scalar with these letters."""
    shape = call["input"].shape
    if value is None:
        if not is_scalar(call[param]):
            raise LayoutError(f"{call.name}: {param!r} must be a number or a DTensor. Got {call[param]!r}.")
        constant = call[param] != 0
        return Bound(put_signature(call.name, x, index, None, not added, constant), (shape,),
                     localize=_once(call, param, constant))
    if added:
        return Bound(added_signature(call.name, x, index, value), (shape,))
    return Bound(put_signature(call.name, x, index, value, True, False), (shape,))


# -- one index per element -------------------------------------------------------------------------------------------


def scatterer(param: str, added: bool = False):
    """The binder of x[index[i][j]][j] = source[i][j] along `dim`; x, index and source have one rank."""

    def bind(call: Call) -> Bound:
        x, index, source = call["input"], call["index"], call[param]
        dim = normal_dim(call.name, call["dim"], len(x.shape))
        adds = added or _reduction(call) == "add"
        given = [x, index] + ([source] if isinstance(source, Operand) else [])
        if any(len(o.shape) != len(x.shape) for o in given):
            raise LayoutError(f"{call.name}: index and {param} must have the rank of {x.shape}. "
                              f"Got {[o.shape for o in given[1:]]}.")
        names = tuple(c if i != dim and len({o.shape[i] for o in given}) == 1 else None
                      for i, c in enumerate(letters(len(x.shape))))
        own = _with(names, dim, ADDED) if adds and given[-1].shape[dim] == index.shape[dim] else names
        return _written(call, names, own, own if len(given) == 3 else None, param, adds)

    return bind


def _reduction(call: Call) -> str:
    reduce = call.values.get("reduce", 0)
    if reduce not in _REDUCTIONS:
        raise LayoutError(f"{call.name}: reduce={reduce!r} has no rule; the result would depend on the order of "
                          f"writing. Use reduce='none' or 'add'.")
    return _REDUCTIONS[reduce]


def _with(names: tuple, dim: int, letter) -> tuple:
    return names[:dim] + (letter,) + names[dim + 1:]


# -- one index per slice ---------------------------------------------------------------------------------------------


def slice_writer(param: str, added: bool = False):
    """The binder of writes of slices of `dim`, named by a 1-D index; `source` has a slice per index."""

    def bind(call: Call) -> Bound:
        x, index, source = call["input"], call["index"], call[param]
        dim = normal_dim(call.name, call["dim"], len(x.shape))
        if len(index.shape) > 1:
            raise LayoutError(f"{call.name}: the index must have one dimension. Got {index.shape}.")
        if added and sign_of(call.values.get("alpha", 1)) is None:
            raise LayoutError(f"{call.name}: alpha must be a finite number. Got {call['alpha']!r}.")
        names = _with(letters(len(x.shape)), dim, None)
        ids = (ADDED if added else None,) * len(index.shape)
        if not isinstance(source, Operand) or not source.shape:
            return _written(call, names, ids, () if isinstance(source, Operand) else None, param, added)
        if source.exact and x.exact and _with(source.shape, dim, index.shape[0]) != _with(x.shape, dim, index.shape[0]):
            raise LayoutError(f"{call.name}: {param} {source.shape} must have the shape of {x.shape} but for {dim}.")
        return _written(call, names, ids, _with(names, dim, ids[0] if ids else None), param, added)

    return bind


def bind_index_put(call: Call) -> Bound:
    """x[i, j, ...] = values, or += with `accumulate`; the indexed dimensions and the indices must be whole."""
    x, indices, values = call["input"], call["indices"], call["values"]
    indices = indices if isinstance(indices, tuple) else (indices,)
    lead = tuple(max(sizes) for sizes in zip(*(i.shape for i in indices)))
    if len({len(i.shape) for i in indices}) != 1 or len(indices) > len(x.shape):
        raise LayoutError(f"{call.name}: the indices must have one rank and be no more than the dimensions of "
                          f"{x.shape}. Got {[i.shape for i in indices]}.")
    if any(i.dtype == "bool" for i in indices):
        raise LayoutError(f"{call.name}: no rule for masks: where they write depends on data. Use where(mask, v, x).")
    names = letters(len(x.shape))
    rest, tail = names[len(indices):], lead + x.shape[len(indices):]
    out = (None,) * len(lead) + rest
    own = tuple(out[len(out) - len(values.shape) + d] if size == tail[len(tail) - len(values.shape) + d] else None
                for d, size in enumerate(values.shape))
    signature = index_put_signature(call.name, (None,) * len(indices) + rest, tuple((None,) * len(i.shape)
                                                                                   for i in indices), own,
                                    _values_first(call))
    return Bound(signature, (x.shape,))


def _values_first(call: Call) -> bool:
    order = list(call.values)
    return order.index("values") < order.index("indices")


@functools.lru_cache(maxsize=512)
def index_put_signature(name: str, x: tuple, indices: tuple, values: tuple, values_first: bool) -> Signature:
    """Writes that may accumulate: linear in both, and non-decreasing in x alone."""
    inputs = (x, values, *indices) if values_first else (x, *indices, values)
    at = 1 if values_first else len(indices) + 1
    ids = frozenset(range(1, len(inputs))) - {at}
    return Signature(name, inputs, (x,), terms=((0,), (at,)), monotone=(1,) + (0,) * (len(inputs) - 1), no_grad=ids)


# -- coordinates in the last dimension of the index ------------------------------------------------------------------


def coordinate_writer(added: bool):
    """The binder of writes of elements or slices at coordinates; updates have the shape of what they address."""

    def bind(call: Call) -> Bound:
        x, index = call["input"], call["indices"]
        names, ids, updates = _addressed(call, x.shape, index, call["updates"], added)
        return _written(call, names, ids, updates, "updates", added)

    return bind


def _addressed(call: Call, shape: tuple, index: Operand, updates: Operand, added: bool) -> tuple:
    """Letters of a tensor of this shape, of the coordinates, and of the updates."""
    depth = index.shape[-1] if index.shape else 0
    if not index.shape or depth > len(shape):
        raise LayoutError(f"{call.name}: an index of shape {index.shape} does not address {shape}.")
    if updates.exact and index.exact and updates.shape != index.shape[:-1] + shape[depth:]:
        raise LayoutError(f"{call.name}: updates must have the shape {index.shape[:-1] + shape[depth:]}. "
                          f"Got {updates.shape}.")
    lead = letters(len(index.shape) - 1, ADDED) if added else (None,) * (len(index.shape) - 1)
    rest = letters(len(shape))[depth:]
    return (None,) * depth + rest, lead + (None,), lead + rest


def bind_scatter_nd(call: Call) -> Bound:
    """Zeros of a shape with updates added at coordinates."""
    shape = tuple(call["shape"])
    names, ids, updates = _addressed(call, shape, call["indices"], call["updates"], True)
    return Bound(summed_signature(call.name, updates, ids, names, False), (shape,),
                 kernel=lambda place: ("scatter_nd", {"shape": place.out_shape()}))


def bind_segment_sum(call: Call) -> Bound:
    """Sums of the slices of x that share a segment id."""
    x, ids, count = call["input"], call["segment_ids"], call["num_segments"]
    lead = len(ids.shape)
    if not isinstance(count, int) or (x.exact and ids.exact and x.shape[:lead] != ids.shape):
        raise LayoutError(f"{call.name}: num_segments must be an int, and the ids {ids.shape} must have the leading "
                          f"dimensions of {x.shape}.")
    names = letters(lead, ADDED) + letters(len(x.shape))[lead:]
    signature = summed_signature(call.name, names, names[:lead], (None,) + names[lead:], True)
    return Bound(signature, ((count,) + x.shape[lead:],))


@functools.lru_cache(maxsize=512)
def summed_signature(name: str, source: tuple, ids: tuple, out: tuple, source_first: bool) -> Signature:
    """What indices name is added up in zeros; linear in the source."""
    inputs, at = ((source, ids), 0) if source_first else ((ids, source), 1)
    gone = {c for c in source if c is not None} - set(out)
    return AddedAt(name, inputs, (out,), reduces=dict.fromkeys(gone, "sum"), terms=((at,),), cut_terms=((0, 1),),
                   no_grad=frozenset((1 - at,)))


def bind_scatter_update(call: Call) -> Bound:
    """x[indices] = updates in place, slices of the first dimension."""
    x, index, updates = call["input"], call["indices"], call["updates"]
    rest, lead = letters(len(x.shape))[1:], (None,) * len(index.shape)
    if updates.exact and x.exact and updates.shape != index.shape + x.shape[1:]:
        raise LayoutError(f"{call.name}: updates must have the shape {index.shape + x.shape[1:]}. Got {updates.shape}.")
    return _written(call, (None,) + rest, lead, lead + rest, "updates")


def bind_masked_scatter(call: Call) -> Bound:
    """Elements of `source`, in order, where a mask is set: the order runs through whole tensors."""
    whole = [(None,) * len(call[p].shape) for p in ("input", "mask", "source")]
    return Bound(put_signature(call.name, *whole, True, False), (call["input"].shape,))


def bind_fill_diagonal(call: Call) -> Bound:
    """A number on the diagonal, which needs every dimension whole."""
    names, constant = (None,) * len(call["input"].shape), call["fill_value"] != 0
    return Bound(put_signature(call.name, names, None, None, True, constant), (call["input"].shape,),
                 localize=_once(call, "fill_value", constant))


_ELEMENTS = "input:t dim index:t"
declare("Scatter", _ELEMENTS + " src:t reduce=0", scatterer("src"))
declare("ScatterValue", _ELEMENTS + " src reduce=0", scatterer("src"))
declare("ScatterAddExt", _ELEMENTS + " src:t", scatterer("src", True))
declare("InplaceScatterSrc", _ELEMENTS + " src:t", scatterer("src"), inplace=True)
declare("InplaceScatterValue", _ELEMENTS + " value", scatterer("value"), inplace=True)
declare("InplaceScatterAdd", _ELEMENTS + " src:t", scatterer("src", True), inplace=True)
declare("TensorScatterElements", "input:t index:t src:t dim=0 reduce=0", scatterer("src"))
declare("IndexAddExt", _ELEMENTS + " source:t alpha=1", slice_writer("source", True))
declare("InplaceIndexAddExt", _ELEMENTS + " source:t alpha=1", slice_writer("source", True), inplace=True)
declare("InplaceIndexCopy", _ELEMENTS + " source:t", slice_writer("source"), inplace=True)
for _name, _inplace in (("IndexFillScalar", False), ("InplaceIndexFillScalar", True)):
    declare(_name, _ELEMENTS + " value", slice_writer("value"), inplace=_inplace)
for _name, _inplace in (("IndexFillTensor", False), ("InplaceIndexFillTensor", True)):
    declare(_name, _ELEMENTS + " value:t", slice_writer("value"), inplace=_inplace)
declare("InplaceIndexPut", "input:t indices:t values:t accumulate=False", bind_index_put, inplace=True,
        needs_dtype=True)
declare("IndexPut", "input:t values:t indices:t", bind_index_put, needs_dtype=True)
for _name, _added in (("TensorScatterAdd", True), ("TensorScatterUpdate", False)):
    declare(_name, "input:t indices:t updates:t", coordinate_writer(_added))
declare("ScatterNd", "indices:t updates:t shape", bind_scatter_nd)
declare("UnsortedSegmentSum", "input:t segment_ids:t num_segments", bind_segment_sum)
declare("ScatterUpdate", "input:t indices:t updates:t", bind_scatter_update, inplace=True)
for _name, _inplace in (("MaskedScatter", False), ("InplaceMaskedScatter", True)):
    declare(_name, "input:t mask:t source:t", bind_masked_scatter, inplace=_inplace)
declare("InplaceFillDiagonal", "input:t fill_value wrap=False", bind_fill_diagonal, inplace=True)

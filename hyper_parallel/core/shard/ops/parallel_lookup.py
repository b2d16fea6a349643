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
"""Looking up rows of a table by tensors of indices; the dimension looked up in may be cut (a vocabulary).

One mesh axis; table, ids -> result (v: the dimension looked up in, w: any other dimension of the table, i: of the ids):
    S(w), R -> S(w)    R, S(i) -> S(i), the table becomes varying    P(op), R -> P(op): elements are only copied
    S(v), R -> P(sum)  every rank looks up the ids of its own rows and contributes zeros for the others, because
                       table[id] = sum_c (table_c[id - begin_c] if id is a row of c, else 0)
Ids and `padding_idx` count in the whole dimension. Of booleans the shards combine by "or", P(max). A gradient
reaches the shard that holds the row.
"""
from __future__ import annotations

import functools

from hyper_parallel.core.shard.declaration import Bound, Call, letters, normal_dim
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError

ROWS = "v"  # the letter of the dimension looked up in


@functools.lru_cache(maxsize=4096)
def lookup_signature(name: str, inputs: tuple, out: tuple, table: int, boolean: bool = False) -> Signature:
    """Elements of operand `table` copied to where the other operand, the ids, names them."""
    cut = {} if ROWS not in inputs[table] else {ROWS: "max" if boolean else "sum"}
    return Signature(name, inputs, (out,), reduces=cut, terms=() if boolean and cut else ((table,),), movement=True,
                     no_grad=frozenset((1 - table,)))


def shard_form(form: str, table: int, dim: int, **static):
    """The kernel of a lookup: a local form that knows which rows of the whole dimension this rank holds."""

    def kernel(place):
        if ROWS not in place.inference.reduced:
            return None
        return form, {"dim": dim, "begin": place.inputs[table].area(place.coordinate)[dim][0], **static}

    return kernel


def _lookup(call: Call, own: tuple, ids: tuple, out: tuple, shape: tuple, form: str, dim: int) -> Bound:
    signature = lookup_signature(call.name, (own, ids), out, 0, call["input"].dtype == "bool")
    return Bound(signature, (shape,), kernel=shard_form(form, 0, dim, size=call["input"].shape[dim]))


def bind_index_select(call: Call) -> Bound:
    """Slices of one dimension, named by a 1-D tensor."""
    x, index = call["input"], call["index"]
    dim = normal_dim(call.name, call["dim"], len(x.shape))
    if len(index.shape) != 1:
        raise LayoutError(f"{call.name}: the index must have one dimension. Got {index.shape}.")
    own = tuple(ROWS if i == dim else c for i, c in enumerate(letters(len(x.shape))))
    ids = letters(1, "i")
    return _lookup(call, own, ids, own[:dim] + ids + own[dim + 1:], x.shape[:dim] + index.shape + x.shape[dim + 1:],
                   "shard_rows", dim)


def bind_gather(call: Call) -> Bound:
    """Slices of dimension `axis`, named by a tensor of any rank; the first `batch_dims` dimensions go in step."""
    x, index = call["input"], call["index"]
    dim, batch = normal_dim(call.name, call["dim"], len(x.shape)), call["batch_dims"]
    batch = batch + len(index.shape) if batch < 0 else batch
    if batch > dim or batch > len(index.shape):
        raise LayoutError(f"{call.name}: batch_dims {batch} must not exceed axis {dim} or the rank of the index.")
    names = letters(len(x.shape))
    own = tuple((None if batch else ROWS) if i == dim else c for i, c in enumerate(names))
    ids = names[:batch] + letters(len(index.shape) - batch, "i")
    shape = x.shape[:dim] + index.shape[batch:] + x.shape[dim + 1:]
    return _lookup(call, own, ids, own[:dim] + ids[batch:] + own[dim + 1:], shape, "shard_rows", dim)


def bind_gather_d(call: Call) -> Bound:
    """out[i][j] = x[index[i][j]][j] along `dim`; the index has the rank of x."""
    x, index = call["input"], call["index"]
    dim = normal_dim(call.name, call["dim"], len(x.shape))
    if len(index.shape) != len(x.shape):
        raise LayoutError(f"{call.name}: the index {index.shape} must have the rank of {x.shape}.")
    names = letters(len(x.shape))
    shared = [i != dim and (s == t or not (x.exact and index.exact))
              for i, (s, t) in enumerate(zip(x.shape, index.shape))]
    own = tuple(ROWS if i == dim else c if same else None for i, (c, same) in enumerate(zip(names, shared)))
    ids = tuple(c if same or i == dim else None for i, (c, same) in enumerate(zip(names, shared)))
    return _lookup(call, own, ids, ids, index.shape, "shard_elements", dim)


def bind_embedding(call: Call) -> Bound:
    """Rows of a table. With `max_norm` the table is renormalised in place over whole rows that the ids name, and
    `scale_grad_by_freq` counts ids: both need what they look at whole.
    """
    ids, weight, padding = call["input"], call["weight"], call["padding_idx"]
    if len(weight.shape) != 2:
        raise LayoutError(f"{call.name}: the table must have 2 dimensions. Got {weight.shape}.")
    count = weight.shape[0]
    if padding is not None and weight.exact and not -count <= padding < count:
        raise LayoutError(f"{call.name}: padding_idx {padding} is no row of the whole table of {count} rows.")
    normed = call["max_norm"] is not None
    counted = normed or bool(call["scale_grad_by_freq"])
    own = (None if counted else ROWS, None if normed else "w")
    names = (None,) * len(ids.shape) if counted else letters(len(ids.shape), "i")
    signature = embedding_signature(call.name, names, own, normed)
    padding = None if padding is None else padding % max(count, 1)
    return Bound(signature, (ids.shape + weight.shape[1:],),
                 kernel=shard_form("shard_embedding", 1, 0, padding=padding))


@functools.lru_cache(maxsize=256)
def embedding_signature(name: str, ids: tuple, table: tuple, normed: bool) -> Signature:
    """A lookup whose table comes second; renormalising is not linear."""
    out = ids + table[1:]
    if normed:
        return Signature(name, (ids, table), (out,), no_grad=frozenset((0,)))
    return lookup_signature(name, (ids, table), out, 1)


def bind_take(call: Call) -> Bound:
    """Elements of the flattened tensor: every dimension must be whole."""
    x, index = call["input"], call["index"]
    ids = letters(len(index.shape), "i")
    return Bound(lookup_signature(call.name, ((None,) * len(x.shape), ids), ids, 0), (index.shape,))


declare("IndexSelect", "input:t dim index:t", bind_index_select, needs_dtype=True)
declare("Gather", "input:t index:t dim batch_dims=0", bind_gather, needs_dtype=True)
declare("GatherD", "input:t dim index:t", bind_gather_d, needs_dtype=True)
declare("Embedding", "input:t weight:t padding_idx=None max_norm=None norm_type=2.0 scale_grad_by_freq=False",
        bind_embedding)
declare("Take", "input:t index:t", bind_take)

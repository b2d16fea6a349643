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
"""Cases D: views, reshapes, indexing. A cut that an operation cannot carry over is refused, never guessed."""
from __future__ import annotations

import numpy as np
import pytest
from mindspore import mint
from mindspore.mint.nn import functional as F

from hyper_parallel import implicit_redistribution
from tests.ut.cases.harness import Job, check, outcome, placements_of, program, programmed, refused, same, text_of


@program("C66")
def flatten_of_uneven_rows(job: Job):
    """Flat chunks of 6 are not rows of 8, 8, 8, 0 elements."""
    x = job.load("x")
    assert [v.shape[0] for v in x.numpy_locals()] == [2, 2, 2, 0]
    even = job.whole(np.arange(32.0).reshape(8, 4), "S(0)").view(-1)
    assert text_of(even) == "S(0)"
    check(even, np.arange(32.0), "even rows")
    return (job.gathered("y", lambda t: t.view(-1), (x,)) | job.gathered("y@reshape", lambda t: t.reshape(24), (x,))
            | job.gathered("y@flatten", mint.flatten, (x,)))


@program("C68")
def flatten_with_an_inner_cut(job: Job):
    """The parts would be strided; in a batch of tokens too."""
    x, data = job.load("x"), np.arange(24.0).reshape(2, 4, 3)
    tokens, weight = job.whole(data, "S(1)"), job.whole(np.arange(15.0).reshape(5, 3), "R")

    def layer(t):
        return F.linear(t.reshape(8, 3), weight).reshape(2, 4, 5)

    right = data @ np.arange(15.0).reshape(5, 3).T
    for way, y in job.gathered("layer", layer, (tokens,)).items():
        check(y, right, way)
    direct = F.linear(tokens, weight)
    assert text_of(direct) == "S(1)"
    check(direct, right, "without the reshape")
    return job.gathered("y", lambda t: t.reshape(8), (x,))


@program("C69")
def unflatten_after_flatten_of_a_twice_cut_dimension(job: Job):
    """Refused for an inner dimension; for the leading one the way there and back keeps both cuts."""
    leading = job.whole(job.data.x.reshape(8, 2, 3), "S(0) S(0)")
    flat = leading.reshape(16, 3)
    back = flat.reshape(8, 2, 3)
    assert text_of(flat) == text_of(back) == "S(0) S(0)"
    check(back, job.data.x.reshape(8, 2, 3), "the leading dimension there and back")
    return (job.gathered("y", lambda t: t.reshape(16, 3), (job.load("x"),))
            | job.gathered("z", lambda t: t.reshape(16, 3).reshape(2, 8, 3), (job.load("x"),)))


@program("C70")
def chunks_along_the_cut_dimension(job: Job):
    """Chunks and splits of a column-parallel output need it whole."""
    y, names = job.load("y"), ("a", "b", "d")
    ways = {
        "@chunk": lambda t: mint.chunk(t, 3, -1), "@split": lambda t: mint.split(t, 4, 1),
        "@slices": lambda t: (t[:, :4], t[:, 4:8], t[:, 8:]),
    }
    results = {}
    for way, call in ways.items():
        results |= job.gathered(tuple(n + way for n in names), call, (y,))
    return results


@program("C72")
def slices_along_the_cut_dimension(job: Job):
    """Bounds count in the whole tensor."""
    x = job.load("x")
    slices = {"a": slice(2, 4), "b": slice(1, 3), "e": slice(-1, None)}
    results = {}
    for name, index in slices.items():
        results |= job.gathered(name, lambda t, index=index: t[index], (x,))
    whole = x[:]
    assert text_of(whole) == "S(0)"
    check(whole, job.data.x, "the whole slice")
    return results


@program("C73")
def write_through_a_slice_of_the_cut_dimension(job: Job):
    """Refused on the shard, also where operands may be redistributed; done on the gathered tensor."""
    x = job.load("x")

    def write(t):
        t[:2] = 0

    refused(write, x, says="redistribute")
    with implicit_redistribution():
        refused(write, x)

    def clear(t):
        t[:2].zero_()

    refused(clear, x)
    for part in x.numpy_locals():
        same(part, np.ones((2, 2)), "the refused target")
    gathered = x.redistribute(job.mesh, placements_of("R"))
    write(gathered)
    column = job.whole(job.data.x, "S(1)")
    write(column)
    return {"x": gathered, "x@other_dimension": column}


@program("C74")
def scattered_write_with_global_indices(job: Job):
    """Refused by name, before a rank writes at its own rows."""
    a, i, values = job.whole(np.zeros(16), "S(0)"), job.whole(job.data.i, "R"), job.whole(np.ones(16), "S(0)")
    m, r = job.whole(np.zeros((4, 4)), "S(0)"), job.whole(job.data.r, "R")
    diagonal = job.whole(np.arange(1.0, 5.0), "S(0)")
    return {"a": refused(lambda: a.index_put((i,), values), says="redistribute"),
            "m": refused(lambda: m.index_put((r, r), diagonal), says="redistribute")}


@program("C75")
def rows_picked_along_the_cut_dimension(job: Job):
    """Indices count in the whole tensor, from either end."""
    x, i = job.load("x", "i")
    positive = job.whole(job.data.i % 8, "R")
    column = job.whole(job.data.x, "S(1)")
    picked = mint.index_select(column, 0, positive)
    assert text_of(picked) == "S(1)"
    results = {"y@index_select": mint.index_select(x, 0, positive), "y@index": x[i]}
    assert {text_of(y) for y in results.values()} == {"P(sum)"}
    return results | {"y@other_dimension": picked}


@program("C77")
def broadcast_of_a_cut_dimension_of_size_one(job: Job):
    """Only rank 0 has data, so the tensor is gathered first."""
    x = job.load("x")
    return (job.gathered("y", lambda t: mint.broadcast_to(t, (4, 4)), (x,))
            | job.gathered("y@expand", lambda t: t.expand((4, 4)), (x,)))


@program("C78")
def outputs_of_other_ranks_than_the_input(job: Job):
    """Every output has its own layout; cuts of dimensions that remain are kept."""
    x, data = job.load("x"), job.data.x
    m = mint.mean(x, dim=(2, 3))
    v, i = mint.max(x, -1)
    assert text_of(m) == text_of(v) == text_of(i) == "S(0) S(1) R"
    assert (len(m.shape), len(v.shape), len(i.shape)) == (2, 3, 3)
    scale, shift = job.whole(np.ones(5), "R R R"), job.whole(np.zeros(5), "R R R")
    y = F.layer_norm(x, (5,), scale, shift)
    assert text_of(y) == "S(0) S(1) R"
    centred = data - data.mean(-1, keepdims=True)
    check(y, centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5), "layer_norm")
    return {"m": m, "v": v, "i": i}


@program("C79")
def concatenation_along_the_cut_dimension(job: Job):
    """A local concatenation is no shard of the global one."""
    a, b = job.load("a", "b")
    rows = mint.stack([a, b])
    assert text_of(rows) == "S(1)"
    check(rows, np.stack([job.data.a, job.data.b]), "stack along a new dimension")
    return job.gathered("y", lambda *t: mint.cat(t), (a, b))


@program("C80")
def cartesian_product_of_cut_vectors(job: Job):
    """The outer factor keeps its cut through broadcast and reshape; the inner one has to be gathered."""
    a, b = job.load("a", "b")

    def product(a, b):
        left = mint.broadcast_to(a.reshape(4, 1), (4, 2)).reshape(8)
        right = mint.broadcast_to(b.reshape(1, 2), (4, 2)).reshape(8)
        return mint.stack([left, right], 1)

    outer, inner = mint.broadcast_to(a.reshape(4, 1), (4, 2)).reshape(8), job.whole(np.tile(job.data.b, 4), "S(0)")
    mixed = mint.stack([outer, inner], 1)
    assert text_of(mixed) == "S(0)"
    return {"y@outer_cut": mixed} | job.gathered("y", product, (a, b))


@pytest.mark.parametrize("case_id", programmed("D"))
def test_case_of_group_d_gives_the_global_value(case_id):
    """
    Feature: views, reshapes and indexing.
    Description: run the program of one public case on simulated ranks, cold and warm.
    Expectation: the numpy value on the global data on every rank, or a refusal where the case accepts one.
    """
    assert outcome(case_id)

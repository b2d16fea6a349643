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
"""Remembered forms and in-place changes: of the tensor, of the result, of aliases, views, parts and wholes."""
import copy

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint

from hyper_parallel import DTensor, Partial, Replicate, Shard, record_collectives, value_and_grad
from tests.common.tensors import put, value_of
from tests.ut.core.dtensor.memo_data import A, B, SUM, count, pending

R, S, P = Replicate(), Shard, Partial

UPDATES = {
    "+=": (lambda x: x.__iadd__(x), 2), "-=": (lambda x: x.__isub__(x * 3.0), -2),
    "*=": (lambda x: x.__imul__(4.0), 4),
    "/=": (lambda x: x.__itruediv__(2.0), 0.5), "add_": (lambda x: x.add_(x), 2), "sub_": (lambda x: x.sub_(x), 0),
    "mul_": (lambda x: x.mul_(3.0), 3), "div_": (lambda x: x.div_(2.0), 0.5),
    "copy_": (lambda x: x.copy_(x * 5.0), 5), "assign": (lambda x: ms.ops.assign(x, x * 6.0), 6),
    "zero_": (lambda x: x.zero_(), 0),
}


@pytest.mark.parametrize("name", list(UPDATES))
@pytest.mark.parametrize("recorded", [False, True])
def test_an_update_is_seen_by_the_next_reduction(mesh, name, recorded):
    """
    Feature: memos and versions.
    Description: reduce, update in place, reduce again; also with the reduction made inside a recording.
    Expectation: the reduction of the new value, by a collective of its own.
    """
    x = pending(mesh)
    update, factor = UPDATES[name]
    x.reduce_partial()
    update(x)
    with record_collectives() as log:
        if recorded:
            value, g = value_and_grad(lambda x: x.reduce_partial().sum())(x)
            assert value.item() == factor * SUM.sum() and np.array_equal(value_of(g), np.ones(3))
        else:
            assert np.array_equal(value_of(x.reduce_partial()), factor * SUM)
    assert count(log, "forward") == ["all_reduce"]


@pytest.mark.parametrize("name", ["+=", "*=", "copy_", "assign", "zero_", "mul_"])
def test_a_change_of_the_result_does_not_reach_the_source(mesh, name):
    """
    Feature: memos and versions.
    Description: the result of reduce_partial is changed in place, then the source is reduced again.
    Expectation: the source's own sum; the changed result keeps its change on every rank.
    """
    x = pending(mesh)
    update, factor = UPDATES[name]
    result = x.reduce_partial()
    update(result)
    assert np.array_equal(value_of(x.reduce_partial()), SUM) and np.array_equal(x.full_tensor().asnumpy(), SUM)
    assert np.array_equal(value_of(result), factor * SUM) and np.array_equal(value_of(x), SUM)


def test_two_results_of_one_memo_do_not_share_a_change(mesh):
    """
    Feature: memos and versions.
    Description: two reductions of one pending sum; one result is changed in place.
    Expectation: the other result keeps the sum.
    """
    x = pending(mesh)
    one, two = x.reduce_partial(), x.reduce_partial()
    one *= 10.0
    assert np.array_equal(value_of(one), 10 * SUM) and np.array_equal(value_of(two), SUM)


def test_a_change_of_the_whole_does_not_reach_the_source(mesh):
    """
    Feature: full_tensor.
    Description: the plain tensor that full_tensor gives is changed in place, for every placement.
    Expectation: the source keeps its value.
    """
    for x, want in ((pending(mesh), SUM), (put(mesh, SUM, R), SUM), (put(mesh, SUM, S(0)), SUM)):
        whole = x.full_tensor()
        whole[0] = 99.0
        assert np.array_equal(value_of(x), want) and np.array_equal(x.full_tensor().asnumpy(), want)


def test_a_change_of_a_part_does_not_reach_the_source(mesh):
    """
    Feature: to_local of a remembered reduction.
    Description: the plain parts of a reduced sum are changed in place.
    Expectation: the source's next reduction is its own sum.
    """
    x = pending(mesh)
    for part in x.reduce_partial().to_local():
        part[0] = 99.0
    assert np.array_equal(value_of(x), SUM) and np.array_equal(value_of(x.reduce_partial()), SUM)


ALIASES = {
    "copy.copy": copy.copy, "DTensor(x)": DTensor, "contiguous": lambda x: x.contiguous(), "value": lambda x: x.value(),
    "redistribute": lambda x: x.redistribute(x.device_mesh, x.placements), "view": lambda x: x.view(3, 1),
    "slice": lambda x: x[1:], "narrow": lambda x: mint.narrow(x, 0, 0, 2), "chunk": lambda x: mint.chunk(x, 3)[2],
    "transpose": lambda x: mint.unsqueeze(x, 0).T, "split": lambda x: mint.split(x, 2)[0],
}


@pytest.mark.parametrize("name", list(ALIASES))
def test_an_update_through_another_name_is_seen(mesh, name):
    """
    Feature: memos and shared storage.
    Description: another tensor on the storage of x, or a view of it, is changed in place after x was reduced.
    Expectation: whatever x now denotes, its next reduction is the sum of that.
    """
    x = pending(mesh)
    other = ALIASES[name](x)
    assert np.array_equal(value_of(x.reduce_partial()), SUM)
    other *= 3.0
    now = sum(x.numpy_locals())
    assert np.array_equal(value_of(x.reduce_partial()), now) and np.array_equal(x.full_tensor().asnumpy(), now)


def test_an_update_of_the_parts_is_seen(mesh):
    """
    Feature: memos and shared storage.
    Description: the plain parts that made x, and those that to_local gave, are changed in place between reductions.
    Expectation: each reduction is the sum of the parts as they are.
    """
    made = [Tensor(A), Tensor(B)]
    x = DTensor.from_local(made, mesh, [P()])
    for parts in (made, x.to_local(partial_ok=True), made):
        x.reduce_partial()
        parts[1][2] = parts[1][2] + 40.0
        assert np.array_equal(value_of(x.reduce_partial()), sum(x.numpy_locals()))

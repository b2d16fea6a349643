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
"""Operations of whole tensors: replicas give replicas of the shape that the data tells, everything else is refused."""
from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops

from hyper_parallel import (
    DTensor, LayoutError, Partial, PartialError, Replicate, Shard, distribute_tensor, init_device_mesh, simulate,
    value_and_grad,
)
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
from hyper_parallel.errors import UnsupportedOpError

X = np.array([[3.0, 0.0, -2.0], [0.0, 3.0, 5.0]], np.float32)
COUNTS = np.array([2, 0, 2, 5, 5])
CALLS = {
    "nonzero": (mint.nonzero, np.argwhere, X),
    "nonzero of nothing": (mint.nonzero, np.argwhere, np.zeros((2, 2), np.float32)),
    "masked select": (lambda x: mint.masked_select(x, x > 0), lambda x: x[x > 0], X),
    "runs": (ops.UniqueConsecutive(False, True), lambda x: (np.array([2, 0, 2, 5]), None, np.array([1, 1, 1, 2])),
             COUNTS),
    "bincount": (mint.bincount, np.bincount, COUNTS),
    "repeat": (lambda x: mint.repeat_interleave(x, x), lambda x: np.repeat(x, x), COUNTS),
}


@pytest.mark.parametrize("mesh", [(2,), (2, 2)])
@pytest.mark.parametrize("name", CALLS)
def test_replicas_give_replicas(name, mesh):
    """
    Feature: results whose shape depends on data.
    Description: each call on replicas, twice with other data in between.
    Expectation: numpy's results, labelled Replicate, equal on every rank.
    """
    call, right, data = CALLS[name]
    with simulate(int(np.prod(mesh))):
        device_mesh = init_device_mesh("cpu", mesh)
        for values in (data, np.abs(data[:1]).astype(data.dtype), data):
            if values is not data and name == "runs":
                continue
            found = call(distribute_tensor(Tensor(values), device_mesh, [Replicate()] * len(mesh)))
            want = right(values)
            pairs = zip(found, want) if isinstance(want, tuple) else [(found, want)]
            for tensor, value in pairs:
                assert isinstance(tensor, DTensor) and set(tensor.placements) == {Replicate()}
                for local in tensor.numpy_locals() if value is not None else ():
                    np.testing.assert_array_equal(local, value, err_msg=name)


@pytest.mark.parametrize("placement, error", [(Shard(0), LayoutError), (Partial(), PartialError)])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_cut_or_pending_is_refused(name, placement, error):
    """
    Feature: results whose shape depends on data.
    Description: the same calls on shards and on addends.
    Expectation: refused, with the reason and the call that gathers.
    """
    call, _, data = CALLS[name]
    with simulate(2):
        x = distribute_tensor(Tensor(data), init_device_mesh("cpu", (2,)), [placement])
        with pytest.raises(error, match=r"redistribute\("):
            call(x)


def test_a_selection_has_a_gradient():
    """
    Feature: results whose shape depends on data.
    Description: the sum of the squares of selected elements of a replica.
    Expectation: twice the selected elements, zero elsewhere, labelled Replicate.
    """
    with simulate(2):
        x = distribute_tensor(Tensor(X), init_device_mesh("cpu", (2,)), [Replicate()])
        grad = value_and_grad(lambda x: mint.square(mint.masked_select(x, x > 0)).sum())(x)[1]
        assert grad.placements == (Replicate(),)
        for local in grad.numpy_locals():
            np.testing.assert_array_equal(local, np.where(X > 0, 2 * X, 0))


def test_replicas_that_differ_are_found_out():
    """
    Feature: results whose shape depends on data.
    Description: a tensor wrongly labelled Replicate, whose ranks hold different numbers of non-zeros.
    Expectation: an error that says so, not a tensor with two shapes.
    """
    with simulate(2):
        x = DTensor.from_local([Tensor([1.0, 0.0]), Tensor([1.0, 2.0])], init_device_mesh("cpu", (2,)), [Replicate()])
        with pytest.raises(LayoutError, match="labelled Replicate differs between ranks"):
            mint.nonzero(x)


def test_layouts_alone_do_not_tell_the_result():
    """
    Feature: infer_layout.
    Description: the rule of nonzero asked with a layout of replicas, and of shards.
    Expectation: the first says that a run is needed, the second is refused as on tensors.
    """
    layout, op = Layout((2,), ("tp",)), get_distributed_op("NonZero")
    with pytest.raises(UnsupportedOpError, match="every output is Replicate"):
        op.infer_layout([layout("None", "None")])
    with pytest.raises(LayoutError):
        op.infer_layout([layout("tp", "None")])


DROPS = {"ops": lambda x: ops.dropout(x, 0.25), "layer": lambda x: nn.Dropout(p=0.25).set_train()(x),
         "primitive": lambda x: ops.Dropout(keep_prob=0.75)(x)[0]}


@pytest.mark.parametrize("name", DROPS)
def test_the_older_dropout_draws_one_mask_for_all_layouts(name):
    """
    Feature: ops.Dropout, ops.dropout, nn.Dropout.
    Description: the same seed on replicas, on shards of either dimension, and on addends; value and gradient.
    Expectation: one mask, a quarter of zeros, the rest scaled; the placement stays; another seed gives another mask.
    """
    x = np.arange(1, 401, dtype=np.float32).reshape(20, 20)
    seen = []
    with simulate(3):
        mesh = init_device_mesh("cpu", (3,))
        for seed, placement in ((5, Replicate()), (5, Shard(0)), (5, Shard(1)), (5, Partial()), (6, Replicate())):
            ms.manual_seed(seed)
            d = distribute_tensor(Tensor(x), mesh, [placement])
            kept = DROPS[name](d)
            ms.manual_seed(seed)
            grad = value_and_grad(lambda d: DROPS[name](d).sum())(d)[1]
            assert kept.placements == d.placements
            value = kept.full_tensor().asnumpy()
            np.testing.assert_allclose(grad.full_tensor().asnumpy() * x, value, rtol=1e-6)
            seen.append(value / x)
    assert all(np.allclose(seen[0], other) for other in seen[:4]) and not np.allclose(seen[0], seen[4])
    assert 0.15 < np.mean(seen[0] == 0) < 0.35 and np.allclose(seen[0][seen[0] != 0], 4 / 3)


def test_the_mask_of_the_dropout_primitive():
    """
    Feature: ops.Dropout.
    Description: both results on the addends of a sum.
    Expectation: the mask is a replica of zeros and ones, the value is the sum where it is one.
    """
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    with simulate(2):
        kept, mask = ops.Dropout(keep_prob=0.5)(
            distribute_tensor(Tensor(x), init_device_mesh("cpu", (2,)), [Partial()]))
        assert (kept.placements, mask.placements, mask.dtype) == ((Partial(),), (Replicate(),), kept.dtype)
        ones = mask.full_tensor().asnumpy()
        assert set(np.unique(ones)) <= {0, 1}
        np.testing.assert_array_equal(kept.full_tensor().asnumpy(), 2 * x * ones)

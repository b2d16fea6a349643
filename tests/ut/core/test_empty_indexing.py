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
"""Indexing and assignment on tensors of which some ranks hold nothing: right values and gradients, no crash."""

import numpy as np
import pytest
from mindspore import mint

from hyper_parallel import Replicate, Shard, distribute_tensor, init_device_mesh, simulate, value_and_grad

X = np.arange(24.0, dtype="float32").reshape(2, 3, 4)

PICKS = {
    "int": lambda t: t[:, :, 0],
    "ellipsis": lambda t: t[..., 0],
    "slice": lambda t: t[:, 1:3],
    "step": lambda t: t[:, ::2],
    "two steps": lambda t: t[:, ::2, ::3],
    "last": lambda t: t[:, -1],
    "new axis": lambda t: t[:, None],
    "max": lambda t: mint.max(t, 1)[0],
    "tile": lambda t: mint.tile(t, (1, 2, 1)),
    "select": lambda t: mint.select(t, 1, 0),
    "split": lambda t: mint.split(t, 2, 2)[0],
}


@pytest.mark.parametrize("name", list(PICKS))
def test_picking_from_empty_parts(name):
    """
    Feature: empty shards.
    Description: two rows cut over four ranks, indexed along whole dimensions; loss is twice the sum.
    Expectation: value and gradient of one device.
    """
    pick = PICKS[name]
    with simulate(4):
        x = distribute_tensor(X, init_device_mesh("cpu", (4,)), [Shard(0)])
        _, g = value_and_grad(lambda t: (pick(t) * 2).sum())(x)
        whole = distribute_tensor(X, x.device_mesh, [Replicate()])
        _, want = value_and_grad(lambda t: (pick(t) * 2).sum())(whole)
        assert np.array_equal(pick(x).full_tensor().asnumpy(), pick(whole).full_tensor().asnumpy())
        assert np.array_equal(g.full_tensor().asnumpy(), want.full_tensor().asnumpy())


def test_assigning_into_empty_parts():
    """
    Feature: empty shards.
    Description: a scalar, and a replicated row inside a gradient, assigned on four ranks of which two are empty.
    Expectation: value and gradients of one device.
    """
    with simulate(4):
        mesh = init_device_mesh("cpu", (4,))
        x, row = distribute_tensor(X, mesh, [Shard(0)]), distribute_tensor(X[0, 0].copy(), mesh, [Replicate()])
        x[:, 1] = 5.0
        want = X.copy()
        want[:, 1] = 5
        assert np.array_equal(x.full_tensor().asnumpy(), want)

        def loss(x, row):
            y = x * 1
            y[:, 2] = row
            return (y * y).sum()

        _, (gx, grow) = value_and_grad(loss, (0, 1))(x, row)
        truth = 2 * want
        truth[:, 2] = 0
        assert np.array_equal(gx.full_tensor().asnumpy(), truth)
        assert np.array_equal(grow.full_tensor().asnumpy(), 4 * X[0, 0])

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
"""matmul on CPU for every combination of ranks and sizes of 1: the framework's own backward is wrong for some."""
import itertools

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint

from hyper_parallel.platform.mindspore.cpu_kernels import substitute

BATCHES = [(), (1,), (2,), (1, 1), (2, 1), (1, 2)]


def _shapes() -> list:
    found = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2))]
    for left, right in itertools.product(BATCHES, BATCHES):
        found += [(left + (m, k), right + (k, n)) for m, k, n in itertools.product((1, 2), (1, 3), (1, 2))]
        found += [((3,), right + (3, 2)), (left + (1, 3), (3,))]
    return [pair for pair in dict.fromkeys(found) if _fits(*pair)]


def _fits(left, right) -> bool:
    try:
        np.matmul(np.ones(left), np.ones(right))
    except ValueError:
        return False
    return True


def _gradient(operands, i: int, g) -> np.ndarray:
    """By linearity: the weighted product with every basis tensor in place of operand i."""
    out = np.zeros(operands[i].shape)
    for index in np.ndindex(*out.shape):
        basis = np.zeros(out.shape, "float32")
        basis[index] = 1
        out[index] = (np.matmul(*[basis if j == i else t for j, t in enumerate(operands)]) * g).sum()
    return out


@pytest.mark.parametrize("ranks", sorted({(len(a), len(b)) for a, b in _shapes()}))
def test_matmul_and_its_gradients_are_exact(ranks):
    """
    Feature: matmul on CPU.
    Description: every pair of shapes of these ranks with batches and dimensions of 1 and 2, through the chosen kernel.
    Expectation: value and both gradients exactly numpy's, in numpy's shapes.
    """
    rng = np.random.default_rng(0)
    for left, right in _shapes():
        if (len(left), len(right)) != ranks:
            continue
        operands = [rng.integers(-3, 4, shape).astype("float32") for shape in (left, right)]
        want = np.matmul(*operands)
        g = rng.integers(-3, 4, want.shape).astype("float32")
        kernel = substitute("MatMulExt", (left, right)) or mint.matmul
        value, grads = ms.value_and_grad(lambda a, b, k=kernel, c=Tensor(g): (k(a, b) * c).sum(), (0, 1))(
            *map(Tensor, operands))
        assert value.asnumpy() == (want * g).sum() and kernel(*map(Tensor, operands)).shape == want.shape
        for i, found in enumerate(grads):
            assert found.shape == operands[i].shape, (left, right)
            assert np.array_equal(found.asnumpy(), _gradient(operands, i, g)), (left, right)

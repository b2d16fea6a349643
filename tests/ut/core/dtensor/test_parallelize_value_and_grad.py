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
"""parallelize_value_and_grad: plain gradients of one loss, whatever the layouts, outputs, seeds and convention."""
import numpy as np
import pytest
from mindspore import Parameter, ParameterTuple, Tensor, mint

from hyper_parallel import (
    DTensor, Partial, Replicate, Shard, denote, init_device_mesh, parallelize_value_and_grad, set_gradient_convention,
)
from hyper_parallel.core.dtensor.layout_value import placements_to_value
from tests.common.distributed_values import gradient_label
from tests.common.tensors import put

R, S, P = Replicate(), Shard, Partial
CONVENTIONS = ("single_loss", "sum_of_ranks")
X = np.array([[1, -2, 4], [0, 3, -5], [7, 1, 2], [-1, -4, 6]], "float32")
Y = np.array([[2, 2, -1], [5, -3, 1], [0, 4, 4], [-6, 1, 3]], "float32")


def _of_parts(parts, parameter, convention):
    """The value of a gradient that comes as the plain parts of all ranks."""
    label = gradient_label(parameter.placements, convention)
    parts = parts if isinstance(parts, (tuple, list)) else (parts,)
    assert not any(isinstance(p, DTensor) for p in parts)
    return denote([p.asnumpy() for p in parts], placements_to_value(parameter.device_mesh, label, 2))


def _two(mesh, placements):
    return [Parameter(put(mesh, array, p), name=n) for array, p, n in zip((X, Y), placements, "wv")]


DATA = np.array([[1, -2, 4, 0], [3, 5, -1, 2]], "float32")
# placements of a (4, 3) parameter, of the (2, 4) data that it is multiplied with
PRODUCTS = [(R, R), (R, S(0)), (S(1), R), (S(0), S(1)), (P(), R), (P("avg"), R)]


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("first", PRODUCTS)
@pytest.mark.parametrize("second", PRODUCTS[:3])
def test_plain_gradients_are_those_of_one_loss(mesh, first, second, convention):
    """
    Feature: parallelize_value_and_grad.
    Description: sum(x @ w) + sum(x @ v) with parameters cut, replicated and pending, and data that fits each.
    Expectation: plain parts per weight; through their labels the gradient of one device, under both conventions.
    """
    w, v = _two(mesh, (first[0], second[0]))
    x, y = put(mesh, DATA, first[1]), put(mesh, DATA, second[1])

    def loss(x, y):
        return mint.matmul(x, w).sum().reduce_partial() + mint.matmul(y, v).sum().reduce_partial()

    with set_gradient_convention(convention):
        value, (gw, gv) = parallelize_value_and_grad(loss, [w, v])(x, y)
        assert value.item() == (DATA @ (X + Y)).sum()
        for g, p in ((gw, w), (gv, v)):
            assert np.array_equal(_of_parts(g, p, convention), np.repeat(DATA.sum(0)[:, None], 3, 1))


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("sens, factors", [(None, (1, 0)), ([0.5, 2.0], (0.5, 2)), ((0.0, 1.0), (0, 1)),
                                           ((1.0, 1.0), (1, 1))])
def test_several_outputs_are_seeded_as_asked(mesh, sens, factors, convention):
    """
    Feature: parallelize_value_and_grad(sens=).
    Description: two losses, one of them pending; without sens, and with one float per output.
    Expectation: the first alone without sens; the weighted sum with it; all values come back.
    """
    w, _ = _two(mesh, (S(0), S(0)))
    x = put(mesh, Y, S(0))
    with set_gradient_convention(convention):
        (first, second), (g,) = parallelize_value_and_grad(
            lambda x: ((w * x).sum(), (w * w).sum().reduce_partial()), [w], sens)(x)
        assert (first.item(), second.item()) == ((X * Y).sum(), (X * X).sum())
        assert np.array_equal(_of_parts(g, w, convention), factors[0] * Y + factors[1] * 2 * X)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_a_pending_mean_is_one_loss(mesh, convention):
    """
    Feature: parallelize_value_and_grad.
    Description: losses pending as a mean and as a sum, and a single output alone.
    Expectation: each is reduced first and counts once.
    """
    w, _ = _two(mesh, (R, R))
    with set_gradient_convention(convention):
        for op in ("avg", "sum"):
            value, (g,) = parallelize_value_and_grad(lambda op=op: w.redistribute(mesh, [P(op)]).sum() * 3.0, [w])()
            assert value.item() == 3 * X.sum() and np.array_equal(_of_parts(g, w, convention), np.full_like(X, 3))


def test_one_real_rank_gives_the_frameworks_gradients():
    """
    Feature: parallelize_value_and_grad in a process.
    Description: a parameter alone and in a list, keyword arguments, plain data, on a mesh of one rank.
    Expectation: plain gradients equal to numpy's.
    """
    mesh = init_device_mesh("cpu", (1,), init_backend=False)
    w, _ = _two(mesh, (S(0), R))
    x = put(mesh, Y, S(0))
    for weights in (w, [w], ParameterTuple([w])):
        value, gradients = parallelize_value_and_grad(lambda x, scale: (w * x).sum() * scale, weights)(x, scale=2.0)
        assert value.item() == 2 * (X * Y).sum() and len(gradients) == 1
        assert np.array_equal(gradients[0].asnumpy(), 2 * Y)
    p = Parameter(Tensor(X), name="p")
    value, (g,) = parallelize_value_and_grad(lambda x: (p * x).sum(), [p])(Tensor(Y))
    assert float(value) == (X * Y).sum() and np.array_equal(g.asnumpy(), Y)


@pytest.mark.parametrize("many, sens", [(True, [0.5]), (True, [1.0, 2.0, 3.0]), (True, [1, 2]), (True, 1.0),
                                        (True, "ab"),
                                        (True, [1.0, None]), (False, [1.0]), (False, 1.0)])
def test_seeds_that_do_not_fit_are_refused(mesh, many, sens):
    """
    Feature: parallelize_value_and_grad(sens=).
    Description: another number of seeds, ints, no sequence; seeds for a single loss.
    Expectation: TypeError that says what sens is for.
    """
    w, _ = _two(mesh, (S(0), S(0)))
    with pytest.raises(TypeError, match="sens"):
        parallelize_value_and_grad(lambda: ((w * w).sum(), w.sum()) if many else w.sum(), [w], sens)()

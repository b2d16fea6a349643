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
"""Calls that the framework does not intercept: each works on the distributed value or is refused; none is silent."""

import copy
import pickle

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint, ops

from hyper_parallel import (
    DTensor, HyperParallelError, Partial, Replicate, Shard, SkipDTensorDispatch, UnsupportedOpError, distribute_tensor,
    implicit_replication, value_and_grad,
)
from tests.common.tensors import value_of

X = np.random.default_rng(2).integers(-6, 7, (4, 8)).astype("float32")


def _put(mesh, placement, array=X):
    return distribute_tensor(array, mesh, [placement])


@ms.jit
def _jitted(x):
    return x + 1


WHOLE = Tensor(X)

# Works: (call on a DTensor cut along dim 0, the value that numpy gives)
WORKS = {
    "x + 1": (lambda d: d + 1, X + 1),
    "1 + x": (lambda d: 1 + d, X + 1),
    "2 * x": (lambda d: 2 * d, 2 * X),
    "1 - x": (lambda d: 1 - d, 1 - X),
    "2.0 / (x * x + 1)": (lambda d: 2.0 / (d * d + 1), 2 / (X * X + 1)),
    "-x": (lambda d: -d, -X),
    "+x": (lambda d: +d, X),
    "x[:, 1:3]": (lambda d: d[:, 1:3], X[:, 1:3]),
    "x[..., 0]": (lambda d: d[..., 0], X[..., 0]),
    "x[:, None]": (lambda d: d[:, None], X[:, None]),
    "x[None]": (lambda d: d[None], X[None]),
    "x[:, 2]": (lambda d: d[:, 2], X[:, 2]),
    "x[:, ::2]": (lambda d: d[:, ::2], X[:, ::2]),
    "x[:, -1]": (lambda d: d[:, -1], X[:, -1]),
    "ops.stack": (lambda d: ops.stack([d, d]), np.stack([X, X])),
    "ops.stack axis": (lambda d: ops.stack((d, d), axis=-1), np.stack([X, X], -1)),
    "ops.Stack()": (lambda d: ops.Stack(1)([d, d]), np.stack([X, X], 1)),
    "ops.AddN": (lambda d: ops.AddN()([d, d]), 2 * X),
    "ops.addn": (lambda d: ops.addn([d, d, d]), 3 * X),
    "ops.depend": (lambda d: ops.depend(d, d), X),
    "value()": (lambda d: d.value(), X),
    "contiguous": (lambda d: mint.transpose(d, 0, 1).contiguous(), X.T),
    "type_as": (lambda d: d.type_as(d.to(ms.float16)), X),
    "copy.copy": (copy.copy, X),
    "deepcopy": (copy.deepcopy, X),
    "copy()": (lambda d: d.copy(), X),
    "pickle": (lambda d: pickle.loads(pickle.dumps(d)), X),
    "HyperMap": (lambda d: ops.HyperMap()(lambda v: v * 2, [d])[0], 2 * X),
    "x += 1": (lambda d: d.__iadd__(1), X + 1),
    "x -= x": (lambda d: d.__isub__(d), X - X),
    "x *= 2": (lambda d: d.__imul__(2), 2 * X),
    "x /= 2": (lambda d: d.__itruediv__(2), X / 2),
    "add_": (lambda d: d.add_(d), 2 * X),
    "mul_": (lambda d: d.mul_(3), 3 * X),
    "ops.assign": (lambda d: ops.assign(d, d * 2), 2 * X),
    "copy_": (lambda d: d.copy_(d + 1), X + 1),
    "mint.sum(input=)": (lambda d: mint.sum(input=d, dim=1), X.sum(1)),
    "mint.cat(tensors)": (lambda d: mint.cat([d, d], dim=1), np.concatenate([X, X], 1)),
}


@pytest.mark.parametrize("name", list(WORKS))
def test_an_unintercepted_call_works_on_a_shard(mesh, name):
    """
    Feature: calls of the bypass list.
    Description: the call on a tensor cut by rows.
    Expectation: a DTensor with the whole value of numpy.
    """
    call, want = WORKS[name]
    got = call(_put(mesh, Shard(0)))
    assert got.shape == want.shape
    assert np.allclose(value_of(got), want, rtol=1e-6)


# Refused: the call would work on the local shard alone, or needs what only one rank has.
REFUSED = {
    "plain + x": lambda d: WHOLE + d,
    "plain - x": lambda d: WHOLE - d,
    "plain * x": lambda d: WHOLE * d,
    "plain / x": lambda d: WHOLE / d,
    "plain ** x": lambda d: WHOLE**d,
    "plain @ x": lambda d: Tensor(X.T) @ d,
    "plain < x": lambda d: WHOLE < d,
    "x + plain": lambda d: d + WHOLE,
    "ndarray + x": lambda d: X + d,
    "ndarray * x": lambda d: X * d,
    "parameter + x": lambda d: Parameter(Tensor(X), name="p") + d,
    "plain.add(x)": lambda d: WHOLE.add(d),
    "plain.matmul(x)": lambda d: Tensor(X.T).matmul(d),
    "plain.copy_(x)": lambda d: Tensor(X).copy_(d),
    "mint.add(input=, other=)": lambda d: mint.add(input=d, other=d),
    "mint.add(plain, x)": lambda d: mint.add(WHOLE, d),
    "Tensor(x)": Tensor,
    "ms.tensor(x)": ms.tensor,
    "plain[0] = x": lambda d: Tensor(X).__setitem__(0, d[:, 0]),
    "jit": _jitted,
    "ops.Broadcast": lambda d: ops.Broadcast(0)((d,)),
    "np.asarray": np.asarray,
    "np.add": lambda d: np.add(X, d),
    "x[0]": lambda d: d[0],
    "x[1:3]": lambda d: d[1:3],
    "x[0] = 1": lambda d: d.__setitem__(0, 1.0),
    "iter": list,
    "item": lambda d: d[:, 0].item(),
    "float": lambda d: float(d[:, 0]),
    "int": lambda d: int(d[:, 0]),
    "bool": lambda d: bool(d[:, 0]),
    "tolist": lambda d: d.tolist(),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_an_unintercepted_call_that_cannot_be_right_is_refused(mesh, name):
    """
    Feature: calls of the bypass list.
    Description: calls that would see one rank's part only, on a tensor cut by rows.
    Expectation: an error; by this package where it can see the call, else by the framework.
    """
    with pytest.raises((HyperParallelError, RuntimeError, TypeError)):
        REFUSED[name](_put(mesh, Shard(0)))


def test_assignment_by_index_changes_the_distributed_value(mesh):
    """
    Feature: __setitem__.
    Description: scalars, slices and DTensors assigned into shards and replicas; on a Partial nothing may be assigned.
    Expectation: the whole value changes as numpy's does.
    """
    d, want = _put(mesh, Shard(0)), X.copy()
    d[:, 1:3] = 5.0
    want[:, 1:3] = 5
    d[:, 0] = d[:, 7]
    want[:, 0] = want[:, 7]
    assert np.array_equal(value_of(d), want)
    r, want = _put(mesh, Replicate()), X.copy()
    r[0], r[1:3, 2] = 1.0, 7.0
    want[0], want[1:3, 2] = 1, 7
    assert np.array_equal(value_of(r), want)


def test_assignment_inside_a_gradient_is_exact_or_refused(mesh):
    """
    Feature: __setitem__ inside a differentiated function.
    Description: into a whole tensor, and into a view of one, whose gradient the framework gets wrong.
    Expectation: exact gradients of target and value; the view is refused.
    """
    x, v = _put(mesh, Shard(0)), _put(mesh, Shard(0), X[:, 0].copy())

    def whole(x, v):
        y = x * 2
        y[:, 1] = v * 3
        return (y * y).sum()

    _, (gx, gv) = value_and_grad(whole, (0, 1))(x, v)
    want = 8 * X
    want[:, 1] = 0
    assert np.array_equal(value_of(gx), want) and np.array_equal(value_of(gv), 18 * X[:, 0])

    def view(x, v):
        y = (x * 2).T
        y[1] = v
        return (y * y).sum()

    with pytest.raises(UnsupportedOpError, match="view"):
        value_and_grad(view, (0, 1))(x, v)


def test_a_partial_keeps_scalar_assignment_sound(mesh):
    """
    Feature: __setitem__ on a Partial.
    Description: a scalar assigned into an unreduced tensor.
    Expectation: refused, or the value is right; never the scalar counted once per rank.
    """
    p = DTensor.from_local([Tensor(X), Tensor(2 * X)], mesh, [Partial()])
    want = 3 * X
    try:
        p[0] = 5.0
    except HyperParallelError:
        pass
    else:
        want[0] = 5
    assert np.array_equal(value_of(p), want)


def test_shapes_and_sizes_answer_globally(mesh):
    """
    Feature: attributes.
    Description: shape, size, numel, len, ndim of a tensor cut by rows.
    Expectation: the global ones; local_shape the local one.
    """
    d = _put(mesh, Shard(0))
    assert (d.shape, d.size, d.size(), d.size(0), d.numel(), len(d), d.ndim) == ((4, 8), 32, (4, 8), 4, 32, 4, 2)
    assert d.local_shape == (2, 8) and [v.shape for v in d.to_local()] == [(2, 8), (2, 8)]


def test_replicas_read_and_iterate_like_plain_tensors(mesh):
    """
    Feature: reading a replica.
    Description: float, int, bool, item, tolist, iteration, asnumpy, np.asarray and format of a replicated tensor.
    Expectation: what numpy gives.
    """
    r = _put(mesh, Replicate())
    assert [value_of(row).tolist() for row in r] == X.tolist() and r.tolist() == X.tolist()
    one = float(X[1, 2])
    assert float(r[1, 2]) == one and int(r[1, 2]) == int(one) and r[1, 2].item() == one and bool(r[1, 2] == one)
    assert (
        np.array_equal(r.asnumpy(), X) and np.array_equal(np.asarray(r), X) and f"{r[1, 2]:.1f}" == f"{X[1, 2]:.1f}"
    )


def test_plain_constants_and_opted_in_replicas_are_welcome(mesh):
    """
    Feature: plain tensors next to DTensors.
    Description: a 0-d constant; a whole plain tensor inside implicit_replication().
    Expectation: both are taken for replicas, and a constant enters a pending sum once.
    """
    p = DTensor.from_local([Tensor(X), Tensor(2 * X)], mesh, [Partial()])
    assert np.array_equal(value_of(p + Tensor(3.0)), 3 * X + 3)
    with implicit_replication():
        assert np.array_equal(value_of(p + WHOLE), 4 * X) and np.array_equal(value_of(WHOLE - p), -2 * X)


@pytest.mark.parametrize("scalar", [3, 3.0, True, np.float32(3), np.float64(3), np.int64(3)])
def test_scalars_of_every_type_enter_a_pending_sum_once(mesh, scalar):
    """
    Feature: P(sum) + scalar.
    Description: Python and numpy scalars added to, subtracted from and multiplied with a pending sum.
    Expectation: the scalar counts once.
    """
    p = DTensor.from_local([Tensor(X), Tensor(2 * X)], mesh, [Partial()])
    value = float(scalar)
    for got, want in (
        (p + scalar, 3 * X + value),
        (scalar + p, 3 * X + value),
        (p - scalar, 3 * X - value),
        (p * scalar, 3 * X * value),
    ):
        assert np.array_equal(value_of(got), want)


def test_arrays_next_to_a_dtensor_are_refused(mesh):
    """
    Feature: ndarrays next to DTensors.
    Description: an array on the right of an operator, and as an argument.
    Expectation: refused, or taken by nobody for this rank's part.
    """
    d = _put(mesh, Shard(0))
    for call in (lambda: d + X, lambda: d * X[:2], lambda: mint.add(d, X), lambda: d - np.array([1.0, 2.0])):
        with pytest.raises((HyperParallelError, TypeError, RuntimeError)):
            call()


def test_skipping_dispatch_nests_and_works_locally(mesh):
    """
    Feature: SkipDTensorDispatch.
    Description: nested blocks around an addition; outside again afterwards.
    Expectation: plain local results inside both, a DTensor outside.
    """
    d = _put(mesh, Shard(0))
    with SkipDTensorDispatch():
        with SkipDTensorDispatch():
            assert not isinstance(mint.add(d, d), DTensor)
        assert not isinstance(mint.add(d, d), DTensor)
    assert isinstance(mint.add(d, d), DTensor)

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
"""The tape: exact pullbacks of plain numpy functions."""
from __future__ import annotations

import math

import numpy as np
import pytest

from hyper_parallel.verify.tape import NoDerivative, custom, elementwise, vjp

RNG = np.random.default_rng(7)


def _int(*shape):
    return RNG.integers(-6, 7, shape).astype(float)


A, B, V, W = _int(3, 4), _int(3, 4), _int(4), _int(4, 2)
IDS = np.array([2, 0, 2])
DISTINCT = RNG.permutation(12).reshape(3, 4).astype(float)

# name -> (function, arguments); (multi)linear or piecewise linear in each argument, so that differences are exact
EXACT = {
    "add broadcast": (np.add, (A, V)),
    "subtract": (lambda a, b: a - b, (A, B)),
    "multiply broadcast": (lambda a, v: a * v, (A, V)),
    "divide numerator": (lambda a: a / 4, (A,)),
    "negative": (np.negative, (A,)),
    "matmul": (lambda a, w: a @ w, (A, W)),
    "matmul vector": (lambda a, v: a @ v, (A, V)),
    "vector matmul": (lambda v, w: v @ w, (V, W)),
    "dot": (np.dot, (V, _int(4))),
    "batched": (lambda x, w: x @ w, (_int(2, 3, 4), W)),
    "broadcast batch": (lambda x, w: x @ w, (_int(1, 3, 4), _int(2, 4, 5))),
    "outer": (np.outer, (V, _int(3))),
    "einsum": (lambda a, w: np.einsum("ab,bc->c", a, w), (A, W)),
    "einsum alone": (lambda a: np.einsum("ab->b", a), (A,)),
    "sum": (lambda a: np.sum(a, axis=0, keepdims=True), (A,)),
    "mean": (lambda a: np.mean(a, axis=1), (A,)),
    "prod": (lambda a: np.prod(a, axis=1), (np.where(A == 0, 0, np.sign(A)),)),
    "max": (lambda a: np.max(a, axis=0), (DISTINCT,)),
    "min": (np.min, (DISTINCT,)),
    "cumsum": (lambda a: np.cumsum(a, 1), (A,)),
    "trace": (np.trace, (_int(4, 4),)),
    "transpose": (np.transpose, (A,)),
    "reshape": (lambda a: np.reshape(a, (2, 6)), (A,)),
    "getitem": (lambda a: a[1:, ::2], (A,)),
    "fancy index": (lambda a: a[IDS], (A,)),
    "take repeated": (lambda a: np.take(a, IDS, 0), (A,)),
    "take along": (lambda a: np.take_along_axis(a, np.array([[0], [3], [3]]), 1), (A,)),
    "broadcast_to": (lambda v: np.broadcast_to(v, (3, 4)), (V,)),
    "repeat": (lambda v: np.repeat(v, 2, 0), (V,)),
    "tile": (lambda v: np.tile(v, (2, 1)), (V,)),
    "pad with a value": (lambda a: np.pad(a, ((1, 0), (0, 2)), constant_values=5), (A,)),
    "tril": (np.tril, (A,)),
    "roll": (lambda a: np.roll(a, 1, 0), (A,)),
    "where": (lambda a, b: np.where(B > 0, a, b), (A, B)),
    "where with a constant": (lambda a: np.where(B > 0, a, 3.0), (A,)),
    "concatenate": (lambda a, b: np.concatenate([a, b, a], 1), (A, B)),
    "stack with a plain array": (lambda a: np.stack([a, B], 0), (A,)),
    "sort": (lambda a: np.sort(a, 1), (DISTINCT,)),
    "absolute": (np.absolute, (np.where(A == 0, 1, A),)),
    "maximum": (np.maximum, (A, B + 0.5)),
    "remainder": (lambda a: np.remainder(a + 0.25, 4), (A,)),
}


def _jacobian_rows(function, arguments, i: int, g):
    """The exact gradient by differences: a step of 2^-10 is exact on dyadic, piecewise linear functions."""
    grads = np.empty(arguments[i].shape)
    step = 2.0 ** -10
    for index in np.ndindex(*arguments[i].shape):
        moved = [a.copy() for a in arguments]
        moved[i][index] += step
        grads[index] = np.sum(g * (function(*moved) - function(*arguments))) / step
    return grads


@pytest.mark.parametrize("name", EXACT)
def test_pullback_is_exact(name):
    """
    Feature: tape.
    Description: the pullback of an integer cotangent against exact differences, for every argument.
    Expectation: equal, element by element.
    """
    function, arguments = EXACT[name]
    outs, pull = vjp(function, arguments)
    g = RNG.integers(-8, 9, outs[0].shape).astype(float)
    np.testing.assert_array_equal(outs[0], function(*arguments))
    for i, grad in enumerate(pull([g])):
        np.testing.assert_array_equal(grad, _jacobian_rows(function, arguments, i, g))


@pytest.mark.parametrize("function", [np.maximum, np.minimum])
def test_a_tie_shares_the_gradient(function):
    """
    Feature: tape.
    Description: the larger and the smaller of two equal numbers.
    Expectation: each gets half, as the framework shares it.
    """
    _, pull = vjp(function, (np.ones(2), np.ones(2)))
    for grad in pull([np.array([6.0, -2.0])]):
        np.testing.assert_array_equal(grad, [3.0, -1.0])


def test_several_outputs_and_a_shared_input():
    """
    Feature: tape.
    Description: a function with two outputs that share an input, pulled back with both cotangents and with one.
    Expectation: shares add up; a missing cotangent counts as none.
    """
    outs, pull = vjp(lambda a: (a * 2, a * a), [np.array([1.0, 3.0])])
    assert len(outs) == 2
    assert pull([np.array([1.0, 1.0]), np.array([10.0, 100.0])])[0].tolist() == [22.0, 602.0]
    assert pull([None, np.array([1.0, 1.0])])[0].tolist() == [2.0, 6.0]


def test_integers_and_flat_functions_have_no_gradient():
    """
    Feature: tape.
    Description: an integer argument; a function that is constant between jumps.
    Expectation: None for the integer, zeros behind the flat function.
    """
    _, pull = vjp(lambda x, i: np.take(x, i, 0) + np.floor(x)[i], [np.array([1.5, 2.5]), np.array([1])])
    grads = pull([np.array([4.0])])
    assert grads[0].tolist() == [0.0, 4.0] and grads[1] is None


@pytest.mark.parametrize("function", (np.linalg.inv, np.convolve, np.arctan, lambda x: np.asarray(x) + 1,
                                      np.add.accumulate))
def test_unknown_functions_are_refused(function):
    """
    Feature: tape.
    Description: numpy functions without a derivative here, and a conversion to a plain array.
    Expectation: refused by name, never differentiated as a constant.
    """
    with pytest.raises((NoDerivative, TypeError)):
        vjp(function, [np.eye(2)])


def test_elementwise_does_not_depend_on_position():
    """
    Feature: elementwise.
    Description: a transcendental on an array and on every slice of it.
    Expectation: bit for bit the same values, unlike a vectorised loop with a tail.
    """
    x = RNG.random(37)
    tanh = elementwise(math.tanh, lambda g, o, a: g * (1 - o * o))
    for size in range(1, 37):
        np.testing.assert_array_equal(tanh(x)[:size], tanh(x[:size]))


def test_custom_drops_plain_sources():
    """
    Feature: custom shares.
    Description: a hand-written share for a plain array.
    Expectation: the result is plain.
    """
    assert isinstance(custom(np.ones(2), (np.ones(2), lambda g: g)), np.ndarray)

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
"""DFunction: a user's forward and backward on local tensors, with and without an operation name."""
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from hyper_parallel import (
    DFunction, DTensor, LayoutError, Partial, PartialError, Replicate, Shard, SkipDTensorDispatch, UnsupportedOpError,
    implicit_redistribution, set_gradient_convention, value_and_grad,
)
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from tests.common.tensors import put, value_of

R, S, P = Replicate(), Shard, Partial
X = np.array([[1, -2, 4], [3, 5, -1], [7, 0, -6]], "float32")
pytestmark = pytest.mark.usefixtures("own_registry")


class Same(DistributedOp):
    """A rule: the layout of the first tensor; nothing pending."""

    def infer_layout(self, layouts, extra_args=None):  # pylint: disable=arguments-renamed
        """The first layout."""
        self._check_partial_inputs(layouts)
        return layouts[0]


class Cubed(DFunction):
    """k x^3 with a backward of its own, ten times too large so that it is seen to run."""

    _op_name = "Cubed"

    @staticmethod
    def forward(ctx, x, k):
        """k x^3 of the local part."""
        assert not isinstance(x, DTensor)
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * x * k

    @staticmethod
    def backward(ctx, g):
        """30 k x^2 g, and nothing for k."""
        x, = ctx.saved_tensors
        return g * x * x * (30 * ctx.k), None


class Added(DFunction):
    """x + y under the built-in rule of AddExt."""

    _op_name = "AddExt"

    @staticmethod
    def forward(ctx, x, y):
        """The sum of local parts."""
        return x + y

    @staticmethod
    def backward(ctx, g):
        """The same for both."""
        return g, g


class Unnamed(DFunction):
    """Twice x, without a rule."""

    @staticmethod
    def forward(ctx, x):
        """Twice the value."""
        return x * 2

    @staticmethod
    def backward(ctx, g):
        """Twice the gradient."""
        return g * 2


@pytest.mark.parametrize("placement", [R, S(0), S(1)])
def test_a_named_function_runs_on_local_parts(mesh, placement):
    """
    Feature: DFunction with _op_name.
    Description: forward on every part under a user's rule, uneven shards; its own backward.
    Expectation: value, layout, and the gradient that its backward says.
    """
    Same("Cubed")
    x = put(mesh, X, placement)
    y = Cubed.apply(x, 2.0)
    assert y.placements == (placement,) and np.array_equal(value_of(y), 2 * X ** 3)
    _, g = value_and_grad(lambda x: Cubed.apply(x, 2.0).sum())(x)
    assert g.placements == (placement,) and np.array_equal(value_of(g), 60 * X * X)


def test_a_name_is_not_needed_for_plain_tensors(mesh):
    """
    Feature: DFunction without _op_name.
    Description: plain tensors in a named and an unnamed function; gradients by the framework.
    Expectation: an ordinary function with its own backward.
    """
    for function, args, value, gradient in ((Cubed, (2.0,), 2 * X ** 3, 60 * X * X),
                                            (Unnamed, (), 2 * X, np.full_like(X, 2))):
        assert np.array_equal(function.apply(Tensor(X), *args).asnumpy(), value)
        g = ms.grad(lambda t, function=function, args=args: function.apply(t, *args).sum())(Tensor(X))
        assert np.array_equal(g.asnumpy(), gradient)


def test_a_dtensor_without_a_name_is_refused(mesh):
    """
    Feature: DFunction without _op_name.
    Description: a DTensor as argument, first or later.
    Expectation: ValueError that names the class and says what to set.
    """
    for args in ((put(mesh, X, S(0)),), (1.0, put(mesh, X, S(0)))):
        with pytest.raises(ValueError, match="^Unnamed got a DTensor.*_op_name"):
            Unnamed.apply(*args)


def test_a_name_without_a_rule_is_refused(mesh):
    """
    Feature: DFunction with _op_name.
    Description: the name of no registered operation.
    Expectation: UnsupportedOpError that names the operation and how to register it.
    """
    with pytest.raises(UnsupportedOpError, match="^Cubed has no distributed rule"):
        Cubed.apply(put(mesh, X, S(0)), 2.0)


@pytest.mark.parametrize("convention", ["single_loss", "sum_of_ranks"])
@pytest.mark.parametrize("pair", [(S(0), S(0)), (R, R), (P(), R), (R, P()), (P(), P()), (P("avg"), R)])
def test_a_built_in_rule_brings_its_conversions(mesh, pair, convention):
    """
    Feature: DFunction under a built-in rule.
    Description: x + y under AddExt's rule: shards, sums, a sum and a replica that enters once, in both
        conventions.
    Expectation: the value; gradients of both through their labels.
    """
    x, y = put(mesh, X, pair[0]), put(mesh, 2 * X, pair[1])
    out = Added.apply(x, y)
    assert np.array_equal(value_of(out), 3 * X)
    weight = put(mesh, X, R)
    with set_gradient_convention(convention):
        _, gradients = value_and_grad(lambda x, y: (Added.apply(x, y).redistribute(mesh, [R]) * weight).sum(),
                                      (0, 1))(x, y)
    for g in gradients:
        assert np.array_equal(value_of(g), X * (1 if convention == "single_loss" else 2))


def test_a_rule_refuses_and_redistributes_as_for_the_framework_s_calls(mesh):
    """
    Feature: DFunction under a built-in rule.
    Description: a shard and a replica: refused; inside implicit_redistribution; inside SkipDTensorDispatch.
    Expectation: LayoutError; the right value; a plain local result.
    """
    x, y = put(mesh, X, S(0)), put(mesh, X, R)
    with pytest.raises(LayoutError, match="^AddExt has no sound rule"):
        Added.apply(x, y)
    with implicit_redistribution():
        assert np.array_equal(value_of(Added.apply(x, y)), 2 * X)
    with SkipDTensorDispatch():
        assert not isinstance(Added.apply(y, y), DTensor)
    Same("Cubed")
    with pytest.raises(PartialError, match="^Cubed: input 0"):
        Cubed.apply(put(mesh, X, P()), 1.0)


def test_several_outputs(mesh):
    """
    Feature: DFunction with several outputs.
    Description: (x, 2 x) under a rule with two layouts.
    Expectation: two DTensors; the backward gets both gradients.
    """
    class Both(DistributedOp):
        """The first layout twice."""

        def infer_layout(self, layouts, extra_args=None):  # pylint: disable=arguments-renamed
            """Twice."""
            return layouts[0], layouts[0]

    class Pair(DFunction):
        """Once and twice."""

        _op_name = "Pair"

        @staticmethod
        def forward(ctx, x):
            """Once and twice."""
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, once, twice):
            """Both, weighted."""
            return once + twice * 2

    Both("Pair")
    x = put(mesh, X, S(0))
    once, twice = Pair.apply(x)
    assert np.array_equal(value_of(once), X) and np.array_equal(value_of(twice), 2 * X)

    def loss(x):
        once, twice = Pair.apply(x)
        return once.sum() + twice.sum() * 10.0

    assert np.array_equal(value_of(value_and_grad(loss)(x)[1]), np.full_like(X, 21))

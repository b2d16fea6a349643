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
"""A user's own DistributedOp: registered by making it, in the older and the three-phase form, with gradients."""
import numpy as np
import pytest
from mindspore import Tensor, mint

from hyper_parallel import (
    DTensor, HyperParallelError, Layout, LayoutError, Partial, PartialError, Replicate, Shard, UnsupportedOpError,
    init_device_mesh, set_gradient_convention, simulate, value_and_grad,
)
from hyper_parallel.core.shard._op_dispatch import dispatch_named
from hyper_parallel.core.shard.ops.parallel_matmul import MatMulExtDistributedOp
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from tests.common.tensors import put, value_of

R, S, P = Replicate(), Shard, Partial
X = np.array([[1, -2], [4, 0], [3, -5]], "float32")
pytestmark = pytest.mark.usefixtures("own_registry")


class Older(DistributedOp):
    """One layout for the result of any elementwise function; remembers what it was asked."""

    def __init__(self, op_name="Mine"):
        super().__init__(op_name)
        self.asked = []

    def infer_layout(self, layouts, extra_args=None):  # pylint: disable=arguments-renamed
        """The layout of the first tensor."""
        self.asked.append((list(layouts), extra_args))
        return next(layout for layout in layouts if layout is not None)


class ThreePhase(DistributedOp):
    """The same in three phases; subclasses override one of them."""

    def __init__(self, op_name="Mine"):
        super().__init__(op_name)
        self.asked = []

    def preprocess(self, args, kwargs):
        """Local parts, and layouts and scalars in order."""
        return (tuple(a.to_local(partial_ok=True) if isinstance(a, DTensor) else a for a in args), kwargs,
                [a.layout if isinstance(a, DTensor) else a for a in args])

    def infer_layout(self, cache_values, extra_args=None):
        """The layout of the first tensor."""
        self.asked.append(list(cache_values))
        return (cache_values[0],), "extra"


def _call(function, *args, name="Mine", **kwargs):
    return dispatch_named(name, function, *args, **kwargs)


@pytest.mark.parametrize("kind", [Older, ThreePhase])
@pytest.mark.parametrize("placement", [S(0), S(1), R])
def test_a_users_operation_runs_on_every_rank(mesh, kind, placement):
    """
    Feature: DistributedOp subclasses.
    Description: registered by making an instance, both forms, uneven shards.
    Expectation: the local function on every part, wrapped in the inferred layout; exact gradient.
    """
    kind()
    x = put(mesh, X, placement)
    y = _call(lambda v: v * v * 3, x)
    assert y.placements == (placement,) and y.shape == (3, 2) and np.array_equal(value_of(y), 3 * X * X)
    _, g = value_and_grad(lambda x: _call(lambda v: v * v * 3, x).sum())(x)
    assert np.array_equal(value_of(g), 6 * X) and g.placements == (placement,)


def test_what_the_older_form_is_asked(mesh):
    """
    Feature: the older contract, infer_layout(layouts, extra_args).
    Description: DTensors, scalars, a plain constant, None among the arguments; a keyword argument.
    Expectation: layouts has a handle per DTensor and None for everything else; extra_args holds the non-tensors
        but None.
    """
    op = Older()
    x = put(mesh, X, S(0))
    y = _call(lambda a, none, k, b, flag=False: a * k + b, x, None, 2.0, x, flag=True)
    assert np.array_equal(value_of(y), 3 * X)
    layouts, extra = op.asked[0]
    assert [None if v is None else v.placements for v in layouts] == [(S(0),), None, None, (S(0),)]
    assert tuple(extra) == (2.0,) and layouts[0].tensor_shape == (3, 2) and layouts[0] is not x.layout


def test_what_three_phases_are_asked(mesh):
    """
    Feature: preprocess, infer_layout(cache_values), get_expand_impl.
    Description: a subclass that records each phase.
    Expectation: infer_layout gets the cache values, get_expand_impl the function, the inference and the cache
        values.
    """
    seen = []

    class Recorded(ThreePhase):
        """Remembers the third phase."""

        def get_expand_impl(self, func, infer_result, cache_values):
            """Nothing in place of the function."""
            seen.append((func.name, infer_result, cache_values))

    op = Recorded()
    x = put(mesh, X, S(0))
    _call(lambda v, k: v * k, x, 2.0)
    assert [op.asked[0][0].placements, op.asked[0][1]] == [(S(0),), 2.0] and len(op.asked) == 1
    name, inferred, values = seen[0]
    assert len(seen) == 1 and name == "Mine" and inferred[1] == "extra"
    assert inferred[0][0].placements == (S(0),) and values[1] == 2.0


def test_what_preprocess_returns_is_what_runs(mesh):
    """
    Feature: preprocess.
    Description: preprocess changes a scalar, drops an argument and adds a keyword; plain constants pass through.
    Expectation: the local function sees the changed arguments, with each rank's own part.
    """
    class Changed(ThreePhase):
        """Ten times the scalar, without the last argument."""

        def preprocess(self, args, kwargs):
            """Other local arguments than those of the call."""
            return (args[0].to_local(), args[1] * 10), {"plus": 1.0}, [args[0].layout, args[1]]

    Changed()
    y = _call(lambda v, k, plus=0.0: v * k + plus, put(mesh, X, S(0)), 2.0, "dropped")
    assert np.array_equal(value_of(y), 20 * X + 1)


@pytest.mark.parametrize("kind", [Older, ThreePhase])
def test_the_expanded_function_runs_in_place_of_the_framework_s(mesh, kind):
    """
    Feature: get_expand_impl.
    Description: a subclass of each form that gives another local function.
    Expectation: it runs on every rank with the local arguments in place of the function.
    """
    class Expanded(kind):
        """Seven times the sum of both."""

        def get_expand_impl(self, func, *inferred):
            """(func, infer_result, cache_values), or (func, layout, layouts, extra_args) in the older form."""
            assert len(inferred) == (3 if kind is Older else 2)
            return lambda v, k: func(v, k) * 7

    Expanded()
    assert np.array_equal(value_of(_call(lambda v, k: v + k, put(mesh, X, S(1)), 1.0)), 7 * (X + 1))


@pytest.mark.parametrize("kind", [Older, ThreePhase])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_wrap_output_has_the_last_word(kind, ranks):
    """
    Feature: wrap_output.
    Description: an override in the manner of the public library: from_local of the output under the layout.
    Expectation: called with what ran and the layouts; its result is handed out, on one and on several simulated
        ranks.
    """
    seen = []

    class Wrapped(kind):
        """Wraps by hand."""

        def wrap_output(self, py_output, output_layouts):
            """A DTensor of the output, by its own layout."""
            seen.append(output_layouts)
            layout = output_layouts[0] if isinstance(output_layouts, (tuple, list)) else output_layouts
            return "mine", DTensor.from_local(py_output, layout.mesh, layout.alias_placements, shape=(3, 2))

    Wrapped()
    with simulate(ranks):
        mesh = init_device_mesh("cpu", (ranks,))
        mark, y = _call(lambda v: v * 2, put(mesh, X, S(0)))
        assert mark == "mine" and len(seen) == 1 and np.array_equal(value_of(y), 2 * X)


def test_wrap_output_can_be_called_on_the_base(mesh):
    """
    Feature: wrap_output.
    Description: an override that calls the base's.
    Expectation: the base wraps as without an override.
    """
    class Counting(ThreePhase):
        """Counts its outputs."""

        count = 0

        def wrap_output(self, py_output, output_layouts):
            """What the base gives."""
            Counting.count += 1
            return super().wrap_output(py_output, output_layouts)

    Counting()
    y = _call(lambda v: v * 2, put(mesh, X, S(0)))
    assert Counting.count == 1 and y.placements == (S(0),) and np.array_equal(value_of(y), 2 * X)


@pytest.mark.parametrize("kind", [Older, ThreePhase])
def test_several_outputs_take_one_layout_each(mesh, kind):
    """
    Feature: DistributedOp subclasses.
    Description: a function with two outputs: one kept, one summed over the cut dim; and a plain third one.
    Expectation: each output under its own layout; None hands the local value through.
    """
    class Pair(kind):
        """The value, and its sum over rows, pending."""

        def infer_layout(self, cache_values, extra_args=None):  # pylint: disable=arguments-renamed
            """A cut and a pending layout."""
            first = cache_values[0]
            total = Layout.from_device_mesh(first.mesh)("None")
            total.set_partial_by_dev_axis("tp", "sum")
            outputs = (first, total, None)
            return outputs if kind is Older else (outputs, None)

    Pair()
    twice, total, plain = _call(lambda v: (v * 2, v.sum(0), 5), put(mesh, X, S(0)))
    assert np.array_equal(value_of(twice), 2 * X) and total.placements == (P(),)
    assert np.array_equal(value_of(total), X.sum(0)) and plain == 5


def test_a_number_of_layouts_that_does_not_fit_is_refused(mesh):
    """
    Feature: DistributedOp subclasses.
    Description: two layouts for one output, one layout for two.
    Expectation: LayoutError that names the operation.
    """
    class Two(Older):
        """Two layouts, whatever comes out."""

        def infer_layout(self, layouts, extra_args=None):
            """Twice the same."""
            return layouts[0], layouts[0]

    Two()
    with pytest.raises(LayoutError, match="^Mine returned 1 outputs and 2 layouts"):
        _call(lambda v: v, put(mesh, X, S(0)))
    Older()
    with pytest.raises(LayoutError, match="^Mine returned 2 outputs and 1 layouts"):
        _call(lambda v: (v, v), put(mesh, X, S(0)))


class Fresh(Older):
    """A layout without a recorded shape."""

    def __init__(self, *entries, shape=None):
        super().__init__()
        self.entries, self.shape = entries, shape

    def infer_layout(self, layouts, extra_args=None):
        """Made anew from axis names."""
        made = Layout.from_device_mesh(layouts[0].mesh)(*self.entries)
        if self.shape:
            made.set_tensor_meta(self.shape)
        return made


def test_a_result_is_never_labelled_with_a_shape_that_its_parts_do_not_have(mesh):
    """
    Feature: DistributedOp subclasses.
    Description: layouts without and with a recorded shape for even and uneven parts, a layout of another rank.
    Expectation: equal parts give the global shape; anything that the parts contradict is a LayoutError.
    """
    Fresh("tp", "None")
    even = np.concatenate([X, X[:1]])
    assert _call(lambda v: v * 2, put(mesh, even, S(0))).shape == (4, 2)
    refused = [(("tp", "None"), None), (("tp", "None"), (4, 2)), (("tp",), None), (("None", "None"), None),
               (("None", "None"), (3, 2))]
    for entries, shape in refused:
        Fresh(*entries, shape=shape)
        with pytest.raises(LayoutError):
            _call(lambda v: v * 2, put(mesh, X, S(0)))
    Fresh("tp", "None", shape=(3, 2))
    assert np.array_equal(value_of(_call(lambda v: v * 2, put(mesh, X, S(0)))), 2 * X)


@pytest.mark.parametrize("kind", [Older, ThreePhase])
@pytest.mark.parametrize("convention", ["single_loss", "sum_of_ranks"])
def test_a_replica_next_to_a_shard_has_a_complete_gradient(mesh, kind, convention):
    """
    Feature: gradients of DistributedOp subclasses.
    Description: shard * replica under a user's rule, in both conventions.
    Expectation: the replica's gradient, read through its label, is the sum over the parts.
    """
    kind()
    x, w = put(mesh, X, S(0)), put(mesh, np.array([2.0, -3.0], "float32"), R)
    with set_gradient_convention(convention):
        _, (gx, gw) = value_and_grad(lambda x, w: _call(mint.mul, x, w).sum(), (0, 1))(x, w)
        seeds = 1 if convention == "single_loss" else 2
        assert np.array_equal(value_of(gx), seeds * np.broadcast_to([2.0, -3.0], (3, 2)))
        assert np.array_equal(value_of(gw), seeds * X.sum(0))


def test_partial_inputs_are_refused_on_request(mesh):
    """
    Feature: _check_partial_inputs.
    Description: a user's rule that calls it, on a pending and on a whole tensor.
    Expectation: PartialError that names operation and input; the whole tensor passes.
    """
    class Careful(Older):
        """No pending inputs."""

        def infer_layout(self, layouts, extra_args=None):
            """The first layout, if nothing is pending."""
            self._check_partial_inputs(layouts)
            return layouts[0]

    Careful()
    with pytest.raises(PartialError, match=r"^Mine: input 0 .*reduce_partial\(\)"):
        _call(lambda v: v * v, put(mesh, X, P()))
    assert np.array_equal(value_of(_call(lambda v: v * v, put(mesh, X, R))), X * X)


def test_the_newest_registration_counts(mesh):
    """
    Feature: the registry.
    Description: an operation used, then registered anew under a built-in name and under its own.
    Expectation: calls after the registration follow the new rule, whatever was cached before.
    """
    x, w = put(mesh, X.T.copy(), R), put(mesh, X, R)
    assert np.array_equal(value_of(mint.matmul(x, w)), X.T @ X)

    class Doubled(Older):
        """Twice the product."""

        def get_expand_impl(self, func, *inferred):
            """Twice what the framework gives."""
            return lambda a, b: func(a, b) * 2

        def infer_layout(self, layouts, extra_args=None):
            """Whole."""
            return Layout.from_device_mesh(layouts[0].mesh)("None", "None")

    Doubled("MatMulExt")
    assert np.array_equal(value_of(mint.matmul(x, w)), 2 * X.T @ X)
    MatMulExtDistributedOp()
    assert np.array_equal(value_of(mint.matmul(x, w)), X.T @ X)


def test_a_subclass_of_a_built_in_class_may_override_the_rule(mesh):
    """
    Feature: subclasses of built-in operations.
    Description: a MatMulExt rule that refuses all pending operands, and leaves the rest to the built-in one.
    Expectation: its refusal counts; its answers are those of the built-in rule, values exact.
    """
    class Strict(MatMulExtDistributedOp):
        """As built in, without pending operands."""

        def infer_layout(self, cache_values, *extra):
            """The built-in answer for whole operands."""
            self._check_partial_inputs([v for v in cache_values if isinstance(v, Layout)])
            return super().infer_layout(cache_values, *extra)

    Strict()
    w = put(mesh, X, R)
    with pytest.raises(PartialError, match="^MatMulExt: input 0"):
        mint.matmul(put(mesh, X.T.copy(), P()), w)
    for placements in ((S(0), R), (R, S(1)), (R, R)):
        got = mint.matmul(put(mesh, X.T.copy(), placements[0]), put(mesh, X, placements[1]))
        assert np.array_equal(value_of(got), X.T @ X)


def test_the_base_class_says_what_is_missing(mesh):
    """
    Feature: DistributedOp.
    Description: an instance of the bare base; an operation that nobody registered.
    Expectation: NotImplementedError that names the class; UnsupportedOpError that names the operation and both
        ways out.
    """
    DistributedOp("Mine")
    with pytest.raises(NotImplementedError, match="infer_layout"):
        _call(lambda v: v, put(mesh, X, R))
    with pytest.raises(UnsupportedOpError, match="^Unknown has no distributed rule.*DistributedOp.*custom_shard"):
        _call(lambda v: v, put(mesh, X, R), name="Unknown")


def test_an_error_of_a_users_rule_leaves_dispatch_as_it_was(mesh):
    """
    Feature: DistributedOp subclasses.
    Description: the local function raises; the rule raises.
    Expectation: the user's error; the next calls dispatch as usual.
    """
    Older()
    x = put(mesh, X, S(0))

    def fails(_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        _call(fails, x)
    assert x.shape == (3, 2) and isinstance(mint.add(x, x), DTensor) and np.array_equal(value_of(mint.add(x, x)), 2 * X)
    with pytest.raises((HyperParallelError, StopIteration)):
        _call(lambda v: v, Tensor(X), Tensor(X))
    assert np.array_equal(value_of(mint.add(x, x)), 2 * X)

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
"""custom_shard: local functions with stated placements; inputs, outputs, gradients, and every refusal."""
import numpy as np
import pytest
from mindspore import Tensor, mint

from hyper_parallel import (
    DTensor, LayoutError, MeshError, Partial, Replicate, Shard, custom_shard, init_device_mesh, record_collectives,
    set_gradient_convention, simulate, value_and_grad,
)
from tests.common.tensors import put, value_of

R, S, P = Replicate(), Shard, Partial
X = np.array([[1, -2, 4, 0], [3, 5, -1, 2], [7, 0, -6, 1], [2, 2, -3, -4]], "float32")
V = np.array([2, -3, 1, 5], "float32")


# in placements, function of one tensor, out placements, value
ONE = [
    ((S(0),), lambda v: v * 2, (S(0),), 2 * X), ((S(1),), lambda v: v.sum(1), (P(),), X.sum(1)),
    ((S(0),), lambda v: v.sum(1), (S(0),), X.sum(1)), ((R,), lambda v: v + 1, (R,), X + 1),
    ((P(),), lambda v: v * 3, (P(),), 3 * X), ((S(0),), lambda v: v.max(), (P("max"),), X.max()),
    ((S(1),), lambda v: mint.transpose(v, 0, 1), (S(0),), X.T),
    (("tp", "None"), lambda v: v * 2, ("tp", "None"), 2 * X),
    ([S(0)], lambda v: v * 2, [S(0)], 2 * X),
]


@pytest.mark.parametrize("inside, function, outside, want", ONE)
@pytest.mark.parametrize("source", [S(0), S(1), R, P()])
def test_inputs_come_as_stated_and_outputs_are_labelled(mesh, inside, function, outside, want, source):
    """
    Feature: custom_shard.
    Description: functions of one local tensor for inputs under every placement, redistributed to what is stated.
    Expectation: the value under the stated output placements; the input keeps its own.
    """
    x = put(mesh, X, source)
    y = custom_shard(function, mesh, outside, (inside,))(x)
    assert np.array_equal(value_of(y), want) and y.shape == want.shape and x.placements == (source,)
    assert not isinstance(outside[0], (S, Partial)) or y.placements == tuple(outside)


def test_several_inputs_and_outputs(mesh):
    """
    Feature: custom_shard.
    Description: two DTensors, a number and a keyword in; a shard, a pending sum and a number out.
    Expectation: each output under its own placements; what has none is handed through.
    """
    def function(a, factor, b, shift=0.0):
        assert tuple(a.shape) == (2, 4) and tuple(b.shape) == (4,) and factor == 3 and not isinstance(a, DTensor)
        return a * b * factor + shift, (a * b).sum(0), 7

    made = custom_shard(function, mesh, ((S(0),), (P(),), None), ((S(0),), None, (R,)))
    first, second, third = made(put(mesh, X, S(1)), 3, put(mesh, V, S(0)), shift=1.0)
    assert np.array_equal(value_of(first), 3 * X * V + 1) and np.array_equal(value_of(second), (X * V).sum(0))
    assert third == 7
    assert first.placements == (S(0),) and second.placements == (P(),)


def test_a_tuple_of_one_output(mesh):
    """
    Feature: custom_shard.
    Description: a function that returns a tuple or a list with one tensor.
    Expectation: a tuple with one DTensor.
    """
    for kind in (tuple, list):
        got = custom_shard(lambda v, kind=kind: kind([v * 2]), mesh, ((S(0),),), ((S(0),),))(put(mesh, X, S(0)))
        assert isinstance(got, tuple) and len(got) == 1 and np.array_equal(value_of(got[0]), 2 * X)


def test_without_a_dtensor_the_function_runs_as_it_is(mesh):
    """
    Feature: custom_shard.
    Description: plain arguments only.
    Expectation: what the function returns, unwrapped.
    """
    made = custom_shard(lambda v, k: v * k, mesh, (S(0),))
    got = made(Tensor(X), 2)
    assert not isinstance(got, DTensor) and np.array_equal(got.asnumpy(), 2 * X) and made(3, 4) == 12


def test_keyword_arguments_are_passed_untouched(mesh):
    """
    Feature: custom_shard.
    Description: a DTensor as keyword argument; mixed with a local tensor inside.
    Expectation: it arrives as the DTensor that it is, and is not taken for a local part.
    """
    x, seen = put(mesh, X, S(0)), []
    made = custom_shard(lambda v, other=None: seen.append(other) or v, mesh, (S(0),), ((S(0),),))
    assert np.array_equal(value_of(made(x, other=x)), X) and all(v is x for v in seen) and len(seen) == 2
    with pytest.raises(LayoutError, match="plain tensor"):
        custom_shard(lambda v, other=None: mint.mul(v, other), mesh, (S(0),), ((S(0),),))(x, other=x)


def test_two_axes_and_the_operation_inside_is_local():
    """
    Feature: custom_shard.
    Description: a local product on (2, 2): x cut by dp and tp, w by tp.
    Expectation: the value with a shard and a pending sum; two conversions of the input, none of the output.
    """
    with simulate(4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        made = custom_shard(mint.matmul, mesh, (S(0), P()), ((S(0), S(1)), (R, S(0))))
        y = made(put(mesh, X, R, R), put(mesh, X, R, R))
        assert y.placements == (S(0), P()) and np.array_equal(value_of(y), X @ X)


def test_inputs_in_place_already_cost_nothing(mesh):
    """
    Feature: redistribute_inputs.
    Description: inputs that have the stated placements, with and without redistribution; others without.
    Expectation: no collective; LayoutError that names the argument and both layouts.
    """
    x = put(mesh, X, S(0))
    with record_collectives() as log:
        for redistribute in (True, False):
            y = custom_shard(lambda v: v * 2, mesh, (S(0),), ((S(0),),), redistribute_inputs=redistribute)(x)
            assert np.array_equal(value_of(y), 2 * X)
        with pytest.raises(LayoutError, match=r"argument 0 is \[S\(0\)\].*says \[S\(1\)\].*redistribute_inputs"):
            custom_shard(lambda v: v * 2, mesh, (S(1),), ((S(1),),), redistribute_inputs=False)(x)
    assert log == []


REFUSED = {
    "no in_placements": (lambda x, m: custom_shard(lambda v: v, m, (R,))(x), RuntimeError, "in_placements"),
    "too few": (lambda x, m: custom_shard(lambda v, w: v, m, (R,), ((R,),))(x, x), ValueError,
                "1 entries for 2 arguments"),
    "too many": (lambda x, m: custom_shard(lambda v: v, m, (R,), ((R,), (R,)))(x), ValueError,
                 "2 entries for 1 arguments"),
    "None for a DTensor": (lambda x, m: custom_shard(lambda v: v, m, (R,), (None,))(x), TypeError,
                           "argument 0 is a DTensor without"),
    "placements for a number": (lambda x, m: custom_shard(lambda v, k: v, m, (R,), ((R,), (R,)))(x, 2), TypeError,
                                "argument 1 is a int with"),
    "placements for a plain tensor": (
        lambda x, m: custom_shard(lambda v, k: v, m, (R,), ((R,), (R,)))(x, Tensor(X)), TypeError, "argument 1"),
    "too few outputs": (lambda x, m: custom_shard(lambda v: (v, v), m, ((R,),), ((R,),))(x), ValueError,
                        "2 outputs and 1 out_placements"),
    "too many outputs": (lambda x, m: custom_shard(lambda v: (v,), m, ((R,), (R,)), ((R,),))(x), ValueError,
                         "1 outputs and 2 out_placements"),
    "None for a tensor output": (lambda x, m: custom_shard(lambda v: (v, v), m, ((R,), None), ((R,),))(x),
                                 TypeError, "every tensor output"),
    "None for the output": (lambda x, m: custom_shard(lambda v: v, m, None, ((R,),))(x), TypeError,
                            "every tensor output"),
    "placements for a number output": (lambda x, m: custom_shard(lambda v: (v, 1), m, ((R,), (R,)), ((R,),))(x),
                                       TypeError, "None to all else"),
    "number of input placements": (lambda x, m: custom_shard(lambda v: v, m, (R,), ((R, R),))(x), LayoutError,
                                   "needs 1 placements"),
    "number of output placements": (lambda x, m: custom_shard(lambda v: v, m, (R, R), ((R,),))(x), LayoutError,
                                    "needs 1 placements"),
    "output dim out of range": (lambda x, m: custom_shard(lambda v: v.sum(), m, (S(0),), ((S(0),),))(x),
                                LayoutError, "out of range"),
    "uneven outputs": (lambda x, m: custom_shard(lambda v: v[:int(v[0, 0] == 1) + 1], m, (S(0),), ((S(0),),))(x),
                       LayoutError, "equal|differ"),
    "another reduce op": (lambda x, m: custom_shard(lambda v: v, m, (P(),),
                                                    ((P("max"),),))(x.redistribute(m, [P()])), LayoutError,
                                                    "redistribute"),
    "another mesh": (lambda x, m: custom_shard(lambda v: v, init_device_mesh("cpu", (2,), mesh_dim_names=("dp",)),
                                               (R,), ((R,),))(x), MeshError, "full_tensor"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_placements_that_do_not_fit_are_refused(mesh, name):
    """
    Feature: custom_shard.
    Description: missing, superfluous and wrong placements of inputs and outputs.
    Expectation: the error type of the public library, with argument and numbers in the text.
    """
    call, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        call(put(mesh, X, R), mesh)


@pytest.mark.parametrize("convention", ["single_loss", "sum_of_ranks"])
@pytest.mark.parametrize("source", [S(0), R, P()])
def test_gradients_of_a_shard_and_of_a_replica(mesh, convention, source):
    """
    Feature: gradients of custom_shard.
    Description: shard * replica inside, loss the sum of the result; inputs under several placements, both
        conventions.
    Expectation: exact gradients through their labels; the replica's is the sum over the parts.
    """
    made = custom_shard(lambda a, b: a * b, mesh, (S(0),), ((S(0),), (R,)))
    with set_gradient_convention(convention):
        _, (gx, gv) = value_and_grad(lambda x, v: made(x, v).sum(), (0, 1))(put(mesh, X, source), put(mesh, V, R))
    seeds = 1 if convention == "single_loss" else 2
    assert np.array_equal(value_of(gx), seeds * np.broadcast_to(V, X.shape))
    assert np.array_equal(value_of(gv), seeds * X.sum(0))


def test_gradients_through_a_pending_output(mesh):
    """
    Feature: gradients of custom_shard.
    Description: a contraction made by hand, its pending result multiplied and reduced.
    Expectation: exact gradients of both factors.
    """
    made = custom_shard(mint.matmul, mesh, (P(),), ((S(1),), (S(0),)))
    weight = np.arange(16.0, dtype="float32").reshape(4, 4) - 5
    _, (gx, gw) = value_and_grad(lambda x, w: (made(x, w).reduce_partial() * put(mesh, weight, R)).sum(),
                                 (0, 1))(put(mesh, X, S(1)), put(mesh, X, S(0)))
    assert np.array_equal(value_of(gx), weight @ X.T) and np.array_equal(value_of(gw), X.T @ weight)


def test_an_error_inside_leaves_dispatch_as_it_was(mesh):
    """
    Feature: custom_shard.
    Description: the function raises.
    Expectation: the function's own error; DTensors work as before.
    """
    def fails(_):
        raise KeyError("mine")

    x = put(mesh, X, S(0))
    with pytest.raises(KeyError, match="mine"):
        custom_shard(fails, mesh, (R,), ((S(0),),))(x)
    assert np.array_equal(value_of(x + x), 2 * X)

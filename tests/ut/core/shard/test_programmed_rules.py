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
"""Programmed rules handed to register_op: what verify=True accepts, what it refuses and with which counterexample."""
from __future__ import annotations

import numpy as np
import pytest
from mindspore import mint

from hyper_parallel import (
    Layout, LayoutError, Partial, PartialError, Shard, VerificationError, distribute_tensor, init_device_mesh,
    register_op, simulate,
)
from hyper_parallel.core.dtensor.layout_value import layout_value
from hyper_parallel.core.shard._op_dispatch import dispatch_named
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
from hyper_parallel.verify import Pattern

pytestmark = pytest.mark.usefixtures("own_registry")


class Scale(DistributedOp):
    """x * factor, with pending sums and means."""

    check = {"params": "x:t factor=2.0", "reference": lambda x, factor=2.0: x * factor,
             "patterns": ["x=ab", Pattern("x=a", factor=-3.0)]}
    passes = {None, "sum", "avg"}

    def preprocess(self, args, kwargs):
        x, *factor = args
        return (x.to_local(partial_ok=True), *factor), kwargs, [x.layout]

    def infer_layout(self, cache_values, extra_args=None):
        if not set(cache_values[0].value.partial) <= self.passes:
            raise ValueError("no layout")  # as rules of the public library refuse
        return (cache_values[0],), None


class Product(DistributedOp):
    """x @ w by the contracted dimension alone, as the reported rule had it; Partial is refused."""

    check = {"params": "x:t w:t", "reference": lambda x, w: x @ w, "patterns": ["x=mk w=kn"]}

    def preprocess(self, args, kwargs):
        return tuple(a.to_local(partial_ok=True) for a in args), kwargs, [a.layout for a in args]

    def infer_layout(self, cache_values, extra_args=None):
        self._check_partial_inputs(cache_values)
        x, w = (handle.value for handle in cache_values)
        if x.dims[1] != w.dims[0]:
            raise LayoutError("the contracted dimension must be cut alike")
        summed = tuple("sum" if a in x.dims[1] else None for a in range(x.mesh.ndim))
        return (Layout.of(layout_value(x.mesh, (x.dims[0], w.dims[1]), summed)),), None


class Shifted(Scale):
    """x + 6, of which every rank of a pending sum adds its share by a local function of its own."""

    check = {"params": "x:t", "reference": lambda x: x + 6.0, "patterns": ["x=ab"]}
    passes = {None, "sum"}

    def get_expand_impl(self, func, infer_result, cache_values):
        layout = cache_values[0].value
        count = np.prod([n for n, op in zip(layout.mesh.mesh_shape, layout.partial) if op])
        return None if count == 1 else lambda x: x + 6.0 / float(count)


class Older(DistributedOp):
    """A negation, in the older contract."""

    check = {"params": "x:t", "reference": lambda x: -x, "patterns": ["x=ab"]}

    def infer_layout(self, cache_values, extra_args=None):
        return cache_values[0]


SOUND = {"scale": (Scale, {"P(sum)", "P(avg)", "S(0)", "S(1)", "R"}), "product": (Product, {"R", "S(0)", "S(1)"}),
         "a local function": (Shifted, {"P(sum)", "S(0)", "S(1)", "R"})}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_rule_is_registered(name):
    """
    Feature: register_op(rule=, verify=True).
    Description: a rule that keeps sums, one that contracts, one whose local function divides a constant.
    Expectation: registered, with the placements that it takes; values and gradients were checked.
    """
    rule, placements = SOUND[name]
    op = register_op("MyRule", rule=rule, verify=True)
    assert get_distributed_op("MyRule") is op and isinstance(op, rule)
    assert {row.operands[0] for row in op.report.rows.values()} == placements
    assert op.report.ok and op.report.gradients


def _variant(base, **changes):
    return type(base.__name__, (base,), changes)


UNSOUND = {
    "any Partial is kept": (_variant(Scale, passes={None, "sum", "avg", "max", "min", "prod"}), r"P\(\w+\).*\n"),
    "Partial is dropped by a product": (_variant(Product, _allow_partial_inputs=True), r"\[P\(\w+\)\] -> \[R\]"),
    "every rank adds the constant": (_variant(Shifted, get_expand_impl=lambda *a: None), r"\[P\(sum\)\]"),
    "the sum becomes a mean": (_variant(Scale, infer_layout=lambda self, c, e=None: (
        (Layout.of(c[0].value.replace(partial=tuple("avg" if op == "sum" else op for op in c[0].value.partial))),),
        None)), "right"),
    "the older contract keeps a maximum": (Older, r"\[P\(max\)\] -> \[P\(max\)\]"),
    "two layouts for one result": (_variant(Scale, infer_layout=lambda self, c, e=None: ((c[0], c[0]), None)),
                                   "2 layouts for 1 results"),
    "a layout of another rank": (_variant(
        Scale, check={**Scale.check, "patterns": ["x=ab"]}, infer_layout=lambda self, c, e=None: (
            (Layout.of(layout_value(c[0].value.mesh, ((),), (None,) * c[0].value.mesh.ndim)),), None)),
        "for a result of 2 dimensions"),
    "a local tensor is lost": (_variant(Product, preprocess=lambda self, args, kwargs: (
        (args[0].to_local(partial_ok=True),), kwargs, [a.layout for a in args])), "1 local tensors for 2 operands"),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_an_unsound_rule_is_refused(name):
    """
    Feature: register_op(rule=, verify=True).
    Description: rules that drop, keep or change a Partial where it is wrong, and rules whose answer fits no call.
    Expectation: VerificationError with the counterexample; the name keeps what it meant before.
    """
    rule, message = UNSOUND[name]
    with pytest.raises(VerificationError, match=message):
        register_op("MyRule", rule=rule, verify=True)
    assert get_distributed_op("MyRule") is None
    first = register_op("MyRule", rule=Scale)
    with pytest.raises(VerificationError):
        register_op("MyRule", rule=rule, verify=True)
    assert get_distributed_op("MyRule") is first and first.report is None


def test_a_checked_rule_runs_on_tensors():
    """
    Feature: register_op(rule=).
    Description: the checked rule of a scaling on addends, and on a pending maximum.
    Expectation: the sum stays pending and is scaled; the maximum is refused.
    """
    register_op("MyRule", rule=Scale, verify=True)
    x = np.array([[1.0, -2.0]])
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        y = dispatch_named("MyRule", mint.mul, distribute_tensor(x, mesh, [Partial()]), 2.0)
        assert y.placements == (Partial(),)
        np.testing.assert_array_equal(y.full_tensor().asnumpy(), 2 * x)
        with pytest.raises(ValueError, match="no layout"):
            dispatch_named("MyRule", mint.mul, distribute_tensor(x, mesh, [Partial("max")]), 2.0)
        register_op("MyRule", rule=Product, override=True)
        with pytest.raises(PartialError, match="input 0"):
            dispatch_named("MyRule", mint.matmul, distribute_tensor(x, mesh, [Partial()]),
                           distribute_tensor(x.T, mesh, [Shard(1)]))


@pytest.mark.parametrize("options, message", [
    ({}, "either signature=, a declaration, or rule="), ({"rule": Scale, "signature": "a->a"}, "either signature="),
    ({"rule": Scale("Made")}, "must be a subclass"), ({"rule": dict}, "must be a subclass"),
    ({"rule": _variant(Scale, check={}), "verify": True}, "needs params, patterns, reference"),
    ({"rule": _variant(Scale, check={**Scale.check, "mesh": 2}), "verify": True}, "may have approximate"),
])
def test_mistakes_in_the_call_are_told(options, message):
    """
    Feature: register_op(rule=).
    Description: neither or both forms, an instance, another class, a check without or with more than its parts.
    Expectation: LayoutError that says what is needed; nothing is registered.
    """
    with pytest.raises(LayoutError, match=message):
        register_op("MyRule", **options)
    assert get_distributed_op("MyRule") is None


def test_arguments_go_before_the_attribute():
    """
    Feature: register_op(rule=, verify=True).
    Description: a reference given in the call contradicts the rule, the one of the class does not.
    Expectation: the one of the call decides.
    """
    with pytest.raises(VerificationError, match="right"):
        register_op("MyRule", rule=Scale, verify=True, reference=lambda x, factor=2.0: np.cumsum(x, 0) * factor)


def test_a_local_function_leaves_gradients_unchecked(caplog):
    """
    Feature: register_op(rule=, verify=True).
    Description: a rule whose local function replaces the operation on every layout.
    Expectation: registered; a warning says that no gradient was checked.
    """
    rule = _variant(Scale, get_expand_impl=lambda *a: lambda x, factor=2.0: mint.mul(x, factor))
    assert register_op("MyRule", rule=rule, verify=True).report.rows
    assert "no gradient was checked" in caplog.text

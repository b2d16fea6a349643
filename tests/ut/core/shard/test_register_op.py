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
"""Operations that users add by declaration, checked or not."""
import pathlib
import re

import numpy as np
import pytest
from mindspore import Tensor, ops

from hyper_parallel import (
    DFunction, Layout, LayoutError, Partial, PartialError, Replicate, Shard, UnsupportedOpError, VerificationError,
    distribute_tensor, init_device_mesh, register_op, simulate, value_and_grad,
)
from hyper_parallel.core.shard._op_dispatch import dispatch_named
from hyper_parallel.core.shard.ops.parallel_ops_register import _OPS, get_distributed_op
from hyper_parallel.core.shard.signature_text import default_patterns, parse_signature
from tests.common.tensors import value_of


def _layout(shape, *dims):
    names = ("dp", "tp")[-len(shape):]
    return Layout(shape, names)(*dims)


def _pending(ndim, op):
    layout = _layout((2,), *["None"] * ndim)
    layout.set_partial_by_dev_axis("tp", op)
    return layout


def _infer(op, *layouts):
    return op.infer_layout(list(layouts))[0][0].placements[0]


# -- words and rows --------------------------------------------------------------------------------------------------

TP = (2,)
ROWS = {
    "multilinear": [(("sum", None), "sum"), ((None, "avg"), "avg"), (("sum", "sum"), None), (("max", None), None)],
    "additive": [(("sum", None), "sum"), (("sum", "sum"), "sum"), (("avg", "sum"), None), (("max", None), None)],
    "linear": [(("sum", None), "sum"), ((None, "sum"), None), (("max", None), None)],
    "increasing": [(("max", None), "max"), (("min", None), "min"), (("sum", None), None), (("max", "max"), None)],
    "decreasing": [(("max", None), "min"), (("min", None), "max"), (("sum", None), None)],
    "movement": [(("sum", None), "sum"), (("max", "max"), "max"), (("prod", "prod"), "prod"), (("prod", None), None)],
    "nonlinear": [(("sum", None), None), (("max", None), None)],
}


@pytest.mark.parametrize("word, operands, expected",
                         [(word, operands, out) for word, rows in ROWS.items() for operands, out in rows])
def test_a_word_gives_its_rows(word, operands, expected):
    """
    Feature: register_op(linear=...).
    Description: two operands of one shape, pending or replicated, under each word.
    Expectation: the pending reduction of the result, or a refusal.
    """
    op = register_op("MyPair", signature="...,...->...", linear=word)
    layouts = [_pending(1, o) if o else _layout(TP, "None") for o in operands]
    if expected is None:
        with pytest.raises(PartialError, match=r"MyPair.*reduce_partial\(\)"):
            _infer(op, *layouts)
    else:
        assert _infer(op, *layouts) == Partial(expected)


@pytest.mark.parametrize("signature, options, dims, expected", [
    ("mk,kn->mn", {"reduces": {"k": "sum"}}, (("None", "tp"), ("tp", "None")), Partial()),
    ("mk,kn->mn", {}, (("None", "tp"), ("tp", "None")), None),
    ("mk,kn->mn", {}, (("tp", "None"), ("None", "None")), Shard(0)),
    ("mk,kn->mn", {}, (("None", "None"), ("None", "tp")), Shard(1)),
    ("mk,kn->mn", {"unshardable": "n"}, (("None", "None"), ("None", "tp")), None),
    ("...k,nk->...n", {}, (("None", "tp", "None"), ("None", "None")), Shard(1)),
    ("ab->ba", {}, (("tp", "None"),), Shard(1)),
    ("ab->a1", {"reduces": {"b": "max"}}, (("None", "tp"),), Partial("max")),
    ("ab->a1", {"reduces": {"b": "max"}}, (("tp", "None"),), Shard(0)),
    ("aab->b", {}, (("tp", "None", "None"),), None),
    ("aab->b", {}, (("None", "None", "tp"),), Shard(0)),
])
def test_letters_give_the_layout(signature, options, dims, expected):
    """
    Feature: register_op(signature=..., reduces=..., unshardable=...).
    Description: one operand cut along each kind of letter: kept, contracted, undeclared, acted on, repeated, leading.
    Expectation: the placement of the result, or a refusal that names the call.
    """
    op = register_op("MyLetters", signature=signature, **options)
    layouts = [_layout(TP, *d) for d in dims]
    if expected is None:
        with pytest.raises(LayoutError, match=r"MyLetters.*redistribute\("):
            _infer(op, *layouts)
    else:
        assert _infer(op, *layouts) == expected


def test_static_parameters_choose_the_word():
    """
    Feature: register_op(linear=function).
    Description: a power is linear for the exponent 1 only.
    Expectation: a pending sum passes for 1, and is refused for 2.
    """
    op = register_op("MyPower", signature="...->...", params="x:t exponent=1",
                     linear=lambda statics: "linear" if statics["exponent"] == 1 else "nonlinear")
    assert op.infer_layout([_pending(1, "sum"), 1])[0][0].placements == (Partial(),)
    with pytest.raises(PartialError, match="MyPower is not linear"):
        op.infer_layout([_pending(1, "sum"), 2])


def test_terms_and_an_optional_operand():
    """
    Feature: register_op(terms=...).
    Description: x @ w + bias with the bias given, and left out.
    Expectation: the bias enters a pending product once; without it the product is pending all the same.
    """
    op = register_op("MyAffine", signature="...k,kn,n->...n", params="x:t w:t bias:t=None", reduces={"k": "sum"},
                     terms=[("x", "w"), ("bias",)])
    x, w, b = _layout(TP, "None", "tp"), _layout(TP, "tp", "None"), _layout(TP, "None")
    (out,), (_, _, inference) = op.infer_layout([x, w, b])
    assert out.placements == (Partial(),) and inference.once == ((), (), (0,))
    assert op.infer_layout([x, w, None])[0][0].placements == (Partial(),)


@pytest.mark.parametrize("options, message", [
    ({"signature": "mk,kn"}, "'->'"), ({"signature": "m*->m"}, "letters and digits"),
    ({"signature": "m->mn"}, "'n' of a result"), ({"signature": "m->m", "linear": "affine"}, "linear must be one of"),
    ({"signature": "m,m->m", "params": "x:t"}, "2 operands"),
    ({"signature": "m->m", "unshardable": "q"}, "neither letters"),
    ({"signature": "m->m", "no_grad": ("mask",)}, "neither letters"),
    ({"signature": "m->m", "terms": [("y",)]}, "neither"), ({"signature": "m->m", "joint": "sum"}, "neither"),
    ({"signature": "m->", "reduces": {"m": "avg"}}, "one of sum, max"),
    ({"signature": "m->m", "reduces": {"m": "sum"}}, "vanishes"),
    ({"signature": "a,b,c,d,e->abcde"}, "name the parameters"),
    ({"signature": "mn->", "reduces": {"m": "sum", "n": "max"}}, "reduced alike"),
    ({"signature": "m->m", "verify": True}, "needs reference"),
])
def test_a_declaration_that_contradicts_itself_is_refused(options, message):
    """
    Feature: register_op.
    Description: malformed signatures, unknown words, letters and parameters, a check without a reference.
    Expectation: LayoutError that says what is wrong; nothing is registered.
    """
    with pytest.raises(LayoutError, match=message):
        register_op("MyMistake", **options)
    assert get_distributed_op("MyMistake") is None


@pytest.mark.parametrize("shapes, message", [
    (((2, 3), (4, 5)), "stands for sizes 3 and 4"), (((2,), (2, 3)), "does not fit 'mk'"),
])
def test_a_call_that_does_not_fit_the_letters_is_refused(shapes, message):
    """
    Feature: register_op(signature=...).
    Description: shapes with another size for one letter, or another number of dimensions.
    Expectation: LayoutError that names the letter or the operand.
    """
    op = register_op("MyProduct", signature="mk,kn->mn")
    layouts = [_layout(TP, *["None"] * len(s)) for s in shapes]
    for layout, shape in zip(layouts, shapes):
        layout.set_tensor_meta(shape)
    with pytest.raises(LayoutError, match=message):
        op.infer_layout(layouts)


# -- names -----------------------------------------------------------------------------------------------------------


def test_a_built_in_name_is_replaced_only_on_purpose():
    """
    Feature: register_op(override=...).
    Description: declare MatMulExt as nonlinear, without and with override; declare an own name twice.
    Expectation: refused, then taken; an own name is simply declared anew.
    """
    with pytest.raises(LayoutError, match="MatMulExt is a built-in operation.*override=True"):
        register_op("MatMulExt", signature="mk,kn->mn")
    assert _infer(get_distributed_op("MatMulExt"), _pending(2, "sum"), _layout(TP, "None", "None")) == Partial()
    register_op("MatMulExt", signature="mk,kn->mn", override=True)
    with pytest.raises(PartialError):
        _infer(get_distributed_op("MatMulExt"), _pending(2, "sum"), _layout(TP, "None", "None"))
    first = register_op("MyOwn", signature="m->m")
    assert register_op("MyOwn", signature="m->m") is get_distributed_op("MyOwn") is not first


# -- the check -------------------------------------------------------------------------------------------------------

SOUND = {
    "product": ({"signature": "mk,kn->mn", "linear": "multilinear", "reduces": {"k": "sum"}}, lambda x, w: x @ w),
    "sum": ({"signature": "...,...->...", "linear": "additive"}, lambda x, y: x + y),
    "affine": ({"signature": "...k,nk,n->...n", "params": "x:t w:t bias:t", "terms": [("x", "w"), ("bias",)],
                "reduces": {"k": "sum"}}, lambda x, w, b: x @ np.transpose(w) + b),
    "rectifier": ({"signature": "...->...", "linear": "increasing"}, lambda x: x * (x > 0)),
    "maximum": ({"signature": "ab,ab->ab", "linear": "increasing", "joint": "max"}, np.maximum),
    "transpose": ({"signature": "ab->ba", "linear": "movement"}, np.transpose),
    "largest": ({"signature": "ab->a", "reduces": {"b": "max"}}, lambda x: np.max(x, 1)),
    "diagonal": ({"signature": "aa->a", "linear": "movement"}, np.diagonal),
    "scaled": ({"signature": "...->...", "params": "x:t k=-3", "linear": "linear"}, lambda x, k: x * k),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_declaration_passes_the_check(name):
    """
    Feature: register_op(verify=True).
    Description: one operation of each class, with a numpy reference.
    Expectation: registered; the report has rows and gradients, none of them wrong.
    """
    options, reference = SOUND[name]
    op = register_op("MySound", verify=True, reference=reference, **options)
    assert get_distributed_op("MySound") is op
    assert op.report.ok and len(op.report.rows) > 2 and op.report.gradients == op.report.cases > 0


UNSOUND = {
    "abs is not linear": ({"signature": "...->...", "linear": "linear"}, np.absolute, r"right: .*\n.*wrong: "),
    "a product is not additive": ({"signature": "...,...->...", "linear": "additive"}, lambda x, y: x * y,
                                  "enters once"),
    "neg decreases": ({"signature": "...->...", "linear": "increasing"}, lambda x: -x, r"P\(m"),
    "a ceiling is flat beyond it": ({"signature": "ab->ab", "linear": "increasing"}, lambda x: np.minimum(x, 6.0),
                                    "gradient of operand 0"),
    "a minimum keeps no maximum": ({"signature": "ab,ab->ab", "linear": "increasing"}, np.minimum,
                                   "gradient of operand"),
    "a mean is no sum": ({"signature": "ab->a", "reduces": {"b": "sum"}}, lambda x: np.mean(x, 1), r"S\(1\)"),
    "cumsum acts along b": ({"signature": "ab->ab"}, lambda x: np.cumsum(x, 1), r"S\(1\)"),
    "flip acts along a": ({"signature": "ab->ab"}, lambda x: np.flip(x, 0), r"S\(0\)"),
    "not a transpose": ({"signature": "ab->ab"}, np.transpose, "MyUnsound"),
    "the mask has a gradient": ({"signature": "ab,ab->ab", "linear": "multilinear", "no_grad": ("other",)},
                                lambda x, y: x * y, "no_grad names operand 1"),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_an_unsound_declaration_is_refused_with_its_counterexample(name):
    """
    Feature: register_op(verify=True).
    Description: a wrong word, reduction, letter or gradient for the operation that the reference says.
    Expectation: VerificationError with the smallest counterexample; nothing is registered.
    """
    options, reference, message = UNSOUND[name]
    with pytest.raises(VerificationError, match=message):
        register_op("MyUnsound", verify=True, reference=reference, **options)
    assert get_distributed_op("MyUnsound") is None


def test_a_refused_declaration_leaves_the_earlier_one():
    """
    Feature: register_op(verify=True).
    Description: a sound declaration, then an unsound one of the same name.
    Expectation: the first stays.
    """
    first = register_op("MyTwice", signature="...->...", linear="linear")
    with pytest.raises(VerificationError):
        register_op("MyTwice", signature="...->...", linear="linear", verify=True, reference=np.absolute)
    assert get_distributed_op("MyTwice") is first


def test_a_reference_without_derivatives_is_said_aloud(caplog):
    """
    Feature: register_op(verify=True).
    Description: a reference made of np.exp, whose derivative the tape does not know.
    Expectation: registered, with a warning that no gradient was checked.
    """
    op = register_op("MyExp", signature="ab->ab", linear="increasing", verify=True, approximate=True, reference=np.exp,
                     patterns=["input=ab/unit"])
    assert op.report.rows and not op.report.gradients
    assert "no gradient was checked" in caplog.text


@pytest.mark.parametrize("signature, expected", [
    ("mk,kn->mn", ["x=mk/real w=kn/real"]), ("...->...", ["x=./real", "x=u/real", "x=uv/real"]),
    ("...k,k->...", ["x=k/real w=k/real", "x=uk/real w=k/real", "x=uvk/real w=k/real"]),
])
def test_patterns_follow_from_the_signature(signature, expected):
    """
    Feature: default patterns of a check.
    Description: signatures with and without leading dimensions.
    Expectation: the argument patterns, one per number of leading dimensions.
    """
    names = ["x", "w"][:signature.count(",") + 1]
    assert default_patterns(parse_signature("F", signature), names, ["real"] * 2) == expected


def test_patterns_broadcast_every_operand_in_turn():
    """
    Feature: default patterns of a check.
    Description: two operands with leading dimensions.
    Expectation: each one is once shorter, and once of size 1.
    """
    made = default_patterns(parse_signature("F", "...,...->..."), ["x", "y"], ["real", "shifted"])
    assert made[3:] == [f"x={x}/real y={y}/shifted" for x, y in (("v", "uv"), ("u1", "uv"), ("uv", "v"), ("uv", "u1"))]


# -- on tensors ------------------------------------------------------------------------------------------------------


def test_an_operation_of_the_framework_runs_once_it_is_declared():
    """
    Feature: register_op on a framework operation without a rule.
    Description: ops.ger (an outer product) of a shard and a replica, and of a pending sum and a replica, on 2 ranks.
    Expectation: refused before; afterwards value and gradients are numpy's, the sum stays pending.
    """
    a, b = np.array([1.0, -2.0, 4.0], "float32"), np.array([3.0, 5.0], "float32")
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        x, y = distribute_tensor(a, mesh, [Shard(0)]), distribute_tensor(b, mesh, [Replicate()])
        _OPS.pop("Ger", None)  # as long as nobody has declared it
        with pytest.raises(UnsupportedOpError, match="Ger has no distributed rule"):
            ops.ger(x, y)
        register_op("Ger", signature="m,n->mn", linear="multilinear", verify=True, reference=np.outer)
        value, (gx, gy) = value_and_grad(lambda x, y: ops.ger(x, y).sum(), (0, 1))(x, y)
        assert ops.ger(x, y).placements == (Shard(0),)
        assert value.item() == np.outer(a, b).sum()
        assert value_of(gx).tolist() == [8.0] * 3 and value_of(gy).tolist() == [3.0] * 2
        pending = x.redistribute(mesh, [Partial()])
        out = ops.ger(pending, y)
        assert out.placements == (Partial(),) and np.array_equal(value_of(out), np.outer(a, b))


class Weighted(DFunction):
    """x * w with a backward of its own."""

    _op_name = "MyWeighted"

    @staticmethod
    def forward(ctx, x, w):
        """The product."""
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        """The other factor, times the cotangent."""
        x, w = ctx.saved_tensors
        return g * w, g * x


def test_a_function_of_the_users_own_runs_under_its_declaration():
    """
    Feature: register_op with DFunction.
    Description: an elementwise product with its own backward, of a shard and a replica, uneven, on 2 ranks.
    Expectation: value and gradients of one device; the replica's gradient is complete on every rank.
    """
    register_op("MyWeighted", signature="ab,ab->ab", params="x:t w:t", linear="multilinear")
    a, b = np.arange(6, dtype="float32").reshape(3, 2), np.array([[1, -2], [3, 4], [-5, 6]], "float32")
    with simulate(2):
        mesh = init_device_mesh("cpu", (2,))
        args = distribute_tensor(a, mesh, [Shard(0)]), distribute_tensor(b, mesh, [Shard(0)])
        value, (gx, gw) = value_and_grad(lambda x, w: Weighted.apply(x, w).sum(), (0, 1))(*args)
        assert value.item() == (a * b).sum() and np.array_equal(value_of(gx), b) and np.array_equal(value_of(gw), a)
        assert np.array_equal(Weighted.apply(Tensor(a), Tensor(b)).asnumpy(), a * b)


def test_the_examples_of_the_guide_run():
    """
    Feature: docs/custom_ops.md.
    Description: its Python blocks, in order, in one namespace; then a call of the programmed operation.
    Expectation: the declared names have rules, and the programmed one gives the layout and value that it says.
    """
    guide = pathlib.Path(__file__).parents[4] / "docs" / "custom_ops.md"
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)  # pylint: disable=exec-used
    assert all(get_distributed_op(n) is not None for n in ("Ger", "MyPower", "MyWeighted", "MyScale"))
    with simulate(2):
        x = distribute_tensor(np.array([1.0, 2.0, 4.0], "float32"), init_device_mesh("cpu", (2,)), [Shard(0)])
        out = dispatch_named("MyScale", lambda local, factor: local * factor, x, 3.0)
        assert out.placements == (Shard(0),) and value_of(out).tolist() == [3.0, 6.0, 12.0]

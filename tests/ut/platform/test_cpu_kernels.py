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
"""CPU substitutes against plain numpy: values, gradients, in-place effect, empty tensors, and that each is needed."""
import os

os.environ.setdefault("GLOG_v", "4")

# pylint: disable=wrong-import-position
import numpy as np
import pytest
import mindspore as ms
from mindspore import Tensor, mint, ops
from mindspore.common._grad_function import _Function

from hyper_parallel.errors import UnsupportedOpError
from hyper_parallel.platform.mindspore.cpu_kernels import SUBSTITUTES, empty_safe, substitute

from tests.ut.platform import cpu_kernel_formulas as formulas
from tests.ut.platform.cpu_kernel_cases import CASES, IN_PLACE, RANDOM, Case

ms.runtime.launch_blocking()

TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-9}
# Calls whose table row shortens the argument list or picks one of several results.
SHAPED = {"FlashAttentionScore": lambda call: lambda q, k, v, m: call(q, k, v, attn_mask=m, head_num=2,
                                                                     scale_value=0.5)[3]}


def is_float(value):
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def rounded(value, dtype):
    """The argument as numpy sees it after a conversion to the dtype."""
    if isinstance(value, (list, tuple)):
        return type(value)(rounded(v, dtype) for v in value)
    return value.astype(dtype).astype(np.float64) if is_float(value) else value


def tensor(value, dtype):
    """The argument as the call gets it."""
    if isinstance(value, (list, tuple)):
        return type(value)(tensor(v, dtype) for v in value)
    if isinstance(value, np.ndarray):
        return Tensor(value.astype(dtype) if is_float(value) else value)
    return value


def as_tuple(out):
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)


def call_of(name):
    return SHAPED.get(name, lambda call: call)(substitute(name))


def truths(case, dtype="float64"):
    return [np.asarray(t) for t in as_tuple(case.truth(*rounded(case.args, dtype), **case.kw))]


def results(call, case, dtype="float32"):
    """Numpy results of a call; what an in-place call changed is what counts as its result."""
    args = tensor(case.args, dtype)
    out = call(*args, **case.kw)
    return [t.asnumpy() if isinstance(t, Tensor) else np.asarray(t) for t in as_tuple(args[0] if case.in_place else out)]


def flat_floats(args):
    """The float arrays among the arguments, in order."""
    return [v for a in args for v in (a if isinstance(a, list) else [a]) if is_float(v)]


def refill(args, arrays):
    """The arguments with their float arrays replaced, in order."""
    supply = iter(arrays)
    return tuple([next(supply) if is_float(v) else v for v in a] if isinstance(a, list)
                 else next(supply) if is_float(a) else a for a in args)


def cotangents(case):
    rng = np.random.RandomState(3)
    return [np.asarray(rng.randn(*t.shape)) if t.dtype.kind == "f" else None for t in truths(case)]


def slope(case, cots, step=1e-5):
    """Central differences of the numpy formula, contracted with the cotangents."""
    def value(arrays):
        out = as_tuple(case.truth(*refill(case.args, arrays), **case.kw))
        return sum((np.asarray(o) * c).sum() for o, c in zip(out, cots) if c is not None)
    leaves = [a.copy() for a in flat_floats(case.args)]
    found = []
    for leaf in leaves:
        grad = np.zeros(leaf.shape)
        for at in np.ndindex(leaf.shape):
            held = leaf[at]
            leaf[at] = held + step
            above = value(leaves)
            leaf[at] = held - step
            grad[at] = (above - value(leaves)) / (2 * step)
            leaf[at] = held
        found.append(grad)
    return found


def strided_sum(out, cot):
    """Contraction that sends a transposed, strided gradient into the call: some CPU kernels mistake its order."""
    if out.ndim < 2:
        return (out * Tensor(cot.astype(ms.dtype_to_nptype(out.dtype)))).sum()
    weights = Tensor(np.swapaxes(cot, 0, -1).astype(ms.dtype_to_nptype(out.dtype)))
    return (mint.transpose(out, 0, -1) * weights).sum()


def gradient(call, case, cots, dtype="float64"):
    """The framework's gradient of the same contraction."""
    leaves = [Tensor(a.astype(dtype)) for a in flat_floats(case.args)]
    def loss(*given):
        args = list(tensor_args(case, given, dtype))
        if case.in_place:
            args[0] = args[0] * 1
        out = call(*args, **case.kw)
        parts = as_tuple(args[0] if case.in_place else out)
        return sum(strided_sum(o, c) for o, c in zip(parts, cots) if c is not None)
    return [g.asnumpy() for g in as_tuple(ms.grad(loss, tuple(range(len(leaves))))(*leaves))]


def tensor_args(case, given, dtype):
    """The arguments of a call with `given` tensors for the float arrays."""
    supply = iter(given)
    pick = lambda v: next(supply) if is_float(v) else tensor(v, dtype)  # noqa: E731  pylint: disable=C3001
    return tuple([pick(v) for v in a] if isinstance(a, list) else pick(a) for a in case.args)


def close(found, wanted, tolerance):
    return len(found) == len(wanted) and all(
        f.shape == w.shape and np.allclose(f, w, tolerance, tolerance) for f, w in zip(found, wanted))


VALUES = [pytest.param(case, dtype, id=f"{case}-{dtype}") for case in CASES for dtype in case.floats]
GRADIENTS = [pytest.param(case, id=str(case)) for case in CASES if case.grad]


@pytest.mark.parametrize("case, dtype", VALUES)
def test_substitute_gives_the_value_of_the_numpy_formula(case, dtype):
    """
    Feature: Table of CPU substitutes, forward.
    Description: Call each substitute with the arguments of the intercepted call in float16, float32 and float64.
    Expectation: Shapes and values are those of the numpy formula, float results keep the dtype of the first operand.
    """
    found, wanted = results(call_of(case.name), case, dtype), truths(case, dtype)
    assert close(found, wanted, TOLERANCE[dtype]), (found, wanted)
    if wanted[0].dtype.kind == "f":
        assert found[0].dtype == dtype


@pytest.mark.parametrize("case", GRADIENTS)
def test_substitute_gives_the_gradient_of_the_numpy_formula(case):
    """
    Feature: Table of CPU substitutes, backward.
    Description: Differentiate each substitute through a strided cotangent with respect to every float operand.
    Expectation: The float64 gradient is the finite difference of the numpy formula, the float32 one rounds to it.
    """
    cots = cotangents(case)
    wanted = slope(case, cots)
    assert close(gradient(call_of(case.name), case, cots), wanted, 1e-6)
    assert close(gradient(call_of(case.name), case, cots, "float32"), wanted, 2e-3)


def works(call, case):
    """True when a call gives the right value, leaves its other operands alone, and differentiates right."""
    try:
        args = tensor(case.args, "float32")
        call(*args, **case.kw)
        kept = args if not case.in_place else args[1:]
        given = case.args if not case.in_place else case.args[1:]
        if not all(np.array_equal(k.asnumpy(), g.astype(k.asnumpy().dtype))
                   for k, g in zip(kept, given) if isinstance(g, np.ndarray)):
            return False
        if not close(results(call, case), truths(case, "float32"), 1e-3):
            return False
        cots = cotangents(case)
        return not case.grad or close(gradient(call, case, cots, "float32"), slope(case, cots), 1e-2)
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError):
        return False


REAL = {name: [c for c in CASES if c.name == name] for name in dict.fromkeys(c.name for c in CASES)}


@pytest.mark.parametrize("name", sorted(REAL))
def test_real_entry_point_fails_on_cpu(name):
    """
    Feature: Table of CPU substitutes, minimality.
    Description: Run MindSpore's own entry point of every listed name on the rows of the table.
    Expectation: It raises, gives a wrong value or gradient, changes an operand, or leaves its target unchanged.
    """
    assert not all(works(case.real, case) for case in REAL[name])


def test_oracle_of_faults_accepts_a_sound_call():
    """
    Feature: Table of CPU substitutes, minimality.
    Description: Judge an operation that the CPU build has, and a wrong one, by the oracle of the test above.
    Expectation: The sound one passes, the wrong one does not.
    """
    x, w = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4) - 5
    assert works(mint.matmul, Case("MatMulExt", mint.matmul, np.matmul, (x, w)))
    assert not works(mint.matmul, Case("MatMulExt", mint.matmul, lambda a, b: a @ b + 1, (x, w)))


@pytest.mark.parametrize("name", sorted(RANDOM))
def test_real_random_entry_point_fails_on_cpu(name):
    """
    Feature: Table of CPU substitutes, minimality.
    Description: Run MindSpore's own random call.
    Expectation: It raises for want of a kernel.
    """
    with pytest.raises((RuntimeError, TypeError)):
        RANDOM[name](Tensor(np.full((2, 3), 0.5, np.float32))).asnumpy()


def test_every_name_is_in_a_table_of_this_file():
    """
    Feature: Table of CPU substitutes, completeness of the tests.
    Description: Compare the substitutes with the names that the tables here exercise.
    Expectation: They agree; InplaceCopy has tests of its own.
    """
    assert set(SUBSTITUTES) == set(REAL) | set(RANDOM) | {"InplaceCopy"}
    assert substitute("MatMulExt") is None


INTEGERS = [
    ("Mm", ([[1, -2], [3, 4]], [[5, 0], [-1, 2]]), np.matmul, "int64"),
    ("Mm", ([[1, -2], [3, 4]], [[5, 0], [-1, 2]]), np.matmul, "int32"),
    ("StackExt", None, None, "int8"),
    ("CumsumExt", ([[1, 2], [3, -4]], 0), lambda x, d: x.cumsum(d), "int32"),
    ("TrilExt", ([[1, 2], [3, 4]],), np.tril, "int64"),
    ("Roll", ([1, 2, 3], 1, 0), np.roll, "uint8"),
    ("TopkExt", ([3, 1, 255, 3], 3), lambda x, k: np.array([255, 3, 3]), "uint8"),
    ("IndexSelect", ([[1, 2], [3, 4]], 1, [1, 1]), lambda x, d, i: x[:, i], "int16"),
    ("InplaceAddsExt", ([1, 2], 3), np.add, "int64"),
    ("InplaceMuls", ([1, 2], -3), np.multiply, "int32"),
    ("AnyExt", ([[256, 0], [0, 0]], 1), lambda x, d: x.any(d), "int32"),
    ("ConstantPadND", ([1, 2], (1, 0), 7), lambda x, p, v: np.array([7, 1, 2]), "int64"),
]


@pytest.mark.parametrize("name, args, truth, dtype", INTEGERS)
def test_substitute_on_integers_is_exact(name, args, truth, dtype):
    """
    Feature: Table of CPU substitutes, integer operands.
    Description: Call substitutes on signed and unsigned integers of several widths.
    Expectation: Equal to numpy, bit for bit; a running sum comes out as int64.
    """
    if args is None:
        pair = [np.array([1, 2], dtype), np.array([3, 4], dtype)]
        found, wanted = substitute(name)([Tensor(p) for p in pair]).asnumpy(), np.stack(pair)
    else:
        arrays = [np.array(a, dtype if n == 0 or name == "Mm" else np.int64) if isinstance(a, list) else a
                  for n, a in enumerate(args)]
        out = as_tuple(substitute(name)(*[Tensor(a) if isinstance(a, np.ndarray) else a for a in arrays]))[0]
        found, wanted = out.asnumpy(), truth(*arrays)
    assert np.array_equal(found, wanted)
    expected = {"CumsumExt": "int64", "AnyExt": "bool"}.get(name, dtype)
    assert found.dtype == expected


@pytest.mark.parametrize("case", [pytest.param(c, id=str(c)) for c in IN_PLACE])
def test_in_place_changes_the_tensor_and_returns_it(case):
    """
    Feature: In-place forms on CPU.
    Description: Update a tensor and hold on to it.
    Expectation: The call returns that very object, its dtype stands, other operands are unchanged.
    """
    args = tensor(case.args, "float32")
    before = [a.asnumpy().copy() for a in args[1:] if isinstance(a, Tensor)]
    assert substitute(case.name)(*args, **case.kw) is args[0]
    assert args[0].dtype == ms.float32
    assert all(np.array_equal(b, a.asnumpy()) for b, a in zip(before, (a for a in args[1:] if isinstance(a, Tensor))))


def test_in_place_on_a_parameter_changes_what_an_optimizer_holds():
    """
    Feature: In-place forms on CPU.
    Description: Take a descent step on a Parameter through InplaceAddExt with a negative alpha.
    Expectation: The Parameter holds the new values.
    """
    weight = ms.Parameter(Tensor(np.array([1.0, -2.0], np.float32)), name="w")
    substitute("InplaceAddExt")(weight, Tensor(np.array([4.0, 8.0], np.float32)), alpha=-0.25)
    assert weight.asnumpy().tolist() == [0.0, -4.0]


VIEWS = {
    "rows": (lambda b: mint.narrow(b, 0, 1, 2), lambda a: a[1:3]),
    "first rows": (lambda b: mint.narrow(b, 0, 0, 2), lambda a: a[:2]),
    "columns": (lambda b: mint.narrow(b, 1, 1, 2), lambda a: a[:, 1:3]),
    "transposed": (lambda b: mint.transpose(b, 0, 1), lambda a: a.T),
    "reshaped": (lambda b: mint.reshape(b, (12,)), lambda a: a.reshape(12)),
    "one row": (lambda b: mint.select(b, 0, 1), lambda a: a[1]),
}


@pytest.mark.parametrize("kind", VIEWS)
@pytest.mark.parametrize("name, other", [("InplaceMuls", 3.0), ("InplaceCopy", -1.0)])
def test_in_place_on_a_view_reaches_the_base(kind, name, other):
    """
    Feature: In-place forms on CPU.
    Description: Update a view outside of any gradient; a plain copy_ into it is lost on this build.
    Expectation: The base shows the new values at the places of the view and the old ones elsewhere.
    """
    view, places = VIEWS[kind]
    array = np.arange(12, dtype=np.float32).reshape(4, 3) + 1
    base = Tensor(array.copy())
    target = view(base)
    value = other if name == "InplaceMuls" else Tensor(np.full(target.shape, other, np.float32))
    substitute(name)(target, value)
    wanted = array.copy()
    places(wanted)[...] = places(wanted) * other if name == "InplaceMuls" else other
    assert np.array_equal(base.asnumpy(), wanted)


def test_real_copy_into_a_view_is_lost():
    """
    Feature: Table of CPU substitutes, minimality.
    Description: Run MindSpore's own copy_ on a view of the last rows.
    Expectation: The base stays as it was, which is why InplaceCopy is in the table.
    """
    base = Tensor(np.zeros((2, 2), np.float32))
    mint.narrow(base, 0, 1, 1).copy_(Tensor(np.ones((1, 2), np.float32)))
    assert not base.asnumpy().any()


def test_in_place_on_a_view_inside_a_gradient_is_refused():
    """
    Feature: In-place forms on CPU.
    Description: Update a view of a tensor that a gradient depends on; the CPU build would differentiate it wrongly.
    Expectation: UnsupportedOpError that names the way out, for partial, transposed and reshaped views.
    """
    for view, _ in VIEWS.values():
        def loss(x, view=view):
            y = x * 2
            substitute("InplaceMuls")(view(y), 3.0)
            return y.sum()
        with pytest.raises(UnsupportedOpError, match="out of place"):
            ms.grad(loss)(Tensor(np.ones((4, 3), np.float32)))


REFUSALS = [
    ("InplaceAddExt", (np.ones(2), np.ones((2, 2))), ValueError, "out-of-place"),
    ("InplaceDivs", (np.array([1, 2]), 2), TypeError, "out-of-place"),
    ("Embedding", (np.array([0]), np.ones((2, 2)), None, 1.0), UnsupportedOpError, "max_norm"),
    ("Embedding", (np.array([0]), np.ones((2, 2)), None, None, 2.0, True), UnsupportedOpError, "scale_grad_by_freq"),
    ("SplitWithSize", (np.ones(4), [1, 2], 0), ValueError, "add up"),
    ("Swiglu", (np.ones((2, 3)), -1), ValueError, "even"),
    ("SelectExtView", (np.ones((2, 3)), 1, 3), IndexError, "index 3"),
    ("SortExt", (np.ones((2, 3)), 2), ValueError, "out of range"),
    ("FlashAttentionScore", (np.ones((1, 2, 4)),) * 4, UnsupportedOpError, "real_shift"),
]


@pytest.mark.parametrize("name, args, error, words", REFUSALS)
def test_substitute_refuses_what_it_cannot_do(name, args, error, words):
    """
    Feature: Table of CPU substitutes, refusals.
    Description: Call substitutes with operands outside of what they can do soundly.
    Expectation: A typed error that names the trouble.
    """
    with pytest.raises(error, match=words):
        substitute(name)(*tensor(args, "float32"))


SLOPES = [
    ("LogSigmoid", [0.0, -100.0, 100.0], {}, [0.5, 1.0, 0.0]),
    ("SoftplusExt", [0.0, -100.0, 100.0], {}, [0.5, 0.0, 1.0]),
    ("LeakyReLUExt", [0.0, -1.0], {}, [0.01, 0.01]),
    ("Std", [2.0, 2.0, 2.0], {}, [0.0, 0.0, 0.0]),
    ("LinalgVectorNorm", [0.0, 0.0], {}, [0.0, 0.0]),
    ("LogSumExp", [1000.0, 1000.0], {"dim": 0}, [0.5, 0.5]),
    ("Hardtanh", [-3.0, 0.5, 3.0], {}, [0.0, 1.0, 0.0]),
]


@pytest.mark.parametrize("name, x, kw, wanted", SLOPES)
def test_gradient_at_kinks_and_extremes(name, x, kw, wanted):
    """
    Feature: Table of CPU substitutes, backward.
    Description: Differentiate where naive formulas give nan, a wrong half or an overflow.
    Expectation: The limits that the formulas have there.
    """
    found = ms.grad(lambda t: substitute(name)(t, **kw).sum())(Tensor(np.array(x, np.float32)))
    assert np.allclose(found.asnumpy(), wanted, 1e-6, 1e-7)


def test_embedding_gives_the_padding_row_no_gradient():
    """
    Feature: Embedding substitute.
    Description: Look up rows with a negative padding_idx and sum them.
    Expectation: The forward value holds the padding row; its gradient is zero, the others count their uses.
    """
    ids, weight = Tensor(np.array([0, 2, 2, 1])), Tensor(np.arange(6, dtype=np.float32).reshape(3, 2))
    call = lambda w: substitute("Embedding")(ids, w, -1, None, 2.0, False)  # noqa: E731  pylint: disable=C3001
    assert call(weight).asnumpy().tolist() == [[0, 1], [4, 5], [4, 5], [2, 3]]
    assert ms.grad(lambda w: call(w).sum())(weight).asnumpy().tolist() == [[1, 1], [1, 1], [0, 0]]


def test_zero_beta_keeps_nan_out():
    """
    Feature: Addmm substitute.
    Description: Add nan with beta 0.
    Expectation: The product alone.
    """
    nan = Tensor(np.full((1, 1), np.nan, np.float32))
    two = Tensor(np.full((1, 1), 2.0, np.float32))
    assert substitute("Addmm")(nan, two, two, 0, 1).asnumpy().tolist() == [[4.0]]


def test_clone_has_memory_of_its_own():
    """
    Feature: Clone substitute.
    Description: Change the original after cloning, also from a transposed view.
    Expectation: The clone keeps the old values.
    """
    x = Tensor(np.arange(4, dtype=np.float32).reshape(2, 2))
    whole, turned = substitute("Clone")(x), substitute("Clone")(mint.transpose(x, 0, 1))
    substitute("InplaceZero")(x)
    assert whole.asnumpy().tolist() == [[0, 1], [2, 3]]
    assert turned.asnumpy().tolist() == [[0, 2], [1, 3]]


DRAWS = {
    "InplaceNormal": ((1.0, 2.0), (1.0, 2.0)), "InplaceUniform": ((-1.0, 3.0), (1.0, 4 / 12 ** 0.5)),
    "InplaceExponential": ((2.0,), (0.5, 0.5)), "InplaceRandom": ((0, 5), (2.0, 2 ** 0.5)),
    "InplaceBernoulliScalar": ((0.25,), (0.25, 0.1875 ** 0.5)), "RandLikeExt": ((), (0.5, 1 / 12 ** 0.5)),
    "RandnLike": ((), (0.0, 1.0)), "RandIntLike": ((0, 5), (2.0, 2 ** 0.5)),
    "InplaceBernoulliTensor": ((Tensor(np.full((40, 50), 0.25, np.float32)),), (0.25, 0.1875 ** 0.5)),
    "FuncDropoutExt": ((0.25, True, False), (1.0, (1 / 3) ** 0.5)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_follow_seed_and_offset(name):
    """
    Feature: Random substitutes.
    Description: Draw 2000 values with equal and with different seeds and offsets.
    Expectation: Equal pairs give equal values, others do not; mean and deviation are those of the distribution.
    """
    args, (mean, deviation) = DRAWS[name]
    def draw(seed, offset):
        x = Tensor(np.ones((40, 50), np.float32))
        return substitute(name)(x, *args, Tensor(np.int64(seed)), Tensor(np.int64(offset))).asnumpy()
    first = draw(1, 2)
    assert np.array_equal(first, draw(1, 2))
    assert not np.array_equal(first, draw(1, 3)) and not np.array_equal(first, draw(2, 2))
    assert abs(first.mean() - mean) < 6 * deviation / 2000 ** 0.5
    assert abs(first.std() - deviation) < 0.1


def test_dropout_scales_what_it_keeps_forward_and_backward():
    """
    Feature: Dropout substitute.
    Description: Drop with p 0.5, 0 and 1, in training and in evaluation, out of place and in place.
    Expectation: Kept elements and their gradients are doubled, dropped ones are 0; p 0 and evaluation change nothing.
    """
    x = Tensor(np.arange(1, 65, dtype=np.float32))
    call = substitute("FuncDropoutExt")
    drop = lambda t: call(t, 0.5, True, False, Tensor(5), Tensor(0))  # noqa: E731  pylint: disable=C3001
    mask = drop(x).asnumpy() / x.asnumpy()
    assert set(mask.tolist()) == {0.0, 2.0}
    assert np.array_equal(ms.grad(lambda t: drop(t).sum())(x).asnumpy(), mask)
    assert np.array_equal(call(x, 0.5, False, False, 5, 0).asnumpy(), x.asnumpy())
    assert np.array_equal(call(x, 0.0, True, False, 5, 0).asnumpy(), x.asnumpy())
    assert not call(x, 1.0, True, False, 5, 0).asnumpy().any()
    kept = Tensor(np.ones(64, np.float32))
    assert call(kept, 0.5, True, True, 5, 0) is kept and np.array_equal(kept.asnumpy(), mask)


def nothing(*shape, dtype=np.float32):
    return Tensor(np.zeros(shape, dtype))


REDUCTIONS = [
    ("SumExt", mint.sum, (0,), {}, np.zeros(4)), ("SumExt", lambda x, *a, **k: x.sum(*a, **k), (), {}, np.zeros(())),
    ("SumExt", mint.sum, (0, True, 43), {}, np.zeros((1, 4))),
    ("SumExt", lambda x, *a, **k: x.sum(*a, **k), (-2,), {"keepdim": True}, np.zeros((1, 4))),
    ("MeanExt", mint.mean, (0,), {}, np.full(4, np.nan)), ("ReduceSum", ops.ReduceSum(), (0,), {}, np.zeros(4)),
    ("ReduceMax", mint.amax, (0, False), {}, np.full(4, -np.inf)), ("Max", mint.max, (), {}, np.array(-np.inf)),
    ("ReduceMin", mint.amin, ((0, 1), True), {}, np.full((1, 1), np.inf)), ("Min", mint.min, (), {}, np.array(np.inf)),
    ("ProdExt", mint.prod, (0,), {}, np.ones(4)), ("ReduceProd", ops.ReduceProd(), (0,), {}, np.ones(4)),
    ("LogSumExp", substitute("LogSumExp"), (0,), {}, np.full(4, -np.inf)),
    ("Var", substitute("Var"), (0,), {}, np.full(4, np.nan)),
    ("LinalgVectorNorm", substitute("LinalgVectorNorm"), (2.0, 0), {}, np.zeros(4)),
    ("MSELossExt", substitute("MSELossExt"), (nothing(0, 4), 0), {}, np.zeros(())),
    ("MSELossExt", substitute("MSELossExt"), (nothing(0, 4), 1), {}, np.array(np.nan)),
]


@pytest.mark.parametrize("name, call, args, kw, wanted", REDUCTIONS)
def test_reduction_of_nothing_gives_its_identity(name, call, args, kw, wanted):
    """
    Feature: empty_safe.
    Description: Reduce a (0, 4) tensor, whose CPU kernel hands out uninitialised memory, after dirtying that memory.
    Expectation: The identity of the reduction, nan for a mean; the gradient arrives, empty.
    """
    _dirty()
    safe = empty_safe(name, call)
    assert np.array_equal(safe(nothing(0, 4), *args, **kw).asnumpy(), wanted.astype(np.float32), equal_nan=True)
    assert ms.grad(lambda x: safe(x, *args, **kw).sum())(nothing(0, 4)).shape == (0, 4)


def _dirty():
    """Leave non-zero values in the memory pool."""
    for shape in ((4,), (1, 4), (), (4, 3), (2, 4, 3), (8, 3)):
        mint.add(Tensor(np.full(shape, 7.0, np.float32)), 1.0)


@pytest.mark.parametrize("dtype, highest, lowest", [(np.int32, 2 ** 31 - 1, -2 ** 31), (np.float16, np.inf, -np.inf)])
def test_extremes_of_nothing_in_other_dtypes(dtype, highest, lowest):
    """
    Feature: empty_safe.
    Description: Maximum, minimum and sum of empty integers and halves.
    Expectation: The extremes of the dtype; an integer sum is an int64 zero.
    """
    x = nothing(0, 2, dtype=dtype)
    assert empty_safe("ReduceMax", mint.amax)(x, 0).asnumpy().tolist() == [lowest] * 2
    assert empty_safe("ReduceMin", mint.amin)(x, 0).asnumpy().tolist() == [highest] * 2
    total = empty_safe("SumExt", mint.sum)(x, 0).asnumpy()
    assert total.tolist() == [0, 0] and total.dtype == (np.int64 if dtype is np.int32 else dtype)
    assert empty_safe("ReduceAll", mint.all)(x > 0, 0).asnumpy().tolist() == [True, True]
    assert empty_safe("AnyExt", mint.any)(x > 0, 0).asnumpy().tolist() == [False, False]


CONTRACTIONS = [
    ("MatMulExt", mint.matmul, (4, 0), (0, 3), (4, 3)), ("MatMul", ops.MatMul(), (4, 0), (0, 3), (4, 3)),
    ("BatchMatMulExt", mint.bmm, (2, 4, 0), (2, 0, 3), (2, 4, 3)),
    ("Dense", mint.nn.functional.linear, (4, 0), (3, 0), (4, 3)), ("MatMulExt", mint.matmul, (0,), (0, 3), (3,)),
    ("Mm", substitute("Mm"), (4, 0), (0, 3), (4, 3)), ("Mv", substitute("Mv"), (4, 0), (0,), (4,)),
    ("Dot", substitute("Dot"), (0,), (0,), ()),
]


@pytest.mark.parametrize("name, call, left, right, shape", CONTRACTIONS)
def test_contraction_of_nothing_gives_zeros(name, call, left, right, shape):
    """
    Feature: empty_safe.
    Description: Multiply matrices whose contracted extent is 0; the CPU kernel leaves the output unset.
    Expectation: Zeros of the product's shape, and gradients of the operands' shapes.
    """
    _dirty()
    safe = empty_safe(name, call)
    a, b = nothing(*left), nothing(*right)
    assert np.array_equal(safe(a, b).asnumpy(), np.zeros(shape))
    grads = ms.grad(lambda p, q: safe(p, q).sum(), (0, 1))(a, b)
    assert [g.shape for g in grads] == [left, right]


def test_dense_over_nothing_is_its_bias_with_the_bias_gradient():
    """
    Feature: empty_safe.
    Description: A linear layer with a contracted extent of 0, and transposed flags of MatMul.
    Expectation: The bias in every row, its gradient the number of rows; zeros of the transposed shape.
    """
    bias = Tensor(np.array([1.0, -2.0, 3.0], np.float32))
    safe = empty_safe("Dense", mint.nn.functional.linear)
    assert safe(nothing(4, 0), nothing(3, 0), bias).asnumpy().tolist() == [[1, -2, 3]] * 4
    grad = ms.grad(lambda b: safe(nothing(4, 0), nothing(3, 0), b).sum())(bias)
    assert grad.asnumpy().tolist() == [4, 4, 4]
    turned = empty_safe("MatMul", lambda a, b, *f: ops.MatMul(*f)(a, b))(nothing(0, 2), nothing(3, 0), True, True)
    assert np.array_equal(turned.asnumpy(), np.zeros((2, 3)))


class _Reached(_Function):
    """Identity that notes its gradient, in the place of a boundary that holds a collective."""

    seen: list = []

    @staticmethod
    def forward(ctx, x):
        del ctx
        return x

    @staticmethod
    def backward(ctx, grad):
        del ctx
        _Reached.seen.append(grad.asnumpy())
        return grad


BROADCASTS = [
    ("AddExt", mint.add, (0, 3), (3,)), ("Mul", mint.mul, (0, 3), (3,)), ("Div", mint.div, (0, 3), (1, 3)),
    ("MatMulExt", mint.matmul, (0, 8), (8, 3)), ("Dense", mint.nn.functional.linear, (2, 0, 8), (3, 8)),
    ("Outer", substitute("Outer"), (0,), (3,)), ("RmsNorm", lambda *a: substitute("RmsNorm")(*a)[0], (0, 8), (8,)),
    ("Embedding", lambda w, x: substitute("Embedding")(nothing(0, dtype=np.int64), x) + w, (0, 3), (5, 3)),
]


@pytest.mark.parametrize("name, call, empty, other", BROADCASTS)
def test_empty_shard_gives_its_partner_a_zero_gradient_that_arrives(name, call, empty, other):
    """
    Feature: empty_safe.
    Description: Combine an empty shard with a full operand; the CPU backward of the stretch reads unset memory.
    Expectation: The partner's gradient is exactly zero and passes through a boundary upstream of the call.
    """
    _dirty()
    _Reached.seen.clear()
    safe = empty_safe(name, call)
    loss = lambda a, b: safe(_Reached.apply(a), _Reached.apply(b)).sum()  # noqa: E731  pylint: disable=C3001
    grads = ms.grad(loss, (0, 1))(nothing(*empty), Tensor(np.ones(other, np.float32)))
    assert grads[0].shape == empty and not grads[1].asnumpy().any() and grads[1].shape == other
    assert sorted(g.shape for g in _Reached.seen) == sorted([empty, other])


def test_empty_safe_leaves_other_calls_alone():
    """
    Feature: empty_safe.
    Description: Concatenate an empty with a full tensor, tile an empty one, update an empty one in place, and reduce
        a full one.
    Expectation: The plain results and gradients, and the real call runs exactly once on non-empty operands.
    """
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    cat = empty_safe("Concat", mint.cat)
    weights = Tensor(np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    grads = ms.grad(lambda e, t: (cat([e, t], 0) * weights).sum(), (0, 1))(nothing(0, 3), x)
    assert grads[0].shape == (0, 3) and np.array_equal(grads[1].asnumpy(), weights.asnumpy())
    assert empty_safe("Tile", mint.tile)(nothing(0, 3), (2, 2, 1)).shape == (2, 0, 3)
    target = nothing(0, 3)
    assert empty_safe("InplaceAddExt", substitute("InplaceAddExt"))(target, nothing(3)) is target
    calls = []
    def counted(*args):
        calls.append(args)
        return mint.sum(*args)
    assert empty_safe("SumExt", counted)(x, 0).asnumpy().tolist() == [3, 5, 7] and len(calls) == 1


def test_multiplied_in_place_keeps_both_gradients():
    """
    Feature: In-place forms on CPU, backward.
    Description: y *= b where both carry gradients; the graph needs the value that y had before.
    Expectation: Gradients of the out-of-place product.
    """
    def loss(a, b):
        y = a * 2
        substitute("InplaceMul")(y, b)
        return (y * y).sum()
    a, b = np.array([1.0, 2.0]), np.array([3.0, -4.0])
    grads = [g.asnumpy() for g in ms.grad(loss, (0, 1))(Tensor(a), Tensor(b))]
    assert np.allclose(grads[0], 8 * a * b ** 2) and np.allclose(grads[1], 8 * a ** 2 * b)


ATTENTIONS = [
    # layout code, sparse mode, extra arguments, places that are masked out (3 queries, 5 keys)
    (0, 0, {}, np.zeros((3, 5), bool)), (1, 2, {}, np.triu(np.ones((3, 5), bool), 1)),
    (2, 3, {}, np.triu(np.ones((3, 5), bool), 3)),
    (3, 4, {"pre_tokens": 1, "next_tokens": 1}, np.abs(np.arange(5) - np.arange(3)[:, None] - 2) > 1),
]


@pytest.mark.parametrize("layout, mode, kw, masked", ATTENTIONS)
def test_attention_layouts_and_sparse_modes(layout, mode, kw, masked):
    """
    Feature: Flash attention substitute.
    Description: Two batch entries, four heads sharing two key heads, in every layout and a sparse mode each.
    Expectation: Numpy's attention head by head; the row statistics give back the normaliser.
    """
    attention = formulas.attention
    rng = np.random.RandomState(layout)
    q, k, v = rng.randn(2, 3, 8), rng.randn(2, 5, 4), rng.randn(2, 5, 4)
    wanted = attention(q, k, v, masked, 4, 0.7)
    split = lambda t: t.reshape(*t.shape[:2], -1, 2)  # noqa: E731  pylint: disable=C3001
    form = (lambda t: t, lambda t: split(t).transpose(0, 2, 1, 3), lambda t: t.transpose(1, 0, 2), split)[layout]
    args = [Tensor(np.ascontiguousarray(form(t))) for t in (q, k, v)]
    top, total, _, out = substitute("FlashAttentionScore")(*args, head_num=4, scale_value=0.7, input_layout=layout,
                                                           sparse_mode=mode, **kw)
    assert np.allclose(out.asnumpy(), form(wanted))
    scores = np.where(masked, -np.inf, q[0, :, :2] @ k[0, :, :2].T * 0.7)
    assert top.shape == (2, 4, 3, 8)
    assert np.allclose((top + mint.log(total)).asnumpy()[0, 0, :, 0], np.log(np.exp(scores).sum(-1)))

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
"""CPU substitutes against plain numpy: values, gradients, refusals, draws, and that each one is needed."""
import os

os.environ.setdefault("GLOG_v", "4")

# pylint: disable=wrong-import-position
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint

from hyper_parallel.errors import UnsupportedOpError
from hyper_parallel.platform.mindspore.cpu_kernels import SUBSTITUTES, substitute
from tests.ut.platform.cpu_kernel_cases import CASES, RANDOM, Case
from tests.ut.platform.cpu_kernel_formulas import attention
from tests.ut.platform.cpu_kernel_harness import (TOLERANCE, as_tuple, call_of, close, cotangents, gradient, results,
                                                  slope, tensor, truths, works)

ms.runtime.launch_blocking()

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
    Expectation: They agree; InplaceCopy, GetItem and SetItem (no names of the framework) have tests of their own.
    """
    assert set(SUBSTITUTES) == set(REAL) | set(RANDOM) | {"InplaceCopy", "GetItem", "SetItem"}
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

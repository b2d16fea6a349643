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
"""Local forms in the framework, each compared with the numpy form that the rule tests compute with."""
import os

os.environ.setdefault("GLOG_v", "4")

import mindspore as ms  # noqa: E402  pylint: disable=wrong-import-position
import numpy as np  # noqa: E402  pylint: disable=wrong-import-position
import pytest  # noqa: E402  pylint: disable=wrong-import-position

from hyper_parallel.platform.mindspore.local_forms import FORMS  # noqa: E402  pylint: disable=wrong-import-position
from tests.ut.core.shard.ops import numpy_ops  # noqa: E402  pylint: disable=wrong-import-position

ms.runtime.launch_blocking()

X = np.arange(6, dtype=np.float32).reshape(2, 3) * 12
EMPTY = np.zeros((0, 3), np.float32)

TABLE = [
    ("mean", {"input": X}, {"dims": (0,), "keepdim": False, "dtype": None, "count": 6}),
    ("mean", {"input": X}, {"dims": (0, 1), "keepdim": True, "dtype": 43, "count": 12}),
    ("mean", {"input": EMPTY}, {"dims": (0,), "keepdim": True, "dtype": None, "count": 4}),
    ("mean", {"input": EMPTY}, {"dims": (1,), "keepdim": False, "dtype": None, "count": 3}),
    ("reshape", {"input": X}, {"shape": (3, 2)}),
    ("reshape", {"input": EMPTY}, {"shape": (3, 0)}),
    ("zeros_like", {"input": X, "dtype": None}, {}),
    ("new_zeros", {"input": X, "size": (2, 2), "dtype": None}, {}),
    ("shard_rows", {"input": X, "index": np.array([[3, 0, 2], [4, -4, -1]])}, {"dim": 0, "begin": 2, "size": 6}),
    ("shard_rows", {"input": X, "index": np.array([[3, 0, 2], [4, 5, 1]])}, {"dim": 1, "begin": 1, "size": 6}),
    ("shard_rows", {"input": X > 12, "index": np.array([3, 0, 2])}, {"dim": 0, "begin": 2, "size": 6}),
    ("shard_rows", {"input": EMPTY, "index": np.array([0, 1])}, {"dim": 0, "begin": 2, "size": 2}),
    ("shard_rows", {"input": X, "index": np.zeros((0, 2), int)}, {"dim": 0, "begin": 2, "size": 6}),
    ("shard_item", {"input": X, "index": np.array([3, 0])}, {"dim": 0, "begin": 2, "size": 6}),
    ("shard_item", {"input": X, "index": (slice(None), np.array([3, 0]))}, {"dim": 1, "begin": 2, "size": 6}),
    ("shard_elements", {"input": X, "index": np.array([[3, 0, 2], [4, 5, 1]])}, {"dim": 0, "begin": 2, "size": 6}),
    ("shard_elements", {"input": X, "index": np.array([[3, 0], [-2, 1]])}, {"dim": 1, "begin": 2, "size": 6}),
    ("shard_elements", {"input": EMPTY, "index": np.zeros((2, 3), int)}, {"dim": 0, "begin": 1, "size": 1}),
    ("random", {"input": X, "p": 0.5, "training": True, "inplace": False, "seed": 3, "offset": 5},
     {"name": "FuncDropoutExt", "whole": (4, 3), "area": (slice(1, 3), slice(0, 3))}),
    ("random", {"input": EMPTY, "p": 0.5, "training": True, "inplace": False, "seed": 3, "offset": 5},
     {"name": "FuncDropoutExt", "whole": (4, 3), "area": (slice(4, 4), slice(0, 3))}),
    ("random", {"input": X / 100, "seed": 7, "offset": 0},
     {"name": "BernoulliExt", "whole": (2, 6), "area": (slice(0, 2), slice(3, 6))}),
    ("loss", {"input": X, "target": X[::-1].copy(), "reduction": 1}, {"name": "MSELossExt", "count": 8}),
    ("loss", {"input": X, "target": X[::-1].copy(), "reduction": 0}, {"name": "L1LossExt", "count": 1}),
    ("loss", {"input": EMPTY, "target": EMPTY, "reduction": 0}, {"name": "MSELossExt", "count": 1}),
    ("scatter_nd", {"indices": np.array([[3], [0]]), "updates": X}, {"shape": (4, 3)}),
    ("scatter_nd", {"indices": np.zeros((0, 1), int), "updates": EMPTY}, {"shape": (4, 3)}),
    ("shard_embedding", {"weight": X, "input": np.array([[3, 0], [2, 1]])}, {"dim": 0, "begin": 2, "padding": 2}),
    ("shard_embedding", {"weight": EMPTY, "input": np.array([3, 0])}, {"dim": 0, "begin": 4, "padding": 3}),
]


def _tensors(values: dict) -> dict:
    return {k: _tensor(v) for k, v in values.items()}


def _tensor(value):
    if isinstance(value, tuple):
        return tuple(map(_tensor, value))
    return ms.Tensor(value) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("form, values, params", TABLE)
def test_a_form_agrees_with_numpy(form, values, params):
    """
    Feature: local forms.
    Description: whole numbers, empty local parts, several dims.
    Expectation: bitwise numpy's form.
    """
    found = FORMS[form](_tensors(values), **params).asnumpy()
    want = numpy_ops.FORMS[form](values, **params)
    assert found.shape == want.shape
    assert np.array_equal(found, want)


def test_forms_are_those_of_the_rules():
    """
    Feature: local forms.
    Description: the names in the framework's table and in the tests' table.
    Expectation: the same names.
    """
    assert set(FORMS) == set(numpy_ops.FORMS)


@pytest.mark.parametrize("x, want", [(X, np.full((2, 3), 0.25)), (EMPTY, np.zeros((0, 3)))])
def test_gradient_of_the_local_mean(x, want):
    """
    Feature: the mean over a cut dimension.
    Description: gradient of the sum of the local form, with a global extent of 4.
    Expectation: one over the global extent everywhere.
    """
    def total(value):
        return FORMS["mean"]({"input": value}, dims=(0,), keepdim=False, dtype=None, count=4).sum()

    assert np.array_equal(ms.grad(total)(ms.Tensor(x)).asnumpy(), want)


def test_gradient_of_rows_of_another_rank_and_of_padding_is_zero():
    """
    Feature: rows of a shard.
    Description: the shard holds rows 2 and 3 of 6, one of them infinite; ids of this and other ranks, padding row 3.
    Expectation: row 2 gets what its ids ask for; row 3, the padding, and ids of other ranks give nothing, never nan.
    """
    def total(table):
        ids = ms.Tensor([2, 0, 3, 2, 5])
        rows = FORMS["shard_embedding"]({"weight": table, "input": ids}, dim=0, begin=2, padding=3)
        return (rows * ms.Tensor(np.arange(5, dtype=np.float32)[:, None])).sum()

    table = np.array([[np.inf, 1], [2, 3]], np.float32)
    assert np.array_equal(ms.grad(total)(ms.Tensor(table)).asnumpy(), [[3, 3], [0, 0]])


@pytest.mark.parametrize("dtype, name", [(34, "Int32"), (ms.float16, "Float16"), (30, "Bool")])
def test_forms_make_the_asked_type(dtype, name):
    """
    Feature: the dtype argument of forms.
    Description: type codes and type objects.
    Expectation: zeros of that type.
    """
    assert str(FORMS["zeros_like"]({"input": ms.Tensor(X), "dtype": dtype}).dtype) == name
    assert str(FORMS["new_zeros"]({"input": ms.Tensor(X), "size": 2, "dtype": dtype}).dtype) == name

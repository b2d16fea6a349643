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
"""In-place forms on CPU: they change the tensor, views reach their base, gradients stay right."""
import os

os.environ.setdefault("GLOG_v", "4")

# pylint: disable=wrong-import-position
import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint

from hyper_parallel.errors import UnsupportedOpError
from hyper_parallel.platform.mindspore.cpu_kernels import substitute
from tests.ut.platform.cpu_kernel_cases import IN_PLACE
from tests.ut.platform.cpu_kernel_harness import tensor

ms.runtime.launch_blocking()


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

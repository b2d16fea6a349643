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
"""How a row of the table of CPU substitutes is run: on the framework, in numpy, and differentiated in both."""
import mindspore as ms
import numpy as np
from mindspore import Tensor, mint

from hyper_parallel.platform.mindspore.cpu_kernels import substitute

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
    kept = as_tuple(args[0] if case.in_place else out)
    return [t.asnumpy() if isinstance(t, Tensor) else np.asarray(t) for t in kept]


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

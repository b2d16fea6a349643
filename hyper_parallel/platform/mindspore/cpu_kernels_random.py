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
"""Random numbers as a pure function of (seed, offset): equal pairs give equal values on every rank."""
from __future__ import annotations

import numpy as np
from mindspore import mint

from hyper_parallel.platform.mindspore.cpu_kernels_common import as_dtype, constant, host, like
from hyper_parallel.platform.mindspore.cpu_kernels_inplace import in_place, write

# Integers up to here are exact in each floating dtype; random_() without a bound stays below.
_EXACT_BITS = {"Float16": 11, "BFloat16": 8, "Float32": 24, "Float64": 53}


class Window:
    """A seed whose draws are made for a whole tensor, of which a part is handed out.

    Args:
        seed: the seed proper.
        whole: shape of the whole tensor.
        area: a slice per dimension.
    """

    def __init__(self, seed, whole: tuple, area: tuple):
        self.seed, self.whole, self.area = seed, whole, area

    def part(self, offset):
        """A generator with the methods of numpy's, whose last argument, a shape, is that of the part."""
        return _Part(_generator(self.seed, offset), self.whole, self.area)


class _Part:
    def __init__(self, source, whole: tuple, area: tuple):
        self._source, self._whole, self._area = source, whole, area

    def __getattr__(self, name):
        return lambda *args: getattr(self._source, name)(*args[:-1], self._whole)[self._area]


def _generator(seed, offset):
    """A counter-based generator keyed by both numbers, so that consecutive offsets do not overlap."""
    if isinstance(seed, Window):
        return seed.part(offset)
    key = [int(host(v)) if hasattr(v, "dtype") else int(v) for v in (seed, offset)]
    return np.random.Generator(np.random.Philox(key=[k % 2 ** 64 for k in key]))


def dropout(x, p, training=True, inplace=False, seed=0, offset=0):
    """x with each element kept with probability 1 - p and scaled by 1 / (1 - p).

    The mask is drawn for the shape of x; for a part of a tensor the seed is a `Window`, so that every rank has its part
    of one mask.
    """
    if not training or p == 0:
        return x
    dropped = (lambda t: t * 0.0) if p == 1 else (lambda t: _drop(t, p, seed, offset))
    return in_place(dropped)(x) if inplace else dropped(x)


def _drop(x, p, seed, offset):
    kept = _generator(seed, offset).random(x.shape) >= p
    return x * like(constant(kept / (1.0 - p)), x)


def _normal(x, mean, std, seed, offset):
    """Normally distributed values."""
    return write(x, _as_like(_generator(seed, offset).normal(_number(mean), _number(std), x.shape), x.dtype))


def _uniform(x, from_=0, to=1, seed=0, offset=0):
    """Uniform values in [from_, to)."""
    return write(x, _as_like(_generator(seed, offset).uniform(from_, to, x.shape), x.dtype))


def _exponential(x, lambd=1, seed=0, offset=0):
    """Exponentially distributed values of rate lambd."""
    return write(x, _as_like(_generator(seed, offset).exponential(1.0 / lambd, x.shape), x.dtype))


def _random(x, from_=0, to=None, seed=0, offset=0):
    """Integers in [from_, to); one bound alone is the upper one, none means all exact integers of the dtype."""
    if to is None:
        from_, to = (0, from_) if from_ else (0, _bound(x.dtype))
    return write(x, _as_like(_generator(seed, offset).integers(from_, to, x.shape), x.dtype))


def _bound(dtype):
    name = str(dtype)
    if name in _EXACT_BITS:
        return 2 ** _EXACT_BITS[name] + 1
    return 2 if name == "Bool" else int(np.iinfo(name.lower()).max)


def _bernoulli(x, p=0.5, seed=0, offset=0):
    """Ones with probability p, a scalar or a tensor."""
    chance = host(p) if hasattr(p, "dtype") else p
    return write(x, _as_like(_generator(seed, offset).random(x.shape) < chance, x.dtype))


def _number(value):
    return float(host(value)) if hasattr(value, "dtype") else value


def _as_like(array, dtype):
    return constant(np.asarray(array).astype(np.float32 if str(dtype) == "BFloat16" else None)).astype(dtype)


def rand_like(x, seed, offset, dtype=None, device=None):
    """Uniform values in [0, 1) in the shape of x."""
    del device
    return _uniform(mint.empty(x.shape, dtype=as_dtype(dtype) or x.dtype), 0, 1, seed, offset)


def randn_like(x, seed, offset, dtype=None, device=None):
    """Standard normal values in the shape of x."""
    del device
    return _normal(mint.empty(x.shape, dtype=as_dtype(dtype) or x.dtype), 0, 1, seed, offset)


def randint_like(x, low, high, seed, offset, dtype=None, device=None):
    """Integers in [low, high) in the shape of x."""
    del device
    return _random(mint.empty(x.shape, dtype=as_dtype(dtype) or x.dtype), low, high, seed, offset)


TABLE = {
    "FuncDropoutExt": dropout, "InplaceNormal": _normal, "InplaceUniform": _uniform, "InplaceRandom": _random,
    "InplaceExponential": _exponential, "InplaceBernoulliScalar": _bernoulli, "InplaceBernoulliTensor": _bernoulli,
    "RandLikeExt": rand_like, "RandnLike": randn_like, "RandIntLike": randint_like,
}

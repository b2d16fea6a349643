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
"""Local forms of random operations: numbers are drawn for the whole tensor from one seed, and a rank takes its part.

So replicas agree, shards differ, and every layout gives the numbers of one device. The draws are numpy's on every
platform; the seeds come from the framework's generator, which must be seeded alike on all ranks.
"""
from __future__ import annotations

from mindspore import mint

from hyper_parallel.platform.mindspore.cpu_kernels_common import constant, host, like
from hyper_parallel.platform.mindspore.cpu_kernels_random import TABLE, Window, _as_like, _generator, dropout


def _bernoulli(x, seed, offset):
    """Ones with the probabilities in x."""
    return _as_like(_generator(seed, offset).random(x.shape) < host(x), x.dtype)


def _normal(mean, std, seed, offset):
    """Normal values whose mean and deviation are numbers or tensors."""
    shape = (mean if hasattr(mean, "dtype") else std).shape
    tensor = mean if hasattr(mean, "dtype") else std
    return _as_like(_generator(seed, offset).normal(0, 1, shape), tensor.dtype) * std + mean


def _channels(x, p, training=True, inplace=False, seed=0, offset=0):
    """x with whole channels dropped; the rule refuses `inplace`."""
    del inplace
    if not training or p == 0:
        return x
    shape = x.shape[:2] + (1,) * (x.ndim - 2)
    kept = _generator(seed, offset).random(shape) >= p
    return mint.zeros(x.shape, dtype=x.dtype) if p == 1 else x * like(constant(kept / (1.0 - p)), x)


_FUNCTIONS = {**TABLE, "Dropout": dropout, "Dropout2dExt": _channels, "BernoulliExt": _bernoulli,
              **dict.fromkeys(("NormalTensorTensor", "NormalTensorFloat", "NormalFloatTensor"), _normal)}


def random(values: dict, name: str, whole: tuple, area: tuple):
    """A random operation on this rank's part of a whole tensor.

    Args:
        values: the operation's values in order, `seed` among them.
        name: the operation.
        whole: shape that the numbers are drawn for.
        area: this rank's slice per dimension.
    """
    values = {**values, "seed": Window(values["seed"], whole, area)}
    return _FUNCTIONS[name](*values.values())


FORMS = {"random": random}

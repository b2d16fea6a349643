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
"""Meaning of random operations: numbers of a counter-based generator keyed by seed and offset."""
from __future__ import annotations

import numpy as np

from hyper_parallel.verify.kernels import kernel
from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference


def _numbers(v: dict, shape: tuple):
    """A function that draws for a shape."""
    generator = np.random.Generator(np.random.Philox(key=[int(v["seed"]) % 2 ** 64, int(v["offset"]) % 2 ** 64]))
    return lambda method, *args: getattr(generator, method)(*args, shape)


def _dropout(v: dict, numbers):
    return v["input"] * ((numbers("random") >= v["p"]) / (1 - v["p"]))


def _shape_of(v: dict) -> tuple:
    return max((np.shape(v[p]) for p in ("input", "mean", "std", "p") if p in v), key=len)


_DROPPING = ("FuncDropoutExt", "Dropout", "Dropout2dExt")
# name -> numbers -> result
_MEANING = {
    **dict.fromkeys(_DROPPING, _dropout),
    "InplaceNormal": lambda v, numbers: numbers("normal", v["mean"], v["std"]),
    "InplaceUniform": lambda v, numbers: numbers("uniform", v["from_"], v["to"]),
    "InplaceRandom": lambda v, numbers: numbers("integers", v["from_"], v["to"]).astype(float),
    "InplaceExponential": lambda v, numbers: numbers("exponential", 1 / v["lambd"]),
    "InplaceBernoulliScalar": lambda v, numbers: (numbers("random") < v["p"]).astype(float),
    "InplaceBernoulliTensor": lambda v, numbers: (numbers("random") < v["p"]).astype(float),
    "BernoulliExt": lambda v, numbers: (numbers("random") < v["input"]).astype(float),
    "RandLikeExt": lambda v, numbers: numbers("uniform", 0, 1),
    "RandnLike": lambda v, numbers: numbers("normal", 0, 1),
    "RandIntLike": lambda v, numbers: numbers("integers", v["low"], v["high"]).astype(float),
    **dict.fromkeys(("NormalTensorTensor", "NormalTensorFloat", "NormalFloatTensor"),
                    lambda v, numbers: numbers("normal", 0, 1) * v["std"] + v["mean"]),
}


def _whole(name: str):
    def function(v: dict):
        if name in _DROPPING and (not v["training"] or v["p"] == 0):
            return v["input"]
        shape = _shape_of(v)
        mask = shape[:2] + (1,) * (len(shape) - 2) if name == "Dropout2dExt" else shape
        return _MEANING[name](v, _numbers(v, mask))

    return function


@kernel("random")
def random(v: dict, name: str, whole: tuple, area: tuple):
    """A rank's part: drawn for the whole tensor, cut out before anything else is done."""
    numbers = _numbers(v, whole)
    return _MEANING[name](v, lambda *args: numbers(*args)[area])


_SEEDS = " seed=./natural offset=./natural"


def _pattern(text: str, **options) -> Pattern:
    return Pattern(text + _SEEDS, **options)


for _name, _x in ((name, "ab2" if name == "Dropout2dExt" else "ab") for name in _DROPPING):
    reference(_name, _whole(_name), _pattern(f"input={_x}", p=0.5), _pattern(f"input={_x}", p=0.75),
              _pattern(f"input={_x}", p=0.0, _degenerate=True),
              _pattern(f"input={_x}", p=0.5, training=False, _degenerate=True),
              _pattern(f"input={_x}", p=0.5, inplace=True, _refused=True),
              _pattern(f"input={_x}", p=2.0, _refused=True))
for _name, _statics in {"InplaceNormal": {"mean": 1.0, "std": 2.0}, "InplaceUniform": {"from_": -1.0, "to": 3.0},
                        "InplaceRandom": {"from_": 2, "to": 9}, "InplaceExponential": {"lambd": 0.5},
                        "InplaceBernoulliScalar": {"p": 0.25}, "RandLikeExt": {}, "RandnLike": {},
                        "RandIntLike": {"low": -2, "high": 5}}.items():
    reference(_name, _whole(_name), _pattern("input=ab", _grad=False, _degenerate=True, **_statics))
reference("InplaceBernoulliTensor", _whole("InplaceBernoulliTensor"),
          _pattern("input=ab p=ab/probability", _grad=False, _degenerate=True))
reference("BernoulliExt", _whole("BernoulliExt"), _pattern("input=ab/probability", _grad=False, _degenerate=True))
reference("NormalTensorTensor", _whole("NormalTensorTensor"), _pattern("mean=ab std=ab"), _pattern("mean=ab std=b"),
          approximate=True)
reference("NormalTensorFloat", _whole("NormalTensorFloat"), _pattern("mean=ab", std=2.0), approximate=True)
reference("NormalFloatTensor", _whole("NormalFloatTensor"), _pattern("std=ab", mean=1.0), approximate=True)
reference("MultinomialExt", lambda v: np.take(np.arange(v["input"].shape[-1]), np.zeros(
    v["input"].shape[:-1] + (v["num_samples"],), int)), _pattern("input=a4/positive", num_samples=2, _degenerate=True))

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
"""Meaning of losses."""
from __future__ import annotations

import math

import numpy as np

from hyper_parallel.verify.kernels import kernel
from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference
from hyper_parallel.verify.tape import elementwise, plain

_KINDS = {0: "sum", 1: "mean", 2: "none"}
_log = elementwise(lambda a: math.log(a) if a > 0 else -100.0, lambda g, o, a: g / a)
_exp = elementwise(math.exp, lambda g, o, a: g * o)
_softplus = elementwise(lambda a: max(a, 0.0) + math.log1p(math.exp(-abs(a))), lambda g, o, a: g / (1 + np.exp(-a)))


def _smooth(v: dict):
    error, beta = v["input"] - v["target"], v["beta"]
    small = np.abs(plain(error)) < beta
    return np.where(small, error * error * (0.5 / beta), np.abs(error) - 0.5 * beta)


def _weighted(value, v: dict):
    return value if v["weight"] is None else value * v["weight"]


def _binary(v: dict):
    x, t = v["input"], v["target"]
    return _weighted(-(t * _log(x) + (1 - t) * _log(1 - x)), v)


def _logits(v: dict):
    x, t = v["input"], v["target"]
    more = 1 if v["pos_weight"] is None else v["pos_weight"]
    return _weighted(more * t * _softplus(-x) + (1 - t) * _softplus(x), v)


def _divergence(v: dict):
    t = v["target"]
    return _exp(t) * (t - v["input"]) if v["log_target"] else t * (_log(t) - v["input"])


_MEANING = {
    "MSELossExt": lambda v: (v["input"] - v["target"]) * (v["input"] - v["target"]),
    "L1LossExt": lambda v: np.abs(v["input"] - v["target"]), "SmoothL1Loss": _smooth,
    "BinaryCrossEntropy": _binary, "BCEWithLogitsLoss": _logits, "KLDiv": _divergence,
}


def _reduced(name: str):
    def function(v: dict):
        found, kind = _MEANING[name](v), _KINDS[v["reduction"]]
        return found if kind == "none" else np.sum(found) / (1 if kind == "sum" else max(found.size, 1))

    return function


@kernel("loss")
def loss(v: dict, name: str, count: int):
    """The local sum over the global count."""
    return np.sum(_MEANING[name](v)) / count


def likelihood(v: dict) -> tuple:
    """(loss, sum of the weights of the labels that count)."""
    x, target, weight, kind = v["input"], v["target"], v["weight"], _KINDS[v["reduction"]]
    counts = target != v["ignore_index"]
    label = np.where(counts, target, 0)
    share = np.where(counts, np.take(weight, label), 0.0)
    at = np.expand_dims(label, 1 if x.ndim > 1 else 0)
    found = -np.squeeze(np.take_along_axis(x, at, 1 if x.ndim > 1 else 0), 1 if x.ndim > 1 else 0) * share
    total = np.asarray(np.sum(share))
    if kind == "none":
        return found, total
    return np.sum(found) / (total if kind == "mean" else 1), total


@kernel("no_loss")
def no_loss(v: dict, shape: tuple):
    """(loss, weight) of no labels."""
    return np.sum(v["input"]) * 0 if shape == () else np.reshape(v["input"], (-1,))[:0].reshape(shape), np.zeros(())


def entropy(v: dict) -> tuple:
    """(loss per row, softmax minus target)."""
    x, t = v["input"], v["target"]
    powers = np.exp(x - x.max(-1, keepdims=True))
    soft = powers / powers.sum(-1, keepdims=True)
    return -(t * np.log(soft)).sum(-1), soft - t


_PAIRS = tuple(Pattern("input=ab target=ab", reduction=r) for r in (0, 1, 2)) + (
    Pattern("input=ab target=b", reduction=0), Pattern("input=ab target=b", reduction=2))
_UNIT = tuple(Pattern("input=ab/probability target=ab/probability", reduction=r) for r in (0, 1, 2))
reference("MSELossExt", _reduced("MSELossExt"), *_PAIRS)
reference("L1LossExt", _reduced("L1LossExt"), *_PAIRS)
reference("SmoothL1Loss", _reduced("SmoothL1Loss"), *(Pattern("input=ab/digit target=ab/digit", reduction=r)
                                                      for r in (0, 2)),
          Pattern("input=ab/digit target=ab/digit", reduction=1), approximate=True)
reference("BinaryCrossEntropy", _reduced("BinaryCrossEntropy"), *_UNIT,
          Pattern("input=ab/probability target=ab/probability weight=b/probability", reduction=1), approximate=True)
reference("BCEWithLogitsLoss", _reduced("BCEWithLogitsLoss"), *_UNIT,
          Pattern("input=ab/unit target=ab/probability pos_weight=b/probability", reduction=1), approximate=True)
reference("KLDiv", _reduced("KLDiv"), *_UNIT, Pattern("input=ab/unit target=ab/unit", reduction=0, log_target=True),
          approximate=True)
reference("NLLLoss", likelihood, *(Pattern("input=a4 target=a/index(4) weight=4/digit", reduction=r) for r in (0, 2)),
          Pattern("input=a4 target=a/index(4) weight=4/positive", reduction=1, _approximate=True),
          Pattern("input=a4 target=a/index(4) weight=4/digit", reduction=0, ignore_index=1),
          Pattern("input=a4b target=ab/index(4) weight=4/digit", reduction=2, ignore_index=2),
          Pattern("input=4 target=./index(4) weight=4/digit", reduction=0))
reference("NLLLoss2d", likelihood, *(Pattern("input=a4bc target=abc/index(4) weight=4/digit", reduction=r)
                                     for r in (0, 2)),
          Pattern("input=a4bc target=abc/index(4) weight=4/positive", reduction=1, _approximate=True))
reference("SoftmaxCrossEntropyWithLogits", entropy, Pattern("input=a4/unit target=a4/unit"), differentiable=False,
          approximate=True)
reference("SparseSoftmaxCrossEntropyWithLogits", lambda v: np.mean(np.take(v["input"], v["target"] * 0, 1)),
          Pattern("input=a4 target=a/index(4)", _modes=("even", "uneven"), _degenerate=True), differentiable=False)

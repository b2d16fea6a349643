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
"""Losses. Elementwise ones are summed over cut dimensions; the class dimension of a likelihood must be whole.

    none:  S(d) -> S(d)    sum: S(d) -> P(sum)    mean: the local sum over the global count, P(sum)
    negative log likelihood, reduction mean: the count is a sum of weights of the labels that count, which depends on
    data of all ranks, so a cut batch is refused; take reduction="none" or "sum" and divide by the reduced count.
A class dimension that is cut (a vocabulary) needs its maximum and its sum from all ranks before anything else: that is
communication, so log_softmax and these losses refuse it outside `loss_parallel()`, which puts them together from
reductions.
"""
from __future__ import annotations

import functools
import math

from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters
from hyper_parallel.core.shard.ops.nature import broadcast
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError

CUT_CLASSES = ("Losses of cut classes, and means over a cut batch, run inside `with loss_parallel():` "
               "(hyper_parallel.core.tensor_parallel).")
_REDUCTIONS = {0: "sum", 1: "mean", 2: "none", "sum": "sum", "mean": "mean", "none": "none"}


def reduction_of(call: Call) -> str:
    """The reduction by name; calls carry the framework's code."""
    found = _REDUCTIONS.get(call["reduction"])
    if found is None:
        raise LayoutError(f"{call.name}: reduction={call['reduction']!r} has no rule. Use 'none', 'sum' or 'mean'.")
    return found


@functools.lru_cache(maxsize=1024)
def loss_signature(name: str, inputs: tuple, names: tuple, reduced: bool) -> Signature:
    """An elementwise loss, summed over every dimension or not at all."""
    return Signature(name, inputs, ((),) if reduced else (names,),
                     reduces=dict.fromkeys(names, "sum") if reduced else {})


def elementwise(*params: str):
    """The binder of a loss of these tensors, element by element."""

    def bind(call: Call) -> Bound:
        held = [call[p] for p in params if isinstance(call[p], Operand)]
        inputs, names, shape = broadcast(call.name, held)
        kind = reduction_of(call)
        signature = loss_signature(call.name, inputs, names, kind != "none")
        if kind == "none":
            return Bound(signature, (shape,))
        static = {"name": call.name, "count": math.prod(shape) if kind == "mean" else 1}
        return Bound(signature, ((),),
                     kernel=lambda place: ("loss", static) if place.inference.reduced else None)

    return bind


def bind_likelihood(call: Call) -> Bound:
    """(loss, sum of the weights that count): classes in dimension 1, or 0 of a vector."""
    x, target, kind = call["input"], call["target"], reduction_of(call)
    names = letters(len(x.shape))
    own = (None,) if len(x.shape) == 1 else (names[0], None, *names[2:])
    labels = () if len(x.shape) == 1 else (names[0], *names[2:])
    if len(target.shape) != len(labels):
        raise LayoutError(f"{call.name}: labels of shape {target.shape} do not fit {x.shape}.")
    if kind == "mean":
        own, labels = (None,) * len(own), (None,) * len(labels)
    signature = likelihood_signature(call.name, own, labels, kind == "none")
    out = target.shape if kind == "none" else ()

    def kernel(place):
        """A rank without labels; a stand-in would count its weight."""
        return None if all(place.in_shape(1)) else ("no_loss", {"shape": place.out_shape()})

    return Bound(signature, (out, ()), multi=True, kernel=kernel)


@functools.lru_cache(maxsize=256)
def likelihood_signature(name: str, own: tuple, labels: tuple, elementwise_loss: bool) -> Signature:
    """Scores, labels and class weights; the second result is summed in any case."""
    cut = {c: "sum" for c in labels if c is not None}
    return Signature(name, (own, labels, (None,)), (labels if elementwise_loss else (), ()), reduces=cut,
                     no_grad=frozenset((1, 2)))


def bind_entropy(call: Call) -> Bound:
    """(loss per row, its gradient) of scores against distributions; classes are whole."""
    x = call["input"]
    signature = Signature(call.name, (("n", None),) * 2, (("n",), ("n", None)))
    return Bound(signature, (x.shape[:1], x.shape), multi=True)


def bind_sparse_entropy(call: Call) -> Bound:
    """The mean over the batch, inside the kernel: everything must be whole."""
    signature = Signature(call.name, ((None, None), (None,)), ((),), no_grad=frozenset((1,)))
    return Bound(signature, ((),))


declare("MSELossExt", "input:t target:t reduction=1", elementwise("input", "target"))
declare("L1LossExt", "input:t target:t reduction=1", elementwise("input", "target"))
declare("SmoothL1Loss", "input:t target:t beta=1.0 reduction=2", elementwise("input", "target"))
declare("BinaryCrossEntropy", "input:t target:t weight:t=None reduction=1", elementwise("input", "target", "weight"))
declare("BCEWithLogitsLoss", "input:t target:t weight:t=None pos_weight:t=None reduction=1",
        elementwise("input", "target", "weight", "pos_weight"))
declare("KLDiv", "input:t target:t reduction=1 log_target=False", elementwise("input", "target"))
for _name in ("NLLLoss", "NLLLoss2d"):
    declare(_name, "input:t target:t weight:t reduction=1 ignore_index=-100", bind_likelihood,
            optional_plain=frozenset(("weight",)), advice=CUT_CLASSES)
declare("SoftmaxCrossEntropyWithLogits", "input:t target:t", bind_entropy)
declare("SparseSoftmaxCrossEntropyWithLogits", "input:t target:t", bind_sparse_entropy)

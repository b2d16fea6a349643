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
"""Random operations: one mask on replicas, its parts on shards, reproducible under every layout.

The numbers of the whole tensor follow from the seed and offset that the framework hands over; a rank takes its part. A
dropout mask is then the same for all addends of a pending sum, and x -> mask * x is linear and non-decreasing:
    S(d) -> S(d)    P(sum), P(avg), P(max), P(min) -> same    without training, or with p = 0, the identity
"""
from __future__ import annotations

import functools

from hyper_parallel.core.shard.declaration import Bound, Call, Operand, letters
from hyper_parallel.core.shard.ops.nature import broadcast, is_scalar
from hyper_parallel.core.shard.ops.parallel_ops import declare
from hyper_parallel.core.shard.rules import Signature
from hyper_parallel.errors import LayoutError

_SEEDS = " seed:t offset:t"


@functools.lru_cache(maxsize=1024)
def random_signature(name: str, inputs: tuple, out: tuple, kind: str) -> Signature:
    """Elementwise with a seed and an offset behind; `kind` is what the operation is to pending operands."""
    count = len(inputs)
    seeds = frozenset((count, count + 1))
    scales = kind in ("mask", "identity")
    return Signature(name, inputs + ((), ()), (out,), terms=((0,),) if scales else (),
                     monotone=(1, 0, 0) if scales else (), movement=kind == "identity",
                     no_grad=seeds if scales or kind == "mean" else frozenset(range(count + 2)),
                     shape_only=frozenset((0,)) if kind == "shape" else frozenset())


def _seeds(call: Call) -> None:
    for param in ("seed", "offset"):
        if not isinstance(call[param], Operand):
            raise LayoutError(f"{call.name}: {param!r} must be the tensor that the framework's generator hands over. "
                              f"Got {call[param]!r}.")


def part_of(name: str, whole: tuple, at: int = 0, rank: int | None = None):
    """The kernel that draws for the shape `whole` and takes the part of operand `at` in the first `rank` dimensions."""

    def kernel(place):
        area = place.inputs[at].area(place.coordinate)[:rank]
        return "random", {"name": name, "whole": whole, "area": tuple(slice(b, b + n) for b, n in area)}

    return kernel


def dropper(mask_rank: int | None):
    """The binder of dropout; the mask has the leading `mask_rank` dimensions (None: all)."""

    def bind(call: Call) -> Bound:
        x, p = call["input"], call["p"]
        _seeds(call)
        if not is_scalar(p) or not 0 <= p <= 1:
            raise LayoutError(f"{call.name}: p must be a number in [0, 1]. Got {p!r}.")
        if call["inplace"]:
            raise LayoutError(f"{call.name} has no rule for inplace=True. Call it without, and use its result.")
        identity = not call["training"] or p == 0
        names = letters(len(x.shape))
        signature = random_signature(call.name, (names,), names, "identity" if identity else "mask")
        if identity:
            return Bound(signature, (x.shape,))
        rank = len(x.shape) if mask_rank is None else mask_rank
        whole = tuple(n if d < rank else 1 for d, n in enumerate(x.shape))
        return Bound(signature, (x.shape,), kernel=part_of(call.name, whole, rank=rank))

    return bind


def filler(kind: str):
    """The binder of numbers in the shape of the input: "fill" for in-place forms, "shape" for new tensors."""

    def bind(call: Call) -> Bound:
        x = call["input"]
        _seeds(call)
        names = letters(len(x.shape))
        return Bound(random_signature(call.name, (names,), names, kind), (x.shape,),
                     kernel=part_of(call.name, x.shape))

    return bind


def elementwise(*params: str, kind: str = "any"):
    """The binder of numbers whose distribution depends on tensors, element by element."""

    def bind(call: Call) -> Bound:
        _seeds(call)
        held = [call[p] for p in params if isinstance(call[p], Operand)]
        inputs, out, shape = broadcast(call.name, held)
        at = next(i for i, operand in enumerate(held) if operand.shape == shape)
        signature = random_signature(call.name, inputs, out, kind)
        return Bound(signature, (shape,), kernel=part_of(call.name, shape, at))

    return bind


def bind_multinomial(call: Call) -> Bound:
    """Classes drawn per row: the kernel draws for all rows in order, so everything must be whole."""
    x = call["input"]
    rows = x.shape[:-1]
    whole = (None,) * len(x.shape)
    signature = random_signature(call.name, (whole,), (None,) * (len(rows) + 1), "any")
    return Bound(signature, (rows + (call["num_samples"],),))


# The primitive Dropout draws its seed inside; it is called with one of the framework's generator instead.
for _name, _rank in (("FuncDropoutExt", None), ("Dropout", None), ("Dropout2dExt", 2)):
    declare(_name, "input:t p=0.5 training=True inplace=False" + _SEEDS, dropper(_rank))
declare("InplaceNormal", "input:t mean=0 std=1" + _SEEDS, filler("fill"), inplace=True)
declare("InplaceUniform", "input:t from_=0 to=1" + _SEEDS, filler("fill"), inplace=True)
declare("InplaceRandom", "input:t from_=0 to=None" + _SEEDS, filler("fill"), inplace=True)
declare("InplaceExponential", "input:t lambd=1" + _SEEDS, filler("fill"), inplace=True)
declare("InplaceBernoulliScalar", "input:t p=0.5" + _SEEDS, filler("fill"), inplace=True)
declare("InplaceBernoulliTensor", "input:t p:t" + _SEEDS, elementwise("input", "p"), inplace=True)
for _name in ("RandLikeExt", "RandnLike"):
    declare(_name, "input:t" + _SEEDS + " dtype=None device=None", filler("shape"))
declare("RandIntLike", "input:t low high" + _SEEDS + " dtype=None device=None", filler("shape"))
declare("BernoulliExt", "input:t" + _SEEDS, elementwise("input"))
for _name, _params in (("NormalTensorTensor", "mean:t std:t"), ("NormalTensorFloat", "mean:t std"),
                       ("NormalFloatTensor", "mean std:t")):
    declare(_name, _params + _SEEDS, elementwise("mean", "std", kind="mean"))
declare("MultinomialExt", "input:t num_samples replacement=False" + _SEEDS, bind_multinomial)

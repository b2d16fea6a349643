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
"""In-place operations: the rule of the out-of-place form. The dispatcher refuses a result whose layout or shape is not
that of the tensor it is written to, so a target never changes its placements behind its owner's back.
"""
from __future__ import annotations

from hyper_parallel.core.shard.declaration import Bound, Call
from hyper_parallel.core.shard.ops.dtypes import keeps_sums
from hyper_parallel.core.shard.ops.nature import (
    CLAMPED, LINEAR_MOVE, NONLINEAR, RISING, Nature, added, bind_nature, binder, divided, floor_divided, is_scalar,
    multiplied, selected, subtracted,
)
from hyper_parallel.core.shard.ops.parallel_ops import declare


def _filled(call: Call) -> Nature:
    """Every element becomes a static value; zero means zero under any pending op, others enter once."""
    if is_scalar(call["value"]) and call["value"] == 0:
        return LINEAR_MOVE
    return Nature(terms=(("input",), ("value",)), rising=("input", "value"), joint=("max", "min"),
                  constant="value" if is_scalar(call["value"]) else None)


def bind_copy(call: Call) -> Bound:
    """The source replaces the target: where both are pending the source's addends do, a replica enters once."""
    if keeps_sums(call["other"].dtype, call["input"].dtype) or call["other"].dtype == call["input"].dtype:
        nature = Nature(terms=(("input",), ("other",)), movement=True)
    else:
        nature = NONLINEAR
    return bind_nature(call, ("input", "other"), nature)


def _masked(call: Call) -> Nature:
    return selected(call, "input", "value", "mask")


def _declare(name: str, params: str, bind, **options) -> None:
    declare(name, params, bind, inplace=True, **options)


_PAIR = "input:t other:t"
for _name in ("InplaceAddExt", "InplaceAddsExt"):
    _declare(_name, _PAIR + " alpha=1", binder(added, "input", "other"))
for _name in ("InplaceSubExt", "InplaceSubScalar"):
    _declare(_name, _PAIR + " alpha=1", binder(subtracted, "input", "other"))
for _name in ("InplaceMul", "InplaceMuls"):
    _declare(_name, _PAIR, binder(multiplied, "input", "other"))
for _name in ("InplaceDiv", "InplaceDivs"):
    _declare(_name, _PAIR, binder(divided, "input", "other"))
for _name in ("InplaceDivMod", "InplaceDivMods"):
    _declare(_name, _PAIR + " rounding_mode=None", binder(floor_divided, "input", "other"))
for _name in ("InplaceFloorDivide", "InplaceFloorDivides"):
    _declare(_name, _PAIR, binder(floor_divided, "input", "other"))
for _name in ("InplaceRemainderTensorTensor", "InplaceRemainderTensorScalar"):
    _declare(_name, _PAIR, binder(NONLINEAR, "input", "other"))
_declare("AssignAdd", _PAIR, binder(added, "input", "other"))
_declare("AssignSub", _PAIR, binder(subtracted, "input", "other"))
for _name in ("InplaceCopy", "Assign"):
    _declare(_name, _PAIR + " non_blocking=False", bind_copy, needs_dtype=True)

for _name in ("InplaceExp", "InplaceFloor", "InplaceSigmoid", "InplaceSign", "InplaceTanh", "InplaceReLU"):
    _declare(_name, "input:t", binder(RISING))
for _name in ("InplaceLog", "InplaceSiLU", "InplaceErfinv"):
    _declare(_name, "input:t", binder(NONLINEAR))
_declare("InplaceClampScalar", "input:t min=None max=None", binder(CLAMPED))
_declare("InplaceClampTensor", "input:t min:t=None max:t=None", binder(CLAMPED, "input", "min", "max"))

_declare("InplaceZero", "input:t", binder(LINEAR_MOVE))
_declare("InplaceFillScalar", "input:t value", binder(_filled))
_declare("InplaceFillTensor", "input:t value:t", binder(_filled, "input", "value"))
_declare("InplaceMaskedFillScalar", "input:t mask:t value", binder(_masked, "input", "mask"))
_declare("InplaceMaskedFillTensor", "input:t mask:t value:t", binder(_masked, "input", "mask", "value"))

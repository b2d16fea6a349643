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
"""What operations that need everything whole mean; a fused kernel is stood in for by a mix of all its tensors."""
from __future__ import annotations

import numpy as np

from hyper_parallel.core.shard.declaration import MISSING, parse_params
from hyper_parallel.core.shard.ops.parallel_whole import MIXING, REFUSED
from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference
from hyper_parallel.verify.tape import plain


def mixed(v: dict):
    """Every element depends on all tensors: their running sum times their sum."""
    flat = np.concatenate([np.reshape(t, (-1,)) for t in v.values() if getattr(t, "ndim", 0)])
    return np.cumsum(flat) * np.sum(flat)


def mixing_pattern(params: str) -> Pattern:
    """The call with its tensors alone, and 1 for every static argument that it must have."""
    needed = [p for p in parse_params(params) if p.default is MISSING]
    return Pattern(" ".join(f"{p.name}=ab/digit" for p in needed if p.tensor),
                   **{p.name: 1 for p in needed if not p.tensor})


def unique(v: dict) -> tuple:
    """(values in order, where each element went, how often each occurs)."""
    return np.unique(plain(v["input"]), return_inverse=True, return_counts=True)


def unique_runs(v: dict) -> tuple:
    """(the first of every run of equals, which run each element is in, lengths of the runs) of a vector."""
    x = plain(v["input"])
    first = np.concatenate([np.ones(min(x.size, 1), bool), x[1:] != x[:-1]])
    run = np.cumsum(first) - 1
    return x[first], run, np.bincount(run, minlength=int(first.sum()))


def repeated(v: dict):
    """Row i of the input as often as repeats says."""
    return np.take(v["input"], np.repeat(np.arange(v["repeats"].size), v["repeats"]), 0)


for _name, _params in MIXING.items():
    reference(_name, mixed, mixing_pattern(_params))
reference(" ".join(REFUSED), None, Pattern("", _refused=True, input=0, more=()))
reference("MaskedSelect", lambda v: np.take(np.reshape(v["input"], (-1,)), np.flatnonzero(v["mask"])),
          Pattern("input=ab mask=ab/mostly"))
reference("NonZero", lambda v: np.argwhere(plain(v["input"])), Pattern("input=ab/natural"))
reference("NonZeroExt", lambda v: np.nonzero(plain(v["input"])), Pattern("input=ab/natural"))
reference("Unique2", unique, Pattern("input=a/natural", return_inverse=True, return_counts=True))
reference("UniqueConsecutive", unique_runs, Pattern("input=a/natural"))
reference("BincountExt", lambda v: np.bincount(v["input"], None if v["weights"] is None else plain(v["weights"])),
          Pattern("input=a/natural"), Pattern("input=a/natural weights=a", _grad=False))
reference("RepeatInterleaveTensor", repeated, Pattern("input=ab repeats=a/natural", dim=0))

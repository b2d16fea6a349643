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
"""Meaning of convolutions, and of calls that are refused whatever the layouts."""
from __future__ import annotations

import itertools

import numpy as np

from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference


def convolution(v: dict):
    """A sum over the places of the kernel, each a product over channels."""
    x, w, spatial = v["input"], v["weight"], v["input"].ndim - 2
    stride, padding, dilation = (t if isinstance(t, tuple) else (t,) * spatial
                                 for t in (v["stride"], v["padding"], v["dilation"]))
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding], constant_values=0)
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation)]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    for place in itertools.product(*map(range, w.shape[2:])):
        window = tuple(slice(p * d, p * d + s * (n - 1) + 1, s)
                       for p, d, s, n in zip(place, dilation, stride, sizes))
        letters = "xyz"[:spatial]
        part = x[(slice(None), slice(None), *window)]
        out = out + np.einsum(f"bc{letters},oc->bo{letters}", part, w[(slice(None), slice(None), *place)])
    return out if v["bias"] is None else out + np.reshape(v["bias"], (1, -1) + (1,) * spatial)


reference("Conv1DExt", convolution, Pattern("input=bc5 weight=oc2 bias=o"),
          Pattern("input=bc6 weight=oc2", stride=2, padding=1))
reference("Conv2DExt", convolution, Pattern("input=bc34 weight=oc22 bias=o", padding=(1, 0)))
reference("Conv3DExt", convolution, Pattern("input=bc332 weight=oc221"))
reference("SliceExt SliceExtView", lambda v: v["input"][:, v["start"]:v["end"]:v["step"]],
          Pattern("input=a5", dim=1, start=1, end=4), Pattern("input=a5b", dim=1, start=0, end=5, step=2))

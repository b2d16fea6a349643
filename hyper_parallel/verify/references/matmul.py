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
"""Meaning of the matmul family."""
from __future__ import annotations

import numpy as np

from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import reference


def matmul(v: dict):
    """input @ other."""
    return v["input"] @ v["other"]


def flagged(v: dict):
    """input @ other with transposed flags."""
    x, w = v["input"], v["other"]
    x = np.swapaxes(x, -1, -2) if v["transpose_a"] else x
    w = np.swapaxes(w, -1, -2) if v["transpose_b"] else w
    return x @ w


def linear(v: dict):
    """input @ weight.T + bias."""
    out = v["input"] @ np.transpose(v["weight"])
    return out if v["bias"] is None else out + v["bias"]


def added(v: dict):
    """beta * input + alpha * (mat1 @ mat2)."""
    return v["input"] * v["beta"] + (v["mat1"] @ v["mat2"]) * v["alpha"]


def einsum(v: dict):
    """Any einsum."""
    equation = v["equation"]
    if "->" not in equation:
        joined = equation.replace(",", "").replace(" ", "")
        equation += "->" + "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    return np.einsum(equation, *v["operands"])


_PAIRS = (Pattern("input=mk other=kn"), Pattern("input=k other=kn"), Pattern("input=mk other=k"),
          Pattern("input=k other=k"), Pattern("input=bmk other=kn"), Pattern("input=bmk other=bkn"),
          Pattern("input=mk other=bkn"), Pattern("input=1mk other=bkn"), Pattern("input=bmk other=1kn"),
          Pattern("input=cbmk other=bkn"), Pattern("input=c1mk other=bkn"), Pattern("input=bmk other=k"))
_BATCHED = (Pattern("input=bmk other=bkn"), Pattern("input=1mk other=bkn"), Pattern("input=bmk other=1kn"))
_FLAGGED = tuple(Pattern(f"input={b}{'km' if ta else 'mk'} other={c}{'nk' if tb else 'kn'}", transpose_a=ta,
                         transpose_b=tb)
                 for b, c in (("", ""), ("b", "b"), ("b", "1")) for ta in (False, True) for tb in (False, True))

reference("MatMulExt", matmul, *_PAIRS)
reference("BatchMatMulExt", matmul, *_BATCHED)
reference("MatMul BatchMatMul", flagged, *_FLAGGED)
reference("Mm", matmul, Pattern("input=mk other=kn"))
reference("Mv", matmul, Pattern("input=mk other=k"))
reference("Dot", matmul, Pattern("input=k other=k"))
reference("Outer", lambda v: np.outer(v["input"], v["other"]), Pattern("input=m other=n"))
reference("Dense", linear, Pattern("input=mk weight=nk"), Pattern("input=mk weight=nk bias=n"),
          Pattern("input=bmk weight=nk bias=n"), Pattern("input=k weight=nk bias=n"),
          Pattern("input=mk weight=k bias=."),
          Pattern("input=mk weight=nk bias=1"))
_SCALES = ({}, {"beta": 2}, {"alpha": -1}, {"beta": -0.5, "alpha": 4}, {"beta": 0, "_degenerate": True},
           {"alpha": 0, "_degenerate": True})
reference("Addmm", added, *(Pattern("input=mn mat1=mk mat2=kn", **s) for s in _SCALES),
          Pattern("input=n mat1=mk mat2=kn"), Pattern("input=1n mat1=mk mat2=kn"), Pattern("input=. mat1=mk mat2=kn"))
reference("Addmv", added, *(Pattern("input=m mat1=mk mat2=k", **s) for s in _SCALES),
          Pattern("input=. mat1=mk mat2=k"))
reference("Baddbmm", added, Pattern("input=bmn mat1=bmk mat2=bkn"), Pattern("input=bmn mat1=bmk mat2=bkn", beta=-2),
          Pattern("input=mn mat1=bmk mat2=bkn"), Pattern("input=1mn mat1=bmk mat2=bkn", alpha=0.5))
reference("Einsum", einsum, Pattern("operands=[mk,kn]", equation="mk,kn->mn"),
          Pattern("operands=[bmk,bkn]", equation="bmk,bkn->bmn"), Pattern("operands=[ab]", equation="ab->ba"),
          Pattern("operands=[ab]", equation="ab->a"), Pattern("operands=[ab,ab]", equation="ab,ab->"),
          Pattern("operands=[ab,bc,c]", equation="ab,bc,c->a"), Pattern("operands=[ab,bc]", equation="ab,bc"))

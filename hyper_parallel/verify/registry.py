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
"""The table of references: operation name -> its meaning on plain arrays, and the patterns it is checked on."""
from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Callable

_FAMILIES = ("matmul", "elementwise", "unary", "reduce", "sort", "movement", "index", "lookup", "scatter", "nn", "cast",
             "inplace", "random", "special", "loss", "fused", "convolution", "whole")
_TABLE: dict = {}


@dataclass(frozen=True)
class Reference:
    """The meaning of one operation in numpy.

    Attributes:
        function: {parameter: array, tuple of arrays or static value} -> array, or tuple of arrays.
        patterns: argument patterns to check.
        differentiable: gradients are checked where the tape knows them.
        approximate: results are re-associated sums of inexact terms; compared within 4 ulp instead of exactly.
    """

    function: Callable
    patterns: tuple
    differentiable: bool = True
    approximate: bool = False


def reference(names: str, function, *patterns, **options) -> None:
    """Enter the meaning of one or several operations (names separated by spaces)."""
    for name in names.split():
        _TABLE[name] = Reference(function, tuple(patterns), **options)


def load_references() -> dict:
    """All references by operation name."""
    for family in _FAMILIES:
        importlib.import_module(f"hyper_parallel.verify.references.{family}")
    return dict(_TABLE)


def families() -> tuple:
    """Names of the reference families."""
    return _FAMILIES

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
"""What the matmul family means, in numpy: a table that both sides of the audit read. numpy only.

An entry gives the function of the operand arrays and static arguments, and the calls to try: the dimensions of each
operand as letters, and the static arguments as the checkout's rules take them.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np

MATMUL, OTHER = "matmul", "other"


@dataclass(frozen=True)
class Form:
    """One way to call an operation.

    Attributes:
        operands: dimensions of each operand as letters; None for an operand that is left out.
        statics: every other argument.
        plain: indices of operands that are given as plain tensors, without a layout.
        axes: most mesh axes to try; with two, three ranks on one axis are tried as well.
    """

    operands: tuple
    statics: tuple = ()
    plain: tuple = ()
    axes: int = 1


@dataclass(frozen=True)
class Meaning:
    """One operation, under all its names.

    Attributes:
        names: registered names, separated by spaces.
        function: operand arrays, then static arguments -> array.
        forms: the calls to try.
        family: MATMUL, or OTHER.
        factors: number of leading operands that are multiplied.
        exact: False when a result may differ in the last place.
    """

    names: str
    function: Callable
    forms: tuple
    family: str = OTHER
    factors: int = 0
    exact: bool = True

    @property
    def key(self) -> str:
        """Names that mean the same have the same key."""
        return self.names.split()[0]


def _flags(x, w, transpose_a=False, transpose_b=False):
    return (x.swapaxes(-1, -2) if transpose_a else x) @ (w.swapaxes(-1, -2) if transpose_b else w)


def _linear(x, w, bias=None):
    product = x @ w.T
    return product if bias is None else product + bias


def _forms(*operands, statics=((),), axes=1) -> tuple:
    return tuple(Form(o, s, axes=axes) for o in operands for s in statics)


_FLAGGED = (Form(("mk", "kn"), (False, False), axes=2), Form(("km", "kn"), (True, False)),
            Form(("mk", "nk"), (False, True)), Form(("km", "nk"), (True, True)))
_BATCH_FLAGGED = tuple(Form(tuple("b" + o for o in form.operands), form.statics) for form in _FLAGGED)

MEANINGS = (
    Meaning("MatMulExt matmul", np.matmul, (*_forms(("mk", "kn"), axes=2), *_forms(("bmk", "kn"), ("bmk", "bkn"))),
            MATMUL, 2),
    Meaning("MatMul", _flags, _FLAGGED, MATMUL, 2),
    Meaning("BatchMatMulExt bmm", np.matmul, _forms(("bmk", "bkn"), axes=2), MATMUL, 2),
    Meaning("BatchMatMul", _flags, _BATCH_FLAGGED, MATMUL, 2),
    Meaning("Dense linear", _linear, (Form(("mk", "nk", None)), Form(("mk", "nk", "n"), axes=2),
                                      Form(("mk", "nk", "n"), plain=(2,)), Form(("bmk", "nk", "n"))), MATMUL, 2),
)
_BY_NAME = {name: meaning for meaning in MEANINGS for name in meaning.names.split()}


def known(name: str) -> bool:
    """True when the meaning of an operation of this name is in the table."""
    return name in _BY_NAME


def named(name: str) -> Meaning:
    """The meaning of an operation.

    Examples:
        >>> named("MatMul").function(np.ones((2, 3)), np.ones((4, 3)), False, True).tolist()
        [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]]
    """
    return _BY_NAME[name]

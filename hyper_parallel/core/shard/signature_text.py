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
"""Signatures as text: "...mk,kn->...mn" to letters per dimension of one call, and to argument patterns of a check."""
from __future__ import annotations

from dataclasses import dataclass

from hyper_parallel.core.shard.declaration import Operand, letters
from hyper_parallel.errors import LayoutError

_DOTS = "..."


@dataclass(frozen=True)
class Notation:
    """A parsed signature.

    Attributes:
        name: the operation, for messages.
        text: as it was written.
        inputs: per operand its letters and digits; the first may be "..." for any number of leading dimensions.
        outputs: the same per result.
    """

    name: str
    text: str
    inputs: tuple
    outputs: tuple

    @property
    def letters(self) -> set:
        """All letters."""
        return {c for dims in (*self.inputs, *self.outputs) for c in dims if c != _DOTS and not c.isdigit()}

    def fit(self, operands: list[Operand], where: tuple):
        """Letters per operand and result, and shapes of the results; a dimension that is never cut carries None.

        Args:
            operands: the tensors of a call.
            where: which operand of the signature each of them is.

        Raises:
            LayoutError: when shapes do not fit the letters.
        """
        patterns = [self.inputs[i] for i in where]
        leading = [self._leading(dims, o) for dims, o in zip(patterns, operands)]
        batch = _broadcast(self.name, leading, all(o.exact for o in operands))
        sizes: dict = {}
        for dims, operand in zip(patterns, operands):
            self._measure(dims, operand, sizes)
        inputs = tuple(_carried(lead, batch) + _plain(dims) for dims, lead in zip(patterns, leading))
        names = letters(len(batch), _DOTS)
        outputs = tuple((names if _DOTS in dims else ()) + _plain(dims) for dims in self.outputs)
        shapes = tuple((batch if _DOTS in dims else ()) + self._sized(dims, sizes) for dims in self.outputs)
        return inputs, outputs, shapes

    def _leading(self, dims: tuple, operand: Operand) -> tuple:
        """Sizes of the dimensions that "..." stands for."""
        own = len(dims) - (_DOTS in dims)
        count = len(operand.shape) - own
        if count < 0 or (count and _DOTS not in dims):
            raise LayoutError(f"{self.name}: a tensor of shape {operand.shape} does not fit {''.join(dims)!r} of its "
                              f"signature {self.text!r}.")
        return tuple(operand.shape[:count])

    def _measure(self, dims: tuple, operand: Operand, sizes: dict) -> None:
        own = [c for c in dims if c != _DOTS]
        for c, size in zip(own, operand.shape[len(operand.shape) - len(own):]):
            wanted = int(c) if c.isdigit() else sizes.setdefault(c, size)
            if wanted != size and operand.exact:
                raise LayoutError(f"{self.name}: {c!r} of its signature {self.text!r} stands for sizes {wanted} and "
                                  f"{size}.")

    def _sized(self, dims: tuple, sizes: dict) -> tuple:
        missing = [c for c in dims if c != _DOTS and not c.isdigit() and c not in sizes]
        if missing:
            raise LayoutError(f"{self.name}: the size of {missing[0]!r} is known from an operand that the call leaves "
                              f"out.")
        return tuple(int(c) if c.isdigit() else sizes[c] for c in dims if c != _DOTS)


def _plain(dims: tuple) -> tuple:
    return tuple(None if c.isdigit() else c for c in dims if c != _DOTS)


def _broadcast(name: str, shapes: list, exact: bool) -> tuple:
    """The common leading shape."""
    count = max(map(len, shapes), default=0)
    common = []
    for i in range(-count, 0):
        found = {shape[i] for shape in shapes if len(shape) >= -i} - {1}
        if len(found) > 1 and exact:
            raise LayoutError(f"{name}: the leading shapes {shapes} do not broadcast.")
        common.append(max(found, default=1))
    return tuple(common)


def _carried(shape: tuple, common: tuple) -> tuple:
    """Letters of an operand's leading dimensions; None where a size of 1 broadcasts."""
    names, offset = letters(len(common), _DOTS), len(common) - len(shape)
    return tuple(names[offset + i] if size == common[offset + i] else None for i, size in enumerate(shape))


# -- reading ---------------------------------------------------------------------------------------------------------


def parse_signature(name: str, text: str) -> Notation:
    """The signature of a text like "...mk,kn->...mn".

    Args:
        name: the operation, for messages.
        text: operands, "->", results; one character per dimension.

    Raises:
        LayoutError: for any other text, or a letter of a result that no operand has.

    Examples:
        >>> parse_signature("F", "...k,nk->...n").inputs
        (('...', 'k'), ('n', 'k'))
    """
    left, arrow, right = text.replace(" ", "").partition("->")
    if not arrow or not left:
        raise LayoutError(f"{name}: a signature has operands, '->' and results, like 'mk,kn->mn'. Got {text!r}.")
    inputs, outputs = (tuple(_dims(name, text, part) for part in side.split(",")) for side in (left, right))
    known = {c for dims in inputs for c in dims}
    for c in {c for dims in outputs for c in dims if not c.isdigit()} - known:
        raise LayoutError(f"{name}: {c!r} of a result is in no operand of {text!r}. A new dimension is a digit, its "
                          f"size.")
    return Notation(name, text, inputs, outputs)


def _dims(name: str, text: str, part: str) -> tuple:
    dots, rest = (_DOTS,) if part.startswith(_DOTS) else (), part.removeprefix(_DOTS)
    if not all(c.isalnum() and c.isascii() for c in rest):
        raise LayoutError(f"{name}: {part!r} in {text!r} must be letters and digits, with '...' in front only.")
    return (*dots, *rest)


def default_patterns(notation: Notation, names, domains) -> list:
    """Argument patterns that cover a signature: without leading dimensions, with some, with every kind of broadcast.

    Args:
        notation: the signature.
        names: a parameter name per operand.
        domains: per operand where its values come from.
    """
    taken = notation.letters
    first, second = [c for c in "uvwxyzabcdefgh" if c not in taken][:2]
    dotted = [i for i, dims in enumerate(notation.inputs) if _DOTS in dims]
    fillings = [("",) * len(dotted)]
    if dotted:
        fillings += [(first,) * len(dotted), (first + second,) * len(dotted)]
        for i in range(len(dotted) if len(dotted) > 1 else 0):
            fillings += [tuple(short if j == i else first + second for j in range(len(dotted)))
                         for short in (second, first + "1")]
    return [_pattern(notation, names, dict(zip(dotted, filling)), domains) for filling in fillings]


def _pattern(notation: Notation, names, filling: dict, domains) -> str:
    words = []
    for i, (name, dims) in enumerate(zip(names, notation.inputs)):
        text = filling.get(i, "") + "".join(c for c in dims if c != _DOTS)
        words.append(f"{name}={text or '.'}/{domains[i]}")
    return " ".join(words)

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
"""Argument patterns: how an operation is called, with letters for sizes, so that one pattern yields many calls.

A pattern is text plus static arguments: `Pattern("input=mk other=kn")`, `Pattern("input=ab", dim=-1, keepdim=True)`.
A tensor is `name=dims[/domain]`; dims are letters, digits are literal sizes ("1" broadcasts), "." is a 0-d tensor;
a list of tensors is `name=[ab,ab]`. A static argument may be a function of the sizes: `lambda s: (s["a"], -1)`.
"""
from __future__ import annotations

from dataclasses import dataclass

ALL_MODES = ("even", "uneven", "empty")


@dataclass(frozen=True)
class TensorSlot:
    """One tensor of a pattern: its dimensions and the domain that its values come from."""

    dims: str
    domain: str

    @property
    def dtype(self) -> str | None:
        """The element type that the domain names behind "@", or None."""
        return self.domain.partition("@")[2] or None

    def shape(self, sizes: dict) -> tuple:
        """Global shape for these sizes."""
        return tuple(int(c) if c.isdigit() else sizes[c] for c in self.dims)


class Pattern:
    """One way to call an operation.

    Args:
        text: the tensors.
        _modes: size classes that make sense for it: "even", "uneven", "empty".
        _sizes: letter -> size, a function of the other sizes, or None for a letter that no tensor has; letters that
            are not named get their size from the mode.
        _grad: False leaves its gradients unchecked (a convention of the framework, not a mathematical one).
        _approximate: results are re-associated sums of inexact terms.
        _degenerate: an operand has no effect (a factor of 0), so nearly every refusal would be called needless.
        _refused: the rule must refuse the call whatever the layouts.
        _wrap: parameter -> function of its tensor that gives the argument: `lambda t: (slice(None), t)`.
        statics: every other argument of the call, as it is or as a function of the sizes.

    Examples:
        >>> pattern = Pattern("input=mk other=kn", transpose_a=False)
        >>> pattern.letters, [slot.shape({"m": 2, "k": 3, "n": 4}) for slot in pattern.slots]
        (('m', 'k', 'n'), [(2, 3), (3, 4)])
    """

    def __init__(self, text: str, _modes=ALL_MODES, _sizes=None, _grad=True, _approximate=False, _refused=False,
                 _degenerate=False, _wrap=None, **statics):
        self.text, self.modes, self.fixed, self.statics = text, tuple(_modes), _sizes or {}, statics
        self.grad, self.approximate, self.refused, self.wrap = _grad, _approximate, _refused, _wrap or {}
        self.degenerate = _degenerate
        self.tensors = {}
        for word in text.split():
            name, _, value = word.partition("=")
            members = value[1:-1].split(",") if value.startswith("[") else value
            self.tensors[name] = tuple(map(_slot, members)) if isinstance(members, list) else _slot(members)

    @property
    def slots(self) -> list[TensorSlot]:
        """All tensors, lists unrolled, in the order of the text."""
        found = []
        for value in self.tensors.values():
            found.extend(value if isinstance(value, tuple) else (value,))
        return found

    @property
    def letters(self) -> tuple:
        """Size letters in order of appearance, then those that only `_sizes` names."""
        seen = dict.fromkeys(c for slot in self.slots for c in slot.dims if not c.isdigit())
        return tuple(dict.fromkeys([*seen, *self.fixed]))

    def sizes(self, choose) -> dict:
        """A size per letter.

        Args:
            choose: position among the free letters -> size.
        """
        free = [letter for letter in self.letters if self.fixed.get(letter) is None]
        sizes = {letter: choose(i) for i, letter in enumerate(free)}
        sizes.update((k, v) for k, v in self.fixed.items() if isinstance(v, int))
        sizes.update((k, v(sizes)) for k, v in self.fixed.items() if callable(v))
        return {letter: sizes[letter] for letter in self.letters}

    def free_letters(self) -> int:
        """Number of letters whose size is chosen."""
        return sum(self.fixed.get(letter) is None for letter in self.letters)

    def resolve(self, sizes: dict) -> dict:
        """The static arguments for these sizes."""
        return {k: v(sizes) if callable(v) and not isinstance(v, type) else v for k, v in self.statics.items()}

    def __str__(self):
        shown = [self.text] + [f"{k}={'f(sizes)' if callable(v) else repr(v)}" for k, v in self.statics.items()]
        return " ".join(shown)


def _slot(text: str) -> TensorSlot:
    dims, _, domain = text.partition("/")
    return TensorSlot("" if dims == "." else dims, domain or "real")


@dataclass(frozen=True)
class Arguments:
    """The arguments of one concrete call, tensors apart: a template whose tensors are filled in, flat and in order."""

    template: dict
    count: int = 0

    def fill(self, tensors, **replaced) -> dict:
        """Parameter values with these tensors in place, some static ones replaced."""
        source = iter(tensors)
        filled = {name: _filled(value, source) for name, value in self.template.items()}
        filled.update(replaced)
        return filled


class _Hole:
    """Marks where a tensor goes."""


HOLE = _Hole()


def _filled(value, source):
    if value is HOLE:
        return next(source)
    if isinstance(value, (tuple, list)) and any(v is HOLE for v in value):
        return tuple(_filled(v, source) for v in value)
    return value


def arguments(declaration, pattern: Pattern, sizes: dict) -> Arguments:
    """The call of a pattern at these sizes, in the declaration's parameter order with its defaults."""
    given = dict(pattern.resolve(sizes))
    for name, slot in pattern.tensors.items():
        given[name] = tuple(HOLE for _ in slot) if isinstance(slot, tuple) else pattern.wrap.get(name, _same)(HOLE)
    return Arguments(declaration.call(given).values, len(pattern.slots))


def _same(value):
    return value


def slots_in_order(declaration, pattern: Pattern) -> list[TensorSlot]:
    """The tensors of a pattern in the declaration's parameter order."""
    found = []
    for param in declaration.params:
        slot = pattern.tensors.get(param.name, ())
        found.extend(slot if isinstance(slot, tuple) else (slot,))
    return found


def default_dtype(array) -> str:
    """The element type that a float64 array stands for: models compute in float32."""
    name = array.dtype.name
    return "float32" if name == "float64" else name


__all__ = ["ALL_MODES", "Arguments", "HOLE", "Pattern", "TensorSlot", "arguments", "default_dtype", "slots_in_order"]

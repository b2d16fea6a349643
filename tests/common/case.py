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
"""Cases that run on every worker of a job: a registry per module, read by the launcher and by the workers."""
from __future__ import annotations

import importlib
import itertools
from dataclasses import dataclass, field
from typing import Callable

_REGISTRY: dict[str, dict[str, Case]] = {}


@dataclass(frozen=True)
class Case:
    """One function with one choice of arguments, run on every rank.

    Attributes:
        name: function name, with the argument values in brackets.
        function: what runs.
        arguments: its keyword arguments.
        workers: sizes of jobs that the case fits; empty means every size.
    """

    name: str
    function: Callable
    arguments: dict = field(default_factory=dict)
    workers: tuple = ()

    def run(self) -> None:
        """Run the case on this rank."""
        self.function(**self.arguments)


def case(function=None, *, workers=(), **choices):
    """Register a function as a case, or as one case per combination of argument choices.

    Args:
        function: the function, when used without arguments.
        workers: sizes of jobs that the case fits; empty means every size.
        **choices: for each argument of the function a list of values.

    Examples:
        >>> @case(op=["sum", "max"])
        ... def reduces(op):
        ...     assert op in ("sum", "max")
        >>> sorted(_REGISTRY[reduces.__module__])
        ['reduces[max]', 'reduces[sum]']
    """
    def register(target):
        for values in itertools.product(*choices.values()):
            name = target.__name__ + (f"[{'-'.join(str(v) for v in values)}]" if values else "")
            known = _REGISTRY.setdefault(target.__module__, {})
            if name in known:
                raise ValueError(f"{target.__module__} has two cases {name!r}.")
            known[name] = Case(name, target, dict(zip(choices, values)), tuple(workers))
        return target

    return register if function is None else register(function)


def cases_of(modules, workers: int) -> dict[str, Case]:
    """The cases of some modules that fit a job of this size, in the order in which they are written.

    Raises:
        ValueError: when there are none, so that a test over them cannot pass by being empty, or when two share a name.
    """
    found: dict[str, Case] = {}
    for module in modules:
        importlib.import_module(module)
        fitting = {n: one for n, one in _REGISTRY.get(module, {}).items() if not one.workers or workers in one.workers}
        if not fitting or found.keys() & fitting:
            raise ValueError(f"{module} has no case for {workers} workers, or one that another module has too.")
        found.update(fitting)
    return found

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
"""The examples in docstrings run, every public callable has one, and its documented arguments exist."""
import doctest
import importlib
import inspect
import pkgutil
import re

import pytest

import hyper_parallel
from hyper_parallel.core.not_built import not_built

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def _modules() -> list:
    names = [m.name for m in pkgutil.walk_packages(hyper_parallel.__path__, "hyper_parallel.")]
    return ["hyper_parallel"] + [name for name in names if not name.endswith("__main__")]


@pytest.mark.parametrize("name", _modules())
def test_examples_of_a_module_run(name):
    """
    Feature: examples in docstrings.
    Description: doctest of one module of the package, on simulated ranks or without any.
    Expectation: every example prints what it says.
    """
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=FLAGS, verbose=False)
    assert failed == 0


ARGUMENT = re.compile(r"^    (\*{0,2}\w+):", re.MULTILINE)
NO_EXAMPLE = {"Placement"}  # a base class: its subclasses show themselves


def _public() -> dict:
    """Exports that are built and can be called; errors explain themselves when they are raised."""
    found = {n: getattr(hyper_parallel, n) for n in hyper_parallel.__all__ if n != "__version__"}
    return {n: v for n, v in found.items() if not isinstance(v, type(not_built("x", __name__)))
            and not (inspect.isclass(v) and issubclass(v, Exception))}


def test_every_public_callable_has_one_sentence_and_an_example():
    """
    Feature: public docstrings.
    Description: the docstring of every export that is built.
    Expectation: a first sentence on one line, and an example that test_examples_of_a_module_run runs.
    """
    docs = {name: inspect.getdoc(value) or "" for name, value in _public().items()}
    assert [n for n, doc in docs.items() if not doc.partition("\n")[0].endswith(".")] == []
    assert [n for n, doc in docs.items() if ">>> " not in doc and n not in NO_EXAMPLE] == []


def test_documented_arguments_exist_and_none_is_left_out():
    """
    Feature: public docstrings.
    Description: the Args section of every export that has one, against the signature.
    Expectation: the same names, private ones and **kwargs apart; nothing that is documented is gone.
    """
    for name, value in _public().items():
        args = (inspect.getdoc(value) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
        if not args:
            continue
        signature = inspect.signature(_called(value))
        real = [p for p in signature.parameters if not p.startswith("_")
                and p not in ("self", "cls", "args", "kwargs")]
        assert [n.lstrip("*") for n in ARGUMENT.findall(args)] == real, name


def _called(value):
    """What takes the arguments: __new__ where a class defines one, as DTensor does."""
    return vars(value)["__new__"] if inspect.isclass(value) and "__new__" in vars(value) else value

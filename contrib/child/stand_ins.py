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
"""Stand-ins for what a checkout needs beyond Python and numpy: its framework and its device layer.

Runs in the checkout's own process, where `hyper_parallel` means the checkout's package: nothing of this project is
imported here.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys
import types
from unittest import mock

import numpy as np

FRAMEWORKS = ("mindspore", "torch", "torch_npu")
DEVICE_LAYER = "hyper_parallel.platform"
WORLD = 8
# Functions of a framework that a layout rule may call on local tensors; the others are of no consequence to it.
_NUMPY = {"tensor": np.array, "as_tensor": np.asarray, "from_numpy": np.asarray}
_SAME = ("arange", "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "where")
_DTYPES = {name: np.dtype(name) for name in ("bool", "int8", "int32", "int64", "float16", "float32", "float64")}


class Tensor(np.ndarray):
    """A local tensor: an array with the few methods that frameworks add."""

    def __new__(cls, *args, **_):
        return np.asarray(args[0] if args else ()).view(cls)

    def numel(self) -> int:
        """Number of elements."""
        return self.size

    def numpy(self) -> np.ndarray:
        """The plain array."""
        return np.asarray(self)

    asnumpy = numpy

    def masked_fill(self, mask, value):
        """A copy with `value` where the mask is True."""
        return np.where(mask, value, self).astype(self.dtype).view(Tensor)

    def isfinite(self):
        """Where elements are finite."""
        return np.isfinite(self)

    def new_zeros(self, shape):
        """Zeros of this element type."""
        return np.zeros(shape, self.dtype).view(Tensor)

    def detach(self):
        """The same tensor: nothing is recorded here."""
        return self


class _Named(type):
    """Classes whose unknown attributes are stand-ins too."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _class(name)


class StandIn(metaclass=_Named):
    """Anything of a missing module: a base class, an annotation, a decorator or a context manager, without effect."""

    def __new__(cls, *args, **kwargs):
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type)):
            return args[0]  # used as a decorator
        return super().__new__(cls)

    def __init__(self, *_, **__):
        pass

    def __init_subclass__(cls, **_):
        super().__init_subclass__()

    def __call__(self, *args, **kwargs):
        return StandIn(*args, **kwargs)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def _class(name: str) -> type:
    return _Named(name, (StandIn,), {})


class Place:
    """Which rank the process plays."""

    rank = 0


def _function(name: str):
    """A function of a missing module that must give an answer, or None."""
    if name == "get_rank":
        return lambda *_, **__: Place.rank
    if name in ("get_world_size", "get_group_size"):
        return lambda *_, **__: WORLD
    if name in ("is_initialized", "is_available"):
        return lambda *_, **__: True
    function = _NUMPY.get(name) or (getattr(np, name) if name in _SAME else None)
    return function and (lambda *args, dtype=None, **_: np.asarray(function(*args), dtype).view(Tensor))


class _Module(types.ModuleType):
    """A missing module: every name is there."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "get_platform":
            value = device_layer
        elif name == "Tensor":
            value = Tensor
        else:
            value = _DTYPES[name] if name in _DTYPES else _function(name) or _class(name)
        setattr(self, name, value)
        return value


def device_layer():
    """The platform object: it knows the rank, and starts nothing."""
    platform = mock.MagicMock(name="platform")
    platform.Tensor = Tensor
    platform.DTensorBase = _class("DTensorBase")
    for name in ("get_rank", "get_world_size", "tensor", "zeros_like"):
        setattr(platform, name, _function(name))
    return platform


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for whole packages, and shells of packages whose own `__init__` is not to run."""

    def __init__(self, missing, shells: dict):
        self.missing, self.shells = tuple(missing), shells

    def find_spec(self, fullname, path=None, target=None):  # pylint: disable=unused-argument
        """The spec of a module that this finder answers for."""
        if any(fullname == name or fullname.startswith(name + ".") for name in self.missing):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        if fullname in self.shells:
            spec = importlib.machinery.ModuleSpec(fullname, self, is_package=True)
            spec.submodule_search_locations = [self.shells[fullname]]
            return spec
        return None

    def create_module(self, spec):
        """A module with every name, or a shell."""
        return None if spec.name in self.shells else _Module(spec.name)

    def exec_module(self, module):
        """Nothing to run."""


def install(root, frameworks=(), packages=()) -> None:
    """Put stand-ins for these frameworks and the device layer in place, and shells for these packages.

    Args:
        root: the checkout.
        frameworks: names of top-level packages.
        packages: dotted names of the checkout's packages whose `__init__` would start too much.
    """
    for finder in [finder for finder in sys.meta_path if isinstance(finder, _Finder)]:
        sys.meta_path.remove(finder)
    shells = {name: str(pathlib.Path(root).joinpath(*name.split("."))) for name in packages}
    sys.meta_path.insert(0, _Finder((*frameworks, DEVICE_LAYER), shells))


def missing_frameworks() -> tuple:
    """Frameworks that this interpreter does not have."""
    return tuple(name for name in FRAMEWORKS if importlib.util.find_spec(name) is None)


def parents(modules) -> tuple:
    """The packages above some modules, outermost first."""
    paths = [name.split(".") for name in modules]
    return tuple(sorted({".".join(path[:count]) for path in paths for count in range(1, len(path))}))


def forget() -> None:
    """Drop the checkout's modules and the stand-ins, so that they are loaded afresh."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("hyper_parallel", *FRAMEWORKS)]:
        if name.startswith("hyper_parallel") or isinstance(sys.modules[name], _Module):
            del sys.modules[name]


def play(rank: int) -> None:
    """Be this rank, for real frameworks too: only functions that ask for it are replaced."""
    Place.rank = rank
    for name in ("torch.distributed", "mindspore.communication"):
        module = sys.modules.get(name)
        for function in ("get_rank", "get_world_size", "get_group_size", "is_initialized"):
            if module is not None and not isinstance(module, _Module) and hasattr(module, function):
                setattr(module, function, _function(function))


def load(root, modules) -> tuple:
    """Import some of the checkout's modules, with as few stand-ins as work.

    Args:
        root: the checkout.
        modules: dotted names; the first must load.

    Returns:
        The frameworks that stood in, and whether packages were shells: the arguments of `install` that worked.

    Raises:
        ImportError: when no way works, with the first reason.
    """
    absent, reason = missing_frameworks(), None
    for frameworks in dict.fromkeys((absent, FRAMEWORKS)):
        for packages in (parents(modules), ()):
            forget()
            install(root, frameworks, packages)
            try:
                importlib.import_module(modules[0])
                return frameworks, packages
            except Exception as error:  # pylint: disable=broad-exception-caught  # the checkout may raise anything
                reason = reason or f"{type(error).__name__}: {error}"
    raise ImportError(f"{modules[0]} cannot be imported, not through stand-ins either. {reason}")

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
"""Names of the public library that this fork does not have yet: they import, and say so when used."""
from __future__ import annotations

from hyper_parallel.errors import UnsupportedOpError


class _NotBuiltType(type):
    """Class of the placeholders: usable as a base, in isinstance and in annotations; calling one refuses."""

    def __call__(cls, *args, **kwargs):
        raise UnsupportedOpError(f"{cls.__name__} is not built yet in this fork of hyper_parallel. {cls.instead}")


def not_built(name: str, module: str, instead: str = "Use DTensor, redistribute and the operations directly."):
    """A placeholder for the public name `name` of `module`.

    Args:
        name: the public name.
        module: full path of the module that will hold it.
        instead: what to use in the meantime, one sentence.

    Examples:
        >>> isinstance(1, not_built("fully_shard", "hyper_parallel.core.fully_shard.api"))
        False
    """
    return _NotBuiltType(name, (), {"__module__": module, "instead": instead,
                                    "__doc__": f"Not built yet. {instead}"})


def fill(namespace: dict, names, instead: str = "Use DTensor, redistribute and the operations directly.") -> None:
    """Put placeholders for `names` into a module's namespace."""
    for name in names:
        namespace[name] = not_built(name, namespace["__name__"], instead)
    namespace["__all__"] = sorted({*namespace.get("__all__", ()), *names})

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
"""Distributed operations listed in a directory of YAML files, added to the built-in ones or put in their place.

A file maps operation names to entries; the entry `__default__` gives defaults for the others of its file:
    MyScale:
      distributed_op_class: MyScaleDistributedOp
      distributed_op_file: my_scale      # module beside the built-in families, or on HYPER_PARALLEL_OPS_PYTHON_PATH
      # or  distributed_op_module: my_package.parallel.my_scale
      verify: true                       # check it first, by what the class says in its attribute `check`
"""
from __future__ import annotations

import importlib
import os
import pathlib
import sys

DIRECTORY = "HYPER_PARALLEL_OPS_YAML_DIR"
PYTHON_PATH = "HYPER_PARALLEL_OPS_PYTHON_PATH"
_CORE = pathlib.Path(__file__).resolve().parents[2]
_FAMILIES = "hyper_parallel.core.shard.ops."
_LABELS = {"dist_op_name", "template_name"}  # known to the public library, without effect
_FIELDS = {"distributed_op_class", "distributed_op_file", "distributed_op_module", "infer_layout_suffix",
           "verify"} | _LABELS


def load_listed_ops() -> None:
    """Register what the directory of the environment lists; nothing when the variable is not set.

    Raises:
        ValueError: for a missing directory, an entry that cannot be read, or a name that is listed twice.
    """
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return
    for path in filter(None, os.environ.get(PYTHON_PATH, "").split(os.pathsep)):
        if path not in sys.path:
            sys.path.append(path)
    entries = read_directory(_CORE / directory)  # an absolute directory stays as it is
    for name, (path, entry) in entries.items():
        rule = _distributed_class(name, path, entry)
        if entry.get("verify"):
            _register_verified(name, rule)
        else:
            rule(name)


def _register_verified(name: str, rule) -> None:
    from hyper_parallel.core.shard.register import register_op  # it imports the registry
    register_op(name, rule=rule, verify=True, override=True)


def read_directory(directory: pathlib.Path) -> dict:
    """Operation name -> (file, entry with the file's defaults), over all `*.yaml` files in order of their names.

    Args:
        directory: an existing directory.

    Raises:
        ValueError: for a missing directory, a malformed file or entry, or a name that is listed twice.
    """
    if not directory.is_dir():
        raise ValueError(f"{DIRECTORY} names {directory}, which is no directory. Give an absolute path, or one "
                         f"relative to {_CORE}; or unset it.")
    found: dict = {}
    for path in sorted(directory.glob("*.yaml")):
        for name, entry in _read_file(path).items():
            if name in found:
                raise ValueError(f"{name} is listed in {found[name][0]} and again in {path}. Remove one of them.")
            found[name] = (path, entry)
    return found


def _read_file(path: pathlib.Path) -> dict:
    import yaml  # only those who list operations need it
    try:
        table = yaml.load(path.read_text(encoding="utf-8"), Loader=_unique_keys(yaml)) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no YAML: {error}") from None
    if not isinstance(table, dict):
        raise ValueError(f"{path} must map operation names to entries. Got {type(table).__name__}.")
    defaults = table.pop("__default__", None) or {}
    return {str(name): _checked(str(name), path, {**defaults, **(entry or {})}) for name, entry in table.items()}


def _unique_keys(yaml):
    """A safe loader that refuses a key given twice; YAML would keep the last one in silence."""

    class Loader(yaml.SafeLoader):
        """Refuses repeated keys."""

        def construct_mapping(self, node, deep=False):
            """The mapping, its keys checked."""
            keys = [key.value for key, _ in node.value]
            for key in keys:
                if keys.count(key) > 1:
                    raise ValueError(f"{key} is listed twice in one file{node.start_mark}. Remove one of them.")
            return super().construct_mapping(node, deep)

    return Loader


def _checked(name: str, path: pathlib.Path, entry: dict) -> dict:
    where = f"The entry {name} of {path}"
    unknown = sorted(set(entry) - _FIELDS)
    if unknown:
        raise ValueError(f"{where} has unknown fields {unknown}. Known ones: {sorted(_FIELDS)}.")
    if entry.get("infer_layout_suffix"):
        raise ValueError(f"{where} asks for infer_layout_suffix={entry['infer_layout_suffix']!r}, the older call with "
                         f"more arguments. Give its class `preprocess`, which can hand infer_layout anything.")
    if not entry.get("distributed_op_class"):
        raise ValueError(f"{where} needs distributed_op_class, the name of a DistributedOp subclass.")
    if bool(entry.get("distributed_op_file")) == bool(entry.get("distributed_op_module")):
        raise ValueError(f"{where} needs distributed_op_file or distributed_op_module, and not both.")
    return entry


def _distributed_class(name: str, path: pathlib.Path, entry: dict):
    from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp  # it imports the registry
    module = _module(entry)
    if module is None:
        given = entry.get("distributed_op_module") or entry["distributed_op_file"]
        raise ValueError(f"The entry {name} of {path} names the module {given!r}, which cannot be found. Put its "
                         f"directory on {PYTHON_PATH}.")
    found = getattr(module, entry["distributed_op_class"], None)
    if not (isinstance(found, type) and issubclass(found, DistributedOp)):
        raise ValueError(f"The entry {name} of {path}: {entry['distributed_op_class']} of {module.__name__} must be a "
                         f"subclass of hyper_parallel.core.shard.ops.parallel_ops.DistributedOp. Got {found!r}.")
    return found


def _module(entry: dict):
    """The module of an entry; a file is looked for beside the built-in families, then on the path."""
    given = entry.get("distributed_op_module")
    names = [given] if given else [_FAMILIES + entry["distributed_op_file"], entry["distributed_op_file"]]
    for module in names:
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not (module == error.name or module.startswith(error.name + ".")):
                raise  # the module is there, and something that it imports is not
    return None

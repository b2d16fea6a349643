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
"""The operations of a checkout: what its YAML files register, and the matmul family in any case."""
from __future__ import annotations

import ast
import pathlib

import yaml

from contrib.ask import Operation
from contrib.audit_references import referred, why_not
from contrib.checkout import CLASSES, Checkout, Refused
from contrib.child import meanings

DEFAULTS, CLASS = "__default__", "DistributedOp"
# The framework's name of each matmul class, for checkouts whose registry does not say.
_NAMES = dict(zip(CLASSES, ("MatMulExt", "MatMul", "BatchMatMulExt", "BatchMatMul", "Dense")))


MATMUL = tuple(_NAMES.values())


def matmul_operations(checkout: Checkout) -> list[Operation]:
    """One operation per class of the matmul family."""
    return [Operation(_NAMES[name], name, checkout.matmul_module) for name in CLASSES]


def meaning_of(name: str) -> meanings.Meaning | None:
    """What an operation of this public name means; None when that is not known."""
    return meanings.named(name) if meanings.known(name) else referred(name)


def operations(checkout: Checkout) -> tuple[list[Operation], dict]:
    """The operations whose meaning is known, and the other names and classes with the reason why they are not audited.

    A class that is registered under several names is taken once per meaning. Beside the registry's files, a class that
    is made at module level registers itself: `NegDistributedOp("Neg")`.
    """
    found, unknown = {(op.class_name, meaning_of(op.name).key): op for op in matmul_operations(checkout)}, {}
    classes, made = _defined(checkout)
    for name, entry in [*_entries(checkout), *made]:
        meaning, class_name = meaning_of(name), entry.get("distributed_op_class")
        if meaning is None or not class_name:
            unknown[name] = why_not(name) if class_name else "its entry names no class"
        else:
            operation = Operation(name, class_name, _module(checkout, entry), entry.get("infer_layout_suffix") or "")
            found.setdefault((class_name, meaning.key), operation)
        classes.discard(class_name)
    lonely = classes - {operation.class_name for operation in found.values()}
    unknown.update(dict.fromkeys(lonely, "no operation is registered for it"))
    return list(found.values()), dict(sorted(unknown.items()))


def _defined(checkout: Checkout) -> tuple[set, list]:
    """Classes of operations that no other derives from, and (name, entry) of those that are made at module level."""
    classes, bases, made = set(), set(), []
    for path in sorted((checkout.root / checkout.matmul).parent.glob("*.py")):
        for node in _statements(path):
            if isinstance(node, ast.ClassDef) and node.name.endswith(CLASS):
                classes.add(node.name)
                bases.update(base.id for base in node.bases if isinstance(base, ast.Name))
            made += [(name, {"distributed_op_class": class_name, "distributed_op_file": path.stem})
                     for class_name, name in _made(node)]
    return {name for name in classes - bases if not name.startswith("_")} - {CLASS}, made


def _statements(path: pathlib.Path) -> list:
    """The statements of a module."""
    try:
        return ast.parse(path.read_text(encoding="utf-8")).body
    except SyntaxError as error:
        raise Refused(f"{path} is not valid Python: {error}") from error


def _made(node):
    """(class, operation) of a statement `XDistributedOp("X")`, or of one that keeps the object under a name."""
    call = node.value if isinstance(node, (ast.Expr, ast.Assign)) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id.endswith(CLASS):
        yield from ((call.func.id, word.value) for word in call.args[:1]
                    if isinstance(word, ast.Constant) and isinstance(word.value, str))


def _entries(checkout: Checkout):
    folder = (checkout.root / checkout.matmul).parent / "yaml"
    for path in sorted(folder.glob("*.y*ml")):
        try:
            table = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except yaml.YAMLError as error:
            raise Refused(f"{path} is no registry that can be read: {error}") from error
        defaults = table.get(DEFAULTS) or {}
        for name, entry in table.items():
            if name != DEFAULTS and isinstance(entry, dict):
                yield name, {**defaults, **entry}


def _module(checkout: Checkout, entry: dict) -> str:
    if entry.get("distributed_op_module"):
        return entry["distributed_op_module"]
    folder = pathlib.PurePosixPath(checkout.matmul).parent
    return checkout.module_of(str(folder / str(entry.get("distributed_op_file"))))

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

import pathlib

import yaml

from contrib.ask import Operation
from contrib.audit_references import referred, why_not
from contrib.checkout import CLASSES, Checkout
from contrib.child import meanings

DEFAULTS = "__default__"
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
    """The operations whose meaning is known, and the other registered names with the reason why theirs is not.

    A class that is registered under several names is taken once per meaning.
    """
    found, unknown = {(op.class_name, meaning_of(op.name).key): op for op in matmul_operations(checkout)}, {}
    for name, entry in _entries(checkout):
        meaning = meaning_of(name)
        if meaning is None:
            unknown[name] = why_not(name)
        elif entry.get("distributed_op_class"):
            operation = Operation(name, entry["distributed_op_class"], _module(checkout, entry),
                                  entry.get("infer_layout_suffix") or "")
            found.setdefault((operation.class_name, meaning.key), operation)
    return list(found.values()), dict(sorted(unknown.items()))


def _entries(checkout: Checkout):
    folder = (checkout.root / checkout.matmul).parent / "yaml"
    for path in sorted(folder.glob("*.y*ml")):
        table = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        defaults = table.get(DEFAULTS) or {}
        for name, entry in table.items():
            if name != DEFAULTS and isinstance(entry, dict):
                yield name, {**defaults, **entry}


def _module(checkout: Checkout, entry: dict) -> str:
    if entry.get("distributed_op_module"):
        return entry["distributed_op_module"]
    folder = pathlib.PurePosixPath(checkout.matmul).parent
    return checkout.module_of(str(folder / str(entry.get("distributed_op_file"))))

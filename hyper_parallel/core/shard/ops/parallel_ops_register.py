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
"""The registry: operation name -> distributed operation. Built-in families load on the first question."""
from __future__ import annotations

import importlib

_OPS: dict = {}
_FAMILIES = ("matmul", "elementwise", "inplace", "reduce", "transpose", "reshape", "expand", "concat", "split", "index",
             "gather", "lookup", "scatter", "sort", "activation", "cast", "create", "random", "special",
             "loss", "attention", "optimizer", "convolution", "whole")
_STATE = {"loaded": False}
_TOLD: list = []


def register_distributed_op(name: str, op) -> None:
    """Make `op` the distributed form of the operation `name`; the latest registration counts."""
    _OPS[name] = op
    for forget in _TOLD:
        forget()


def restore_distributed_op(name: str, op) -> None:
    """Put back what `name` meant before, None for nothing."""
    if op is None:
        _OPS.pop(name, None)
        for forget in _TOLD:
            forget()
    else:
        register_distributed_op(name, op)


def load_builtin_ops() -> None:
    """Import every built-in operation family, then those that the environment's directory lists; once.

    Raises:
        ValueError: when the listed operations cannot be loaded; the next question asks again.
    """
    if _STATE["loaded"]:
        return
    _STATE["loaded"] = True
    mine = dict(_OPS)
    try:
        for family in _FAMILIES:
            importlib.import_module(f"hyper_parallel.core.shard.ops.parallel_{family}")
        importlib.import_module("hyper_parallel.core.shard.ops.yaml_registry").load_listed_ops()
    except BaseException:
        _STATE["loaded"] = False
        raise
    _OPS.update(mine)


def get_distributed_op(name: str):
    """The distributed form of an operation, or None."""
    load_builtin_ops()
    return _OPS.get(name)


def registered_ops() -> dict:
    """All distributed operations by name."""
    load_builtin_ops()
    return dict(_OPS)


def on_registration(forget) -> None:
    """Call `forget()` after every registration: caches of plans must not outlive a rule."""
    _TOLD.append(forget)

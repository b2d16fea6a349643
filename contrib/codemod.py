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
"""The edit of a checkout's matmul file: one import, and one decorator on each method. Nothing else moves."""
from __future__ import annotations

import libcst as cst

from contrib.checkout import CLASSES, HELPER, LINEAR, Refused, Structure
from contrib.render import DECORATOR, EXPAND, with_year

LONGEST = 100


def transform(raw: bytes, structure: Structure, variant: str, year: int, expand: bool = True) -> bytes:
    """The edited file; the same bytes where the edit is in place already.

    Args:
        raw: the file.
        structure: its structure.
        variant: INHERIT or CHECK of contrib.render.
        year: the current year, for the licence block.
        expand: decorate Linear's `get_expand_impl` too.

    Raises:
        Refused: when the file does not survive being parsed and written, or a line would get too long.
    """
    module = cst.parse_module(raw)
    if module.bytes != raw:
        raise Refused("The matmul file changes when it is parsed and written unchanged: it cannot be edited safely.")
    names = [DECORATOR[variant], *([EXPAND] if expand else [])]
    edited = module.visit(_Decorate({"infer_layout": (CLASSES, DECORATOR[variant]),
                                     **({"get_expand_impl": ((LINEAR,), EXPAND)} if expand else {})}))
    edited = _with_import(edited, structure.base_import, names)
    if edited.bytes == raw:
        return raw
    text = with_year(edited.bytes.decode(edited.encoding), year)
    before = set(raw.decode(edited.encoding).splitlines())
    long = [line for line in text.splitlines() if len(line) > LONGEST and line not in before]
    if long:
        raise Refused(f"A line would get longer than {LONGEST} columns: {long[0]!r}.")
    return text.encode(edited.encoding)


class _Decorate(cst.CSTTransformer):
    """Puts decorators on methods.

    Args:
        wanted: method name -> (classes, decorator).
    """

    def __init__(self, wanted: dict):
        super().__init__()
        self.wanted, self.classes = wanted, []

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        """Note which class this is."""
        self.classes.append(node.name.value)

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        """Forget it."""
        self.classes.pop()
        return updated_node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        """What is inside a function is left alone."""
        return False

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        """Add the decorator, outermost, unless it is there."""
        classes, decorator = self.wanted.get(updated_node.name.value, ((), ""))
        known = [one.decorator.value for one in updated_node.decorators if isinstance(one.decorator, cst.Name)]
        if len(self.classes) != 1 or self.classes[0] not in classes or decorator in known:
            return updated_node
        return updated_node.with_changes(decorators=[cst.Decorator(cst.Name(decorator)), *updated_node.decorators])


def _with_import(module: cst.Module, base_import: tuple, names: list[str]) -> cst.Module:
    """The module with an import of the helper right behind that of DistributedOp, unless it is there."""
    level, base = base_import
    path = ".".join([*(base or "").split(".")[:-1], HELPER])
    wanted = f"from {'.' * level}{path} import {', '.join(sorted(names))}"
    body = list(module.body)
    if any(isinstance(node, cst.SimpleStatementLine) and module.code_for_node(node).strip() == wanted for node in body):
        return module
    place = next(i for i, node in enumerate(body) if _imports_base(node))
    return module.with_changes(body=[*body[:place + 1], cst.parse_statement(wanted, config=module.config_for_parsing),
                                     *body[place + 1:]])


def _imports_base(node) -> bool:
    if not isinstance(node, cst.SimpleStatementLine) or not isinstance(node.body[0], cst.ImportFrom):
        return False
    names = node.body[0].names
    return not isinstance(names, cst.ImportStar) and any(alias.name.value == "DistributedOp" for alias in names)

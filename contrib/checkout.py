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
"""A checkout of the public library: where its matmul rules are, which generation it is, and what git says of it.

Everything here is read from the checkout's files and history; none of its code runs.
"""
from __future__ import annotations

import ast
import functools
import io
import pathlib
import re
import subprocess
import tarfile
from dataclasses import dataclass

from contrib.gates_tree import git

CLASSES = ("MatMulExtDistributedOp", "MatMulDistributedOp", "BatchMatMulExtDistributedOp", "BatchMatMulDistributedOp",
           "LinearDistributedOp")
LINEAR = CLASSES[-1]
LEGACY, MIXED, THREE_PHASE = "legacy", "mixed", "three-phase"
HELPER = "matmul_partial"
_MATMUL = "hyper_parallel/core/shard/ops/parallel_matmul.py"
# Parameters of a method beside self -> the convention it follows.
_INFER = {2: LEGACY, 1: THREE_PHASE}
_EXPAND = {4: LEGACY, 3: THREE_PHASE}
_READS = ("partial", "get_partial_by_dev_id", "is_partial")
_UNIT_FOLDERS = ("tests/ut/core/shard/ops", "tests/mindspore/ut/parallel_ops_infer")
_SYSTEM_FOLDERS = (("msrun", "tests/mindspore/st/shard"), ("torchrun", "tests/torch/shard/ops"))
_MAIN = ("master", "main")


class Refused(Exception):
    """The tool does not do what it was asked for; the message says why, and what to do instead."""


@dataclass(frozen=True)
class Structure:
    """How the matmul file is written.

    Attributes:
        infer: class name -> convention of its `infer_layout`.
        expand: convention of Linear's `get_expand_impl`.
        layout: module of the `Layout` that it imports.
        base_import: the import of `DistributedOp`, as (level, module).
        decorators: names of decorators on the methods in question.
        reads_partial: True when the file reads pending reductions anywhere.
    """

    infer: dict
    expand: str
    layout: str
    base_import: tuple
    decorators: frozenset
    reads_partial: bool

    @property
    def generation(self) -> str:
        """LEGACY, MIXED or THREE_PHASE."""
        kinds = {*self.infer.values(), self.expand}
        return kinds.pop() if len(kinds) == 1 else MIXED


class Checkout:
    """A checkout on disk.

    Args:
        root: its folder.

    Raises:
        Refused: when the folder is no checkout of the public library.
    """

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        if not (self.root / "hyper_parallel").is_dir():
            raise Refused(f"{root} holds no package hyper_parallel. Give the root of a checkout: --checkout PATH.")

    # -- git ----------------------------------------------------------------------------------------------------------

    @property
    def dirty(self) -> list[str]:
        """Paths that differ from the last commit, new ones included."""
        return [line[3:] for line in git(self.root, "status", "--porcelain", "--untracked-files=all").splitlines()]

    @property
    def commit(self) -> str:
        """Short name of the last commit."""
        return git(self.root, "rev-parse", "--short", "HEAD").strip()

    @property
    def branch(self) -> str:
        """Name of the current branch; HEAD when there is none."""
        return git(self.root, "rev-parse", "--abbrev-ref", "HEAD").strip()

    def base(self) -> str:
        """The commit that the change is measured against.

        The last commit when there are uncommitted changes; else where this branch left the main one.
        """
        if self.dirty or self.branch in _MAIN:
            return git(self.root, "rev-parse", "HEAD").strip()
        for name in _MAIN:
            try:
                return git(self.root, "merge-base", name, "HEAD").strip()
            except RuntimeError:
                continue
        return git(self.root, "rev-parse", "HEAD~1").strip()

    def extract(self, commit: str, folder) -> None:
        """Write the files of a commit to a folder."""
        done = subprocess.run(["git", "-C", str(self.root), "archive", commit], capture_output=True, check=False)
        if done.returncode:
            raise Refused(f"git archive {commit}: {done.stderr.decode().strip()}")
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(folder)  # git's own archive of the user's own history

    # -- files --------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def matmul(self) -> str:
        """Path of the matmul rules: the known one, else the one file that defines their classes.

        Raises:
            Refused: when no file or several do.
        """
        if (self.root / _MATMUL).is_file():
            return _MATMUL
        files = sorted((self.root / "hyper_parallel").rglob("*.py"))
        found = [path for path in files if f"class {CLASSES[0]}(" in path.read_text(encoding="utf-8", errors="replace")]
        if len(found) != 1:
            shown = ", ".join(self._relative(path) for path in found) or "none"
            raise Refused(f"One file must define {CLASSES[0]}. Found: {shown}.")
        return self._relative(found[0])

    @property
    def blob(self) -> str:
        """Git's id of the matmul file as it is on disk."""
        return git(self.root, "hash-object", self.matmul).strip()

    @property
    def matmul_module(self) -> str:
        """Dotted name of the matmul file."""
        return self.module_of(self.matmul)

    @staticmethod
    def module_of(path: str) -> str:
        """Dotted name of a Python file."""
        return path.removesuffix(".py").replace("/", ".")

    def path_of(self, module: str) -> pathlib.Path:
        """File of a dotted name."""
        return self.root.joinpath(*module.split(".")).with_suffix(".py")

    def _relative(self, path) -> str:
        return path.relative_to(self.root).as_posix()

    def read(self, path: str) -> str:
        """Text of a file; empty when there is none."""
        file = self.root / path
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    # -- structure ----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def structure(self) -> Structure:
        """The structure of the matmul file.

        Raises:
            Refused: naming what does not match.
        """
        return structure_of(self.read(self.matmul), self.matmul_module)

    @functools.cached_property
    def mesh_module(self) -> str:
        """Dotted name of the file with DeviceMesh, beside that of Layout."""
        return self.structure.layout.rpartition(".")[0] + ".device_mesh"

    @functools.cached_property
    def mock_target(self) -> str | None:
        """What unit tests replace so that no process group is asked: `platform` or `dist` of the mesh module."""
        text = self.read(self.module_path(self.mesh_module))
        if re.search(r"^(import torch\.distributed|from torch import distributed) as dist$", text, re.MULTILINE):
            return "dist"
        return "platform" if re.search(r"^platform\s*=", text, re.MULTILINE) else None

    @functools.cached_property
    def mesh_caches(self) -> tuple:
        """Module-level dictionaries of the mesh module, in which a test's meshes would outlive it."""
        text = self.read(self.module_path(self.mesh_module))
        return tuple(re.findall(r"^(_[A-Z_]+)(?:: [^=\n]+)? = \{\}$", text, re.MULTILINE))

    @staticmethod
    def module_path(module: str) -> str:
        """Path of a dotted name, relative to the root."""
        return module.replace(".", "/") + ".py"

    @property
    def unit_folder(self) -> str | None:
        """Where unit tests of operations live."""
        return next((name for name in _UNIT_FOLDERS if (self.root / name).is_dir()), None)

    @property
    def system_folder(self) -> tuple | None:
        """Launcher and folder of system tests of sharded operations."""
        return next((pair for pair in _SYSTEM_FOLDERS if (self.root / pair[1]).is_dir()), None)


def structure_of(source: str, module: str) -> Structure:
    """The structure of a matmul file.

    Args:
        source: its text.
        module: its dotted name, against which relative imports are resolved.

    Raises:
        Refused: naming what does not match.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise Refused(f"{module} is not valid Python: {error}.") from error
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    infer, marks = {}, set()
    for name in CLASSES:
        method = _method(classes, name, "infer_layout")
        infer[name] = _convention(name, method, _INFER)
        marks.update(_decorators(method))
    method = _method(classes, LINEAR, "get_expand_impl")
    marks.update(_decorators(method))
    reads = any(isinstance(node, ast.Attribute) and node.attr in _READS for node in ast.walk(tree))
    return Structure(infer, _convention(LINEAR, method, _EXPAND), _import_of(tree, "Layout", module)[2],
                     _import_of(tree, "DistributedOp", module)[:2], frozenset(marks), reads)


def _method(classes: dict, name: str, method: str) -> ast.FunctionDef:
    if name not in classes:
        raise Refused(f"The structure does not match: there is no class {name}.")
    found = [node for node in classes[name].body if isinstance(node, ast.FunctionDef) and node.name == method]
    if len(found) != 1:
        raise Refused(f"The structure does not match: {name} defines {method} {len(found)} times; it must do so once.")
    return found[0]


def _convention(name: str, method: ast.FunctionDef, known: dict) -> str:
    """The convention that a method's parameters follow."""
    arguments = method.args
    count = len(arguments.posonlyargs + arguments.args) - 1
    if count not in known or arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        raise Refused(f"The structure does not match: {name}.{method.name} takes ({ast.unparse(arguments)}), and "
                      f"{' or '.join(map(str, sorted(known)))} parameters beside self are expected.")
    return known[count]


def _decorators(method: ast.FunctionDef) -> set[str]:
    return {ast.unparse(node) for node in method.decorator_list}


def _import_of(tree: ast.Module, name: str, module: str) -> tuple:
    """How a module imports a name: (level, module as written, module resolved)."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            package = module.split(".")[:-node.level] if node.level else []
            return node.level, node.module, ".".join([*package, *filter(None, [node.module])])
    raise Refused(f"The structure does not match: {module} does not import {name} at module level.")

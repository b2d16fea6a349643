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
"""Synthetic checkouts of the public library, as git repositories: `python -m tests.ut.contrib.synthetic SHAPE FOLDER`.

Shapes: legacy, mixed, three-phase, and propagating (three-phase, inherits every pending reduction, with the four
defects that this leaves).
"""
from __future__ import annotations

import pathlib
import subprocess
import sys

from tests.ut.contrib import synthetic_core as core
from tests.ut.contrib import synthetic_files as files
from tests.ut.contrib import synthetic_ops as ops

SHAPES = ("legacy", "mixed", "three-phase", "propagating")
_OPS = "hyper_parallel/core/shard/ops"


def build(shape: str, folder, **changes: str) -> pathlib.Path:
    """A synthetic checkout with one commit on `master`.

    Args:
        shape: one of SHAPES.
        folder: where to; made if need be.
        changes: path, with "__" for "/" and "_py" for ".py" -> text that replaces the file.
    """
    root = pathlib.Path(folder)
    written = {**_package(shape), **_tests(shape), **_lists(shape)}
    for path, text in {**written, **{_path(name): text for name, text in changes.items()}}.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        head = core.HEADER.format(years="2025") if path.endswith(".py") else ""
        file.write_text(head + text, encoding="utf-8")
    run_git(root, "init", "--quiet", "--initial-branch=master")
    run_git(root, "config", "user.name", "An Engineer")
    run_git(root, "config", "user.email", "engineer@example.com")
    commit(root, "chore: begin")
    return root


def _path(name: str) -> str:
    return name.replace("__", "/").replace("_py", ".py")


def run_git(root, *arguments: str) -> str:
    """Output of a git command."""
    return subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True).stdout


def commit(root, subject: str) -> None:
    """Commit everything."""
    run_git(root, "add", "--all")
    run_git(root, "-c", "commit.gpgsign=false", "commit", "--quiet", "--no-verify", "--message", subject)


def core_package(shape: str) -> str:
    """Dotted name of the package with layouts and meshes."""
    return "hyper_parallel.core" if shape == "legacy" else "hyper_parallel.core.dtensor"


def matmul_text(shape: str) -> str:
    """The matmul rules of a shape, without header."""
    propagating = shape == "propagating"
    words = dict(ops.CONVENTIONS["three-phase" if propagating else shape], layout=core_package(shape) + ".layout")
    words["propagate"] = ops.PROPAGATE if propagating else "\n"
    call = "\n        _propagate_partial_from_inputs(out_layout, x_layout, w_layout)"
    return ops.MATMUL.format(**words, call_propagate=call if propagating else "")


def _package(shape: str) -> dict:
    torch = shape in ("three-phase", "propagating")
    package, convention = core_package(shape), ops.CONVENTIONS["three-phase" if torch else shape]
    folder, layout = package.replace(".", "/"), package + ".layout"
    framework = "import torch.distributed as dist" if torch else (
        "from hyper_parallel.platform import get_platform\n\nplatform = get_platform()")
    expand = convention["linear_expand"] if shape == "legacy" else "infer_result, cache_values"
    written = {
        "hyper_parallel/__init__.py": core.PACKAGE.format(layout=layout),
        "hyper_parallel/core/__init__.py": '"""Synthetic package."""\n',
        f"{folder}/device_mesh.py": core.MESH.format(
            framework=framework, rank="dist.get_rank()" if torch else "platform.get_rank()"),
        f"{folder}/layout.py": core.LAYOUT.format(package=package),
        "hyper_parallel/core/shard/__init__.py": '"""Synthetic package."""\n',
        f"{_OPS}/__init__.py": '"""Synthetic package."""\n',
        f"{_OPS}/parallel_ops.py": core.BASE.format(
            preprocess="" if shape == "legacy" else core.PREPROCESS, expand=expand,
            params="cache_values" if torch else "layouts, extra_args"),
        f"{_OPS}/parallel_matmul.py": matmul_text(shape),
        f"{_OPS}/parallel_other.py": ops.OTHER.format(layout=layout, **convention),
        f"{_OPS}/yaml/other_ops.yaml": ops.YAML,
        f"{_OPS}/yaml/matmul_ops.yaml": ops.MATMUL_YAML,
    }
    if not torch:
        written["hyper_parallel/platform/__init__.py"] = core.PLATFORM
    return written


def _tests(shape: str) -> dict:
    layout = core_package(shape) + ".layout"
    if shape == "legacy":
        unit, text = "tests/mindspore/ut/parallel_ops_infer", files.LEGACY_UNIT
    else:
        unit, text = "tests/ut/core/shard/ops", files.THREE_PHASE_UNIT
    if shape == "mixed":
        text = text.replace("(out,), _ = ", "out = ")
    system = "tests/mindspore/st/shard" if shape in ("legacy", "mixed") else "tests/torch/shard/ops"
    return {f"{unit}/test_parallel_matmul.py": text.format(layout=layout), f"{system}/README.md": "# System tests\n",
            "tests/__init__.py": "", "tests/common/__init__.py": "", "tests/common/mark_utils.py": files.MARKS}


def _lists(shape: str) -> dict:
    written = {".jenkins/check/config/filter_pylint.txt": files.FILTER,
               ".jenkins/rules/codespell/codespell.allow": "ans\n"}
    if shape == "legacy":
        return {**written, ".gitee/PULL_REQUEST_TEMPLATE.zh-CN.md": files.CHINESE_TEMPLATE}
    return {**written, ".gitcode/PULL_REQUEST_TEMPLATE.md": files.ENGLISH_TEMPLATE,
            ".github/workflows/content.yml": files.WORKFLOW}


if __name__ == "__main__":
    print(build(sys.argv[1], sys.argv[2]))

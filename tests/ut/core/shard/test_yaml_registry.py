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
"""Operations that a directory of YAML files lists."""
import os
import subprocess
import sys
import textwrap

import pytest

from hyper_parallel.core.shard.ops import yaml_registry
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op


MODULE = """
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
class {name}(DistributedOp):
    marker = {marker!r}
NotAnOp = 3
"""


@pytest.fixture(name="listed")
def _listed(tmp_path, monkeypatch):
    """A directory for YAML files and one for modules, in the environment."""
    yaml_dir, modules = tmp_path / "yaml", tmp_path / "modules"
    yaml_dir.mkdir()
    modules.mkdir()
    monkeypatch.setenv(yaml_registry.DIRECTORY, str(yaml_dir))
    monkeypatch.setenv(yaml_registry.PYTHON_PATH, os.pathsep.join([str(tmp_path / "none"), str(modules)]))
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(**files):
        for name, text in files.items():
            (yaml_dir / f"{name}.yaml").write_text(textwrap.dedent(text), encoding="utf-8")

    (modules / "listed_op.py").write_text(MODULE.format(name="ListedOp", marker="mine"), encoding="utf-8")
    (modules / "broken_op.py").write_text("import no_such_module_at_all\n", encoding="utf-8")
    yield write
    for name in ("listed_op", "broken_op"):
        sys.modules.pop(name, None)


def test_a_directory_adds_and_overrides_operations(listed):
    """
    Feature: HYPER_PARALLEL_OPS_YAML_DIR, HYPER_PARALLEL_OPS_PYTHON_PATH.
    Description: two files, with defaults, by file and by module, one of them under a built-in name.
    Expectation: every name has an instance of its class; other built-in rules stay.
    """
    listed(a="""
        __default__: {distributed_op_class: ListedOp, distributed_op_file: listed_op, dist_op_name: label}
        ListedA:
        AddExt: {infer_layout_suffix: ""}
        """, b="ListedB: {distributed_op_class: MatMulExtDistributedOp, distributed_op_file: parallel_matmul}",
           c="ListedC: {distributed_op_class: ListedOp, distributed_op_module: listed_op}", d="")
    matmul = get_distributed_op("MatMulExt")
    yaml_registry.load_listed_ops()
    assert [get_distributed_op(n).marker for n in ("ListedA", "AddExt", "ListedC")] == ["mine"] * 3
    assert get_distributed_op("ListedA").op_name == "ListedA"
    assert get_distributed_op("ListedB").op_name == "ListedB" and get_distributed_op("MatMulExt") is matmul


@pytest.mark.parametrize("files, message", [
    ({"a": "X: {distributed_op_class: ListedOp, distributed_op_file: listed_op}",
      "b": "X: {distributed_op_class: ListedOp, distributed_op_file: listed_op}"},
     r"X is listed in .*a.yaml and again in .*b"),
    ({"a": "X: {}\nX: {}\n"}, "X is listed twice"),
    ({"a": "X: {distributed_op_file: listed_op}"}, "needs distributed_op_class"),
    ({"a": "X: {distributed_op_class: ListedOp}"}, "distributed_op_file or distributed_op_module"),
    ({"a": "X: {distributed_op_class: ListedOp, distributed_op_file: nowhere}"}, "'nowhere', which cannot be found"),
    ({"a": "X: {distributed_op_class: NotAnOp, distributed_op_file: listed_op}"}, "must be a subclass"),
    ({"a": "X: {distributed_op_class: ListedOp, distributed_op_file: listed_op, infer_layout_suffix: WithShape}"},
     "WithShape"),
    ({"a": "X: {distributed_op_clas: ListedOp, distributed_op_file: listed_op}"}, "unknown fields"),
    ({"a": "- X"}, "must map"), ({"a": "X: ["}, "is no YAML"),
])
def test_a_directory_with_a_mistake_is_refused(listed, files, message):
    """
    Feature: HYPER_PARALLEL_OPS_YAML_DIR.
    Description: a name in two files, or twice in one; missing, unknown and unsupported fields; imports that fail.
    Expectation: ValueError that names the entry and the file.
    """
    listed(**files)
    with pytest.raises(ValueError, match=message):
        yaml_registry.load_listed_ops()
    assert get_distributed_op("X") is None


def test_an_error_inside_a_listed_module_is_not_hidden(listed):
    """
    Feature: distributed_op_file.
    Description: the module exists, and one that it imports does not.
    Expectation: its own ModuleNotFoundError, not "cannot be found" about the listed one.
    """
    listed(a="X: {distributed_op_class: A, distributed_op_file: broken_op}")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        yaml_registry.load_listed_ops()


def test_the_directory_is_read_at_the_first_question(listed, tmp_path):
    """
    Feature: HYPER_PARALLEL_OPS_YAML_DIR in a fresh process.
    Description: a listed operation, an own one registered in code under a listed name, then a missing directory.
    Expectation: the listed one answers, code has the last word; a missing directory is refused at every question.
    """
    listed(a="""
        __default__: {distributed_op_class: ListedOp, distributed_op_file: listed_op}
        ListedA:
        Mine:
        """)
    program = """
        from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
        from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
        DistributedOp("Mine")
        for _ in range(2):
            try:
                print(type(get_distributed_op("ListedA")).__name__, type(get_distributed_op("Mine")).__name__,
                      get_distributed_op("AddExt") is not None)
            except ValueError as error:
                print(str(error)[:40])
        """
    run = [sys.executable, "-c", textwrap.dedent(program)]
    path = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    for directory, expected in ((os.environ[yaml_registry.DIRECTORY], "ListedOp DistributedOp True"),
                                ("no/such", "HYPER_PARALLEL_OPS_YAML_DIR names ")):
        env = {**os.environ, "PYTHONPATH": path, yaml_registry.DIRECTORY: directory}
        done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path, env=env)
        lines = done.stdout.splitlines()
        assert len(lines) == 2 and all(line.startswith(expected) for line in lines), done.stdout


CHECKED = """
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
class Checked(DistributedOp):
    check = {"params": "x:t", "reference": lambda x: x * 2, "patterns": ["x=ab"]}
    def preprocess(self, args, kwargs):
        return (args[0].to_local(partial_ok=True),), kwargs, [args[0].layout]
    def infer_layout(self, cache_values, extra_args=None):
        self._check_partial_inputs(cache_values)
        return (cache_values[0],), None
class Unsound(Checked):
    _allow_partial_inputs = True
"""


def test_a_listed_rule_is_checked_when_it_asks_for_that(listed, tmp_path):
    """
    Feature: verify: true in a YAML entry.
    Description: a sound class and an unsound one, each with and without the field.
    Expectation: the unsound one is refused where it is checked, with the counterexample; a report where it was.
    """
    (tmp_path / "modules" / "checked_op.py").write_text(CHECKED, encoding="utf-8")
    listed(a="""
        __default__: {distributed_op_file: checked_op}
        Seen: {distributed_op_class: Checked, verify: true}
        Unseen: {distributed_op_class: Unsound}
        """)
    yaml_registry.load_listed_ops()
    assert get_distributed_op("Seen").report.rows and get_distributed_op("Unseen").report is None
    listed(a="X: {distributed_op_file: checked_op, distributed_op_class: Unsound, verify: true}")
    with pytest.raises(ValueError, match=r"X is not registered: its rule is unsound.\n.*P\("):
        yaml_registry.load_listed_ops()
    assert get_distributed_op("X") is None
    sys.modules.pop("checked_op", None)

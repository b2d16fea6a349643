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
"""Importing the package: layouts and rules need neither MindSpore nor a process group."""
import importlib
import pkgutil
import subprocess
import sys
import textwrap

import mindspore
import pytest

import hyper_parallel

PRELUDE = """
    import sys

    class Blocked:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in ("mindspore", "torch"):
                raise ImportError(f"{name} is blocked")

    sys.meta_path.insert(0, Blocked())
    import hyper_parallel
    from hyper_parallel import Layout, Partial, Replicate, Shard, denote, init_device_mesh
"""


def _run(program: str) -> str:
    """What a program prints in an interpreter that cannot import MindSpore."""
    code = textwrap.dedent(PRELUDE) + textwrap.dedent(program) + "\nassert 'mindspore' not in sys.modules\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_meshes_layouts_and_rules_work_without_the_framework():
    """
    Feature: import.
    Description: with MindSpore blocked: meshes (init_backend both ways), layouts, denote, the five matmul rules.
    Expectation: the right answers; a contraction is P(sum), an inherited one stays; no group is made.
    """
    printed = _run("""
        import numpy as np
        from hyper_parallel.core.shard.ops.parallel_matmul import (
            BatchMatMulDistributedOp, BatchMatMulExtDistributedOp, LinearDistributedOp, MatMulDistributedOp,
            MatMulExtDistributedOp)
        for init_backend in (True, False):
            mesh = init_device_mesh("npu", (2, 2), mesh_dim_names=("dp", "tp"), init_backend=init_backend)
            layout = Layout((2, 2), ("dp", "tp"), init_backend=init_backend)
        x, w = layout("dp", "tp"), layout("tp", "None")
        (out,), _ = MatMulExtDistributedOp().infer_layout([x, w])
        print(out.placements, MatMulDistributedOp().infer_layout([x, w], [False, False]).placements)
        (again,), _ = MatMulExtDistributedOp().infer_layout([out, layout("None", "None")])
        print(again.placements)
        print(LinearDistributedOp().infer_layout([x, layout("None", "tp"), None])[0][0].partial)
        b = layout("dp", "None", "None")
        print(BatchMatMulExtDistributedOp().infer_layout([b, b])[0][0].tensor_map)
        print(BatchMatMulDistributedOp().infer_layout((b, b), (True, False)).tensor_map)
        p = layout("None")
        p.set_partial_by_dev_axis("tp", "sum")
        print(denote([np.array([1]), np.array([2])] * 2, p))
        try:
            mesh.get_group("tp")
        except RuntimeError as error:
            print("init_process_group" in str(error))
    """)
    both = "(Shard(dim=0), Partial(reduce_op='sum'))"
    assert printed.splitlines() == [f"{both} {both}", both, "[None, 'sum']", "(1, -1, -1)", "(1, -1, -1)", "[3]",
                                    "True"]


def test_every_rule_of_every_family_loads_without_the_framework():
    """
    Feature: import.
    Description: load all built-in operation families, the planner and the verifier with MindSpore blocked.
    Expectation: they load, and rules answer.
    """
    printed = _run("""
        from hyper_parallel.core.shard.ops.parallel_ops_register import registered_ops
        from hyper_parallel.core.dtensor.layout_value import placements_to_value
        from hyper_parallel.core.dtensor.planner import plan
        import hyper_parallel.verify
        ops = registered_ops()
        layout = Layout((2,), ("tp",))("tp", "None")
        print(ops["AddExt"].infer_layout([layout, layout])[0][0].placements, len(ops) > 100)
        mesh = layout.mesh
        source, target = (placements_to_value(mesh, [p], 2) for p in (Partial(), Shard(0)))
        print([step.kind for step in plan(source, target, (4, 4))])
    """)
    assert printed.splitlines() == ["(Shard(dim=0),) True", "['reduce_scatter']"]


def test_names_that_need_the_framework_say_how_to_get_it():
    """
    Feature: import.
    Description: get_platform() with MindSpore blocked.
    Expectation: ImportError that names MindSpore and the pip command.
    """
    printed = _run("""
        try:
            hyper_parallel.get_platform()
        except ImportError as error:
            print("MindSpore" in str(error), "pip install" in str(error))
    """)
    assert printed.split() == ["True", "True"]


# `python -m` entries run on import; stand-ins for absent back ends are imported by the platform that needs them.
_ENTRIES = ("__main__",)


@pytest.mark.parametrize("part", ["core", "platform", "collectives", "verify"])
def test_importing_every_module_starts_no_process_group(part):
    """
    Feature: import.
    Description: import every module of a part of the package in this process, MindSpore included.
    Expectation: MindSpore has no process group afterwards.
    """
    package = importlib.import_module(f"hyper_parallel.{part}")
    names = [m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
    for name in names:
        if not name.endswith(_ENTRIES):
            importlib.import_module(name)
    assert names and not mindspore.mint.distributed.is_initialized()


def test_using_dtensors_in_a_simulation_starts_no_process_group():
    """
    Feature: import.
    Description: make meshes with init_backend=True inside and outside a simulation, and run a collective inside.
    Expectation: no process group of MindSpore is started.
    """
    hyper_parallel.init_device_mesh("cpu", (1,), init_backend=True)
    with hyper_parallel.simulate(2):
        mesh = hyper_parallel.init_device_mesh("npu", (2,), mesh_dim_names=("tp",), init_backend=True)
        x = hyper_parallel.ones((2,), mesh, [hyper_parallel.Shard(0)])
        assert x.full_tensor().asnumpy().tolist() == [1.0, 1.0]
    assert not mindspore.mint.distributed.is_initialized()

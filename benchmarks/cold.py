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
"""Time of the first call with a shape never seen before, on meshes of one to three axes.

    python -m benchmarks.cold [--quick]

`rule_cold` is what layout inference takes: bind the call's shapes to a signature, look every mesh axis up, make the
output's layout and spec. `dispatch_cold` is the whole first call as a user sees it, local operation included; it is
what the comparison with PyTorch DTensor uses. Every sample has new shapes; the first samples, which also import
modules and derive rows, are not counted (`first_us` is the very first).
"""
from __future__ import annotations

import argparse
import os

os.environ.setdefault("GLOG_v", "4")  # read by the framework when it is first imported

# pylint: disable=wrong-import-position
import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from mindspore import Tensor, mint  # noqa: E402

from benchmarks.calls import CASES, bare_mesh, placements, rule_call, shapes  # noqa: E402
from benchmarks.timing import FULL, QUICK, UNCOUNTED, cold_us, emit, no_collector, timed_us  # noqa: E402
from hyper_parallel import DTensor  # noqa: E402
from hyper_parallel.core.dtensor.layout_value import placements_to_value  # noqa: E402

MESHES = ((4,), (2, 2), (2, 2, 2))

# The same calls as a user makes them.
CALLS = {
    "matmul": lambda x, w, y: mint.matmul(x, w),
    "add": lambda x, w, y: mint.add(x, y),
    "transpose": lambda x, w, y: mint.transpose(x, 0, 1),
}


def dispatch_call(mesh, case, sizes: dict):
    """A function that makes one call on DTensors of these global shapes, rank 0 of the mesh."""
    made = {}
    for name, shape in sizes.items():
        where = placements(mesh.ndim)[name]
        local = placements_to_value(mesh, where, 2).spec(shape).local_shape((0,) * mesh.ndim)
        made[name] = DTensor.from_local(Tensor(np.ones(local, np.float32)), mesh, where, run_check=False, shape=shape)
    return lambda: CALLS[case[0]](**made)


def samples(make, mesh, case, count: int) -> list:
    """Microseconds of first calls with `count` shapes."""
    calls = [make(mesh, case, shapes(i)) for i in range(1, count + UNCOUNTED + 1)]
    with no_collector():
        return [timed_us(call)[0] for call in calls]


def main(arguments=None) -> None:
    """Print the cold times of every mesh and operation."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold")
    parser.add_argument("--quick", action="store_true", help="few repetitions: to see that it runs")
    counts = QUICK if parser.parse_args(arguments).quick else FULL
    ms.runtime.launch_blocking()
    for shape in MESHES:
        for bench, make in (("rule_cold", rule_call), ("dispatch_cold", dispatch_call)):
            mesh = bare_mesh(shape, bench)
            for case in CASES:
                times = samples(make, mesh, case, counts.cold)
                emit(bench=bench, mesh=str(shape).replace(" ", ""), op=case[0], **cold_us(times))


if __name__ == "__main__":
    main()

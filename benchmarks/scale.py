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
"""Rule inference and planning on a mesh of 16,384 ranks against the same on 8 ranks: they must take the same time.

    python -m benchmarks.scale [--quick]

Both meshes have three axes and are built before the clock starts (`mesh_ms` is the large one's). The samples of both
alternate. Rules see new shapes every time, plans are in no cache.
"""
from __future__ import annotations

import argparse
import itertools
import statistics
import time
from math import prod

from benchmarks.calls import CASES, bare_mesh, rule_call, shapes
from benchmarks.timing import FULL, QUICK, UNCOUNTED, emit, no_collector, timed_us
from hyper_parallel.core.dtensor.layout_value import placements_to_value
from hyper_parallel.core.dtensor.placement_types import Partial, Replicate, Shard
from hyper_parallel.core.dtensor.planner import plan

SMALL, LARGE = (2, 2, 2), (16, 32, 32)
EXTENT = (1 << 14, 1 << 14, 64)


def rule_times(meshes, case, count: int) -> list:
    """Per mesh the microseconds of inference for `count` new shapes."""
    times = [[] for _ in meshes]
    for i in range(1, count + UNCOUNTED + 1):
        for mesh, own in zip(meshes, times):
            own.append(timed_us(rule_call(mesh, case, shapes(i)))[0])
    return [own[UNCOUNTED:] for own in times]


def plan_times(meshes, count: int) -> list:
    """Per mesh the microseconds of `count` cold plans, evenly picked from all pairs."""
    states = list(itertools.product((Replicate(), Shard(0), Shard(1), Partial()), repeat=3))
    pairs = [(a, b) for a in states for b in states if a != b]
    times = [[] for _ in meshes]
    plan.cache_clear()
    for pair in pairs[::max(len(pairs) // count, 1)]:
        for mesh, own in zip(meshes, times):
            source, target = (placements_to_value(mesh, placements, 3) for placements in pair)
            own.append(timed_us(lambda s=source, t=target: plan(s, t, EXTENT))[0])
    return times


def report(op: str, times: list, mesh_ms: float) -> None:
    """Print one comparison."""
    small, large = map(statistics.median, times)
    emit(bench="scale", op=op, mesh=str(LARGE), ranks=prod(LARGE), median_us=round(large, 1), small_us=round(small, 1),
         ratio=round(large / small, 2), samples=len(times[0]), mesh_ms=mesh_ms)


def main(arguments=None) -> None:
    """Print the comparisons."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--quick", action="store_true", help="few repetitions: to see that it runs")
    counts = QUICK if parser.parse_args(arguments).quick else FULL
    small = bare_mesh(SMALL)
    begin = time.perf_counter()
    large = bare_mesh(LARGE)
    mesh_ms = round((time.perf_counter() - begin) * 1e3, 1)
    with no_collector():
        for case in CASES:
            report(case[0], rule_times((small, large), case, counts.cold), mesh_ms)
        report("plan", plan_times((small, large), 10 * counts.cold), mesh_ms)


if __name__ == "__main__":
    main()

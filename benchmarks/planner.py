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
"""Time to plan a redistribution, cold and cached, on meshes of one to three axes. No communication, no framework.

    python -m benchmarks.planner [--quick]

`targets` is "no_partial" for the pairs that the comparison with PyTorch DTensor uses (about 400 of them at most) and
"any" for all pairs of {R, S(0), S(1), P}^n. A cold plan is in no cache, and every round has a mesh of its own, so that
its layouts are new as well until an earlier pair made them. Of the cold times of a pair over the rounds the least
counts, since other programs may share the machine; `first_round_median_us` and `first_round_max_us` are without that
choice. `cached_median_us` includes the clock.
"""
from __future__ import annotations

import argparse
import itertools
import statistics
from math import prod

import numpy as np

from benchmarks.timing import emit, no_collector, timed_us
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.layout_value import placements_to_value
from hyper_parallel.core.dtensor.placement_types import Partial, Replicate, Shard
from hyper_parallel.core.dtensor.planner import plan

SHAPE = (64, 64, 64)
MESHES = ((4,), (4, 2), (4, 2, 2))
ROUNDS = 3


def placement_pairs(axes: int, partial_targets: bool) -> list:
    """Pairs of unequal placement tuples; without Partial targets at most about 400, evenly picked."""
    states = list(itertools.product((Replicate(), Shard(0), Shard(1), Partial()), repeat=axes))
    pairs = [(a, b) for a in states for b in states if a != b]
    if partial_targets:
        return pairs
    pairs = [(a, b) for a, b in pairs if not any(p.is_partial() for p in b)]
    return pairs[::len(pairs) // 400] if len(pairs) > 400 else pairs


def one_round(mesh_shape, pairs, name: str) -> tuple[list, list, list]:
    """Cold and cached microseconds and number of steps per pair, on a mesh that no round before has used."""
    ranks = np.arange(prod(mesh_shape)).reshape(mesh_shape)
    names = tuple(f"{name}{axis}" for axis in range(len(mesh_shape)))
    mesh = DeviceMesh("cpu", ranks, mesh_dim_names=names, _init_backend=False)
    cold, cached, hops = [], [], []
    for pair in pairs:
        source, target = (placements_to_value(mesh, placements, len(SHAPE)) for placements in pair)
        elapsed, steps = timed_us(lambda s=source, t=target: plan(s, t, SHAPE))
        cold.append(elapsed)
        hops.append(len(steps))
        cached.append(min(timed_us(lambda s=source, t=target: plan(s, t, SHAPE))[0] for _ in range(3)))
    return cold, cached, hops


def bench(mesh_shape, partial_targets: bool, rounds: int) -> dict:
    """The measurements of one mesh."""
    pairs = placement_pairs(len(mesh_shape), partial_targets)
    plan.cache_clear()
    with no_collector():
        found = [one_round(mesh_shape, pairs, f"{'any' if partial_targets else 'none'}{i}_") for i in range(rounds)]
    cold = [min(times) for times in zip(*(cold for cold, _, _ in found))]
    first, cached, hops = found[0]
    return {
        "bench": "redistribute_plan", "planner": "astar", "mesh": str(mesh_shape), "pairs": len(pairs), "errors": 0,
        "targets": "any" if partial_targets else "no_partial",
        "cold_median_us": round(statistics.median(cold), 1), "cold_max_us": round(max(cold), 1),
        "first_round_median_us": round(statistics.median(first), 1), "first_round_max_us": round(max(first), 1),
        "cached_median_us": round(statistics.median(cached), 2), "mean_hops": round(statistics.mean(hops), 2),
    }


def main(arguments=None) -> None:
    """Print the measurements of every mesh."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planner")
    parser.add_argument("--quick", action="store_true", help="one round, without the largest mesh")
    options = parser.parse_args(arguments)
    for mesh_shape in MESHES[:2] if options.quick else MESHES:
        for partial_targets in (False, True):
            emit(**bench(mesh_shape, partial_targets, 1 if options.quick else ROUNDS))


if __name__ == "__main__":
    main()

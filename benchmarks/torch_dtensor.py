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
"""The same measurements for PyTorch DTensor, with the same cases and fields. Needs PyTorch and nothing of this package.

    python -m benchmarks.torch_dtensor [dispatch] [cold] [planner] [simulation] [--quick]

Ranks are those of a fake process group, so nothing communicates; the chain runs on PyTorch's own simulator.
"""
from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
from math import prod

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, _redistribute, distribute_tensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.testing._internal.distributed.fake_pg import FakeStore

from benchmarks.timing import FULL, QUICK, UNCOUNTED, chain_ms, cold_us, emit, no_collector, paired, timed_us

MESHES = ((4,), (2, 2), (2, 2, 2))
PLAN_MESHES, PLAN_SHAPE = ((4,), (4, 2), (4, 2, 2)), (64, 64, 64)

DISPATCH = (
    ("transpose", "S0", ("x",), lambda x: x.transpose(0, 1)),
    ("add", "S0+S0", ("x", "y"), torch.add),
    ("matmul", "S0@R", ("x", "w"), torch.matmul),
    ("relu", "S0", ("x",), torch.relu),
    ("sum", "S0->P", ("x",), torch.sum),
    ("add_scalar", "S0", ("x",), lambda x: x + 1),
)
COLD = (
    ("matmul", lambda x, w, y: torch.matmul(x, w)),
    ("add", lambda x, w, y: torch.add(x, y)),
    ("transpose", lambda x, w, y: x.transpose(0, 1)),
)


def report(**fields) -> None:
    """Print one result with PyTorch's version, which marks it as theirs."""
    emit(torch=torch.__version__, **fields)


def fake_mesh(shape):
    """A mesh over the ranks of a new fake process group."""
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=prod(shape))
    return init_device_mesh("cpu", shape)


def distributed(mesh, shape, cut: bool, grad: bool = False):
    """A DTensor of this global shape, cut along dim 0 on the first axis or replicated."""
    local, placements = list(shape), [Replicate()] * mesh.ndim
    if cut:
        local[0] //= mesh.shape[0]
        placements[0] = Shard(0)
    made = DTensor.from_local(torch.randn(local), mesh, placements, run_check=False)
    return made.detach().requires_grad_(grad)


def dispatch(counts) -> None:
    """Overhead of a DTensor call over the plain call, on a mesh of one rank."""
    mesh, sizes = fake_mesh((1,)), {"x": (8, 16), "y": (8, 16), "w": (16, 8)}
    for grad in (False, True):
        plain = {name: torch.randn(shape, requires_grad=grad) for name, shape in sizes.items()}
        wrapped = {name: distributed(mesh, shape, name != "w", grad) for name, shape in sizes.items()}
        for op, placements, names, function in DISPATCH:
            p, d = [plain[n] for n in names], [wrapped[n] for n in names]
            with contextlib.nullcontext() if grad else torch.no_grad():
                times = paired(lambda f=function, a=p: f(*a), lambda f=function, a=d: f(*a), counts)
            report(bench="dispatch", kind="dtensor", mode="blocking", mesh="(1,)", op=op, placements=placements,
                   grad=grad, **times)


def cold(counts) -> None:
    """First calls with a shape never seen before."""
    for shape in MESHES:
        mesh = fake_mesh(shape)
        for op, function in COLD:
            times = []
            with torch.no_grad(), no_collector():
                for i in range(1, counts.cold + UNCOUNTED + 1):
                    x, w, y = ((8 * i, 16), True), ((16, 8 + i), False), ((8 * i, 16), True)
                    tensors = [distributed(mesh, size, cut) for size, cut in (x, w, y)]
                    times.append(timed_us(lambda f=function, t=tensors: f(*t))[0])
            report(bench="dispatch_cold", mesh=str(shape).replace(" ", ""), op=op, **cold_us(times))


def planner(counts) -> None:
    """Plans of both of PyTorch's planners; the graph one is slow on three axes, so fewer pairs are taken there."""
    for shape in PLAN_MESHES:
        mesh = fake_mesh(shape)
        states = list(itertools.product((Replicate(), Shard(0), Shard(1), Partial()), repeat=len(shape)))
        pairs = [(a, b) for a in states for b in states if a != b and not any(p.is_partial() for p in b)]
        pairs = pairs[::max(len(pairs) // (400 if counts is FULL else 8), 1)]
        for name in ("greedy", "graph"):
            taken = pairs[::5] if name == "graph" and len(shape) == 3 else pairs
            report(bench="redistribute_plan", mesh=str(shape), planner=name, targets="no_partial",
                   **plan_times(mesh, taken, name))


def plan_times(mesh, pairs, name: str) -> dict:
    """Fields of one planner's plans; the first of each pair is in no cache."""
    # pylint: disable=protected-access
    cold_times, cached, hops = [], [], []
    with _redistribute.use_min_cost_redistribution_plan(name == "graph"), no_collector():
        for pair in pairs:
            source, target = (_spec(mesh, placements) for placements in pair)
            _redistribute._gen_transform_infos.cache_clear()
            _redistribute.clear_redistribute_planner_cache()
            plan = functools.partial(_redistribute._gen_transform_infos, source, target)
            elapsed, steps = timed_us(plan)
            cold_times.append(elapsed)
            hops.append(len(steps))
            cached.append(min(timed_us(plan)[0] for _ in range(3)))
    middle = sorted(cold_times)[len(cold_times) // 2]
    return {"pairs": len(pairs), "errors": 0, "cold_median_us": round(middle, 1),
            "cold_max_us": round(max(cold_times), 1), "cached_median_us": round(sorted(cached)[len(cached) // 2], 2),
            "mean_hops": round(sum(hops) / len(hops), 2)}


def _spec(mesh, placements):
    meta = TensorMeta(torch.Size(PLAN_SHAPE), (64 * 64, 64, 1), torch.float32)
    return DTensorSpec(mesh, tuple(placements), tensor_meta=meta)


def simulation(counts) -> None:
    """The chained low-rank product on eight simulated ranks."""
    world = 8
    fake_mesh((world,))
    for backward in (False, True):
        runs = [chain(world, backward) for _ in range(counts.chains + 1)]
        report(bench="localtensor", available=True, world=world, backward=backward, exact=all(ok for _, ok in runs),
               **chain_ms([elapsed for elapsed, _ in runs]))


def chain(world: int, backward: bool) -> tuple[float, bool]:
    """Milliseconds of one run on fresh tensors, and whether every value is exact."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((4, 16), (8, 16), (32, 8), (4, 32))
    x, a, b, w = (torch.randint(-3, 4, shape, generator=generator).double() for shape in shapes)
    expected = [x @ a.T @ b.T, w @ b @ a, (w @ b).T @ x, w.T @ (x @ a.T)]
    with LocalTensorMode(world):
        mesh = init_device_mesh("cpu", (world,))
        tensors = [distribute_tensor(t, mesh, [p]).requires_grad_(backward)
                   for t, p in ((x, Shard(1)), (a, Shard(1)), (b, Replicate()))]
        weights = distribute_tensor(w, mesh, [Replicate()])
        elapsed, out = timed_us(lambda: _product(*tensors, weights if backward else None))
        found = [out.to_local()] + [t.grad.full_tensor() for t in tensors if backward]
        exact = all(torch.equal(value.reconcile(), want) for value, want in zip(found, expected))
    return elapsed / 1e3, exact


def _product(x, a, b, weights):
    out = ((x @ a.T) @ b.T).redistribute(placements=[Replicate()])
    if weights is not None:
        (out * weights).sum().backward()
    return out


PARTS = {"dispatch": dispatch, "cold": cold, "planner": planner, "simulation": simulation}


def main(arguments=None) -> None:
    """Print PyTorch's measurements."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch_dtensor")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="few repetitions: to see that it runs")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for part in options.parts or PARTS:
        PARTS[part](QUICK if options.quick else FULL)


if __name__ == "__main__":
    main()

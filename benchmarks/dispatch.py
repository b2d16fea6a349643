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
"""Warm overhead of a DTensor call over the plain call, and the dispatcher's own time. One process, a mesh of one rank.

    python -m benchmarks.dispatch [--mode blocking|async] [--quick]

In `blocking` mode every call waits for its kernel, and single calls are timed in pairs. In `async` mode bursts of
`BURST` calls are timed in pairs, the wait for the device outside the clock: that is the time of the host alone.
With gradients the pairs run inside a function that the framework differentiates, so every call is recorded.
`kind` is "dtensor", "floor" (a bare subclass that intercepts and does nothing else) or "self" (the dispatcher alone).
"""
from __future__ import annotations

import argparse
import os

os.environ.setdefault("GLOG_v", "4")  # read by the framework when it is first imported

# pylint: disable=wrong-import-position
import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from mindspore import Tensor, mint  # noqa: E402
from mindspore._c_expression import NoFallbackGuard  # noqa: E402

from benchmarks.timing import FULL, QUICK, best_round, clock, emit, no_collector, paired  # noqa: E402
from hyper_parallel import Replicate, Shard, distribute_tensor, init_device_mesh  # noqa: E402
from hyper_parallel.core.shard._op_dispatch import dispatcher  # noqa: E402

BURST = 40
as_class = Tensor._make_subclass  # pylint: disable=protected-access

# Operation, placements of the operands as text, how many of (x, y, w) it takes, call. The same list as PyTorch's side.
CASES = (
    ("transpose", "S0", ("x",), lambda x: mint.transpose(x, 0, 1)),
    ("add", "S0+S0", ("x", "y"), mint.add),
    ("matmul", "S0@R", ("x", "w"), mint.matmul),
    ("relu", "S0", ("x",), mint.nn.functional.relu),
    ("sum", "S0->P", ("x",), mint.sum),
    ("add_scalar", "S0", ("x",), lambda x: x + 1),
)


def operands() -> tuple[dict, dict]:
    """Plain operands, and the same as DTensors on a mesh of one rank."""
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
    rng = np.random.default_rng(0)
    data = {"x": (8, 16), "y": (8, 16), "w": (16, 8)}
    data = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in data.items()}
    placements = {"x": Shard(0), "y": Shard(0), "w": Replicate()}
    plain = {name: Tensor(value) for name, value in data.items()}
    return plain, {name: distribute_tensor(value, mesh, [placements[name]]) for name, value in data.items()}


def _calls(case, plain: dict, wrapped: dict) -> tuple:
    _, _, names, function = case
    p, d = [plain[name] for name in names], [wrapped[name] for name in names]
    return lambda: function(*p), lambda: function(*d)


def bursts(plain, wrapped, counts) -> dict:
    """As `paired`, per call of a burst."""
    def burst(call) -> int:
        begin = clock()
        for _ in range(BURST):
            call()
        elapsed = clock() - begin
        ms.runtime.synchronize()
        return elapsed

    for _ in range(3):
        burst(plain)
        burst(wrapped)
    with no_collector():
        plains, wrappeds = zip(*((burst(plain), burst(wrapped)) for _ in range(counts.bursts)))
    return best_round([(list(plains), list(wrappeds))], BURST)


def recorded(case, plain: dict, wrapped: dict, measure) -> dict:
    """The measurement inside a function that is differentiated in all operands, plain and distributed."""
    names, found = tuple(plain), {}

    def loss(*tensors):
        p, d = dict(zip(names, tensors)), dict(zip(names, tensors[len(names):]))
        found.update(measure(*_calls(case, p, d)))
        return tensors[0].sum()

    inputs = [plain[n] for n in names] + [wrapped[n] for n in names]
    ms.value_and_grad(loss, tuple(range(len(inputs))))(*inputs)
    return found


class Floor(Tensor):
    """The least that interception can cost: a call comes here, is made again uncaught, and its result is re-tagged."""

    def __fallback__(self, func, args, kwargs=None):
        with NoFallbackGuard():
            result = func(*args, **(kwargs or {}))
        result.__class__ = Floor
        return result


class NoKernel:
    """A framework call whose local operation only hands out a tensor object."""

    def __init__(self, name: str, tensor):
        self.name, self.tensor = name, tensor

    def __call__(self, *_):
        return as_class(Tensor, self.tensor)


def own_time(plain: dict, wrapped: dict, counts) -> None:
    """Print the dispatcher's time around a local operation that does nothing."""
    calls = (("transpose", "TransposeExtView", "S0", (wrapped["x"], 0, 1), mint.transpose(plain["x"], 0, 1)),
             ("add", "AddExt", "S0+S0", (wrapped["x"], wrapped["y"]), plain["x"]),
             ("matmul", "MatMulExt", "S0@R", (wrapped["x"], wrapped["w"]), mint.matmul(plain["x"], plain["w"])))
    for op, name, placements, args, result in calls:
        kernel = NoKernel(name, result)
        times = paired(lambda k=kernel, a=args: k(*a), lambda k=kernel, a=args: dispatcher.dispatch(k, a, None), counts)
        emit(bench="dispatch", kind="self", mode="blocking", mesh="(1,)", op=op, placements=placements, grad=False,
             **times)


def measured(plain: dict, wrapped: dict, timed, counts, **fields) -> None:
    """Print the overhead of every operation without gradients."""
    for case in CASES:
        times = timed(*_calls(case, plain, wrapped), counts)
        emit(bench="dispatch", mesh="(1,)", op=case[0], placements=case[1], grad=False, **fields, **times)


def measured_recording(plain: dict, wrapped: dict, timed, counts, **fields) -> None:
    """Print the overhead of every operation with gradients."""
    for case in CASES:
        times = recorded(case, plain, wrapped, lambda p, d: timed(p, d, counts))
        emit(bench="dispatch", mesh="(1,)", op=case[0], placements=case[1], grad=True, **fields, **times)


def main(arguments=None) -> None:
    """Print the overheads of one mode."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dispatch")
    parser.add_argument("--mode", choices=("blocking", "async"), default="blocking")
    parser.add_argument("--quick", action="store_true", help="few repetitions: to see that it runs")
    options = parser.parse_args(arguments)
    counts = QUICK if options.quick else FULL
    if options.mode == "blocking":
        ms.runtime.launch_blocking()
    timed = paired if options.mode == "blocking" else bursts
    plain, wrapped = operands()
    measured(plain, wrapped, timed, counts, kind="dtensor", mode=options.mode)
    measured_recording(plain, wrapped, timed, counts, kind="dtensor", mode=options.mode)
    floor = {name: as_class(Floor, tensor) for name, tensor in plain.items()}
    measured(plain, floor, timed, counts, kind="floor", mode=options.mode)
    if options.mode == "blocking":
        own_time(plain, wrapped, counts)


if __name__ == "__main__":
    main()

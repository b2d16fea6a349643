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
"""Time of the chained low-rank product `(x @ A.T) @ B.T` on simulated ranks in one process, forward and backward.

    python -m benchmarks.simulation [--world 8] [--quick]

x and A are cut along the contraction, B is replicated, the result is reduced once; with `backward` the loss
`(out * w).sum()` is differentiated in x, A and B. Data are small integers in float64: `exact` compares with numpy.
"""
from __future__ import annotations

import argparse
import os

os.environ.setdefault("GLOG_v", "4")  # read by the framework when it is first imported

# pylint: disable=wrong-import-position
import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from mindspore import mint  # noqa: E402

from benchmarks.timing import FULL, QUICK, chain_ms, emit, timed_us  # noqa: E402
from hyper_parallel import (  # noqa: E402
    Replicate, Shard, distribute_tensor, init_device_mesh, simulate, value_and_grad,
)

RANK, WIDTH_IN, WIDTH_OUT, BATCH = 8, 16, 32, 4


def data() -> tuple:
    """x, A, B and the weights of the loss."""
    rng = np.random.default_rng(0)
    shapes = ((BATCH, WIDTH_IN), (RANK, WIDTH_IN), (WIDTH_OUT, RANK), (BATCH, WIDTH_OUT))
    return tuple(rng.integers(-3, 4, shape).astype(np.float64) for shape in shapes)


def reference(x, a, b, w) -> tuple:
    """The result and the gradients of x, A and B on one device."""
    return x @ a.T @ b.T, (w @ b @ a, (w @ b).T @ x, w.T @ (x @ a.T))


def chain(x, a, b):
    """The chained product, reduced once."""
    out = mint.matmul(mint.matmul(x, mint.transpose(a, 1, 0)), mint.transpose(b, 1, 0))
    return out.redistribute(placements=[Replicate()])


def equal(tensor, expected) -> bool:
    """Every simulated rank holds the expected whole value."""
    whole = tensor.redistribute(placements=[Replicate()])
    return all(np.array_equal(v.asnumpy(), expected) for v in whole.to_local())


def once(world: int, backward: bool) -> tuple[float, bool]:
    """Milliseconds of one run on fresh tensors, and whether every value is exact."""
    x, a, b, w = data()
    out, gradients = reference(x, a, b, w)
    with simulate(world):
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
        tensors = [distribute_tensor(v, mesh, [p]) for v, p in ((x, Shard(1)), (a, Shard(1)), (b, Replicate()))]
        weights = distribute_tensor(w, mesh, [Replicate()])
        if not backward:
            elapsed, result = timed_us(lambda: chain(*tensors))
            return elapsed / 1e3, equal(result, out)
        differentiated = value_and_grad(lambda *t: (chain(*t) * weights).sum(), (0, 1, 2))
        elapsed, (_, found) = timed_us(lambda: differentiated(*tensors))
        return elapsed / 1e3, all(map(equal, found, gradients))


def main(arguments=None) -> None:
    """Print the times of both directions."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation")
    parser.add_argument("--world", type=int, default=8, help="number of simulated ranks")
    parser.add_argument("--quick", action="store_true", help="few repetitions: to see that it runs")
    options = parser.parse_args(arguments)
    ms.runtime.launch_blocking()
    for backward in (False, True):
        runs = [once(options.world, backward) for _ in range((QUICK if options.quick else FULL).chains + 1)]
        emit(bench="localtensor", available=True, world=options.world, backward=backward,
             exact=all(exact for _, exact in runs), **chain_ms([elapsed for elapsed, _ in runs]))


if __name__ == "__main__":
    main()

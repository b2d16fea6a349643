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
"""The reported program, in the form in which a user writes it: a row-wise LoRA chain, and the gradient of B.

    msrun --worker_num=2 --local_worker_num=2 --join=True examples/reported_program.py [early]

Every rank prints the forward value and the norm of B's gradient over those of one device. Without inherited Partial
they are 1.1995 / -0.1995 and 0.51 / 0.75 on two ranks; right is 1.0000 everywhere, with `early` (the work-around) or
without.
"""
import os
import sys

os.environ.setdefault("HYPER_PARALLEL_PLATFORM", "mindspore")

# pylint: disable=wrong-import-position
import mindspore as ms
import numpy as np
from mindspore import Tensor, mint
from mindspore.communication import get_group_size, get_rank, init

from hyper_parallel import DTensor, init_device_mesh
from hyper_parallel.core.dtensor.placement_types import Replicate, Shard

R, DIN, DOUT, BS = 8, 16, 32, 4
EARLY = "early" in sys.argv[1:]

init()
rank, world = get_rank(), get_group_size()
mesh = init_device_mesh("npu", (world,), mesh_dim_names=("tp",))

np.random.seed(0)
x_full = np.random.randn(BS, DIN).astype(np.float32)
a_full = (0.1 * np.random.randn(R, DIN)).astype(np.float32)
b_full = (0.1 * np.random.randn(DOUT, R)).astype(np.float32)

width = DIN // world
mine = slice(rank * width, (rank + 1) * width)
x_local, a_local, b_local = Tensor(x_full[:, mine]), Tensor(a_full[:, mine]), Tensor(b_full)


def loss_of(b_plain):
    """Sum of the adapter's output, as a function of B's plain local tensor."""
    x = DTensor.from_local(x_local, mesh, (Shard(1),))
    a = DTensor.from_local(a_local, mesh, (Shard(1),))
    b = DTensor.from_local(b_plain, mesh, (Replicate(),))
    tmp = mint.matmul(x, mint.transpose(a, 1, 0))
    if not tmp.placements[0].is_partial():
        raise SystemExit(f"x @ A.T must be Partial here. Got {tmp.placements}.")
    if EARLY:
        tmp = tmp.reduce_partial()
    out = mint.matmul(tmp, mint.transpose(b, 1, 0))
    return out.redistribute(device_mesh=mesh, placements=(Replicate(),)).to_local().sum()


value, gradient = ms.value_and_grad(loss_of)(b_local)

tmp_full = x_full @ a_full.T
true_value = (tmp_full @ b_full.T).sum()
true_gradient = np.ones((BS, DOUT), np.float32).T @ tmp_full
forward = float(value) / true_value
ratio = np.linalg.norm(gradient.asnumpy()) / np.linalg.norm(true_gradient)
print(f"rank {rank}: forward {forward:.4f}, gradient of B {ratio:.4f}", flush=True)
if max(abs(forward - 1), abs(ratio - 1)) > 1e-4:
    raise SystemExit(f"rank {rank}: off by more than 1e-4 from one device")

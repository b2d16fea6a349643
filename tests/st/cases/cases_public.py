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
"""Public cases on real processes; worker side. Programs, data and judgement are those of the simulated ranks."""
from __future__ import annotations

import importlib

import mindspore as ms
import numpy as np
from mindspore import Tensor

from hyper_parallel import Replicate, Shard, distribute_tensor, set_gradient_convention
from hyper_parallel.platform.platform import current_platform
from tests.common.case import case
from tests.ut.cases.harness import CASES, PROGRAMS, RIGHT, Job, check, judge

for _group in "abcdefgh":
    importlib.import_module(f"tests.ut.cases.test_group_{_group}")

TWO = ("C01", "C05", "C06", "C08", "C11", "C12", "C15", "C20", "C27", "C28", "C32", "C35", "C38", "C42", "C84", "C93",
       "C96", "C104", "C105", "C107", "C114")


@case(workers=(2,), case_id=TWO)
def public_case_on_two_ranks(case_id):
    """The numpy value on the global data, on this rank, twice."""
    for _ in ("cold", "warm"):
        assert judge(CASES[case_id], PROGRAMS[case_id](Job(CASES[case_id])) or {}) == RIGHT


@case(workers=(2,))
def data_that_differs_between_ranks():
    """Case C126: one rank's value for all, or every rank's own part, as asked for."""
    job, rank = Job(CASES["C126"]), current_platform().rank()
    mine = Tensor(job.data.d[rank])
    right = {name: CASES["C126"].value(text) for name, text in CASES["C126"].expected.items()}
    for placement in (Replicate(), Shard(0)):
        for source in (0, 1):
            found = distribute_tensor(mine, job.mesh, [placement], src_data_rank=source)
            check(found, right["from_rank0"] if source == 0 else job.data.d[1], f"rank {source}'s data as {placement}")
    check(distribute_tensor(mine, job.mesh, [Shard(0)], src_data_rank=None), right["source_none_shard"], "own parts")


@case(workers=(2,), convention=["single_loss", "sum_of_ranks"])
def gradient_of_each_ranks_own_addend(convention):
    """Cases C29 and C30 by the framework's own gradient function, on this rank's plain tensor."""
    job, rank = Job(CASES["C29"]), current_platform().rank()
    w, addend = job.whole(job.data.w, "S(0)"), Tensor(job.data.l[rank])
    seed = 1.0 if convention == "single_loss" else 0.5

    def loss(local, placement):
        y = type(w).from_local(local, job.mesh, job.parts(job.data.l, "P(sum)").placements)
        z = y.redistribute(job.mesh, [placement]) * w.redistribute(job.mesh, [placement])
        return z.sum().redistribute(job.mesh, [Replicate()]).to_local() * seed

    with set_gradient_convention(convention):
        for placement in (Shard(0), Replicate()):
            found = ms.grad(loss)(addend, placement)
            assert np.array_equal(found.asnumpy(), job.data.w), (placement, found)

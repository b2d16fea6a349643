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
"""Runs the sweep over many operations, on several processes."""
from __future__ import annotations

import multiprocessing
import os
import time

from hyper_parallel.core.shard.ops.parallel_ops import RuleOp
from hyper_parallel.core.shard.ops.parallel_ops_register import registered_ops
from hyper_parallel.errors import UnsupportedOpError
from hyper_parallel.verify.registry import load_references
from hyper_parallel.verify.report import OpReport, Report
from hyper_parallel.verify.sweep import FULL, Budget, Sweep


def verify(names=None, budget: Budget = FULL, jobs: int | None = None, progress=None) -> Report:
    """Check registered operations against their references.

    Args:
        names: operation names; None for all.
        budget: how much to check.
        jobs: number of processes; None for one per core, at most two.
        progress: called with every `OpReport` as it is done.

    Raises:
        UnsupportedOpError: for a name that is not registered.

    Examples:
        >>> from hyper_parallel.verify import FAST, verify
        >>> report = verify(["Outer"], FAST, jobs=1)
        >>> report.ok, report.totals()["rows"]
        (True, 7)
    """
    start = time.perf_counter()
    ops, references = registered_ops(), load_references()
    unknown = [name for name in names or () if name not in ops]
    if unknown:
        raise UnsupportedOpError(f"No operation is registered as {', '.join(unknown)}. "
                                 f"hyper_parallel.core.shard.ops.parallel_ops_register.registered_ops() lists them.")
    chosen = sorted(names or ops)
    work = [name for name in chosen if name in references and isinstance(ops[name], RuleOp)]
    report = Report(unreferenced=[name for name in chosen if name not in work], meshes=budget.meshes,
                    complete=names is None)
    for op in _sweeps(work, budget, jobs):
        report.ops.append(op)
        if progress is not None:
            progress(op)
    report.ops.sort(key=lambda op: op.name)
    report.seconds = time.perf_counter() - start
    return report


def _sweeps(work: list, budget: Budget, jobs: int | None):
    jobs = min(2, os.cpu_count() or 1) if jobs is None else jobs
    tasks = [(name, budget) for name in work]
    if jobs <= 1 or len(tasks) < 2 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(sweep_op, tasks)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(sweep_op, tasks)


def sweep_op(task: tuple) -> OpReport:
    """The report of one registered operation; `task` is (name, budget)."""
    name, budget = task
    return Sweep(registered_ops()[name].declaration, load_references()[name], budget).run()

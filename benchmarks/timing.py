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
"""Clocks and output shared by all benchmarks. Standard library only: PyTorch's side runs it in another environment.

Every result is one line `BENCH {json}`, so that `grep ^BENCH out.txt | cut -c7-` is JSON lines.
"""
from __future__ import annotations

import contextlib
import gc
import json
import os
import statistics
import time
from typing import Callable, NamedTuple

from benchmarks.bars import judged

clock = time.perf_counter_ns


class Counts(NamedTuple):
    """How often things are repeated.

    Attributes:
        pairs: timed pairs per round.
        rounds: rounds per case; the one that took least time is reported, since the machine may be shared.
        bursts: timed pairs of bursts, in one round, where calls do not wait.
        warmup: untimed calls before a case.
        cold: samples of first calls.
        chains: runs of the simulated chain.
    """

    pairs: int = 2000
    rounds: int = 5
    bursts: int = 60
    warmup: int = 200
    cold: int = 55
    chains: int = 30


FULL = Counts()
QUICK = Counts(pairs=20, rounds=2, bursts=2, warmup=5, cold=4, chains=2)
UNCOUNTED = 5  # first samples of cold measurements: imports, interned signatures and rows


def emit(**fields) -> dict:
    """Print one result, with the machine's load, its bar and whether it is met."""
    row = judged({"load": load1(), **fields})
    print("BENCH " + json.dumps(row, sort_keys=True), flush=True)
    return row


def load1() -> float:
    """Load average of the last minute."""
    return round(os.getloadavg()[0], 2)


@contextlib.contextmanager
def no_collector():
    """Keep the garbage collector out of the measurement."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _once(first: Callable, second: Callable) -> tuple[int, int]:
    begin = clock()
    first()
    between = clock()
    second()
    return between - begin, clock() - between


def pairs_ns(plain: Callable, wrapped: Callable, count: int) -> tuple[list, list]:
    """Nanoseconds of `count` interleaved calls of each; who is first alternates."""
    plains, wrappeds = [], []
    for i in range(count):
        if i % 2:
            w, p = _once(wrapped, plain)
        else:
            p, w = _once(plain, wrapped)
        plains.append(p)
        wrappeds.append(w)
    return plains, wrappeds


def paired(plain: Callable, wrapped: Callable, counts: Counts) -> dict:
    """Time of `wrapped` and its overhead over `plain`, from interleaved pairs.

    Args:
        plain: the call without DTensors.
        wrapped: the same call with DTensors.
        counts: how often.

    Returns:
        The fields of one result, microseconds. `overhead_us` is the median over the pairs of one round of (wrapped -
        plain), of the round that took least time; `p10_overhead_us` is the
        difference of the tenth percentiles, which a busy machine disturbs less.
    """
    for _ in range(counts.warmup):
        plain()
        wrapped()
    with no_collector():
        rounds = [pairs_ns(plain, wrapped, counts.pairs) for _ in range(counts.rounds)]
    return best_round(rounds)


def best_round(rounds: list, calls: int = 1) -> dict:
    """Fields of the round that took least time, not of the lowest overhead; every sample is of `calls` calls."""
    fields = (_fields(plains, wrappeds, calls) for plains, wrappeds in rounds)
    best = min(fields, key=lambda row: row["plain_us"] + row["median_us"])
    return {**best, "calls": len(rounds[0][0]) * calls, "rounds": len(rounds)}


def _fields(plains: list, wrappeds: list, calls: int) -> dict:
    ordered, scale = sorted(wrappeds), 1e3 * calls
    low = len(ordered) // 10
    return {
        "median_us": round(ordered[len(ordered) // 2] / scale, 2),
        "p10_us": round(ordered[low] / scale, 2),
        "min_us": round(ordered[0] / scale, 2),
        "plain_us": round(statistics.median(plains) / scale, 2),
        "overhead_us": round(statistics.median(w - p for p, w in zip(plains, wrappeds)) / scale, 2),
        "p10_overhead_us": round((ordered[low] - sorted(plains)[low]) / scale, 2),
    }


def cold_us(samples: list) -> dict:
    """Fields of first calls, microseconds, without the first few samples when there are enough."""
    kept = samples[UNCOUNTED:] if len(samples) > 2 * UNCOUNTED else samples
    return {"median_us": round(statistics.median(kept), 1), "max_us": round(max(kept), 1),
            "first_us": round(samples[0], 1), "samples": len(kept)}


def chain_ms(runs: list) -> dict:
    """Fields of repeated runs of a chain, milliseconds; the first one is apart."""
    warm = sorted(runs[1:])
    return {"first_ms": round(runs[0], 1), "warm_median_ms": round(statistics.median(warm), 2),
            "warm_p10_ms": round(warm[len(warm) // 10], 2), "samples": len(warm)}


def timed_us(call: Callable) -> tuple:
    """Microseconds of one call, and its result."""
    begin = clock()
    result = call()
    return (clock() - begin) / 1e3, result

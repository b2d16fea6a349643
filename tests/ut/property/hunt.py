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
"""Draw programs through hypothesis and check them: a fixed number for a test, or for as long as one likes."""
from __future__ import annotations

import contextlib
import faulthandler
import re
import sys
import time
from collections import Counter

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from mindspore.common.api import _pynative_executor

from tests.ut.property.check import TALLY, check
from tests.ut.property.generate import MESHES, programs

_HANGS_AFTER = 120  # seconds


def profile(count: int, shrink: bool = True) -> settings:
    """Settings under which a seed decides everything: no database, no deadline."""
    phases = [Phase.generate, *([Phase.shrink] if shrink else [])]
    return settings(max_examples=count, deadline=None, database=None, phases=phases, print_blob=False,
                    verbosity=Verbosity.normal, suppress_health_check=list(HealthCheck))


def run(meshes, count: int, number: int, shrink: bool = True) -> None:
    """Check `count` programs on these meshes; a failure shrinks, and prints the program.

    Raises:
        Wrong: with the smallest program that is not what it is on one device.
    """

    @seed(number)
    @profile(count, shrink)
    @given(programs(meshes))
    def chains(program):
        with recording_ends():
            check(program)

    chains()


@contextlib.contextmanager
def recording_ends():
    """An error in a differentiated function leaves the framework recording; end that, or the next program suffers."""
    try:
        yield
    finally:
        if _pynative_executor.grad_flag():
            _pynative_executor.set_grad_flag(False)
            _pynative_executor.clear_res()


def hunt(minutes: float, number: int, batch: int = 200) -> Counter:
    """Check programs for some minutes, batch by batch; each kind of failure is shrunk and printed once, then counted.

    Args:
        minutes: how long.
        number: seed of the first batch; the next has the next number.
        batch: programs per batch.

    Returns:
        Failures by kind.
    """
    found: Counter = Counter()
    end, started = time.monotonic() + 60 * minutes, time.monotonic()
    while time.monotonic() < end:
        failures = _batch(number, batch, end)
        for kind, program in failures:
            if kind not in found:
                _report(kind, program, number)
            found[kind] += 1
        number += 1
        minutes_gone = (time.monotonic() - started) / 60
        print(f"{minutes_gone:.1f} min, next seed {number}: {TALLY}; failures {dict(found)}", flush=True)
    return found


def _batch(number: int, count: int, end: float) -> list:
    """(kind, program) of every failure of one batch, unshrunk."""
    failures = []

    @seed(number)
    @profile(count, shrink=False)
    @given(programs(MESHES))
    def chains(program):
        if time.monotonic() > end:
            return
        kind = failure(program)
        if kind:
            failures.append((kind, program))

    chains()
    return failures


def failure(program) -> str | None:
    """What kind of failure a program is, or None; a hang ends the process with every thread's traceback."""
    faulthandler.dump_traceback_later(_HANGS_AFTER, exit=True, file=sys.__stderr__)
    try:
        with recording_ends():
            check(program)
    except Exception as error:  # pylint: disable=broad-exception-caught  # whatever it is, it is a finding
        first = str(error).split("\n", maxsplit=1)[0]
        return re.sub(r"-?\d[\d.e+-]*", "#", re.sub(r"\b[a-z]\d*\b", "v", f"{type(error).__name__}: {first}"))[:160]
    finally:
        faulthandler.cancel_dump_traceback_later()
    return None


def _report(kind: str, program, number: int) -> None:
    """Print a failure shrunk, or as it was found."""
    print(f"\n===== seed {number}: {kind}", flush=True)
    try:
        from hypothesis import find
        program = find(programs((program.mesh,)), lambda p: failure(p) == kind, settings=profile(500))
    except Exception as error:  # pylint: disable=broad-exception-caught  # not found again: show the first one
        print(f"not shrunk ({type(error).__name__})")
    print(program.source(), flush=True)

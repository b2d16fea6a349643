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
"""The reported program as its author wrote it, run unchanged; worker side."""
from __future__ import annotations

import runpy
import sys
from pathlib import Path

from tests.common.case import case

PROGRAM = Path(__file__).resolve().parents[3] / "examples" / "reported_program.py"


@case(form=["lazy", "early"], workers=(2, 4))
def reported_program_runs_unchanged(form):
    """It exits by an error of its own when forward or gradient is off on this rank."""
    before, sys.argv = sys.argv, [str(PROGRAM)] + (["early"] if form == "early" else [])
    try:
        result = runpy.run_path(str(PROGRAM), run_name="__main__")
    finally:
        sys.argv = before
    assert abs(result["forward"] - 1) < 1e-4 and abs(result["ratio"] - 1) < 1e-4

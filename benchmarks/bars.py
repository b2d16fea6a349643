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
"""The numbers to reach, as data. Every printed result gets `bar` and `met` from here; None where nothing is asked."""
from __future__ import annotations

# Microseconds over the plain call: (mode, operation) -> bar. With gradients the overhead is reported, not judged.
OVERHEAD_US = {("blocking", "transpose"): 8.0, ("blocking", "add"): 12.0, ("blocking", "matmul"): 16.0}
ASYNC_US = 15.0
SELF_US = 8.0
RULE_COLD_US = 100.0
PLAN_MEDIAN_US, PLAN_MAX_US = 200.0, 2000.0
LORA_MS = 20.0
VERIFY_S = 300.0
# Rule inference and planning on the large mesh may take this many times what they take on eight ranks.
SCALE_RATIO = 1.5
# Operations whose overhead must be below PyTorch's of the same run.
BELOW_TORCH = ("transpose", "add")


def _dispatch(row: dict) -> tuple:
    if row["kind"] == "self":
        return row["overhead_us"], SELF_US
    if row["grad"] or row["kind"] != "dtensor":
        return None, None
    limit = ASYNC_US if row["mode"] == "async" else OVERHEAD_US.get((row["mode"], row["op"]))
    return row["overhead_us"], limit


def _rule(row: dict) -> tuple:
    return row["median_us"], RULE_COLD_US


def _lora(row: dict) -> tuple:
    return row["warm_median_ms"], LORA_MS if row["backward"] else None


def _verify(row: dict) -> tuple:
    return row["seconds"], VERIFY_S if row["budget"] == "complete" else None


def _scale(row: dict) -> tuple:
    return row["ratio"], SCALE_RATIO


def _ratio(row: dict) -> tuple:
    judged_here = row["of"] == "dispatch" and row["op"] in BELOW_TORCH and not row["grad"]
    return row["ratio"], 1.0 if judged_here else None


_BARS = {"dispatch": _dispatch, "rule_cold": _rule, "localtensor": _lora, "verify": _verify, "scale": _scale,
         "ratio": _ratio}


def judged(row: dict) -> dict:
    """The result with `bar` and `met`; PyTorch's own results are not judged.

    Examples:
        >>> judged({"bench": "rule_cold", "median_us": 41.0})["met"]
        True
        >>> judged({"bench": "machine"})["bar"] is None
        True
    """
    if "torch" in row:
        return row
    if row["bench"] == "redistribute_plan":
        met = row["cold_median_us"] <= PLAN_MEDIAN_US and row["cold_max_us"] <= PLAN_MAX_US
        return {**row, "bar": [PLAN_MEDIAN_US, PLAN_MAX_US], "met": met}
    value, limit = _BARS.get(row["bench"], lambda _: (None, None))(row)
    met = None if limit is None else value <= limit
    return {**row, "bar": limit, "met": met}

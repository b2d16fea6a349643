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
"""The verifier: every layout rule checked exactly, forward and backward, against plain numpy on the global data."""
from hyper_parallel.verify.pattern import Pattern
from hyper_parallel.verify.registry import Reference, reference
from hyper_parallel.verify.report import OpReport, Report, WrongRow
from hyper_parallel.verify.runner import verify
from hyper_parallel.verify.sweep import FAST, FULL, Budget, verify_declaration

__all__ = ["FAST", "FULL", "Budget", "OpReport", "Pattern", "Reference", "Report", "WrongRow", "reference", "verify",
           "verify_declaration"]

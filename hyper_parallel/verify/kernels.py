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
"""numpy forms of the local kernels that rules name: form name -> function of (parameter values, **form arguments)."""
from __future__ import annotations

KERNELS: dict = {}


def kernel(name: str):
    """Register the numpy form of a local kernel."""

    def register(function):
        KERNELS[name] = function
        return function

    return register

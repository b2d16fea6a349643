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
"""Unit tests run in one process on simulated ranks."""
from __future__ import annotations

import os

import pytest

os.environ.setdefault("GLOG_v", "4")  # read by the framework when it is first imported


@pytest.fixture(scope="session", autouse=True)
def _blocking_launch():
    """Kernels run when they are called, so that an in-place change or an error shows where it is made."""
    import mindspore  # pylint: disable=import-outside-toplevel
    mindspore.runtime.launch_blocking()

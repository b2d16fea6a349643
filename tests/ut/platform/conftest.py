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
"""Fixtures of the platform tests."""
from __future__ import annotations

import os

import pytest

LAUNCHER = ("MS_ROLE", "MS_NODE_ID", "MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT", "RANK_ID", "RANK_SIZE")


@pytest.fixture(scope="session", autouse=True)
def _errors_belong_to_their_op():
    os.environ.setdefault("GLOG_v", "4")
    import mindspore  # pylint: disable=import-outside-toplevel  # the log level must be set first

    mindspore.runtime.launch_blocking()


@pytest.fixture
def launcher(monkeypatch):
    """A function that sets the launcher's environment; without arguments there is no launcher."""
    def choose(**variables):
        for name in LAUNCHER:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    choose()
    return choose

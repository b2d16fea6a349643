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


@pytest.fixture(autouse=True)
def _no_recording_left_open():
    """A test that raises inside the framework's own value_and_grad leaves it recording; end that for the next test."""
    yield
    from mindspore.common.api import _pynative_executor  # pylint: disable=import-outside-toplevel
    if _pynative_executor.grad_flag():
        _pynative_executor.set_grad_flag(False)
        _pynative_executor.clear_res()


@pytest.fixture(autouse=True)
def _registry_as_it_was():
    """Operations that a test registers are gone after it, in the caches too."""
    # pylint: disable-next=import-outside-toplevel
    from hyper_parallel.core.shard.ops import parallel_ops_register as register
    register.load_builtin_ops()
    before = dict(register._OPS)
    yield
    if register._OPS != before:
        register._OPS.clear()
        register._OPS.update(before)
        for forget in register._TOLD:
            forget()

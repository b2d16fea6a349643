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
"""Choice of platform: MindSpore's presence, version and device target."""
from __future__ import annotations

import sys
import types

import pytest

from hyper_parallel.errors import MeshError
from hyper_parallel.platform.mindspore import check_version, load_mindspore, make_platform
from hyper_parallel.platform.mindspore.ascend import AscendPlatform
from hyper_parallel.platform.mindspore.cpu import CpuPlatform


def stand_in(version="2.10.0", target="CPU"):
    """A MindSpore module of this version and device target."""
    return types.SimpleNamespace(__version__=version, get_context=lambda name: {"device_target": target}[name])


@pytest.mark.parametrize("version", ["2.10.0", "2.10.1", "2.10.0rc1", "2.10"])
def test_check_version_accepts_every_2_10(version):
    """
    Feature: version check.
    Description: versions of the supported series, pre-releases among them.
    Expectation: accepted.
    """
    check_version(version)


@pytest.mark.parametrize("version", ["2.9.1", "2.11.0", "2.100.0", "2.1.0", "3.0", "1.10.0", "dev"])
def test_check_version_refuses_others_with_the_command_to_type(version):
    """
    Feature: version check.
    Description: versions below and above the supported series, 2.1 that only looks like 2.10, and no number at all.
    Expectation: ImportError with the version found and a pip command.
    """
    with pytest.raises(ImportError, match=rf"Found {version}\. Run: pip install 'mindspore>=2.10,<2.11'"):
        check_version(version)


def test_missing_mindspore_says_what_to_install(monkeypatch):
    """
    Feature: version check.
    Description: MindSpore cannot be imported.
    Expectation: ImportError with the pip command, caused by the original error.
    """
    monkeypatch.setitem(sys.modules, "mindspore", None)
    with pytest.raises(ImportError, match="does not import here.*pip install") as caught:
        load_mindspore()
    assert isinstance(caught.value.__cause__, ImportError)


def test_wrong_version_is_refused_before_anything_else(monkeypatch):
    """
    Feature: version check.
    Description: make_platform with a MindSpore of another version.
    Expectation: ImportError naming it; no platform is made.
    """
    monkeypatch.setitem(sys.modules, "mindspore", stand_in("2.9.0"))
    with pytest.raises(ImportError, match="Found 2.9.0"):
        make_platform()


@pytest.mark.parametrize("target, kind, backend, device", [("CPU", CpuPlatform, "mccl", "cpu"),
                                                           ("Ascend", AscendPlatform, "hccl", "npu")])
def test_device_target_picks_the_platform(monkeypatch, target, kind, backend, device):
    """
    Feature: choice of platform.
    Description: MindSpore reports a device target.
    Expectation: the platform of that target, with its library and device type.
    """
    monkeypatch.setitem(sys.modules, "mindspore", stand_in(target=target))
    platform = make_platform()
    assert isinstance(platform, kind) and (platform.backend, platform.device_type) == (backend, device)


def test_other_device_targets_are_refused(monkeypatch):
    """
    Feature: choice of platform.
    Description: MindSpore reports a GPU.
    Expectation: MeshError with the call that sets another target.
    """
    monkeypatch.setitem(sys.modules, "mindspore", stand_in(target="GPU"))
    with pytest.raises(MeshError, match=r"'GPU'.*set_device"):
        make_platform()

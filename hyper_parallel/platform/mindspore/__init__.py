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
"""MindSpore as the platform: version check and choice between Ascend and CPU."""
from __future__ import annotations

import importlib
import re

from hyper_parallel.errors import MeshError

OLDEST, TOO_NEW = (2, 10), (2, 11)
INSTALL = "pip install 'mindspore>=2.10,<2.11' 'numpy<2'"


def check_version(found: str) -> None:
    """Refuse a MindSpore outside the supported range.

    Raises:
        ImportError: naming the version found and the command that installs a supported one.

    Examples:
        >>> check_version("2.10.1")
    """
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or not OLDEST <= tuple(int(n) for n in numbers.groups()) < TOO_NEW:
        raise ImportError(f"hyper_parallel needs MindSpore >=2.10,<2.11. Found {found}. Run: {INSTALL}")


def load_mindspore():
    """The MindSpore module, of a supported version.

    Raises:
        ImportError: when it is missing, does not load, or has another version.
    """
    try:
        mindspore = importlib.import_module("mindspore")
    except ImportError as cause:
        raise ImportError(f"hyper_parallel needs MindSpore, which does not import here: {cause}. "
                          f"Run: {INSTALL}") from cause
    check_version(getattr(mindspore, "__version__", "without a version"))
    return mindspore


def make_platform():
    """The platform of MindSpore's device target.

    Raises:
        ImportError: when MindSpore is missing or of an unsupported version.
        MeshError: when the device target is neither Ascend nor CPU.

    Examples:
        >>> make_platform().backend  # on a CPU host
        'mccl'
    """
    target = load_mindspore().get_context("device_target")
    if target == "Ascend":
        return importlib.import_module("hyper_parallel.platform.mindspore.ascend").AscendPlatform()
    if target == "CPU":
        return importlib.import_module("hyper_parallel.platform.mindspore.cpu").CpuPlatform()
    raise MeshError(f"MindSpore's device target is {target!r}, and this package runs on Ascend and CPU. "
                    f"Set one before the first mesh: mindspore.set_device('Ascend').")

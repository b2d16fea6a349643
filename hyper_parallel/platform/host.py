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
"""What this host offers: a MindSpore of the right version, an Ascend device with its software.

Nothing here imports the framework, so a program can say what is missing before it needs it.
`python -m hyper_parallel.platform.host npu` prints what is missing and exits with 1.
"""
from __future__ import annotations

import glob
import importlib.metadata
import importlib.util
import os
import sys

from hyper_parallel.platform.mindspore import INSTALL, check_version

DAVINCI = "/dev/davinci[0-9]*"
TOOLKITS = ("/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann")


def mindspore_problem(version: str | None = None) -> str | None:
    """Why the installed MindSpore cannot be used, with the call that fixes it; None when it can.

    Args:
        version: a version to judge instead of the installed one.

    Examples:
        >>> mindspore_problem("2.10.0") is None
        True
        >>> mindspore_problem("2.4.1").split(" Run:")[0]
        'hyper_parallel needs MindSpore >=2.10,<2.11. Found 2.4.1.'
    """
    try:
        check_version(version or importlib.metadata.version("mindspore"))
    except importlib.metadata.PackageNotFoundError:
        return f"MindSpore is not installed in {sys.prefix}. Run: {INSTALL}"
    except ImportError as refusal:
        return str(refusal)
    return None


def ascend_cards() -> int:
    """Number of Ascend devices that this host shows."""
    return len(glob.glob(DAVINCI))


def ascend_problems(cards: int = 1) -> list[str]:
    """What an Ascend run with so many cards lacks on this host, one sentence each; empty when nothing.

    Args:
        cards: number of devices the run uses.
    """
    found, lacking = ascend_cards(), []
    if found < cards:
        lacking.append(f"{cards} Ascend device(s) are needed and {found} found ({DAVINCI}): "
                        f"use a host with the devices and their driver.")
    if not os.environ.get("ASCEND_HOME_PATH") and not any(map(os.path.isdir, TOOLKITS)):
        lacking.append("The CANN toolkit is not set up (ASCEND_HOME_PATH is unset): "
                        "source the toolkit's set_env.sh.")
    if not _ascend_plugins():
        lacking.append("The installed MindSpore has no Ascend plugin: install the Ascend build of 2.10.")
    return lacking


def _ascend_plugins() -> list[str]:
    spec = importlib.util.find_spec("mindspore")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    return [path for root in roots for path in glob.glob(os.path.join(root, "lib", "plugin", "libmindspore_ascend*"))]


def problems(device: str, cards: int = 1) -> list[str]:
    """Everything that a run on "cpu" or "npu" lacks on this host.

    Args:
        device: "cpu" or "npu".
        cards: number of devices the run uses.

    Raises:
        ValueError: for another device.

    Examples:
        >>> problems("gpu")
        Traceback (most recent call last):
            ...
        ValueError: The device must be "cpu" or "npu". Got 'gpu'.
    """
    if device not in ("cpu", "npu"):
        raise ValueError(f'The device must be "cpu" or "npu". Got {device!r}.')
    missing = mindspore_problem()
    return ([missing] if missing else []) + (ascend_problems(cards) if device == "npu" else [])


def main(arguments: list[str]) -> int:
    """Print what the device named first lacks (with the number of cards named second); 1 when anything is."""
    found = problems(arguments[0] if arguments else "cpu", int(arguments[1]) if len(arguments) > 1 else 1)
    for line in found:
        print(f"missing: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

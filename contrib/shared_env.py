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
"""The one virtual environment of all sessions that need MindSpore: its install takes 2.5 GB and is made once.

`ensure` makes or updates it when setup.py, the interpreter or the checkout's place has changed, and does nothing
otherwise. HYPER_PARALLEL_PYTHON names an interpreter to use instead, for hosts with a MindSpore of their own.
"""
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

OVERRIDE = "HYPER_PARALLEL_PYTHON"
SUPPORTED = ((3, 10), (3, 13))
PYTHONS = ("3.10", "3.11", "3.12")
MINDSPORE = "2.10.*"
CANDIDATES = ("python3.11", "python3.12", "python3.10", "python3", "python")
EXTRA = "test"


def ensure(root: pathlib.Path, run) -> str:
    """The interpreter of the shared environment, which is made or updated first if need be.

    Args:
        root: the checkout, which is installed in place.
        run: runs a command given as strings, and raises when it fails.

    Raises:
        RuntimeError: when there is no interpreter that MindSpore supports.
    """
    override = os.environ.get(OVERRIDE)
    if override:
        return override
    home = root / ".nox" / "mindspore"
    home.parent.mkdir(exist_ok=True)
    python = home / "bin" / "python"
    with _locked(home.with_suffix(".lock")):
        stamp, state = home / "installed.txt", _state(root)
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != state:
            _make(root, home, run)
            stamp.write_text(state, encoding="utf-8")
    return str(python)


def _make(root: pathlib.Path, home: pathlib.Path, run) -> None:
    # An environment half made, or of another interpreter, is not worth mending: packages come from pip's cache.
    shutil.rmtree(home, ignore_errors=True)
    run(supported_python(), "-m", "venv", str(home))
    run(str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable",
        f"{root}[{EXTRA}]")


def of_version(root: pathlib.Path, version: str, mindspore: str, run) -> tuple[str, str]:
    """The interpreter of an environment of its own for one Python and MindSpore version, or why it cannot be had.

    Args:
        root: the checkout, which is installed in place.
        version: Python version, such as "3.12".
        mindspore: MindSpore version or pattern, such as "2.10.*".
        run: runs a command given as strings, and raises when it fails.

    Returns:
        The interpreter and "", or "" and the reason.
    """
    found = next((path for path in _candidates(version) if ".".join(map(str, _version(path))) == version), None)
    if found is None:
        return "", f"no Python {version} in PATH or among pyenv's versions"
    home = root / ".nox" / f"compat-{version}-{mindspore.replace('*', 'x')}"
    python, stamp = home / "bin" / "python", home / "installed.txt"
    state = f"{hashlib.sha256((root / 'setup.py').read_bytes()).hexdigest()} {mindspore} {root}"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == state:
        return str(python), ""
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(exist_ok=True)
    run(found, "-m", "venv", str(home))
    install = [str(python), "-m", "pip", "install", "--disable-pip-version-check", f"mindspore=={mindspore}",
               "--editable", f"{root}[{EXTRA}]"]
    done = subprocess.run(install, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        shutil.rmtree(home, ignore_errors=True)
        return "", f"MindSpore {mindspore} does not install: {_reason(done.stdout)}"
    stamp.write_text(state, encoding="utf-8")
    return str(python), ""


def _candidates(version: str):
    """Interpreters that may be of this version."""
    found = shutil.which(f"python{version}")
    root = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv")
    yield from [found] if found else []
    yield from map(str, sorted(root.glob(f"versions/{version}.*/bin/python{version}")))


def _reason(text: str) -> str:
    """The conflict that pip found, else the last thing that it calls an error.

    Examples:
        >>> _reason("The conflict is caused by:\\n    a 1 depends on b<3\\n\\nERROR: ResolutionImpossible")
        'a 1 depends on b<3'
        >>> _reason("ERROR: Could not find b\\nERROR: No matching distribution found for b")
        'No matching distribution found for b'
    """
    lines = [line.strip() for line in text.splitlines()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    conflicts = [line for line in lines if " depends on " in line]
    return (conflicts or errors or ["pip gave no reason"])[-1]


def _state(root: pathlib.Path) -> str:
    """What the environment was made from: requirements, interpreter and place."""
    digest = hashlib.sha256((root / "setup.py").read_bytes()).hexdigest()
    return f"{digest}\n{supported_python()}\n{root}\n"


def supported_python() -> str:
    """An interpreter that MindSpore has a wheel for: this one, else the first found in PATH.

    Raises:
        RuntimeError: when there is none.
    """
    if SUPPORTED[0] <= sys.version_info[:2] < SUPPORTED[1]:
        # Of the base installation: the environment nox itself runs in may be gone tomorrow.
        return os.path.join(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    for name in CANDIDATES:
        found = shutil.which(name)
        if found and SUPPORTED[0] <= _version(found) < SUPPORTED[1]:
            return found
    raise RuntimeError(f"MindSpore needs Python >=3.10,<3.13 and this is {sys.version.split()[0]}: "
                       f"install one of these, or name an interpreter that has MindSpore in {OVERRIDE}.")


def _version(python: str) -> tuple[int, ...]:
    code = "import sys; print(*sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return tuple(int(number) for number in done.stdout.split()) if done.returncode == 0 else (0, 0)


@contextlib.contextmanager
def _locked(path: pathlib.Path):
    """Hold the lock file: two sessions that start together make one environment."""
    with open(path, "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield

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
"""What may be in the wheel and in the source archive, and the steps of the build session that are no commands."""
from __future__ import annotations

import fnmatch
import pathlib
import shutil
import subprocess
import tarfile
import zipfile

from contrib.gates_tree import git

PACKAGE = "hyper_parallel"
# Patterns of allowed members; {version} is filled in. A package file that the tree has must be there, too.
WHEEL = ("hyper_parallel/*.py", "hyper_parallel-{version}.dist-info/METADATA",
         "hyper_parallel-{version}.dist-info/WHEEL", "hyper_parallel-{version}.dist-info/RECORD",
         "hyper_parallel-{version}.dist-info/top_level.txt",
         "hyper_parallel-{version}.dist-info/licenses/LICENSE", "hyper_parallel-{version}.dist-info/LICENSE")
SDIST = ("hyper_parallel/*.py", "LICENSE", "README.md", "CHANGELOG.md", "MANIFEST.in", "PKG-INFO", "setup.py",
         "setup.cfg", "hyper_parallel.egg-info/*")
REQUIRED = {"wheel": ("METADATA", "LICENSE"), "sdist": ("README.md", "CHANGELOG.md", "LICENSE", "setup.py")}


def copy_tree(root: pathlib.Path, target: pathlib.Path) -> None:
    """Copy what git knows of, or would add, so that a build leaves no trace in the checkout."""
    shutil.rmtree(target, ignore_errors=True)
    for name in filter(None, git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)


def members(archive: pathlib.Path) -> list[str]:
    """File names in a wheel, or in a source archive below its top folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return [name for name in wheel.namelist() if not name.endswith("/")]
    with tarfile.open(archive) as source:
        names = [entry.name for entry in source.getmembers() if entry.isfile()]
    return [name.partition("/")[2] for name in names]


def problems(archive: pathlib.Path, tree: pathlib.Path) -> list[str]:
    """Members of an archive that are not allowed, and files that it lacks.

    Args:
        archive: a wheel or a source archive.
        tree: the checkout it was built from.
    """
    kind, patterns = ("wheel", WHEEL) if archive.suffix == ".whl" else ("sdist", SDIST)
    version = archive.name.split("-")[1].removesuffix(".tar.gz")
    allowed = [pattern.format(version=version) for pattern in patterns]
    names = members(archive)
    found = [f"{archive.name}: {name} is not on the allow list" for name in names
             if not any(fnmatch.fnmatch(name, pattern) for pattern in allowed)]
    wanted = [path.relative_to(tree).as_posix() for path in sorted((tree / PACKAGE).rglob("*.py"))]
    found += [f"{archive.name}: {name} of the checkout is missing" for name in wanted if name not in names]
    return found + [f"{archive.name}: {name} is missing" for name in REQUIRED[kind]
                    if not any(member.endswith(name) for member in names)]


def borrow(lender: str, home: pathlib.Path) -> None:
    """Let the environment at `home` see the packages of another interpreter, after its own.

    Args:
        lender: the other interpreter. Packages that it has installed in place are not seen.
        home: a virtual environment of the same Python version.
    """
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    theirs, own = (subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
                   for python in (lender, str(home / "bin" / "python")))
    pathlib.Path(own, "borrowed.pth").write_text(theirs + "\n", encoding="utf-8")

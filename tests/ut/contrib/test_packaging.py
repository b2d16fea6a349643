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
"""The documents say what is so: README's snippets run, its promises about sessions and versions hold."""
import pathlib
import re
import subprocess
import sys

import pytest

import contrib.gates as table
from contrib import gates_dist
from hyper_parallel.version import __version__

ROOT = pathlib.Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list:
    """Fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_readme_snippets_run_in_order(capsys):
    """
    Feature: README.
    Description: run its Python blocks one after the other in one namespace.
    Expectation: no assertion fails, and the refusal that is quoted is the one that is printed.
    """
    names = {"__name__": "readme"}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)  # pylint: disable=exec-used
    printed = " ".join(capsys.readouterr().out.split())
    assert printed == " ".join(blocks("text")[0].split())


def test_readme_names_only_sessions_that_exist():
    """
    Feature: README.
    Description: collect every `nox -s NAME` of README and every session function of the noxfile.
    Expectation: each named session exists; the two commands come first.
    """
    sessions = re.findall(r"^@nox\.session.*\ndef (\w+)\(", (ROOT / "noxfile.py").read_text("utf-8"), re.MULTILINE)
    named = re.findall(r"nox -s (\w+)", README)
    assert named[:2] == ["repro", "tests"]
    assert set(named) <= set(sessions)


def test_version_is_stated_once():
    """
    Feature: the version of the package.
    Description: search the Python sources of the build for the version's text.
    Expectation: hyper_parallel/version.py alone states it.
    """
    sources = [ROOT / "setup.py", *(ROOT / "hyper_parallel").rglob("*.py")]
    stating = [path.relative_to(ROOT).as_posix() for path in sources if f'"{__version__}"' in path.read_text("utf-8")]
    assert stating == ["hyper_parallel/version.py"]


def test_hooks_install_the_pinned_tools():
    """
    Feature: pre-commit hooks.
    Description: read the requirements of the hook that runs the fast gates.
    Expectation: they are those of the gates' table, and no hook comes from elsewhere.
    """
    text = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    installed = re.findall(r'"([^"]+)"', re.search(r"additional_dependencies: \[(.*)\]", text)[1])
    assert sorted(installed) == sorted(table.requirements("lint"))
    assert re.findall(r"repo: (\S+)", text) == ["local"]


@pytest.mark.parametrize("name, problem", [
    ("hyper_parallel/extra.so", "is not on the allow list"),
    ("tests/test_x.py", "is not on the allow list"),
    (None, "hyper_parallel/a.py of the checkout is missing"),
])
def test_archive_with_a_wrong_file_list_is_refused(tmp_path, name, problem):
    """
    Feature: the build session's check of file lists.
    Description: a wheel with one file too many, or without a file of the package.
    Expectation: exactly that is said.
    """
    found = gates_dist.problems(_wheel(tmp_path, name), tmp_path)
    assert len(found) == 1 and problem in found[0]


def test_archive_with_the_right_file_list_is_accepted(tmp_path):
    """
    Feature: the build session's check of file lists.
    Description: a wheel with the package and its metadata.
    Expectation: nothing is said.
    """
    assert gates_dist.problems(_wheel(tmp_path, "hyper_parallel/a.py"), tmp_path) == []


def _wheel(folder, name):
    """A wheel of a one-file package; `name` is a member more, or None to leave the package's file out."""
    (folder / "hyper_parallel").mkdir()
    (folder / "hyper_parallel" / "a.py").write_text("", encoding="utf-8")
    info = "hyper_parallel-1.0.dist-info"
    members = {f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD", f"{info}/licenses/LICENSE"}
    members |= {"hyper_parallel/a.py", name} if name else set()
    path = folder / "hyper_parallel-1.0-py3-none-any.whl"
    with gates_dist.zipfile.ZipFile(path, "w") as wheel:
        for member in sorted(members):
            wheel.writestr(member, "")
    return path


def test_importing_the_host_checks_loads_no_framework():
    """
    Feature: checks of the host and the launcher.
    Description: import them in a fresh interpreter.
    Expectation: MindSpore is not among the loaded modules, so a missing one can be reported.
    """
    code = ("import sys, hyper_parallel.platform.host, hyper_parallel.platform.msrun; "
            "sys.exit('mindspore' in sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)

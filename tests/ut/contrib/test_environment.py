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
"""The shared environment is made once, and again only when what it was made from has changed; coverage targets."""
import json
import pathlib
import sys
import types

import pytest

from contrib import gates_coverage, shared_env


@pytest.fixture(name="checkout")
def fixture_checkout(tmp_path, monkeypatch):
    """A checkout with a setup.py, without a named interpreter."""
    monkeypatch.delenv(shared_env.OVERRIDE, raising=False)
    (tmp_path / "setup.py").write_text("requirements = 1\n", encoding="utf-8")
    return tmp_path


class Commands(list):
    """Records commands in place of running them; a venv command makes the folder, as the real one does."""

    def __call__(self, *command):
        self.append(command)
        if "venv" in command:
            (pathlib.Path(command[-1]) / "bin").mkdir(parents=True)


def test_environment_is_made_once(checkout):
    """
    Feature: the environment that sessions share.
    Description: ask for it twice.
    Expectation: two commands the first time (environment, installation in place), none the second time.
    """
    commands = Commands()
    python = shared_env.ensure(checkout, commands)
    assert [("venv" in command, "--editable" in command) for command in commands] == [(True, False), (False, True)]
    assert commands[1][0] == python and commands[1][-1] == f"{checkout}[test]"
    assert shared_env.ensure(checkout, commands) == python and len(commands) == 2


def test_environment_is_made_anew_when_requirements_change(checkout):
    """
    Feature: the environment that sessions share.
    Description: change setup.py after it was made.
    Expectation: it is made again, from nothing.
    """
    commands = Commands()
    home = pathlib.Path(shared_env.ensure(checkout, commands)).parents[1]
    (home / "left-over").touch()
    (checkout / "setup.py").write_text("requirements = 2\n", encoding="utf-8")
    shared_env.ensure(checkout, commands)
    assert len(commands) == 4 and not (home / "left-over").exists()


def test_environment_whose_installation_failed_is_not_taken_for_made(checkout):
    """
    Feature: the environment that sessions share.
    Description: the installation fails, then works.
    Expectation: the failure is told, and the next session starts over.
    """
    commands = Commands()

    def failing(*command):
        commands(*command)
        if "--editable" in command:
            raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        shared_env.ensure(checkout, failing)
    shared_env.ensure(checkout, commands)
    assert len(commands) == 4


def test_named_interpreter_is_used_as_it_is(checkout, monkeypatch):
    """
    Feature: the environment that sessions share.
    Description: HYPER_PARALLEL_PYTHON names an interpreter.
    Expectation: it is given back, and nothing is made.
    """
    monkeypatch.setenv(shared_env.OVERRIDE, "/opt/python")
    commands = Commands()
    assert shared_env.ensure(checkout, commands) == "/opt/python"
    assert not commands and not (checkout / ".nox").exists()


def test_host_without_a_supported_python_is_refused(monkeypatch):
    """
    Feature: the environment that sessions share.
    Description: nox runs on a Python for which there is no wheel, and PATH offers no other.
    Expectation: RuntimeError that names the range and the variable.
    """
    monkeypatch.setattr(shared_env, "SUPPORTED", ((4, 0), (4, 1)))
    with pytest.raises(RuntimeError, match=shared_env.OVERRIDE):
        shared_env.supported_python()


HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
CONFLICT = "The conflict is caused by:\n    a 1 depends on mindspore<3\n\nERROR: ResolutionImpossible"


@pytest.fixture(name="pip")
def fixture_pip(monkeypatch):
    """What pip answers: exit code and text; and the commands that it got."""
    answer = types.SimpleNamespace(code=0, text="", asked=[])

    def run(command, **_):
        answer.asked.append(command)
        return types.SimpleNamespace(returncode=answer.code, stdout=answer.text)

    monkeypatch.setattr(shared_env.subprocess, "run", run)
    monkeypatch.setattr(shared_env, "_candidates", lambda version: [sys.executable])
    monkeypatch.setattr(shared_env, "_version", lambda python: sys.version_info[:2])
    return answer


def test_version_that_installs_is_installed_once(checkout, pip):
    """
    Feature: nox -s compat.
    Description: ask twice for an environment of this Python and one MindSpore version, then for another version.
    Expectation: pip runs once per version, and is asked for that version and the checkout.
    """
    python, reason = shared_env.of_version(checkout, HERE, "2.10.*", Commands())
    assert not reason and python.startswith(str(checkout))
    assert shared_env.of_version(checkout, HERE, "2.10.*", Commands()) == (python, "")
    assert shared_env.of_version(checkout, HERE, "2.10.0", Commands())[0] != python
    assert [command[-3:] for command in pip.asked] == [
        [f"mindspore=={version}", "--editable", f"{checkout}[test]"] for version in ("2.10.*", "2.10.0")]


@pytest.mark.parametrize("text, said", [
    (CONFLICT, "a 1 depends on mindspore<3"), ("ERROR: No matching distribution found", "No matching distribution")])
def test_version_that_does_not_install_is_not_run_for_a_reason(checkout, pip, text, said):
    """
    Feature: nox -s compat.
    Description: pip finds a conflict, or no wheel.
    Expectation: no interpreter but pip's reason; nothing is left that a later run could take for an environment.
    """
    pip.code, pip.text = 1, text
    python, reason = shared_env.of_version(checkout, HERE, "2.4.0", Commands())
    assert python == "" and reason.startswith(f"MindSpore 2.4.0 does not install: {said}")
    assert not list((checkout / ".nox").iterdir())


def test_python_that_is_missing_is_not_run_for_a_reason(checkout, pip):
    """
    Feature: nox -s compat.
    Description: a Python version that no candidate is of.
    Expectation: no interpreter but the reason; pip is not asked.
    """
    python, reason = shared_env.of_version(checkout, "2.1", "2.10.*", Commands())
    assert (python, reason) == ("", "no Python 2.1 in PATH or among pyenv's versions") and not pip.asked


@pytest.mark.parametrize("target, code, said", [
    ("a=75", 0, "pass: a: 75.0 % (at least 75 %)"),
    ("a=76", 1, "fail: a: 75.0 % (at least 76 %)"),
    ("b=10", 1, "fail: b: not measured (at least 10 %)"),
])
def test_coverage_below_the_target_fails(tmp_path, capsys, target, code, said):
    """
    Feature: nox -s coverage.
    Description: a report of two files of one package, against a target reached, missed, and for a package not there.
    Expectation: exit code 0 only when reached; a package that was not measured fails.
    """
    report = tmp_path / "coverage.json"
    summary = {"covered_lines": 3, "num_statements": 4}
    report.write_text(json.dumps({"files": {f"a/{name}.py": {"summary": summary} for name in "xy"}}), encoding="utf-8")
    assert gates_coverage.main([str(report), target]) == code
    assert capsys.readouterr().out.strip() == said

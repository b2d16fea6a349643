# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
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
"""Sessions: `nox -s repro` first, `nox -s tests` for everything that a change must pass, `nox -l` for the rest."""
from __future__ import annotations

import argparse
import glob
import os
import pathlib
import shutil
import sys

import nox
import nox.command

ROOT = pathlib.Path(__file__).resolve().parent
# nox makes this folder the current one but does not put it on the path.
sys.path.insert(0, str(ROOT))

# pylint: disable=wrong-import-position
from contrib import gates, gates_dist, shared_env  # noqa: E402

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["lint", "lint_pylint", "ut"]
nox.options.reuse_existing_virtualenvs = True

WORKERS = str(min(os.cpu_count() or 1, 8))
UNIT = ("-m", "not proof", "tests/ut")
# The least per cent of lines that unit tests run: the public library's targets, and one for the platforms.
COVERAGE = (("hyper_parallel/core/dtensor", 80), ("hyper_parallel/core/shard", 80),
            ("hyper_parallel/core/fully_shard", 80), ("hyper_parallel/core/pipeline_parallel", 70),
            ("hyper_parallel/platform", 70))


@nox.session(venv_backend="none")
def repro(session: nox.Session) -> None:
    """The reported program on two real workers, against one device (--ranks N, --device npu)."""
    _python(session, "examples/lora_chain.py", *session.posargs)


@nox.session(venv_backend="none")
def ut(session: nox.Session) -> None:
    """Unit tests and the examples in docstrings, in one process per core, without any launcher."""
    _unit_tests(session, *UNIT[:2], *session.posargs)


@nox.session(venv_backend="none")
def proof(session: nox.Session) -> None:
    """The long unit tests: 2,000 random programs, planted faults, the road of a pull request."""
    _unit_tests(session, "-m", "proof", *session.posargs)


@nox.session(venv_backend="none")
def st_cpu(session: nox.Session) -> None:
    """System tests: real workers under msrun on this host's CPU."""
    _system_tests(session, "cpu", *session.posargs)


@nox.session(venv_backend="none", requires=["ut", "verify", "proof", "st_cpu"])
def tests(session: nox.Session) -> None:
    """Everything a change must pass on a CPU host: ut, verify, proof and st_cpu, all run even if one of them fails."""
    session.log("unit tests, layout rules, proof and system tests passed")


@nox.session(venv_backend="none")
def st_npu(session: nox.Session) -> None:
    """The system tests on Ascend (--cards N, --dry-run); without one it says what is missing and fails."""
    parser = argparse.ArgumentParser(prog="nox -s st_npu --")
    parser.add_argument("--cards", type=int, help="devices to use (default: all); jobs that need more are left out")
    parser.add_argument("--dry-run", action="store_true", help="show the commands and run nothing")
    options, rest = parser.parse_known_args(session.posargs)
    env = {"HYPER_PARALLEL_ST_CARDS": str(options.cards or ""), "HYPER_PARALLEL_ST_DRY_RUN": "1" * options.dry_run}
    if not options.dry_run:
        _python(session, "-m", "hyper_parallel.platform.host", "npu", str(options.cards or 2))
    # The plugin leaves out jobs that are too large; in a dry run it shows the command of each job instead.
    shown = ("-s", "-q", "-rN", "--no-header") if options.dry_run else ()
    _system_tests(session, "npu", "-p", "contrib.pytest_msrun", *shown, *rest, **env)


@nox.session
def lint(session: nox.Session) -> None:
    """The fast gates (--list shows them; --gate NAME, --changed-against REF, --upstream CHECKOUT)."""
    _gates(session, "lint")


@nox.session
def lint_pylint(session: nox.Session) -> None:
    """pylint in the community profile and in the repository's (two minutes; --gate NAME, --changed-against REF)."""
    _gates(session, "lint_pylint")


@nox.session
def lint_markdown(session: nox.Session) -> None:
    """markdownlint, through its npm package."""
    _gates(session, "lint_markdown")


@nox.session
def lint_shell(session: nox.Session) -> None:
    """shellcheck."""
    _gates(session, "lint_shell")


@nox.session
def lint_cpp(session: nox.Session) -> None:
    """cpplint, clang-format and cmakelint, where there are C++ or CMake files."""
    _gates(session, "lint_cpp")


@nox.session
def build(session: nox.Session) -> None:
    """Wheel and sdist from a copy, their file lists checked, and the reproduction run from the installed wheel."""
    session.install("build", "wheel", "setuptools")
    tmp = pathlib.Path(session.create_tmp()).resolve()
    copy, out = tmp / "copy", tmp / "dist"
    gates_dist.copy_tree(ROOT, copy)
    shutil.rmtree(out, ignore_errors=True)
    session.run("python", "-m", "build", "--no-isolation", "--outdir", str(out), str(copy), silent=True)
    archives = sorted(out.iterdir())
    problems = [problem for archive in archives for problem in gates_dist.problems(archive, copy)]
    if problems:
        session.error("\n".join(problems))
    for archive in archives:
        session.log(f"{archive.name}: file list as allowed ({len(gates_dist.members(archive))} files)")
    if "--no-run" not in session.posargs:
        _run_wheel(session, tmp, next(archive for archive in archives if archive.suffix == ".whl"))
    shutil.copytree(out, ROOT / "dist", dirs_exist_ok=True)


@nox.session(venv_backend="none")
def bench(session: nox.Session) -> None:
    """Benchmarks, as JSON lines."""
    _python(session, "-m", "benchmarks", *session.posargs)


@nox.session(venv_backend="none")
def coverage(session: nox.Session) -> None:
    """Coverage of the unit tests, against the targets of each package."""
    report = ".nox/coverage.json"
    _unit_tests(session, "--cov", f"--cov-report=json:{report}", "--cov-report=term:skip-covered")
    targets = [f"{package}={least}" for package, least in COVERAGE]
    session.run(sys.executable, "-m", "contrib.gates_coverage", report, *targets, external=True)


@nox.session(venv_backend="none")
def compat(session: nox.Session) -> None:
    """Unit tests on every Python that MindSpore has wheels for (--mindspore VERSION); a missing one is "not run"."""
    parser = argparse.ArgumentParser(prog="nox -s compat --")
    parser.add_argument("--mindspore", action="append", help="version to install; may be repeated (default: 2.10.*)")
    parser.add_argument("--python", action="append", help="version to run on; may be repeated (default: all)")
    options, rest = parser.parse_known_args(session.posargs)
    results = {}
    for mindspore in options.mindspore or [shared_env.MINDSPORE]:
        for version in options.python or shared_env.PYTHONS:
            results[version, mindspore] = _compatible(session, version, mindspore, rest or UNIT)
    for (version, mindspore), result in results.items():
        (session.log if result == "pass" else session.warn)(f"Python {version}, MindSpore {mindspore}: {result}")
    if "fail" in results.values() or "pass" not in results.values():
        session.error("unit tests fail" if "fail" in results.values() else "no version ran, so nothing is known")


@nox.session(venv_backend="none")
def verify(session: nox.Session) -> None:
    """The exact verifier over every registered rule (op names narrow it)."""
    _python(session, "-m", "hyper_parallel.verify", *session.posargs)


@nox.session
def upstream_detect(session: nox.Session) -> None:
    """Which generation a checkout of the public library is, and whether it keeps Partial (--checkout PATH)."""
    _upstream(session, "detect")


@nox.session
def upstream_audit(session: nox.Session) -> None:
    """The exact verifier on a checkout's own layout rules, with counterexamples (--checkout PATH, --matmul)."""
    _upstream(session, "audit")


@nox.session
def upstream_apply(session: nox.Session) -> None:
    """Put the fix, its helper and its tests into a clean checkout (--checkout PATH)."""
    _upstream(session, "apply")


@nox.session
def upstream_gate(session: nox.Session) -> None:
    """Every gate and the affected unit tests, on a checkout's changed files (--checkout PATH)."""
    _upstream(session, "gate")


@nox.session
def upstream_export(session: nox.Session) -> None:
    """One commit, its patch and the text of the pull request; pushes nothing (--checkout PATH --issue N)."""
    _upstream(session, "export")


@nox.session
def upstream_provenance(session: nox.Session) -> None:
    """Runs of six or more identical lines between this project and a checkout (--checkout PATH)."""
    _upstream(session, "provenance")


# -- helpers ----------------------------------------------------------------------------------------------------------


def _run(session: nox.Session):
    return lambda *command: session.run(*command, external=True)


def _paths(**extra: str) -> dict:
    """Environment of a command in the shared environment; the path serves an interpreter the user has named."""
    known = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(known), **extra}


def _python(session: nox.Session, *arguments: str, **env: str) -> None:
    python = shared_env.ensure(ROOT, _run(session))
    session.run(python, *arguments, env=_paths(**env), external=True)


def _compatible(session: nox.Session, version: str, mindspore: str, arguments) -> str:
    """pass, fail, or "not run: reason" for one Python and MindSpore version."""
    python, reason = shared_env.of_version(ROOT, version, mindspore, _run(session))
    if reason:
        return f"not run: {reason}"
    try:
        session.run(python, "-m", "pytest", "-n", WORKERS, "--dist", "worksteal", *arguments, env=_paths(GLOG_v="4"),
                    external=True)
    except nox.command.CommandFailed:
        return "fail"
    return "pass"


def _unit_tests(session: nox.Session, *arguments: str) -> None:
    where = [] if _paths_in(arguments) else ["tests/ut"]
    # Not loadscope: it hangs when a worker process crashes (pytest-xdist 3.8).
    _python(session, "-m", "pytest", "-n", WORKERS, "--dist", "worksteal", *arguments, *where, GLOG_v="4")


def _paths_in(arguments) -> list[str]:
    """Files and folders among pytest's arguments: they narrow what is run."""
    return [argument for argument in arguments if os.path.exists(argument.split("::")[0])]


def _system_tests(session: nox.Session, device: str, *arguments: str, **env: str) -> None:
    """One pytest process; each test file starts its own msrun job."""
    files = sorted(glob.glob("tests/st/**/test_*.py", recursive=True))
    where = [] if _paths_in(arguments) else files
    _python(session, "-m", "pytest", *arguments, *where, HYPER_PARALLEL_ST_DEVICE=device, GLOG_v="3", **env)


def _gates(session: nox.Session, name: str) -> None:
    session.install(*gates.requirements(name))
    session.run("python", "-m", "contrib.gates_run", "--session", name, *session.posargs)


def _upstream(session: nox.Session, verb: str) -> None:
    """One step on a checkout of the public library; it needs numpy and no framework, and gates bring their tools."""
    tools = {pin for gate in gates.GATES for pin in gates.requirements(gate.session)}
    session.install("numpy", "libcst", "pyyaml", "pytest", *(sorted(tools) if verb in ("gate", "export") else []))
    session.run("python", "-m", "contrib", verb, *session.posargs)


def _run_wheel(session: nox.Session, tmp: pathlib.Path, wheel: pathlib.Path) -> None:
    """Install the wheel where the checkout is out of sight, and run the reproduction from it."""
    python = shared_env.ensure(ROOT, _run(session))
    home, fresh = tmp / "installed", str(tmp / "installed" / "bin" / "python")
    session.run(python, "-m", "venv", "--clear", str(home), external=True)
    session.run(fresh, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel), external=True)
    # MindSpore (2.5 GB) is taken from the shared environment; the package itself is the wheel's, which comes first.
    gates_dist.borrow(python, home)
    shutil.copytree(ROOT / "examples", home / "examples")
    with session.chdir(home):
        session.run(fresh, "examples/lora_chain.py", *session.posargs, env={"PYTHONPATH": ""}, external=True)


if __name__ == "__main__":
    nox.main()

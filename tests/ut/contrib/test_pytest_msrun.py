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
"""The plugin of system tests on Ascend: what it leaves out, shows, or lets through."""
import shlex
import types

import pytest

from contrib import pytest_msrun as plugin


@pytest.fixture(name="jobs")
def fixture_jobs(monkeypatch):
    """Jobs that reached the launcher, on a host with two cards."""
    reached = []
    monkeypatch.setattr(plugin, "STARTED", [])
    monkeypatch.setattr(plugin.host, "ascend_cards", lambda: 2)
    for name in (plugin.CARDS, plugin.DRY_RUN):
        monkeypatch.delenv(name, raising=False)
    launcher = plugin.checked(lambda script, arguments=(), *, ranks, **options: reached.append((script, ranks)))
    return types.SimpleNamespace(reached=reached, launch=launcher)


@pytest.mark.parametrize("cards, ranks", [("", 2), ("4", 4)])
def test_job_that_fits_is_run(jobs, monkeypatch, cards, ranks):
    """
    Feature: nox -s st_npu.
    Description: a job of as many workers as the host has cards, or as are asked for.
    Expectation: it reaches the launcher.
    """
    monkeypatch.setenv(plugin.CARDS, cards)
    jobs.launch("w.py", ranks=ranks)
    assert jobs.reached == [("w.py", ranks)]


@pytest.mark.parametrize("cards, ranks, said", [("", 4, "needs 4 cards, and 2 are"),
                                                ("1", 2, "needs 2 cards, and 1 are")])
def test_job_that_is_too_large_is_skipped(jobs, monkeypatch, cards, ranks, said):
    """
    Feature: nox -s st_npu.
    Description: a job of more workers than cards.
    Expectation: skipped with both numbers; the launcher is not reached.
    """
    monkeypatch.setenv(plugin.CARDS, cards)
    with pytest.raises(pytest.skip.Exception, match=said):
        jobs.launch("w.py", ranks=ranks)
    assert not jobs.reached


def test_dry_run_shows_the_command(jobs, monkeypatch, capsys):
    """
    Feature: nox -s st_npu -- --dry-run.
    Description: a job of four workers on a host with two cards.
    Expectation: its command is printed with settings and arguments, and the test is skipped as not run.
    """
    monkeypatch.setenv(plugin.DRY_RUN, "1")
    with pytest.raises(pytest.skip.Exception, match="nothing was run"):
        jobs.launch("w.py", ["a", 4], ranks=4, log_dir="logs", env={"LIMIT": "a b"})
    assert not jobs.reached
    words = shlex.split(capsys.readouterr().out)
    assert words[:4] == ["env", "LIMIT=a b", "msrun", "--worker_num=4"]
    assert words[-3:] == ["w.py", "a", "4"] and "--log_dir=logs" in words


@pytest.mark.parametrize("started, dry_run, status", [(["w.py"], "", 0), ([], "", 5), ([], "1", 0)])
def test_run_without_any_job_is_no_success(jobs, monkeypatch, started, dry_run, status):
    """
    Feature: nox -s st_npu.
    Description: the end of a run in which jobs were started, of one in which all were skipped, of a dry run.
    Expectation: the second does not end with 0.
    """
    del jobs
    monkeypatch.setenv(plugin.DRY_RUN, dry_run)
    monkeypatch.setattr(plugin, "STARTED", started)
    session = types.SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    plugin.pytest_sessionfinish(session)
    assert session.exitstatus == status


def test_dry_run_names_jobs_that_are_left_out(jobs, monkeypatch, capsys):
    """
    Feature: nox -s st_npu -- --dry-run --cards N.
    Description: a job of more workers than cards are to be used.
    Expectation: its command is shown behind the reason why it is left out.
    """
    monkeypatch.setenv(plugin.DRY_RUN, "1")
    monkeypatch.setenv(plugin.CARDS, "2")
    with pytest.raises(pytest.skip.Exception, match="needs 4 cards"):
        jobs.launch("w.py", ranks=4)
    assert not jobs.reached
    assert capsys.readouterr().out.startswith("\nleft out, as 2 cards are to be used: msrun --worker_num=4")

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
"""The launcher without launching: ports that are held, verdicts read from logs, what a host lacks."""
import contextlib
import signal
import socket
import sys

import pytest

from hyper_parallel.platform import host, msrun
from hyper_parallel.platform.ports import FIRST, HOST, LAST, PortBusyError, held_port

FAILED = "[ERROR] ME(1:2,Main):2026 [_api.py:365] Worker process {} exit with exception. Error code: {}.\n"
TRACEBACK = "Traceback (most recent call last):\n  File \"w.py\", line 1\n{}\n"


def test_port_is_held_once():
    """
    Feature: free ports.
    Description: hold a port, then ask for the same one from another holder.
    Expectation: refused by number while held, given afterwards.
    """
    with held_port() as port:
        assert FIRST <= port <= LAST
        with pytest.raises(PortBusyError, match=f"Port {port} on {HOST} is in use"), held_port(port):
            pass
    with held_port(port) as again:
        assert again == port


def test_port_of_a_listening_process_is_busy():
    """
    Feature: free ports.
    Description: listen on a port, then ask for it.
    Expectation: refused, with what to do.
    """
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(PortBusyError, match="Name another one, or none"), held_port(port):
            pass


def job_of(folder, seconds=1.0, returncode=1, **logs):
    """A finished job with these logs."""
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text, encoding="utf-8")
    return msrun.Job("msrun ...", folder, returncode, seconds)


def test_job_without_failure_is_ok(tmp_path):
    """
    Feature: verdict on an msrun job.
    Description: msrun ended with 0 and a worker printed something.
    Expectation: ok, no reason, and the worker's output is at hand.
    """
    job = job_of(tmp_path, returncode=0, msrun="Start worker\n", worker_0="loss 1.0\n")
    msrun._judge(job, {}, 60, "23456")
    assert job.ok and job.reason == "" and job.log(0) == "loss 1.0\n"


def test_first_failing_worker_comes_first_with_its_traceback(tmp_path):
    """
    Feature: verdict on an msrun job.
    Description: worker 2 raised, worker 0 then failed in a collective, worker 1 left the same error as 0.
    Expectation: worker 2 is named and shown first; an error that two workers share is shown once; noise is left out.
    """
    job = job_of(tmp_path, msrun=FAILED.format(12, 1), worker_0=TRACEBACK.format("RuntimeError: AllReduce failed."),
                 worker_1=TRACEBACK.format("RuntimeError: AllReduce failed."),
                 worker_2=TRACEBACK.format("ValueError: planted") + "[INFO] DISTRIBUTED(1) dispatch success!\n")
    msrun._judge(job, {10: 0, 11: 1, 12: 2}, 60, "23456")
    assert not job.ok and "worker 2 ended with 1" in job.reason
    assert [rank for rank, _ in job.failures] == [2, 0]
    assert job.failures[0][1].endswith("ValueError: planted")
    assert "--- worker 2 ---" in job.report() and str(tmp_path) in job.report()


def test_killed_worker_is_told_by_its_signal(tmp_path):
    """
    Feature: verdict on an msrun job.
    Description: a worker was killed and left no traceback.
    Expectation: its rank and the signal are named.
    """
    job = job_of(tmp_path, msrun=FAILED.format(11, -9), worker_1="")
    msrun._judge(job, {11: 1}, 60, "23456")
    assert f"worker 1 was ended by signal {int(signal.SIGKILL)}" in job.reason
    assert job.failures == [(1, "(it printed nothing)")]


@pytest.mark.parametrize("seconds, returncode, logs, said", [
    (61.0, 0, {"msrun": "Start\n"}, "its time limit of 60 s"),
    (1.0, 2, {"msrun": "usage: run.py\nerror: ambiguous option\n"}, "msrun ended with 2: usage"),
    (1.0, 1, {"scheduler": "Failed to init the tcp server.\n"}, "Port 23456 on 127.0.0.1 is in use"),
])
def test_job_that_no_worker_failed_has_a_reason(tmp_path, seconds, returncode, logs, said):
    """
    Feature: verdict on an msrun job.
    Description: a job at its time limit, one whose msrun refused its arguments, one whose port was taken.
    Expectation: not ok, with that reason, whatever msrun's exit code.
    """
    job = job_of(tmp_path, seconds, returncode, **logs)
    msrun._judge(job, {}, 60, "23456")
    assert not job.ok and job.returncode != 0 and said in job.reason


class Ended:
    """Stands for an msrun that has ended."""

    returncode, pid = 1, 0

    @staticmethod
    def poll():
        """Ended."""
        return 1


@contextlib.contextmanager
def _no_process(arguments, folder, log, env):
    del log, env
    taken.append([word for word in arguments if word.startswith("--master_port=")])
    (folder / "scheduler.log").write_text("Failed to create the TCP server.", encoding="utf-8")
    yield Ended


taken: list = []


@pytest.mark.parametrize("port, tries", [(None, msrun.TRIES), (28123, 1)])
def test_port_taken_in_between_is_tried_again_unless_named(tmp_path, monkeypatch, port, tries):
    """
    Feature: starting an msrun job.
    Description: every port is taken between the check and msrun's start.
    Expectation: a free choice is made again, a named port is not replaced; then PortBusyError.
    """
    taken.clear()
    monkeypatch.setattr(msrun, "_started", _no_process)
    with pytest.raises(PortBusyError, match="is in use by another process"):
        msrun.run_workers("x.py", ranks=2, port=port, log_dir=tmp_path)
    assert len(taken) == tries


def test_job_without_workers_is_refused():
    """
    Feature: starting an msrun job.
    Description: ask for no worker.
    Expectation: ValueError, before anything is started.
    """
    with pytest.raises(ValueError, match="at least one worker"):
        msrun.run_workers("x.py", ranks=0)


def test_worker_environment_means_this_interpreter(tmp_path, monkeypatch):
    """
    Feature: starting an msrun job.
    Description: msrun starts `python` from PATH, in another folder.
    Expectation: the first one there starts this interpreter; relative paths are made absolute; own variables win.
    """
    monkeypatch.setenv("PYTHONPATH", "here")
    monkeypatch.delenv("MS_NODE_TIMEOUT", raising=False)
    env = msrun._environment(tmp_path, {"GLOG_v": "1"})
    shim = tmp_path / "bin" / "python"
    assert env["PATH"].startswith(str(shim.parent)) and sys.executable in shim.read_text("utf-8")
    assert env["PYTHONPATH"].startswith("/") and env["GLOG_v"] == "1" and env["MS_NODE_TIMEOUT"] == "10"


@pytest.mark.parametrize("version, fine", [("2.10.0", True), ("2.10.2rc1", True), ("2.9.1", False), ("2.11.0", False)])
def test_version_of_the_framework_is_judged(version, fine):
    """
    Feature: checks of the host.
    Description: versions inside and outside of the supported range.
    Expectation: outside, the version found and the command that helps are named.
    """
    problem = host.mindspore_problem(version)
    assert (problem is None) is fine
    assert fine or (version in problem and "pip install" in problem)


def test_host_without_ascend_says_what_is_missing(monkeypatch, capsys):
    """
    Feature: checks of the host.
    Description: ask for four cards on a host without devices and without the toolkit.
    Expectation: both are named, and the exit code is 1.
    """
    monkeypatch.setattr(host, "DAVINCI", "/nonexistent/davinci*")
    monkeypatch.setattr(host, "TOOLKITS", ())
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    assert host.main(["npu", "4"]) == 1
    printed = capsys.readouterr().out
    assert "4 Ascend device(s) are needed and 0 found" in printed and "set_env.sh" in printed


def test_host_with_devices_lacks_none_of_them(monkeypatch, tmp_path):
    """
    Feature: checks of the host.
    Description: device files for two cards, toolkit and plugin there.
    Expectation: nothing is missing for two cards, one sentence for three.
    """
    for number in range(2):
        (tmp_path / f"davinci{number}").touch()
    (tmp_path / "davinci_manager").touch()
    monkeypatch.setattr(host, "DAVINCI", str(tmp_path / "davinci[0-9]*"))
    monkeypatch.setattr(host, "TOOLKITS", (str(tmp_path),))
    monkeypatch.setattr(host, "_ascend_plugins", lambda: ["plugin"])
    assert not host.problems("npu", 2)
    assert len(host.problems("npu", 3)) == 1

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
"""A free port of this host, held against other jobs for as long as it is used."""
from __future__ import annotations

import contextlib
import fcntl
import random
import socket
import tempfile
from pathlib import Path

PORTS = range(20000, 30000)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def reserved_port(tries: int = 200, ports=PORTS):
    """A port that nothing listens on and no other job of this host has reserved.

    One byte of a lock file stands for one port, so a reservation ends with the process that made it.

    Raises:
        RuntimeError: when none is found.
    """
    with open(Path(tempfile.gettempdir()) / "hyper_parallel_ports.lock", "a", encoding="utf-8") as lock:
        for port in random.SystemRandom().sample(ports, min(tries, len(ports))):
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            except OSError:
                continue
            if _is_free(port):
                yield port
                return
        raise RuntimeError(f"No free port among {tries} tried in {ports.start}..{ports.stop - 1}.")

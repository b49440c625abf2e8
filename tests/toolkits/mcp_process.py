"""The MCP server of the tests as a process of its own, reached by HTTP."""

import atexit
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
SHOP = [sys.executable, "-m", "tests.toolkits.mcp_shop"]


LIFE, _held = os.pipe()
"""Standard input of servers: it ends when this process does, however it ends, and so do they."""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def serve_http(log: str = "") -> tuple[subprocess.Popen[bytes], str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command, environment = [*SHOP, "http", str(port)], {**os.environ, "SHOP_LOG": log}
    process = subprocess.Popen(command, cwd=ROOT, stdin=LIFE, stderr=subprocess.DEVNULL, env=environment)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        time.sleep(0.02)
    return process, f"http://127.0.0.1:{port}/mcp"


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


KEPT: list[subprocess.Popen[bytes]] = []
"""Servers that are never stopped; without a reference, Python would warn of them."""


@cache
def shared_shop() -> tuple[str, Path]:
    """The address of a server that is started once, and the file that holds its refunds."""
    home = TemporaryDirectory(prefix="changeover-mcp-")
    atexit.register(home.cleanup)
    log = Path(home.name, "refunds")
    log.touch()
    process, url = serve_http(str(log))
    KEPT.append(process)
    return url, log

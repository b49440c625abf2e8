"""The server under load by a second process: delays, CPU and memory; and requests compared with a bare route."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2 as httpx
import msgspec

from bench.crowd import Report
from bench.measure import Figure
from bench.queue import in_a_file, on_a_server

READERS, RATE, SECONDS = 200, 50.0, 60.0
REQUESTS = 300
ADDRESS = re.compile(r"(http://[\d.:]+)")
TICK = os.sysconf("SC_CLK_TCK")
BARE = """
import fastapi, uvicorn
app = fastapi.FastAPI()
@app.get("/")
async def read(): return {"status": "ok"}
@app.post("/")
async def write(body: dict): return {"status": "ok"}
uvicorn.run(app, port=0, log_level="info", access_log=False)
"""


class Process:
    """A process that listens."""

    def __init__(self, pid: int, url: str) -> None:
        self.pid, self.url = pid, url

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    @property
    def memory(self) -> float:
        """Megabytes that it holds."""
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0


@contextmanager
def listening(*command: str) -> Iterator[Process]:
    """A Python process that says where it listens."""
    with TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("wb") as out:
            process = subprocess.Popen([sys.executable, *command], stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + 60
            while not (found := ADDRESS.search(log.read_text())):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield Process(process.pid, found[1])
        finally:
            process.terminate()
            process.wait(20)


def serving(store: str, team: str = "team") -> list[str]:
    return ["-m", "changeover", "serve", f"bench.desk:{team}", "--store", store, "--port", "0", "--rate", "0"]


def loaded(url: str, readers: int, rate: float, seconds: float) -> Report:
    """What readers in another process saw."""
    command = [sys.executable, "-m", "bench.crowd", url, str(readers), str(rate), str(seconds)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    return msgspec.json.decode(done.stdout, type=Report)


async def load(readers: int = READERS, rate: float = RATE, seconds: float = SECONDS) -> list[Figure]:
    """Many readers of live conversations, on each database."""
    figures: list[Figure] = []
    for name, stored in (("SQLite", in_a_file), ("PostgreSQL", on_a_server)):
        with stored() as url, listening(*serving(url)) as server:
            before = server.cpu
            report = await asyncio.to_thread(loaded, server.url, readers, rate, seconds)
            cpu, memory = server.cpu - before, server.memory
        note = f"{report.conversations:,} conversations, {report.events:,} events, {report.pieces:,} pieces of text"
        figures += [
            Figure(f"server on {name}: lost or out of order", len(report.wrong), 0, note, unit=""),
            Figure(f"server on {name}: append to reader, p50", report.p50 * 1000, None, unit=" ms"),
            Figure(f"server on {name}: append to reader, p99", report.p99 * 1000, 50, "on idle cores", unit=" ms"),
            Figure(f"server on {name}: CPU per event", cpu / max(1, report.events) * 1000, None, unit=" ms"),
            Figure(f"server on {name}: memory", memory, None, f"after {seconds:.0f} s", unit=" MB"),
        ]
    return figures


async def requests(count: int = REQUESTS) -> list[Figure]:
    """Requests a second of one client, beside a bare FastAPI route."""
    figures: list[Figure] = []
    with (
        listening("-c", BARE) as bare,
        in_a_file() as store,
        listening(*serving(store, "quick")) as server,
        httpx.Client(timeout=60) as client,
    ):
        api, said = f"{server.url}/api/v1/conversations", {"text": "Charged twice."}
        id = client.post(api, json=said, params={"wait": True}).json()["conversation"]
        kinds = {
            "reading a conversation": (("GET", f"{api}/{id}", None), ("GET", f"{bare.url}/", None)),
            "say": (("POST", f"{api}/{id}/messages", said), ("POST", f"{bare.url}/", said)),
        }
        for name, (ours, theirs) in kinds.items():
            rates = [_rate(client, *each, count) for each in (theirs, ours, theirs, ours)]
            best, base = max(rates[1::2]), max(rates[0::2])
            note = f"{best:,.0f} requests/s, a bare route {base:,.0f}"
            figures.append(Figure(f"{name} / bare FastAPI route", best / base, None, note, least=True))
    return figures


def _rate(client: httpx.Client, method: str, url: str, body: object, count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        client.request(method, url, json=body).raise_for_status()
    return count / (time.perf_counter() - begun)


async def figures() -> list[Figure]:
    """All figures at full size."""
    return [*await requests(), *await load()]


async def small() -> list[Figure]:
    """All figures in a few seconds."""
    return [*await requests(100), *await load(20, 5.0, 3.0)]

"""Several servers on one store, servers that are stopped and killed under load, and one without its database."""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx2 as httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.server.outage import wired
from tests.server.process import ADMIN, Server, serving, started
from tests.server.process import until as eventually
from tests.server.readers import Frame, following, is_finished, live, seqs, text, until

STRESS = "CHANGEOVER_STRESS" in os.environ
BUSY = "tests/server/busy.py:team"
LEASE = 1.5
EVENTS = 15
"""The events of each conversation of the busy team."""


@pytest.fixture
def a_store(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('sqlite_file')}"
    return str(request.getfixturevalue("postgres"))


def test_a_reader_follows_on_one_process_what_another_works_on(server: Server):
    across = server.store.startswith("postgresql")  # on SQLite other processes get events only
    with (
        serving(server.store, "--token", ADMIN) as there,
        server.client() as client,
        there.client() as reading,
        live(there) as socket,
    ):
        id = client.post("/conversations", params={"wait": True}, json={"text": "hello"}).json()["conversation"]
        socket.send(subscribe=id)
        first = seqs(socket.until(is_finished))
        with following(reading, id) as found:
            assert seqs(until(is_finished, found)) == first == list(range(1, len(first) + 1))
            last, heard = len(first), False
            while not heard:  # the other process has to learn that it is read here, before it sends text
                client.post(f"/conversations/{id}/messages", params={"wait": True}, json={"text": "hello"})
                both = until(is_finished, found), socket.until(is_finished)
                for seen in both:
                    assert seqs(seen) == list(range(last + 1, last + 1 + len(seqs(seen))))
                last += len(seqs(both[0]))
                heard = [text(seen) for seen in both] == (["Hello."] * 2 if across else ["", ""])


class Crowd:
    """Clients that begin conversations and read them to their end, on whichever server there is."""

    def __init__(self, servers: list[Server], count: int) -> None:
        self.servers, self._count = servers, count
        self.seen: dict[str, list[Frame]] = {f"c{number}": [] for number in range(count)}
        self.attempts = 0
        """How often a client began to read."""

    def run(self) -> None:
        with ThreadPoolExecutor(self._count) as pool:
            for each in [pool.submit(self._talk, number, id) for number, id in enumerate(self.seen)]:
                each.result(60)

    def _talk(self, number: int, id: str) -> None:
        time.sleep(number * 0.05)
        self._again(number, lambda server: self._begin(server, id))
        reads = self._follow if number % 2 else self._subscribe
        while not any(is_finished(frame) for frame in self.seen[id]):
            self._again(number, lambda server: self._count_and(reads, server, id))

    def _again(self, number: int, action: Callable[[Server], None]) -> None:
        deadline = time.monotonic() + 40
        while True:
            number += 1
            try:
                return action(self.servers[number % len(self.servers)])
            except (httpx.HTTPError, ConnectionClosed, OSError, TimeoutError):
                assert time.monotonic() < deadline
                time.sleep(0.1)

    def _count_and(self, reads: Callable[[Server, str], None], server: Server, id: str) -> None:
        self.attempts += 1
        reads(server, id)

    def _begin(self, server: Server, id: str) -> None:
        with server.client(None) as client:
            said = client.post("/conversations", json={"id": id, "text": "help"}, headers={"Idempotency-Key": id})
            if said.status_code == 503:
                raise TimeoutError
            assert said.status_code == 202, said.text

    def _follow(self, server: Server, id: str) -> None:
        with server.client(None) as client, following(client, id, self._last(id)) as found:
            self._read(id, found)

    def _subscribe(self, server: Server, id: str) -> None:
        with live(server, None) as socket:
            socket.send(subscribe=id, after=self._last(id))
            self._read(id, iter(socket.read, None))

    def _read(self, id: str, found: Iterator[Frame]) -> None:
        for frame in found:
            self.seen[id].append(frame)
            if is_finished(frame) or frame.get("code") == "not-found":
                return

    def _last(self, id: str) -> int:
        return max(seqs(self.seen[id]), default=0)


@pytest.mark.stress
@pytest.mark.parametrize(
    ("a_store", "number"),
    [
        ("sqlite", signal.SIGKILL),
        ("postgresql", signal.SIGTERM),
        *([("sqlite", signal.SIGTERM), ("postgresql", signal.SIGKILL)] if STRESS else []),
    ],
    indirect=["a_store"],
)
def test_a_restart_under_load_loses_nothing(a_store: str, number: int):
    with ExitStack() as stack:

        def start() -> Server:
            return stack.enter_context(started(a_store, "--rate", "0", team=BUSY, lease=LEASE))

        servers = [start(), start()]
        crowd = Crowd(servers, 60 if STRESS else 16)
        load = threading.Thread(target=crowd.run)
        load.start()
        for _ in range(3 if STRESS else 1):
            time.sleep(0.6)
            servers[0].process.send_signal(number)
            assert servers[0].process.wait(20) == (0 if number == signal.SIGTERM else -signal.SIGKILL)
            servers[0] = start()
        load.join(60)
        assert not load.is_alive()
        assert crowd.attempts > len(crowd.seen)  # some were cut off
        for id, seen in crowd.seen.items():
            assert seqs(seen) == list(range(1, len(seqs(seen)) + 1)), id
            assert (seen[-1]["status"], seen[-1]["text"]) == ("completed", "All of it was sent back."), id


def test_a_stop_tells_all_streams_and_ends_soon(sqlite_file: Path):
    with started(f"sqlite:///{sqlite_file}", team=BUSY, lease=LEASE) as server, server.client(None) as client:
        id = client.post("/conversations", json={"text": "help"}).json()["conversation"]
        with live(server, None) as socket, following(client, id) as found:
            socket.send(subscribe=id)
            socket.read()
            next(found)
            begun = time.monotonic()
            server.process.terminate()
            for seen in (list(found), socket.until(lambda frame: frame["kind"] == "notice")):
                assert (seen[-1]["kind"], seen[-1]["code"]) == ("notice", "stopping")
            with pytest.raises(ConnectionClosed) as closed:
                socket.read()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012
        assert server.process.wait(10) == 0
        assert time.monotonic() - begun < 5


@pytest.mark.stress
def test_without_its_database_a_server_answers_503_and_then_goes_on(postgres: str):
    pause = 10.0 if STRESS else 2.0
    with (
        tempfile.TemporaryDirectory() as folder,
        wired(postgres, Path(folder)) as (store, wire),
        started(store, team=BUSY, lease=30.0) as server,
        server.client(None) as client,
    ):
        id = client.post("/conversations", json={"text": "help"}).json()["conversation"]
        with following(client, id) as found:
            seen = [next(found)]
            wire.cut()
            cut_at = time.monotonic()
            with server.client(None) as asking:
                for path in ("/ready", f"/conversations/{id}", "/conversations"):
                    refused = asking.get(path)
                    assert refused.status_code == 503, refused.text
                    assert int(refused.headers["Retry-After"]) >= 1
                    assert refused.json()["type"].endswith("store-unavailable")
                said = asking.post("/conversations", json={"text": "help"})
                assert (said.status_code, int(said.headers["Retry-After"]) >= 1) == (503, True)
                assert asking.get("/health").status_code == 200
                time.sleep(max(0.0, pause - (time.monotonic() - cut_at)))
                wire.mend()
                eventually(lambda: asking.get("/ready").status_code == 200)
            seen += until(is_finished, found)
        assert seqs(seen) == list(range(1, len(seqs(seen)) + 1))
        assert seen[-1]["status"] == "completed"
        more = client.post(f"/conversations/{id}/messages", params={"wait": True}, json={"text": "thanks"})
        assert more.status_code == 200

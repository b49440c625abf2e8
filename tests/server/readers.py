"""Clients that read along: server-sent events, and the WebSocket."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2 as httpx
from websockets.sync.client import ClientConnection, connect

from tests.server.process import ADMIN, Server

Frame = dict[str, Any]
"""A message to a client, as the WebSocket brings it; server-sent events are given the same form."""


def frames(response: httpx.Response) -> Iterator[Frame]:
    """The server-sent events of an answer."""
    kind, data = "", ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data = line.removeprefix("data: ")
        elif not line and kind:
            found = json.loads(data)
            yield {"kind": "event", "event": found} if kind == "event" else {"kind": kind, **found}
            kind = ""


@contextmanager
def following(client: httpx.Client, id: str, after: int = 0, **headers: str) -> Iterator[Iterator[Frame]]:
    """A conversation as server-sent events."""
    with client.stream("GET", f"/conversations/{id}/stream", params={"after": after}, headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield frames(response)


class Socket:
    """A client of the WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def send(self, **message: Any) -> None:
        self.connection.send(json.dumps(message))

    def read(self, timeout: float = 10.0) -> Frame:
        found: Frame = json.loads(self.connection.recv(timeout))
        return found

    def until(self, met: Callable[[Frame], Any]) -> list[Frame]:
        """All messages up to the first that is met."""
        return until(met, iter(self.read, None))


@contextmanager
def live(server: Server, token: str | None = ADMIN, **headers: str) -> Iterator[Socket]:
    """A connection to the WebSocket."""
    address = server.url.replace("http://", "ws://") + "/api/v1/live"
    shown = {"Authorization": f"Bearer {token}"} if token else {}
    with connect(address, additional_headers={**shown, **headers}, max_size=None) as connection:
        yield Socket(connection)


def until(met: Callable[[Frame], Any], found: Iterator[Frame]) -> list[Frame]:
    """All messages up to the first that is met."""
    seen: list[Frame] = []
    for frame in found:
        seen.append(frame)
        if met(frame):
            return seen
    raise AssertionError(f"it did not come; these did: {seen}")


def is_finished(frame: Frame) -> bool:
    return bool(frame["kind"] == "finished")


def seqs(found: list[Frame]) -> list[int]:
    return [frame["event"]["seq"] for frame in found if frame["kind"] == "event"]


def events(found: list[Frame]) -> list[dict[str, Any]]:
    return [frame["event"] for frame in found if frame["kind"] == "event"]


def text(found: list[Frame], kind: str = "text") -> str:
    return "".join(frame["text"] for frame in found if frame["kind"] == kind)

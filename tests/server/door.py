"""An app in this process, with a token for each role, and clients that show them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2 as httpx
from fastapi import FastAPI

from changeover import Team
from changeover.relay.ports.tokens import NewToken
from changeover.server import Settings, create_app
from tests.server.desk import team as desk

BASE = "http://localhost/api/v1"
ROLES = ("worker", "viewer", "operator", "approver", "admin")


def calling(app: FastAPI, token: str | None = None, **headers: str) -> httpx.AsyncClient:
    """A client of an app in this process."""
    shown = {"Authorization": f"Bearer {token}"} if token else {}
    # Errors that the app lets through would be errors of the test, as they are of a real server.
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, headers={**shown, **headers})


class Door:
    """An app, its team, and the secrets of its tokens by role or state."""

    def __init__(self, app: FastAPI, team: Team) -> None:
        self.app, self.team = app, team
        self.secrets: dict[str, str] = {}

    async def issue(self, name: str, role: str, **wanted: Any) -> str:
        """Make a token, and keep its secret under this name."""
        agents = ("research",) if role == "worker" else ()
        token = NewToken(**{"user": name, "role": role, "agents": agents, **wanted})
        _, self.secrets[name] = await self.team.log.tokens.issue(token, by="tests")
        return self.secrets[name]

    async def told(self, name: str | None, *said: dict[str, Any], **headers: str) -> tuple[list[Any], int]:
        """What the WebSocket answers to a client with the token of this name: a frame for each message, or up to the
        end of the connection; and the code of its end, 1000 if the client left."""
        shown = {"authorization": f"Bearer {self.secrets.get(name, name)}"} if name else {}
        return await socket_talk(
            self.app, {"host": "localhost", **shown, **headers}, [json.dumps(each) for each in said]
        )

    def client(self, name: str | None = None, **headers: str) -> httpx.AsyncClient:
        """A client with the token of this name."""
        return calling(self.app, self.secrets[name] if name else None, **headers)


async def socket_talk(app: FastAPI, headers: dict[str, str], said: list[str]) -> tuple[list[Any], int]:
    """Say this to the WebSocket of an app in this process; the frames that it sends, and the code of its end, 1000 if
    the client left."""
    frames: list[Any] = []
    closed: list[int] = []
    heard = asyncio.Event()
    left = iter([{"type": "websocket.connect"}, *({"type": "websocket.receive", "text": each} for each in said)])

    async def receive() -> Any:
        if (message := next(left, None)) is not None:
            return message
        await heard.wait()
        closed.append(1000)
        return {"type": "websocket.disconnect", "code": 1000}

    async def send(message: Any) -> None:
        if message["type"] == "websocket.send":
            frames.append(json.loads(message["text"]))
        elif message["type"] == "websocket.close":
            closed.append(message["code"])
        if closed or len(frames) >= len(said) > 0:
            heard.set()

    scope = {
        "type": "websocket",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "ws",
        "path": "/api/v1/live",
        "raw_path": b"/api/v1/live",
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
        "subprotocols": [],
    }
    async with asyncio.timeout(10):
        await app(scope, receive, send)
    return frames, closed[0]


@asynccontextmanager
async def opened(settings: Settings | None = None, store: str | None = None) -> AsyncIterator[Door]:
    """An app of the desk on a store, by default in memory."""
    async with desk.on(store) as team:
        yield Door(create_app(team, settings), team)


async def issue_all(door: Door) -> None:
    """A token for each role, and one each that has expired and was revoked."""
    for role in ROLES:
        await door.issue(role, role)
    await door.issue("expired", "admin", expires_at=time.time() + 0.1)
    await door.issue("revoked", "admin")
    [revoked] = [each for each in await door.team.log.tokens.all() if each.user == "revoked"]
    assert await door.team.log.tokens.revoke(revoked.id, by="tests")
    await asyncio.sleep(0.15)

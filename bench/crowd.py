"""Readers and writers of a server, in a process of their own: `python -m bench.crowd URL READERS RATE SECONDS`.

So many conversations are begun each second, and each is followed by a reader until it is finished: every other reader
by server-sent events, the others by a WebSocket. It prints a report as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from statistics import quantiles
from typing import Any

import httpx2 as httpx
import msgspec
from websockets.asyncio.client import connect

LONGEST = 60.0
"""Seconds that a conversation may take."""


class Report(msgspec.Struct, kw_only=True):
    """What the readers saw."""

    conversations: int = 0
    events: int = 0
    pieces: int = 0
    """Frames with text."""
    wrong: list[str] = []
    """Conversations whose events were not all there, each once and in order."""
    p50: float = 0.0
    """Seconds from the append of an event to its reader."""
    p99: float = 0.0


class Crowd:
    """The clients of one server."""

    def __init__(self, url: str) -> None:
        self._api = f"{url}/api/v1"
        # No connection is used twice: on busy cores the server may close an idle one as the next request is sent.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx.AsyncClient(timeout=LONGEST, limits=limits)
        self._begun: asyncio.Queue[str | None] = asyncio.Queue()
        self._delays: list[float] = []
        self.report = Report()

    async def run(self, readers: int, rate: float, seconds: float) -> Report:
        """Begin conversations for so many seconds, and read all of them to their end."""
        reading = [
            asyncio.ensure_future(self._follow() if number % 2 else self._subscribe()) for number in range(readers)
        ]
        await self._begin(rate, seconds)
        for _ in reading:
            self._begun.put_nowait(None)
        await asyncio.gather(*reading)
        await self._client.aclose()
        if len(self._delays) > 1:
            cuts = quantiles(self._delays, n=100)
            self.report.p50, self.report.p99 = cuts[49], cuts[98]
        return self.report

    async def _begin(self, rate: float, seconds: float) -> None:
        begin, posting = time.monotonic(), set[asyncio.Task[None]]()
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
            posting.add(task := asyncio.ensure_future(self._post()))
            task.add_done_callback(posting.discard)
        await asyncio.gather(*posting)

    async def _post(self) -> None:
        answer = await self._client.post(f"{self._api}/conversations", json={"text": "I was charged twice."})
        answer.raise_for_status()
        self._begun.put_nowait(answer.json()["conversation"])

    async def _follow(self) -> None:
        while (id := await self._begun.get()) is not None:
            async with self._client.stream("GET", f"{self._api}/conversations/{id}/stream") as answer:
                await self._read(id, _frames(answer))

    async def _subscribe(self) -> None:
        async with connect(self._api.replace("http://", "ws://") + "/live", max_size=None) as socket:

            async def frames() -> AsyncIterator[tuple[str, Any]]:
                async for message in socket:
                    found = json.loads(message)
                    yield found["kind"], found.get("event", found)

            while (id := await self._begun.get()) is not None:
                await socket.send(json.dumps({"subscribe": id}))
                await self._read(id, frames())
                await socket.send(json.dumps({"unsubscribe": id}))

    async def _read(self, id: str, frames: AsyncIterator[tuple[str, Any]]) -> None:
        since, seqs = time.time(), list[int]()
        async with asyncio.timeout(LONGEST):
            async for kind, found in frames:
                if found.get("conversation") != id and kind != "notice":
                    continue  # of the subscription before
                if kind == "finished":
                    break
                if kind == "event":
                    seqs.append(found["seq"])
                    if found["at"] > since:
                        self._delays.append(time.time() - found["at"])
                else:
                    self.report.pieces += 1
        self.report.conversations += 1
        self.report.events += len(seqs)
        if seqs != list(range(1, len(seqs) + 1)) or len(seqs) < 5:
            self.report.wrong.append(id)


async def _frames(answer: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    kind = ""
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            yield kind, json.loads(line[6:])


async def main(url: str, readers: int, rate: float, seconds: float) -> None:
    report = await Crowd(url).run(readers, rate, seconds)
    print(msgspec.json.encode(report).decode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])))

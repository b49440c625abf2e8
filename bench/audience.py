"""Readers of one conversation by WebSocket: `python -m bench.audience URL ID READERS RATE SECONDS`.

A writer gives the conversation so many new titles a second. It prints a report as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from statistics import quantiles

import httpx2 as httpx
import msgspec
from websockets.asyncio.client import ClientConnection, connect


class Heard(msgspec.Struct):
    """What the readers heard."""

    updates: int
    frames: int
    p50: float
    """Seconds from the append of an event to its reader."""
    p99: float


async def read(socket: ClientConnection, delays: list[float]) -> None:
    """Note how old each new event is when it is heard."""
    since = time.time()
    async for message in socket:
        found = json.loads(message)
        if found["kind"] == "event" and found["event"]["at"] > since:
            delays.append(time.time() - found["event"]["at"])


async def write(url: str, id: str, rate: float, seconds: float) -> int:
    """Write so many events a second; returns their number."""
    begin, count = time.monotonic(), int(rate * seconds)
    async with httpx.AsyncClient(timeout=60) as client:
        for number in range(count):
            await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
            answer = await client.patch(f"{url}/conversations/{id}", json={"title": f"title {number}"})
            answer.raise_for_status()
    return count


async def listened(url: str, id: str, readers: int, rate: float, seconds: float) -> Heard:
    """Open all sockets, write, and give what was heard."""
    api, delays = f"{url}/api/v1", list[float]()
    sockets = [await connect(api.replace("http://", "ws://") + "/live", max_size=None) for _ in range(readers)]
    reading = [asyncio.ensure_future(read(each, delays)) for each in sockets]
    for each in sockets:
        await each.send(json.dumps({"subscribe": id}))
    await asyncio.sleep(1)
    updates = await write(api, id, rate, seconds)
    await asyncio.sleep(1)
    for each in sockets:
        await each.close()
    await asyncio.gather(*reading, return_exceptions=True)
    cuts = quantiles(delays, n=100)
    return Heard(updates, len(delays), cuts[49], cuts[98])


if __name__ == "__main__":
    url, id, readers, rate, seconds = sys.argv[1:]
    heard = asyncio.run(listened(url, id, int(readers), float(rate), float(seconds)))
    print(msgspec.json.encode(heard).decode())

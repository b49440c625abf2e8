"""A process whose model writes slowly, once it is told to: `python -m tests.stores.speaker URL`."""

import asyncio
import sys
from collections.abc import AsyncIterator

from changeover import Agent, Team, tool
from changeover.messages import Reply
from changeover.relay.ports.world import Request
from changeover.relay.stream import Delta
from changeover.testing import ScriptedModel, calls, says

WORDS = "One by one the words come, and a reader elsewhere has them as they are written."


class SlowModel(ScriptedModel):
    """Takes its time for each word."""

    async def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        async for piece in super().stream(request):
            yield piece
            await asyncio.sleep(0.03)


@tool
async def wait() -> str:
    """Wait for the word."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    return "now"


async def main(url: str) -> None:
    model = SlowModel({"clerk": [calls(("wait", {})), says(WORDS)]})
    async with Team([Agent("clerk", tools=[wait])], model=model, store=url) as team:
        await team.run("Speak", conversation="r")
        await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

"""A process that offers packages and says things under keys which other processes use at the same moment.

    python -m tests.crash.keys URL NOTES BEGIN_AT ROUNDS VARIANT

What it is answered, and all that its team does, stands in the notes.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from changeover import Agent, Store, Team
from changeover.errors import ChangeoverError
from changeover.messages import Message
from changeover.protocol import HandoffPackage, Metadata, Task
from changeover.relay.ports.world import Request
from changeover.testing import Reply, ScriptedModel, says
from changeover.tools.tool import ToolDefinition
from tests.crash.notes import Notes

LEASE = 10.0
"""Long: no process dies here."""
KINDS = ("delegate", "transfer", "elsewhere", "run")


def package(kind: str, number: int, variant: str = "") -> HandoffPackage:
    """What is offered under this key; another variant says something else under the same."""
    key = f"{kind}-{number}"
    mode = "transfer" if kind == "transfer" else "delegate"
    where = f"c-{key}" if kind == "elsewhere" else ""
    metadata = Metadata(receiver="clerk", mode=mode, idempotency_key=key, conversation=where)  # type: ignore[arg-type]
    return HandoffPackage(Task(f"count {key}{variant}"), metadata=metadata)


class Clerk(ScriptedModel):
    """A model that notes that it was asked, and takes a moment to answer."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(_play)
        self._notes = notes

    async def reply(self, request: Request) -> Reply:
        self._notes.write("begin", request.messages[-1].text)
        await asyncio.sleep(0.01)
        return await super().reply(request)


def _play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    return says(f"did {messages[-1].text}")


def team_on(store: str | Store, notes: Notes) -> Team:
    return Team([Agent("clerk", handoffs=())], model=Clerk(notes), store=store)


async def ask(team: Team, notes: Notes, kind: str, number: int, variant: str = "") -> None:
    """One caller: what it is answered goes into the notes."""
    key = f"{kind}-{number}"
    try:
        if kind == "run":
            run = await team.run(f"count {key}{variant}", key=key)
            notes.write("result", key, run.run_id, run.output)
        else:
            handoff = await team.offer(package(kind, number, variant))
            notes.write("result", key, handoff.handoff_id, handoff.result)
    except ChangeoverError as error:
        notes.write("error", key, type(error).__name__, str(error))


async def live(url: str, notes: Notes, begin_at: float, rounds: int, variant: str) -> None:
    """One process: every key at once, twice."""
    async with team_on(Store(url, LEASE), notes) as team:
        await asyncio.sleep(max(0.0, begin_at - time.monotonic()))
        asked = [(kind, number) for number in range(rounds) for kind in KINDS for _ in range(2)]
        await asyncio.gather(*(ask(team, notes, kind, number, variant) for kind, number in asked))


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(live(given[0], Notes(Path(given[1])), float(given[2]), int(given[3]), given[4]))

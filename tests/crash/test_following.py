"""Callers whose conversation another process works on: they wait, they are told, and nobody is forgotten."""

import asyncio
from collections.abc import Sequence

from changeover import Agent, Team
from changeover.errors import Owned
from changeover.messages import Message
from changeover.relay.events import Entry
from changeover.relay.ports import Circuits, Head, Reserve
from changeover.relay.queue import Claim
from changeover.stores.memory import MemoryLog
from changeover.testing import Reply, ScriptedModel, says
from changeover.tools.definition import ToolDefinition


class LogOfOthers(MemoryLog):
    """A log in which every conversation is another process's, and that answers at once."""

    def __init__(self, theirs: MemoryLog) -> None:
        super().__init__()
        self.__dict__.update(theirs.__dict__)

    async def append(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None = None,
        claim: Claim | None = None,
        circuits: Circuits | None = None,
    ) -> None:
        if head is not None:
            raise Owned(entry.conversation, "another process")
        await super().append(entry, head, reserve, claim, circuits)

    async def claim(self, conversation: str) -> bool:
        return False


def never(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    raise AssertionError("somebody else was asked already")


async def test_a_caller_that_speaks_again_as_soon_as_it_is_answered_is_answered_again():
    log = MemoryLog()
    model = ScriptedModel({"solo": [says(f"{number}") for number in range(5)]}, latency=0.03)
    working = Team([Agent("solo")], model=model, store=log)
    waiting = Team([Agent("solo")], model=ScriptedModel(never), store=LogOfOthers(log))
    said = [asyncio.create_task(working.run("hello", conversation="c", key=f"{number}")) for number in range(5)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        answers = [(await waiting.run("hello", conversation="c", key=f"{number}")).output for number in range(5)]
        await asyncio.gather(*said)
    assert answers == ["0", "1", "2", "3", "4"]
    await waiting.close()
    await working.close()

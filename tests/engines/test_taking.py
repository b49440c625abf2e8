"""Taking what waits to be claimed, when something comes between."""

import asyncio

import pytest

from changeover import Agent, HandoffPackage, Metadata, Task, Team
from changeover.errors import StoreUnavailable
from changeover.relay.events import Entry
from changeover.stores.memory import MemoryLog
from changeover.testing import ScriptedModel, says


class SlowLog(MemoryLog):
    """A log that is read as soon as it is `there`."""

    def __init__(self) -> None:
        super().__init__()
        self.there = asyncio.Event()
        self.there.set()
        self.broken = ""
        """The conversation that cannot be read at all."""

    async def read(self, conversation: str, after: int = 0) -> list[Entry]:
        await self.there.wait()
        if conversation == self.broken:
            raise StoreUnavailable("the disk is torn")
        return await super().read(conversation, after)


def office(log: MemoryLog) -> Team:
    return Team([Agent("clerk")], model=ScriptedModel(lambda *_: says("Three.")), store=log)


async def submitted(log: MemoryLog, *conversations: str) -> None:
    """Leave work for the clerk, and go."""
    team = office(log)
    for conversation in conversations:
        about = Metadata(receiver="clerk", conversation=conversation)
        await team.submit(HandoffPackage(Task("count the parts"), metadata=about))
    await team.close()


async def standing(log: MemoryLog) -> list[tuple[str, int, str]]:
    return [(each.ticket.conversation, each.attempts, each.owner) for each in await log.queue.tickets()]


async def test_whoever_stops_waiting_for_a_claim_holds_nothing():
    log = SlowLog()
    await submitted(log, "a", "b")
    log.there.clear()
    team = office(log)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(team.claim("clerk", limit=2), 0.05)
    assert await standing(log) == [("a", 0, ""), ("b", 0, "")]
    log.there.set()
    assert [claim.attempt for claim in await team.claim("clerk", limit=2)] == [1, 1]
    await team.close()


async def test_what_was_claimed_beside_something_that_cannot_be_read_is_held_by_nobody():
    log = SlowLog()
    await submitted(log, "a", "b")
    log.broken = "b"
    team = office(log)
    with pytest.raises(StoreUnavailable):
        await team.claim("clerk", limit=2)
    assert await standing(log) == [("a", 0, ""), ("b", 0, "")]
    assert [claim.ticket.conversation for claim in await team.claim("clerk")] == ["a"]
    await team.close()

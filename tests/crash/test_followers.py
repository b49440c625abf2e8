"""Callers whose conversation another process works on: they wait, and each is told."""

import asyncio
from collections.abc import Sequence

from changeover import Agent, Approve, Store, Team, delegate, tool
from changeover.errors import Owned
from changeover.messages import Message
from changeover.relay.events import Entry
from changeover.relay.ports.log import Circuits, Head, Log, Reserve
from changeover.relay.ports.queue import Claim
from changeover.relay.projection.rows import Rows
from changeover.stores.memory.log import MemoryLog
from changeover.stores.store import open_log
from changeover.testing import Reply, ScriptedModel, calls, delegates, says
from changeover.testing.crash import PassingLog
from changeover.tools.tool import ToolDefinition


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
        rows: Rows | None = None,
    ) -> None:
        if head is not None:
            raise Owned(entry.conversation, "another process")
        await super().append(entry, head, reserve, claim, circuits, rows)

    async def claim(self, conversation: str) -> bool:
        return False


class Slow(PassingLog):
    """A log that takes its time before a root is taken up."""

    def __init__(self, log: Log, until: asyncio.Event) -> None:
        super().__init__(log)
        self._until = until

    async def claim(self, conversation: str) -> bool:
        if "/" not in conversation:
            await self._until.wait()
        return await super().claim(conversation)


def never(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
    raise AssertionError("another agent was asked already")


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


async def test_a_resume_while_another_process_carries_out_the_decision_does_not_wait_for_a_person(shared_store: str):
    begun, over = asyncio.Event(), asyncio.Event()

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        begun.set()
        await over.wait()
        return "paid"

    def desk(store: str | Log) -> Team:
        clerk = Agent("clerk", tools=[pay], handoffs=())
        lead = Agent("lead", handoffs=[delegate("clerk", final=True)])
        script = {"lead": [delegates("clerk", "pay it")], "clerk": [calls(("pay", {})), says("It is paid.")]}
        return Team([lead, clerk], model=ScriptedModel(script), store=store)

    asked, decided = desk(shared_store), desk(Slow(open_log(Store(shared_store)), over))
    [request] = (await asked.run("pay", conversation="c")).requests
    deciding = asyncio.create_task(decided.decide(request, Approve(), by="bob"))
    await begun.wait()
    resumed = asyncio.create_task(asked.resume("c"))
    await asyncio.wait({resumed}, timeout=0.5)
    assert not resumed.done()
    over.set()
    async with asyncio.timeout(10):
        await deciding
        assert [(await each).output for each in (resumed, decided.resume("c"))] == ["It is paid."] * 2
    await asked.close()
    await decided.close()

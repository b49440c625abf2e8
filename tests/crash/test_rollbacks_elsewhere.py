"""A handoff that one process works on is undone by another, on the store that both share."""

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from changeover import Agent, Store, Team, delegate, handoff
from changeover.errors import IllegalTransition
from changeover.messages import Message
from changeover.protocol import Rollback, State
from changeover.relay.events import HandoffRolledBack, RollbackDone, RollbackRequested, RunCancelled
from changeover.testing import Reply, ScriptedModel, delegates, hands_off, says
from changeover.tools.tool import ToolDefinition

LEASE = 0.9
"""Short: who works on something hears within a third of it what others want."""


class Desk:
    """Triage hands over to billing, which works for ever, alone or with a clerk; what is undone is cleaned up."""

    def __init__(self, store: str, with_clerk: bool = False) -> None:
        self._store, self._with_clerk = Store(store, LEASE), with_clerk
        self.begun = asyncio.Event()
        self.cleaned: list[str] = []

    async def _play(self, agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent == "triage":
            return hands_off("billing", "refund") if len(messages) == 1 else says("I have it again")
        if agent == "billing" and self._with_clerk:
            return delegates("clerk", "count")
        self.begun.set()
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")

    async def _clean(self, rollback: Rollback) -> None:
        self.cleaned.append(rollback.idempotency_key)

    def team(self) -> Team:
        ways = [handoff("billing", on_rollback=self._clean)]
        clerk = [delegate("clerk")] if self._with_clerk else []
        members = [Agent("triage", handoffs=ways), Agent("billing", handoffs=clerk), Agent("clerk", handoffs=())]
        return Team(members, model=ScriptedModel(self._play), store=self._store)

    @asynccontextmanager
    async def at_work(self) -> Any:
        """A process whose billing is at work, another process, and what the user of the first is waiting for."""
        async with self.team() as here, self.team() as there, asyncio.timeout(20):
            saying = asyncio.ensure_future(here.run("charged twice", conversation="c"))
            await self.begun.wait()
            yield here, there, saying


async def events(team: Team, kind: type) -> list[Any]:
    return [record.event for record in await team.history("c") if isinstance(record.event, kind)]


async def until_cleaned(team: Team) -> None:
    while not await events(team, RollbackDone):  # noqa: ASYNC110 - it may be another process that does it
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("with_clerk", [False, True], ids=["alone", "with a delegate"])
async def test_a_handoff_that_another_process_works_on_goes_back_to_its_sender(shared_store: str, with_clerk: bool):
    desk = Desk(shared_store, with_clerk)
    async with desk.at_work() as (here, there, saying):
        await there.rollback("c:3.0", reason="wrong one", by="ana")
        result = await saying
        assert (result.output, result.final_agent) == ("I have it again", "triage")
        assert {record.state for record in await there.handoffs("c")} == {State.RETURNED}
        assert len(await events(there, RunCancelled)) == with_clerk
        await until_cleaned(here)
        assert desk.cleaned == ["c:3.0<"]


async def test_of_two_processes_that_undo_the_same_at_once_one_does(shared_store: str):
    desk = Desk(shared_store)
    async with desk.at_work() as (here, there, saying):
        wanted = (team.rollback("c:3.0", by=by) for team, by in ((here, "ana"), (there, "bob")))
        found = await asyncio.gather(*wanted, return_exceptions=True)
        refused = [each for each in found if isinstance(each, BaseException)]
        assert all(isinstance(each, IllegalTransition) for each in refused)
        assert len(refused) <= 1
        assert (await saying).output == "I have it again"
        assert len(await events(here, RollbackRequested)) == len(await events(here, HandoffRolledBack)) == 1
        await until_cleaned(there)
        assert desk.cleaned == ["c:3.0<"]

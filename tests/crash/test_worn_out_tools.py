"""Workers that die while a claimed agent works: after three of them a person is asked, in whatever phase they died.

The processes die by a mortal log, so that each phase is met exactly. What is recorded belongs in the crash harness too.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from changeover import Agent, Command, Function, Member, Respond, Team, Worker, delegate, handoff
from changeover.errors import EngineError
from changeover.protocol import HandoffPackage, Metadata, Task
from changeover.relay.ports.log import Log
from changeover.stores.memory.log import MemoryLog
from changeover.stores.store import Store, open_log
from changeover.testing import ScriptedModel, calls, delegates, hands_off, says
from changeover.testing.crash import MortalLog
from tests.public_api import soon

LEASE = 0.15
KINDS = ("memory", "sqlite", "postgresql")


class Life:
    """One process: a team on a log that dies when one of its effects says so."""

    def __init__(self, log: Log, phase: str) -> None:
        self._log, self._phase = MortalLog(log), phase
        self.died = asyncio.Event()

    def team(self) -> Team:
        async def dies() -> str:
            """Die."""
            await self._die()
            return "never"

        async def takes(package: Any) -> bool:
            return not await self._die() if self._phase == "answer" else True

        async def replies(agent: str, messages: Any, tools: Any) -> Any:
            if self._phase == "model" and agent == "clerk":
                await self._die()
            turn = {"tool": calls(("dies", {})), "delegate": delegates("aide", "x"), "offer": hands_off("shy", "x")}
            return turn.get(self._phase, says("Three.")) if agent == "clerk" else says("Four.")

        ways: list[Any] = [delegate("aide"), handoff("shy")]
        members: list[Member] = [Agent("desk", handoffs=()), Agent("clerk", tools=[dies], handoffs=ways, accepts=takes)]
        members += [Function("aide", lambda ctx: self._dies_in("delegate")), Agent("shy", accepts=self._asked)]
        return Team(members, model=ScriptedModel(replies), store=self._log)

    async def _asked(self, package: Any) -> bool:
        await self._dies_in("offer")
        return True

    async def _dies_in(self, phase: str) -> Command | str:
        if self._phase == phase:
            await self._die()
        return "Five."

    async def _die(self) -> bool:
        self._log.dead = True
        self.died.set()
        await asyncio.Event().wait()
        return True


async def three_die(log: Log, phase: str, package: HandoffPackage) -> Team:
    """Three workers take it, and each dies in this phase; the team that looks after it then."""
    team = Life(log, "none").team()
    await team.submit(package)
    for _ in range(3):
        life = Life(log, phase)
        worker = asyncio.ensure_future(Worker(life.team(), ["clerk"], lease=LEASE).run())
        await asyncio.wait_for(life.died.wait(), 20)
        worker.cancel()
        with suppress(asyncio.CancelledError, EngineError):
            await worker
        await asyncio.sleep(2 * LEASE)
    return team


@pytest.fixture
async def shared(request: pytest.FixtureRequest) -> AsyncIterator[Log]:
    """A log of a kind, for as many processes as a test wants."""
    log = _log(request)
    yield log
    await log.close()


def _log(request: pytest.FixtureRequest) -> Log:
    match request.param:
        case "memory":
            return MemoryLog()
        case "sqlite":
            return open_log(Store(f"sqlite:///{request.getfixturevalue('sqlite_file')}", lease=0.2))
        case _:
            return open_log(Store(request.getfixturevalue("postgres"), lease=0.2))


EVERYWHERE = [
    pytest.param("memory", "model", "delegate"),
    pytest.param("memory", "delegate", "delegate"),
    pytest.param("memory", "offer", "delegate"),
    pytest.param("sqlite", "delegate", "transfer"),
    pytest.param("memory", "tool", "delegate"),
    pytest.param("sqlite", "tool", "transfer"),
    pytest.param("postgresql", "tool", "delegate"),
    pytest.param("postgresql", "offer", "transfer"),
]


def package(mode: Any) -> HandoffPackage:
    return HandoffPackage(Task("count"), metadata=Metadata(receiver="clerk", conversation="story", mode=mode))


@pytest.mark.parametrize(("shared", "phase", "mode"), EVERYWHERE, indirect=["shared"])
async def test_a_person_is_asked_when_three_workers_died_in_any_phase(shared: Log, phase: str, mode: str):
    team = await three_die(shared, phase, package(mode))
    async with team:

        async def is_asked() -> bool:
            await team.claim("clerk")
            return [each.kind for each in await team.approvals()] == ["escalation"]

        assert await soon(is_asked, 1)
        [request] = await team.approvals()
        await team.decide(request, Respond("I looked myself."), by="ana")

        async def is_over() -> bool:
            [first, *_] = await team.handoffs("story")
            return first.state in ("RETURNED", "COMPLETE")

        assert await soon(is_over)


@pytest.mark.parametrize("shared", KINDS, indirect=True)
async def test_a_sweep_that_changes_nothing_records_nothing(shared: Log):
    team = await three_die(shared, "tool", package("delegate"))
    async with team:
        await team.claim("clerk")
        await asyncio.sleep(0.05)
        before = len(await team.history("story"))
        for _ in range(5):
            await team.claim("clerk")
            await asyncio.sleep(0.01)
        assert len(await team.history("story")) == before

"""Helpers of the stories about queues: workers that claim tickets, in this life or a later one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from changeover import Agent, RunResult, Team, Worker
from changeover.errors import ClaimLost
from changeover.guards.approval import Decision
from changeover.protocol import HandoffResult, Ticket, TicketClaim
from changeover.ticket import retry
from tests.stories.approvals import Rule, must_wait
from tests.stories.stage import Stage

Work = Callable[[TicketClaim], Awaitable[None]]
"""What is done with a ticket that was claimed."""
Verdict = Rule | Decision | None
"""The rule by which people decide; None if no person should be asked."""

E = TypeVar("E", bound=Exception)

ROUNDS = 20
"""How often something may have to be taken or decided before a run ends."""
SOON = 0.005
PATIENCE = 8.0
"""For how many seconds a story waits for what should come at once."""


def pulled(id: str, **options: Any) -> Agent:
    """A pulled agent."""
    return Agent(id, pull=True, **{"handoffs": (), **options})


def brings(text: str) -> Work:
    """Take it, and do it."""

    async def work(claim: TicketClaim) -> None:
        await claim.accept()
        await claim.complete(text)

    return work


def declines(reason: str, suggested: str | None = None) -> Work:
    """Do not take it."""

    async def work(claim: TicketClaim) -> None:
        await claim.reject(reason, suggested_alternative=suggested)

    return work


def breaks(reason: str) -> Work:
    """Take it, and give it up."""

    async def work(claim: TicketClaim) -> None:
        await claim.accept()
        await claim.fail(reason)

    return work


DOING: dict[str, Work] = {
    "accept": lambda claim: claim.accept(),
    "reject": lambda claim: claim.reject("no"),
    "conditional": lambda claim: claim.conditional(needs_permission=["it"]),
    "heartbeat": lambda claim: claim.heartbeat(),
    "complete": lambda claim: claim.complete("Nine."),
    "fail": lambda claim: claim.fail("no"),
    "give back": lambda claim: claim.give_back("no"),
}
"""All actions of a claim."""


async def assert_lost(claim: TicketClaim) -> None:
    """Check that every action under this claim raises ClaimLost."""
    for what, do in DOING.items():
        told = await error(ClaimLost, do(claim))
        assert told.ticket == claim.ticket.id, what
        assert f"the claim on {claim.ticket.id!r} is no longer valid" in str(told), what


async def error(kind: type[E], doing: Awaitable[Any]) -> E:
    """The error that this raises."""
    try:
        done = await doing
    except kind as told:
        return told
    raise AssertionError(f"expected {kind.__name__}, and got {done}")


async def decide_all(team: Team, verdict: Verdict, conversation: str | None = None) -> None:
    """Let people decide about whatever awaits them."""
    for request in await team.approvals(conversation):
        assert verdict is not None, f"nobody should have been asked about {request}"
        await team.decide(request, verdict(request) if callable(verdict) else verdict, by="ana")


async def served(
    stage: Stage, team: Team, text: str, verdict: Verdict = None, options: dict[str, Any] | None = None, **works: Work
) -> RunResult:
    """The result of the last message, if workers act on each agent's tickets and people decide by this rule."""
    options = options or {}
    result = await stage.say_again(team, text, **options)
    for _ in range(ROUNDS):
        if result.status != "waiting":
            return result
        assert result.pending, "it waits, and nobody can see for what"
        for awaited in result.pending:
            if isinstance(awaited, Ticket):
                for claim in await stage.claim(team, awaited.agent):
                    await works[claim.ticket.agent](claim)
        await decide_all(team, verdict, result.conversation_id)
        result = await stage.say_again(team, text, **options)
    raise AssertionError(f"it waits for ever, for {result.pending}")


async def said(
    stage: Stage, team: Team, text: str, verdict: Verdict = None, options: dict[str, Any] | None = None, **works: Work
) -> RunResult:
    """Say something that has to be claimed, and have it served."""
    must_wait(stage, await stage.say(team, text, **(options or {})))
    return await served(stage, team, text, verdict, options, **works)


async def outcome(team: Team, ticket: Ticket | str) -> HandoffResult:
    """What comes of a ticket, if the process lives long enough to tell."""
    ending = asyncio.ensure_future(team.result(ticket, timeout=PATIENCE))
    try:
        while not ending.done():
            await asyncio.wait([ending], timeout=SOON)
            await assert_alive(team)
        return ending.result()
    finally:
        ending.cancel()


async def assert_alive(team: Team) -> None:
    """Fail if the process is dead, so that the test does not wait for ever."""
    await team.log.find("", "")


async def brought(stage: Stage, team: Team, ticket: Ticket, verdict: Verdict = None, **works: Work) -> HandoffResult:
    """What comes of a ticket, if this is done for each agent with what waits for it, and people decide so."""
    ending, idle = asyncio.ensure_future(team.result(ticket, timeout=PATIENCE)), set(works)
    try:
        while not ending.done():
            for agent, work in works.items():
                for claim in await stage.claim(team, agent):
                    await work(claim)
                    idle.discard(agent)
            await decide_all(team, verdict, ticket.conversation)
            await asyncio.wait([ending], timeout=SOON)
        assert not idle or stage.lives > 1, f"nothing ever waited for {idle}"
        return ending.result()
    finally:
        ending.cancel()


async def worked_off(stage: Stage, team: Team, agent: str, work: Work, **options: Any) -> int:
    """Claim what waits for an agent now, one after the other, and do this with it; how much it was."""
    count = 0
    while claims := await stage.claim(team, agent, **options):
        for claim in claims:
            await work(claim)
            count += 1
    assert count or stage.lives > 1, f"nothing waited for {agent}"
    return count


async def claims_of(stage: Stage, team: Team, agent: str, conversation: str, **options: Any) -> list[TicketClaim]:
    """Claim what waits for an agent in a conversation; what an earlier life left elsewhere is let go again."""
    claims = await stage.claim(team, agent, **{"limit": 100, **options})
    others = [claim.ticket.id for claim in claims if claim.ticket.root != conversation]
    assert not others or stage.lives > 1, f"{others} waited too"
    for id in others:
        await free(team, id)
    return [claim for claim in claims if claim.ticket.root == conversation]


async def free(team: Team, ticket: str) -> None:
    """Free a ticket as if it had never been claimed."""
    await retry(team.log, ticket)


async def open_tickets(team: Team, conversation: str) -> list[str]:
    """What waits in a conversation and below it, or is claimed."""
    queued = await team.log.queue.tickets()
    return [each.ticket.id for each in queued if each.ticket.root == conversation]


def tickets(stage: Stage, result: RunResult) -> list[Ticket]:
    """The open tickets; in a later life they may be at any stage."""
    must_wait(stage, result)
    return [awaited for awaited in result.pending if isinstance(awaited, Ticket)] if stage.lives == 1 else []


def came(result: HandoffResult) -> tuple[str, str, str]:
    """Receiver, state and result of a package."""
    return result.agent, str(result.state), result.result


@asynccontextmanager
async def at_work(stage: Stage, team: Team, *agents: str, **options: Any) -> AsyncIterator[Worker]:
    """A worker that serves these agents, until it is stopped at the end."""
    worker = await stage.worker(team, *agents, **{"name": "wanda", "grace": 2.0, **options})
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(notices_death(team))
        running = group.create_task(worker.run())
        yield worker
        worker.stop()
        await running
        watching.cancel()


async def notices_death(team: Team) -> None:
    while True:
        await asyncio.sleep(SOON)
        await assert_alive(team)


async def soon(holds: Callable[[], Awaitable[bool]]) -> None:
    """Return when this holds."""
    for _ in range(2_000):
        if await holds():
            return
        await asyncio.sleep(SOON)
    raise AssertionError("it never came to that")


async def ended(stage: Stage, team: Team, text: str, **options: Any) -> RunResult:
    """The result of the last message, while this test does nothing for it."""

    async def over() -> bool:
        return (await stage.say_again(team, text, **options)).status != "waiting"

    await soon(over)
    return await stage.say_again(team, text, **options)

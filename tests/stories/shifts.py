"""Stories of a worker's concurrency, its stop, and claims that it renews or loses."""

import asyncio
from typing import Any

from changeover import Agent
from changeover.errors import MisconfiguredError
from changeover.protocol import Context, Rejected, State
from changeover.relay.events import TicketLapsed
from changeover.testing import says
from changeover.worker import News
from tests.stories.answers import later
from tests.stories.cancellation import Hold
from tests.stories.delegates import cast
from tests.stories.offers import DONE, MODES, office, package
from tests.stories.service import SOON, at_work, brings, brought, came, error, free, outcome, pulled, soon
from tests.stories.stage import Stage, events, story
from tests.stories.timeouts import keeps_working


def note(ends: list[str], news: News) -> None:
    if news.end is not None:
        ends.append(str(news.end))


@story
async def a_worker_works_on_at_most_its_concurrency_of_tickets(stage: Stage) -> None:
    hold, most, now = Hold(), 0, 0

    async def counts(messages: Any) -> Any:
        nonlocal most, now
        now += 1
        most = max(most, now)
        if now == 2:
            hold.begun.set()
        await hold.let_go.wait()
        now -= 1
        return says("Three.")

    team = office(stage, pulled("clerk"), clerk=counts)
    tickets = [await team.submit(package(conversation=f"c{number}")) for number in range(3)]
    async with at_work(stage, team, "clerk", concurrency=2):
        if stage.lives == 1:
            await hold.begun.wait()
            await asyncio.sleep(10 * SOON)
            assert now == 2
        hold.let_go.set()
        for ticket in tickets:
            assert (await outcome(team, ticket)).result == "Three."
    assert most == 2 or stage.lives > 1


@story
async def a_worker_that_is_stopped_finishes_what_it_began_and_begins_nothing_more(stage: Stage) -> None:
    hold = Hold()
    team = office(stage, pulled("clerk"), clerk=keeps_working(hold))
    for number in range(2):
        await team.submit(package(mode="transfer", conversation=f"c{number}"))
    async with at_work(stage, team, "clerk", concurrency=1) as worker:
        await asyncio.wait([asyncio.ensure_future(hold.begun.wait())], timeout=None if stage.lives == 1 else SOON)
        worker.stop()
        hold.let_go.set()
    if stage.lives == 1:
        assert sorted([str((await team.status(f"c{number}:2")).state) for number in range(2)]) == [
            "COMPLETE",
            "PENDING",
        ]
    async with at_work(stage, team, "clerk"):
        for number in range(2):
            assert (await outcome(team, f"c{number}:2")).result == "Three."


@story
async def a_worker_that_is_stopped_and_does_not_come_to_an_end_gives_back_what_it_holds(stage: Stage) -> None:
    for mode in MODES:
        hold = Hold()
        team = office(stage, pulled("clerk"), clerk=keeps_working(hold))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        if stage.lives == 1:
            async with at_work(stage, team, "clerk", grace=0.01):
                await hold.begun.wait()
            status = await team.status(ticket)
            assert (status.state, status.owner, status.attempts) == ("PENDING", "", 0)
            lapsed = await events(team, TicketLapsed, mode)
            assert {(each.by, each.reason) for each in lapsed} == {("wanda", "the worker was stopped")}
        hold.let_go.set()
        async with at_work(stage, team, "clerk", name="walter"):
            assert came(await outcome(team, ticket)) == ("clerk", DONE[mode], "Three.")


@story
async def a_worker_renews_its_claim_for_as_long_as_it_works(stage: Stage) -> None:
    hold = Hold()
    team = office(stage, pulled("clerk"), clerk=keeps_working(hold))
    ticket = await team.submit(package())
    async with at_work(stage, team, "clerk", lease=1.0):
        if stage.lives == 1:
            await hold.begun.wait()
            await asyncio.sleep(1.2)
            status = await team.status(ticket)
            assert (status.state, status.owner, status.attempts) == ("WORKING", "wanda", 1)
            assert await team.claim("clerk") == []
        hold.let_go.set()
        assert (await outcome(team, ticket)).result == "Three."
    assert await events(team, TicketLapsed) == [] or stage.lives > 1


@story
async def a_worker_that_lost_a_ticket_stops_working_on_it(stage: Stage) -> None:
    hold, ends = Hold(), list[str]()
    team = office(stage, pulled("clerk"), clerk=keeps_working(hold, "Nine."))
    ticket = await team.submit(package())
    if stage.lives == 1:
        async with at_work(stage, team, "clerk", concurrency=1, lease=0.06, news=lambda news: note(ends, news)):
            await hold.begun.wait()
            await free(team, ticket.id)
            for claim in await stage.claim(team, "clerk", by="walter"):
                await claim.accept()
                hold.let_go.set()
                await soon(lambda: later(bool(ends)))
                await claim.complete("Three.")
        assert ends == ["lost"]
    else:
        await brought(stage, team, ticket, clerk=brings("Three."))
    assert (await outcome(team, ticket)).result == "Three."


@story
async def a_worker_asks_its_agent_whether_it_takes_the_task(stage: Stage) -> None:
    def accepts(package: Any) -> Any:
        return Rejected("clerk is closed") if package.metadata.receiver == "clerk" else None

    for mode in MODES:
        team = office(stage, pulled("clerk", accepts=accepts), pulled("deputy", accepts=accepts))
        path = Context(escalation_path=("deputy",))
        ticket = await team.submit(package(mode=mode, conversation=mode, context=path))
        async with at_work(stage, team, "clerk", "deputy"):
            result = await outcome(team, ticket)
        assert came(result) == ("deputy", DONE[mode], "Four.")
        assert [(each.receiver, str(each.state)) for each in await team.handoffs(mode)] == [
            *(("clerk", "REJECTED"), ("deputy", DONE[mode])),
        ]


@story
async def an_agent_that_has_its_hands_full_takes_nothing_more(stage: Stage) -> None:
    hold = Hold()
    team = office(stage, pulled("clerk", max_concurrency=1), clerk=keeps_working(hold))
    first = await team.submit(package(conversation="first"))
    second = await team.submit(package(conversation="second"))
    async with at_work(stage, team, "clerk"):
        if stage.lives == 1:
            await hold.begun.wait()
            await asyncio.sleep(10 * SOON)
            working = [str((await team.status(ticket)).state) for ticket in (first, second)]
            assert working.count("WORKING") == 1
        hold.let_go.set()
        assert (await outcome(team, first)).state in (State.RETURNED, State.REJECTED)
        assert (await outcome(team, second)).state in (State.RETURNED, State.REJECTED)


@story
async def a_worker_is_refused_for_agents_that_it_cannot_serve(stage: Stage) -> None:
    team = stage.team([pulled("clerk"), Agent("solo", model=cast(solo=says("x")))])
    wrong: dict[str, tuple[list[str], dict[str, Any]]] = {
        "has no model": (["clerk"], {}),
        "no agent is called 'nobody'": (["nobody"], {}),
        "must name the agents": ([], {}),
        "concurrency": (["solo"], {"concurrency": 0}),
    }

    async def begin(agents: list[str], options: dict[str, Any]) -> None:
        # An agent that code does not declare may be declared in the store, which is asked when the worker begins.
        await (await stage.worker(team, *agents, **options)).run()

    for why, (agents, options) in wrong.items():
        assert why in str(await error(MisconfiguredError, begin(agents, options)))

"""Stories of cleanup after rollbacks, and of concurrent rollbacks and cancellations."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from changeover import Agent, Team, delegate, handoff
from changeover.errors import IllegalTransition
from changeover.messages import Message
from changeover.protocol import HandoffRecord, Rollback
from changeover.relay.events import (
    CancelRequested,
    HandoffRolledBack,
    RollbackDone,
    RollbackFailed,
    RollbackRequested,
)
from changeover.testing import Reply, calls, delegates, says
from tests.stories.answers import chain, triage
from tests.stories.approvals import same_store
from tests.stories.cancellation import Hold, assert_at_rest, first_of
from tests.stories.delegates import cast
from tests.stories.lateness import slow
from tests.stories.rollbacks import REFUND, WHY, desk, given_back, look, relay, states, undo, undone_at
from tests.stories.stage import CONVERSATION, Stage, events, story


@story
async def rolling_back_the_first_of_two_transfers_rolls_back_both(stage: Stage) -> None:
    hold = Hold()

    def first(rollback: Rollback) -> None:
        stage.effects.append(f"cleaned up after {rollback.handoff.receiver}")

    team = relay(stage, slow(hold), first=first, second=first)
    result = await undone_at(stage, team, hold, "story:3.0")
    assert chain(result) == [("billing", "RETURNED", 1), ("bank", "RETURNED", 1)]
    assert result.final_agent == "triage"
    [back] = await events(team, HandoffRolledBack)
    assert back.undone == ("3.0", "6.0")
    await cleaned(team, 2)
    assert sorted(stage.did) == ["cleaned up after bank", "cleaned up after billing"]


async def cleaned(team: Team, count: int = 1) -> None:
    """Return when so much has been cleaned up."""
    for _ in range(2_000):
        if len(await events(team, RollbackDone)) >= count:
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it was not cleaned up")


def as_told(stage: Stage, rollback: Rollback) -> None:
    """Record the arguments of the cleanup hook."""
    about = rollback.handoff
    told = (rollback.reason, rollback.by, rollback.partial_result, rollback.idempotency_key)
    stage.effects.append(f"{about.id} {about.receiver} {about.state}, {', '.join(told)}")


async def cleans_up(stage: Stage, hook: Callable[[Rollback], Any]) -> None:
    """The hook is called once, with the handoff, the reason, the person and the receiver's progress."""
    hold = Hold()

    async def billing(messages: Sequence[Message]) -> Reply:
        if messages[-1].text == "transferred to billing":
            return calls(("look", {}), text="One moment.")
        await hold.on()
        return says("Refunded.")

    members = [Agent("billing", tools=[look], handoffs=())]
    team = desk(stage, billing, handoff("billing", on_rollback=hook), members=members)
    await undone_at(stage, team, hold, "story:3.0")
    await cleaned(team)
    assert await events(team, RollbackDone) == [RollbackDone("3.0")]
    assert await events(team, RollbackFailed) == []
    assert stage.did == [f"story:3.0 billing RETURNED, {WHY}, ana, One moment., story:3.0<"]


@story
async def a_function_that_was_declared_cleans_up(stage: Stage) -> None:
    await cleans_up(stage, lambda rollback: as_told(stage, rollback))


@story
async def a_function_that_has_to_be_awaited_cleans_up(stage: Stage) -> None:
    async def hook(rollback: Rollback) -> None:
        await asyncio.sleep(0)
        as_told(stage, rollback)

    await cleans_up(stage, hook)


@story
async def a_function_that_gives_something_to_await_cleans_up(stage: Stage) -> None:
    async def hook(rollback: Rollback) -> None:
        await asyncio.sleep(0)
        as_told(stage, rollback)

    def gives(rollback: Rollback) -> Awaitable[None]:
        return hook(rollback)

    await cleans_up(stage, gives)


def fails_twice(stage: Stage) -> Callable[[Rollback], None]:
    """A hook that succeeds when it is called for the third time; calls of earlier lives count."""

    def hook(rollback: Rollback) -> None:
        stage.effects.append(f"{len(stage.effects)}: {rollback.idempotency_key}")
        if len(stage.effects) < 3:
            raise ConnectionError("the bank does not answer")

    return hook


@story
async def a_failed_cleanup_is_retried_under_the_same_key(stage: Stage) -> None:
    team = desk(stage, says("Refunded."), handoff("billing", on_rollback=fails_twice(stage)))
    await stage.say(team, "charged twice")
    await undo(stage, team, "story:3.0")
    await stage.say(team, "and now?")
    await cleaned(team)
    failed = await events(team, RollbackFailed)
    assert {each.reason for each in failed} <= {"ConnectionError: the bank does not answer"}
    assert len(failed) == 2 or stage.lives > 1
    assert [each.partition(": ")[2] for each in stage.did] == ["story:3.0<"] * len(stage.did)
    assert len(stage.effects) >= 3
    waits = [each.retry_at for each in failed]
    assert waits == sorted(waits)
    assert len(await events(team, RollbackDone)) == 1


@story
async def cleanup_does_not_hold_up_the_conversation(stage: Stage) -> None:
    hold = Hold()

    async def hook(rollback: Rollback) -> None:
        await hold.on()

    team = desk(stage, says("Refunded."), handoff("billing", on_rollback=hook))
    await stage.say(team, "charged twice")
    await undo(stage, team, "story:3.0")
    answer = await stage.say(team, "and now?")
    assert (answer.final_agent, answer.status) == ("triage", "completed")
    assert await events(team, RollbackDone) == [] or stage.lives > 1
    hold.let_go.set()
    await cleaned(team)


@story
async def a_hook_that_was_removed_meanwhile_has_nothing_left_to_do(stage: Stage) -> None:
    shared, hold = same_store(stage), Hold()
    before = desk(stage, says("Refunded."), handoff("billing", on_rollback=lambda rollback: hold.on()), **shared)
    after = desk(stage, says("Refunded."), handoff("billing"), **shared)
    await stage.say(before if stage.lives == 1 else after, "charged twice")
    await undo(stage, after, "story:3.0")
    await cleaned(after)
    assert not hold.begun.is_set()


@story
async def another_team_on_the_same_store_may_roll_back_an_ended_handoff(stage: Stage) -> None:
    shared = same_store(stage)
    here, there = desk(stage, says("Refunded."), **shared), desk(stage, says("Refunded."), **shared)
    await stage.say(here, "charged twice")
    await undo(stage, there, "story:3.0")
    assert (await stage.say(here, "and now?")).final_agent == "triage"
    assert await states(there) == [("billing", "RETURNED")]


async def at_once(team: Team, id: str, times: int = 2) -> list[HandoffRecord | BaseException]:
    """Roll the same back several times at once."""
    wanted = (team.rollback(id, reason=WHY, by=f"ana-{number}") for number in range(times))
    return await asyncio.gather(*wanted, return_exceptions=True)


@story
async def of_concurrent_rollbacks_of_one_handoff_one_succeeds(stage: Stage) -> None:
    def hook(rollback: Rollback) -> None:
        stage.effects.append("cleaned up")

    team = desk(stage, says("Refunded."), handoff("billing", on_rollback=hook))
    await stage.say(team, "charged twice")
    if stage.lives == 1:
        found = await at_once(team, "story:3.0", 5)
        assert sum(isinstance(each, HandoffRecord) for each in found) == 1
        assert sum(isinstance(each, IllegalTransition) for each in found) == 4
    else:
        await undo(stage, team, "story:3.0")
    await cleaned(team)
    assert (len(await events(team, RollbackRequested)), stage.did) == (1, ["cleaned up"])


@story
async def of_concurrent_rollbacks_of_a_handoff_under_way_one_succeeds(stage: Stage) -> None:
    hold = Hold()
    team = desk(stage, slow(hold))
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "charged twice"))
        await first_of(saying, hold.begun.wait)
        if not saying.done() and not await events(team, RollbackRequested):
            found = await at_once(team, "story:3.0")
            assert sorted(type(each).__name__ for each in found) == ["HandoffRecord", "IllegalTransition"]
    assert (saying.result().final_agent, chain(saying.result())) == ("triage", [("billing", "RETURNED", 1)])
    assert len(await events(team, RollbackRequested)) == 1


@story
async def a_cancellation_during_a_rollback_ends_the_run(stage: Stage) -> None:
    hold = Hold()
    members = [Agent("billing", handoffs=[delegate("clerk")]), Agent("clerk", handoffs=())]
    team = desk(stage, delegates("clerk", "count"), members=members, parts={"clerk": slow(hold)})
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "charged twice"))
        await first_of(saying, hold.begun.wait)
        if not saying.done() and not await events(team, CancelRequested):
            # The second is heard as soon as the first is recorded, before the clerk is back. If the cancellation comes
            # first, nothing is left to undo.
            both = undo(stage, team, "story:3.0"), team.cancel(CONVERSATION, by="bob")
            undone, ended = await asyncio.gather(*both, return_exceptions=True)
            assert (undone is None or isinstance(undone, IllegalTransition), ended) == (True, True)
    result = saying.result()
    assert result.status in (("cancelled", "completed") if stage.lives > 1 else ("cancelled",))
    assert {state for _, state in await states(team)} == {"RETURNED"}
    await assert_at_rest(team)


@story
async def a_rolled_back_handoff_is_cleaned_up_even_if_the_run_is_cancelled(stage: Stage) -> None:
    hold = Hold()

    def triage_again(messages: Sequence[Message]) -> Any:
        return slow(hold)(messages) if given_back(messages) else REFUND

    def hook(rollback: Rollback) -> None:
        stage.effects.append("cleaned up")

    async def at_work() -> None:
        """Billing may have given it back in an earlier life."""
        waits = [asyncio.ensure_future(each.begun.wait()) for each in (hold, work)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)

    work = Hold()
    model = cast(triage=triage_again, billing=slow(work))
    team = stage.team([triage(handoff("billing", on_rollback=hook)), Agent("billing", handoffs=())], model)
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "charged twice"))
        await first_of(saying, work.begun.wait if stage.lives == 1 else at_work)
        if not saying.done():
            await undo(stage, team, "story:3.0")
        await first_of(saying, hold.begun.wait)
        if not saying.done():
            await team.cancel(CONVERSATION)
    assert saying.result().status == "cancelled"
    await cleaned(team)
    assert stage.did == ["cleaned up"]

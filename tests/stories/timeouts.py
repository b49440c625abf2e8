"""Stories of handoffs that time out: they are not answered, or the work is not done in time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

from changeover import Agent, RunResult, Team, delegate, handoff, tool
from changeover.agent.agent import Member
from changeover.messages import Message
from changeover.protocol import HandoffPackage, Rejected, State
from changeover.relay.events import (
    CancelRequested,
    HandoffAccepted,
    HandoffExpired,
    HandoffOffered,
    ModelReplied,
    RunCancelled,
    ToolFinished,
)
from changeover.testing import ManualClock, Reply, delegates, hands_off, says
from tests.stories.answers import chain, triage, tries
from tests.stories.cancellation import Hold, assert_at_rest, told
from tests.stories.delegates import Says, asks, boss, came_back, cast, known
from tests.stories.rejections import sends
from tests.stories.stage import CONVERSATION, Stage, events, story

LATE = "it was not done in time"
UNANSWERED = "it did not answer in time"


def keeps_thinking(hold: Hold) -> Callable[[HandoffPackage], Awaitable[bool]]:
    """An answer that comes when it is let go, and not before."""

    async def accepts(package: HandoffPackage) -> bool:
        await hold.on()
        return True

    return accepts


def keeps_working(hold: Hold, text: str = "Three.") -> Says:
    """A model that answers when it is let go, and not before."""

    async def play(messages: Sequence[Message]) -> Reply:
        await hold.on()
        return says(text)

    return play


Step = tuple[Hold, Callable[[], Awaitable[None]]]
"""Work that is held up, and the step that follows."""


async def takes_place(team: Team, clock: ManualClock, going: Coroutine[Any, Any, RunResult], *steps: Step) -> RunResult:
    """The result, if these steps follow whenever work is held up. In a later life some have been taken."""
    if found := await known(team):
        await clock.advance(max(0.0, max(record.at for record in found) - clock.now()))  # time does not go back
    run = asyncio.ensure_future(going)
    taken = [asyncio.ensure_future(_take(*step)) for step in steps]
    waiting: set[asyncio.Future[Any]] = {run, *taken}
    try:
        while not run.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        return run.result()
    finally:
        for each in (run, *taken):
            each.cancel()
        await asyncio.gather(run, *taken, return_exceptions=True)


async def _take(hold: Hold, step: Callable[[], Awaitable[None]]) -> None:
    await hold.begun.wait()
    await step()


def time_is_up(team: Team, clock: ManualClock, hold: Hold, seconds: float) -> Step:
    """So much time passes, and a second earlier nothing is over yet."""

    async def pass_by() -> None:
        await clock.advance(seconds - 1)
        assert await events(team, HandoffExpired) == []
        await clock.advance(1)

    return hold, pass_by


def goes_on_after(clock: ManualClock, hold: Hold, seconds: float) -> Step:
    """So much time passes, and then it goes on."""

    async def let_go() -> None:
        await clock.advance(seconds)
        hold.let_go.set()

    return hold, let_go


async def runs_out(stage: Stage, team: Team, clock: ManualClock, hold: Hold, seconds: float) -> RunResult:
    """Say something, and let so much time pass while the work is held up."""
    return await takes_place(team, clock, stage.say(team, "go"), time_is_up(team, clock, hold, seconds))


def asking(stage: Stage, hold: Hold, clock: ManualClock, *ways: Any, **shared: Any) -> Team:
    """Triage hands over to billing, which does not say whether it takes it."""
    model = cast(triage=tries(hands_off("billing", "refund")), billing=says("Refunded."), tech=says("Repaired."))
    members = [triage(*ways), Agent("billing", accepts=keeps_thinking(hold)), Agent("tech")]
    return stage.team(members, model, clock=clock, **shared)


def working(stage: Stage, hold: Hold, clock: ManualClock, **options: Any) -> Team:
    """The boss delegates to a clerk that does not finish."""
    model = cast(boss=tries(delegates("clerk", "count")), clerk=keeps_working(hold), deputy=says("Deputised."))
    members = [boss(delegate("clerk", **options)), Agent("clerk", handoffs=()), Agent("deputy", handoffs=())]
    return stage.team(members, model, clock=clock)


@story
async def a_receiver_that_does_not_answer_in_time_does_not_get_the_handoff(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    team = asking(stage, hold, clock, handoff("billing", timeout=60))
    result = await runs_out(stage, team, clock, hold, 60)
    assert result.output == f"billing did not take it: {UNANSWERED}"
    assert (result.final_agent, chain(result), result.ledger.handoffs) == ("triage", [("billing", "TIMEOUT", 1)], 0)
    assert result.handoff_chain[0].error == UNANSWERED
    [offered], [expired] = await events(team, HandoffOffered), await events(team, HandoffExpired)
    assert (offered.deadline, expired.reason) == (result.handoff_chain[0].at + 60, UNANSWERED)
    hold.let_go.set()
    await clock.advance(1)
    assert await events(team, HandoffAccepted) == []


@story
async def an_answer_may_take_five_minutes_if_nothing_is_said(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    result = await runs_out(stage, asking(stage, hold, clock), clock, hold, 300)
    assert chain(result) == [("billing", "TIMEOUT", 1)]


@story
async def an_answer_that_comes_in_time_holds_and_the_work_may_take_longer(stage: Stage) -> None:
    answer, work, clock = Hold(), Hold(), ManualClock()
    members = [triage(handoff("billing", timeout=60)), Agent("billing", accepts=keeps_thinking(answer))]
    model = cast(triage=tries(hands_off("billing", "refund")), billing=keeps_working(work, "Refunded."))
    team = stage.team(members, model, clock=clock)
    steps = [goes_on_after(clock, answer, 59), goes_on_after(clock, work, 1_000)]
    result = await takes_place(team, clock, stage.say(team, "go"), *steps)
    assert (result.output, chain(result)) == ("Refunded.", [("billing", "COMPLETE", 1)])
    assert [each.deadline for each in await events(team, HandoffAccepted)] == [None]


@story
async def an_answer_may_take_longer_than_the_calendar_has_days(stage: Stage) -> None:
    def accepts(package: HandoffPackage) -> bool:
        return package.metadata.deadline == datetime(9999, 12, 30, tzinfo=UTC)

    members = [triage(handoff("billing", timeout=1e12)), Agent("billing", accepts=accepts)]
    team = stage.team(members, cast(triage=tries(hands_off("billing", "refund")), billing=says("Refunded.")))
    result = await stage.say(team, "go")
    assert (result.output, chain(result)) == ("Refunded.", [("billing", "COMPLETE", 1)])


@story
async def an_answer_may_take_for_ever_if_that_was_asked_for(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    team = asking(stage, hold, clock, handoff("billing", timeout=None))
    result = await takes_place(team, clock, stage.say(team, "go"), goes_on_after(clock, hold, 1_000_000))
    assert (result.output, chain(result)) == ("Refunded.", [("billing", "COMPLETE", 1)])
    assert [each.deadline for each in await events(team, HandoffOffered)] == [None]


@story
async def a_receiver_that_times_out_is_not_replaced_by_the_alternative(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    team = asking(stage, hold, clock, handoff("billing", timeout=60, alternatives=["tech"]))
    result = await runs_out(stage, team, clock, hold, 60)
    assert (result.final_agent, chain(result)) == ("triage", [("billing", "TIMEOUT", 1)])


@story
async def the_alternative_has_as_much_time_as_the_first(stage: Stage) -> None:
    first, second, clock = Hold(), Hold(), ManualClock()

    async def refuses(package: HandoffPackage) -> Rejected:
        await first.on()
        return Rejected("not mine")

    way = handoff("billing", timeout=60, alternatives=["tech"])
    members = [triage(way), Agent("billing", accepts=refuses), Agent("tech", accepts=keeps_thinking(second))]
    team = stage.team(members, cast(triage=tries(hands_off("billing", "refund"))), clock=clock)
    steps = [goes_on_after(clock, first, 50), time_is_up(team, clock, second, 60)]
    result = await takes_place(team, clock, stage.say(team, "go"), *steps)
    assert chain(result) == [("billing", "REJECTED", 1), ("tech", "TIMEOUT", 2)]


@story
async def a_delegate_that_is_not_done_in_time_is_called_back(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    team = working(stage, hold, clock, timeout=60)
    result = await runs_out(stage, team, clock, hold, 60)
    [back] = came_back(result)
    assert (back.handoff_id, back.agent, back.success, back.response) == ("story:3.0", "clerk", False, "")
    assert (back.error, result.handoff_chain[0].error) == (LATE, LATE)
    assert (result.final_agent, chain(result), result.ledger.handoffs) == ("boss", [("clerk", "TIMEOUT", 1)], 1)
    assert [(each.by, each.reason) for each in await events(team, CancelRequested)] == [("changeover", LATE)]
    assert [each.conversation for each in await team.history(CONVERSATION) if isinstance(each.event, RunCancelled)] == [
        f"{CONVERSATION}/3.0"
    ]
    hold.let_go.set()
    await clock.advance(1)
    assert [each.agent for each in await events(team, ModelReplied)] == ["boss", "boss"]
    await assert_at_rest(team)


@story
async def a_delegate_may_take_five_minutes_if_nothing_is_said(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    result = await runs_out(stage, working(stage, hold, clock), clock, hold, 300)
    assert chain(result) == [("clerk", "TIMEOUT", 1)]


@story
async def a_delegate_may_take_for_ever_if_that_was_asked_for(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    team = working(stage, hold, clock, timeout=None)
    result = await takes_place(team, clock, stage.say(team, "go"), goes_on_after(clock, hold, 1_000_000))
    [back] = came_back(result)
    assert (back.success, back.response) == (True, "Three.")
    assert [each.deadline for each in await events(team, HandoffOffered)] == [None]


@story
async def a_delegate_that_is_done_in_time_has_nothing_to_fear_later(stage: Stage) -> None:
    clock = ManualClock()
    model = cast(boss=asks(delegates("clerk", "count")), clerk=says("Three."))
    team = stage.team([boss(delegate("clerk", timeout=60)), Agent("clerk")], model, clock=clock)
    [back] = came_back(await stage.say(team, "how many?"))
    await clock.advance(1_000)
    assert (back.success, await events(team, HandoffExpired), await events(team, CancelRequested)) == (True, [], [])


@story
async def a_delegate_that_is_too_late_is_not_replaced_by_the_alternative(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    result = await runs_out(stage, working(stage, hold, clock, timeout=60, alternatives=["deputy"]), clock, hold, 60)
    assert chain(result) == [("clerk", "TIMEOUT", 1)]


@story
async def the_answer_and_the_work_of_a_delegate_share_its_time(stage: Stage) -> None:
    answer, work, clock = Hold(), Hold(), ManualClock()
    clerk = Agent("clerk", accepts=keeps_thinking(answer), handoffs=())
    model = cast(boss=asks(delegates("clerk", "count")), clerk=keeps_working(work))
    team = stage.team([boss(delegate("clerk", timeout=60)), clerk], model, clock=clock)
    steps = [goes_on_after(clock, answer, 40), time_is_up(team, clock, work, 20)]
    result = await takes_place(team, clock, stage.say(team, "go"), *steps)
    assert (chain(result), came_back(result)[0].error) == ([("clerk", "TIMEOUT", 1)], LATE)


@story
async def a_delegate_that_does_not_answer_in_time_has_not_begun(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    clerk = Agent("clerk", accepts=keeps_thinking(hold), handoffs=())
    team = stage.team(
        [boss(delegate("clerk", timeout=60)), clerk], cast(boss=asks(delegates("clerk", "x"))), clock=clock
    )
    result = await runs_out(stage, team, clock, hold, 60)
    [back] = came_back(result)
    assert (back.success, back.error, result.ledger.handoffs) == (False, UNANSWERED, 0)
    assert chain(result) == [("clerk", "TIMEOUT", 1)]
    assert {each.conversation for each in await team.history(CONVERSATION)} == {CONVERSATION}


@story
async def a_delegate_that_is_too_late_does_not_spoil_the_one_beside_it(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    turn = asks(delegates("clerk", "count"), delegates("scribe", "write"))
    model = cast(boss=turn, clerk=keeps_working(hold), scribe=says("Written."))
    members = [boss(delegate("clerk", timeout=60, final=True), delegate("scribe")), Agent("clerk"), Agent("scribe")]
    result = await runs_out(stage, stage.team(members, model, clock=clock), clock, hold, 60)
    clerk, scribe = came_back(result)
    assert (clerk.error, scribe.response, result.final_agent) == (LATE, "Written.", "boss")


@story
async def a_task_may_be_given_again_after_it_took_too_long(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    ways = [delegate("clerk", timeout=60), delegate("deputy", timeout=60)]
    turns = [delegates("clerk", "count"), delegates("deputy", "count")]
    model = cast(boss=tries(*turns), clerk=keeps_working(hold), deputy=says("Three."))
    team = stage.team([boss(*ways), Agent("clerk"), Agent("deputy")], model, clock=clock)
    result = await runs_out(stage, team, clock, hold, 60)
    assert [(back.agent, back.success) for back in came_back(result)] == [("clerk", False), ("deputy", True)]
    assert [each.state for each in result.handoff_chain] == [State.TIMEOUT, State.RETURNED]


@story
async def a_branch_is_called_back_too(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    members: list[Member] = [sends("slow"), Agent("slow", handoffs=())]
    team = stage.team(members, cast(slow=keeps_working(hold)), clock=clock)
    result = await runs_out(stage, team, clock, hold, 300)
    assert result.output == f"slow: {LATE}"


@story
async def delegates_of_a_delegate_that_times_out_are_cancelled_with_it(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    members = [
        boss(delegate("clerk", timeout=60)),
        Agent("clerk", handoffs=[delegate("expert")]),
        Agent("expert", handoffs=()),
    ]
    model = cast(
        boss=asks(delegates("clerk", "count")), clerk=asks(delegates("expert", "count")), expert=keeps_working(hold)
    )
    team = stage.team(members, model, clock=clock)
    result = await runs_out(stage, team, clock, hold, 60)
    assert [(each.receiver, each.state) for each in await team.handoffs(CONVERSATION)] == [
        ("clerk", State.TIMEOUT),
        ("expert", State.RETURNED),
    ]
    assert (came_back(result)[0].error, result.ledger.turns, result.ledger.handoffs) == (LATE, 3, 2)
    await assert_at_rest(team)


@story
async def what_a_tool_of_a_delegate_did_too_late_stands_in_its_log_and_nowhere_else(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()

    @tool(at_most_once=True)
    async def pay() -> str:
        """Pay."""
        await hold.on()
        stage.effects.append("paid")
        return "paid"

    members = [boss(delegate("clerk", timeout=60)), Agent("clerk", tools=[pay], handoffs=())]
    model = cast(boss=asks(delegates("clerk", "pay")), clerk=asks(("pay", {})))
    team = stage.team(members, model, clock=clock)
    result = await runs_out(stage, team, clock, hold, 60)
    [back] = came_back(result)
    if hold.begun.is_set():
        assert back.error == LATE
        hold.let_go.set()
        await told(team, ToolFinished)
        late = [each for each in await team.history(CONVERSATION) if isinstance(each.event, ToolFinished)]
        assert [(each.conversation, each.event.text) for each in late] == [(f"{CONVERSATION}/3.0", "paid")]  # type: ignore[union-attr]
    # In a later life whether it took effect may be unknown, and then the delegate went on from there.
    assert "paid" not in back.response
    assert stage.effects.count("paid") <= 1

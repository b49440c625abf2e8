"""Stories of rollbacks: the task goes back to its sender, and a hook cleans up."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from changeover import Agent, Person, Respond, RunResult, Team, delegate, handoff, tool
from changeover.errors import HandoffNotFound, IllegalTransition, ModelError
from changeover.messages import Message, Note, ToolResult
from changeover.protocol import HandoffPackage, HandoffRecord, State
from changeover.relay.events import (
    HandoffRolledBack,
    ModelReplied,
    RollbackDone,
    RollbackRequested,
    RunCancelled,
    RunResumed,
)
from changeover.testing import ManualClock, Reply, calls, delegates, fails, hands_off, says
from tests.stories.answers import chain, declines, triage
from tests.stories.approvals import settled
from tests.stories.cancellation import Hold, assert_at_rest, first_of
from tests.stories.delegates import Says, asks, boss, came_back, cast, read
from tests.stories.lateness import a_minute, slow
from tests.stories.offers import first_begun, office, package
from tests.stories.stage import CONVERSATION, Stage, events, story

REFUND = hands_off("billing", "refund")
WHY = "it was the wrong one"


def given_back(messages: Sequence[Message]) -> list[str]:
    """What an agent was told of tasks that are its own again."""
    return [each.text for each in messages if isinstance(each, Note) and "gives the task back" in each.text]


def sends_once(*turn: Reply) -> Says:
    """Hand over, and when it is given back, or a user goes on, answer with what there is to read of that."""

    def play(messages: Sequence[Message]) -> Reply:
        told = [*given_back(messages), *(each.text for each in messages if isinstance(each, ToolResult))]
        return says(f"I have it again: {' | '.join(told)}") if told else turn[0]

    return play


def desk(stage: Stage, billing: Any, *ways: Any, members: Sequence[Any] = (), **options: Any) -> Team:
    """Triage hands over to billing, which does what it is told here."""
    parts = options.pop("parts", {})
    model = cast(triage=sends_once(REFUND), billing=billing, **parts)
    return stage.team([triage(*ways), *(members or (Agent("billing", handoffs=()),))], model, **options)


async def undo(stage: Stage, team: Team, handoff: HandoffRecord | str, reason: str = WHY) -> None:
    """Roll it back, unless that is on record from an earlier life."""
    id = handoff if isinstance(handoff, str) else handoff.id
    conversation = id.partition(":")[0].partition("/")[0]
    if stage.lives == 1 or not await events(team, RollbackRequested, conversation):
        await team.rollback(handoff, reason=reason, by="ana")


async def undone_at(stage: Stage, team: Team, hold: Hold, id: str, text: str = "charged twice") -> RunResult:
    """Say something, and roll this handoff back as soon as its work is held up."""
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, text))
        await first_of(saying, hold.begun.wait)
        if not saying.done():
            await undo(stage, team, id)
    return saying.result()


async def states(team: Team, conversation: str = CONVERSATION) -> list[tuple[str, str]]:
    """Receiver and state of every handoff."""
    return [(each.receiver, str(each.state)) for each in await team.handoffs(conversation)]


@story
async def a_task_that_is_worked_on_goes_back_to_its_sender(stage: Stage) -> None:
    hold = Hold()
    team = desk(stage, slow(hold))
    result = await undone_at(stage, team, hold, "story:3.0")
    assert (result.status, result.final_agent) == ("completed", "triage")
    assert result.output == f"I have it again: billing gives the task back: {WHY} | transferred to billing"
    assert chain(result) == [("billing", "RETURNED", 1)]
    assert result.handoff_chain[0].error == WHY
    assert await events(team, RollbackRequested) == [RollbackRequested("3.0", WHY, "ana")]
    [back] = await events(team, HandoffRolledBack)
    assert (back.sender, back.receiver, back.by, back.undone) == ("triage", "billing", "ana", ("3.0",))
    assert await events(team, RollbackDone) == [RollbackDone("3.0")]
    hold.let_go.set()
    assert [each.agent for each in await events(team, ModelReplied)] == ["triage", "triage"]
    await assert_at_rest(team)


@story
async def rollback_returns_the_state_of_the_handoff(stage: Stage) -> None:
    team = desk(stage, says("Refunded."))
    result = await stage.say(team, "charged twice")
    if not await events(team, RollbackRequested):
        record = await team.rollback(result.handoff_chain[0], reason=WHY)
        assert (record.id, record.state, record.error) == ("story:3.0", State.RETURNED, WHY)
    assert await states(team) == [("billing", "RETURNED")]


@story
async def after_a_finished_task_is_given_back_the_next_message_goes_to_its_sender(stage: Stage) -> None:
    team = desk(stage, says("Refunded."))
    first = await stage.say(team, "charged twice")
    assert (first.output, first.final_agent) == ("Refunded.", "billing")
    await undo(stage, team, "story:3.0")
    assert await states(team) == [("billing", "RETURNED")]
    answer = await stage.say(team, "and now?")
    assert (answer.final_agent, answer.handoff_chain) == ("triage", [])
    told = f"I have it again: billing gives the task back: {WHY}\n\nWhat it said last:\nRefunded."
    assert answer.output.startswith(told)


@story
async def a_task_that_failed_is_given_back(stage: Stage) -> None:
    team = desk(stage, fails("no credit", retryable=False))
    await stage.error(ModelError, team, "charged twice")
    await undo(stage, team, "story:3.0")
    assert await states(team) == [("billing", "RETURNED")]
    answer = await stage.say(team, "and now?")
    assert (answer.final_agent, answer.status) == ("triage", "completed")


@story
async def a_failed_task_that_was_rolled_back_is_not_tried_again(stage: Stage) -> None:
    team = desk(stage, fails("no credit", retryable=False))
    await stage.error(ModelError, team, "charged twice")
    await undo(stage, team, "story:3.0")
    with pytest.raises(ModelError, match="no credit"):
        await team.resume(CONVERSATION)
    assert await states(team) == [("billing", "RETURNED")]
    assert await events(team, RunResumed) == []
    await assert_at_rest(team)


@story
async def a_handoff_that_was_too_late_is_given_back(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()

    async def accepts(package: HandoffPackage) -> bool:
        await hold.on()
        return True

    billing = Agent("billing", accepts=accepts, handoffs=())
    team = desk(stage, says("Refunded."), handoff("billing", timeout=60), members=[billing], clock=clock)
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "charged twice"))
        await a_minute(saying, clock, hold)
    assert chain(saying.result()) == [("billing", "TIMEOUT", 1)]
    await undo(stage, team, "story:3.0")
    assert await states(team) == [("billing", "RETURNED")]
    assert (await stage.say(team, "and now?")).final_agent == "triage"


@story
async def an_unanswered_offer_can_be_rolled_back(stage: Stage) -> None:
    hold = Hold()

    async def accepts(package: HandoffPackage) -> bool:
        await hold.on()
        return True

    team = desk(stage, says("Refunded."), members=[Agent("billing", accepts=accepts, handoffs=())])
    result = await undone_at(stage, team, hold, "story:3.0")
    assert (result.output, result.final_agent) == (f"I have it again: rolled back: {WHY}", "triage")
    assert (chain(result), result.ledger.handoffs) == ([("billing", "RETURNED", 1)], 0)
    hold.let_go.set()
    assert await states(team) == [("billing", "RETURNED")]


@story
async def a_task_that_a_delegate_has_not_answered_is_taken_back(stage: Stage) -> None:
    hold = Hold()

    async def accepts(package: HandoffPackage) -> bool:
        await hold.on()
        return True

    members = [boss(), Agent("clerk", accepts=accepts, handoffs=())]
    team = stage.team(members, cast(boss=asks(delegates("clerk", "count")), clerk=says("Three.")))
    result = await undone_at(stage, team, hold, "story:3.0")
    [back] = came_back(result)
    assert (back.success, back.error) == (False, f"rolled back: {WHY}")
    assert chain(result) == [("clerk", "RETURNED", 1)]


@story
async def a_task_of_a_person_can_be_rolled_back(stage: Stage) -> None:
    for mode in ("transfer", "delegate"):
        way: Any = handoff("ana") if mode == "transfer" else delegate("ana")
        turn = hands_off("ana", "sign") if mode == "transfer" else delegates("ana", "sign")
        model = cast(triage=sends_once(turn))
        team = stage.team([triage(way), Person("ana")], model)
        waiting = await stage.say(team, "a contract", conversation=mode)
        for request in waiting.pending:
            assert request.kind == "task"
        if waiting.status == "waiting":
            await undo(stage, team, f"{mode}:3.0")
        result = await team.resume(mode)
        assert await team.approvals(mode) == []
        assert (result.status, result.final_agent, chain(result)) == (
            *("completed", "triage", [("ana", "RETURNED", 1)]),
        )
        assert f"rolled back: {WHY}" in result.output
        stage.outcomes[1 if mode == "transfer" else 2] = result


@story
async def a_conversation_that_a_person_has_taken_goes_back(stage: Stage) -> None:
    team = stage.team([triage(handoff("ana")), Person("ana")], cast(triage=sends_once(hands_off("ana", "sign"))))
    waiting = await stage.say(team, "a contract")
    signed = await settled(stage, team, waiting, lambda request: Respond("Signed."))
    assert signed.final_agent == "ana"
    await undo(stage, team, "story:3.0")
    assert await states(team) == [("ana", "RETURNED")]
    answer = await stage.say(team, "and now?")
    assert (answer.status, answer.final_agent) == ("completed", "triage")
    assert "What it said last:\nSigned." in answer.output


@story
async def a_delegate_at_work_is_called_back(stage: Stage) -> None:
    hold = Hold()

    async def clerk(messages: Sequence[Message]) -> Reply:
        if not any(isinstance(each, ToolResult) for each in messages):
            return calls(("look", {}), text="I look for them.")
        await hold.on()
        return says("Three.")

    model = cast(boss=asks(delegates("clerk", "count")), clerk=clerk)
    team = stage.team([boss(), Agent("clerk", tools=[look], handoffs=())], model)
    result = await undone_at(stage, team, hold, "story:3.0")
    [back] = came_back(result)
    assert (back.success, back.response, back.error) == (False, "I look for them.", f"rolled back: {WHY}")
    assert (result.final_agent, chain(result)) == ("boss", [("clerk", "RETURNED", 1)])
    assert [each.conversation for each in await team.history(CONVERSATION) if isinstance(each.event, RunCancelled)] == [
        f"{CONVERSATION}/3.0"
    ]
    await assert_at_rest(team)


@tool(read_only=True)
def look() -> str:
    """Look."""
    return "nothing"


@story
async def of_two_delegates_one_is_called_back_and_the_other_goes_on(stage: Stage) -> None:
    hold = Hold()
    ways = [delegate("clerk"), delegate("scribe")]
    model = cast(
        boss=asks(delegates("clerk", "count"), delegates("scribe", "write")), clerk=slow(hold), scribe=says("Ok.")
    )
    team = stage.team([boss(*ways), Agent("clerk", handoffs=()), Agent("scribe", handoffs=())], model)
    result = await undone_at(stage, team, hold, "story:3.0")
    assert [(back.agent, back.success, back.response) for back in came_back(result)] == [
        *(("clerk", False, ""), ("scribe", True, "Ok.")),
    ]


@story
async def a_delegate_that_failed_or_was_too_late_may_be_given_back(stage: Stage) -> None:
    team = stage.team(
        [boss(), Agent("clerk")], cast(boss=asks(delegates("clerk", "x")), clerk=fails("no", retryable=False))
    )
    assert not came_back(await stage.say(team, "how many?"))[0].success
    await undo(stage, team, "story:3.0")
    assert await states(team) == [("clerk", "RETURNED")]
    hold, clock = Hold(), ManualClock()
    model = cast(boss=asks(delegates("clerk", "x")), clerk=slow(hold))
    team = stage.team([boss(delegate("clerk", timeout=60)), Agent("clerk")], model, clock=clock)
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "how many?", conversation="late"))
        await a_minute(saying, clock, hold)
    if stage.lives == 1:
        assert await states(team, "late") == [("clerk", "TIMEOUT")]
    await undo(stage, team, "late:3.0")
    assert await states(team, "late") == [("clerk", "RETURNED")]


async def impossible(team: Team, id: str) -> IllegalTransition:
    """The error of a rollback that is not possible; checks that nothing changed."""
    before = len(await team.history(CONVERSATION))
    with pytest.raises(IllegalTransition) as refusal:
        await team.rollback(id, reason="on second thoughts", by="bob")
    assert len(await team.history(CONVERSATION)) == before
    return refusal.value


@story
async def a_rejected_handoff_cannot_be_rolled_back(stage: Stage) -> None:
    members = [Agent("billing", accepts=declines("closed"), handoffs=())]
    team = desk(stage, says("never"), members=members)
    result = await stage.say(team, "charged twice")
    assert chain(result) == [("billing", "REJECTED", 1)]
    error = await impossible(team, "story:3.0")
    assert (error.state, error.signal, error.possible) == ("REJECTED", "return", ())
    assert await states(team) == [("billing", "REJECTED")]


@story
async def a_returned_handoff_cannot_be_rolled_back(stage: Stage) -> None:
    team = stage.team([boss(), Agent("clerk")], cast(boss=asks(delegates("clerk", "x")), clerk=says("Three.")))
    await stage.say(team, "how many?")
    assert (await impossible(team, "story:3.0")).state == "RETURNED"
    team = desk(stage, says("Refunded."))
    await stage.say(team, "charged twice", conversation="other")
    await undo(stage, team, "other:3.0")
    with pytest.raises(IllegalTransition):
        await team.rollback("other:3.0")
    assert len(await events(team, RollbackRequested, "other")) == 1


@story
async def an_unknown_handoff_cannot_be_rolled_back(stage: Stage) -> None:
    team = desk(stage, says("Refunded."))
    await stage.say(team, "charged twice")
    before = len(await team.history(CONVERSATION))
    for id in ("", "story", "story:", "story:9.9", "nowhere:3.0", "story@1", "story:3.0+1", "story/3.0:2"):
        with pytest.raises(HandoffNotFound) as refusal:
            await team.rollback(id)
        assert refusal.value.handoff == id
    assert len(await team.history(CONVERSATION)) == before


@story
async def a_task_goes_back_when_the_delegates_of_its_receiver_are_cancelled(stage: Stage) -> None:
    hold = Hold()
    billing = delegates("clerk", "count")
    members = [Agent("billing", handoffs=[delegate("clerk")]), Agent("clerk", handoffs=())]
    team = desk(stage, billing, members=members, parts={"clerk": slow(hold)})
    result = await undone_at(stage, team, hold, "story:3.0")
    assert (result.final_agent, result.status) == ("triage", "completed")
    assert sorted(await states(team)) == [("billing", "RETURNED"), ("clerk", "RETURNED")]
    order = [type(each.event) for each in await team.history(CONVERSATION)]
    assert order.index(RunCancelled) < order.index(HandoffRolledBack)
    await assert_at_rest(team)


def relay(stage: Stage, last: Any, **hooks: Any) -> Team:
    """Triage hands over to billing, billing to the bank."""
    model = cast(triage=sends_once(REFUND), billing=hands_off("bank", "pay"), bank=last)
    ways = [handoff("billing", on_rollback=hooks.get("first"))], [handoff("bank", on_rollback=hooks.get("second"))]
    members = [triage(*ways[0]), Agent("billing", handoffs=ways[1]), Agent("bank", handoffs=())]
    return stage.team(members, model)


@story
async def rolling_back_the_second_of_two_transfers_leaves_the_first(stage: Stage) -> None:
    hold = Hold()

    def billing(messages: Sequence[Message]) -> Reply:
        return says("Billing has it again.") if given_back(messages) else hands_off("bank", "pay")

    model = cast(triage=REFUND, billing=billing, bank=slow(hold))
    team = stage.team([triage("billing"), Agent("billing", handoffs=["bank"]), Agent("bank", handoffs=())], model)
    result = await undone_at(stage, team, hold, "story:6.0")
    assert (result.output, result.final_agent) == ("Billing has it again.", "billing")
    assert chain(result) == [("billing", "COMPLETE", 1), ("bank", "RETURNED", 1)]


@story
async def a_transfer_of_an_earlier_run_is_undone_too(stage: Stage) -> None:
    team = relay(stage, says("Paid."))
    assert (await stage.say(team, "charged twice")).final_agent == "bank"
    assert (await stage.say(team, "thanks")).final_agent == "bank"
    await undo(stage, team, "story:3.0")
    assert await states(team) == [("billing", "RETURNED"), ("bank", "RETURNED")]
    assert (await stage.say(team, "and now?")).final_agent == "triage"


@story
async def a_package_that_is_worked_on_is_taken_back(stage: Stage) -> None:
    for mode, id in (("delegate", "2.0"), ("transfer", "2")):
        hold = Hold()
        team = office(stage, Agent("clerk"), clerk=slow(hold))
        async with asyncio.TaskGroup() as group:
            offering = group.create_task(team.offer(package(mode=mode, conversation=mode)))
            await first_begun(offering, hold)
            if not offering.done():
                await undo(stage, team, f"{mode}:{id}")
        result = offering.result()
        why = WHY if mode == "transfer" else f"rolled back: {WHY}"
        assert (result.state, result.reason, result.result) == (State.RETURNED, why, "")
        await assert_at_rest(team, mode)


@story
async def an_unanswered_package_can_be_rolled_back(stage: Stage) -> None:
    for mode, id in (("delegate", "2.0"), ("transfer", "2")):
        hold = Hold()

        async def accepts(package: HandoffPackage, hold: Hold = hold) -> bool:
            await hold.on()
            return True

        team = office(stage, Agent("clerk", accepts=accepts))
        async with asyncio.TaskGroup() as group:
            offering = group.create_task(team.offer(package(mode=mode, conversation=mode)))
            await first_begun(offering, hold)
            if not offering.done():
                await undo(stage, team, f"{mode}:{id}")
        assert (offering.result().state, offering.result().reason) == (State.RETURNED, f"rolled back: {WHY}")
        await assert_at_rest(team, mode)


@story
async def a_package_that_waits_for_a_person_is_taken_back(stage: Stage) -> None:
    for mode, id in (("delegate", "2.0"), ("transfer", "2")):
        team, given = office(stage, Person("ana")), package("ana", mode=mode, conversation=mode)
        waiting = await team.offer(given)
        assert waiting.pending or stage.lives > 1
        if waiting.pending:
            await undo(stage, team, f"{mode}:{id}")
        result = await team.offer(given)
        assert (result.state, result.reason, result.pending) == (State.RETURNED, f"rolled back: {WHY}", [])
        assert await team.approvals(mode) == []


@story
async def a_package_that_was_done_is_taken_back(stage: Stage) -> None:
    team = office(stage, Agent("clerk"))
    result = await team.offer(package(mode="transfer"))
    await undo(stage, team, result.handoff_id)
    assert await states(team) == [("clerk", "RETURNED")]
    assert (await stage.say(team, "and now?")).final_agent == "desk"


@story
async def a_handoff_below_is_undone_by_its_own_id(stage: Stage) -> None:
    hold = Hold()

    def clerk(messages: Sequence[Message]) -> Reply:
        return says("I did it.") if given_back(messages) else hands_off("expert", "count")

    members = [boss(), Agent("clerk", handoffs=["expert"]), Agent("expert", handoffs=())]
    team = stage.team(members, cast(boss=asks(delegates("clerk", "count")), clerk=clerk, expert=slow(hold)))
    result = await undone_at(stage, team, hold, "story/3.0:3.0")
    assert read(result.output).response == "I did it."
    assert sorted(await states(team)) == [("clerk", "RETURNED"), ("expert", "RETURNED")]

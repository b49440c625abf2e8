"""Stories of what is declared to happen by itself: rollback by policy, what follows an acceptance, checks, ends."""

import asyncio
from asyncio import FIRST_COMPLETED
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel

import changeover
from changeover import Agent, Approve, RunContext, delegate, handoff
from changeover.errors import EconomicLimitExceeded, HandoffTimeoutError, IllegalTransition
from changeover.events import CancelRequested
from changeover.guards import CircuitBreaker, Rule
from changeover.messages import Message, ToolResult
from changeover.protocol import Acceptance, Expectations, Rollback, TicketClaim
from changeover.testing import ManualClock, Reply, calls, delegates, fails, hands_off, says
from tests.public_api import recorded, soon
from tests.stories.answers import tries
from tests.stories.cancellation import Hold, first_of, told
from tests.stories.deadlines import MINUTE
from tests.stories.delegates import came_back, cast
from tests.stories.offers import DONE, MODES, office, package
from tests.stories.rollbacks import WHY, given_back, sends_once, undo
from tests.stories.service import brings, brought, came, decide_all, error, pulled, served
from tests.stories.stage import CONVERSATION, Stage, story
from tests.stories.timeouts import keeps_thinking, keeps_working, runs_out


def undone(stage: Stage) -> Any:
    """What cleans up after a rollback."""

    def clean(rollback: Rollback) -> None:
        stage.effects.append(f"undone: {rollback.handoff.receiver}: {rollback.reason}")

    return clean


async def cleaned_up(stage: Stage) -> list[str]:
    """What was cleaned up, which goes on beside the run."""

    async def is_done() -> bool:
        return bool(stage.did)

    assert await soon(is_done, 5.0)
    return stage.did


@story
async def a_transfer_whose_receiver_fails_is_rolled_back_by_policy(stage: Stage) -> None:
    way = handoff("billing", on_failure="rollback", on_rollback=undone(stage))
    parts: dict[str, Any] = {"triage": tries(hands_off("billing", "refund")), "billing": fails("torn", retryable=False)}
    team = stage.team([Agent("triage", handoffs=[way]), Agent("billing")], cast(**parts))
    result = await stage.say(team, "charged twice")
    assert (result.status, result.final_agent) == ("completed", "triage")
    assert [(each.receiver, str(each.state)) for each in result.handoff_chain] == [("billing", "RETURNED")]
    [done] = await cleaned_up(stage)
    assert (done.startswith("undone: billing: "), "torn" in done) == (True, True)


@story
async def a_delegate_that_fails_is_rolled_back_by_policy(stage: Stage) -> None:
    way = delegate("clerk", on_failure="rollback", on_rollback=undone(stage))
    parts: dict[str, Any] = {"boss": tries(delegates("clerk", "count")), "clerk": fails("torn", retryable=False)}
    team = stage.team([Agent("boss", handoffs=[way]), Agent("clerk")], cast(**parts))
    [back] = came_back(await stage.say(team, "how many?"))
    assert (back.success, "torn" in back.error, len(await cleaned_up(stage))) == (False, True, 1)
    [record] = await team.handoffs(CONVERSATION)
    assert record.state == "RETURNED"


@story
async def a_delegate_that_takes_too_long_is_rolled_back_by_policy(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    way = delegate("clerk", timeout=60, on_timeout="rollback", on_rollback=undone(stage))
    parts: dict[str, Any] = {"boss": tries(delegates("clerk", "count")), "clerk": keeps_working(hold)}
    team = stage.team([Agent("boss", handoffs=[way]), Agent("clerk")], cast(**parts), clock=clock)
    await runs_out(stage, team, clock, hold, 60)
    [record] = await team.handoffs(CONVERSATION)
    assert (record.state, len(await cleaned_up(stage))) == ("RETURNED", 1)


@story
async def a_transfer_that_is_not_answered_in_time_is_rolled_back_by_policy(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    way = handoff("billing", timeout=60, on_timeout="rollback", on_rollback=undone(stage))
    members = [
        *(Agent("front", handoffs=["triage"]), Agent("triage", handoffs=[way])),
        Agent("billing", accepts=keeps_thinking(hold)),
    ]
    turns = (
        tries(hands_off("triage", "a refund")),
        tries(hands_off("triage", "a refund"), hands_off("billing", "refund")),
    )
    team = stage.team(members, cast(front=turns[0], triage=turns[1]), clock=clock)
    result = await runs_out(stage, team, clock, hold, 60)
    assert (result.final_agent, "billing did not take it: it did not answer in time" in result.output) == (
        "triage",
        True,
    )
    assert [(each.receiver, str(each.state)) for each in result.handoff_chain] == [
        *(("triage", "COMPLETE"), ("billing", "RETURNED")),
    ]
    assert await cleaned_up(stage) == ["undone: billing: it did not answer in time"]


@story
async def what_a_delegate_said_before_it_failed_comes_back_with_the_rollback(stage: Stage) -> None:
    def count() -> str:
        """Count."""
        return "3"

    def clerk(messages: Sequence[Message]) -> Any:
        counted = isinstance(messages[-1], ToolResult)
        return fails("torn", retryable=False) if counted else calls(("count", {}), text="One moment.")

    def clean(rollback: Rollback) -> None:
        stage.effects.append(rollback.partial_result)

    for policy in ("rollback", "tell"):
        way = delegate("clerk", on_failure=policy, on_rollback=clean)
        members = [Agent("boss", handoffs=[way]), Agent("clerk", tools=[count])]
        team = stage.team(members, cast(boss=tries(delegates("clerk", "count")), clerk=clerk))
        [back] = came_back(await stage.say(team, "how many?", conversation=policy))
        assert back.response == ("One moment." if policy == "rollback" else "")
    assert await cleaned_up(stage) == ["One moment."]


@story
async def a_failure_that_is_rolled_back_counts_for_the_circuit_breaker(stage: Stage) -> None:
    for way, clerk in ((handoff, "clerk"), (delegate, "scribe")):
        asked = hands_off(clerk, "count") if way is handoff else delegates(clerk, "count")
        boss = Agent("boss", handoffs=[way(clerk, on_failure="rollback")])
        model = cast(boss=tries(asked), **{clerk: fails("torn", retryable=False)})
        team = stage.team([boss, Agent(clerk)], model, guards=[CircuitBreaker(threshold=1)])
        await stage.say(team, "how many?", conversation=clerk)
        assert (clerk, "open") in [(each.receiver, str(each.state)) for each in await team.breakers()]
        assert [str(each.state) for each in await team.handoffs(clerk)] == ["RETURNED"]


@story
async def a_transfer_whose_receiver_exceeds_a_limit_is_rolled_back_with_its_delegates(stage: Stage) -> None:
    def count() -> str:
        """Count."""
        return "3"

    hold = Hold()
    members = [
        Agent("triage", handoffs=[handoff("billing", on_failure="rollback", on_rollback=undone(stage))]),
        Agent("billing", handoffs=[delegate("slow"), delegate("busy")]),
        *(Agent("slow", handoffs=()), Agent("busy", handoffs=(), tools=[count])),
    ]
    both = calls(delegates("slow", "wait"), delegates("busy", "count"))
    parts: dict[str, Any] = {"triage": tries(hands_off("billing", "refund")), "billing": both}
    model = cast(**parts, slow=keeps_working(hold), busy=calls(("count", {})))
    team = stage.team(members, model, limits=changeover.Limits(max_turns=5))
    await stage.error(EconomicLimitExceeded, team, "charged twice")
    chain = {each.receiver: str(each.state) for each in await team.handoffs(CONVERSATION)}
    assert chain == {"billing": "RETURNED", "slow": "RETURNED", "busy": "FAILED"}
    [done] = await cleaned_up(stage)
    assert (done.startswith("undone: billing: "), "max_turns=5" in done) == (True, True)


@story
async def a_transfer_that_its_worker_gives_up_is_rolled_back_by_policy(stage: Stage) -> None:
    way = handoff("billing", on_failure="rollback", on_rollback=undone(stage))
    members = [Agent("triage", handoffs=[way]), pulled("billing")]
    team = stage.team(members, cast(triage=sends_once(hands_off("billing", "refund"))))
    await stage.say(team, "charged twice")

    async def gives_up(claim: TicketClaim) -> None:
        await claim.fail("no form")

    result = await served(stage, team, "charged twice", billing=gives_up)
    assert (result.status, result.final_agent, "no form" in result.output) == ("completed", "triage", True)
    [done] = await cleaned_up(stage)
    assert done == "undone: billing: the worker of 'billing' gave up: no form"
    assert await team.claim("billing") == []


@story
async def a_transfer_inside_a_delegate_is_rolled_back_there(stage: Stage) -> None:
    way = handoff("helper", on_failure="rollback")
    members = [Agent("boss", handoffs=[delegate("clerk")]), Agent("clerk", handoffs=[way]), Agent("helper")]

    def clerk(messages: Sequence[Message]) -> Reply:
        return says(given_back(messages)[0]) if given_back(messages) else hands_off("helper", "count")

    parts: dict[str, Any] = {"boss": tries(delegates("clerk", "count")), "helper": fails("torn", retryable=False)}
    team = stage.team(members, cast(**parts, clerk=clerk))
    [back] = came_back(await stage.say(team, "how many?"))
    assert (back.success, "torn" in back.response, back.agent) == (True, True, "clerk")
    assert {each.receiver: str(each.state) for each in await team.handoffs(CONVERSATION)} == {
        "clerk": "RETURNED",
        "helper": "RETURNED",
    }


@story
async def what_a_delegate_did_is_cleaned_up_when_it_is_rolled_back(stage: Stage) -> None:
    way = delegate("clerk", on_rollback=undone(stage))
    team = stage.team([Agent("boss", handoffs=[way]), pulled("clerk")], cast(boss=tries(delegates("clerk", "count"))))
    await stage.say(team, "how many?")
    if not await recorded(team, "RollbackRequested"):
        for claim in await stage.claim(team, "clerk"):
            await claim.accept()
        await team.rollback("story:3.0", reason="not now")
    assert await cleaned_up(stage) == ["undone: clerk: not now"]
    [back] = came_back(await served(stage, team, "how many?"))
    assert (back.success, back.error) == (False, "rolled back: not now")


@story
async def what_a_delegate_did_is_cleaned_up_when_its_failure_is_rolled_back(stage: Stage) -> None:
    way = delegate("clerk", on_rollback=undone(stage))
    parts: dict[str, Any] = {"boss": tries(delegates("clerk", "count")), "clerk": fails("torn", retryable=False)}
    team = stage.team([Agent("boss", handoffs=[way]), Agent("clerk")], cast(**parts))
    await stage.say(team, "how many?")
    await undo(stage, team, "story:3.0")
    assert await cleaned_up(stage) == [f"undone: clerk: {WHY}"]

    async def is_recorded() -> bool:  # a moment after it was done
        return len(await recorded(team, "RollbackDone")) == 1

    assert stage.lives > 1 or await soon(is_recorded, 5.0)


@story
async def a_delegate_whose_result_came_before_the_rollback_is_not_cleaned_up(stage: Stage) -> None:
    way = delegate("clerk", on_rollback=undone(stage))
    team = stage.team([Agent("boss", handoffs=[way]), pulled("clerk")], cast(boss=tries(delegates("clerk", "count"))))
    await stage.say(team, "how many?")
    [back] = came_back(await served(stage, team, "how many?", clerk=brings("Three.")))
    await error(IllegalTransition, team.rollback("story:3.0"))
    assert (back.response, stage.did, await recorded(team, "RollbackRequested")) == ("Three.", [], [])


@story
async def what_is_claimed_and_never_answered_times_out_from_the_claim_on(stage: Stage) -> None:
    for mode in MODES:
        clock = ManualClock()
        team = stage.team([Agent("desk", handoffs=()), pulled("clerk")], cast(), clock=clock)
        wishes = Expectations(timeout=60.0)
        ticket = await team.submit(package(mode=mode, conversation=mode, expectations=wishes))
        await clock.advance(600)  # in the queue nothing runs out
        await stage.claim(team, "clerk")
        await clock.advance(61)
        await error(HandoffTimeoutError, team.result(ticket, timeout=1))
        assert (await team.status(ticket)).state == "TIMEOUT"


@story
async def a_claim_that_is_given_back_gives_its_time_back(stage: Stage) -> None:
    for mode in MODES:
        clock = ManualClock()
        team = stage.team([Agent("desk", handoffs=()), pulled("clerk")], cast(), clock=clock)
        ticket = await team.submit(package(mode=mode, conversation=mode, expectations=MINUTE))
        for claim in await stage.claim(team, "clerk"):
            await clock.advance(59)
            await claim.give_back("too busy")
        await clock.advance(600)
        result = await brought(stage, team, ticket, clerk=brings("Three."))
        assert came(result) == ("clerk", DONE[mode], "Three.")


@story
async def a_delegate_that_is_accepted_late_has_the_rest_of_its_time_from_the_claim_on(stage: Stage) -> None:
    clock = ManualClock()
    team = stage.team([Agent("desk", handoffs=()), pulled("clerk")], cast(), clock=clock)
    ticket = await team.submit(package(expectations=MINUTE))
    for claim in await stage.claim(team, "clerk"):
        await clock.advance(50)
        await claim.accept()
        await clock.advance(9)
        assert (await team.status(ticket)).state == "WORKING" or stage.lives > 1
    await clock.advance(120 if stage.lives > 1 else 1)
    assert (await error(HandoffTimeoutError, team.result(ticket, timeout=5))).handoff.state == "TIMEOUT"


@story
async def a_worker_whose_agent_does_not_answer_in_time_gets_a_timeout(stage: Stage) -> None:
    hold, clock = Hold(), ManualClock()
    clerk = Agent("clerk", pull=True, accepts=keeps_thinking(hold))
    team = stage.team([Agent("desk", handoffs=()), clerk], cast(clerk=says("Three.")), clock=clock)
    ticket = await team.submit(package(expectations=MINUTE))
    worker = await stage.worker(team, "clerk")
    working = asyncio.ensure_future(worker.run())
    result = asyncio.ensure_future(error(HandoffTimeoutError, team.result(ticket, timeout=20)))
    await asyncio.wait({result, begun := asyncio.ensure_future(hold.begun.wait())}, return_when=FIRST_COMPLETED)
    begun.cancel()
    await clock.advance(60)
    assert (await result).handoff.reason == "it did not answer in time"
    worker.stop()
    hold.let_go.set()
    await working


def noted(stage: Stage, times: int = 0) -> Any:
    """What follows an acceptance; it fails so many times first."""
    tried: list[str] = []

    async def note(acceptance: Any) -> None:
        tried.append(acceptance.idempotency_key)
        if len(tried) <= times:
            raise OSError("the line is busy")
        stage.effects.append(f"{acceptance.handoff.sender} → {acceptance.handoff.receiver}: {len(set(tried))} key")

    return note


@story
async def what_follows_an_acceptance_is_called_once_it_is_recorded(stage: Stage) -> None:
    transfer, ask = handoff("billing", on_accepted=noted(stage)), delegate("clerk", on_accepted=noted(stage))
    sender = Agent("triage", handoffs=[transfer, ask])
    members = [sender, Agent("billing", handoffs=()), Agent("clerk", handoffs=())]
    parts: dict[str, Any] = {"triage": calls(delegates("clerk", "count"), hands_off("billing", "refund"))}
    team = stage.team(members, cast(**parts, billing=says("Refunded."), clerk=says("Three.")))
    await stage.say(team, "go")

    async def is_done() -> bool:
        return len(stage.did) == 2

    assert await soon(is_done, 5.0)
    assert stage.did == ["triage → clerk: 1 key", "triage → billing: 1 key"]


@story
async def what_follows_an_acceptance_is_retried_with_the_same_key_until_it_is_done(stage: Stage) -> None:
    way = handoff("billing", on_accepted=noted(stage, times=2))
    parts: dict[str, Any] = {"triage": hands_off("billing", "refund"), "billing": says("Refunded.")}
    team = stage.team([Agent("triage", handoffs=[way]), Agent("billing", handoffs=())], cast(**parts))
    result = await stage.say(team, "go")

    async def is_done() -> bool:
        return bool(stage.did)

    assert await soon(is_done, 5.0)
    assert (result.output, stage.did) == ("Refunded.", ["triage → billing: 1 key"])


@story
async def what_follows_the_acceptance_of_an_offer_that_is_never_accepted_is_not_called(stage: Stage) -> None:
    way = handoff("billing", on_accepted=noted(stage))
    closed = Agent("billing", accepts_handoffs=False)
    team = stage.team([Agent("triage", handoffs=[way]), closed], cast(triage=tries(hands_off("billing", "refund"))))
    assert (await stage.say(team, "go")).final_agent == "triage"
    assert (stage.did, await recorded(team, "FollowUpDone")) == ([], [])


@story
async def a_run_that_waits_for_a_person_says_so_while_a_follow_up_goes_on(stage: Stage) -> None:
    hold = Hold()

    @changeover.tool(approval=True)
    def refund() -> str:
        """Send money back."""
        return "sent"

    async def slowly(acceptance: Acceptance) -> None:
        await hold.on()
        stage.effects.append(acceptance.handoff.receiver)

    way = handoff("billing", strategy=changeover.MessageOnly(), on_accepted=slowly)
    members = [Agent("triage", handoffs=[way]), Agent("billing", tools=[refund])]
    parts: dict[str, Any] = {"triage": hands_off("billing", "refund"), "billing": tries(calls(("refund", {})))}
    team = stage.team(members, cast(**parts))
    result = await stage.say(team, "go")
    assert result.status == "waiting" or stage.lives > 1
    hold.let_go.set()
    assert await cleaned_up(stage) == ["billing"]
    await decide_all(team, Approve(), CONVERSATION)
    assert (await served(stage, team, "go")).output == "sent"


@story
async def a_run_that_is_cancelled_after_its_turn_finishes_the_turn(stage: Stage) -> None:
    hold = Hold()

    async def slow(messages: Sequence[Message]) -> Reply:
        if isinstance(messages[-1], ToolResult):
            return says("never asked")
        await hold.on()
        return calls(("count", {}))

    def count() -> str:
        """Count."""
        stage.effects.append("counted")
        return "3"

    team = stage.team([Agent("desk", tools=[count])], cast(desk=slow))
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "go"))
        await first_of(saying, hold.begun.wait)
        if not await recorded(team, "CancelRequested"):  # from an earlier life
            cancelling = group.create_task(team.cancel(CONVERSATION, after_turn=True))
            await told(team, CancelRequested)
            assert not cancelling.done()
        hold.let_go.set()
    result = saying.result()
    assert (result.status, stage.did) == ("cancelled", ["counted"])
    assert [each.text for each in await recorded(team, "ToolFinished")] == ["3"]


@story
async def a_turn_that_gives_the_answer_completes_the_run_though_it_was_to_be_cancelled_after_it(stage: Stage) -> None:
    hold = Hold()

    async def slow(messages: Sequence[Message]) -> Reply:
        await hold.on()
        return says("Three.")

    team = stage.team([Agent("desk")], cast(desk=slow))
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "go"))
        await first_of(saying, hold.begun.wait)
        if not await recorded(team, "CancelRequested"):
            group.create_task(team.cancel(CONVERSATION, after_turn=True))
            await told(team, CancelRequested)
        hold.let_go.set()
    assert (saying.result().status, saying.result().output) == ("completed", "Three.")


def night(ctx: RunContext) -> bool:
    return bool(ctx.context.get("hour", 12) < 6)


@story
async def a_rule_may_end_a_run_with_an_answer(stage: Stage) -> None:
    team = stage.team([Agent("desk")], cast(desk=says("Awake.")), rules=[Rule(if_=night, end="We sleep until six.")])
    result = await stage.say(team, "hello", context={"hour": 3})
    assert (result.output, result.status, result.usage.requests) == ("We sleep until six.", "completed", 0)
    assert (await stage.say(team, "hello", context={"hour": 9})).output == "Awake."
    assert len(await recorded(team, "RuleFired")) == 1


@story
async def a_rule_answers_for_a_delegate_that_it_names(stage: Stage) -> None:
    rules = [Rule(if_=lambda ctx: True, end="Closed.", agents=["clerk"])]
    ways = [delegate("clerk")]
    parts: dict[str, Any] = {"boss": tries(delegates("clerk", "count")), "clerk": says("Three.")}
    team = stage.team([Agent("boss", handoffs=ways), Agent("clerk")], cast(**parts), rules=rules)
    [back] = came_back(await stage.say(team, "how many?"))
    assert (back.success, back.response) == (True, "Closed.")


@story
async def a_rule_needs_no_name(stage: Stage) -> None:
    rules = [Rule(if_=night, goto="guard"), Rule(if_=lambda ctx: False, deny="never")]
    team = stage.team([Agent("desk"), Agent("guard")], cast(desk=says("Day."), guard=says("Night.")), rules=rules)
    result = await stage.say(team, "hello", context={"hour": 3})
    [fired] = await recorded(team, "RuleFired")
    assert (result.output, fired.rule) == ("Night.", "goto guard")


@story
async def a_rollback_restores_the_variables_that_a_handoff_replaced(stage: Stage) -> None:
    way = handoff("billing", merge="replace", variables=[changeover.Variable("order", "integer")])
    members = [Agent("triage", handoffs=[way]), pulled("billing")]
    team = stage.team(members, cast(triage=tries(hands_off("billing", "refund", order=7))))
    told: dict[str, Any] = {"context": {"plan": "gold", "order": 1}}
    await stage.say(team, "go", **told)
    if not await recorded(team, "RollbackRequested"):
        for claim in await stage.claim(team, "billing"):
            await claim.accept()
        assert "plan" not in (await stage.say_again(team, "go", **told)).variables or stage.lives > 1
        await team.rollback("story:3.0", reason="not now")
    result = await served(stage, team, "go", options=told)
    assert (result.final_agent, result.variables) == ("triage", {"plan": "gold", "order": 7})


@story
async def a_rollback_of_several_handoffs_restores_what_each_of_them_replaced(stage: Stage) -> None:
    def way(receiver: str, variable: str) -> Any:
        return handoff(receiver, merge="replace", variables=[changeover.Variable(variable)])

    members = [
        Agent("triage", handoffs=[way("billing", "order")]),
        Agent("billing", handoffs=[way("bank", "account")]),
        Agent("bank", handoffs=()),
    ]
    parts: dict[str, Any] = {"triage": sends_once(hands_off("billing", "refund", order="7"))}
    team = stage.team(members, cast(**parts, billing=hands_off("bank", "pay", account="x"), bank=says("Paid.")))
    result = await stage.say(team, "go", context={"plan": "gold"})
    assert result.variables == {"account": "x"}
    await undo(stage, team, "story:3.0")
    result = await stage.say(team, "and now?")
    assert (result.final_agent, result.variables) == ("triage", {"plan": "gold", "order": "7", "account": "x"})


@story
async def a_delegate_is_offered_only_while_its_condition_holds(stage: Stage) -> None:
    way = delegate("clerk", when=lambda ctx: ctx.context.get("tier") == "gold")
    team = stage.team([Agent("boss", handoffs=[way]), Agent("clerk")], cast(boss=says("Done."), clerk=says("Three.")))
    for tier, offered in {"gold": ["delegate_to_clerk"], "tin": []}.items():
        await stage.say(team, "go", context={"tier": tier}, conversation=tier)
        for request in stage.requests("boss"):
            if request.conversation == tier:
                assert [tool.name for tool in request.tools] == offered


@story
async def a_specialist_is_offered_only_while_its_condition_holds(stage: Stage) -> None:
    way = changeover.specialist(when=lambda ctx: ctx.context.get("tier") == "gold")
    team = stage.team([Agent("boss", handoffs=[way]), Agent("clerk")], cast(boss=says("Done."), clerk=says("Three.")))
    for tier, offered in {"gold": ["handoff_to_specialist"], "tin": []}.items():
        await stage.say(team, "go", context={"tier": tier}, conversation=tier)
        for request in stage.requests("boss"):
            if request.conversation == tier:
                assert [tool.name for tool in request.tools] == offered
                assert ("You can get help" in request.instructions) == bool(offered)


@story
async def a_delegate_whose_condition_does_not_hold_is_refused(stage: Stage) -> None:
    way = delegate("clerk", when=lambda ctx: False)
    team = stage.team([Agent("boss", handoffs=[way]), Agent("clerk")], cast(boss=tries(delegates("clerk", "count"))))
    result = await stage.say(team, "how many?")
    assert (result.output, result.handoff_chain) == ("refused: its condition is not met now", [])


class Shelf(BaseModel):
    """Where the parts are."""

    row: Literal["a", "b"]
    number: int = 1


@story
async def a_delegate_takes_a_pydantic_model_as_variables(stage: Stage) -> None:
    way = delegate("clerk", variables=Shelf)
    clerk = changeover.Function("clerk", lambda ctx: f"{ctx.context['row']}{ctx.context['number']}")
    bad = calls(("delegate_to_clerk", {"task": "count", "row": "z"}))
    good = calls(("delegate_to_clerk", {"task": "count", "context": "all of them", "row": "b"}))
    team = stage.team([Agent("boss", handoffs=[way]), clerk], cast(boss=tries(bad, good)))
    result = await stage.say(team, "how many?")
    assert "the arguments of delegate_to_clerk do not fit: row: " in result.output
    assert '"response":"b1"' in result.output
    for request in stage.requests("boss"):
        [shown] = request.tools
        assert list(shown.parameters["properties"]) == ["task", "context", "row", "number"]
        assert shown.parameters["required"] == ["task", "row"]


@story
async def a_delegate_takes_variables_as_a_handoff_does(stage: Stage) -> None:
    way = delegate("clerk", variables=[changeover.Variable("shelf", "integer")])
    members: list[changeover.Member] = [
        Agent("boss", handoffs=[way]),
        changeover.Function("clerk", lambda ctx: f"shelf {ctx.context['shelf']}"),
    ]
    turn = calls(("delegate_to_clerk", {"task": "count", "shelf": 4}))
    [back] = came_back(await stage.say(stage.team(members, cast(boss=tries(turn))), "how many?"))
    assert (back.success, back.response) == (True, "shelf 4")


@story
async def a_tool_is_offered_only_while_its_condition_holds(stage: Stage) -> None:
    @changeover.tool(when=lambda ctx: ctx.context.get("tier") == "gold")
    def refund() -> str:
        """Send money back."""
        stage.effects.append("refunded")
        return "sent"

    team = stage.team([Agent("desk", tools=[refund])], cast(desk=tries(calls(("refund", {})))))
    result = await stage.say(team, "go", context={"tier": "tin"})
    assert (stage.did, "sent" in result.output) == ([], False)
    for request in stage.requests("desk"):
        assert request.tools == ()


@story
async def an_offer_from_code_ends_after_fifteen_iterations(stage: Stage) -> None:
    def count() -> str:
        """Count."""
        return "3"

    team = office(stage, Agent("clerk", tools=[count]), clerk=calls(("count", {})))
    result = await team.offer(package(conversation="delegate"))
    assert (result.state, result.iterations, "max_iterations=15" in result.error) == ("FAILED", 15, True)
    over = await error(EconomicLimitExceeded, team.offer(package(mode="transfer", conversation="transfer")))
    assert ("max_iterations=15" in str(over), over.result and over.result.ledger.turns) == (True, 15)
    assert [str(each.state) for each in await team.handoffs("transfer")] == ["FAILED"]


@story
async def an_offer_from_code_may_take_as_many_iterations_as_its_package_says(stage: Stage) -> None:
    def count() -> str:
        """Count."""
        return "3"

    def clerk(messages: Sequence[Message]) -> Reply:
        counted = sum(isinstance(message, ToolResult) for message in messages)
        return calls(("count", {})) if counted < 16 else says("Three.")

    for mode in MODES:
        team = office(stage, Agent("clerk", tools=[count]), clerk=clerk)
        result = await team.offer(package(mode=mode, conversation=mode, max_iterations=17))
        assert (result.state, result.result, result.iterations) == (DONE[mode], "Three.", 17)


@story
async def a_required_value_of_the_wrong_type_is_reported_as_such(stage: Stage) -> None:
    needy = Agent("billing", requires=[changeover.Variable("amount", "integer")], handoffs=())
    team = stage.team(
        [Agent("triage", handoffs=["billing"]), needy], cast(triage=tries(hands_off("billing", "refund")))
    )
    result = await stage.say(team, "go", context={"amount": "many"})
    assert "amount must be an integer, not 'many'" in result.output

"""Stories of calls and handoffs that need the approval of a person."""

import asyncio
import json
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

from msgspec.structs import replace

from changeover import (
    Agent,
    Approval,
    ApprovalRequest,
    Approve,
    Edit,
    Reject,
    Respond,
    RunContext,
    RunResult,
    Team,
    Variable,
    delegate,
    handoff,
    tool,
)
from changeover.errors import ApprovalError
from changeover.guards.approval import Decision
from changeover.messages import Assistant, Message, ToolResult
from changeover.protocol import State
from changeover.relay.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalWaived,
    CallRefused,
    HandoffOffered,
    RunCompleted,
    ToolFinished,
    ToolStarted,
)
from changeover.relay.fold.approvals import request_of
from changeover.stores.memory.log import MemoryLog
from changeover.stream import RunFinished
from changeover.testing import ManualClock, Reply, ScriptedModel, calls, delegates, hands_off, says
from changeover.tools.tool import Tool, ToolDefinition
from tests.stories.stage import CONVERSATION, Stage, events, story
from tests.stories.turns import recites_results

Rule = Callable[[ApprovalRequest], Decision]
Play = Callable[[str, Sequence[Message], Sequence[ToolDefinition]], Reply]

PAY = calls(("pay", {"amount": 500}))


def pays(stage: Stage, **options: Any) -> Tool:
    """A tool about which a person is asked, unless it is declared otherwise."""

    def pay(amount: int) -> str:
        """Pay an amount."""
        stage.effects.append(f"paid {amount}")
        return f"paid {amount}"

    return tool(**{"approval": True, **options})(pay)


def does(**turns: Reply) -> Play:
    """Each agent takes its one turn, and answers with the results of it."""

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        acted = any(isinstance(message, Assistant) and message.agent == agent for message in messages)
        return recites_results(agent, messages, tools) if acted or agent not in turns else turns[agent]

    return play


def always(decision: Decision) -> Rule:
    return lambda request: decision


async def settled(stage: Stage, team: Team, waiting: RunResult, rule: Rule) -> RunResult:
    """Decide every open request until the run has ended, and return its result."""
    result, seen = waiting, set[str]()
    while result.status == "waiting":
        assert result.requests, "it waits, and nobody can see for what"
        for request in result.requests:
            assert request.id not in seen, f"{request} is still awaited after the decision"
            seen.add(request.id)
            await team.decide(request, rule(request), by="ana")
        result = await team.resume(waiting.conversation_id)
    for number, outcome in stage.outcomes.items():
        if outcome is waiting:
            stage.outcomes[number] = result
    return result


def must_wait(stage: Stage, result: RunResult) -> None:
    """A person is asked; in a later life everything may be decided already."""
    assert result.status == "waiting" or stage.lives > 1


async def decided(stage: Stage, team: Team, rule: Rule | Decision, text: str = "pay") -> RunResult:
    """Say something that has to wait for a person, and let her decide by this rule."""
    waiting = await stage.say(team, text)
    must_wait(stage, waiting)
    return await settled(stage, team, waiting, rule if callable(rule) else always(rule))


async def asked(team: Team, conversation: str = CONVERSATION) -> list[ApprovalRequest]:
    """Every request there ever was, also those that are decided."""
    return [
        request_of(record.conversation, record.event, record.at)
        for record in await team.history(conversation)
        if isinstance(record.event, ApprovalRequested)
    ]


async def refused_decision(team: Team, request: ApprovalRequest | str, decision: Any, by: str = "ana") -> str:
    """The error of a decision that cannot hold."""
    try:
        await team.decide(request, decision, by=by)
    except ApprovalError as error:
        return str(error)
    raise AssertionError(f"{decision} about {request} was taken")


def same_store(stage: Stage) -> dict[str, Any]:
    """Options by which two teams of a story share a store also where each would have its own."""
    return {} if "store" in stage._options else {"store": MemoryLog()}


@story
async def a_person_reads_the_declared_sentence_first(stage: Stage) -> None:
    said: dict[str, Any] = {
        "text": "Pay {amount} EUR to {whom}",
        "function": lambda ctx, arguments: f"{ctx.agent} pays {arguments['amount']}",
        "broken": lambda ctx, arguments: arguments["nothing"],
    }
    tools = [pays(stage, name=name, approval=Approval(summary=each)) for name, each in said.items()]
    turn = calls(*((name, {"amount": 500}) for name in said))
    team = stage.team([Agent("solo", tools=tools)], ScriptedModel(does(solo=turn)))
    await decided(stage, team, Approve())
    assert sorted(request.message for request in await asked(team)) == ["", "Pay 500 EUR to {whom}", "solo pays 500"]
    assert set(stage.did) == {"paid 500"}


@story
async def a_sentence_about_a_handoff_stands_before_its_message(stage: Stage) -> None:
    ways = [handoff("billing", approval=Approval(summary="Let billing see it"))]
    members = [Agent("triage", handoffs=ways), Agent("billing")]
    model = ScriptedModel(does(triage=hands_off("billing", "A refund, please."), billing=says("Done.")))
    team = stage.team(members, model)
    result = await decided(stage, team, Approve())
    assert result.output == "Done."
    [request] = await asked(team)
    assert request.message == "Let billing see it\n\nA refund, please."


@story
async def a_call_that_is_approved_is_carried_out(stage: Stage) -> None:
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)))
    result = await decided(stage, team, Approve())
    assert (result.output, result.status, result.requests) == ("paid 500", "completed", [])
    assert stage.did == ["paid 500"]
    assert [(each.decision, each.by) for each in await events(team, ApprovalDecided)] == [(Approve(), "ana")]
    assert await team.approvals() == []


@story
async def a_call_that_is_refused_is_not_carried_out_and_the_model_reads_the_note(stage: Stage) -> None:
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)))
    result = await decided(stage, team, Reject("above your limit"))
    assert result.output == "not approved by ana: above your limit"
    assert stage.did == []


@story
async def a_call_may_be_refused_without_a_note(stage: Stage) -> None:
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)))
    assert (await decided(stage, team, Reject())).output == "not approved by ana"
    assert stage.did == []


@story
async def a_call_that_is_edited_is_carried_out_so_and_the_model_is_told(stage: Stage) -> None:
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)))
    result = await decided(stage, team, Edit(arguments={"amount": 5}))
    assert result.output == 'paid 5 (a person changed the arguments to {"amount":5})'
    assert stage.did == ["paid 5"]


@story
async def a_call_that_is_responded_to_has_that_as_its_result(stage: Stage) -> None:
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)))
    assert (await decided(stage, team, Respond("Paid in cash."))).output == "Paid in cash."
    assert stage.did == []


@story
async def a_call_that_is_approved_may_still_fail(stage: Stage) -> None:
    @tool(approval=True)
    def pay(amount: int) -> str:
        """Pay an amount."""
        raise ValueError("no money")

    team = stage.team([Agent("solo", tools=[pay])], ScriptedModel(does(solo=PAY)))
    assert "no money" in (await decided(stage, team, Approve())).output


async def expired(stage: Stage, approval: Approval) -> RunResult:
    """The outcome of a request that is not decided within a minute."""
    clock, solo = ManualClock(), Agent("solo", tools=[pays(stage, approval=approval)])
    team = stage.team([solo], ScriptedModel(does(solo=PAY)), clock=clock)
    waiting = result = await stage.say(team, "pay")
    must_wait(stage, waiting)
    if waiting.status == "waiting":
        assert waiting.requests[0].expires_at is not None
        await clock.advance(waiting.requests[0].expires_at - clock.now() - 1)
        assert stage.did == []
        assert len(await team.approvals()) == 1
        await clock.advance(1)
        result = await team.resume(CONVERSATION)
    stage.outcomes[1] = result
    assert await team.approvals() == []
    [request] = await asked(team)
    assert request.expires_at is not None
    assert 60 <= request.expires_at - request.at < 61
    assert "when it expired" in await refused_decision(team, request, Respond("too late"))
    [verdict] = await events(team, ApprovalDecided)
    assert (verdict.expired, verdict.by) == (True, "")
    return result


@story
async def a_call_that_is_not_decided_in_time_is_refused(stage: Stage) -> None:
    assert (await expired(stage, Approval(expires=60))).output == "not approved: nobody decided in time"
    assert stage.did == []


@story
async def a_call_that_is_not_decided_in_time_is_approved_if_declared_so(stage: Stage) -> None:
    assert (await expired(stage, Approval(expires=60, on_expiry="approve"))).output == "paid 500"
    assert stage.did == ["paid 500"]


@story
async def a_request_that_may_expire_can_be_decided_before(stage: Stage) -> None:
    clock = ManualClock()
    pay = pays(stage, approval=Approval(expires=60))
    team = stage.team([Agent("solo", tools=[pay])], ScriptedModel(does(solo=PAY)), clock=clock)
    result = await decided(stage, team, Approve())
    await clock.advance(120)
    assert (result.output, stage.did) == ("paid 500", ["paid 500"])
    assert [each.expired for each in await events(team, ApprovalDecided)] == [False]


@story
async def of_two_decisions_the_first_holds_and_the_second_is_told_of_it(stage: Stage) -> None:
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)))
    result = await decided(stage, team, Approve())
    [request] = await asked(team)
    for again in (request, request.id):
        await team.decide(again, Approve(), by="ana")
    for other in (Reject(), Edit(arguments={"amount": 1}), Respond("no")):
        assert await refused_decision(team, request, other) == "this was approved already, by ana"
    assert "approved already, by ana" in await refused_decision(team, request.id, Approve(), by="bob")
    assert (result.output, stage.did, len(await events(team, ApprovalDecided))) == ("paid 500", ["paid 500"], 1)


@story
async def a_decision_holds_only_for_what_was_shown(stage: Stage) -> None:
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)))
    waiting = await stage.say(team, "pay")
    must_wait(stage, waiting)
    [request] = await asked(team)
    for other in (
        replace(request, arguments={"amount": 5}),
        replace(request, tool="look"),
        replace(request, agent="other"),
        replace(request, receiver="billing"),
        replace(request, message="please"),
        replace(request, call="9.9"),
    ):
        before = len(await team.history(CONVERSATION))
        await refused_decision(team, other, Approve())
        assert (len(await team.history(CONVERSATION)), stage.did) == (before, stage.did)
    if waiting.status == "waiting":
        assert (stage.did, [each.id for each in await team.approvals()]) == ([], [request.id])
    assert (await settled(stage, team, waiting, always(Approve()))).output == "paid 500"


@story
async def unknown_requests_and_invalid_decisions_are_refused_with_a_reason(stage: Stage) -> None:
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)))
    waiting = await stage.say(team, "pay")
    must_wait(stage, waiting)
    [request] = await asked(team)
    for id in ("", "nonsense", "a:b", "nowhere:3.0:0123456789abcdef", f"{CONVERSATION}:3.0:x:y", f"{CONVERSATION}::"):
        await refused_decision(team, id, Approve())
    for nothing in (True, "approve", None, Approve):
        assert "Approve()" in await refused_decision(team, request, nothing)
    assert (await settled(stage, team, waiting, always(Approve()))).output == "paid 500"
    assert stage.did == ["paid 500"]


@story
async def an_edit_that_does_not_fit_is_refused_and_the_request_stands(stage: Stage) -> None:
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)))
    waiting = await stage.say(team, "pay")
    must_wait(stage, waiting)
    for request in waiting.requests:
        assert "amount" in await refused_decision(team, request, Edit(arguments={"amount": "a lot"}))
        assert "amount" in await refused_decision(team, request, Edit(arguments={}))
        assert "dict" in await refused_decision(team, request, Edit(arguments=[5]))  # type: ignore[arg-type]
        assert "no handoff" in await refused_decision(team, request, Edit(receiver="solo"))
        assert "arguments" in await refused_decision(team, request, Edit())
        assert [each.id for each in await team.approvals()] == [request.id]
    assert (await settled(stage, team, waiting, always(Approve()))).output == "paid 500"
    assert stage.did == ["paid 500"]


@story
async def a_tool_that_was_removed_before_the_decision_is_gone_and_the_model_is_told(stage: Stage) -> None:
    shared, model = same_store(stage), ScriptedModel(does(solo=PAY))
    before = stage.team([Agent("solo", tools=[pays(stage)])], model, **shared)
    after = stage.team([Agent("solo")], model, **shared)
    waiting = await stage.say(before if stage.lives == 1 else after, "pay")
    must_wait(stage, waiting)
    result = await settled(stage, after, waiting, always(Approve()))
    assert (result.output, stage.did) == ("there is no tool called 'pay'; your tools: none", [])


@story
async def a_tool_that_was_changed_before_the_decision_is_not_given_what_it_does_not_take(stage: Stage) -> None:
    def changed(cents: int) -> str:
        """Pay an amount."""
        stage.effects.append(f"paid {cents} cents")
        return f"paid {cents} cents"

    shared, model = same_store(stage), ScriptedModel(does(solo=PAY))
    before = stage.team([Agent("solo", tools=[pays(stage)])], model, **shared)
    after = stage.team([Agent("solo", tools=[tool(name="pay", approval=True)(changed)])], model, **shared)
    waiting = await stage.say(before if stage.lives == 1 else after, "pay")
    must_wait(stage, waiting)
    result = await settled(stage, after, waiting, always(Approve()))
    assert "cents" in result.output
    assert "paid" not in result.output
    assert stage.did == []


@story
async def the_requests_of_one_turn_may_be_decided_in_any_order(stage: Stage) -> None:
    turn = calls(*(("pay", {"amount": amount}) for amount in (1, 2, 3)))
    verdicts: dict[int, Decision] = {1: Approve(), 2: Reject("not this one"), 3: Edit(arguments={"amount": 30})}
    expected = 'paid 1 | not approved by ana: not this one | paid 30 (a person changed the arguments to {"amount":30})'
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=turn)))
    for number, order in enumerate(permutations(verdicts)):
        waiting = await stage.say(team, "pay", conversation=f"order-{number}")
        must_wait(stage, waiting)
        pending = {request.arguments["amount"]: request for request in waiting.requests}
        for amount in order if len(pending) == 3 else pending:
            await team.decide(pending[amount], verdicts[amount], by="ana")
        done = await team.resume(f"order-{number}") if pending else waiting
        stage.outcomes[number + 1] = done
        assert done.output == expected
    assert stage.did == (["paid 1", "paid 30"] * 6 if stage.lives == 1 else ["paid 1", "paid 30"])


@story
async def what_needs_no_approval_is_done_beside_what_waits_for_one(stage: Stage) -> None:
    @tool(read_only=True)
    def look() -> str:
        """Look."""
        stage.effects.append("looked")
        return "looked"

    turn = calls(("pay", {"amount": 1}), ("look", {}))
    team = stage.team([Agent("solo", tools=[pays(stage), look])], ScriptedModel(does(solo=turn)))
    waiting = await stage.say(team, "pay and look")
    must_wait(stage, waiting)
    if stage.lives == 1:
        assert stage.did == ["looked"]
    assert (await settled(stage, team, waiting, always(Approve()))).output == "paid 1 | looked"


@story
async def what_comes_after_a_call_that_waits_waits_too(stage: Stage) -> None:
    def ship() -> str:
        """Ship the goods."""
        stage.effects.append("shipped")
        return "shipped"

    turn = calls(("pay", {"amount": 1}), ("ship", {}))
    team = stage.team([Agent("solo", tools=[pays(stage), ship])], ScriptedModel(does(solo=turn)))
    waiting = await stage.say(team, "pay and ship")
    must_wait(stage, waiting)
    if stage.lives == 1:
        assert stage.did == []
    assert (await settled(stage, team, waiting, always(Approve()))).output == "paid 1 | shipped"
    assert stage.did == ["paid 1", "shipped"]


@story
async def bad_arguments_are_not_asked_about(stage: Stage) -> None:
    turn = calls(("pay", {"amount": "a lot"}), ("pay", {}), ("pay", "amount: 5"))
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=turn)))
    result = await stage.say(team, "pay")
    assert (result.status, await events(team, ApprovalRequested)) == ("completed", [])
    assert [refused.why for refused in await events(team, CallRefused)] == ["arguments"] * 3
    assert stage.did == []


@story
async def while_it_waits_a_run_says_what_for_and_what_it_has_cost(stage: Stage) -> None:
    script = {"triage": [hands_off("billing", "pay it")], "billing": [PAY, says("Done.")]}
    team = stage.team([Agent("triage"), Agent("billing", tools=[pays(stage)])], ScriptedModel(script))
    waiting = await stage.say(team, "pay", context={"order": 7})
    must_wait(stage, waiting)
    if waiting.status == "waiting":
        assert (waiting.output, waiting.final_agent, waiting.conversation_id) == ("", "billing", CONVERSATION)
        assert (waiting.usage.requests, waiting.ledger.turns, waiting.ledger.handoffs) == (2, 2, 1)
        assert [each.receiver for each in waiting.handoff_chain] == ["billing"]
        assert waiting.context["order"] == 7
        [request] = waiting.requests
        assert (request.conversation, request.agent, request.tool) == (CONVERSATION, "billing", "pay")
        assert (request.arguments, request.receiver, request.expires_at) == ({"amount": 500}, "", None)
        assert [each.id for each in await team.approvals()] == [request.id]
        assert [each.id for each in await team.approvals(CONVERSATION)] == [request.id]
        assert await team.approvals("another") == []
    result = await settled(stage, team, waiting, always(Approve()))
    assert (result.output, result.run_id, result.usage.requests) == ("Done.", waiting.run_id, 3)


@story
async def the_stream_of_a_run_that_waits_ends_with_what_it_waits_for(stage: Stage) -> None:
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)))
    items = [item async for item in team.stream("pay", conversation=CONVERSATION, key="say-1")]
    finished = items[-1]
    assert isinstance(finished, RunFinished)
    must_wait(stage, finished.result)
    assert len(finished.result.requests) == (finished.result.status == "waiting")
    await settled(stage, team, finished.result, always(Approve()))
    assert (await stage.say(team, "pay")).output == "paid 500"


@story
async def requests_of_several_conversations_are_listed_together_the_oldest_first(stage: Stage) -> None:
    clock = ManualClock()
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)), clock=clock)
    ids, results = ["north", "south", "east"], list[RunResult]()
    for id in ids:
        results.append(await stage.say(team, "pay", conversation=id))
        await clock.advance(1)
    if stage.lives == 1:
        assert [each.conversation for each in await team.approvals()] == ids
    for id in ids:
        assert [each.conversation for each in await team.approvals(id)] in ([id], [] if stage.lives > 1 else [id])
    for result in reversed(results):
        must_wait(stage, result)
        left = [each.conversation for each in await team.approvals() if each.conversation != result.conversation_id]
        assert (await settled(stage, team, result, always(Approve()))).output == "paid 500"
        assert [each.conversation for each in await team.approvals()] == left


@story
async def a_function_says_which_calls_are_asked_about(stage: Stage) -> None:
    def large(ctx: RunContext, arguments: dict[str, Any]) -> bool:
        return bool(arguments["amount"] > ctx.context["limit"])

    turn = calls(("pay", {"amount": 5}), ("pay", {"amount": 500}))
    team = stage.team([Agent("solo", tools=[pays(stage, approval=large)])], ScriptedModel(does(solo=turn)))
    waiting = await stage.say(team, "pay", context={"limit": 100})
    must_wait(stage, waiting)
    assert [request.arguments["amount"] for request in await asked(team)] == [500]
    assert [waived.call for waived in await events(team, ApprovalWaived)] == ["3.0"]
    result = await settled(stage, team, waiting, always(Reject()))
    assert (result.output, stage.did) == ("paid 5 | not approved by ana", ["paid 5"])


@story
async def a_run_does_not_wait_if_a_function_waives_every_approval(stage: Stage) -> None:
    async def never(ctx: RunContext, arguments: dict[str, Any]) -> bool:
        return False

    team = stage.team(
        [Agent("solo", tools=[pays(stage, approval=Approval(when=never))])], ScriptedModel(does(solo=PAY))
    )
    assert (await stage.say(team, "pay")).output == "paid 500"
    assert await events(team, ApprovalRequested) == []


@story
async def a_function_that_cannot_say_whether_to_ask_has_a_person_asked(stage: Stage) -> None:
    def unsure(ctx: RunContext, arguments: dict[str, Any]) -> bool:
        raise LookupError("no such limit")

    team = stage.team([Agent("solo", tools=[pays(stage, approval=unsure)])], ScriptedModel(does(solo=PAY)))
    assert (await decided(stage, team, Approve())).output == "paid 500"
    assert len(await events(team, ApprovalRequested)) == 1


@story
async def a_program_may_decide_at_once(stage: Stage) -> None:
    def ask(request: ApprovalRequest) -> Decision:
        return Approve() if request.arguments["amount"] < 100 else Edit(arguments={"amount": 100})

    turn = calls(("pay", {"amount": 50}), ("pay", {"amount": 500}))
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=turn)), ask=ask)
    result = await stage.say(team, "pay")
    assert (result.status, stage.did) == ("completed", ["paid 50", "paid 100"])
    assert {each.by for each in await events(team, ApprovalDecided)} == {"ask"}


@story
async def a_program_may_take_its_time_to_decide(stage: Stage) -> None:
    async def ask(request: ApprovalRequest) -> Decision:
        return Reject("the program says no")

    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)), ask=ask)
    result = await stage.say(team, "pay")
    assert (result.output, stage.did) == ("not approved by ask: the program says no", [])


@story
async def what_a_program_leaves_undecided_waits_for_a_person(stage: Stage) -> None:
    async def ask(request: ApprovalRequest) -> Decision | None:
        return None

    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)), ask=ask)
    assert (await decided(stage, team, Approve())).output == "paid 500"
    assert [each.by for each in await events(team, ApprovalDecided)] == ["ana"]


@story
async def what_a_program_fails_to_decide_waits_for_a_person(stage: Stage) -> None:
    def ask(request: ApprovalRequest) -> Decision:
        raise ConnectionError("nobody is at the desk")

    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=PAY)), ask=ask)
    assert (await decided(stage, team, Approve())).output == "paid 500"
    assert [each.by for each in await events(team, ApprovalDecided)] == ["ana"]


@story
async def what_a_program_decides_wrongly_waits_for_a_person(stage: Stage) -> None:
    def ask(request: ApprovalRequest) -> Any:
        return Edit(arguments={"cents": 5}) if request.arguments["amount"] == 500 else "approve"

    turn = calls(("pay", {"amount": 500}), ("pay", {"amount": 1}))
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=turn)), ask=ask)
    assert (await decided(stage, team, Approve())).output == "paid 500 | paid 1"
    assert [each.by for each in await events(team, ApprovalDecided)] == ["ana", "ana"]


@story
async def a_tool_that_must_not_run_twice_is_begun_only_when_it_is_approved(stage: Stage) -> None:
    team = stage.team([Agent("solo", tools=[pays(stage, at_most_once=True)])], ScriptedModel(does(solo=PAY)))
    waiting = await stage.say(team, "pay")
    must_wait(stage, waiting)
    if waiting.status == "waiting":
        assert await events(team, ToolStarted) == []
    result = await settled(stage, team, waiting, always(Approve()))
    assert (result.output == "paid 500") or (stage.lives > 1 and "unknown" in result.output)
    assert stage.effects.count("paid 500") <= 1
    kinds = [type(record.event) for record in await team.history(CONVERSATION)]
    assert kinds.index(ApprovalDecided) < kinds.index(ToolStarted) < kinds.index(ToolFinished)


async def in_delegate(stage: Stage, decision: Decision) -> tuple[RunResult, str]:
    """A delegate has to ask; what came of it, and what its sender read."""
    play = does(lead=delegates("clerk", "pay it"), clerk=PAY)
    team = stage.team(
        [Agent("lead", handoffs=[delegate("clerk")]), Agent("clerk", tools=[pays(stage)], handoffs=())],
        ScriptedModel(play),
    )
    waiting = await stage.say(team, "pay")
    must_wait(stage, waiting)
    if waiting.status == "waiting":
        [request] = waiting.requests
        assert (request.conversation, request.agent, waiting.final_agent) == (f"{CONVERSATION}/3.0", "clerk", "lead")
        assert [each.id for each in await team.approvals(CONVERSATION)] == [request.id]
        assert stage.did == []
    result = await settled(stage, team, waiting, always(decision))
    [record] = await team.handoffs(CONVERSATION)
    assert (record.receiver, record.state) == ("clerk", State.RETURNED)
    return result, result.output


@story
async def a_delegate_waits_for_approval_and_its_sender_with_it(stage: Stage) -> None:
    result, read = await in_delegate(stage, Approve())
    assert (result.status, result.final_agent, stage.did) == ("completed", "lead", ["paid 500"])
    assert '"success":true' in read
    assert '"response":"paid 500"' in read


@story
async def a_delegate_that_is_refused_says_so_to_its_sender(stage: Stage) -> None:
    _, read = await in_delegate(stage, Reject("not now"))
    assert "not approved by ana: not now" in read
    assert stage.did == []


@story
async def two_delegates_wait_at_once(stage: Stage) -> None:
    turn = calls(delegates("left", "pay it"), delegates("right", "pay it"))
    clerks = [Agent(id, tools=[pays(stage)], handoffs=()) for id in ("left", "right")]
    play = does(lead=turn, left=calls(("pay", {"amount": 1})), right=calls(("pay", {"amount": 2})))
    team = stage.team([Agent("lead", handoffs=[delegate("left"), delegate("right")]), *clerks], ScriptedModel(play))
    waiting = await stage.say(team, "pay")
    must_wait(stage, waiting)
    if stage.lives == 1:
        assert sorted(each.agent for each in waiting.requests) == ["left", "right"]
    result = await settled(stage, team, waiting, lambda each: Approve() if each.agent == "right" else Reject("no"))
    left, right = result.output.split(" | ")
    assert "not approved by ana: no" in left
    assert "paid 2" in right
    assert stage.did == ["paid 2"]


@story
async def one_of_two_delegates_goes_on_while_the_other_waits(stage: Stage) -> None:
    turn = calls(delegates("left", "pay it"), delegates("right", "look"))
    members = [
        Agent("lead", handoffs=[delegate("left"), delegate("right")]),
        Agent("left", tools=[pays(stage)], handoffs=()),
        Agent("right", handoffs=()),
    ]
    play = does(lead=turn, left=PAY, right=says("I looked."))
    team = stage.team(members, ScriptedModel(play))
    waiting = await stage.say(team, "pay and look")
    must_wait(stage, waiting)
    if stage.lives == 1:
        assert [(each.agent, each.arguments) for each in waiting.requests] == [("left", {"amount": 500})]
    left, right = (await settled(stage, team, waiting, always(Approve()))).output.split(" | ")
    assert "paid 500" in left
    assert "I looked." in right


def desk(stage: Stage, **options: Any) -> Team:
    """A team whose first agent may hand off only if a person lets it."""
    way = handoff("billing", variables=[Variable("order")], approval=True)
    members = [Agent("triage", handoffs=[way]), Agent("billing", handoffs=()), Agent("tech", handoffs=())]
    return stage.team(members, ScriptedModel(does(triage=hands_off("billing", "refund", order="17"))), **options)


@story
async def a_transfer_waits_for_approval(stage: Stage) -> None:
    team = desk(stage)
    waiting = await stage.say(team, "refund")
    must_wait(stage, waiting)
    for request in waiting.requests:
        assert (request.agent, request.receiver, request.message) == ("triage", "billing", "refund")
        assert request.arguments == {"order": "17"}
        assert await events(team, HandoffOffered) == []
    result = await settled(stage, team, waiting, always(Approve()))
    assert (result.final_agent, result.context["order"]) == ("billing", "17")
    assert result.output == "transferred to billing"


@story
async def a_transfer_that_is_refused_is_not_made(stage: Stage) -> None:
    result = await decided(stage, desk(stage), Reject("ask them yourself"))
    assert (result.final_agent, result.handoff_chain) == ("triage", [])
    assert result.output == "not approved by ana: ask them yourself"


@story
async def a_transfer_may_be_given_another_receiver(stage: Stage) -> None:
    team = desk(stage)
    result = await decided(stage, team, Edit(receiver="tech"))
    assert ([each.receiver for each in result.handoff_chain], result.final_agent) == (["tech"], "tech")
    assert "transferred to tech" in result.output


@story
async def a_transfer_may_be_given_other_arguments(stage: Stage) -> None:
    result = await decided(stage, desk(stage), Edit(arguments={"order": "18"}))
    assert (result.final_agent, result.context["order"]) == ("billing", "18")
    assert result.output == 'transferred to billing (a person changed the arguments to {"order":"18"})'


@story
async def an_approval_cannot_send_a_transfer_to_an_unknown_receiver(stage: Stage) -> None:
    team = desk(stage)
    waiting = await stage.say(team, "refund")
    must_wait(stage, waiting)
    for request in waiting.requests:
        told = await refused_decision(team, request, Edit(receiver="sales"))
        assert "'sales'" in told
        assert "billing" in told
        assert "order" in await refused_decision(team, request, Edit(arguments={}))
        assert [each.id for each in await team.approvals()] == [request.id]
    assert (await settled(stage, team, waiting, always(Approve()))).final_agent == "billing"


@story
async def arguments_that_cannot_be_stored_are_refused_as_an_edit(stage: Stage) -> None:
    team = desk(stage)
    waiting = await stage.say(team, "refund")
    must_wait(stage, waiting)
    for request in waiting.requests:
        told = await refused_decision(team, request, Edit(arguments={"order": "\ud83d"}))
        assert "no log can keep these arguments ($.order: has half a character" in told
        assert [each.id for each in await team.approvals()] == [request.id]
    assert (await settled(stage, team, waiting, always(Approve()))).final_agent == "billing"


@story
async def a_transfer_is_asked_about_after_every_other_call_of_its_turn(stage: Stage) -> None:
    way = handoff("billing", approval=True)
    turn = calls(hands_off("billing", "refund"), ("pay", {"amount": 1}))
    members = [Agent("triage", tools=[pays(stage)], handoffs=[way]), Agent("billing", handoffs=())]
    team = stage.team(members, ScriptedModel(does(triage=turn)))
    result = await decided(stage, team, Approve(), "pay and refund")
    assert (result.final_agent, result.output) == ("billing", "transferred to billing | paid 1")
    assert [request.tool for request in await asked(team)] == ["pay", "handoff_to_billing"]
    kinds = [type(record.event) for record in await team.history(CONVERSATION)]
    assert kinds.index(ToolFinished) < kinds.index(HandoffOffered)


@story
async def of_two_transfers_the_second_is_made_if_the_first_is_refused(stage: Stage) -> None:
    ways = [handoff("billing", approval=True), handoff("tech")]
    turn = calls(hands_off("billing", "refund"), hands_off("tech", "repair"))
    members = [Agent("triage", handoffs=ways), Agent("billing", handoffs=()), Agent("tech", handoffs=())]
    team = stage.team(members, ScriptedModel(does(triage=turn)))
    result = await decided(stage, team, Reject("they are closed"), "help")
    assert result.final_agent == "tech"
    assert result.output == "not approved by ana: they are closed | transferred to tech"


@story
async def of_two_transfers_only_the_first_is_asked_about_if_it_is_approved(stage: Stage) -> None:
    ways = [handoff("billing", approval=True), handoff("tech", approval=True)]
    turn = calls(hands_off("billing", "refund"), hands_off("tech", "repair"))
    members = [Agent("triage", handoffs=ways), Agent("billing", handoffs=()), Agent("tech", handoffs=())]
    team = stage.team(members, ScriptedModel(does(triage=turn)))
    result = await decided(stage, team, Approve(), "help")
    assert result.final_agent == "billing"
    assert [request.receiver for request in await asked(team)] == ["billing"]


def office(stage: Stage) -> Team:
    """A team whose first agent may delegate only if a person lets it."""
    members = [Agent("lead", handoffs=[delegate("clerk", approval=True)]), Agent("clerk", handoffs=())]
    deputy = Agent("deputy", handoffs=())

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        if agent != "lead":
            return says(f"{agent} did: {messages[-1].text}")
        if isinstance(messages[-1], ToolResult):
            return recites_results(agent, messages, tools)
        return delegates("clerk", "count the money")

    return stage.team([*members, deputy], ScriptedModel(play))


@story
async def a_delegate_is_asked_only_if_it_is_approved(stage: Stage) -> None:
    team = office(stage)
    waiting = await stage.say(team, "count")
    must_wait(stage, waiting)
    for request in waiting.requests:
        assert (request.conversation, request.receiver, request.message) == (CONVERSATION, "clerk", "count the money")
        assert await events(team, HandoffOffered) == []
    result = await settled(stage, team, waiting, always(Approve()))
    assert "clerk did: count the money" in result.output
    assert [each.receiver for each in await team.handoffs(CONVERSATION)] == ["clerk"]


@story
async def a_delegate_that_is_not_approved_is_not_asked(stage: Stage) -> None:
    team = office(stage)
    result = await decided(stage, team, Reject("count it yourself"))
    assert (result.output, result.handoff_chain) == ("not approved by ana: count it yourself", [])
    assert await team.handoffs(CONVERSATION) == []


@story
async def another_delegate_may_be_asked_than_the_model_wanted(stage: Stage) -> None:
    team = office(stage)
    result = await decided(stage, team, Edit(arguments={"task": "count it twice"}, receiver="deputy"))
    told = json.loads(result.output)
    assert (told["agent"], told["response"]) == ("deputy", "deputy did: count it twice")
    assert 'a person changed the arguments to {"task":"count it twice"}' in told["note"]
    assert [each.receiver for each in await team.handoffs(CONVERSATION)] == ["deputy"]


@story
async def a_run_may_ask_more_than_once(stage: Stage) -> None:
    script = {"solo": [calls(("pay", {"amount": n})) for n in (1, 2, 3)] + [says("All paid.")]}
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(script))
    assert (await decided(stage, team, Approve())).output == "All paid."
    assert stage.did == ["paid 1", "paid 2", "paid 3"]
    assert len(await asked(team)) == 3


@story
async def the_next_run_begins_after_one_that_had_to_wait(stage: Stage) -> None:
    script = {"solo": [PAY, says("Paid."), says("You are welcome.")]}
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(script))
    assert (await decided(stage, team, Approve())).output == "Paid."
    assert (await stage.say(team, "thanks")).output == "You are welcome."


async def until_completed(team: Team, runs: int) -> None:
    """Wait until so many runs have ended, those of delegates among them."""
    for _ in range(2_000):
        if len(await events(team, RunCompleted)) >= runs:
            return
        await asyncio.sleep(0.002)
    raise AssertionError(f"{runs} runs should have ended by now")


@story
async def an_approval_three_levels_down_holds_up_all_above_it(stage: Stage) -> None:
    members = [
        Agent("one", handoffs=[delegate("two")]),
        Agent("two", handoffs=[delegate("three")]),
        Agent("three", handoffs=[delegate("four")]),
        Agent("four", tools=[pays(stage)], handoffs=()),
    ]
    play = does(one=delegates("two", "a"), two=delegates("three", "b"), three=delegates("four", "c"), four=PAY)
    team = stage.team(members, ScriptedModel(play))
    waiting = await stage.say(team, "pay")
    must_wait(stage, waiting)
    for request in waiting.requests:
        assert (request.agent, request.conversation.count("/")) == ("four", 3)
    result = await settled(stage, team, waiting, always(Approve()))
    assert (result.status, result.final_agent, stage.did) == ("completed", "one", ["paid 500"])
    assert "paid 500" in result.output
    assert [each.state for each in await team.handoffs(CONVERSATION)] == [State.RETURNED] * 3


@story
async def a_message_that_comes_while_a_run_waits_waits_too_and_is_answered_after_it(stage: Stage) -> None:
    script = {"solo": [PAY, says("Paid."), says("You are welcome.")]}
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(script))
    first = await stage.say(team, "pay")
    must_wait(stage, first)
    second = await stage.say(team, "thanks")
    if first.status == "waiting":
        assert (second.status, second.usage.requests, second.run_id != first.run_id) == ("waiting", 0, True)
        assert [each.id for each in second.requests] == [each.id for each in first.requests]
        assert (await team.resume(CONVERSATION)).status == "waiting"
    assert (await settled(stage, team, first, always(Approve()))).output == "Paid."
    await until_completed(team, 2)
    stage.outcomes[2] = result = await team.resume(CONVERSATION)
    assert (result.output, stage.did) == ("You are welcome.", ["paid 500"])


@story
async def a_caller_that_asks_again_while_a_run_waits_is_told_again_what_it_waits_for(stage: Stage) -> None:
    turn = calls(("pay", {"amount": 1}), ("pay", {"amount": 2}))
    team = stage.team([Agent("solo", tools=[pays(stage)])], ScriptedModel(does(solo=turn)))
    waiting = await stage.say(team, "pay")
    must_wait(stage, waiting)
    if len(waiting.requests) == 2:
        again = await team.run("pay", conversation=CONVERSATION, key="say-1")
        assert (again.status, again.run_id, again.requests) == ("waiting", waiting.run_id, waiting.requests)
        assert (await team.resume(CONVERSATION)).requests == waiting.requests
        await team.decide(waiting.requests[1], Approve(), by="ana")
        assert (await team.resume(CONVERSATION)).requests == waiting.requests[:1]
    result = stage.outcomes[1] = await settled(stage, team, await team.resume(CONVERSATION), always(Approve()))
    assert (result.output, stage.did) == ("paid 1 | paid 2", ["paid 1", "paid 2"])


@story
async def what_expires_in_a_delegate_lets_its_sender_go_on(stage: Stage) -> None:
    clock, pay = ManualClock(), pays(stage, approval=Approval(expires=60))
    members = [Agent("lead", handoffs=[delegate("clerk")]), Agent("clerk", tools=[pay], handoffs=())]
    model = ScriptedModel(does(lead=delegates("clerk", "pay it"), clerk=PAY))
    team = stage.team(members, model, clock=clock)
    result = await stage.say(team, "pay")
    must_wait(stage, result)
    if result.status == "waiting":
        await clock.advance(60)
        await until_completed(team, 2)
        result = stage.outcomes[1] = await team.resume(CONVERSATION)
    assert "nobody decided in time" in result.output

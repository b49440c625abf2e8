"""Stories of guards: they judge a handoff before it is offered."""

from collections.abc import Callable, Sequence
from typing import Any

from changeover import Agent, Approve, Command, Function, Limits, Reject, RunContext, Variable, delegate, handoff, tool
from changeover.errors import HandoffRefusedError
from changeover.facts import ApprovalRequest, Ledger
from changeover.guards import Allow, Ask, Deadlock, Deny
from changeover.guards.approval import Decision
from changeover.guards.guard import Answer, Facts, Offer
from changeover.messages import Message, ToolResult
from changeover.relay.events import CallRefused, FellBack
from changeover.testing import ScriptedModel, calls, hands_off, says
from changeover.testing.scripted import Line
from changeover.tools.tool import ToolDefinition
from tests.stories.approvals import must_wait, settled
from tests.stories.delegates import asks, cast
from tests.stories.stage import Stage, events, story


class Says:
    """A guard that always gives the same answer."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
        if isinstance(self._answer, Exception):
            raise self._answer
        answer: Answer = self._answer
        return answer


def tries_then_tells(messages: Sequence[Message]) -> Line:
    """Hand off and, if that is refused, tell the user why."""
    return says(messages[-1].text) if isinstance(messages[-1], ToolResult) else hands_off("billing", "Pay it.")


@story
async def a_handoff_that_a_guard_denies_is_reported_to_the_sender_which_goes_on(stage: Stage) -> None:
    members = [Agent("triage"), Agent("billing")]
    team = stage.team(members, cast(triage=tries_then_tells), guards=[Says(Allow()), Says(Deny("not on Sundays"))])
    result = await stage.say(team, "I was charged twice")
    assert (result.output, result.final_agent) == ("refused: not on Sundays", "triage")
    assert result.handoff_chain == []
    [refused] = await events(team, CallRefused)
    assert (refused.why, refused.receiver) == ("guard", "billing")


@story
async def a_guard_that_cannot_judge_denies(stage: Stage) -> None:
    odd: Any = 5
    answers = [
        (ValueError("what?"), "ValueError: what?"),
        (True, "returned True"),
        (Ask(odd), "returned Ask(question=5)"),
        (Deny(odd), "returned Deny(reason=5)"),
    ]
    for number, (answer, why) in enumerate(answers):
        members = [Agent("triage"), Agent("billing")]
        team = stage.team(members, cast(triage=tries_then_tells), guards=[Says(answer)])
        result = await stage.say(team, "I was charged twice", conversation=f"judge-{number}")
        assert why in result.output
        assert result.final_agent == "triage"


@story
async def a_guard_of_a_handoff_looks_at_that_handoff_alone(stage: Stage) -> None:
    ways = [handoff("billing", guards=[Says(Deny("closed"))]), handoff("technical")]

    def play(messages: Sequence[Message]) -> Line:
        return hands_off("technical" if isinstance(messages[-1], ToolResult) else "billing", "Take it.")

    members = [Agent("triage", handoffs=ways), Agent("billing"), Agent("technical")]
    result = await stage.say(stage.team(members, cast(triage=play, technical=says("Done."))), "Help!")
    assert (result.output, result.final_agent) == ("Done.", "technical")


@story
async def a_guard_knows_the_offer_the_ledger_and_what_went_before(stage: Stage) -> None:
    class Notes:
        def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
            known = (offer.sender, offer.receiver, offer.message, dict(offer.variables), offer.tool)
            stage.effects.append(f"{known} {ledger.handoffs} {[each.receiver for each in facts.trail]} {facts.user}")
            return Allow()

    way = handoff("billing", name="bill", variables=[Variable("order")])
    bills = calls(("bill", {"order": "17"}), text="Pay.")
    model = cast(triage=bills, billing=hands_off("payout", "Go."), payout=says("Ok."))
    members = [Agent("triage", handoffs=[way]), Agent("billing"), Agent("payout")]
    await stage.say(stage.team(members, model, guards=[Notes()]), "Refund!", user="ana", context={"tier": "gold"})
    assert stage.did == [
        "('triage', 'billing', 'Pay.', {'tier': 'gold', 'order': '17'}, 'bill') 0 [] ana",
        "('billing', 'payout', 'Go.', {'tier': 'gold', 'order': '17'}, 'handoff') 1 ['billing'] ana",
    ]


@story
async def a_guard_may_read_what_each_agent_spent(stage: Stage) -> None:
    class Thrift:
        def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
            own = ledger.by_agent[offer.sender]
            return Deny(f"{offer.sender} took {own.turns} of {ledger.turns} turns, {list(ledger.by_agent)}")

    members = [Agent("triage"), Agent("billing")]
    team = stage.team(members, cast(triage=tries_then_tells), guards=[Thrift()])
    result = await stage.say(team, "I was charged twice")
    assert result.output == "refused: triage took 1 of 1 turns, ['triage']"


@story
async def a_guard_has_a_person_asked_though_the_handoff_itself_would_not(stage: Stage) -> None:
    way = handoff("billing", approval=lambda ctx, arguments: False)
    members = [Agent("triage", handoffs=[way]), Agent("billing")]
    model = cast(triage=hands_off("billing", "Pay it."), billing=says("Paid."))
    team = stage.team(members, model, guards=[Says(Ask("May billing pay?"))])
    waiting = await stage.say(team, "I was charged twice")
    if waiting.status == "waiting":
        assert [request.message for request in waiting.requests] == ["May billing pay?"]
        await team.decide(waiting.requests[0], Approve(), by="somebody")
    assert (await stage.say_again(team, "I was charged twice")).output == "Paid."


@story
async def a_guard_may_have_a_person_asked(stage: Stage) -> None:
    members = [Agent("triage"), Agent("billing")]

    def asked(decision: Decision) -> Callable[[ApprovalRequest], Decision]:
        def decides(request: ApprovalRequest) -> Decision:
            assert (request.message, request.receiver) == ("Is that wise?", "billing")
            return decision

        return decides

    decisions: list[tuple[Decision, str]] = [(Approve(), "Paid."), (Reject("no money"), "no money")]
    for number, (decision, output) in enumerate(decisions):
        model = cast(triage=tries_then_tells, billing=says("Paid."))
        team = stage.team(members, model, guards=[Says(Ask("Is that wise?"))])
        where = f"ask-{number}"
        waiting = await stage.say(team, "Pay!", conversation=where)
        must_wait(stage, waiting)
        result = await settled(stage, team, waiting, asked(decision))
        assert output in result.output


@story
async def a_guard_looks_at_delegates_too(stage: Stage) -> None:
    boss = Agent("boss", handoffs=[delegate("clerk", guards=[Says(Deny("they sleep"))])])
    model = cast(boss=asks(("delegate_to_clerk", {"task": "count"})))
    result = await stage.say(stage.team([boss, Agent("clerk")], model), "How many?")
    assert result.output == "refused: they sleep"


def goes_round(*ring: str, work: bool = False) -> Callable[..., Line]:
    """Each agent hands on to the next in the ring; with `work`, after using a tool. A refused agent answers."""

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        last = messages[-1]
        if isinstance(last, ToolResult) and last.text.startswith("refused"):
            return says(last.text)
        done = isinstance(last, ToolResult) and last.name == "step"
        if work and not done:
            return calls(("step", {}))
        return hands_off(ring[(ring.index(agent) + 1) % len(ring)], f"Go on, number {len(messages)}.")

    return play


@story
async def agents_that_hand_the_same_around_are_stopped_and_told_the_cycle(stage: Stage) -> None:
    for ring in (("ping", "pong"), ("a", "b", "c", "d")):
        members = [Agent(name) for name in ring]
        team = stage.team(members, ScriptedModel(goes_round(*ring)))
        result = await stage.say(team, "Who takes it?", conversation="-".join(ring))
        cycle = " → ".join([*ring, ring[0], ring[1]])
        assert result.output == f"refused: deadlock: {cycle} goes round without progress"
        assert len(result.handoff_chain) == len(ring)


@story
async def agents_that_get_somewhere_may_go_round(stage: Stage) -> None:
    def step() -> str:
        """Do a step."""
        return "one step further"

    ring = ("a", "b", "c", "d")
    members = [Agent(name, tools=[step]) for name in ring]
    play = goes_round(*ring, work=True)

    def nine_times(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        steps = sum(isinstance(each, ToolResult) and each.name == "step" for each in messages)
        return says("There.") if steps == 9 else play(agent, messages, tools)

    result = await stage.say(stage.team(members, ScriptedModel(nine_times)), "Go!")
    assert (result.output, len(result.handoff_chain)) == ("There.", 8)


@story
async def the_very_same_handoff_is_refused_within_the_window(stage: Stage) -> None:
    @tool(read_only=True)
    def look() -> str:
        """Look."""
        return "seen"

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        last = messages[-1]
        if isinstance(last, ToolResult) and last.text.startswith("refused"):
            return says(last.text)
        if not (isinstance(last, ToolResult) and last.name == "look"):
            return calls(("look", {}))
        return hands_off("pong" if agent == "ping" else "ping", "Yours.")

    members = [Agent("ping", tools=[look]), Agent("pong", tools=[look])]
    result = await stage.say(stage.team(members, ScriptedModel(play)), "Whose?")
    assert result.output == "refused: deadlock: the same was handed over before (ping → pong → ping → pong)"


@story
async def a_window_of_one_sees_only_the_last_handoff(stage: Stage) -> None:
    @tool(read_only=True)
    def look() -> str:
        """Look."""
        return "seen"

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        last = messages[-1]
        if sum(isinstance(each, ToolResult) and each.name == "look" for each in messages) == 6:
            return says("Enough.")
        if not (isinstance(last, ToolResult) and last.name == "look"):
            return calls(("look", {}))
        return hands_off("pong" if agent == "ping" else "ping", "Yours.")

    members = [Agent("ping", tools=[look]), Agent("pong", tools=[look])]
    result = await stage.say(stage.team(members, ScriptedModel(play), guards=[Deadlock(window=1)]), "Whose?")
    assert (result.output, len(result.handoff_chain)) == ("Enough.", 5)


@story
async def a_handoff_to_oneself_with_another_message_is_not_a_deadlock(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        told = messages[-1].text
        count = int(told.rpartition(" ")[2]) if told.startswith("part") else 0
        return says("All parts.") if count == 4 else hands_off("writer", f"part {count + 1}")

    result = await stage.say(stage.team([Agent("writer"), Agent("other")], ScriptedModel(play)), "Write.")
    assert (result.output, len(result.handoff_chain)) == ("All parts.", 4)


@story
async def a_function_that_gets_nowhere_fails_with_the_cycle(stage: Stage) -> None:
    def onwards(ctx: RunContext) -> Command:
        return Command("pong" if ctx.agent == "ping" else "ping")

    team = stage.team([Function("ping", onwards), Function("pong", onwards)])
    error = await stage.error(HandoffRefusedError, team, "go")
    assert "deadlock" in str(error)
    assert "ping → pong → ping → pong" in str(error)


def only_gold(ctx: RunContext) -> bool:
    return bool(ctx.context["tier"] == "gold")


@story
async def a_handoff_with_a_condition_is_shown_only_while_it_holds(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        return says(", ".join(each.name for each in tools))

    ways = [handoff("vip", when=only_gold), handoff("desk")]
    members = [Agent("triage", handoffs=ways), Agent("vip"), Agent("desk")]
    for number, (context, shown) in enumerate(
        [
            ({"tier": "gold"}, "handoff_to_vip, handoff_to_desk"),
            ({"tier": "tin"}, "handoff_to_desk"),
            ({}, "handoff_to_desk"),
        ]
    ):
        team = stage.team(members, ScriptedModel(play))
        result = await stage.say(team, "Hello", context=context, conversation=f"tier-{number}")
        assert result.output == shown


@story
async def a_condition_is_asked_again_when_the_handoff_is_called(stage: Stage) -> None:
    members = [Agent("triage", handoffs=[handoff("billing", when=only_gold)]), Agent("billing")]
    for number, (context, why) in enumerate(
        [({"tier": "tin"}, "its condition is not met now"), ({}, "could not be judged: KeyError: 'tier'")]
    ):
        team = stage.team(members, cast(triage=asks(("handoff_to_billing", {}))))
        result = await stage.say(team, "Pay!", context=context, conversation=f"called-{number}")
        assert (result.final_agent, why in result.output) == ("triage", True)


@story
async def with_a_fallback_an_agent_that_may_hand_off_no_more_goes_on_alone(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        if not tools:
            return says(f"alone: {messages[-1].text}")
        return hands_off("pong" if agent == "ping" else "ping", f"{len(messages)}")

    members, limits = [Agent("ping"), Agent("pong")], Limits(max_handoffs=2)
    team = stage.team(members, ScriptedModel(play), guards=(), limits=limits, fallback=True)
    result = await stage.say(team, "play")
    assert (result.final_agent, len(result.handoff_chain), result.fell_back) == ("ping", 2, True)
    assert "all its 2 handoffs" in result.output
    [fell] = await events(team, FellBack)
    assert "all its 2 handoffs" in fell.reason


@story
async def with_a_fallback_an_agent_that_names_no_known_receiver_goes_on_alone(stage: Stage) -> None:
    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Line:
        return says(f"alone: {messages[-1].text}") if not tools else hands_off("nobody", "Take it.")

    team = stage.team([Agent("triage"), Agent("billing")], ScriptedModel(play), fallback=True)
    result = await stage.say(team, "Help!")
    assert (result.final_agent, result.fell_back) == ("triage", True)
    assert result.output == "alone: no agent is called 'nobody'; go on by yourself"


@story
async def with_a_fallback_no_person_is_asked_when_all_decline(stage: Stage) -> None:
    way = handoff("a", name="pass_on", alternatives=["b", "c"])
    members = [Agent("triage", handoffs=[way]), *(Agent(name, accepts_handoffs=False) for name in "abc")]

    def play(messages: Sequence[Message]) -> Line:
        return says(messages[-1].text) if isinstance(messages[-1], ToolResult) else calls(("pass_on", {}))

    result = await stage.say(stage.team(members, cast(triage=play), fallback=True), "Help!")
    assert (result.status, result.fell_back) == ("completed", True)
    assert "c did not take it" in result.output


@story
async def without_trouble_nothing_falls_back(stage: Stage) -> None:
    model = cast(triage=hands_off("billing", "Pay."), billing=says("Paid."))
    team = stage.team([Agent("triage"), Agent("billing")], model, fallback=True)
    result = await stage.say(team, "Help!")
    assert (result.output, result.fell_back) == ("Paid.", False)


@story
async def a_model_that_does_not_listen_to_a_guard_ends_the_run(stage: Stage) -> None:
    def stubborn(messages: Sequence[Message]) -> Line:
        return hands_off("billing", f"Please! ({len(messages)})")

    team = stage.team([Agent("triage"), Agent("billing")], cast(triage=stubborn), guards=[Says(Deny("not on Sundays"))])
    error = await stage.error(HandoffRefusedError, team, "I was charged twice")
    assert "not on Sundays" in str(error)
    assert len(await events(team, CallRefused)) == 3

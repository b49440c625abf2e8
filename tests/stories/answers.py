"""Stories of what a receiver says to a handoff: yes or no, in every form in which it can be said."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from changeover import (
    AUTO,
    Accepted,
    Agent,
    HandoffPackage,
    HandoffRecord,
    Limits,
    Rejected,
    RunResult,
    State,
    Team,
    Variable,
    delegate,
    handoff,
    tool,
)
from changeover.errors import MaxHandoffsExceededError
from changeover.messages import Assistant, Message, ToolResult
from changeover.relay.events import (
    CallRefused,
    HandoffAccepted,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    ToolFinished,
)
from changeover.testing import Reply, calls, delegates, hands_off, says
from tests.stories.cancelling import Hold, assert_at_rest, ended_at, first_of
from tests.stories.delegates import Says, asks, boss, came_back, cast, read, results
from tests.stories.stage import CONVERSATION, Stage, events, story

Accepts = Callable[[HandoffPackage], Any]

REFUND = hands_off("billing", "refund")


def tries(*turns: Reply) -> Says:
    """Take these turns, one after the other, and then answer with all that came of them."""

    def play(messages: Sequence[Message]) -> Reply:
        taken = sum(bool(message.calls) for message in messages if isinstance(message, Assistant))
        return turns[taken] if taken < len(turns) else tells(messages)

    return play


def tells(messages: Sequence[Message]) -> Reply:
    """All results that there are to read, in their order."""
    return says(" | ".join(message.text for message in messages if isinstance(message, ToolResult)))


def chain(result: RunResult) -> list[tuple[str, str, int]]:
    """To whom a run handed over, how that stands, and the how-manieth attempt it was."""
    return [(each.receiver, str(each.state), each.attempt) for each in result.handoff_chain]


def follow_each_other(records: Sequence[HandoffRecord]) -> bool:
    """Whether each of these handoffs says that it follows the one before it."""
    return [each.retry_of for each in records] == ["", *(each.id for each in records[:-1])]


def declines(reason: str, suggested: str | None = None) -> Accepts:
    return lambda package: Rejected(reason, suggested)


def triage(*ways: Any, **options: Any) -> Agent:
    return Agent("triage", handoffs=ways or AUTO, **options)


def refund_desk(stage: Stage, accepts: Accepts) -> Team:
    """Triage hands over to billing, which says to it what `accepts` says."""
    model = cast(triage=tries(REFUND), billing=says("Refunded."))
    return stage.team([triage(), Agent("billing", accepts=accepts)], model)


async def later(answer: Any) -> Any:
    await asyncio.sleep(0)
    return answer


def breaks(package: HandoffPackage) -> bool:
    raise ConnectionError("the calendar is down")


async def breaks_later(package: HandoffPackage) -> bool:
    await asyncio.sleep(0)
    raise ConnectionError("the calendar is down")


async def agrees_later(package: HandoffPackage) -> Accepted:
    await asyncio.sleep(0)
    return Accepted(30)


YES: dict[str, Accepts] = {
    "true": lambda package: True,
    "none": lambda package: None,
    "accepted": lambda package: Accepted(),
    "async": agrees_later,
    "awaitable": lambda package: later(True),
}
NO: dict[str, tuple[Accepts, str]] = {
    "false": (lambda package: False, "it does not accept this task"),
    "rejected": (declines("we are closed"), "we are closed"),
    "awaitable": (lambda package: later(Rejected("not today")), "not today"),
    "unknown-suggestion": (declines("ask them", "nobody"), "ask them"),
}
NONSENSE: dict[str, tuple[Accepts, str]] = {
    "raises": (breaks, "it could not answer: ConnectionError: the calendar is down"),
    "raises-later": (breaks_later, "it could not answer: ConnectionError: the calendar is down"),
    "text": (lambda package: "no, thanks", "it could not answer: TypeError: accepts returned the text 'no, thanks'"),
    "number": (lambda package: 1, "it could not answer: TypeError: accepts returned 1, of type int"),
    "class": (lambda package: Accepted, "it could not answer: TypeError: accepts returned"),
    "bad-seconds": (lambda package: Accepted(-5), "it could not answer: TypeError: accepts returned Accepted(…)"),
}


@story
async def a_receiver_that_says_yes_in_any_form_takes_over(stage: Stage) -> None:
    for name, accepts in YES.items():
        team = refund_desk(stage, accepts)
        result = await stage.say(team, "charged twice", conversation=name)
        assert (result.output, result.final_agent, chain(result)) == (
            "Refunded.",
            "billing",
            [("billing", "COMPLETE", 1)],
        )
        [accepted] = await events(team, HandoffAccepted, name)
        assert accepted.estimate == (30 if name == "async" else None)


@story
async def a_receiver_that_says_no_in_any_form_leaves_the_task_to_its_sender(stage: Stage) -> None:
    for name, (accepts, reason) in NO.items():
        team = refund_desk(stage, accepts)
        result = await stage.say(team, "charged twice", conversation=name)
        assert result.output == f"billing did not take it: {reason}; you still have the task"
        assert (result.final_agent, chain(result)) == ("triage", [("billing", "REJECTED", 1)])
        assert (result.handoff_chain[0].error, result.handoff_chain[0].task_id) == (reason, "")
        assert [each.why for each in await events(team, CallRefused, name)] == ["declined"]


@story
async def a_receiver_that_cannot_say_whether_it_takes_a_task_does_not_take_it(stage: Stage) -> None:
    for name, (accepts, reason) in NONSENSE.items():
        result = await stage.say(refund_desk(stage, accepts), "charged twice", conversation=name)
        assert result.output.startswith(f"billing did not take it: {reason}")
        assert (result.status, chain(result)) == ("completed", [("billing", "REJECTED", 1)])
        assert result.handoff_chain[0].error.startswith(reason)


@story
async def a_delegate_that_says_no_comes_back_without_success(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "count")))
    team = stage.team([boss(), Agent("clerk", accepts=declines("I cannot count"))], model)
    result = await stage.say(team, "how many?")
    [back] = came_back(result)
    assert (back.handoff_id, back.agent, back.success) == ("story:3.0", "clerk", False)
    assert back.error == "clerk did not take it: I cannot count"
    assert (result.final_agent, chain(result)) == ("boss", [("clerk", "REJECTED", 1)])
    assert [each.conversation for each in await team.history(CONVERSATION)].count(f"{CONVERSATION}/3.0") == 0


@story
async def a_delegate_that_says_yes_works_and_comes_back(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "count")), clerk=says("Three."))
    team = stage.team([boss(), Agent("clerk", accepts=agrees_later)], model)
    result = await stage.say(team, "how many?")
    [back] = came_back(result)
    assert (back.success, back.response, chain(result)) == (True, "Three.", [("clerk", "RETURNED", 1)])
    assert [each.estimate for each in await events(team, HandoffAccepted)] == [30]


@story
async def whoever_takes_no_handoffs_is_not_handed_over_to(stage: Stage) -> None:
    ways = ["billing", delegate("billing")]
    model = cast(triage=tries(REFUND, delegates("billing", "refund")), billing=says("Here I am."))
    team = stage.team([triage(*ways), Agent("billing", accepts_handoffs=False)], model)
    result = await stage.say(team, "charged twice")
    transferred, delegated = result.output.split(" | ")
    assert transferred == "billing did not take it: it takes no handoffs; you still have the task"
    assert read(delegated).error == "billing did not take it: it takes no handoffs"
    assert chain(result) == [("billing", "REJECTED", 1), ("billing", "REJECTED", 2)]
    assert (await stage.say(team, "billing, please", agent="billing")).output == "Here I am."


@story
async def a_receiver_is_shown_the_package(stage: Stage) -> None:
    def looks(package: HandoffPackage) -> bool:
        about, who = package.context, package.metadata
        assert (package.task.description, package.task.id) == ("refund it", "story:3.0")
        assert (about.original_request, about.variables) == ("charged twice", {"plan": "gold", "order": "17"})
        assert [(each.author, each.role, each.text) for each in about.history[:2]] == [
            ("ana", "user", "charged twice"),
            ("triage", "agent", "refund it"),
        ]
        assert (who.sender, who.receiver, str(who.mode), who.reason) == ("triage", "billing", "transfer", "refund it")
        assert (who.instructions, who.attempt, who.conversation) == ("Be kind.", 1, CONVERSATION)
        assert (who.user, who.correlation_id, who.extra) == ("ana", "c-1", {})
        assert who.deadline is not None
        return True

    way = handoff("billing", variables=[Variable("order")], instructions="Be kind.", timeout=60)
    model = cast(triage=tries(hands_off("billing", "refund it", order="17")), billing=says("Refunded."))
    team = stage.team([triage(way), Agent("billing", accepts=looks)], model)
    options: dict[str, Any] = {"context": {"plan": "gold"}, "user": "ana", "correlation_id": "c-1"}
    result = await stage.say(team, "charged twice", **options)
    assert (result.output, result.handoff_chain[0].error) == ("Refunded.", "")


@tool(read_only=True)
def look() -> str:
    """Look."""
    return "looked"


@story
async def what_else_a_turn_holds_is_done_though_its_handoff_is_rejected(stage: Stage) -> None:
    turn = calls(REFUND, ("look", {}), hands_off("tech", "repair"), delegates("clerk", "count"))
    model = cast(triage=tries(turn), clerk=says("Three."))
    ways = ["billing", "tech", delegate("clerk")]
    others = [Agent("tech"), Agent("clerk"), Agent("billing", accepts=declines("closed"))]
    team = stage.team([triage(*ways, tools=[look]), *others], model)
    result = await stage.say(team, "charged twice")
    refund, looked, repair, counted = result.output.split(" | ")
    assert refund == "billing did not take it: closed; you still have the task"
    assert (looked, read(counted).response) == ("looked", "Three.")
    assert repair == "ignored: this conversation already goes to billing"
    assert chain(result) == [("clerk", "RETURNED", 1), ("billing", "REJECTED", 1)]
    assert result.final_agent == "triage"
    own = [type(each.event) for each in await team.history(CONVERSATION) if each.conversation == CONVERSATION]
    asked = own.index(HandoffRejected)
    assert own.index(ToolFinished) < asked
    assert own.index(HandoffReturned) < asked


@story
async def what_else_a_turn_holds_is_done_before_its_handoff_is_accepted(stage: Stage) -> None:
    def accepts(package: HandoffPackage) -> bool:
        stage.effects.append("asked")
        return True

    @tool
    def save() -> str:
        """Save."""
        stage.effects.append("saved")
        return "saved"

    turn = calls(REFUND, ("save", {}), hands_off("tech", "repair"))
    model = cast(triage=tries(turn), billing=tells)
    team = stage.team([triage(tools=[save]), Agent("billing", accepts=accepts), Agent("tech")], model)
    result = await stage.say(team, "charged twice")
    transferred, saved, ignored = result.output.split(" | ")
    assert (transferred, saved) == ("transferred to billing", "saved")
    assert ignored == "ignored: this conversation already goes to billing"
    assert (chain(result), stage.did) == ([("billing", "COMPLETE", 1)], ["saved", "asked"])


@story
async def a_delegate_that_says_no_does_not_hold_up_the_one_beside_it(stage: Stage) -> None:
    turn = asks(delegates("clerk", "count"), delegates("scribe", "write"))
    model = cast(boss=turn, scribe=says("Written."))
    members = [boss(delegate("clerk"), delegate("scribe")), Agent("clerk", accepts=declines("no")), Agent("scribe")]
    result = await stage.say(stage.team(members, model), "count and write")
    assert [(back.agent, back.success) for back in came_back(result)] == [("clerk", False), ("scribe", True)]
    assert {(each.receiver, each.state) for each in result.handoff_chain} == {
        ("clerk", State.REJECTED),
        ("scribe", State.RETURNED),
    }


@story
async def a_delegate_is_told_that_its_own_delegate_said_no(stage: Stage) -> None:
    def clerk(messages: Sequence[Message]) -> Reply:
        found = results(messages)
        return says(f"Without help: {read(found[0].text).error}") if found else delegates("expert", "count")

    members = [
        boss(),
        Agent("clerk", handoffs=[delegate("expert")]),
        Agent("expert", accepts=declines("too easy"), handoffs=()),
    ]
    team = stage.team(members, cast(boss=asks(delegates("clerk", "count")), clerk=clerk))
    result = await stage.say(team, "how many?")
    [back] = came_back(result)
    assert (back.success, back.response) == (True, "Without help: expert did not take it: too easy")
    assert [(each.sender, each.receiver, each.state) for each in await team.handoffs(CONVERSATION)] == [
        ("boss", "clerk", State.RETURNED),
        ("clerk", "expert", State.REJECTED),
    ]
    assert (result.ledger.handoffs, result.ledger.agents) == (1, 2)


@story
async def a_handoff_that_was_rejected_is_none_that_a_limit_counts(stage: Stage) -> None:
    model = cast(triage=tries(REFUND, hands_off("tech", "refund")), tech=says("Done."))
    members = [triage(), Agent("billing", accepts=declines("no")), Agent("tech")]
    team = stage.team(members, model, limits=Limits(max_handoffs=1))
    result = await stage.say(team, "charged twice")
    assert (result.output, result.ledger.handoffs) == ("Done.", 1)
    assert chain(result) == [("billing", "REJECTED", 1), ("tech", "COMPLETE", 2)]


@story
async def a_limit_that_is_reached_is_reached_also_after_a_rejected_handoff(stage: Stage) -> None:
    model = cast(triage=tries(REFUND, hands_off("tech", "refund")), tech=hands_off("triage", "back"))
    members = [triage(), Agent("billing", accepts=declines("no")), Agent("tech")]
    team = stage.team(members, model, limits=Limits(max_handoffs=1))
    error = await stage.error(MaxHandoffsExceededError, team, "charged twice")
    assert error.result is not None
    assert chain(error.result) == [("billing", "REJECTED", 1), ("tech", "FAILED", 2)]
    assert error.result.ledger.handoffs == 1


@story
async def delegates_that_were_rejected_leave_room_for_others_under_the_limit(stage: Stage) -> None:
    turns = [delegates("clerk", "a"), delegates("deputy", "b"), delegates("clerk", "c"), delegates("deputy", "d")]
    model = cast(boss=tries(*turns), deputy=says("Done."))
    members = [boss(delegate("clerk"), delegate("deputy")), Agent("clerk", accepts=declines("no")), Agent("deputy")]
    result = await stage.say(stage.team(members, model, limits=Limits(max_handoffs=2)), "go")
    assert [back.success for back in came_back(result)] == [False, True, False, True]
    assert (result.ledger.handoffs, [h.state for h in result.handoff_chain]) == (
        *(2, ["REJECTED", "RETURNED", "REJECTED", "RETURNED"]),
    )


async def at_once(stage: Stage, *ways: Any) -> RunResult:
    """The boss asks a clerk, who can do one thing at a time, for two at once."""

    async def clerk(messages: Sequence[Message]) -> Reply:
        await asyncio.sleep(0.05)
        return says(f"{messages[-1].text} done")

    model = cast(boss=asks(delegates("clerk", "one"), delegates("clerk", "two")), clerk=clerk, deputy=says("deputised"))
    members = [boss(*ways), Agent("clerk", max_concurrency=1), Agent("deputy")]
    return await stage.say(stage.team(members, model), "both")


@story
async def whoever_can_do_one_thing_at_a_time_does_not_take_a_second(stage: Stage) -> None:
    backs = came_back(await at_once(stage))
    # Which of them it takes is its own affair. In a later life one may be done before the other is asked for.
    assert sorted(back.success for back in backs) == [False, True] or (stage.lives > 1 and backs[0].success)
    full = "clerk did not take it: it works on 1 tasks, which is all it can do at once"
    for task, back in zip(("one", "two"), backs, strict=True):
        assert (back.response, back.error) in ((f"{task} done", ""), ("", full))


@story
async def what_somebody_has_no_room_for_goes_to_the_alternative(stage: Stage) -> None:
    result = await at_once(stage, delegate("clerk", alternatives=["deputy"]))
    backs = came_back(result)
    assert [back.success for back in backs] == [True, True]
    if stage.lives == 1:
        assert sorted(back.agent for back in backs) == ["clerk", "deputy"]
        assert sorted(chain(result)) == [("clerk", "REJECTED", 1), ("clerk", "RETURNED", 1), ("deputy", "RETURNED", 2)]


@story
async def whoever_works_for_one_user_has_no_room_for_the_next_until_that_is_done(stage: Stage) -> None:
    hold = Hold()

    async def billing(messages: Sequence[Message]) -> Reply:
        if messages[0].text == "first":
            await hold.on()
        return says("Refunded.")

    team = stage.team([triage(), Agent("billing", max_concurrency=1)], cast(triage=tries(REFUND), billing=billing))
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "first", conversation="one"))
        await first_of(saying, hold.begun.wait)
        second = await stage.say(team, "second", conversation="two")
        hold.let_go.set()
    assert (saying.result().output, saying.result().final_agent) == ("Refunded.", "billing")
    if stage.lives == 1:
        assert "it works on 1 tasks" in second.output
    third = await stage.say(team, "third", conversation="three")
    assert (third.output, chain(third)) == ("Refunded.", [("billing", "COMPLETE", 1)])
    offered = await events(team, HandoffOffered, "three")
    assert [each.attempt for each in offered] == [1]


@story
async def what_a_receiver_does_to_the_package_changes_nothing(stage: Stage) -> None:
    def scribbles(package: HandoffPackage) -> bool:
        package.context.variables["plan"] = "none"
        package.context.variables["items"].append("a bribe")
        return True

    result = await stage.say(refund_desk(stage, scribbles), "charged twice", context={"plan": "gold", "items": ["a"]})
    assert (result.context["plan"], result.context["items"]) == ("gold", ["a"])


async def cancelled_while_asked(stage: Stage, sender: Agent, turn: Says) -> RunResult:
    """How a run ends that is cancelled while a receiver thinks about what it is offered."""
    hold = Hold()

    async def accepts(package: HandoffPackage) -> bool:
        await hold.on()
        return True

    team = stage.team([sender, Agent("clerk", accepts=accepts)], cast(**{sender.id: turn}))
    result = await ended_at(stage, team, hold.begun.wait)
    hold.let_go.set()
    assert (result.status, result.final_agent, chain(result)) == ("cancelled", sender.id, [("clerk", "RETURNED", 1)])
    assert await events(team, HandoffAccepted) == []
    await assert_at_rest(team)
    return result


@story
async def a_run_is_cancelled_while_a_receiver_thinks_about_taking_over(stage: Stage) -> None:
    await cancelled_while_asked(stage, triage(), tries(hands_off("clerk", "refund")))


@story
async def a_run_is_cancelled_while_a_delegate_thinks_about_its_task(stage: Stage) -> None:
    await cancelled_while_asked(stage, boss(), asks(delegates("clerk", "count")))

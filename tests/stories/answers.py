"""Stories of a receiver's answer to a handoff: acceptance and rejection, in every form."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from changeover import AUTO, Agent, RunResult, Team, Variable, delegate, handoff
from changeover.messages import Assistant, Message, ToolResult
from changeover.protocol import Accepted, HandoffPackage, HandoffRecord, Rejected
from changeover.relay.events import CallRefused, HandoffAccepted
from changeover.testing import Reply, delegates, hands_off, says
from tests.stories.delegates import Says, asks, boss, came_back, cast, read
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
    """Receiver, state and attempt number of each handoff of a run."""
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
    "half-a-character": (declines("we are \ud83d"), "we are ?"),
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
async def a_receiver_that_rejects_in_any_form_leaves_the_task_to_its_sender(stage: Stage) -> None:
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
async def a_delegate_that_rejects_returns_without_success(stage: Stage) -> None:
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
async def an_agent_that_accepts_no_handoffs_gets_none(stage: Stage) -> None:
    ways = ["billing", delegate("billing")]
    model = cast(triage=tries(REFUND, delegates("billing", "refund")), billing=says("Here I am."))
    team = stage.team([triage(*ways), Agent("billing", accepts_handoffs=False)], model)
    result = await stage.say(team, "charged twice")
    transferred, delegated = result.output.split(" | ")
    assert transferred == "billing did not take it: it takes no handoffs; you still have the task"
    assert read(delegated).error == "billing did not take it: it takes no handoffs"
    assert chain(result) == [("billing", "REJECTED", 1), ("billing", "REJECTED", 1)]
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


@story
async def what_a_receiver_does_to_the_package_changes_nothing(stage: Stage) -> None:
    def scribbles(package: HandoffPackage) -> bool:
        package.context.variables["plan"] = "none"
        package.context.variables["items"].append("a bribe")
        return True

    result = await stage.say(refund_desk(stage, scribbles), "charged twice", context={"plan": "gold", "items": ["a"]})
    assert (result.context["plan"], result.context["items"]) == ("gold", ["a"])

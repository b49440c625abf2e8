"""Stories of the content of packages: all of it reaches the receiver, and invalid packages are refused."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from changeover import Agent, Function, Limits, RunContext, Team, Variable
from changeover.errors import (
    ConversationNotFound,
    KeyConflict,
    MaxHandoffsExceededError,
    MisconfiguredError,
    PackageError,
    UnknownAgentError,
)
from changeover.inputs import RunOptions
from changeover.messages import Assistant, File, Message
from changeover.protocol import Context, Expectations, HandoffPackage, State
from changeover.relay.events import HandoffOffered, UserSpoke
from changeover.testing import ManualClock, Reply, hands_off, says
from tests.handoffs.sample_packages import by_hand
from tests.stories.cancellation import assert_at_rest
from tests.stories.delegates import cast
from tests.stories.offers import DONE, MODES, office, package, refused, stands
from tests.stories.stage import CONVERSATION, Stage, events, story


@story
async def a_package_may_be_given_as_an_object_of_json_or_as_its_text(stage: Stage) -> None:
    team = office(stage, Agent("clerk"))
    given = package()
    first = await team.offer(given)
    for form in (given.to_dict(), given.to_json(), given.to_json(indent=2)):
        assert await team.offer(form) == first
    assert len(await events(team, HandoffOffered)) == 1


@story
async def what_a_receiver_requires_may_be_in_the_package(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, Agent("clerk", requires=[Variable("order", "integer")]))
        given = package(mode=mode, conversation=mode, context=Context(variables={"order": 17}))
        assert stands(await team.offer(given)) == ("clerk", DONE[mode], "Three.", "")


@story
async def a_package_for_a_function_is_what_it_accepts(stage: Stage) -> None:
    def counts(ctx: RunContext) -> str:
        received = ctx.accept_handoff()
        assert received is not None
        stage.effects.append("counted")
        return f"{received.sender} wants {received.context.get('n')} of {received.artifacts.get('part')}"

    for mode in MODES:
        team = office(stage, Function("counter", counts))
        about = Context(variables={"n": 3}, artifacts={"part": "files://7"})
        given = package("counter", mode=mode, conversation=mode, context=about, sender="shop")
        assert stands(await team.offer(given)) == ("counter", DONE[mode], "shop wants 3 of files://7", "")
    assert stage.did == ["counted"] * (2 if stage.lives == 1 else 1)


def fills(messages: Sequence[Message]) -> Reply:
    """Answer with everything that there is to read."""
    return says("\n\n".join(message.text for message in messages))


TOLD = (
    *("Send back what was charged twice for order 42.", "Only billing may send money.", "refunds", "Within the day."),
    *("I was charged twice!", "paid order 42 twice within a minute", "Asked the bank.", "Both payments are booked."),
    *("The first one is bound to the invoice.", "The order number is 42.", '"id": "p2"', "orders/42.md: Payments"),
    *("Do not cancel the order.", "Good morning!", "a voucher."),
)
"""What the package that was written by hand says, from every part that is there to be read."""


@story
async def the_receiver_of_a_package_is_told_all_of_its_content(stage: Stage) -> None:
    for mode in MODES:
        given = by_hand()
        given["metadata"].update(mode=mode, conversation=mode, idempotency_key=mode)
        given["expectations"] = {"success_criteria": ["The customer knows when the money arrives."]}
        clock = ManualClock(datetime(2026, 3, 1, 9, tzinfo=UTC).timestamp())
        team = stage.team([Agent("billing", instructions="You pay.")], cast(billing=fills), clock=clock)
        result = await team.offer(given)
        assert [each for each in TOLD if each not in result.result] == []
        last = await team.resume(mode)
        assert last.context.items() >= {"order": 42, "unknown": None}.items()
        assert last.artifacts == {"receipt": "files://receipts/9", "letter": None}
        assert last.workflow_state == {**given["context"]["workflow_state"]}
    for request in stage.requests("billing"):
        for line in ("You pay.", "Be quick.", "The customer knows when the money arrives.", '"order": 42'):
            assert line in request.instructions
        assert "handed to you by triage" in request.instructions


@story
async def a_package_written_by_hand_reaches_its_receiver_field_by_field(stage: Stage) -> None:
    shown: list[dict[str, Any]] = []

    def accepts(package: HandoffPackage) -> bool:
        shown.append(package.to_dict())
        return True

    given, clock = by_hand(), ManualClock(datetime(2026, 3, 1, 9, tzinfo=UTC).timestamp())
    team = stage.team([Agent("billing", accepts=accepts)], cast(billing=says('{"refunded": 20}')), clock=clock)
    result = await team.offer(json.dumps(given))
    assert stands(result) == ("billing", "COMPLETE", '{"refunded": 20}', "")
    assert (result.conversation_id, result.handoff_id) == ("ada", "ada:2")
    assert all(each == given for each in shown)
    assert shown or stage.lives > 1
    [said] = await events(team, UserSpoke, "ada")
    assert (said.package, said.user, said.correlation_id) == (given, "ada@example.org", "ticket-1001")


@story
async def a_package_of_a_later_minor_version_is_taken_and_what_it_adds_is_kept(stage: Stage) -> None:
    given = {**package().to_dict(), "protocol": "1.7", "signature": {"by": "x"}}
    given["task"]["colour"], given["metadata"]["lane"] = "red", 3

    def accepts(package: HandoffPackage) -> bool:
        return package.protocol == "1.7" and (package.unknown, package.task.unknown, package.metadata.unknown) == (
            *({"signature": {"by": "x"}}, {"colour": "red"}, {"lane": 3}),
        )

    team = office(stage, Agent("clerk", accepts=accepts))
    assert stands(await team.offer(given)) == ("clerk", "RETURNED", "Three.", "")


@story
async def an_invalid_package_is_refused_and_nothing_is_recorded(stage: Stage) -> None:
    team, good = office(stage, Agent("clerk")), package(idempotency_key="").to_dict()
    wrong: dict[str, tuple[Any, str]] = {
        "another major version": ({**good, "protocol": "2.0"}, "protocol"),
        "no version": ({name: part for name, part in good.items() if name != "protocol"}, "protocol"),
        "no task": ({name: part for name, part in good.items() if name != "task"}, "task"),
        "an empty task": ({**good, "task": {"description": ""}}, "description"),
        "a number": ({**good, "task": {"description": 7}}, "description"),
        "no list": ({**good, "context": {"escalation_path": "desk"}}, "escalation_path"),
        "no mode": ({**good, "metadata": {**good["metadata"], "mode": "throw"}}, "mode"),
        "no time": ({**good, "expectations": {"timeout": -1}}, "timeout"),
        "no schema": ({**good, "expectations": {"output_schema": [1]}}, "output_schema"),
        "a list": ([good], "object"),
        "nothing": (None, "object"),
        "no json": ('{"task":', "JSON"),
    }
    for name, (given, about) in wrong.items():
        assert about in await refused(PackageError, team, given), name
    await assert_nothing_recorded(team)


async def assert_nothing_recorded(team: Team) -> None:
    """The story's conversation has not begun."""
    try:
        history = await team.history(CONVERSATION)
    except ConversationNotFound:
        return
    raise AssertionError(f"recorded: {history}")


@story
async def a_package_for_an_unknown_receiver_is_refused_and_nothing_is_recorded(stage: Stage) -> None:
    team = office(stage, Agent("clerk"))
    told_why = await refused(UnknownAgentError, team, package("nobody"))
    assert told_why == "no agent is called 'nobody'; this team has: clerk, desk"
    assert "is empty; name one of clerk, desk" in await refused(PackageError, team, package(""))
    assert "conversation's id" in await refused(MisconfiguredError, team, package(conversation="a b"))
    await assert_nothing_recorded(team)


@story
async def where_each_agent_works_alone_nothing_is_offered(stage: Stage) -> None:
    team = stage.team([Agent("desk"), Agent("clerk")], cast(), handoffs_enabled=False)
    assert "works alone" in await refused(MisconfiguredError, team, package())
    await assert_nothing_recorded(team)


@story
async def a_megabyte_of_context_travels_with_a_package(stage: Stage) -> None:
    text = "".join(f"line {n} of the minutes, word for word\n" for n in range(27_000))
    assert len(text) > 1_000_000
    for mode in MODES:
        shown: list[bool] = []

        def accepts(package: HandoffPackage, shown: list[bool] = shown) -> bool:
            shown.append(package.context.summary == text and package.context.variables == {"minutes": text})
            return True

        team = office(
            stage, Agent("clerk", accepts=accepts), clerk=lambda messages: says(str(len(fills(messages).text)))
        )
        about = Context(summary=text, variables={"minutes": text})
        result = await team.offer(package(mode=mode, conversation=mode, context=about))
        assert int(result.result) > len(text)
        assert all(shown)
        assert (await team.resume(mode)).variables["minutes"] == text


@story
async def a_package_says_how_many_turns_its_receiver_may_take(stage: Stage) -> None:
    def clerk(messages: Sequence[Message]) -> Reply:
        return hands_off("clerk", f"again {sum(isinstance(each, Assistant) for each in messages)}")

    team = office(stage, Agent("clerk"), clerk=clerk)
    result = await team.offer(package(max_iterations=2))
    assert (result.state, result.iterations) == (State.FAILED, 2)
    assert "max_iterations=2" in result.error


@story
async def a_limit_of_the_team_holds_for_packages_too(stage: Stage) -> None:
    team = stage.team([Agent("clerk")], cast(clerk=says("Three.")), limits=Limits(max_handoffs=0))
    for mode in MODES:
        assert "max_handoffs=0" in await refused(MaxHandoffsExceededError, team, package(mode=mode, conversation=mode))
        await assert_at_rest(team, mode)


@story
async def a_package_that_is_next_offer_under_its_key_is_done_once(stage: Stage) -> None:
    team = office(stage, Agent("clerk"))
    first, *others = await asyncio.gather(*(team.offer(package()) for _ in range(5)))
    assert first.result == "Three."
    assert all(other == first for other in [*others, await team.offer(package(attempt=3))])
    assert len(await events(team, HandoffOffered)) == 1
    assert len(stage.requests("clerk")) <= 1


@story
async def another_package_under_the_same_key_is_refused_and_changes_nothing(stage: Stage) -> None:
    team = office(stage, Agent("clerk"), Agent("deputy"))
    first = await team.offer(package())
    before = len(await team.history(CONVERSATION))
    others = {
        "another text": package(text="count the screws"),
        "another receiver": package("deputy"),
        "another mode": package(mode="transfer"),
        "another context": package(context=Context(variables={"n": 1})),
        "other expectations": package(expectations=Expectations(timeout=7)),
        "another reason": package(reason="because"),
    }
    for name, other in others.items():
        assert "'offer-1'" in await refused(KeyConflict, team, other), name
    assert len(await team.history(CONVERSATION)) == before
    assert await team.offer(package()) == first


@story
async def a_run_and_an_offer_may_have_the_same_key(stage: Stage) -> None:
    team = office(stage, Agent("clerk"))
    answer = await stage.say(team, "hello", key="offer-1")
    assert (answer.output, (await team.offer(package())).result) == ("desk is here", "Three.")


@story
async def another_text_under_the_key_of_a_run_is_refused(stage: Stage) -> None:
    team = office(stage, Agent("clerk"))
    first = await stage.say(team, "hello", key="k")
    before = len(await team.history(CONVERSATION))
    same = RunOptions(conversation=CONVERSATION, key="k")
    others: list[RunOptions] = [
        {**same, "agent": "clerk"},
        {**same, "context": {"n": 1}},
        {**same, "files": [File(b"n", "text/plain")]},
    ]
    for other in others:
        with pytest.raises(KeyConflict) as refusal:
            await team.run("hello", **other)
        assert refusal.value.key == "k"
    with pytest.raises(KeyConflict):
        await team.run("good bye", **same)
    assert (await team.run("hello", conversation=CONVERSATION, key="k")).run_id == first.run_id
    assert len(await team.history(CONVERSATION)) == before

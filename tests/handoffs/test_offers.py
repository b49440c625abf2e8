"""Packages that a program offers: what is recorded of them, when two are the same, and what comes of them."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from changeover import Agent, Team
from changeover.errors import HandoffTimeoutError, KeyConflict, PackageError, UnknownAgentError
from changeover.messages import Message
from changeover.protocol import HandoffPackage, HandoffResult, Metadata, Mode, Rejected, State, Task
from changeover.relay.package import offer_of
from changeover.testing import ManualClock, Reply, ScriptedModel, says
from changeover.tools.tool import ToolDefinition
from tests.handoffs.sample_packages import by_hand, parts

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def package(receiver: str = "clerk", mode: Mode = Mode.DELEGATE, **metadata: Any) -> HandoffPackage:
    return HandoffPackage(Task("count"), metadata=Metadata(receiver=receiver, mode=mode, **metadata))


def here(*ids: str) -> Team:
    """A team in which everybody says that they are here."""

    def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        return says(f"{agent} is here")

    return Team([Agent(id, handoffs=()) for id in ids], model=ScriptedModel(play))


def test_an_offer_says_when_it_was_made_unless_the_package_does():
    spoken = offer_of(package(), ["clerk"], NOON.timestamp())
    assert spoken.package is not None
    assert spoken.package["metadata"]["timestamp"] == "2030-01-01T12:00:00Z"
    before = package(timestamp=NOON - timedelta(days=1))
    spoken = offer_of(before, ["clerk"], NOON.timestamp())
    assert spoken.package == before.to_dict()


def test_an_offer_is_recorded_as_what_its_user_says():
    given = package(user="ada", correlation_id="ticket-7")
    spoken = offer_of(given, ["clerk"], NOON.timestamp())
    assert (spoken.text, spoken.user, spoken.correlation_id, spoken.given) == ("count", "ada", "ticket-7", None)


def test_an_offer_to_nobody_names_those_that_there_are():
    with pytest.raises(UnknownAgentError) as refusal:
        offer_of(package("nobody"), ["clerk", "boss"], 0.0)
    assert (refusal.value.agent, refusal.value.available) == ("nobody", ("clerk", "boss"))


@given(whole=parts(HandoffPackage), mode=st.sampled_from(Mode))
@settings(max_examples=60, deadline=None)
async def test_any_package_is_the_same_offer_however_it_is_written(whole: HandoffPackage, mode: Mode):
    seen: list[HandoffPackage] = []

    async def accepts(package: HandoffPackage) -> Rejected:
        seen.append(package)
        return Rejected("I only look")

    team = Team([Agent("clerk", accepts=accepts)], model=ScriptedModel({}), clock=ManualClock())
    metadata = replace(whole.metadata, receiver="clerk", mode=mode, conversation="c", idempotency_key="k", attempt=1)
    wanted = replace(whole.expectations, timeout=None, output_schema={})  # not every object is a schema
    sender = metadata.sender or "shop"
    given = replace(whole, metadata=replace(metadata, deadline=None, sender=sender), expectations=wanted)
    first = await team.offer(given)
    escalated = bool(metadata.required_capabilities)  # no other agent has them
    reason = "a person is asked: clerk did not take it: I only look" if escalated else "I only look"
    assert (first.state, first.reason) == (State.PENDING if escalated else State.REJECTED, reason)
    for form in (given, given.to_dict(), given.to_json(), _shuffled(given.to_dict())):
        assert await team.offer(form) == first
    [shown] = seen
    task = replace(given.task, id=given.task.id or first.handoff_id)
    when, tokens = shown.metadata.timestamp, shown.metadata.estimated_tokens
    assert (tokens or 0) >= 1
    assert given.metadata.estimated_tokens in (None, tokens)
    filled = replace(given.metadata, timestamp=when, estimated_tokens=tokens)
    assert shown == replace(given, task=task, metadata=filled)
    with pytest.raises(KeyConflict):
        await team.offer(replace(given, task=replace(given.task, description=f"{given.task.description}, please")))


def _shuffled(value: Any) -> Any:
    """The same with the fields of every object the other way round."""
    if isinstance(value, dict):
        return {name: _shuffled(value[name]) for name in reversed(value)}
    return [_shuffled(each) for each in value] if isinstance(value, list) else value


async def test_a_deadline_in_another_time_zone_is_the_same_deadline():
    team = here("clerk")
    until = datetime.now(UTC) + timedelta(hours=5)
    first = await team.offer(package(deadline=until, idempotency_key="k"))
    other = until.astimezone(timezone(timedelta(hours=9)))
    assert await team.offer(package(deadline=other, idempotency_key="k")) == first


async def test_every_field_that_is_changed_makes_another_package_of_it():
    clock = ManualClock(datetime(2026, 3, 1, 9, tzinfo=UTC).timestamp())
    model = ScriptedModel({"billing": [says('{"refunded": 20}')]})
    team = Team([Agent("billing")], model=model, clock=clock)
    await team.offer(by_hand())
    aside = {("metadata", "timestamp"), ("metadata", "attempt")}
    own = {
        ("metadata", "receiver"),
        ("metadata", "conversation"),
        ("metadata", "idempotency_key"),
        ("metadata", "mode"),
    }
    for part in ("task", "context", "metadata", "expectations"):
        for name in by_hand()[part]:
            if (part, name) not in aside | own:
                changed = by_hand()
                changed[part][name] = _other(changed[part][name])
                with pytest.raises(KeyConflict):
                    await team.offer(changed)
    later = by_hand()
    later["metadata"].update(timestamp="2026-03-01T10:00:00Z", attempt=3)
    assert (await team.offer(later)).result == '{"refunded": 20}'


def _other(value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case str():
            return value.replace("18:", "19:") if value[:4].isdigit() else f"{value}!"
        case int() | float():
            return value + 1
        case dict():
            return {**value, "more": "added"} if "more" not in value else {}
        case _:
            return value[:-1]


async def test_a_result_says_how_long_it_took_and_how_many_turns():
    clock = ManualClock(auto=True)

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        await clock.sleep_until(clock.now() + 5)
        return says("x" * 300)

    team = Team([Agent("clerk", handoffs=())], model=ScriptedModel(play), clock=clock)
    for mode in Mode:
        result = await team.offer(package(mode=mode))
        assert (result.iterations, result.duration, len(result.result)) == (1, 5.0, 300)
    assert (await team.offer(package())).summary == f"{'x' * 200}…"


async def test_whoever_waits_in_vain_is_told_of_the_handoff():
    clock = ManualClock()

    async def play(agent: str, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")

    team = Team([Agent("clerk", handoffs=())], model=ScriptedModel(play), clock=clock)
    offering = asyncio.ensure_future(team.offer(package(conversation="c")))
    await clock.advance(300)
    with pytest.raises(HandoffTimeoutError) as late:
        await offering
    assert (late.value.handoff_id, late.value.agent) == ("c:2.0", "clerk")
    assert isinstance(late.value.handoff, HandoffResult)
    assert (late.value.handoff.state, late.value.handoff.reason) == (State.TIMEOUT, "it was not done in time")
    await team.close()


async def test_the_same_package_without_a_key_is_another_handoff_each_time():
    team = here("clerk")
    first, second = await team.offer(package(conversation="c")), await team.offer(package(conversation="c"))
    assert first.handoff_id != second.handoff_id
    assert len(await team.handoffs("c")) == 2


async def test_a_package_that_is_no_json_text_says_where_it_ends():
    with pytest.raises(PackageError, match="JSON"):
        await here("clerk").offer(json.dumps(package().to_dict())[:-1])

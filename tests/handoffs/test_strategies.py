"""A strategy carries its behaviour: one that is defined here works in a team, and no other file knows it."""

from collections.abc import Sequence

import pytest

from changeover import Agent, Team, delegate
from changeover.errors import MisconfiguredError
from changeover.handoffs.strategies import ContextStrategy, Effects, PackedContext, as_strategy
from changeover.messages import Message, Note, ToolResult, User
from changeover.protocol import Handover
from changeover.relay.events import ContextPacked, HandoffOffered
from changeover.testing import Reply, delegates, hands_off, says
from changeover.testing.scripted import Line
from tests.stories.delegates import cast


class Minutes(ContextStrategy, frozen=True):
    """Minutes of the conversation, written by the helper model and kept in the store."""

    title: str = "Minutes"

    name = "minutes"
    made = True

    def faults(self) -> list[str]:
        return [*super().faults(), *([] if self.title else ["title must not be empty"])]

    async def pack(self, handover: Handover, effects: Effects) -> PackedContext:
        reply = await effects.ask_model("Write minutes.", handover.request, timeout=5)
        id = await effects.store(reply.text, expires=None)
        lines = await effects.run(reply.text.upper)
        return PackedContext(text=f"{self.title}: {lines} ({len(id) > 0})")


class LastTwo(ContextStrategy, frozen=True):
    """The last two messages as they are: nothing has to be made for it."""

    name = "last_two"

    @property
    def recent(self) -> int:
        return 2


class Broken(ContextStrategy, frozen=True):
    made = True

    async def pack(self, handover: Handover, effects: Effects) -> PackedContext:
        raise ValueError("no ink")


def recites(messages: Sequence[Message]) -> Reply:
    return says("\n".join(f"<{type(each).__name__}> {each.text}" for each in messages))


def asks_then_answers(messages: Sequence[Message]) -> Line:
    return says("done") if isinstance(messages[-1], ToolResult) else delegates("billing", "Refund it.")


def desk(strategy: ContextStrategy) -> Team:
    """A triage that hands over to billing, which answers with everything it reads."""
    way, helper = hands_off("billing", "Please refund it."), says("A lamp broke.")
    model = cast(triage=way, billing=recites, helper=helper)
    return Team([Agent("triage"), Agent("billing", strategy=strategy)], model=model, helper_model=model)


async def test_a_strategy_of_its_own_class_makes_what_the_receiver_reads():
    team = desk(Minutes())
    result = await team.run("My lamp is broken.", conversation="ada")
    assert "Minutes: A LAMP BROKE. (True)" in result.output
    [packed] = [each.event for each in await team.history("ada") if isinstance(each.event, ContextPacked)]
    assert (packed.strategy, packed.error) == ("minutes", "")
    assert result.handoff_chain[0].strategy == "minutes"


async def test_a_strategy_that_only_shows_messages_needs_no_effect():
    team = desk(LastTwo())
    result = await team.run("My lamp is broken.", conversation="ada")
    assert result.output == "<User> My lamp is broken.\n<Note> Please refund it."
    recorded = [each.event for each in await team.history("ada")]
    [offer] = [event for event in recorded if isinstance(event, HandoffOffered)]
    assert (offer.strategy, offer.recent, offer.packs) == ("last_two", 2, False)
    assert not any(isinstance(event, ContextPacked) for event in recorded)


async def test_a_strategy_that_raises_leaves_the_last_messages():
    result = await desk(Broken()).run("My lamp is broken.")
    assert "My lamp is broken." in result.output
    [record] = result.handoff_chain
    assert record.strategy == "recent"
    assert "no ink" in record.strategy_error


async def test_a_delegate_is_briefed_by_the_strategy_too():
    model = cast(triage=asks_then_answers, billing=recites, helper=says("Broke."))
    ways = [delegate("billing", strategy=Minutes(title="So far"))]
    team = Team([Agent("triage", handoffs=ways), Agent("billing")], model=model, helper_model=model)
    await team.run("My lamp is broken.", conversation="ada")
    [packed] = [each.event for each in await team.history("ada") if isinstance(each.event, ContextPacked)]
    assert "So far: BROKE. (True)" in packed.briefing


def test_the_faults_of_a_strategy_are_those_of_its_team():
    with pytest.raises(MisconfiguredError, match="has strategy minutes: title must not be empty"):
        desk(Minutes(title=""))


def test_a_function_is_a_strategy_under_its_own_name():
    def only_decisions(handover: Handover) -> list[Message]:
        return [User(handover.request), Note(handover.message, handover.sender)]

    strategy = as_strategy(only_decisions)
    assert (strategy.logged_as, strategy.made, strategy.whole) == ("only_decisions", True, False)
    assert as_strategy(LastTwo()) == LastTwo()

"""Stories of handoffs that cannot be made: other agents that can do it are tried, then a person is asked."""

from collections.abc import Sequence
from typing import Any

from changeover import Agent, Command, Member, Reject
from changeover.errors import HandoffRefusedError
from changeover.messages import Message, ToolResult
from changeover.protocol import Rejected
from changeover.testing import Reply, calls, delegates, hands_off, says
from tests.stories.answers import chain, declines, tries
from tests.stories.delegates import boss, cast
from tests.stories.offers import DONE, MODES, attempts, office, package
from tests.stories.service import brings, brought, came, pulled
from tests.stories.service import declines as rejects
from tests.stories.settled_tickets import DEPUTY
from tests.stories.stage import CONVERSATION, Stage, story

NEEDS: dict[str, Any] = {"required_capabilities": ("counting",)}


def counter(id: str, *, says_no: bool = False) -> Agent:
    """An agent that can count, and may not want to."""
    no = (lambda package: Rejected(f"{id} is closed")) if says_no else None
    return Agent(id, capabilities=["counting"], accepts=no, handoffs=())


def closed() -> list[Member]:
    """Three agents that can count, and do not want to."""
    return [counter("clerk", says_no=True), counter("deputy", says_no=True), counter("elder", says_no=True)]


@story
async def a_rejected_offer_goes_to_the_next_agent_that_has_the_capability(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, counter("clerk", says_no=True), counter("deputy"))
        result = await team.offer(package(mode=mode, conversation=mode, **NEEDS))
        assert came(result) == ("deputy", DONE[mode], "Four.")
        assert attempts(result, await team.handoffs(mode)) == [
            *(("clerk", "REJECTED", 1), ("deputy", DONE[mode], 2)),
        ]


@story
async def nobody_is_tried_that_lacks_the_capability_or_has_refused(stage: Stage) -> None:
    team = office(stage, counter("clerk", says_no=True), Agent("painter"), counter("deputy"), painter=says("Red."))
    result = await team.offer(package(**NEEDS))
    assert [each.receiver for each in await team.handoffs(CONVERSATION)] == ["clerk", "deputy"]
    assert result.result == "Four."


@story
async def at_most_three_candidates_are_tried_and_then_a_person(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, *closed(), counter("late", says_no=True))
        result = await team.offer(package(mode=mode, conversation=mode, **NEEDS))
        tried = await team.handoffs(mode)
        assert [each.attempt for each in tried] == [1, 2, 3]
        assert (tried[0].receiver, len({each.receiver for each in tried})) == ("clerk", 3)
        assert [each.kind for each in result.requests] == ["escalation"]


@story
async def an_offer_that_waits_for_a_person_is_pending(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, *closed())
        result = await team.offer(package(mode=mode, conversation=mode, **NEEDS))
        assert (result.state, [each.kind for each in result.requests]) == ("PENDING", ["escalation"])
        assert result.reason.startswith("a person is asked")


@story
async def a_delegate_whose_alternatives_refuse_is_pending_while_a_person_is_awaited(stage: Stage) -> None:
    team = office(stage, counter("clerk", says_no=True), counter("deputy", says_no=True))
    result = await team.offer(package(context=DEPUTY, attempt=2))
    assert (result.state, [each.kind for each in result.requests]) == ("PENDING", ["escalation"])


def insists(messages: Sequence[Message]) -> Reply:
    """Offer the same to the same agent again, whatever it says; give up the third time."""
    told = [each for each in messages if isinstance(each, ToolResult)]
    return says(" | ".join(each.text for each in told)) if len(told) == 2 else delegates("clerk", "count")


@story
async def a_model_cannot_offer_the_same_task_to_an_agent_that_refused_it(stage: Stage) -> None:
    asked: list[str] = []

    def no(package: Any) -> Rejected:
        asked.append(package.task.description)
        return Rejected("closed")

    team = stage.team([boss(), Agent("clerk", accepts=no)], cast(boss=insists))
    result = await stage.say(team, "how many?")
    assert asked == ["count"] or stage.lives > 1
    assert "clerk has rejected this task" in result.output.rpartition(" | ")[2]


@story
async def a_model_may_offer_it_again_with_other_words_or_another_context(stage: Stage) -> None:
    def note() -> Command:
        """Note that it is urgent."""
        return Command(update={"context": {"urgent": True}})

    def willing(package: Any) -> Rejected | None:
        urgent = package.context.variables.get("urgent") and package.task.description == "refund"
        return None if urgent else Rejected("closed")

    turns = [hands_off("billing", "refund"), hands_off("billing", "refund, please"), calls(("note", {}))]
    members = [Agent("triage", tools=[note], handoffs=["billing"]), Agent("billing", accepts=willing, handoffs=())]
    model = cast(triage=tries(*turns, hands_off("billing", "refund")), billing=says("Refunded."))
    result = await stage.say(stage.team(members, model), "charged twice")
    assert (result.output, chain(result)) == (
        *("Refunded.", [("billing", "REJECTED", 1), ("billing", "REJECTED", 2), ("billing", "COMPLETE", 3)]),
    )


@story
async def a_model_that_insists_on_an_agent_that_refused_ends_the_run(stage: Stage) -> None:
    members = [Agent("triage", handoffs=["billing"]), Agent("billing", accepts=declines("closed"), handoffs=())]
    team = stage.team(members, cast(triage=hands_off("billing", "refund")))
    told = await stage.error(HandoffRefusedError, team, "charged twice")
    assert "billing has rejected this task" in told.reason
    assert [each.receiver for each in await team.handoffs(CONVERSATION)] == ["billing"]


@story
async def a_ticket_that_a_worker_rejects_goes_to_the_next_agent_that_has_the_capability(stage: Stage) -> None:
    for mode in MODES:
        able = [pulled(id, capabilities=["counting"]) for id in ("clerk", "deputy")]
        team = office(stage, *able, pulled("painter"))
        ticket = await team.submit(package(mode=mode, conversation=mode, **NEEDS))
        result = await brought(stage, team, ticket, clerk=rejects("not mine"), deputy=brings("Four."))
        assert came(result) == ("deputy", DONE[mode], "Four.")


@story
async def an_escalation_path_comes_before_the_registry(stage: Stage) -> None:
    members = [counter("clerk", says_no=True), counter("able"), Agent("deputy", handoffs=())]
    result = await office(stage, *members).offer(package(context=DEPUTY, **NEEDS))
    assert came(result) == ("deputy", "RETURNED", "Four.")


@story
async def a_person_is_asked_where_no_candidate_is_left_and_fallback_is_off(stage: Stage) -> None:
    team = office(stage, counter("clerk", says_no=True), counter("deputy", says_no=True))
    result = await team.offer(package(**NEEDS))
    for request in result.requests:
        await team.decide(request, Reject("not now"), by="ana")
    assert [each.kind for each in result.requests] == ["escalation"] or stage.lives > 1

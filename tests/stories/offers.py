"""Stories of packages that code offers to a member of the team."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from changeover import Agent, ApprovalRequest, Approve, Edit, Person, Reject, Respond, Team, Variable
from changeover.agent.agent import Member
from changeover.errors import (
    HandoffRefusedError,
    ModelError,
)
from changeover.guards.approval import Decision
from changeover.messages import Message
from changeover.protocol import (
    Accepted,
    Conditional,
    Context,
    Expectations,
    HandoffPackage,
    HandoffResult,
    Metadata,
    Rejected,
    State,
    Task,
)
from changeover.relay.events import HandoffAccepted, RunCompleted, RunStarted, UserSpoke
from changeover.testing import Reply, fails, hands_off, says
from tests.stories.answers import declines, follow_each_other, later
from tests.stories.approvals import refused_decision
from tests.stories.cancellation import Hold, assert_at_rest, told
from tests.stories.delegates import cast
from tests.stories.stage import CONVERSATION, Stage, events, story

MODES = ("delegate", "transfer")
DONE = {"delegate": State.RETURNED, "transfer": State.COMPLETE}
"""How a handoff stands whose receiver has done what it was asked for."""

Rule = Callable[[ApprovalRequest], Decision]


def package(
    receiver: str = "clerk",
    text: str = "count the parts",
    *,
    context: Context | None = None,
    expectations: Expectations | None = None,
    **metadata: Any,
) -> HandoffPackage:
    """Something to hand over in the story's conversation; the same each time, for it has a key."""
    about = Metadata(**{"receiver": receiver, "conversation": CONVERSATION, "idempotency_key": "offer-1", **metadata})
    return HandoffPackage(Task(text), context or Context(), about, expectations or Expectations())


def office(stage: Stage, *members: Member, **parts: Any) -> Team:
    """A desk without handoffs, and members that follow their scripts."""
    model = cast(**{"desk": says("desk is here"), "clerk": says("Three."), "deputy": says("Four."), **parts})
    return stage.team([Agent("desk", handoffs=()), *members], model)


async def offered(team: Team, given: HandoffPackage, rule: Rule | Decision) -> HandoffResult:
    """Offer a package, and let a person decide about whatever is awaited, until it has come to an end."""
    result, seen = await team.offer(given), set[str]()
    while result.requests:
        for request in result.requests:
            assert request.id not in seen, f"{request} is still awaited after the decision"
            seen.add(request.id)
            await team.decide(request, rule(request) if callable(rule) else rule, by="ana")
        result = await team.offer(given)
    return result


async def refused(kind: type[Exception], team: Team, given: Any) -> str:
    """What a program is told whose offer is refused."""
    try:
        result = await team.offer(given)
    except kind as error:
        return str(error)
    raise AssertionError(f"expected {kind.__name__}, and got {result}")


def stands(result: HandoffResult) -> tuple[str, str, str, str]:
    """Receiver, state, result and error of a package."""
    return result.agent, str(result.state), result.result, result.reason or result.error


def attempts(result: HandoffResult, chain: Sequence[Any]) -> list[tuple[str, str, int]]:
    """Receivers in the order of the offers; checks that the attempts are consecutive."""
    assert result.handoff_id == chain[-1].id
    assert follow_each_other(chain)
    return [(each.receiver, str(each.state), each.attempt) for each in chain]


@story
async def a_package_is_offered_done_and_its_result_comes_back(stage: Stage) -> None:
    team = office(stage, Agent("clerk"))
    result = await team.offer(package())
    assert stands(result) == ("clerk", "RETURNED", "Three.", "")
    assert (result.conversation_id, result.handoff_id, result.requests) == (CONVERSATION, "story:2.0", [])
    assert (result.iterations, result.summary) == (1, "")
    [record] = await team.handoffs(CONVERSATION)
    assert (record.id, record.sender, record.receiver, record.message) == (
        *("story:2.0", "code", "clerk", "count the parts"),
    )
    assert (record.mode, record.state, record.task_id) == ("delegate", "RETURNED", "story/2.0#2")
    await assert_at_rest(team)


@story
async def a_package_that_is_handed_over_for_good_ends_with_its_receiver(stage: Stage) -> None:
    team = office(stage, Agent("clerk"))
    result = await team.offer(package(mode="transfer"))
    assert stands(result) == ("clerk", "COMPLETE", "Three.", "")
    assert (result.handoff_id, result.iterations) == ("story:2", 1)
    assert (await stage.say(team, "and now?")).final_agent == "clerk"


@story
async def a_package_without_a_conversation_begins_one(stage: Stage) -> None:
    team = office(stage, Agent("clerk"))
    result = await team.offer(package(conversation=""))
    again = await team.offer(package(conversation=""))
    assert (result.result, again.handoff_id) == ("Three.", result.handoff_id)
    assert result.conversation_id not in ("", CONVERSATION)
    assert [each.id for each in await team.handoffs(result.conversation_id)] == [result.handoff_id]
    other = await team.offer(package(conversation="", idempotency_key="offer-2"))
    assert other.conversation_id != result.conversation_id


@story
async def every_yes_lets_the_receiver_work(stage: Stage) -> None:
    yes: dict[str, Any] = {
        "true": lambda package: True,
        "accepted": lambda package: Accepted(30),
        "awaited": lambda package: later(None),
    }
    for name, accepts in yes.items():
        for mode in MODES:
            team = office(stage, Agent("clerk", accepts=accepts))
            where = f"{name}-{mode}"
            result = await team.offer(package(mode=mode, conversation=where))
            assert stands(result) == ("clerk", DONE[mode], "Three.", "")
            [accepted] = await events(team, HandoffAccepted, where)
            assert accepted.estimate == (30 if name == "accepted" else None)


@story
async def every_rejection_is_reported_to_the_caller_that_offered(stage: Stage) -> None:
    no: dict[str, tuple[Agent, str, str]] = {
        "false": (Agent("clerk", accepts=lambda package: False), "REJECTED", "it does not accept this task"),
        "rejected": (Agent("clerk", accepts=declines("not today")), "REJECTED", "not today"),
        "declared": (Agent("clerk", accepts_handoffs=False), "REJECTED", "it takes no handoffs"),
        "lacking": (Agent("clerk", requires=[Variable("order")]), "RETURNED", "it has to know order"),
        "asking": (
            *(Agent("clerk", accepts=lambda package: Conditional(needs_more_context=("order",))),),
            *("RETURNED", "it has to know order"),
        ),
    }
    for name, (clerk, state, reason) in no.items():
        for mode in MODES:
            team, where = office(stage, clerk), f"{name}-{mode}"
            result = await team.offer(package(mode=mode, conversation=where))
            assert stands(result) == ("clerk", state, "", reason)
            assert (result.error, result.requests) == ("", [])
            await assert_at_rest(team, where)


@story
async def a_package_that_is_rejected_goes_along_its_escalation_path(stage: Stage) -> None:
    path = Context(escalation_path=("nobody", "second", "deputy"))
    for mode in MODES:
        closed = [Agent(id, accepts=declines(f"{id} is closed")) for id in ("clerk", "second")]
        team = office(stage, *closed, Agent("deputy"))
        result = await team.offer(package(mode=mode, context=path, conversation=mode))
        assert stands(result) == ("deputy", DONE[mode], "Four.", "")
        assert attempts(result, await team.handoffs(mode)) == [
            *(("clerk", "REJECTED", 1), ("second", "REJECTED", 2), ("deputy", DONE[mode], 3)),
        ]


@story
async def an_agent_that_the_receiver_of_a_package_suggests_is_asked_first(stage: Stage) -> None:
    for mode in MODES:
        clerk = Agent("clerk", accepts=declines("not mine", "deputy"))
        team = office(stage, clerk, Agent("other", accepts=declines("unasked")), Agent("deputy"))
        given = package(mode=mode, conversation=mode, context=Context(escalation_path=("other",)))
        result = await team.offer(given)
        assert [each.receiver for each in await team.handoffs(mode)] == ["clerk", "deputy"]
        assert (result.agent, result.result) == ("deputy", "Four.")


def unwanted(stage: Stage, *members: Member) -> tuple[Team, Context]:
    """An office in which three do not want what they are offered, and the way to them."""
    closed = [Agent(id, accepts=declines(f"{id} is closed")) for id in ("clerk", "second", "third")]
    return office(stage, *closed, *members), Context(escalation_path=("second", "third", "deputy"))


async def escalated(stage: Stage, mode: str, decision: Decision) -> tuple[HandoffResult, Team]:
    """What comes of a package that three do not want, if a person decides so."""
    team, path = unwanted(stage, Agent("deputy"))
    given = package(mode=mode, context=path, conversation=mode)
    result = await team.offer(given)
    assert result.requests or stage.lives > 1
    for request in result.requests:
        assert (request.kind, request.receiver, request.agent) == ("escalation", "third", "code")
        assert request.arguments["declined"] == ["clerk", "second", "third"]
        assert (result.state, result.reason) == (
            *(State.PENDING, "a person is asked: third did not take it: third is closed"),
        )
    return await offered(team, given, decision), team


@story
async def a_package_that_all_decline_goes_to_the_agent_that_a_person_picks(stage: Stage) -> None:
    for mode in MODES:
        result, team = await escalated(stage, mode, Edit(receiver="deputy"))
        assert stands(result) == ("deputy", DONE[mode], "Four.", "")
        assert [each.attempt for each in await team.handoffs(mode)] == [1, 2, 3, 4]


@story
async def a_package_that_all_decline_may_be_answered_by_a_person(stage: Stage) -> None:
    for mode in MODES:
        result, team = await escalated(stage, mode, Respond("Five."))
        assert (result.result, result.handoff_id) == ("Five.", (await team.handoffs(mode))[-1].id)
        await assert_at_rest(team, mode)


@story
async def a_package_that_all_decline_may_be_given_back_by_a_person(stage: Stage) -> None:
    result, team = await escalated(stage, "delegate", Reject("count it yourself"))
    assert (result.state, result.result) == (State.REJECTED, "")
    await assert_at_rest(team, "delegate")
    team, path = unwanted(stage)
    given = package(mode="transfer", context=path)
    told_why = ""
    try:
        await offered(team, given, Reject("count it yourself"))
    except HandoffRefusedError as error:
        told_why = str(error)
    assert "given back by ana: count it yourself" in told_why


@story
async def a_permission_is_asked_for_before_a_package_is_taken(stage: Stage) -> None:
    for mode in MODES:
        for name, decision in (("yes", Approve()), ("no", Reject("too dear"))):
            accepts = lambda package: Conditional(needs_permission=("spend 5",))  # noqa: E731
            team, where = office(stage, Agent("clerk", accepts=accepts)), f"{mode}-{name}"
            given = package(mode=mode, conversation=where)
            waiting = await team.offer(given)
            for request in waiting.requests:
                assert (request.kind, request.arguments) == ("permission", {"permission": ["spend 5"]})
                assert (waiting.state, waiting.reason) == (State.PENDING, "waits for clerk")
            result = await offered(team, given, decision)
            fate = ("clerk", DONE[mode], "Three.", "") if name == "yes" else ("clerk", "REJECTED", "", "too dear")
            assert stands(result) == fate


def with_ana(stage: Stage) -> Team:
    return office(stage, Person("ana"), Agent("deputy"))


@story
async def a_person_does_what_a_package_asks_for(stage: Stage) -> None:
    for mode in MODES:
        team, given = with_ana(stage), package("ana", mode=mode, conversation=mode)
        waiting = await team.offer(given)
        assert waiting.requests or stage.lives > 1
        for request in waiting.requests:
            assert (request.kind, request.receiver, request.agent) == ("task", "ana", "code")
            assert (waiting.state, waiting.reason, waiting.result) == (State.PENDING, "waits for ana", "")
            assert "Respond" in await refused_decision(team, request, Approve())
        assert stands(await offered(team, given, Respond("Five."))) == ("ana", DONE[mode], "Five.", "")


@story
async def a_person_does_not_want_what_a_package_asks_for(stage: Stage) -> None:
    for mode in MODES:
        team, given = with_ana(stage), package("ana", mode=mode, conversation=mode)
        result = await offered(team, given, Reject("on holiday"))
        assert stands(result) == ("ana", "REJECTED", "", "on holiday")
        await assert_at_rest(team, mode)


@story
async def a_person_hands_a_package_on(stage: Stage) -> None:
    for mode in MODES:
        team, given = with_ana(stage), package("ana", mode=mode, conversation=mode)
        result = await offered(team, given, Edit(receiver="deputy"))
        assert stands(result) == ("deputy", DONE[mode], "Four.", "")
        assert attempts(result, await team.handoffs(mode)) == [("ana", "REJECTED", 1), ("deputy", DONE[mode], 2)]


@story
async def a_person_is_shown_what_a_package_that_is_delegated_is_about(stage: Stage) -> None:
    team, given = with_ana(stage), package("ana", "sign the contract")
    waiting = await team.offer(given)
    for request in waiting.requests:
        assert "sign the contract" in request.message
    assert (await offered(team, given, Respond("Signed."))).result == "Signed."


@story
async def the_active_agent_stays_active_when_a_package_is_delegated(stage: Stage) -> None:
    team = office(stage, Agent("clerk"), Agent("deputy"))
    assert (await stage.say(team, "hello", agent="deputy")).output == "Four."
    assert (await team.offer(package())).result == "Three."
    answer = await stage.say(team, "and now?")
    assert (answer.output, answer.final_agent, answer.handoff_chain) == ("Four.", "deputy", [])


@story
async def the_receiver_of_a_transferred_package_is_active_from_then_on(stage: Stage) -> None:
    team = office(stage, Agent("clerk"), Agent("deputy"))
    await stage.say(team, "hello", agent="deputy")
    assert (await team.offer(package(mode="transfer"))).result == "Three."
    assert (await stage.say(team, "and now?")).final_agent == "clerk"


@story
async def the_active_agent_stays_active_when_a_package_is_declined(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, Agent("clerk", accepts=declines("closed")), Agent("deputy"))
        await stage.say(team, "hello", agent="deputy", conversation=mode)
        assert (await team.offer(package(mode=mode, conversation=mode))).state is State.REJECTED
        assert (await stage.say(team, "and now?", conversation=mode)).final_agent == "deputy"


@story
async def what_a_package_brings_along_stays_in_its_conversation(stage: Stage) -> None:
    team = office(stage, Agent("clerk"), Agent("deputy"))
    await stage.say(team, "hello", context={"plan": "gold", "order": 1})
    await team.offer(package(context=Context(variables={"order": 17}, artifacts={"list": None})))
    answer = await stage.say(team, "and now?")
    assert ({**answer.variables}, {**answer.artifacts}) == ({"plan": "gold", "order": 17}, {"list": None})


@story
async def a_package_waits_until_the_run_before_it_has_ended(stage: Stage) -> None:
    hold = Hold()

    async def desk(messages: Sequence[Message]) -> Reply:
        await hold.on()
        return says("desk is here")

    team = office(stage, Agent("clerk"), desk=desk)
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(stage.say(team, "hello"))
        await told(team, UserSpoke)
        offering = group.create_task(team.offer(package()))
        await told(team, UserSpoke, 2)
        hold.let_go.set()
    assert (saying.result().output, offering.result().result) == ("desk is here", "Three.")
    own = [each.event for each in await team.history(CONVERSATION) if each.conversation == CONVERSATION]
    ends = [type(event) for event in own if isinstance(event, RunStarted | RunCompleted)]
    assert ends == [RunStarted, RunCompleted, RunStarted, RunCompleted]


@story
async def a_package_that_is_waiting_may_be_cancelled(stage: Stage) -> None:
    hold = Hold()

    async def clerk(messages: Sequence[Message]) -> Reply:
        await hold.on()
        return says("Three.")

    for mode in MODES:
        team = office(stage, Agent("clerk"), clerk=clerk)
        async with asyncio.TaskGroup() as group:
            offering = group.create_task(team.offer(package(mode=mode, conversation=mode)))
            await first_begun(offering, hold)
            if not offering.done():
                assert await team.cancel(mode)
        assert (offering.result().state, offering.result().result) == (State.RETURNED, "")
        await assert_at_rest(team, mode)
        hold.begun.clear()


async def first_begun(offering: "asyncio.Task[HandoffResult]", hold: Hold) -> None:
    """Return when it is worked on, or has ended, possibly in an earlier life."""
    waiting = asyncio.ensure_future(hold.begun.wait())
    await asyncio.wait({offering, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


@story
async def a_receiver_whose_model_fails_leaves_the_package_failed(stage: Stage) -> None:
    team = office(stage, Agent("clerk"), clerk=fails("no credit", retryable=False))
    result = await team.offer(package())
    assert (result.state, result.result) == (State.FAILED, "")
    assert "no credit" in result.error
    told_why = await refused(ModelError, team, package(mode="transfer", idempotency_key="offer-2"))
    assert "no credit" in told_why
    assert [each.state for each in await team.handoffs(CONVERSATION)] == [State.FAILED, State.FAILED]


@story
async def a_receiver_of_a_package_that_hands_on_is_answered_for_by_the_other(stage: Stage) -> None:
    def clerk(messages: Sequence[Message]) -> Reply:
        return hands_off("deputy", "please")

    for mode in MODES:
        team = office(stage, Agent("clerk", handoffs=["deputy"]), Agent("deputy", handoffs=()), clerk=clerk)
        result = await team.offer(package(mode=mode, conversation=mode))
        assert stands(result) == ("clerk", DONE[mode], "Four.", "")
        assert {(each.sender, each.receiver) for each in await team.handoffs(mode)} == {
            *(("code", "clerk"), ("clerk", "deputy")),
        }


@story
async def the_alternative_is_asked_with_the_same_task_and_the_next_attempt_number(stage: Stage) -> None:
    asked: list[tuple[str, int, str]] = []

    def accepts(package: HandoffPackage) -> Rejected | None:
        who = package.metadata
        asked.append((who.receiver, who.attempt, package.task.description))
        return Rejected("no") if who.receiver == "clerk" else None

    team = office(stage, Agent("clerk", accepts=accepts), Agent("deputy", accepts=accepts))
    result = await team.offer(package(context=Context(escalation_path=("deputy",))))
    assert result.result == "Four."
    if stage.lives == 1:
        assert asked == [("clerk", 1, "count the parts"), ("deputy", 2, "count the parts")]

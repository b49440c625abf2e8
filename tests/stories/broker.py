"""Stories of packages without a receiver: the order in which candidates are asked, and what follows if all decline."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from changeover import Agent, Approve, Reject, Team, Variable
from changeover.errors import KeyConflict, MisconfiguredError, PackageError
from changeover.guards.approval import Decision
from changeover.handoffs.tokens import count
from changeover.messages import Message
from changeover.protocol import Accepted, Conditional, Context, HandoffPackage, HandoffResult, Rejected, Task, Ticket
from changeover.relay.events import HandoffConditional, HandoffOffered, HandoffRejected, ReceiverChosen
from changeover.routing import Routing
from changeover.testing import ManualClock, Reply, says
from tests.stories.answers import Accepts, declines, follow_each_other
from tests.stories.cancellation import Hold, assert_at_rest
from tests.stories.delegates import cast
from tests.stories.offers import DONE, MODES, package, stands
from tests.stories.service import assert_alive, brings, came, decide_all, error, outcome, worked_off
from tests.stories.service import declines as sends_back
from tests.stories.stage import CONVERSATION, Stage, events, story

LAW = "contract-law"
TASK = "Read the leases, the patents, the deeds and the wills."
FITS = {
    "ann": "Reads leases, patents, deeds and wills.",
    "bob": "Reads leases and patents.",
    "cid": "Reads leases.",
    "dan": "",
}
"""Who knows the law, and what their profiles say: each fits the task a little less than the one before."""


def lawyer(id: str, accepts: Accepts | None = None, **options: Any) -> Agent:
    """A capable agent that gives this answer to an offer."""
    return Agent(id, description=FITS[id], capabilities=["Contract Law"], accepts=accepts, handoffs=(), **options)


def firm(stage: Stage, *lawyers: Agent, clock: ManualClock | None = None, **parts: Any) -> Team:
    """A desk, lawyers, and a baker that should never be asked."""
    model = cast(**{**{each.id: says(f"{each.id} did it") for each in lawyers}, "desk": says("hello"), **parts})
    baker = Agent("baker", description=TASK, capabilities=["bread"], handoffs=())
    members, options = [Agent("desk", handoffs=()), *lawyers, baker], {"clock": clock} if clock else {}
    return stage.team(members, model, routing=Routing(learning=None), **options)  # learning has stories of its own


def case(**options: Any) -> HandoffPackage:
    """A task for any capable agent."""
    return package("", TASK, **options)


def needs(context: Sequence[str] = (), permission: Sequence[str] = ()) -> Accepts:
    """Take it only on these conditions."""
    return lambda package: Conditional(needs_more_context=tuple(context), needs_permission=tuple(permission))


async def tried(team: Team, conversation: str = CONVERSATION) -> list[tuple[str, str, int]]:
    """Receivers and states in the order of the offers; checks that the attempts are consecutive."""
    records = await team.handoffs(conversation)
    assert follow_each_other(records)
    return [(each.receiver, str(each.state), each.attempt) for each in records]


async def decided(team: Team, given: HandoffPackage, decision: Decision, **options: Any) -> HandoffResult:
    """What comes of it if people decide so about whatever is awaited."""
    result = await team.broker(LAW, given, **options)
    while result.requests:
        assert {request.kind for request in result.requests} == {"permission"}
        await decide_all(team, decision)
        result = await team.broker(LAW, given, **options)
    return result


@story
async def the_best_match_among_capable_agents_gets_the_task(stage: Stage) -> None:
    for mode in MODES:
        team = firm(stage, lawyer("bob"), lawyer("ann"), lawyer("cid"))
        result = await team.broker("contract_law", case(mode=mode, conversation=mode))
        assert stands(result) == ("ann", DONE[mode], "ann did it", "")
        [chosen] = await events(team, ReceiverChosen, mode)
        assert (chosen.receiver, chosen.alternatives, chosen.step) == ("ann", ("bob", "cid"), "exact")
        [offered] = await events(team, HandoffOffered, mode)
        assert (offered.receiver, offered.capability, offered.sender) == ("ann", "contractlaw", "code")
        await assert_at_rest(team, mode)


@story
async def capable_agents_are_asked_in_turn_until_one_accepts(stage: Stage) -> None:
    for mode in MODES:
        closed = [lawyer(id, declines(f"{id} is closed")) for id in ("ann", "bob", "cid")]
        team = firm(stage, *closed, lawyer("dan", lambda package: Accepted(60)))
        result = await team.broker(LAW, case(mode=mode, conversation=mode))
        assert stands(result) == ("dan", DONE[mode], "dan did it", "")
        assert await tried(team, mode) == [
            *(("ann", "REJECTED", 1), ("bob", "REJECTED", 2), ("cid", "REJECTED", 3), ("dan", DONE[mode], 4)),
        ]
        await assert_at_rest(team, mode)


@story
async def a_task_that_no_agent_accepts_returns_with_every_answer(stage: Stage) -> None:
    for mode in MODES:
        members = [
            lawyer("ann", declines("on holiday")),
            lawyer("bob", lambda package: False),
            lawyer("cid", declines("too long")),
        ]
        team = firm(stage, *members, lawyer("dan", declines("too dull")))
        result = await team.broker(LAW, case(mode=mode, conversation=mode), no_takers="return")
        said = "ann: on holiday; bob: it does not accept this task; cid: too long; dan: too dull"
        assert stands(result) == ("dan", "REJECTED", "", said)
        assert (result.error, result.pending) == ("", [])
        assert [each.receiver for each in await events(team, HandoffRejected, mode)] == ["ann", "bob", "cid", "dan"]
        await assert_at_rest(team, mode)


@story
async def without_a_capable_agent_no_agent_is_asked(stage: Stage) -> None:
    for mode in MODES:
        for no_takers in ("return", "queue"):
            team, where = firm(stage, lawyer("ann")), f"{mode}-{no_takers}"
            given = case(mode=mode, conversation=where, required_capabilities=["bread"])
            result = await team.broker(LAW, given, no_takers=no_takers)
            why = "no available agent has contract-law and bread; there are: ann, baker, desk"
            assert stands(result) == ("", "REJECTED", "", why)
            assert (result.handoff_id, await team.handoffs(where)) == ("", [])
            await assert_at_rest(team, where)


@story
async def a_brokered_receiver_gets_the_context_of_the_task(stage: Stage) -> None:
    clock = ManualClock()
    due = datetime.fromtimestamp(clock.now() + 60, UTC)
    context = Context(original_request="Is it valid?", key_information=("Signed in May.",))

    def accepts(package: HandoffPackage) -> Any:
        metadata, tokens = package.metadata, package.metadata.estimated_tokens or 0
        least = count(TASK) + count("Signed in May.")
        assert least < tokens < least + 40
        assert (package.task.type, metadata.deadline, metadata.receiver) == ("reading", due, "bob")
        assert (metadata.required_capabilities, metadata.attempt) == ((LAW,), 2)
        return Accepted()

    team = firm(stage, lawyer("ann", declines("no")), lawyer("bob", accepts), clock=clock)
    given = case(context=context, deadline=due, required_capabilities=["Contract Law"])
    given = HandoffPackage(Task(TASK, type="reading"), given.context, given.metadata, given.expectations)
    assert stands(await team.broker(LAW, given)) == ("bob", "RETURNED", "bob did it", "")


@story
async def an_estimate_that_was_given_is_left_as_it_is(stage: Stage) -> None:
    team = firm(stage, lawyer("ann", lambda package: Rejected(f"{package.metadata.estimated_tokens} are too many")))
    result = await team.broker(LAW, case(estimated_tokens=90_000))
    assert stands(result) == ("ann", "REJECTED", "", "ann: 90000 are too many")


@story
async def a_suggested_agent_is_asked_next_if_it_is_capable(stage: Stage) -> None:
    members = [lawyer("ann", declines("ask cid", "cid")), lawyer("bob"), lawyer("cid", declines("ask them", "baker"))]
    team = firm(stage, *members)
    assert (await team.broker(LAW, case())).agent == "bob"
    assert [each[0] for each in await tried(team)] == ["ann", "cid", "bob"]


@story
async def a_clean_yes_wins_over_a_condition(stage: Stage) -> None:
    for mode in MODES:
        team = firm(stage, lawyer("ann", needs(permission=["to read"])), lawyer("bob", needs(["order"])), lawyer("cid"))
        result = await team.broker(LAW, case(mode=mode, conversation=mode))
        assert stands(result) == ("cid", DONE[mode], "cid did it", "")
        assert await tried(team, mode) == [("ann", "RETURNED", 1), ("bob", "RETURNED", 2), ("cid", DONE[mode], 3)]
        records = await team.handoffs(mode)
        assert [each.error for each in records[:2]] == ["it needs permission for to read", "it has to know order"]
        assert await team.approvals(mode) == []


@story
async def when_all_were_asked_a_person_is_asked_for_the_permission_of_the_agent_with_the_fewest_conditions(
    stage: Stage,
) -> None:
    for mode in MODES:
        members = [
            lawyer("ann", needs(permission=["to read", "to write"])),
            lawyer("bob", needs(permission=["to read"])),
            lawyer("cid", needs(permission=["to write"])),
            lawyer("dan", declines("no")),
        ]
        team, given = firm(stage, *members), case(mode=mode, conversation=mode)
        waiting = await team.broker(LAW, given)
        for request in waiting.requests:
            assert (request.kind, request.receiver, request.arguments) == (
                *("permission", "bob", {"permission": ["to read"]}),
            )
            assert (waiting.agent, str(waiting.state), waiting.reason) == ("bob", "PENDING", "waits for bob")
        assert waiting.requests or stage.lives > 1
        result = await decided(team, given, Approve())
        assert stands(result) == ("bob", DONE[mode], "bob did it", "")
        asked = [*(("ann", "RETURNED", 1), ("bob", "RETURNED", 2), ("cid", "RETURNED", 3), ("dan", "REJECTED", 4))]
        assert await tried(team, mode) == [*asked, ("bob", DONE[mode], 5)]
        conditions = [(each.receiver, each.put_off) for each in await events(team, HandoffConditional, mode)]
        assert conditions == [("ann", True), ("bob", True), ("cid", True), ("bob", False)]
        await assert_at_rest(team, mode)


@story
async def a_permission_that_is_refused_lets_the_next_condition_be_weighed(stage: Stage) -> None:
    for mode in MODES:
        members = [lawyer("ann", needs(permission=["to read"])), lawyer("bob", needs(permission=["to write"]))]
        team = firm(stage, *members)
        result = await decided(team, case(mode=mode, conversation=mode), Reject("not them"))
        permission = "it needs permission for to"
        told = f"ann: {permission} read; bob: {permission} write; ann: not them; bob: not them"
        assert stands(result) == ("bob", "REJECTED", "", told)
        assert [each[0] for each in await tried(team, mode)] == ["ann", "bob", "ann", "bob"]
        await assert_at_rest(team, mode)


@story
async def the_context_that_the_agent_with_the_fewest_conditions_needs_is_asked_of_the_sender(stage: Stage) -> None:
    for mode in MODES:
        members = [
            lawyer("ann", needs(permission=["to read", "to write"])),
            lawyer("bob", requires=[Variable("order")]),
            lawyer("cid", declines("no")),
        ]
        team = firm(stage, *members)
        result = await team.broker(LAW, case(mode=mode, conversation=mode), no_takers="queue")
        assert stands(result) == ("bob", "RETURNED", "", "it has to know order")
        assert [each[0] for each in await tried(team, mode)] == ["ann", "bob", "cid", "bob"]
        await assert_at_rest(team, mode)
        known = case(mode=mode, conversation=f"{mode}-2", context=Context(variables={"order": "17"}))
        assert stands(await team.broker(LAW, known)) == ("bob", DONE[mode], "bob did it", "")


@story
async def an_agent_that_gave_a_condition_is_not_asked_a_second_time(stage: Stage) -> None:
    def accepts(package: HandoffPackage) -> Conditional:
        stage.effects.append(f"asked {package.metadata.receiver} {package.metadata.attempt}")
        return Conditional(needs_permission=("to read",))

    team = firm(stage, lawyer("ann", accepts), lawyer("bob", declines("no")))
    assert (await decided(team, case(), Approve())).agent == "ann"
    assert stage.did == ["asked ann 1"]


def waits_for(result: HandoffResult, agent: str) -> Ticket:
    """The ticket of a package that waits in a queue."""
    assert (result.agent, str(result.state), result.reason) == (agent, "PENDING", f"waits for {agent}")
    [ticket] = result.pending
    assert isinstance(ticket, Ticket)
    assert ticket.agent == agent
    return ticket


@story
async def a_task_that_no_agent_accepts_waits_in_the_queue_of_the_best_match(stage: Stage) -> None:
    for mode in MODES:
        members = [lawyer("ann", declines("not now")), lawyer("bob", declines("no"))]
        team, given = firm(stage, *members), case(mode=mode, conversation=mode, priority=7)
        waiting = await team.broker(LAW, given, no_takers="queue")
        if stage.lives == 1:
            ticket = waits_for(waiting, "ann")
            assert (ticket.priority, (await team.status(ticket)).state) == (7, "PENDING")
        await worked_off(stage, team, "ann", brings("Read."))
        result = await team.broker(LAW, given, no_takers="queue")
        assert came(result) == ("ann", DONE[mode], "Read.")
        assert await outcome(team, result.handoff_id) == result
        assert await tried(team, mode) == [("ann", "REJECTED", 1), ("bob", "REJECTED", 2), ("ann", DONE[mode], 3)]
        await assert_at_rest(team, mode)


@story
async def what_is_sent_back_from_the_queue_as_well_comes_back(stage: Stage) -> None:
    for mode in MODES:
        team, given = firm(stage, lawyer("ann", declines("not now"))), case(mode=mode, conversation=mode)
        await team.broker(LAW, given, no_takers="queue")
        await worked_off(stage, team, "ann", sends_back("never"))
        result = await team.broker(LAW, given, no_takers="queue")
        assert stands(result) == ("ann", "REJECTED", "", "ann: not now; ann: never")
        assert (await outcome(team, result.handoff_id)).reason == result.reason
        await assert_at_rest(team, mode)


@story
async def the_team_option_decides_about_tasks_that_no_agent_accepts(stage: Stage) -> None:
    members = [Agent("desk", handoffs=()), lawyer("ann", declines("not now"))]
    team = stage.team(members, cast(), routing=Routing(no_takers="queue"))
    waiting = await team.broker(LAW, case())
    if stage.lives == 1:
        waits_for(waiting, "ann")
    other = await team.broker(LAW, case(conversation="other"), no_takers="return")
    assert stands(other) == ("ann", "REJECTED", "", "ann: not now")
    await worked_off(stage, team, "ann", brings("Read."))
    assert came(await team.broker(LAW, case())) == ("ann", "RETURNED", "Read.")


@story
async def an_agent_without_capacity_is_skipped_with_that_reason(stage: Stage) -> None:
    hold = Hold()

    async def works(messages: Sequence[Message]) -> Reply:
        await hold.on()
        return says("At last.")

    team = firm(stage, lawyer("ann", max_concurrency=1), lawyer("bob", declines("no")), ann=works)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(team.broker(LAW, case(conversation="one")))
        await begun(team, first, hold)
        second = await team.broker(LAW, case(conversation="two"))
        third = await team.broker(LAW, case(conversation="three"), no_takers="queue")
        hold.let_go.set()
    assert stands(first.result()) == ("ann", "RETURNED", "At last.", "")
    if stage.lives == 1:
        full = "it works on 1 tasks, which is all it can do at once"
        assert stands(second) == ("bob", "REJECTED", "", f"ann: {full}; bob: no")
        waits_for(third, "ann")
        await worked_off(stage, team, "ann", brings("Read."))
        assert came(await team.broker(LAW, case(conversation="three"), no_takers="queue")) == (
            *("ann", "RETURNED", "Read."),
        )


async def begun(team: Team, work: "asyncio.Task[Any]", hold: Hold) -> None:
    """Return when the work has come to its hold, or to its end."""
    while not hold.begun.is_set() and not work.done():
        await asyncio.sleep(0.005)
        await assert_alive(team)


@story
async def the_same_key_gives_the_same_brokered_handoff(stage: Stage) -> None:
    team = firm(stage, lawyer("ann"), lawyer("bob"))
    first, second = await asyncio.gather(*(team.broker(LAW, case(conversation="")) for _ in range(2)))
    assert (first.handoff_id, first.result) == (second.handoff_id, second.result)
    assert len(await team.handoffs(first.conversation_id)) == 1
    others = (team.broker("taxes", case(conversation="")), team.broker(LAW, case(conversation=""), no_takers="queue"))
    for other in others:
        assert (await error(KeyConflict, other)).key == "offer-1"


@story
async def an_invalid_broker_request_is_refused_before_anything_is_recorded(stage: Stage) -> None:
    team = firm(stage, lawyer("ann"))
    named = await error(PackageError, team.broker(LAW, package("ann")))
    assert "$.metadata.receiver: names 'ann'" in str(named)
    nothing = await error(MisconfiguredError, team.broker(" - ", case()))
    assert "' - ' is no capability" in str(nothing)
    options: dict[str, Any] = {"no_takers": "drop"}
    unknown = await error(MisconfiguredError, team.broker(LAW, case(), **options))
    assert "no_takers='drop'; give 'return' or 'queue'" in str(unknown)
    assert (await team.broker(LAW, case())).handoff_id == "story:2.0"

"""Stories of workers: they claim every kind of ticket and have their agents work on it."""

from changeover import Agent, Approve, Function, Member, Reject, RunContext, Team, delegate
from changeover.protocol import State
from changeover.relay.events import HandoffAccepted, TicketTaken
from changeover.testing import delegates, fails, hands_off, says
from tests.stories.answers import chain, triage, tries
from tests.stories.approvals import asked, pays
from tests.stories.cancellation import assert_at_rest
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.offers import DONE, MODES, office, package
from tests.stories.service import at_work, came, decide_all, ended, open_tickets, outcome, pulled, soon
from tests.stories.shifts import note
from tests.stories.stage import CONVERSATION, Stage, events, story


@story
async def a_worker_does_what_is_handed_over_to_its_agent(stage: Stage) -> None:
    model = cast(triage=tries(hands_off("billing", "refund")), billing=says("Refunded."))
    team = stage.team([triage("billing"), pulled("billing")], model)
    await stage.say(team, "charged twice")
    async with at_work(stage, team, "billing"):
        result = await ended(stage, team, "charged twice")
    assert (result.output, result.final_agent, chain(result)) == ("Refunded.", "billing", [("billing", "COMPLETE", 1)])
    [accepted] = await events(team, HandoffAccepted)
    assert accepted.by == "wanda"
    assert await open_tickets(team, CONVERSATION) == []


@story
async def a_worker_does_what_is_delegated_to_its_agents(stage: Stage) -> None:
    turn = asks(delegates("clerk", "count"), delegates("scribe", "write"), delegates("cook", "tea"))
    members = [boss(*map(delegate, ("clerk", "scribe", "cook"))), pulled("clerk"), pulled("scribe"), Agent("cook")]
    model = cast(boss=turn, clerk=says("Three."), scribe=says("Written."), cook=says("Tea."))
    team = stage.team(members, model)
    async with at_work(stage, team, "clerk", "scribe"):
        await stage.say(team, "all of it")
        result = await ended(stage, team, "all of it")
    assert [back.response for back in came_back(result)] == ["Three.", "Written.", "Tea."]
    assert {state for _, state, _ in chain(result)} == {"RETURNED"}
    await assert_at_rest(team)


@story
async def a_worker_does_what_users_say_to_its_agent(stage: Stage) -> None:
    team = stage.team([pulled("clerk")], cast(clerk=says("Three.")))
    async with at_work(stage, team, "clerk"):
        for text in ("how many?", "and now?"):
            await stage.say(team, text)
            result = await ended(stage, team, text)
            assert (result.output, result.final_agent) == ("Three.", "clerk")
    assert {taken.by for taken in await events(team, TicketTaken)} == {"wanda"}


@story
async def a_worker_does_what_is_submitted_to_an_agent_or_a_function(stage: Stage) -> None:
    def function(ctx: RunContext) -> str:
        return "Three."

    members: dict[str, Member] = {
        "agent": Agent("clerk"),
        "pulled": pulled("clerk"),
        "function": Function("clerk", function),
    }
    for name, member in members.items():
        for mode in MODES:
            team, where = office(stage, member), f"{name}-{mode}"
            ticket = await team.submit(package(mode=mode, conversation=where))
            async with at_work(stage, team, "clerk"):
                assert came(await outcome(team, ticket)) == ("clerk", DONE[mode], "Three.")
            assert await open_tickets(team, where) == []


@story
async def a_worker_whose_agents_model_fails_has_failed(stage: Stage) -> None:
    for mode in MODES:
        team = office(stage, pulled("clerk"), clerk=fails("no credit", retryable=False))
        ticket = await team.submit(package(mode=mode, conversation=mode))
        async with at_work(stage, team, "clerk"):
            result = await outcome(team, ticket)
        assert (result.state, "no credit" in result.error) == (State.FAILED, True)
        assert await open_tickets(team, mode) == []


@story
async def a_pulled_agent_may_hand_on_to_an_agent_of_this_process(stage: Stage) -> None:
    members = [triage("billing"), pulled("billing", handoffs=["tech"]), Agent("tech", handoffs=())]
    model = cast(
        triage=tries(hands_off("billing", "refund")), billing=hands_off("tech", "repair"), tech=says("Repaired.")
    )
    team = stage.team(members, model)
    await stage.say(team, "it is broken")
    async with at_work(stage, team, "billing"):
        result = await ended(stage, team, "it is broken")
    assert (result.output, result.final_agent) == ("Repaired.", "tech")
    assert chain(result) == [("billing", "COMPLETE", 1), ("tech", "COMPLETE", 1)]
    assert await open_tickets(team, CONVERSATION) == []


async def awaited(team: Team, agent: str) -> bool:
    """Whether something was handed over to this agent."""
    return agent in [each.receiver for each in await team.handoffs(CONVERSATION)]


@story
async def an_agent_that_is_pulled_may_hand_on_to_another_that_is(stage: Stage) -> None:
    members = [triage("billing"), pulled("billing", handoffs=["tech"]), pulled("tech")]
    model = cast(triage=tries(hands_off("billing", "refund")), billing=hands_off("tech", "repair"))
    team = stage.team(members, model)
    await stage.say(team, "it is broken")
    async with at_work(stage, team, "billing"):
        await soon(lambda: awaited(team, "tech"))
    if stage.lives == 1:
        waiting = await stage.say_again(team, "it is broken")
        assert chain(waiting) == [("billing", "WORKING", 1), ("tech", "PENDING", 1)]
    for claim in await stage.claim(team, "tech"):
        await claim.complete("Repaired.")
    result = await ended(stage, team, "it is broken")
    assert (result.output, chain(result)) == ("Repaired.", [("billing", "COMPLETE", 1), ("tech", "COMPLETE", 1)])


@story
async def an_agent_that_is_pulled_rests_while_its_delegates_wait_to_be_claimed(stage: Stage) -> None:
    members = [pulled("boss", handoffs=[delegate("clerk")]), pulled("clerk")]
    team = stage.team(members, cast(boss=asks(delegates("clerk", "count")), clerk=says("Three.")))
    await stage.say(team, "how many?")
    async with at_work(stage, team, "boss", "clerk", concurrency=1):
        result = await ended(stage, team, "how many?")
    assert [back.response for back in came_back(result)] == ["Three."]
    assert await open_tickets(team, CONVERSATION) == []


@story
async def an_agent_that_is_pulled_may_have_delegates_that_are_not(stage: Stage) -> None:
    members = [pulled("boss", handoffs=[delegate("clerk")]), Agent("clerk", handoffs=())]
    team = stage.team(members, cast(boss=asks(delegates("clerk", "count")), clerk=says("Three.")))
    await stage.say(team, "how many?")
    async with at_work(stage, team, "boss"):
        result = await ended(stage, team, "how many?")
    assert [back.response for back in came_back(result)] == ["Three."]


@story
async def delegates_that_are_pulled_may_have_delegates_that_are(stage: Stage) -> None:
    members = [boss(delegate("lead")), pulled("lead", handoffs=[delegate("clerk")]), pulled("clerk")]
    turns = {"boss": asks(delegates("lead", "count")), "lead": asks(delegates("clerk", "count"))}
    team = stage.team(members, cast(**turns, clerk=says("Three.")))
    await stage.say(team, "how many?")
    async with at_work(stage, team, "lead", "clerk", concurrency=1):
        result = await ended(stage, team, "how many?")
    assert '"response":"Three."' in came_back(result)[0].response
    assert [str(each.state) for each in await team.handoffs(CONVERSATION)] == ["RETURNED", "RETURNED"]


@story
async def a_ticket_that_waits_for_a_person_is_released_and_the_next_claim_goes_on(stage: Stage) -> None:
    for where, decision, output in (("yes", Approve(), "paid 500"), ("no", Reject(), "not approved by ana")):
        team = stage.team([pulled("clerk", tools=[pays(stage)])], cast(clerk=asks(("pay", {"amount": 500}))))
        await stage.say(team, "pay", conversation=where)
        if stage.lives == 1:
            ends = await lets_go(stage, team, where)
            status = await team.status(f"{where}:2")
            assert (ends, status.rests, status.owner) == (["rests"], True, "")
            assert await stage.claim(team, "clerk") == []
        async with at_work(stage, team, "clerk", name="walter"):
            await soon(lambda where=where, team=team: is_asked(team, where))  # type: ignore[misc]
            await decide_all(team, decision, where)
            result = await ended(stage, team, "pay", conversation=where)
        assert result.output == output
        assert await open_tickets(team, where) == []
    assert stage.did == ["paid 500"]


async def is_asked(team: Team, conversation: str) -> bool:
    return bool(await asked(team, conversation))


async def lets_go(stage: Stage, team: Team, conversation: str) -> list[str]:
    """The end of a worker's work that waits for a person."""
    ends: list[str] = []
    async with at_work(stage, team, "clerk", concurrency=1, news=lambda news: note(ends, news)):
        await soon(lambda: is_asked(team, conversation))
    return ends

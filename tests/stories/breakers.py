"""Stories of circuit breakers: receivers that keep failing get no handoffs until a trial succeeds."""

from collections.abc import Sequence
from typing import Any

from changeover import Agent, Command, Function, Limits, Member, RunContext, Send, Team, delegate, handoff
from changeover.errors import CircuitBreakerOpen, EconomicLimitExceeded, FunctionError, ModelError
from changeover.guards import CircuitBreaker, Deny
from changeover.messages import Message, User
from changeover.protocol import Rejected
from changeover.relay.events import CallRefused, CircuitFound, HandoffOffered
from changeover.testing import ManualClock, Reply, calls, delegates, fails, hands_off, says
from tests.stories.answers import chain, triage, tries
from tests.stories.deadlines import go_to
from tests.stories.delegates import asks, boss, came_back, cast
from tests.stories.guards import Says
from tests.stories.offers import MODES, package
from tests.stories.service import error
from tests.stories.stage import Stage, events, story

COUNT = hands_off("clerk", "count")
OPEN = "the circuit of clerk is open after 3 failures in a row; it is tried again at 2030-01-01 00:00:30 UTC"
TOLD = f"clerk did not take it: {OPEN}"
FORCED = "clerk did not take it: the circuit of clerk was opened by hand, and stays open until it is reset"


def obliging(messages: Sequence[Message]) -> Reply:
    """A clerk that fails for good if the task says so, and otherwise does the task."""
    asked = next(message.text for message in messages if isinstance(message, User))
    return fails("out of order", retryable=False) if "break" in asked else says("Three.")


def desk(stage: Stage, *ways: Any, clock: ManualClock | None = None, **options: Any) -> Team:
    """Triage hands over to a clerk, who breaks if it is asked to."""
    parts = {name: says(f"{name} did it") for name in ("deputy", "aide")}
    members = [triage(*(ways or (handoff("clerk"),))), *(Agent(name, handoffs=()) for name in ("clerk", *parts))]
    model = cast(triage=tries(COUNT), clerk=obliging, **parts)
    return stage.team(members, model, **{**options, **({"clock": clock} if clock else {})})


async def breaks(stage: Stage, team: Team, times: int = 3, prefix: str = "broken") -> None:
    """The clerk fails so many times in a row, each in a conversation of its own."""
    for number in range(times):
        await stage.error(ModelError, team, "break it", conversation=f"{prefix}-{number}")


async def circuit(team: Team) -> tuple[str, str, int, int]:
    """Receiver, state, failures and openings of every circuit in the store."""
    [found] = await team.breakers()
    return found.receiver, found.state, found.failures, found.openings


async def later(clock: ManualClock, seconds: float) -> None:
    """Let it be so many seconds after the beginning."""
    await clock.advance(max(ManualClock().now() + seconds, clock.now()) - clock.now())


@story
async def a_breaker_opens_after_three_failures_in_a_row_and_the_sender_is_told(stage: Stage) -> None:
    team = desk(stage)
    await breaks(stage, team)
    result = await stage.say(team, "how many?")
    assert (result.output, result.final_agent) == (f"{TOLD}; you still have the task", "triage")
    assert chain(result) == [("clerk", "REJECTED", 1)]
    assert result.handoff_chain[0].error == OPEN
    [found] = await events(team, CircuitFound)
    assert (found.call, found.receiver, found.failures) == ("3.0", "clerk", 3)
    assert await circuit(team) == ("clerk", "open", 3, 1)


@story
async def a_delegate_that_failed_three_times_in_a_row_is_left_alone_too(stage: Stage) -> None:
    model = cast(boss=asks(delegates("clerk", "break it")), clerk=obliging)
    team = stage.team([boss(), Agent("clerk")], model)
    for number in range(3):
        [back] = came_back(await stage.say(team, "how many?", conversation=f"broken-{number}"))
        assert (back.success, "out of order" in back.error) == (False, True)
    [back] = came_back(await stage.say(team, "how many?"))
    assert (back.success, back.error) == (False, TOLD)
    assert await circuit(team) == ("clerk", "open", 3, 1)


@story
async def functions_fail_as_agents_do(stage: Stage) -> None:
    def broken(ctx: RunContext) -> str:
        raise RuntimeError("out of order")

    team = stage.team([triage(handoff("clerk")), Function("clerk", broken)], cast(triage=tries(COUNT)))
    for number in range(3):
        await stage.error(FunctionError, team, "how many?", conversation=f"broken-{number}")
    assert TOLD in (await stage.say(team, "how many?")).output


@story
async def another_receiver_is_asked_instead_of_one_whose_breaker_is_open(stage: Stage) -> None:
    team = desk(stage, handoff("clerk", alternatives=["deputy"]))
    await breaks(stage, team)
    result = await stage.say(team, "how many?")
    assert (result.output, chain(result)) == ("deputy did it", [("clerk", "REJECTED", 1), ("deputy", "COMPLETE", 2)])
    assert await events(team, CallRefused) == []


@story
async def if_those_are_left_alone_too_the_next_one_is_asked(stage: Stage) -> None:
    team = desk(stage, handoff("clerk", alternatives=["deputy", "aide"]))
    if stage.lives == 1:
        await team.force_breaker("clerk")
        await team.force_breaker("deputy")
    result = await stage.say(team, "how many?")
    assert (result.output, [each.receiver for each in await events(team, CircuitFound)]) == (
        *("aide did it", ["clerk", "deputy"]),
    )
    assert [each.call for each in await events(team, HandoffOffered)] == ["3.0", "3.0+1", "3.0+2"]


@story
async def after_the_cool_down_a_handoff_that_succeeds_closes_the_circuit(stage: Stage) -> None:
    clock = ManualClock(auto=True)
    team = desk(stage, clock=clock)
    await breaks(stage, team)
    assert TOLD in (await stage.say(team, "how many?", conversation="too-soon")).output
    await later(clock, 30)
    for where in ("tried", "taken"):
        result = await stage.say(team, "how many?", conversation=where)
        assert (result.output, chain(result)) == ("Three.", [("clerk", "COMPLETE", 1)])
    assert await circuit(team) == ("clerk", "closed", 0, 1)


@story
async def after_the_cool_down_a_handoff_that_fails_opens_it_again_and_the_next_outage_is_another(stage: Stage) -> None:
    clock = ManualClock(auto=True)
    team = desk(stage, clock=clock)
    await breaks(stage, team)
    await later(clock, 30)
    await breaks(stage, team, 1, "tried")
    again = (await stage.say(team, "how many?", conversation="too-soon")).output
    assert "after 4 failures in a row; it is tried again at 2030-01-01 00:01:00 UTC" in again
    await later(clock, 60)
    assert (await stage.say(team, "how many?", conversation="mended")).output == "Three."
    await breaks(stage, team, 3, "later")
    assert await circuit(team) == ("clerk", "open", 3, 2)


@story
async def a_receiver_that_is_left_alone_may_be_tried_later_in_the_same_run(stage: Stage) -> None:
    clock = ManualClock(auto=True)

    async def wait() -> str:
        """Wait for half a minute."""
        await clock.sleep_until(ManualClock().now() + 30)
        return "waited"

    members = [triage(handoff("clerk"), tools=[wait]), Agent("clerk", handoffs=())]
    model = cast(triage=tries(COUNT, calls(("wait", {})), COUNT), clerk=obliging)
    team = stage.team(members, model, clock=clock)
    await breaks(stage, team)
    await go_to(clock, team, 0)
    result = await stage.say(team, "how many?")
    assert (result.output, chain(result)) == ("Three.", [("clerk", "REJECTED", 1), ("clerk", "COMPLETE", 2)])
    assert len(await events(team, CircuitFound)) == 1


@story
async def a_success_between_failures_resets_the_breaker(stage: Stage) -> None:
    team = desk(stage)
    await breaks(stage, team, 2)
    assert (await stage.say(team, "how many?", conversation="fine")).output == "Three."
    await breaks(stage, team, 2, "again")
    assert (await stage.say(team, "how many?")).output == "Three."


@story
async def a_rejection_is_not_a_failure_for_the_breaker(stage: Stage) -> None:
    members = [triage(handoff("clerk")), Agent("clerk", accepts=lambda package: Rejected("closed"), handoffs=())]
    team = stage.team(members, cast(triage=tries(COUNT), clerk=says("Three.")))
    for number in range(4):
        result = await stage.say(team, "how many?", conversation=f"asked-{number}")
        assert "clerk did not take it: closed" in result.output
    assert await team.breakers() == []


@story
async def a_denial_or_a_limit_is_not_a_failure_for_the_breaker(stage: Stage) -> None:
    def busy(messages: Sequence[Message]) -> Reply:
        return calls(("look", {}))

    def look() -> str:
        """Look."""
        return "seen"

    members = [triage(handoff("clerk")), Agent("clerk", tools=[look], handoffs=())]
    team = stage.team(members, cast(triage=tries(COUNT), clerk=busy), limits=Limits(max_turns=3))
    for number in range(4):
        await stage.error(EconomicLimitExceeded, team, "how many?", conversation=f"limit-{number}")
    denying = [Says(Deny("not on Sundays")), CircuitBreaker()]
    closed = stage.team(members, cast(triage=tries(COUNT), clerk=busy), guards=denying)
    for number in range(4):
        result = await stage.say(closed, "how many?", conversation=f"guard-{number}")
        assert "refused: not on Sundays" in result.output
    assert (await team.breakers(), await closed.breakers()) == ([], [])


@story
async def a_delegate_that_takes_too_many_turns_has_failed(stage: Stage) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    way = delegate("clerk", max_iterations=2, guards=[CircuitBreaker(threshold=1)])
    model = cast(boss=asks(delegates("clerk", "count")), clerk=lambda messages: calls(("look", {})))
    team = stage.team([boss(way), Agent("clerk", tools=[look], handoffs=())], model)
    [back] = came_back(await stage.say(team, "how many?"))
    assert "max_iterations=2" in back.error
    assert await circuit(team) == ("clerk", "open", 1, 1)


@story
async def a_handoff_may_have_a_breaker_of_its_own(stage: Stage) -> None:
    hasty = handoff("clerk", name="ask_clerk", guards=[CircuitBreaker(threshold=1, cooldown=600)])
    team = desk(stage, hasty, guards=())
    await breaks(stage, team, 1)
    told = (await stage.say(team, "how many?")).output
    assert "is open after 1 failure; it is tried again at 2030-01-01 00:10:00 UTC" in told


@story
async def without_a_breaker_a_failing_receiver_is_asked_again(stage: Stage) -> None:
    team = desk(stage, guards=())
    await breaks(stage, team, 4)
    assert (await stage.say(team, "how many?")).output == "Three."
    assert await team.breakers() == []


@story
async def code_that_offers_to_a_receiver_with_an_open_breaker_is_told_so(stage: Stage) -> None:
    team = desk(stage)
    await breaks(stage, team)
    for mode in MODES:
        told = await error(CircuitBreakerOpen, team.offer(package(mode=mode, conversation=mode)))
        assert (told.reason, told.circuit.receiver, told.circuit.state, told.circuit.failures) == (
            *(OPEN, "clerk", "open", 3),
        )
        assert [each.state for each in await team.handoffs(mode)] == ["REJECTED"]
        ticket = await team.submit(package(mode=mode, conversation=f"{mode}-queued"))
        assert (await team.status(ticket)).state == "REJECTED"


@story
async def failures_of_offers_from_code_count_for_the_breaker(stage: Stage) -> None:
    members = [Agent("desk", handoffs=()), *(Agent(mode, handoffs=()) for mode in MODES)]
    team = stage.team(members, cast(**dict.fromkeys(MODES, obliging)), guards=[CircuitBreaker(threshold=1)])
    for mode in MODES:
        broken = team.offer(package(mode, "break it", mode=mode, conversation=f"{mode}-broken"))
        if mode == "transfer":
            await error(ModelError, broken)
        else:
            assert (await broken).state == "FAILED"
        told = await error(CircuitBreakerOpen, team.offer(package(mode, mode=mode, conversation=mode)))
        assert told.circuit.receiver == mode


@story
async def each_branch_to_a_receiver_with_an_open_breaker_is_refused(stage: Stage) -> None:
    def tells(ctx: RunContext) -> Command | str:
        if not ctx.returned:
            return Command(goto=[Send("clerk" if number % 2 else "deputy", {}) for number in range(40)])
        failed = [each.error for each in ctx.returned if not each.success]
        return f"{len(failed)}: {set(failed)}"

    members: list[Member] = [Function("boss", tells), Agent("clerk"), Agent("deputy")]
    team = stage.team(members, cast(clerk=says("Three."), deputy=says("Four.")), limits=Limits(max_handoffs=100))
    if stage.lives == 1:
        await team.force_breaker("clerk")
    assert (await stage.say(team, "how many?")).output == f"20: { ({FORCED}) }"
    entries = await team.log.read("story")
    found = [sum(isinstance(each, CircuitFound) for each in entry.events) for entry in entries]
    assert [count for count in found if count] == [20]  # in one entry, and so by one retry


@story
async def a_breaker_that_is_forced_open_stays_open_until_it_is_reset(stage: Stage) -> None:
    team = desk(stage)
    if stage.lives == 1:
        await team.force_breaker("clerk")
    assert FORCED in (await stage.say(team, "how many?", conversation="forced")).output
    if [each.forced for each in await team.breakers()] == [True]:
        assert await team.reset_breaker("clerk")
    assert not await team.reset_breaker("clerk")
    assert (await stage.say(team, "how many?")).output == "Three."

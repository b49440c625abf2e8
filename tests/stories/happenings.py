"""Stories of subscribers to the team's own conversations: what they are told is stored with what it tells of, once."""

from typing import Any

from changeover import Agent, Approve, Function, Team, tool
from changeover.bus import BusEvent, Subscription
from changeover.errors import ChangeoverError
from changeover.guards import CircuitBreaker
from changeover.protocol import Rejected
from changeover.testing import ScriptedModel, calls, hands_off, says
from tests.stories.stage import CONVERSATION, Stage, story

EVERYTHING = [Subscription("changeover.*", to=print, name="everything")]


async def told(team: Team) -> list[tuple[str, Any]]:
    """The types of the events that the team has stored for its subscribers, each with one word of its data."""

    def word(event: BusEvent) -> Any:
        names = ("reason", "tool", "failures", "output", "run")
        return next(event.data[name] for name in names if name in event.data)

    return [(event.type.removeprefix("changeover."), word(event)) for event in reversed(await team.bus.events())]


@story
async def a_rejection_and_the_end_of_its_run_are_told_once_and_in_order(stage: Stage) -> None:
    busy = Agent("busy", description="Has no time.", accepts=lambda package: Rejected("no time"))
    model = ScriptedModel({"triage": [hands_off("busy", "help"), says("Nobody has time.")]})
    team = stage.team([Agent("triage"), busy], model, subscriptions=EVERYTHING)
    result = await stage.say(team, "hello")
    assert result.output == "Nobody has time."
    assert await told(team) == [("handoff.rejected", "no time"), ("run.completed", "Nobody has time.")]
    events = await team.bus.events()
    assert {(event.source, event.data["agent"]) for event in events} == {(f"conversations/{CONVERSATION}", "triage")}


@story
async def an_approval_that_waits_is_told_with_the_id_by_which_it_is_decided(stage: Stage) -> None:
    @tool(approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        stage.effects.append("paid")
        return "paid"

    model = ScriptedModel({"clerk": [calls(("pay", {"amount": 5})), says("Paid.")]})
    team = stage.team([Agent("clerk", tools=[pay])], model, subscriptions=EVERYTHING)
    await stage.say(team, "pay")
    [waiting] = await team.bus.events(type="changeover.approval.waiting")
    for request in await team.approvals():
        assert request.id == waiting.data["approval"]
        await team.decide(waiting.data["approval"], Approve())
    assert (await stage.say_again(team, "pay")).output == "Paid."
    assert await told(team) == [("approval.waiting", "pay"), ("run.completed", "Paid.")]
    assert stage.did == ["paid"]


@story
async def the_failure_that_opens_a_circuit_is_told_with_it(stage: Stage) -> None:
    def breaks(context: object) -> str:
        raise ValueError("out of order")

    model = ScriptedModel({"triage": [hands_off("printer", "print")]})
    team = stage.team(
        [Agent("triage"), Function("printer", breaks, description="Prints.")],
        model,
        guards=[CircuitBreaker(threshold=1)],
        subscriptions=EVERYTHING,
    )
    await stage.error(ChangeoverError, team, "print it")
    assert sorted(await told(team)) == [("breaker.opened", 1), ("run.failed", f"{CONVERSATION}@1")]

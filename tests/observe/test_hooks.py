"""Hooks: each event calls its hooks after it is recorded; their errors are logged and ignored."""

import asyncio
import logging
from functools import partial
from typing import Any, get_args

import pytest

from changeover import Agent, Approve, Function, Limits, RunResult, Team, Variable, delegate, handoff, specialist, tool
from changeover.errors import ChangeoverError, EconomicLimitExceeded, MisconfiguredError, StepError
from changeover.facts import Ledger
from changeover.guards import Allow, Deny, Rule
from changeover.guards.guard import Answer, Facts, Offer
from changeover.observe.hooks import ALIASES, EVENTS, hook_faults
from changeover.protocol import Handover, Rejected, TicketClaim
from changeover.relay.events import Event, HandoffAccepted, RunCompleted
from changeover.routing import Experiment
from changeover.stream import Recorded
from changeover.testing import ManualClock, ScriptedModel, calls, delegates, fails, hands_off, says
from changeover.tools import Skill
from changeover.workflows import Workflow, WorkflowStep

SCRIPT = {
    "triage": [calls(("pay", {}), ("ship", {})), fails("busy"), hands_off("billing", "x")],
    "billing": [says("Done."), hands_off("nobody", "y"), hands_off("broken", "z")],
    "boss": [
        calls(delegates("aide", "count"), ("sign", {}), ("glance", {})),
        says("Counted."),
        calls(delegates("aide", "count"), delegates("sleeper", "rest")),
    ],
    "aide": [calls(("glance", {})), says("Three.")],
    "sleeper": [calls(("sleep", {}))],
    "clerk": [hands_off("shy", "x"), hands_off("curious", "x"), hands_off("slow", "x"), says("Alone, then.")],
    "patron": [hands_off("maker", "x")],
    "maker": [says("Three."), says("[3]")],
}


@tool(at_most_once=True)
def pay() -> str:
    """Pay."""
    return "paid"


@tool(approval=True)
def sign() -> str:
    """Sign."""
    return "signed"


@tool(approval=lambda ctx, arguments: False)
def glance() -> str:
    """Glance."""
    return "seen"


async def sleep() -> str:
    """Sleep."""
    await asyncio.sleep(60)
    return "awake"


def in_short(handover: Handover) -> str:
    return handover.message


def broken(ctx: Any) -> str:
    raise RuntimeError("broken")


def a_team(hooks: dict[str, Any] | None = None) -> Team:
    clock, ask = ManualClock(auto=True), lambda request: Approve()

    async def takes_too_long(package: Any) -> bool:
        await clock.sleep_until(package.metadata.deadline.timestamp() + 1)
        await asyncio.sleep(1)
        return True

    tries: list[Any] = []

    def second_time_lucky(about: Any) -> None:
        tries.append(about)
        if tries.count(about) == 1:
            raise RuntimeError("not yet")

    callbacks: dict[str, Any] = dict.fromkeys(("on_accepted", "on_rollback"), second_time_lucky)
    members: list[Agent | Function] = [
        Agent("triage", tools=[pay]),
        Agent("billing"),
        Function("broken", broken),
        Function("fine", lambda ctx: ""),
        Agent("boss", tools=[sign, glance], handoffs=[delegate("aide"), delegate("sleeper")]),
        Agent("aide", tools=[glance]),
        Agent("sleeper", tools=[sleep]),
        Agent("shy", accepts_handoffs=False),
        Agent("curious", requires=[Variable("order")]),
        Agent("slow", accepts=takes_too_long),
        Agent("clerk", handoffs=["shy", "curious", handoff("slow", timeout=5)]),
        Agent("patron", handoffs=[handoff("maker", expects=list[int], strategy=in_short, **callbacks)]),
        Agent("maker"),
        Agent("fetched", pull=True),
    ]
    return Team(members, model=ScriptedModel(SCRIPT), clock=clock, hooks=hooks, ask=ask)


async def one_by_one(team: Team) -> list[RunResult | str]:
    """Runs in which one thing follows another."""
    results: list[RunResult | str] = [await team.run("one", conversation="c")]
    try:
        await team.run("two", conversation="c")
    except ChangeoverError as error:
        results.append(str(error))
    results.append(await team.run("three", conversation="c", agent="fine"))
    return results


async def everything(team: Team) -> None:
    """Runs in which almost every kind of event happens. In the last, one delegate exceeds a limit, another sleeps."""
    await one_by_one(team)
    await team.run("four", conversation="c", agent="boss")
    await team.run("asking", conversation="c", agent="clerk")
    made = await team.run("making", conversation="c", agent="patron")
    await team.rollback(made.handoff_chain[-1])
    await team.run("fetching", conversation="c", agent="fetched")
    for give in (TicketClaim.give_back, partial(TicketClaim.complete, result="fetched")):
        [claim] = await team.claim("fetched")
        await claim.accept()
        await give(claim)
    await team.rename("c", "All of it")
    with pytest.raises(EconomicLimitExceeded):
        await team.run("five", conversation="c", agent="boss", limits=Limits(max_turns=3))
    await team.close()


async def falls_back(hooks: dict[str, Any]) -> None:
    """A run that goes on alone because its task is too simple to hand off."""
    model = ScriptedModel({"a": [hands_off("b", "x"), says("Alone.")]})
    team = Team([Agent("a"), Agent("b")], model=model, hooks=hooks, limits=Limits.tier("auto"), fallback=True)
    await team.run("go")
    await team.close()


async def is_left_alone(hooks: dict[str, Any]) -> None:
    """A run that would hand over to a receiver with an open breaker."""
    model = ScriptedModel({"a": [hands_off("b", "x"), says("Then not.")]})
    team = Team([Agent("a"), Agent("b")], model=model, hooks=hooks)
    await team.force_breaker("b")
    await team.run("go")
    await team.close()


async def is_ruled(hooks: dict[str, Any]) -> None:
    """A run in which one rule leads on, one cannot be judged, and a guard denies the next receiver."""

    class FirstOnly:
        def check(self, offer: Offer, ledger: Ledger, facts: Facts) -> Answer:
            return Deny("enough") if offer.attempt > 1 else Allow()

    rules = [
        Rule("odd", if_=lambda ctx: bool(ctx.context["x"]), goto="b"),
        Rule("on", if_=lambda ctx: True, goto="b"),
    ]
    members = [Agent("a"), Agent("b", accepts=lambda package: Rejected("no", "c")), Agent("c")]
    model = ScriptedModel({"a": [says("Alone.")]})
    team = Team(members, model=model, hooks=hooks, rules=rules, guards=[FirstOnly()])
    await team.run("go")
    await team.close()


async def asks_for_a_specialist(hooks: dict[str, Any]) -> None:
    """A run that asks for a specialist."""
    script = {"a": [calls(("handoff_to_specialist", {"specialist_type": "law", "task": "x", "reason": ""})), says("")]}
    members = [Agent("a", handoffs=[specialist()]), Agent("b", capabilities=["law"], handoffs=())]
    team = Team(members, model=ScriptedModel({**script, "b": [says("No.")]}), hooks=hooks)
    await team.run("go")
    await team.close()


async def takes_part(hooks: dict[str, Any]) -> None:
    """A run that takes part in an experiment."""
    experiment = Experiment("words", {"plain": "Be plain.", "fancy": "Be fancy."}, on="instructions")
    team = Team([Agent("a")], model=ScriptedModel({"a": [says("Well.")]}), hooks=hooks, experiments=[experiment])
    await team.run("go")
    await team.close()


async def loads_a_skill(hooks: dict[str, Any]) -> None:
    """A run whose agent loads a skill."""
    script = {"a": [calls(("load_skill", {"skill": "greeting"})), says("Hello.")]}
    skill = Skill("greeting", description="How to greet.", instructions="Say hello.")
    team = Team([Agent("a", skills=[skill])], model=ScriptedModel(script), hooks=hooks)
    await team.run("go")
    await team.close()


async def is_checked(hooks: dict[str, Any]) -> None:
    """A run whose message is refused by a check."""
    checks = [lambda content: Deny("No.")]
    team = Team([Agent("a", checks=checks)], model=ScriptedModel({"a": [says("Well.")]}), hooks=hooks)
    await team.run("go")
    await team.close()


async def follows_a_workflow(hooks: dict[str, Any]) -> None:
    """A run of a workflow with a step for each item, one that is skipped, and one that fails, so that all is undone."""
    steps = [
        WorkflowStep("count", function=lambda ctx: 3, for_each="inputs.parts", on_rollback=lambda ctx: ""),
        WorkflowStep("rest", function=lambda ctx: "", when="`false`"),
        WorkflowStep("fail", function=broken, after=["count"]),
    ]
    team = Team([Agent("a")], model=ScriptedModel({}), hooks=hooks, workflows=[Workflow("parts", steps=steps)])
    with pytest.raises(StepError):
        await team.run_workflow("parts", {"parts": [1]})
    await team.close()


async def test_there_is_a_hook_for_every_event_and_it_is_called_once_for_each():
    noticed: list[Recorded] = []
    team = a_team(dict.fromkeys(EVENTS, noticed.append))
    await everything(team)
    # Of one conversation in the order of its events; delegates have their own, at the same time.
    assert sorted(noticed, key=lambda record: record.seq) == await team.history("c")
    await falls_back(dict.fromkeys(EVENTS, noticed.append))
    await asks_for_a_specialist(dict.fromkeys(EVENTS, noticed.append))
    await is_ruled(dict.fromkeys(EVENTS, noticed.append))
    await is_left_alone(dict.fromkeys(EVENTS, noticed.append))
    await takes_part(dict.fromkeys(EVENTS, noticed.append))
    await is_checked(dict.fromkeys(EVENTS, noticed.append))
    await loads_a_skill(dict.fromkeys(EVENTS, noticed.append))
    await follows_a_workflow(dict.fromkeys(EVENTS, noticed.append))
    assert {type(record.event) for record in noticed} >= set(get_args(Event)) - {EVENTS.get("run_resumed")}


async def test_hooks_get_the_record_of_the_event_and_may_be_async():
    noticed: list[Recorded] = []

    async def notice(record: Recorded) -> None:
        await asyncio.sleep(0)
        noticed.append(record)

    team = a_team({"handoff_accepted": notice, "run_completed": notice})
    await team.run("one", conversation="c")
    assert [type(record.event) for record in noticed] == [HandoffAccepted, RunCompleted]
    assert noticed[0].id == f"c:{noticed[0].position}"
    assert noticed[0] in await team.history("c")
    await team.close()


async def test_a_handoff_has_a_hook_by_the_name_users_look_for():
    receivers: list[str] = []

    def on_handoff(record: Recorded) -> None:
        assert isinstance(record.event, HandoffAccepted)
        receivers.append(record.event.receiver)

    team = a_team({"agent_handoff": on_handoff})
    await team.run("one")
    assert receivers == ["billing"]
    await team.close()


async def test_both_names_of_one_event_may_have_a_hook():
    called: list[str] = []
    hooks = {name: lambda record, name=name: called.append(name) for name in ("agent_handoff", "handoff_accepted")}
    team = a_team(hooks)
    await team.run("one")
    assert sorted(called) == ["agent_handoff", "handoff_accepted"]
    await team.close()


async def test_when_a_caller_has_its_result_the_hooks_have_been_called():
    noticed: list[Recorded] = []

    async def slow(record: Recorded) -> None:
        await asyncio.sleep(0.005)
        noticed.append(record)

    team = a_team({"run_completed": slow})
    await team.run("one")
    assert len(noticed) == 1
    await team.close()


async def test_hooks_are_called_in_the_order_of_the_events_however_slow_they_are():
    noticed: list[int] = []

    async def notice(record: Recorded) -> None:
        # The first are the slowest: without waiting, later ones would overtake them.
        await asyncio.sleep(0.005 if record.position < 3 else 0)
        noticed.append(record.position)

    team = a_team(dict.fromkeys(EVENTS, notice))
    await team.run("one", conversation="c")
    assert noticed == list(range(len(await team.history("c"))))
    await team.close()


def fails_at_once(record: Recorded) -> None:
    raise RuntimeError("the hook is broken")


async def fails_later(record: Recorded) -> None:
    await asyncio.sleep(0)
    raise RuntimeError("the hook is broken")


@pytest.mark.parametrize("hook", [fails_at_once, fails_later])
async def test_a_failing_hook_is_logged_and_changes_nothing(hook: Any, caplog: pytest.LogCaptureFixture):
    expected, events = await one_by_one(plain := a_team()), await plain.history("c")
    hooked = a_team(dict.fromkeys(EVENTS, hook))
    assert await one_by_one(hooked) == expected
    assert await hooked.history("c") == events
    logged = [record for record in caplog.records if record.name == "changeover.hooks"]
    assert len(logged) == len(events)
    assert all(record.levelno == logging.ERROR and record.exc_info for record in logged)
    assert "c:0" in logged[0].getMessage()


async def test_a_failing_hook_does_not_keep_the_next_from_being_called():
    called: list[Recorded] = []
    team = a_team({"agent_handoff": fails_at_once, "handoff_accepted": called.append})
    await team.run("one")
    assert len(called) == 1
    await team.close()


def test_a_hook_for_no_event_is_a_fault_that_names_the_events():
    [fault] = hook_faults({"handof": print, "run_started": print})
    assert fault.startswith("hook 'handof' is not an event; choose one of agent_handoff, ")
    assert all(name in fault for name in [*EVENTS, *ALIASES])


def test_a_hook_that_is_no_function_is_a_fault():
    with pytest.raises(MisconfiguredError, match="hook 'run_started' is not a function"):
        a_team({"run_started": "print"})


async def decides(team: Team, record: Recorded) -> None:
    [request] = await team.approvals()
    await team.decide(request, Approve(), by="a hook")


async def cancels(team: Team, record: Recorded) -> None:
    await team.cancel(record.conversation, reason="a hook says so")


async def undoes(team: Team, record: Recorded) -> None:
    await team.rollback("c:3.0", reason="a hook says so")


@pytest.mark.parametrize(
    ("event", "act", "status", "output"),
    [
        ("approval_requested", decides, "completed", "Done."),
        ("approval_requested", cancels, "cancelled", ""),
        ("handoff_accepted", cancels, "cancelled", ""),
        ("handoff_accepted", undoes, "completed", "Mine again."),
    ],
)
async def test_a_hook_may_act_upon_the_conversation_that_it_is_told_of(event: str, act: Any, status: str, output: str):
    seen: list[str] = []

    async def hook(record: Recorded) -> None:
        seen.append(event)
        await asyncio.wait_for(act(team, record), 5)

    approved = event == "approval_requested"
    script = {"a": [hands_off("b", "x"), says("Mine again.")], "b": [says("Done.")]}
    members = [Agent("a", handoffs=[handoff("b", approval=approved)]), Agent("b", handoffs=())]
    hooks = {event: hook, f"run_{status}": lambda record: seen.append(status)}
    async with Team(members, model=ScriptedModel(script), hooks=hooks) as team:
        result = await asyncio.wait_for(team.run("go", conversation="c"), 10)
        result = result if result.status != "waiting" else await asyncio.wait_for(team.resume("c"), 10)
        assert (result.status, result.output, seen) == (status, output, [event, status])

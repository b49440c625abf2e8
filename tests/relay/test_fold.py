"""The fold is total: whatever a log holds, wherever it ends, it folds, and what to do next can be decided."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changeover import (
    Agent,
    Approve,
    Command,
    Edit,
    Function,
    Limits,
    Person,
    Reject,
    Respond,
    Send,
    Variable,
    delegate,
    handoff,
    tool,
)
from changeover.agent.handoff import Policy
from changeover.agent.roster import Trial, Trials
from changeover.engines.local.dispatcher import Dispatcher
from changeover.errors import ChangeoverError
from changeover.facts import ApprovalRequest, Expected, Spent
from changeover.faults import (
    AgentFault,
    Circuit,
    FunctionFault,
    LimitFault,
    ModelFault,
    ReceiverFault,
    RefusalFault,
    StepFault,
    WorkerFault,
)
from changeover.guards import Rule
from changeover.guards.approval import Decision
from changeover.handoffs.package import HandoffPackage, Metadata, Task
from changeover.handoffs.strategies import Chapter
from changeover.messages import Call, Note, User
from changeover.models import Usage
from changeover.protocol import Mode
from changeover.relay.commands import Record
from changeover.relay.decide.decision import awaits, decide, settle
from changeover.relay.editions import Editions
from changeover.relay.events import (
    Checked,
    Event,
    Given,
    HandoffOffered,
    Hop,
    LimitReached,
    ModelReplied,
    RunFailed,
    RunStarted,
    Started,
    StepBegan,
    TierChosen,
    ToolStarted,
    UserSpoke,
    WorkflowBegan,
)
from changeover.relay.inputs.requests import Say
from changeover.relay.ports.queue import Taken
from changeover.relay.run import Awaiting, Thinking
from changeover.relay.state import Scale, State
from changeover.stores.memory.log import MemoryLog
from changeover.testing import ScriptedModel, assert_valid_history, calls, delegates, fails, hands_off, says
from changeover.tools.command import Directive, Errand
from changeover.workflows import Workflow, WorkflowStep
from changeover.workflows.flow import Findings
from changeover.workflows.plan import plan_of
from tests.relay.world import a_world

ENOUGH = 200
"""Decisions that need no effect, one after the other: more than this and they would never end."""


@tool(read_only=True)
def look(at: int = 0) -> str:
    """Look."""
    return "seen"


@tool(at_most_once=True)
def pay() -> str:
    """Pay."""
    raise ConnectionError("closed")


@tool(approval=True)
def sign() -> Command:
    """Sign, and pass it on."""
    return Command(goto="b", update={"artifacts": {"contract": "signed"}})


def moody(ctx: Any) -> str | Command:
    if "!" in ctx.input:
        raise RuntimeError("not in this tone")
    if "?" in ctx.input and not ctx.returned:
        return Command(goto=[Send("b"), Send("nobody"), Send("b", {"n": 2}, "count")])
    return "Yes."


def wary(package: Any) -> bool:
    return "!" not in package.task.description


MEMBERS: list[Agent | Function | Person] = [
    Agent(
        "a",
        tools=[look, pay, sign],
        handoffs=["a", "b", "fn", "q", delegate("b", name="ask_b"), delegate("q", name="ask_q")],
    ),
    Agent(
        "b",
        tools=[look],
        handoffs=[
            handoff("a", variables=[Variable("n", "integer")], return_to="b"),
            "fn",
            "b",
            delegate("a", name="ask_me", final=True, approval=True, max_iterations=2),
        ],
        requires=[Variable("n", "integer", required=False)],
        accepts=wary,
    ),
    Person("p"),
    Function("fn", moody),
    Agent("q", pull=True, handoffs=["a"]),
]
RULES = [
    Rule("on", if_=lambda ctx: ctx.input == "how?", goto="b", approval=True),
    Rule("odd", if_=lambda ctx: bool(ctx.context["n"]), goto="fn", agents=["b"]),
    Rule("no", if_=lambda ctx: ctx.input == "no!", deny="not in this tone"),
    Rule("ask", if_=lambda ctx: ctx.agent == "a", approval=True),
]
UNRULED = a_world(MEMBERS, ScriptedModel({}))
WORDS = Trial("words", {"plain": "Be plain.", "fancy": "Be fancy."}, lambda root: "fancy")
STAND_INS = Trial("stand-ins", {"old": "b", "new": "q"}, lambda root: "new")
TRIALS: Trials = {("instructions", "a"): WORDS, ("receiver", "b"): STAND_INS}
FLOW = Workflow(
    "flow",
    steps=[
        WorkflowStep("plan", agent="a", input="Plan {inputs}", retry=1, on_rollback="fn"),
        WorkflowStep("left", agent="p", after=["plan"], when="steps.plan.output", approval=True),
        WorkflowStep("each", function="fn", after=["plan"], for_each="inputs.n", context={"n": "item"}, timeout=1),
    ],
)
ROSTER = msgspec.structs.replace(
    UNRULED.roster,
    leads=tuple(RULES[:2]),
    judges=tuple(RULES[2:]),
    trials=TRIALS,
    workflows={"flow": FLOW},
)
WORLD = msgspec.structs.replace(UNRULED, roster=ROSTER)

AGENTS = st.sampled_from(["a", "b", "fn", "q", "gone", ""])
TEXTS = st.sampled_from(["", "hello", "no!", "how?"])
NUMBERS = st.integers(0, 8)
VARIABLES = st.sampled_from([{}, {"n": 1}, {"_handoff_from": "x"}])
CALL_IDS = st.sampled_from(["3.0", "3.1", "3.0.0", "3.0.1", "2", "2.0", "4.0", "4.1", "5.0", "0.0"])
CALLS = st.builds(
    Call,
    id=st.sampled_from(["x", "y"]),
    name=st.sampled_from(["look", "pay", "sign", "handoff", "handoff_to_a", "ask_b", "ask_me", "ask_q", "unknown"]),
    args=st.sampled_from(
        [
            {},
            {"n": "1"},
            {"to": "b", "message": "m"},
            {"to": "q"},
            {"to": "gone"},
            {"_handoff_chain": []},
            {"task": "count"},
        ]
    ),
    malformed=st.sampled_from(["", "", "{"]),
)
LIMITS = st.builds(
    Limits, max_handoffs=st.integers(0, 2), max_turns=st.integers(1, 3), on_limit=st.sampled_from(["raise", "tell"])
)
FAULTS = st.sampled_from(
    [
        ModelFault("a", "down"),
        FunctionFault("fn", "broken"),
        ReceiverFault("a", "gone", ("a", "b")),
        LimitFault("max_turns", 3),
        AgentFault("gone", ("a",)),
        RefusalFault("p", "not mine", ("a", "b", "a"), Circuit("b", 3, 1, 1.0, 31.0)),
        WorkerFault("q", "tired"),
        StepFault("flow", "plan", "broken"),
    ]
)
PACKAGE = HandoffPackage(Task("count"), metadata=Metadata(receiver="b")).to_dict()
TRANSFERRED = HandoffPackage(Task("count"), metadata=Metadata(receiver="gone", mode=Mode.TRANSFER)).to_dict()
DIRECTIVES = st.sampled_from(
    [
        Directive("b"),
        Directive("gone", message="m"),
        Directive(end=True, output="that is all"),
        Directive(sends=(Errand("a"), Errand("gone"), Errand("a", {"n": 1}, "count"))),
        Directive(context={"n": 2}, artifacts={"plan": "x"}),
    ]
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("agent", "sender", "receiver", "return_to"), AGENTS),
    **dict.fromkeys(("text", "thinking", "reason", "message", "instructions", "user", "correlation_id"), TEXTS),
    **dict.fromkeys(("run", "task", "depth", "instructions_at"), NUMBERS),
    **dict.fromkeys(("context", "variables"), VARIABLES),
    **dict.fromkeys(("root", "parent"), st.sampled_from(["c", "other", ""])),
    **dict.fromkeys(("ok", "unknown", "read_only", "own"), st.booleans()),
    "call": CALL_IDS | st.sampled_from(["3.0+1", "3.0+2", "3.0=task", "3.0+1=escalation", "3.0=permission", "2=task"]),
    "calls": st.lists(CALLS, max_size=3).map(tuple),
    "dropped": st.sampled_from([(), ("_handoff_from",)]),
    "team": st.sampled_from(["default", "sales"]),
    "extra": st.sampled_from([{}, {"openai": {"parts": [{"signature": "x"}]}}]),
    "fault": FAULTS,
    "limits": st.none() | LIMITS,
    "merge": st.sampled_from(["merge", "replace"]),
    "mode": st.sampled_from(Mode),
    "retry_at": st.none() | st.floats(0, 10),
    "strategy": st.sampled_from(["full", "message_only", "recent", "summary", "of a later version"]),
    **dict.fromkeys(("include", "exclude"), st.sampled_from([(), ("author:a",), ("tool:*", "variable:n")])),
    **dict.fromkeys(("before", "after", "covered"), NUMBERS),
    **dict.fromkeys(("packs", "retold"), st.booleans()),
    "messages": st.sampled_from([(), (User("go on"), Note("it is late", "a"))]),
    **dict.fromkeys(("chapter", "left_out"), st.none() | st.just(Chapter("It was late.", ("a: 3 parts",), messages=2))),
    "usage": st.sampled_from([Usage(1, 2, 1), Usage(1, 2, 1, 0.25)]),
    "why": st.sampled_from(
        ["arguments", "tool", "receiver", "command", "ignored", "limit", "declined", "result", "guard", "step"]
    ),
    **dict.fromkeys(("alternatives", "declined_by"), st.sampled_from([(), ("a",), ("b", "gone")])),
    **dict.fromkeys(("needs_context", "needs_permission", "required", "misfits"), st.sampled_from([(), ("n",)])),
    **dict.fromkeys(("deadline", "estimate"), st.none() | st.floats(0, 10)),
    "began": st.floats(0, 10),
    "attempt": st.integers(1, 4),
    "retry_of": st.sampled_from(["", "c:3.0"]),
    "rule": st.sampled_from(["", "on", "no", "ask", "gone"]),
    "goto": AGENTS,
    **dict.fromkeys(("end", "name", "title", "sender_name", "receiver_name"), TEXTS),
    "after_turn": st.booleans(),
    "direction": st.sampled_from(["input", "output"]),
    "verdict": st.sampled_from(["deny", "replace"]),
    "replaced": st.sampled_from([{}, {"go on": "stop"}, {"": "x"}]),
    "checked": st.none() | st.sampled_from([Checked("deny", "no"), Checked("replace")]),
    "roles": st.sampled_from([(), ("manager",)]),
    "suggested": AGENTS,
    "kind": st.sampled_from(["approval", "permission", "escalation", "task"]),
    "files": st.just(()),
    "package": st.none() | st.sampled_from([PACKAGE, TRANSFERRED]),
    "expected": st.none() | st.sampled_from([Expected({"type": "object"}), Expected(criteria=("It is short.",))]),
    **dict.fromkeys(("problem", "partial"), TEXTS),
    "undone": st.sampled_from([(), ("3.0",), ("3.0", "4.0")]),
    **dict.fromkeys(("code", "queued", "worn_out", "brokered", "put_off", "cleans"), st.booleans()),
    "trace": st.sampled_from(["", "half a trace", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]),
    "no_takers": st.sampled_from([None, "return", "queue"]),
    "priority": st.integers(-1, 2),
    "policy": st.none() | st.builds(Policy, st.booleans(), *[st.sampled_from(["tell", "rollback"])] * 2),
    "timeout": st.none() | st.floats(0, 10),
    "ticket": st.sampled_from(["c:3.0", "c:3.0+1", "c:2", "c:4.0", "other"]),
    **dict.fromkeys(("about", "by", "error", "response", "author", "tool", "digest", "briefing"), TEXTS),
    **dict.fromkeys(("final", "success", "cancelled", "declined", "expired", "answered"), st.booleans()),
    **dict.fromkeys(("max_iterations", "iterations", "tool_calls", "figure", "left"), NUMBERS),
    "failures": NUMBERS,
    "until": st.none() | st.floats(0, 10),
    "opened_at": st.floats(0, 10),
    "cycle": st.sampled_from([(), ("a", "b", "a")]),
    "recent": st.integers(-1, 3),
    **dict.fromkeys(("arguments", "restored"), st.sampled_from([{}, {"n": 1}])),
    "artifacts": st.sampled_from([{}, {"plan": "file:plan"}, {"plan": None}]),
    "workflow_state": st.sampled_from([{}, {"phase": "build"}]),
    "decision": st.sampled_from([Approve(), Reject("no"), Edit({"to": "b"}), Edit(receiver="b"), Respond("yes")]),
    "directive": st.none() | DIRECTIVES,
    "duration": st.floats(0, 3),
    "expires_at": st.none() | st.floats(0, 10),
    "given": st.none()
    | st.builds(
        Given,
        AGENTS,
        NUMBERS,
        briefing=TEXTS,
        max_iterations=NUMBERS,
        ticket=st.sampled_from(["", "parent:3.0"]),
        chapters=st.sampled_from([(), (Chapter("It was early.", ref="context://1"),)]),
        trail=st.sampled_from([(), (Hop("a", "b", "m"), Hop("b", "a", "m", Mode.TRANSFER))]),
    ),
    "limit": st.sampled_from(["max_handoffs", "max_turns", "max_tokens", "max_cost", "max_agents", "timeout"]),
    "agents": st.sampled_from([(), ("a",), ("b", "gone")]),
    "step": st.sampled_from(["", "plan", "left", "each", "gone"]),
    "capability": TEXTS,
    "plan": st.just(plan_of(FLOW)),
    "inputs": st.none() | st.sampled_from([{"n": [1, 2]}, {"n": 3}]),
    "count": st.integers(0, 3),
    "item": st.integers(0, 3),
    "items": st.none() | st.sampled_from([[1], [1, 2]]),
    "undo": st.booleans(),
    "not_before": st.floats(0, 10),
    "score": st.floats(0, 1),
    "tier": st.sampled_from(["simple", "medium", "complex"]),
    "experiment": st.sampled_from(["words", "stand-ins", "gone"]),
    "skill": TEXTS,
    "edition": NUMBERS,
    "withdrawn": st.sampled_from([(), ("agent 'gone'", "tool 'look'")]),
    "variant": st.sampled_from(["plain", "fancy", "old", "new", "gone"]),
    "on_expiry": st.sampled_from(["reject", "approve"]),
    "output": st.none() | TEXTS,
    "spent": st.builds(Spent, NUMBERS, NUMBERS),
}

OWN: dict[type[Any], dict[str, st.SearchStrategy[Any]]] = {
    LimitReached: {"spent": st.none() | NUMBERS},
    TierChosen: {"limits": LIMITS},
}
"""What a name means only in events of one kind."""


def builds(kind: type[Any]) -> st.SearchStrategy[Any]:
    own = msgspec.structs.fields(kind)
    known = {**FIELDS, **OWN.get(kind, {})}
    return st.builds(kind, **{each.name: st.floats(0, 10) if each.type is float else known[each.name] for each in own})


BEGAN, OFFERED = WorkflowBegan(2, plan_of(FLOW)), HandoffOffered("4.0", 2, "flow", "a", mode=Mode.DELEGATE)
ANY_EVENT: st.SearchStrategy[Event] = st.one_of([builds(kind) for kind in get_args(Event)])
BEGINNINGS = st.sampled_from(
    [
        [],
        [Started("c"), UserSpoke("hello"), RunStarted(1, "a")],
        [Started("c"), UserSpoke("hello"), UserSpoke("no!", agent="gone"), RunStarted(1, "b")],
        [Started("c"), UserSpoke("hello", agent="flow", inputs={"n": [1, 2]}), RunStarted(1, "flow"), BEGAN],
        [Started("c"), UserSpoke("hello", agent="flow"), RunStarted(1, "flow"), BEGAN, StepBegan(2, "plan"), OFFERED],
    ]
)
ANY_LOG = st.builds(
    lambda beginning, turn, rest: [*beginning, turn, *rest],
    BEGINNINGS,
    st.builds(
        ModelReplied, st.sampled_from(["a", "b"]), st.just(2), calls=st.lists(CALLS, min_size=1, max_size=3).map(tuple)
    )
    | st.builds(StepBegan, st.just(2), st.sampled_from(["plan", "left", "each"])),
    st.lists(ANY_EVENT, max_size=12),
)


def folded(events: Iterable[Any], at: float = 0.0) -> State:
    state = State("c")
    state.at = at
    for event in events:
        state.apply(event)
    return state


def settled(state: State) -> State:
    """Take every decision that needs no effect; what is left can be performed, and its outcome will be wanted."""
    decision = decide(state, ROSTER)
    for _ in range(ENOUGH):
        if not isinstance(decision, Record):
            break
        state.apply(decision.event)
        decision = decide(state, ROSTER)
    assert not isinstance(decision, Record), f"it would decide for ever: {decision}"
    ids = [command.id for command in decision]
    assert len(set(ids)) == len(ids)
    # Else an engine would perform it, throw its outcome away, find it outstanding, and perform it again.
    assert all(awaits(state, id) for id in ids), f"what is due is not wanted: {decision}"
    return state


def seen(value: Any) -> Any:
    """Everything inside, as plain data that can be compared."""
    if isinstance(value, Scale | Findings):
        return None  # they spare counting or searching again, and say nothing
    if isinstance(value, msgspec.Struct):
        return type(value).__name__, [seen(getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, dict):
        return {key: seen(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [seen(inner) for inner in value]
    if slots := [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]:
        return type(value).__name__, [seen(getattr(value, name)) for name in slots]
    return value


@given(ANY_LOG)
@settings(max_examples=400)
def test_any_sequence_of_events_folds_and_can_be_decided_upon(events: list[Event]):
    state = State("c")
    for event in events:
        state.apply(event)
        before = seen(state)
        assert seen(decide(state, ROSTER)) == seen(decide(state, ROSTER))
        assert seen(state) == before  # to decide is to look, and to touch nothing
    assert state.position == len(events)


@given(ANY_LOG)
@settings(max_examples=400)
def test_any_sequence_of_events_settles(events: list[Event]):
    settled(folded(events))
    state = State("c")
    batch, commands = settle(state, ROSTER, 5.0, events)
    assert batch[: len(events)] == events
    assert state.position == len(batch)
    assert seen(folded(batch).thread) == seen(state.thread)
    assert not isinstance(decide(state, ROSTER), Record)
    # What was given is not given again, and who folds the log anew is given all of it. Two phases are one command each,
    # which an engine knows by its id: they give it every time.
    assert not state.run or isinstance(state.run.phase, Thinking | Awaiting) or not _outstanding(state)
    assert [command.id for command in commands] == [command.id for command in _outstanding(folded(batch, 5.0))]


def _outstanding(state: State) -> Sequence[Any]:
    decision = decide(state, ROSTER)
    assert not isinstance(decision, Record)
    return decision


@given(ANY_LOG)
@settings(max_examples=100)
def test_whatever_a_log_holds_the_thread_of_a_model_is_whole(events: list[Event]):
    state = settled(folded(events))
    phase = state.run and type(state.run.phase).__name__
    # While calls are being answered nobody reads the thread: the answers follow when all are there.
    if phase != "Acting":
        replies = [event for event in events if isinstance(event, ModelReplied)]
        if all(len({call.id for call in reply.calls}) == len(reply.calls) and reply.agent for reply in replies):
            assert_valid_history([message for message in state.thread if message.author])


BEGUN_TRANSFER = [
    Started("c"),
    UserSpoke("hello"),
    RunStarted(1, "a"),
    ModelReplied("a", 2, calls=(Call("x", "handoff", {"to": "b", "message": "m"}),)),
    ToolStarted("3.0", 2),
]
OFFERED_TOOL = [
    Started("c"),
    UserSpoke("hello"),
    RunStarted(1, "a"),
    ModelReplied("a", 2, calls=(Call("x", "look"),)),
    HandoffOffered("3.0", 2, "a", "b"),
]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(BEGUN_TRANSFER, id="a tool that was begun is a handoff now"),
        pytest.param(OFFERED_TOOL, id="a handoff that was offered is a tool now"),
    ],
)
def test_a_call_whose_name_means_something_else_since_is_brought_to_an_end(events: list[Event]):
    settled(folded(events))


LINES = [
    says("Done."),
    fails("busy"),
    fails("down", retryable=False),
    calls(("look", {}), ("look", {"at": 1}), ("pay", {})),
    calls(("pay", {}), hands_off("b", "x")),
    calls(("unknown", {}), ("look", "{")),
    hands_off("a", "x", n=1),
    hands_off("a", "x", n="many"),
    hands_off("b", "x", text="One moment."),
    hands_off("fn", "x"),
    hands_off("nobody", "x"),
    calls(hands_off("nobody", "x"), hands_off("b", "y"), hands_off("fn", "z")),
    delegates("b", "count"),
    delegates("a", "count again"),
    calls(delegates("b", "one"), delegates("b", "two"), ("look", {}), hands_off("b", "then")),
    calls(("sign", {}), ("pay", {}), delegates("b", "three")),
    delegates("q", "count"),
    hands_off("q", "x"),
    calls(delegates("q", "one"), delegates("b", "two"), hands_off("q", "then")),
]
SCRIPTS = st.fixed_dictionaries({id: st.lists(st.sampled_from(LINES), max_size=5) for id in ("a", "b", "q")})
# A message to an agent that does not exist is refused, and never recorded.
SPOKEN = builds(UserSpoke).map(
    lambda spoken: msgspec.structs.replace(spoken, given=None, agent=spoken.agent.replace("gone", ""))
)
MESSAGES = st.lists(SPOKEN, min_size=1, max_size=3)


def decides(request: ApprovalRequest) -> Decision:
    if request.kind == "approval":
        # Of where a tool leads there are no arguments to edit.
        return Edit({}) if request.tool == "sign" and not request.receiver else Approve()
    return Edit(receiver="a") if request.kind == "escalation" else Respond("Here I am.")


async def serve(engine: Dispatcher) -> None:
    """Work on all that waits to be claimed."""
    while True:
        for taken in await engine.claims.take(list(ROSTER.seats), "worker", 60, 10):
            engine.soon(worked(engine, taken))
        await asyncio.sleep(0.001)


async def worked(engine: Dispatcher, taken: Taken) -> None:
    await engine.claims.serve(taken, "worker")


async def legal_log(script: dict[str, Any], messages: list[UserSpoke], at_once: bool) -> list[tuple[float, Any]]:
    """The events of a conversation that really took place, and when each did."""
    log, model = MemoryLog(), ScriptedModel(script)
    world = msgspec.structs.replace(WORLD, models=dict.fromkeys(("a", "b", "q"), model), ask=decides)
    engine = Dispatcher(log, Editions(world))
    serving = engine.begin(serve(engine))
    answers = []
    for spoken in messages:
        answer = asyncio.ensure_future(engine.result(Say("c", spoken)))
        answers.append(answer)
        await asyncio.sleep(0)
        if not at_once:
            await asyncio.wait([answer])
    for answer in answers:
        with suppress(ChangeoverError):
            await answer
    while await log.unfinished() or await log.approvals() or await log.queue.tickets():  # noqa: ASYNC110 - others do it
        await asyncio.sleep(0.001)
    serving.cancel()
    await engine.close()
    for request in model.requests:
        if all(message.author for message in request.messages):
            assert_valid_history(request)
    return [(entry.at, event) for entry in await log.read("c") for event in entry.events]


@given(SCRIPTS, MESSAGES, st.booleans())
@settings(max_examples=80)
async def test_a_legal_log_and_every_part_of_it_folds_and_can_be_gone_on_with(
    script: dict[str, Any], messages: list[UserSpoke], at_once: bool
):
    log = await legal_log(script, messages, at_once)
    events, state = [event for _, event in log], State("c")
    for length, (at, event) in enumerate(log):
        settled(folded(events[:length]))
        state.at = at
        decide(state, ROSTER)
        state.apply(event)
    # Folded in pieces, with a decision after each, it is what it is folded at once.
    whole = State("c")
    for at, event in log:
        whole.at = at
        whole.apply(event)
    assert seen(state) == seen(whole)
    assert decide(state, ROSTER) == ()
    assert len(state.outcomes) == len(messages)


@given(SCRIPTS, MESSAGES)
@settings(max_examples=50)
async def test_what_is_decided_from_a_legal_log_is_what_comes_next_in_it(
    script: dict[str, Any], messages: list[UserSpoke]
):
    state = State("c")
    for at, event in await legal_log(script, messages, at_once=False):
        state.at = at
        decision = decide(state, ROSTER)
        if isinstance(decision, Record) and not isinstance(event, UserSpoke):
            assert event == decision.event
        state.apply(event)


def test_the_events_of_these_tests_are_all_there_are():
    unknown = {own.name for kind in get_args(Event) for own in msgspec.structs.fields(kind)} - FIELDS.keys()
    assert not unknown
    assert RunFailed in get_args(Event)

"""Read models: their tables say what the log says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from changeover import Agent, Function, Limits, Team, tool
from changeover.errors import ChangeoverError
from changeover.facts import HandoffRecord, Mode
from changeover.messages import Call
from changeover.relay.events import (
    CancelRequested,
    Entry,
    HandoffAccepted,
    HandoffReturned,
    ModelReplied,
    RunCancelled,
    RunCompleted,
    RunStarted,
    ToolFinished,
    UserSpoke,
)
from changeover.relay.ports.lists import ApprovalRow, ConversationRow, HandoffRow, MessageRow, TaskRow
from changeover.relay.result import handoffs_of, head_of
from changeover.relay.run import Acting, Awaiting
from changeover.relay.state import State
from changeover.relay.turn import Asked
from changeover.stores.sql.log import SqlLog
from changeover.testing import ManualClock, ScriptedModel, calls, fails, hands_off, says
from changeover.tools import Skill
from changeover.tools.command import Directive
from tests.stores.entries import (
    DONE,
    LEFT,
    WAITING,
    WORKING,
    answer,
    asked,
    delegate,
    handing_over,
    kinds,
    more,
    opening,
    query,
    rows,
)
from tests.stores.measures import counted, in_memory
from tests.stories.book import STORIES, STRESS, Stage, stores_for

Another = Callable[..., SqlLog]


@tool
def look() -> str:
    """Look."""
    return "seen"


async def test_a_run_with_a_handoff_makes_two_tasks(another: Another, shared_store: str):
    log = another()
    await log.append(opening("c", "I was charged twice", context={"plan": "gold"}), WORKING)
    assert rows(shared_store, "tasks", "id", "status", "agent", "input", "output") == [
        ("c#2", "running", "front", "I was charged twice", None)
    ]
    await log.append(handing_over(variables={"order": 7}), WORKING)
    columns = ("id", "master_id", "parent_id", "run_id", "handoff_id", "agent", "status", "input", "context", "output")
    sender = ("c#2", "c", None, "c@1", None, "front", "completed", "I was charged twice", '{"plan":"gold"}', None)
    context = '{"plan":"gold","order":7}'
    receiver = ("c#5", "c", "c#2", "c@1", "c:3.0", "billing", "pending", "I was charged twice", context, None)
    assert rows(shared_store, "tasks", *columns) == [sender, receiver]
    await log.append(answer(6, 5), DONE)
    assert rows(shared_store, "tasks", "id", "status", "output", "created_at", "updated_at") == [
        ("c#2", "completed", None, 1.0, 2.0),
        ("c#5", "completed", "Done.", 2.0, 3.0),
    ]


async def test_a_handoff_is_one_row_from_its_offer_to_its_end(another: Another, shared_store: str):
    log = another()
    await log.append(opening(), WORKING)
    await log.append(handing_over(variables={"order": 7}, strategy="message_only"), WORKING)
    columns = ("id", "run_id", "sender_task_id", "task_id", "sender", "receiver", "mode", "tool", "strategy", "message")
    assert rows(shared_store, "handoffs", *columns, order="id") == [
        ("c:3.0", "c@1", "c#2", "c#5", "front", "billing", "transfer", "handoff", "message_only", "yours")
    ]
    moving = ("state", "variables", "offered_at", "accepted_at", "ended_at")
    assert rows(shared_store, "handoffs", *moving, order="id") == [("WORKING", '{"order":7}', 2.0, 2.0, None)]
    await log.append(answer(6, 5), DONE)
    assert rows(shared_store, "handoffs", "state", "ended_at", order="id") == [("COMPLETE", 3.0)]


async def test_variables_that_replace_leave_nothing_of_the_old(another: Another, shared_store: str):
    log = another()
    await log.append(opening(context={"plan": "gold"}), WORKING)
    await log.append(handing_over(variables={"order": 7}, merge="replace"), WORKING)
    assert rows(shared_store, "tasks", "context") == [('{"plan":"gold"}',), ('{"order":7}',)]


async def test_what_is_said_while_somebody_works_waits_for_its_task(another: Another, shared_store: str):
    log = another()
    await log.append(opening(context={"a": 1}), WORKING)
    await log.append(Entry("c", "c", 3, "said@3", 2.0, (UserSpoke("and now?", context={"b": 2}),)), None)
    messages = ("position", "kind", "task_id", "content")
    assert rows(shared_store, "messages", *messages)[1] == (3, "user_message", None, "and now?")
    ended = (ModelReplied("front", 2, "First."), RunCompleted(1), RunStarted(3, "front"))
    await log.append(Entry("c", "c", 4, "2", 3.0, ended), WORKING)
    assert rows(shared_store, "messages", *messages)[1] == (3, "user_message", "c#6", "and now?")
    assert rows(shared_store, "tasks", "id", "run_id", "status", "input", "context", "output") == [
        ("c#2", "c@1", "completed", "hello", '{"a":1}', "First."),
        ("c#6", "c@3", "running", "and now?", '{"a":1,"b":2}', None),
    ]


async def test_an_entry_builds_upon_what_another_process_recorded_meanwhile(another: Another, shared_store: str):
    mine, theirs = another(), another()
    await mine.append(opening("c", "hello", context={"a": 1}), LEFT)
    await theirs.append(handing_over(), LEFT)
    await mine.append(answer(6, 5), DONE)
    assert rows(shared_store, "tasks", "id", "status", "input", "output") == [
        ("c#2", "completed", "hello", None),
        ("c#5", "completed", "hello", "Done."),
    ]
    assert rows(shared_store, "handoffs", "state", order="id") == [("COMPLETE",)]


async def test_the_messages_tell_the_whole_conversation(another: Another, shared_store: str):
    script = {
        "front": [
            calls(("look", {"n": 1})),
            fails("overloaded", retryable=True),
            hands_off("billing", "yours", text="One moment."),
        ],
        "billing": [says("Done.", thinking="Hm.")],
    }
    log = another()

    @tool
    def look(n: int) -> str:
        """Look."""
        return f"seen {n}"

    agents = [Agent("front", tools=[look]), Agent("billing")]
    async with Team(agents, model=ScriptedModel(script), store=log, clock=ManualClock(auto=True)) as team:
        await team.run("hello", conversation="c")
    said = [row[1:] for row in kinds(shared_store)]
    assert said == [
        ("user_message", None, "hello"),
        ("tool_call", "front", '{"name":"look","args":{"n":1}}'),
        ("tool_result", "front", "seen 1"),
        ("error", "front", "overloaded"),
        ("assistant_message", "front", "One moment."),
        ("tool_call", "front", '{"name":"handoff","args":{"to":"billing","message":"yours"}}'),
        ("handoff", "front", "c:6.0"),
        ("thinking", "billing", "Hm."),
        ("assistant_message", "billing", "Done."),
    ]
    numbers = [row[0] for row in rows(shared_store, "messages", "seq", order="position, part")]
    assert numbers == sorted(numbers)
    assert len({task for (task,) in rows(shared_store, "messages", "task_id")}) == 2


async def test_a_loaded_skill_is_a_message_of_its_own(another: Another, shared_store: str):
    script = [calls(("load_skill", {"skill": "greeting"})), says("Hello.")]
    skill = Skill("greeting", description="How to greet.", instructions="Say hello.")
    async with Team([Agent("solo", skills=[skill])], model=ScriptedModel({"solo": script}), store=another()) as team:
        await team.run("hi", conversation="c")
    assert [row[1:] for row in kinds(shared_store)] == [
        ("user_message", None, "hi"),
        ("tool_call", "solo", '{"name":"load_skill","args":{"skill":"greeting"}}'),
        ("skill_load", "solo", '{"skill":"greeting","text":"Say hello."}'),
        ("assistant_message", "solo", "Hello."),
    ]


async def test_a_run_that_failed_and_was_resumed_is_completed(another: Another, shared_store: str):
    script = {"front": [hands_off("billing", "yours")], "billing": [fails("no", retryable=False), says("Done.")]}
    async with Team([Agent("front"), Agent("billing")], model=ScriptedModel(script), store=another()) as team:
        with pytest.raises(ChangeoverError):
            await team.run("hello", conversation="c")
        assert rows(shared_store, "tasks", "agent", "status") == [("front", "completed"), ("billing", "failed")]
        assert rows(shared_store, "handoffs", "state", order="id") == [("FAILED",)]
        assert "no" in kinds(shared_store)[-1][3]
        await team.resume("c")
    assert rows(shared_store, "tasks", "agent", "status", "output")[1] == ("billing", "completed", "Done.")
    assert rows(shared_store, "handoffs", "state", order="id") == [("COMPLETE",)]


async def test_a_limit_is_told_in_words(another: Another, shared_store: str):
    model = ScriptedModel({"front": [hands_off("billing", "x")], "billing": [hands_off("front", "y")]})
    async with Team(
        [Agent("front"), Agent("billing")], model=model, store=another(), limits=Limits(max_handoffs=1)
    ) as team:
        with pytest.raises(ChangeoverError):
            await team.run("hello")
    assert [row[3] for row in kinds(shared_store) if row[1] == "error"] == ["the run needs more than max_handoffs=1"]


async def test_a_function_is_an_agent_like_any_other(another: Another, shared_store: str):
    async with Team([Function("echo", lambda ctx: "You said it.")], store=another()) as team:
        await team.run("hello")
    assert rows(shared_store, "tasks", "agent", "status", "output") == [("echo", "completed", "You said it.")]


async def test_the_cost_of_an_append_does_not_grow_with_the_conversation(another: Another):
    log = another()
    await log.append(opening(), WORKING)
    sent: list[int] = []
    session = log._writer._session
    run, commit = session.run, session.commit
    session.run = lambda calls: sent.append(len(calls)) or run(calls)  # type: ignore[method-assign,func-returns-value]
    session.commit = lambda writes=(): sent.append(len(writes)) or commit(writes)  # type: ignore[method-assign,func-returns-value]
    costs = []
    for position in range(3, 203):
        sent.clear()
        await log.append(more(position), WORKING)
        costs.append(sum(sent))
    assert len(set(costs[-100:])) == 1
    assert costs[-1] <= costs[0]


@pytest.mark.parametrize(("shared_store", "name"), stores_for(0), indirect=["shared_store"])
async def test_after_every_story_the_read_models_say_what_the_log_says(name: str, another: Another, shared_store: str):
    # By its address: a story may close one team and go on with another.
    stage = Stage(store=shared_store)
    await STORIES[name](stage)
    await stage.close()
    log = another()
    for conversation, status in rows(shared_store, "conversations", "id", "status", order="id"):
        state = State(conversation)
        legs, workers = {}, {}
        for entry in await log.read(conversation):
            state.at, state.seq = entry.at, entry.seq + len(entry.events) - 1
            for event in entry.events:
                state.apply(event)
                if state.task not in legs:
                    workers[state.task] = event.agent if isinstance(event, RunStarted) else state.agent
                if state.task:
                    legs[state.task] = (state.task, workers[state.task], state.variables)
        assert _tasks(shared_store, conversation) == list(legs.values())
        assert _handoffs(shared_store, conversation) == sorted(map(_told, handoffs_of(state)))
        assert _pending(shared_store, conversation) == sorted(_awaited(state))
        assert (status in ("running", "waiting")) == (head_of(state, working=False).status == "waiting")
    if list(STORIES).index(name) % 4 and not STRESS:
        return
    roots = [root for (root,) in rows(shared_store, "conversations", "id", order="id") if "/" not in root]
    memory = await in_memory(log, *roots)
    assert await counted(memory.measures) == await counted(log.measures)
    statuses = [{row.id: row.status for row in await lists.listed(ConversationRow)} for lists in (memory, log.lists)]
    assert statuses[0] == statuses[1]
    kinds_: tuple[type[Any], ...] = (TaskRow, MessageRow, HandoffRow, ApprovalRow)
    for kind in kinds_:
        found, stored = await memory.listed(kind, limit=10_000), await log.lists.listed(kind, limit=10_000)
        # Sorted: messages of several roots have the same seqs.
        assert sorted(found, key=repr) == sorted(stored, key=repr)


def _tasks(store: str, conversation: str) -> list[tuple[int, str, Any]]:
    found = query(
        store, f"SELECT position, agent, context FROM tasks WHERE conversation = '{conversation}' ORDER BY position"
    )
    return [(position, agent, json.loads(context)) for position, agent, context in found]


def _handoffs(store: str, conversation: str) -> list[tuple[Any, ...]]:
    columns = "id, sender, receiver, message, mode, state, offered_at, tool, strategy, run_id, attempt, tokens_before"
    found = query(
        store,
        f"SELECT {columns}, tokens_after, coalesce(strategy_error, ''), coalesce(task_id, ''), coalesce(retry_of, ''),"
        " coalesce(reason, ''), variables"
        f" FROM handoffs WHERE conversation = '{conversation}'",
    )
    return sorted((*row[:-1], json.loads(row[-1])) for row in found)


def _told(record: HandoffRecord) -> tuple[Any, ...]:
    return (
        *(record.id, record.sender, record.receiver, record.message, str(record.mode), str(record.state), record.at),
        *(record.tool, record.strategy, record.run_id, record.attempt),
        *(record.tokens_before, record.tokens_after, record.strategy_error),
        *(record.task_id, record.retry_of, record.error, record.variables),
    )


def _pending(store: str, conversation: str) -> list[tuple[Any, ...]]:
    where = f"conversation = '{conversation}' AND status = 'pending'"
    return sorted(query(store, f"SELECT id, kind, agent, receiver FROM approvals WHERE {where}"))


def _awaited(state: State) -> list[tuple[str, ...]]:
    """What people have to decide about in this conversation."""
    match state.run.phase if state.run else None:
        case Awaiting(request=request):
            found = [request]
        case Acting(turn=turn):
            found = [call.phase.request for call in turn.calls.values() if isinstance(call.phase, Asked)]
        case _:
            found = []
    return [(each.id, each.kind, each.agent, each.receiver) for each in found]


AnotherLog = Callable[..., SqlLog]


async def test_a_delegate_works_in_tasks_of_its_own_below_its_senders(another: AnotherLog, shared_store: str):
    log = another()
    await log.append(opening(), WORKING)
    await log.append(handing_over(mode=Mode.DELEGATE), WORKING)
    await log.append(delegate("c/3.0", "c"), WORKING)
    assert rows(shared_store, "tasks", "id", "master_id", "parent_id", "run_id", "handoff_id", "status") == [
        ("c#2", "c", None, "c@1", None, "running"),
        ("c/3.0#2", "c", "c#2", "c/3.0@1", "c:3.0", "running"),
    ]
    served = "SELECT h.sender, t.agent FROM handoffs h JOIN tasks t ON t.id = h.task_id"
    assert query(shared_store, served) == [("front", "billing")]
    found = (ModelReplied("billing", 2, "Found."), RunCompleted(1))
    await log.append(Entry("c/3.0", "c", 3, "2", 4.0, found), DONE)
    standing = ("state", "ended_at")
    assert rows(shared_store, "handoffs", *standing, order="id") == [("WORKING", None)], "its sender has not heard yet"
    returned = HandoffReturned("3.0", 2, "billing", True, "Found.")
    await log.append(Entry("c", "c", 6, "3.0", 5.0, (returned,)), WORKING)
    assert rows(shared_store, "handoffs", *standing, order="id") == [("RETURNED", 5.0)]
    await log.append(Entry("c", "c", 7, "6", 6.0, (ModelReplied("front", 2, "Done."), RunCompleted(1))), DONE)
    assert rows(shared_store, "tasks", "id", "status", "output") == [
        ("c#2", "completed", "Done."),
        ("c/3.0#2", "completed", "Found."),
    ]
    assert rows(shared_store, "handoffs", *standing, order="id") == [("RETURNED", 5.0)]


async def test_a_delegate_that_is_accepted_in_a_later_entry_is_one_too(another: AnotherLog, shared_store: str):
    log = another()
    await log.append(opening(), WORKING)
    offered = handing_over(mode=Mode.DELEGATE)
    offered.events = offered.events[:2]
    await log.append(offered, WORKING)
    await log.append(Entry("c", "c", 5, "ok", 3.0, (HandoffAccepted("3.0", 2, "billing"),)), WORKING)
    assert rows(shared_store, "handoffs", "state", "task_id", order="id") == [("WORKING", "c/3.0#2")]
    assert rows(shared_store, "tasks", "id", "status") == [("c#2", "running")]


async def test_what_a_directive_added_is_known_to_whoever_goes_on(another: AnotherLog, shared_store: str):
    mine, theirs = another(), another()
    await mine.append(opening(context={"plan": "gold"}), LEFT)
    looked = ModelReplied("front", 2, calls=(Call("x", "look", {}),))
    seen = ToolFinished("3.0", 2, "seen", directive=Directive(context={"order": 7}))
    await mine.append(Entry("c", "c", 3, "3.0", 2.0, (looked, seen)), LEFT)
    await theirs.append(handing_over(5), LEFT)
    assert [json.loads(context) for (context,) in rows(shared_store, "tasks", "context")] == [
        {"plan": "gold", "order": 7}
    ] * 2


async def test_a_task_waits_for_a_person_and_is_cancelled_by_one(another: AnotherLog, shared_store: str):
    log = another()
    await log.append(opening(), WORKING)
    await log.append(asked(3, "2.0"), WAITING)
    assert rows(shared_store, "tasks", "status") == [("waiting",)]
    await log.append(Entry("c", "c", 4, "x", 3.0, (CancelRequested(by="ana"), RunCancelled(1))), DONE)
    assert rows(shared_store, "tasks", "status") == [("cancelled",)]
    assert [row[1:] for row in kinds(shared_store)[1:]] == [
        ("status_change", "front", "waiting"),
        ("status_change", "front", "cancelling"),
        ("status_change", "front", "cancelled"),
    ]

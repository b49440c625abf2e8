"""Approvals across processes: one asks, another decides, and a process that lives goes on.

    python -m tests.crash.test_approvals_elsewhere

is the mother of these processes, as `tests.crash.worker` is of others.
"""

import asyncio
import os
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from changeover import Agent, Approval, Approve, RunContext, RunResult, Store, Team, delegate, tool
from changeover.guards.approval import OnExpiry
from changeover.messages import Message, ToolResult
from changeover.relay.events import ApprovalDecided, Entry, Event, RunCompleted, ToolFinished
from changeover.relay.ports.log import Circuits, Head, Log, Reserve
from changeover.relay.ports.queue import Claim
from changeover.relay.ports.world import Request
from changeover.relay.projection.rows import Rows
from changeover.relay.state import State
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.stores.sql.log import SqlLog
from changeover.stores.store import database_of, open_log
from changeover.testing import Reply, calls, delegates, says
from changeover.testing.scripted import resolve
from tests.crash.checks import events_of
from tests.crash.notes import Note, Notes
from tests.crash.nursery import Mother, Nursery, Worker, wait_for
from tests.crash.worker import Order, furnish

CONVERSATION = "c"
DONE = "paid 5 | stamped"
EXPIRES = 0.4

Where = Literal["in the first agent", "in a delegate"]
WHERE: tuple[Where, ...] = ("in the first agent", "in a delegate")
Deed = Literal["ask", "ask and stay", "ask, stay and look again", "decide", "open"]
Death = Literal["never", "before", "after", "after its delegate"]


class Task(Order, frozen=True, kw_only=True):
    """What a process is to do about approvals."""

    deed: Deed
    where: Where = "in the first agent"
    dies: Death = "never"
    """Whether it is killed before, or after, its first decision is recorded, or the end of its delegate."""
    expires: float | None = None
    on_expiry: OnExpiry = "reject"


class DyingLog(SqlLog):
    """A log whose process is killed when a decision is recorded, or when a delegate has ended."""

    dies: Death = "never"

    async def append(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None = None,
        claim: Claim | None = None,
        circuits: Circuits | None = None,
        rows: Rows | None = None,
    ) -> None:
        decision = any(isinstance(event, ApprovalDecided) for event in entry.events)
        if decision and self.dies == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        await super().append(entry, head, reserve, claim, circuits, rows)
        ended = entry.root != entry.conversation and any(isinstance(event, RunCompleted) for event in entry.events)
        if (decision and self.dies == "after") or (ended and self.dies == "after its delegate"):
            os.kill(os.getpid(), signal.SIGKILL)


class Desk:
    """A team that has to ask before it pays and before it stamps; all that it does is noted."""

    def __init__(self, task: Task, notes: Notes) -> None:
        self._task, self._notes = task, notes

    def team(self) -> Team:
        approval = Approval(expires=self._task.expires, on_expiry=self._task.on_expiry)

        @tool(approval=approval, at_most_once=True)
        async def pay(amount: int, ctx: RunContext) -> str:
            """Pay an amount."""
            self._notes.write("begin", ctx.idempotency_key, "pay")
            return f"paid {amount}"

        @tool(approval=approval)
        async def stamp(ctx: RunContext) -> str:
            """Stamp the bill."""
            self._notes.write("begin", ctx.idempotency_key, "stamp")
            return "stamped"

        clerk = Agent("clerk", tools=[pay, stamp], handoffs=())
        lead = Agent("lead", handoffs=[delegate("clerk", final=True)])
        members = [lead, clerk] if self._task.where == "in a delegate" else [clerk]
        return Team(members, model=self, store=self._store())

    def _store(self) -> Store | Log:
        store = Store(self._task.url, self._task.lease)
        if self._task.dies == "never":
            return store
        log = DyingLog(database_of(store), store.lease)
        log.dies = self._task.dies
        return log

    async def reply(self, request: Request) -> Reply:
        self._notes.write("begin", f"{request.conversation}:{request.command}", "model")
        return resolve(_line(request.agent, request.messages), request)

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        yield await self.reply(request)


def _line(agent: str, messages: Sequence[Message]) -> Reply:
    if agent == "lead":
        return delegates("clerk", "pay and stamp")
    results = [message.text for message in messages if isinstance(message, ToolResult)]
    return says(" | ".join(results)) if results else calls(("pay", {"amount": 5}), ("stamp", {}))


async def live(task: Task, notes: Notes) -> None:
    """One life of a process."""
    async with Desk(task, notes).team() as team:
        notes.write("opened")
        match task.deed:
            case "decide":
                await _decide(team, notes)
            case "open":
                await _until(lambda: _ended(team))
                notes.write("settled")
            case _:
                _note(notes, await team.run("pay", conversation=CONVERSATION, key="once"))
        if task.deed == "ask, stay and look again":
            await _until(lambda: _nothing_awaited(team))
            _note(notes, await team.resume(CONVERSATION))
        if "stay" in task.deed:
            await asyncio.Event().wait()
    notes.write("done")


async def _decide(team: Team, notes: Notes) -> None:
    """Approve whatever is awaited, the last first, and get the result."""
    for request in reversed(await team.approvals(CONVERSATION)):
        await team.decide(request, Approve(), by="bob")
    _note(notes, await team.resume(CONVERSATION))


async def _until(true: Callable[[], Awaitable[bool]]) -> None:
    """Look on until this is so, and do nothing for it."""
    for _ in range(500):
        if await true():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError("nothing happened for five seconds")


async def _nothing_awaited(team: Team) -> bool:
    return not await team.approvals()


async def _ended(team: Team) -> bool:
    own = [record.event for record in await team.history(CONVERSATION) if record.conversation == CONVERSATION]
    return isinstance(own[-1], RunCompleted)


def _note(notes: Notes, result: RunResult) -> None:
    notes.write("result", result.run_id, result.status, [result.output, sorted(each.tool for each in result.requests)])


def main() -> None:
    """Fork a process for each task that is read, and write its id."""
    furnish()
    # What makes a schema of a function takes longer to import than all that a process does here.
    Desk(Task(url="sqlite:///none.db", deed="ask"), Notes(Path(os.devnull))).team()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    for line in sys.stdin:
        print(_fork(msgspec.json.decode(line, type=Task)), flush=True)


def _fork(task: Task) -> int:
    pid = os.fork()
    if pid:
        return pid
    notes = Notes(Path(task.notes))
    try:
        asyncio.run(live(task, notes))
    except BaseException:
        notes.write("wrong", kind="crash", value=traceback.format_exc())
    os._exit(0)


class MotherOfClerks(Mother):
    """A mother of the processes of this file."""

    def __init__(self, home: Path) -> None:
        self._errors = home / "errors"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.test_approvals_elsewhere"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=Path(__file__).parents[2],
            )


@pytest.fixture(scope="module")
def clerks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mother]:
    mother = MotherOfClerks(tmp_path_factory.mktemp("clerks"))
    yield mother
    mother.leave()


@pytest.fixture
def nursery(clerks: Mother, tmp_path: Path) -> Iterator[Nursery]:
    with Nursery(clerks, tmp_path) as nursery:
        yield nursery


def noted(nursery: Nursery, what: str, count: int = 1, within: float = 15) -> list[Note]:
    """So many notes of this kind, as soon as they are there."""
    notes = nursery.notes
    wait_for(lambda: bool(notes.read("wrong")) or len(notes.read(what)) >= count, within)
    assert notes.read("wrong") == []
    assert len(notes.read(what)) >= count, notes.read()
    return notes.read(what)


def ends(nursery: Nursery, task: Task, results: int = 1) -> list[object]:
    """Let a process live to its end; what it got as its result."""
    worker = nursery.start(task)
    assert worker.ended(15), nursery.notes.read()
    return [note.value for note in noted(nursery, "result", results)[results - 1 : results]] if results else []


def asks(nursery: Nursery, task: Task, how: str) -> Worker:
    """Let a process come to what it has to ask about; then it ends, is killed, or stays."""
    worker = nursery.start(task)
    [note] = noted(nursery, "result")
    assert (note.kind, note.value) == ("waiting", ["", ["pay", "stamp"]])
    if how == "is killed":
        worker.kill()
    elif how == "exits":
        assert worker.ended(15)
    assert nursery.notes.read("wrong") == []
    return worker


async def look_at(url: str) -> list[Event]:
    """What is recorded of the tree, of which nothing is under way any more."""
    log = open_log(Store(url))
    entries = await log.tree(CONVERSATION)
    assert await log.approvals() == []
    await log.close()
    for id in {entry.conversation for entry in entries}:
        state = State(id).fold([entry for entry in entries if entry.conversation == id])
        assert (state.run, state.inbox) == (None, {}), f"{id} has not ended"
    return events_of(entries)


def assert_once(nursery: Nursery, tools: Sequence[str] = ("pay", "stamp")) -> None:
    """Every effect happened, and only once."""
    begun = Counter(note.key for note in nursery.notes.read("begin"))
    assert begun == dict.fromkeys(begun, 1)
    kinds = Counter(note.kind for note in nursery.notes.read("begin") if note.kind != "model")
    assert kinds == dict.fromkeys(tools, 1)


async def assert_decided_once(url: str) -> None:
    """Both decisions are recorded, each before what it was about, and what came of it, all of them once."""
    recorded = await look_at(url)
    decisions = [event for event in recorded if isinstance(event, ApprovalDecided)]
    assert [(event.decision, event.by, event.expired) for event in decisions] == [(Approve(), "bob", False)] * 2
    assert len({event.call for event in decisions}) == 2
    assert sorted(event.text for event in recorded if isinstance(event, ToolFinished)) == ["paid 5", "stamped"]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("how", ["exits", "is killed", "stays"])
async def test_another_process_decides_and_gets_the_result(shared_store: str, nursery: Nursery, how: str, where: Where):
    deed: Deed = "ask and stay" if how == "stays" else "ask"
    asks(nursery, Task(url=shared_store, deed=deed, where=where), how)
    assert nursery.notes.read("begin")
    assert ends(nursery, Task(url=shared_store, deed="decide", where=where), 2) == [[DONE, []]]
    assert_once(nursery)
    await assert_decided_once(shared_store)


@pytest.mark.parametrize("where", WHERE)
async def test_the_process_that_asked_gets_the_outcome(shared_store: str, nursery: Nursery, where: Where):
    asks(nursery, Task(url=shared_store, deed="ask, stay and look again", where=where), "stays")
    assert ends(nursery, Task(url=shared_store, deed="decide", where=where), 0) == []
    _, *results = noted(nursery, "result", 3)
    assert [(note.kind, note.value) for note in results] == [("completed", [DONE, []])] * 2
    assert len({note.pid for note in results}) == 2
    assert_once(nursery)
    await assert_decided_once(shared_store)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("dies", ["before", "after"])
async def test_a_process_that_dies_as_it_decides_loses_nothing(
    shared_store: str, nursery: Nursery, dies: Death, where: Where
):
    asks(nursery, Task(url=shared_store, deed="ask", where=where), "exits")
    deciding = nursery.start(Task(url=shared_store, deed="decide", where=where, dies=dies))
    assert deciding.ended(15)
    assert len(nursery.notes.read("done")) == 1, "the process that was to be killed lived on"
    log = open_log(Store(shared_store))
    left = [request.tool for request in await log.approvals()]
    await log.close()
    assert left == (["pay"] if dies == "after" else ["pay", "stamp"])
    assert ends(nursery, Task(url=shared_store, deed="decide", where=where), 2) == [[DONE, []]]
    assert_once(nursery)
    await assert_decided_once(shared_store)


async def test_the_next_process_that_opens_the_store_answers_the_sender_of_a_dead_one(
    shared_store: str, nursery: Nursery
):
    task = Task(url=shared_store, deed="ask", where="in a delegate")
    asks(nursery, task, "exits")
    deciding = nursery.start(msgspec.structs.replace(task, deed="decide", dies="after its delegate"))
    assert deciding.ended(15)
    assert len(nursery.notes.read("done")) == 1, "the process that was to be killed lived on"
    assert nursery.start(msgspec.structs.replace(task, deed="open")).ended(15)
    noted(nursery, "settled")
    assert_once(nursery)
    await assert_decided_once(shared_store)


async def assert_expired(url: str, nursery: Nursery, task: Task) -> None:
    """The request expired, and the process that opened the store has settled it."""
    assert nursery.start(msgspec.structs.replace(task, deed="open")).ended(15)
    noted(nursery, "settled")
    assert_once(nursery, ("pay", "stamp") if task.on_expiry == "approve" else ())
    decisions = [event for event in await look_at(url) if isinstance(event, ApprovalDecided)]
    assert [event.expired for event in decisions] == [True, True]


@pytest.mark.parametrize("how", ["exits", "is killed"])
@pytest.mark.parametrize("on_expiry", ["reject", "approve"])
async def test_an_approval_that_expires_while_no_process_lives_is_settled_by_the_next_one(
    shared_store: str, nursery: Nursery, how: str, on_expiry: OnExpiry
):
    task = Task(url=shared_store, deed="ask", expires=EXPIRES, on_expiry=on_expiry)
    asks(nursery, task, how)
    await asyncio.sleep(EXPIRES)
    await assert_expired(shared_store, nursery, task)


async def test_an_approval_that_expires_is_settled_by_the_process_that_is_there(shared_store: str, nursery: Nursery):
    task = Task(url=shared_store, deed="ask", expires=1.0)
    asks(nursery, task, "is killed")
    await assert_expired(shared_store, nursery, task)


@pytest.mark.parametrize("on_expiry", ["reject", "approve"])
async def test_an_approval_of_a_delegate_that_expires_while_no_process_lives_is_settled_for_its_sender_too(
    shared_store: str, nursery: Nursery, on_expiry: OnExpiry
):
    task = Task(url=shared_store, deed="ask", where="in a delegate", expires=EXPIRES, on_expiry=on_expiry)
    asks(nursery, task, "is killed")
    await asyncio.sleep(EXPIRES)
    await assert_expired(shared_store, nursery, task)


if __name__ == "__main__":
    main()

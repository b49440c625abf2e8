"""Channels and outboxes: slow clients, silent streams, stores that go away, conversations that are removed."""

import asyncio
import json
from collections.abc import AsyncIterator
from inspect import iscoroutinefunction
from typing import Any

import pytest
from fastapi.routing import APIRoute

from changeover import Agent, Team
from changeover.errors import StoreUnavailable
from changeover.relay.events import Entry
from changeover.relay.ports.tokens import NewToken
from changeover.relay.stream import TextDelta
from changeover.server import Settings, live
from changeover.server.access import OWNER
from changeover.server.live import Live, Outbox, notice
from changeover.server.problems import Problem
from changeover.server.resources import RESOURCES, streams, watches
from changeover.server.resources.runs import outcome_in
from changeover.server.resources.streams import EventStream
from changeover.stores.memory.log import MemoryLog
from changeover.testing import ScriptedModel, says
from tests.server.door import opened
from tests.stores.entries import until


def a_team(store: Any) -> Team:
    return Team([Agent("clerk")], model=ScriptedModel({"clerk": [says("Hello.")] * 9}), store=store)


async def read(outbox: Outbox, count: int) -> list[Any]:
    """So many frames."""
    found: list[Any] = []
    async with asyncio.timeout(5):
        while len(found) < count:
            frames = await outbox.take()
            assert frames is not None, f"it ended after {found}"
            found += frames
    return found


async def test_a_client_that_does_not_read_is_cut_off_with_a_notice_and_catches_up(any_store, monkeypatch):
    monkeypatch.setattr(live, "MOST_WAITING", 5)
    monkeypatch.setattr(live, "SLOW_AFTER", 0.1)
    async with a_team(any_store) as team:
        await team.run("Hello", conversation="r")
        reader = Live(lambda: team.log, outcome_in)
        with reader.connected() as slow, reader.subscribed(slow, "r"):
            [first, *_] = await read(slow, 6)
            assert first.seq == 1
            await team.run("Hello", conversation="r")
            await asyncio.sleep(0.3)
            await team.run("Hello", conversation="r")
            await until(lambda: slow.over)
            [last] = await slow.take() or []
            assert json.loads(last.data)["code"] == "slow"
            assert await slow.take() is None
        with reader.connected() as again, reader.subscribed(again, "r", 6):
            seqs = [frame.seq for frame in await read(again, 9) if frame.kind == "event"]
            assert seqs == list(range(7, 14))


async def test_a_quick_client_catches_up_with_any_past(monkeypatch):
    monkeypatch.setattr(live, "MOST_WAITING", 5)
    outbox = Outbox()
    for number in range(100):
        outbox.put(notice("past", str(number)))
    assert not outbox.over
    assert len(await outbox.take() or []) == 100


async def test_a_removed_conversation_ends_its_streams(any_store):
    async with a_team(any_store) as team:
        await team.run("Hello", conversation="r")
        reader = Live(lambda: team.log, outcome_in)
        with reader.connected() as outbox, reader.subscribed(outbox, "r"):
            await read(outbox, 6)
            await team.forget("r")
            await team.run("Hello", conversation="r")
            [last] = await read(outbox, 1)
            assert json.loads(last.data)["code"] == "gone"
            assert await outbox.take() is None


class Interrupted(MemoryLog):
    """A log that cannot be read at first."""

    broken = True

    async def changes(self, root: str, after_seq: int = 0) -> AsyncIterator[Entry]:
        async for entry in super().changes(root, after_seq):
            yield entry
            if self.broken:
                self.broken = False
                raise StoreUnavailable("it is away")


async def test_a_stream_says_that_the_store_is_away_and_goes_on_with_it(monkeypatch):
    monkeypatch.setattr(live, "RETRY", 0.01)
    log = Interrupted()
    async with a_team(log) as team:
        await team.run("Hello", conversation="r")
        reader = Live(lambda: log, outcome_in)
        with reader.connected() as outbox, reader.subscribed(outbox, "r"):
            found = await read(outbox, 7)
    assert [frame.kind for frame in found].count("notice") == 1
    assert [frame.seq for frame in found if frame.kind == "event"] == list(range(1, 6))


async def test_a_late_piece_of_a_reply_is_left_out():
    log = MemoryLog()
    async with a_team(log) as team:
        await team.run("Hello", conversation="r")
        reader = Live(lambda: log, outcome_in)
        with reader.connected() as outbox, reader.subscribed(outbox, "r"):
            await read(outbox, 6)
            log.deltas.send("r", TextDelta("too late", "clerk", "r", "2"))
            log.deltas.send("r", TextDelta("in time", "clerk", "r", "9"))
            [frame] = await read(outbox, 1)
            assert json.loads(frame.data)["text"] == "in time"


async def test_a_client_that_joins_during_a_reply_gets_the_pieces_before_it_came():
    log = MemoryLog()
    reader = Live(lambda: log, outcome_in)
    with reader.connected() as first, reader.subscribed(first, "r"):
        await asyncio.sleep(0)
        for text in ("He", "llo"):
            log.deltas.send("r", TextDelta(text, "clerk", "r", "2"))
        await read(first, 2)
        with reader.connected() as second, reader.subscribed(second, "r"):
            assert [json.loads(frame.data)["text"] for frame in await read(second, 2)] == ["He", "llo"]


async def test_a_client_that_comes_back_gets_the_whole_reply_under_way():
    log = MemoryLog()
    reader = Live(lambda: log, outcome_in)
    with reader.connected() as first, reader.subscribed(first, "r"):
        await asyncio.sleep(0)
        log.deltas.send("r", TextDelta("He", "clerk", "r", "2"))
        await read(first, 1)
    log.deltas.send("r", TextDelta("llo", "clerk", "r", "2"))
    with reader.connected() as again, reader.subscribed(again, "r"):
        assert [json.loads(frame.data)["text"] for frame in await read(again, 2)] == ["He", "llo"]


async def test_a_client_that_comes_back_after_a_failure_is_served_again(monkeypatch):
    async with a_team(MemoryLog()) as team:
        await team.run("Hello", conversation="r")
        reader = Live(lambda: team.log, outcome_in)
        with monkeypatch.context() as broken:
            broken.setattr(live, "fold_recorded", lambda state, entry: 1 / 0)
            with reader.connected() as first, reader.subscribed(first, "r"):
                [failed] = await read(first, 1)
                assert json.loads(failed.data)["code"] == "failed"
        with reader.connected() as again, reader.subscribed(again, "r"):
            assert [frame.seq for frame in await read(again, 6) if frame.kind == "event"] == list(range(1, 6))


async def test_a_server_that_stops_tells_its_clients_and_takes_no_others():
    reader = Live(MemoryLog, outcome_in)
    with reader.connected() as outbox:
        await reader.stop(0.01)
        [last] = await outbox.take() or []
        assert json.loads(last.data)["code"] == "stopping"
        assert await outbox.take() is None
    with pytest.raises(Problem, match="stops"), reader.connected():
        pass


async def test_a_list_that_fails_once_is_sent_at_the_next_look(monkeypatch, caplog):
    looks: list[str] = []

    async def fails_first(team: Team, who: Any) -> list[tuple[str, Any]]:
        looks.append("")
        if len(looks) == 1:
            raise RuntimeError("a bug")
        return [("a", {"id": "a"})]

    monkeypatch.setattr(watches, "EVERY", 0.01)
    monkeypatch.setitem(watches.LISTS, "tasks", fails_first)
    async with a_team(MemoryLog()) as team:
        outbox = Outbox()
        with watches.Watches(team).watching(outbox, "tasks", OWNER):
            [snapshot] = await read(outbox, 1)
    assert (snapshot.kind, json.loads(snapshot.data)["items"]) == ("snapshot", [{"id": "a"}])
    assert "a bug" in caplog.text


async def test_a_server_that_stops_refuses_new_work_and_records_none_of_it():
    async with opened(Settings(open_access=True)) as door, door.client() as client:
        await door.app.state.live.stop(0.01)
        for path, said in (("/conversations", {"text": "hello"}), ("/claims", {"agent": "research"})):
            answer = await client.post(path, json=said)
            assert (answer.status_code, answer.json()["type"][-8:]) == (503, "stopping")
            assert int(answer.headers["retry-after"]) >= 1
        assert (await client.get("/conversations")).json()["items"] == []


async def test_a_token_that_is_revoked_or_expires_ends_the_streams_of_its_caller(any_store, monkeypatch):
    monkeypatch.setattr(live, "RECHECK", 0.01)
    async with a_team(any_store) as team:
        await team.run("Hello", conversation="r")
        tokens, reader = team.log.tokens, Live(lambda: team.log, outcome_in)
        kept, _ = await tokens.issue(NewToken(user="ana", role="viewer"), by="tests")
        gone, _ = await tokens.issue(NewToken(user="ben", role="viewer"), by="tests")
        with reader.connected(kept.id) as on, reader.connected(gone.id) as off, reader.subscribed(off, "r"):
            await read(off, 6)
            await tokens.revoke(gone.id, by="tests")
            [last] = await read(off, 1)
            assert json.loads(last.data)["code"] == "unauthorized"
            assert await off.take() is None
            assert not on.over


async def test_a_silent_stream_says_that_it_is_alive_until_its_client_leaves(monkeypatch):
    monkeypatch.setattr(live, "SILENCE", 0.01)
    sent: list[dict[str, Any]] = []
    left = asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message)
        if message.get("body") == streams.SILENT:
            left.set()

    async def receive() -> Any:
        await left.wait()
        return {"type": "http.disconnect"}

    async with asyncio.timeout(5):
        await EventStream(Live(MemoryLog, outcome_in), lambda outbox, stack: None)({}, receive, send)
    assert sent[0]["status"] == 200
    assert b": alive\n\n" in [message.get("body") for message in sent]


async def test_a_client_that_reads_nothing_for_long_is_dropped(monkeypatch):
    monkeypatch.setattr(streams, "PATIENCE", 0.01)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.sleep(60)

    async def receive() -> Any:
        await asyncio.sleep(60)

    reader = Live(MemoryLog, outcome_in)
    with pytest.raises(TimeoutError):
        await EventStream(reader, lambda outbox, stack: None)({}, receive, send)
    assert not reader._outboxes


def test_no_request_waits_for_a_thread():
    routes = [route for resource in RESOURCES for route in resource.router.routes]
    pending = [route.dependant for route in routes if isinstance(route, APIRoute)]
    assert len(pending) > 30
    while pending:
        each = pending.pop()
        assert each.call is None or iscoroutinefunction(each.call), f"{each.call} is not async"
        pending += each.dependencies

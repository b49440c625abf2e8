"""Deltas: readers hear the pieces of a reply as a model writes them, on PostgreSQL in other processes too."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from changeover import Agent, Team
from changeover.relay.events import ModelReplied
from changeover.relay.ports.log import Log
from changeover.relay.stream import Delta, Recorded, Replies, TextDelta, ThinkingDelta
from changeover.stores.sql.dialects.notified import LARGEST, Announcement, Piece, fitting, joined
from changeover.testing import ScriptedModel, says
from tests.databases import cut_connections
from tests.stores.entries import until


def text(words: str, conversation: str = "r", command: str = "2") -> TextDelta:
    return TextDelta(words, "clerk", conversation, command)


async def test_a_delta_is_wanted_only_while_a_reader_listens(log: Log):
    heard: list[Delta] = []
    assert not log.deltas.wanted("r")
    with log.deltas.listening("r", heard.append), log.deltas.listening("r", heard.append):
        assert log.deltas.wanted("r")
        assert not log.deltas.wanted("another")
        log.deltas.send("r", text("Hello"))
        log.deltas.send("another", text("for nobody"))
    log.deltas.send("r", text("too late"))
    assert not log.deltas.wanted("r")
    assert heard == [text("Hello")] * 2


async def test_another_process_hears_them_joined_and_whole(postgres: str, opened):
    mine, theirs = opened(postgres), opened(postgres)
    heard: list[Delta] = []
    long = "ab" * LARGEST + "é" * 5_000 + "\ud800\0"
    with mine.deltas.listening("r", heard.append):
        await until(lambda: theirs.deltas.wanted("r"))
        theirs.deltas.send("r", text("begin "))
        for number in range(200):
            theirs.deltas.send("r", text(f"{number} "))
        theirs.deltas.send("r", ThinkingDelta(long, "clerk", "r", "2"))
        theirs.deltas.send("r", text("elsewhere", "r/1"))
        theirs.deltas.send("s", text("for nobody", "s"))
        await until(lambda: "elsewhere" in {each.text for each in heard} and _joined(heard, ThinkingDelta) == sent)
        assert _joined(heard, TextDelta, "r") == "begin " + "".join(f"{number} " for number in range(200))
        assert len([each for each in heard if isinstance(each, TextDelta)]) < 100
        assert {(each.agent, each.command, each.attempt) for each in heard} == {("clerk", "2", 1)}
    await until(lambda: not theirs.deltas.wanted("r"))


sent = "ab" * LARGEST + "é" * 5_000 + "?\0"


def _joined(heard: list[Delta], kind: type[Delta], conversation: str = "r") -> str:
    return "".join(each.text for each in heard if isinstance(each, kind) and each.conversation == conversation)


async def test_whoever_comes_later_learns_what_is_read(postgres: str, opened):
    mine = opened(postgres)
    heard: list[Delta] = []
    with mine.deltas.listening("r", heard.append):
        await asyncio.sleep(0.2)
        theirs = opened(postgres)
        await until(lambda: theirs.deltas.wanted("r"), 2.0)
        theirs.deltas.send("r", text("Hello"))
        await until(lambda: heard == [text("Hello")])


async def test_both_ways_survive_the_loss_of_the_connections(postgres: str, opened):
    mine, theirs = opened(postgres), opened(postgres)
    heard: list[Delta] = []
    with mine.deltas.listening("r", heard.append):
        await until(lambda: theirs.deltas.wanted("r"))
        cut_connections(postgres)

        async def arrives() -> bool:
            theirs.deltas.send("r", text("again"))
            await asyncio.sleep(0.1)
            return bool(heard)

        await until(arrives, 10.0)


async def test_stores_in_one_database_do_not_hear_each_other(postgres: str, bare_postgres: str, opened):
    mine, foreign = opened(postgres), opened(bare_postgres)
    heard: list[Delta] = []
    with mine.deltas.listening("r", heard.append), foreign.deltas.listening("s", heard.append):
        await asyncio.sleep(0.2)
        assert not foreign.deltas.wanted("r")
        assert not mine.deltas.wanted("s")


def test_pieces_of_one_source_are_joined_and_every_notification_fits():
    pieces = [Piece("r", False, word, "clerk", id, "2", 1) for word, id in (("a", "r"), ("b", "r/1"), ("c", "r"))]
    assert [(each.text, each.conversation) for each in joined(pieces)] == [("ac", "r"), ("b", "r/1")]
    for message in (Piece("r", True, "x" * 50_000, "clerk", "r", "2", 1), Announcement("p", ("root" * 30,) * 500)):
        payloads = list(fitting(message))
        assert len(payloads) > 5
        assert all(len(payload.encode()) < 8_000 for payload in payloads)
    assert len(set(fitting(Piece("r", True, "x" * 50_000, "clerk", "r", "2", 1)))) > 5  # no two are the same
    assert list(fitting(Piece("r" * 9_000, True, "x", "clerk", "r", "2", 1))) == []


def test_a_delta_that_comes_after_its_reply_is_known_as_late():
    replies = Replies()
    assert not replies.has(text("Hello"))
    replies.note(Recorded(4, 0.0, "r", "clerk", ModelReplied("clerk", 2, "Hello"), 3))
    assert replies.has(text("Hello"))
    assert not replies.has(text("Hello", "r/1"))
    assert not replies.has(text("And", command="3"))
    assert not replies.has(TextDelta("of a model that names nothing"))


class Streamed(ScriptedModel):
    """Says whether it was asked for a stream."""

    streams = 0

    def stream(self, request):
        self.streams += 1
        return super().stream(request)


async def test_without_a_reader_no_model_is_asked_for_a_stream(log: Log):
    model = Streamed({"clerk": [says("One."), says("Two.")]})
    team = Team([Agent("clerk")], model=model, store=log)
    await team.run("Hello", conversation="r")
    assert model.streams == 0
    heard: list[Delta] = []
    with log.deltas.listening("r", heard.append):
        assert (await team.run("Hello", conversation="r")).output == "Two."
    assert "".join(each.text for each in heard) == "Two."
    assert model.streams == 1
    await team.close()


@pytest.fixture
def elsewhere(postgres: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, which answers in conversation r when it is told to."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.stores.speaker", postgres],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.communicate("\n")


async def test_a_stream_in_another_process_has_the_text_before_the_reply(postgres: str, elsewhere, opened):
    witness = opened(postgres)
    async with Team([Agent("clerk")], model=ScriptedModel({}), store=postgres) as team:
        following = team.follow("r")
        items = [await anext(following)]
        await until(lambda: witness.deltas.wanted("r"))
        elsewhere.stdin.write("go\n")
        elsewhere.stdin.flush()
        items += [item async for item in following]
    replies = [
        index
        for index, item in enumerate(items)
        if isinstance(item, Recorded) and isinstance(item.event, ModelReplied) and item.event.text
    ]
    pieces = [index for index, item in enumerate(items) if isinstance(item, TextDelta)]
    assert "".join(item.text for item in items if isinstance(item, TextDelta)).startswith("One by one ")
    assert pieces[-1] < replies[0]

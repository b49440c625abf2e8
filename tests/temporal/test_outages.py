"""Temporal or the database stopped for a while: conversations go on, and nothing happens twice."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from changeover import Team, Temporal
from changeover.errors import EngineError
from changeover.stores.store import Store, open_log, upgrade_store
from tests import postgres as databases
from tests.crash.checks import assert_at_most_once, assert_none_again, assert_whole, causes
from tests.crash.nursery import Nursery
from tests.crash.plans import Play, essence
from tests.crash.test_kill import as_it_should_be
from tests.crash.worker import Say, options
from tests.public_api import soon
from tests.temporal.crew import LEASE, Crew
from tests.temporal.server import Server

STRESS = "CHANGEOVER_STRESS" in os.environ
OUTAGE, CONVERSATIONS = (10.0, 40) if STRESS else (2.0, 8)
PLAN = "look pay+peek >billing save look >tech pay scan"


@pytest.fixture
def temporal_server() -> Iterator[Server]:
    server = Server()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def postgres_server() -> Iterator[databases.Server]:
    server = databases.Server()
    server.start()
    yield server
    server.stop(keep=False)


async def answered(team: Team, say: Say) -> list[Any]:
    """The answer to a message, by a caller who asks again with the same key if the engine cannot go on."""
    while True:
        try:
            return essence(await team.run(say.text, **options(say)))
        except EngineError:
            await asyncio.sleep(0.5)


@pytest.mark.stress
@pytest.mark.timeout(600 if STRESS else 180)
@pytest.mark.parametrize("stopped", ["Temporal", "PostgreSQL"])
async def test_conversations_go_on_when_a_server_was_stopped_for_a_while(
    stopped: str, temporal_server: Server, postgres_server: databases.Server, nursery: Nursery
):
    server = temporal_server if stopped == "Temporal" else postgres_server
    url, engine = postgres_server.url, Temporal(temporal_server.address, queue="outage", grace=0.1)
    upgrade_store(Store(url))
    crew = Crew(url, engine, nursery, longest=OUTAGE / 10)
    crew.hire(2)
    says = [Say(f"c{number}", f"c{number}-1", PLAN) for number in range(CONVERSATIONS)]
    expected = await as_it_should_be([[say] for say in says])
    asking = Play(lambda *noted: None).team(
        Store(url, lease=LEASE), Temporal(engine.address, queue="outage", worker=False)
    )
    log = open_log(Store(url))
    async with asking:
        before, meanwhile = says[::2], says[1::2]
        working = [asyncio.ensure_future(answered(asking, say)) for say in before]
        assert await soon(begun(nursery, before), 60)
        await asyncio.to_thread(server.stop)
        working += [asyncio.ensure_future(answered(asking, say)) for say in meanwhile]
        await asyncio.sleep(OUTAGE)
        assert not any(each.done() for each in working[len(before) :])
        await asyncio.to_thread(server.start)
        entries = [entry for say in says for entry in await log.read(say.conversation)]
        held = {len(nursery.notes.read()): causes(entries)}
        answers = await asyncio.gather(*working)
        got = {say.key: answer for say, answer in zip([*before, *meanwhile], answers, strict=True)}
    assert got == expected
    for say in says:
        assert_whole(await log.read(say.conversation))
    await log.close()
    assert_none_again(nursery.notes.read(), held)
    assert_at_most_once(nursery.notes.read())
    assert nursery.notes.read("wrong") == []


def begun(nursery: Nursery, says: list[Say]) -> Callable[[], Awaitable[bool]]:
    """True if effects of all conversations have begun."""
    every = {say.conversation for say in says}

    async def look() -> bool:
        return {note.key.partition(":")[0] for note in nursery.notes.read("begin")} == every

    return look

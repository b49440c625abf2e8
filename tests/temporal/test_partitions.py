"""A worker cut off from Temporal or from the database: no conversation has two owners, and nothing happens twice.

The worker runs in a network namespace with a link to each server, and the test takes one of the links down.
"""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from changeover import Temporal
from changeover.stores.store import Store, open_log, upgrade_store
from tests import postgres as databases
from tests.crash.checks import assert_at_most_once, assert_none_again, assert_whole, causes
from tests.crash.nursery import Mother, Nursery
from tests.crash.plans import Play
from tests.crash.test_kill import as_it_should_be
from tests.crash.worker import Say
from tests.public_api import soon
from tests.temporal.crew import LEASE, Crew
from tests.temporal.server import Server
from tests.temporal.test_outages import PLAN, answered, begun

STRESS = "CHANGEOVER_STRESS" in os.environ
CUT, CONVERSATIONS = 15.0, 20
pytestmark = [pytest.mark.stress, pytest.mark.timeout(300)]


class Island:
    """A network namespace, and a link from it to each of two addresses of this machine."""

    def __init__(self) -> None:
        self.name = f"co{uuid4().hex[:6]}"
        self._links = {"Temporal": f"{self.name}t", "PostgreSQL": f"{self.name}p"}
        self._nets = {"Temporal": "10.231.1", "PostgreSQL": "10.231.2"}

    def open(self) -> None:
        _ip("netns", "add", self.name)
        _ip("-n", self.name, "link", "set", "lo", "up")
        for server, link in self._links.items():
            _ip("link", "add", link, "type", "veth", "peer", "name", f"{link}i", "netns", self.name)
            _ip("addr", "add", f"{self._nets[server]}.1/24", "dev", link)
            _ip("-n", self.name, "addr", "add", f"{self._nets[server]}.2/24", "dev", f"{link}i")
            _ip("-n", self.name, "link", "set", f"{link}i", "up")
            _ip("link", "set", link, "up")

    def address(self, server: str) -> str:
        """The address at which the namespace reaches a server."""
        return f"{self._nets[server]}.1"

    @property
    def networks(self) -> str:
        return "10.231.0.0/16"

    def cut(self, server: str) -> None:
        _ip("-n", self.name, "link", "set", f"{self._links[server]}i", "down")

    def mend(self, server: str) -> None:
        _ip("-n", self.name, "link", "set", f"{self._links[server]}i", "up")

    def close(self) -> None:
        for link in self._links.values():
            subprocess.run(["ip", "link", "delete", link], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "delete", self.name], check=False, capture_output=True)


def _ip(*args: str) -> None:
    subprocess.run(["ip", *args], check=True, capture_output=True)


@pytest.fixture
def island() -> Iterator[Island]:
    made = Island()
    try:
        made.open()
    except (OSError, subprocess.CalledProcessError) as error:
        made.close()
        pytest.skip(f"network namespaces are not allowed here: {getattr(error, 'stderr', error)!r}")
    yield made
    made.close()


@pytest.fixture
def temporal_server(island: Island) -> Iterator[Server]:
    server = Server(island.address("Temporal"))
    server.start()
    yield server
    server.remove()


@pytest.fixture
def postgres_server(island: Island) -> Iterator[databases.Server]:
    server = databases.Server(ip=island.address("PostgreSQL"), trusted=island.networks)
    server.start()
    yield server
    server.stop(keep=False)


@pytest.fixture
def cut_off(island: Island, tmp_path: Path) -> Iterator[Mother]:
    """Starts worker processes in the namespace."""
    mother = Mother(tmp_path, within=("ip", "netns", "exec", island.name))
    yield mother
    mother.leave()


@pytest.fixture
def crews(island: Island, cut_off: Mother, mother: Mother, tmp_path: Path) -> Iterator[tuple[Nursery, Nursery]]:
    """Where workers in the namespace come from, and those outside. Both write to the same notes."""
    with Nursery(cut_off, tmp_path) as inside, Nursery(mother, tmp_path) as outside:
        yield inside, outside


@pytest.mark.skipif(not STRESS, reason="fifteen seconds without a network: make stress")
@pytest.mark.parametrize("lost", ["Temporal", "PostgreSQL"])
async def test_a_worker_that_is_cut_off_repeats_nothing_and_its_conversations_end_right(
    lost: str,
    island: Island,
    temporal_server: Server,
    postgres_server: databases.Server,
    crews: tuple[Nursery, Nursery],
):
    url = f"postgresql://postgres@{island.address('PostgreSQL')}/postgres"
    upgrade_store(Store(url))
    says = [Say(f"c{number}", f"c{number}-1", PLAN) for number in range(CONVERSATIONS)]
    expected = await as_it_should_be([[say] for say in says])
    engine = Temporal(temporal_server.address, queue="cut", grace=0.1)
    asking = Play(lambda *noted: None).team(Store(url, lease=LEASE), replace(engine, worker=False))
    log, (inside, outside) = open_log(Store(url)), crews
    away = Crew(url, engine, inside, longest=1.0)
    away.hire()
    async with asking:
        results = asyncio.gather(*(answered(asking, say) for say in says))
        assert await soon(begun(inside, says), 60)
        await asyncio.to_thread(Crew(url, engine, outside, longest=1.0).hire)
        island.cut(lost)
        await asyncio.sleep(CUT)
        entries = [entry for say in says for entry in await log.read(say.conversation)]
        held = {len(inside.notes.read()): causes(entries)}
        island.mend(lost)
        got = {say.key: answer for say, answer in zip(says, await results, strict=True)}
    notes = inside.notes.read()
    assert got == expected
    for say in says:
        assert_whole(await log.read(say.conversation))
    await log.close()
    took_over = {note.pid for note in notes if note.what == "begin"} - {worker.pid for worker in away.workers}
    # Without Temporal, a worker that owns its conversations in the store goes on with what it has begun.
    assert took_over or lost == "Temporal"
    assert_none_again(notes, held)
    assert_at_most_once(notes)
    assert [note for note in notes if note.what == "wrong"] == []

"""Eight processes that claim tickets of one store, some of them killed while they work."""

import asyncio
import os
import random
import time
from collections import Counter
from typing import Any

import pytest

from changeover import Respond, Store, Team
from changeover.protocol import State, Ticket
from changeover.relay.events import RunCompleted
from changeover.relay.ports.log import Log
from changeover.testing import ScriptedModel
from tests.crash.nursery import Nursery, Worker
from tests.crash.server import Serve, a_package, desk
from tests.crash.worker import Order

STRESS = "CHANGEOVER_STRESS" in os.environ
TICKETS = 5_000 if STRESS else 500
KILLS = 100 if STRESS else 10
PROCESSES = 8
SEED = os.environ.get("CHANGEOVER_SEED") or os.urandom(4).hex()
OVER = {State.RETURNED, State.COMPLETE, State.REJECTED}
"""The last if a person did it by hand, because every worker that claimed it was killed."""


class Shift:
    """Keeps so many processes at work, though it kills one of them again and again."""

    def __init__(self, url: str, nursery: Nursery) -> None:
        self._url, self._nursery, self._rng = url, nursery, random.Random(SEED)
        self._working: list[Worker] = []
        self.kills = 0

    def fill_up(self) -> None:
        self._working = [worker for worker in self._working if worker.alive]
        while len(self._working) < PROCESSES:
            number = len(self._working) + self.kills
            serve = Serve(("worker", "claims")[number % 2])
            order = Order(url=self._url, serve=serve, lease=0.9, seed=f"{SEED}-{number}")
            self._working.append(self._nursery.start(order))

    async def until_done(self, team: Team, within: float) -> None:
        """Until no ticket is left."""
        until = time.monotonic() + within
        while time.monotonic() < until:
            self.fill_up()
            await asyncio.sleep(self._rng.uniform(0.05, 0.3))
            for request in await team.approvals():  # three workers took it, and each was killed
                await team.decide(request, Respond("done by hand"))
            # In this order: a ticket that leaves the queue for a person is a request by then.
            if not await left(team.log) and not await team.approvals():
                return
            if self.kills < KILLS:
                self._rng.choice(self._working).kill()
                self.kills += 1
        raise AssertionError("the tickets do not come to an end")


async def left(log: Log) -> bool:
    """Whether anything is left to do."""
    return bool(await log.queue.tickets() or await log.unfinished())


async def submit_all(team: Team, rng: random.Random) -> list[Ticket]:
    packages = [a_package(rng, number) for number in range(TICKETS)]
    return [
        ticket
        for at in range(0, TICKETS, 100)
        for ticket in await asyncio.gather(*map(team.submit, packages[at : at + 100]))
    ]


@pytest.mark.stress
@pytest.mark.timeout(900 if STRESS else 200)
async def test_every_ticket_is_completed_once_though_workers_are_killed(shared_store: str, nursery: Nursery):
    print(f"CHANGEOVER_SEED={SEED}")
    team, shift = desk(Store(shared_store, 0.9), ScriptedModel({})), Shift(shared_store, nursery)
    tickets = await submit_all(team, random.Random(SEED))
    begun = time.monotonic()
    await shift.until_done(team, 800 if STRESS else 150)
    took = time.monotonic() - begun
    assert shift.kills > 0
    results = [await team.result(ticket, timeout=30) for ticket in tickets]  # its worker may be about to end it
    assert {result.state for result in results} <= OVER
    assert {result.result for result in results} <= {"done", "done by hand"}
    for ticket, result in zip(tickets, results, strict=True):
        history = await team.history(ticket.conversation)
        ended = [each.conversation for each in history if isinstance(each.event, RunCompleted)]
        by_hand = result.state is State.REJECTED
        assert sorted(ended) == sorted({ticket.conversation, ticket.conversation if by_hand else ticket.place})
    notes = nursery.notes.read()
    completed = Counter(note.key for note in notes if note.what == "completed")
    assert set(completed.values()) <= {1}
    assert not [note for note in notes if note.what == "wrong"]
    assert_in_order(tickets, notes)
    again = sum(note.what == "took" and note.value[0] > 1 for note in notes)
    print(f"{TICKETS} tickets, {shift.kills} kills, {again} taken again, {TICKETS / took:.0f} tickets/s")
    await team.close()


def assert_in_order(tickets: list[Ticket], notes: list[Any]) -> None:
    """A worker that claimed while a more urgent ticket was open claimed the urgent one first."""
    by_id = {ticket.id: ticket for ticket in tickets}
    first: dict[str, tuple[float, float]] = {}
    taken: set[str] = set()
    for note in notes:
        if note.what == "took" and note.key not in taken:
            taken.add(note.key)  # a ticket that was given back may be less urgent than later claims
            if len(note.value) == 2 and note.value[0] == 1:
                first[note.key] = (note.value[1], note.at)
    for agent in {ticket.agent for ticket in tickets}:
        mine = [(by_id[id].priority, *times) for id, times in first.items() if by_id[id].agent == agent]
        earliest_end = {p: min((end for each, _, end in mine if each < p), default=float("inf")) for p in (1, 2)}
        late = [each for each in mine if each[0] in earliest_end and each[1] > earliest_end[each[0]]]
        assert not late, f"{len(late)} tickets of {agent} were taken after less urgent ones"

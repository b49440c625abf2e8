"""MemoryQueue: tickets in memory, ordered by urgency for each agent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf

from msgspec.structs import replace

from changeover.facts import Ticket
from changeover.relay.ports import Head
from changeover.relay.projection.admission import lost
from changeover.relay.queue import SPACING, Bell, Claim, Queued, Taken
from changeover.stores.feed import Listeners

Order = tuple[int, float, float, str]
"""By what tickets are ordered: the most urgent is the least."""
Lease = tuple[float, int, "Spot"]
"""Until when somebody holds a ticket."""


class Spot:
    """How a ticket stands."""

    __slots__ = ("attempts", "lined_up", "order", "over", "owner", "rests", "ticket", "until")

    def __init__(self, ticket: Ticket, turn: float) -> None:
        self.ticket = ticket
        deadline = inf if ticket.deadline is None else ticket.deadline
        self.order: Order = (-ticket.priority, deadline, turn, ticket.id)
        self.attempts = 0
        self.owner: str | None = None
        self.until: float | None = None
        self.rests = self.over = False
        self.lined_up = False
        """Whether it stands in its agent's line, though perhaps it may not be taken any more."""

    @property
    def turn(self) -> float:
        return self.order[2]

    @property
    def free(self) -> bool:
        return self.owner is None and not self.rests and not self.over

    def be_nobodys(self) -> None:
        self.owner = self.until = None

    def be_taken_up(self) -> None:
        """Until when somebody had to take it says nothing any more."""
        self.be_nobodys()
        if self.ticket.deadline is not None:
            priority, _, turn, id = self.order
            self.order, self.ticket = (priority, inf, turn, id), replace(self.ticket, deadline=None)
            self.lined_up = False  # where it stood before counts no more


class Line:
    """The tickets that wait for one agent. Those that left from the middle are passed over when their turn comes."""

    def __init__(self) -> None:
        self._heap: list[tuple[Order, int, Spot]] = []
        self._numbers = count()
        self._left = 0

    def join(self, spot: Spot) -> None:
        if not spot.lined_up:
            spot.lined_up = True
            heappush(self._heap, (spot.order, next(self._numbers), spot))

    def note_left(self) -> None:
        """One of those in line has left it; when most have, the line is made anew."""
        self._left += 1
        if self._left > len(self._heap) // 2:
            mine = [each for each in self._heap if each[0] is each[2].order]
            for _, _, spot in mine:
                spot.lined_up = spot.free
            self._heap = [each for each in mine if each[2].free]
            heapify(self._heap)
            self._left = 0

    def first(self) -> Order | None:
        """The order of whoever is first, if anybody waits."""
        while self._heap and not (self._heap[0][2].free and self._heap[0][0] is self._heap[0][2].order):
            self._pop()
            self._left = max(0, self._left - 1)
        return self._heap[0][0] if self._heap else None

    def next(self) -> Spot:
        """Whoever is first leaves the line."""
        self.first()
        return self._pop()

    def _pop(self) -> Spot:
        order, _, spot = heappop(self._heap)
        if order is spot.order:
            spot.lined_up = False
        return spot


class MemoryQueue:
    """Tickets in memory. The lock is the log's: what an entry does to tickets happens with it, or not at all."""

    def __init__(self, lock: threading.Lock, now: Callable[[], float]) -> None:
        self._lock, self._now = lock, now
        self._spots: dict[str, Spot] = {}
        self._lines: dict[str, Line] = {}
        self._trees: dict[str, dict[str, Spot]] = {}
        """The tickets of each root in the order in which they came, which is that of their turns."""
        self._tried: dict[str, Spot] = {}
        """Those that were taken at least once."""
        self._leases: list[Lease] = []
        self._numbers = count()
        self._listeners = Listeners()

    async def take(
        self, agents: Sequence[str], token: str, lease: float, limit: int, most: int, now: float
    ) -> list[Taken]:
        with self._lock:
            self._free_what_lapsed()
            lines = [line for agent in dict.fromkeys(agents) if (line := self._lines.get(agent))]
            taken: list[Spot] = []
            passed: list[Spot] = []
            while len(taken) < limit and (spot := _most_urgent(lines)):
                fit = spot.attempts < most and (spot.attempts > 0 or spot.order[1] > now)
                (taken if fit else passed).append(spot)
            for spot in passed:
                self._line_up(spot)
            return [self._claim(spot, token, lease) for spot in taken]

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[str]:
        with self._lock:
            held = [spot for claim in claims if (spot := self._held(claim))]
            for spot in held:
                self._hold(spot, lease)
            return [spot.ticket.id for spot in held]

    async def give_back(self, claim: Claim, counted: bool) -> bool:
        with self._lock:
            if (spot := self._held(claim)) is None:
                return False
            self._count(spot, spot.attempts if counted else max(0, spot.attempts - 1))
            self._free(spot)
            return True

    async def worn_out(self, most: int) -> list[Queued]:
        with self._lock:
            now = self._now()
            return _listed((each for each in self._tried.values() if each.attempts >= most and _idle(each, now)), now)

    async def retry(self, ticket: str, offered: bool = False) -> bool:
        with self._lock:
            if (spot := self._spots.get(ticket)) is None:
                return False
            spot.rests = False
            self._count(spot, 0)
            if offered:
                spot.be_nobodys()
            else:
                spot.be_taken_up()
            self._ring(spot)
            return True

    async def tickets(self, ticket: str | None = None) -> list[Queued]:
        with self._lock:
            wanted = self._spots.values() if ticket is None else [self._spots.get(ticket)]
            return _listed((each for each in wanted if each), self._now())

    def listening(self, agents: Sequence[str]) -> AbstractContextManager[Bell]:
        return self._listeners.listening(agents)

    def check(self, claim: Claim) -> None:
        """Raise ClaimLost if it does not hold any more. This and what follows: by whoever has the lock."""
        if self._held(claim) is None:
            spot = self._spots.get(claim.ticket)
            raise lost(claim, spot is not None, spot.owner if spot else None)

    def note(self, head: Head | None, claim: Claim | None) -> None:
        """What an entry does to tickets, now that it is recorded."""
        if head is not None:
            for id in head.gone:
                self._remove(id)
            for ticket in head.tickets:
                self._put(ticket)
            for id in head.rests:
                self.rest(id)
        if claim is not None and claim.ends and (spot := self._held(claim)):
            self._count(spot, 0)
            spot.be_taken_up()
            self._ring(spot)

    def rest(self, ticket: str) -> None:
        """It is nobody's, and there is nothing to take."""
        if spot := self._spots.get(ticket):
            spot.be_taken_up()
            spot.rests = True
            self._count(spot, 0)
            self._leave(spot)

    def first_of(self, root: str) -> Ticket | None:
        """The first of a tree's open tickets, if there are any."""
        return next((spot.ticket for spot in self._trees.get(root, {}).values()), None)

    def _put(self, ticket: Ticket) -> None:
        spot = self._spots.get(ticket.id)
        if spot is None:
            tree = self._trees.setdefault(ticket.root, {})
            last = next(reversed(tree.values())).turn + SPACING if tree else -inf
            spot = self._spots[ticket.id] = tree[ticket.id] = Spot(ticket, max(ticket.at, last))
        elif not spot.rests:
            return
        spot.rests = False
        self._ring(spot)

    def _remove(self, ticket: str) -> None:
        if spot := self._spots.pop(ticket, None):
            spot.over = True
            self._tried.pop(ticket, None)
            self._leave(spot)
            tree = self._trees[spot.ticket.root]
            del tree[ticket]
            if not tree:
                del self._trees[spot.ticket.root]

    def _claim(self, spot: Spot, token: str, lease: float) -> Taken:
        spot.owner = token
        self._hold(spot, lease)
        self._count(spot, spot.attempts + 1)
        return Taken(spot.ticket, token, spot.attempts)

    def _hold(self, spot: Spot, lease: float) -> None:
        spot.until = self._now() + lease
        heappush(self._leases, (spot.until, next(self._numbers), spot))
        while not _counts(self._leases[0]):
            heappop(self._leases)

    def _held(self, claim: Claim) -> Spot | None:
        spot = self._spots.get(claim.ticket)
        return spot if spot and spot.owner == claim.token else None

    def _count(self, spot: Spot, attempts: int) -> None:
        spot.attempts = attempts
        if attempts:
            self._tried[spot.ticket.id] = spot
        else:
            self._tried.pop(spot.ticket.id, None)

    def _free(self, spot: Spot) -> None:
        spot.be_nobodys()
        self._ring(spot)

    def _ring(self, spot: Spot) -> None:
        if spot.free:
            self._line_up(spot)
            self._listeners.tell((spot.ticket.agent,))

    def _line_up(self, spot: Spot) -> None:
        self._lines.setdefault(spot.ticket.agent, Line()).join(spot)

    def _leave(self, spot: Spot) -> None:
        if spot.lined_up:
            self._lines[spot.ticket.agent].note_left()

    def _free_what_lapsed(self) -> None:
        now = self._now()
        while self._leases and self._leases[0][0] <= now:
            lease = heappop(self._leases)
            if _counts(lease):
                lease[2].be_nobodys()
                self._line_up(lease[2])


def _most_urgent(lines: Iterable[Line]) -> Spot | None:
    """Whoever comes first of those who are first in these lines."""
    firsts = [(first, line) for line in lines if (first := line.first())]
    return min(firsts, key=lambda each: each[0])[1].next() if firsts else None


def _counts(lease: Lease) -> bool:
    """Whether this is the last that was said of it: else it was renewed, given back, or is over."""
    until, _, spot = lease
    return spot.until == until and not spot.over


def _idle(spot: Spot, now: float) -> bool:
    """Whether nobody holds it, or not in time."""
    return spot.until is None or spot.until <= now


def _listed(spots: Iterable[Spot], now: float) -> list[Queued]:
    listed = []
    for spot in sorted(spots, key=lambda each: each.order):
        owner, until = ("", None) if _idle(spot, now) else (spot.owner or "", spot.until)
        listed.append(Queued(spot.ticket, spot.attempts, owner, until, spot.rests))
    return listed

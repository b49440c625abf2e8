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
from changeover.relay.ports.health import Traffic
from changeover.relay.ports.log import Head
from changeover.relay.ports.queue import SPACING, Bell, Claim, Queued, Take, Taken
from changeover.relay.projection.admission import lost
from changeover.stores.feed import Listeners

Order = tuple[int, float, float, str]
"""The sort key of tickets: the most urgent comes first."""
Lease = tuple[float, int, "Slot"]
"""The end of a lease, a number that breaks ties, and the ticket."""


class Slot:
    """A ticket, its claim and its place in the line of its agent."""

    __slots__ = ("attempts", "in_line", "order", "over", "owner", "rests", "ticket", "until")

    def __init__(self, ticket: Ticket, turn: float) -> None:
        self.ticket = ticket
        deadline = inf if ticket.deadline is None else ticket.deadline
        self.order: Order = (-ticket.priority, deadline, turn, ticket.id)
        self.attempts = 0
        self.owner: str | None = None
        self.until: float | None = None
        self.rests = self.over = False
        self.in_line = False
        """True while its line holds it, even if it cannot be claimed any more."""

    @property
    def line(self) -> tuple[str, str]:
        """The team and the agent for whom it waits."""
        return self.ticket.team, self.ticket.agent

    @property
    def turn(self) -> float:
        return self.order[2]

    @property
    def free(self) -> bool:
        return self.owner is None and not self.rests and not self.over

    def clear_owner(self) -> None:
        self.owner = self.until = None

    def reopen(self) -> None:
        """Clear the owner and the claim deadline."""
        self.clear_owner()
        if self.ticket.deadline is not None:
            priority, _, turn, id = self.order
            self.order, self.ticket = (priority, inf, turn, id), replace(self.ticket, deadline=None)
            self.in_line = False  # the line holds it in its former order, which no longer counts

    def idle(self, now: float) -> bool:
        """True if it has no owner, or the owner's lease has run out."""
        return self.until is None or self.until <= now

    def queued(self, now: float) -> Queued:
        owner, until = ("", None) if self.idle(now) else (self.owner or "", self.until)
        return Queued(self.ticket, self.attempts, owner, until, self.rests)


class Line:
    """The tickets that wait for one agent. A ticket that leaves from the middle is skipped when it becomes first."""

    def __init__(self) -> None:
        self._heap: list[tuple[Order, int, Slot]] = []
        self._numbers = count()
        self._left = 0

    def join(self, slot: Slot) -> None:
        if not slot.in_line:
            slot.in_line = True
            heappush(self._heap, (slot.order, next(self._numbers), slot))

    def note_left(self) -> None:
        """Count a ticket that left from the middle; when most have left, build the heap again."""
        self._left += 1
        if self._left > len(self._heap) // 2:
            current = [each for each in self._heap if each[0] is each[2].order]
            for _, _, slot in current:
                slot.in_line = slot.free
            self._heap = [each for each in current if each[2].free]
            heapify(self._heap)
            self._left = 0

    def first(self) -> Order | None:
        """The order of the first ticket; None if the line is empty."""
        while self._heap and not (self._heap[0][2].free and self._heap[0][0] is self._heap[0][2].order):
            self._pop()
            self._left = max(0, self._left - 1)
        return self._heap[0][0] if self._heap else None

    def next(self) -> Slot:
        """Remove the first ticket."""
        self.first()
        return self._pop()

    def _pop(self) -> Slot:
        order, _, slot = heappop(self._heap)
        if order is slot.order:
            slot.in_line = False
        return slot


class MemoryQueue:
    """Tickets in memory. The lock is the log's: an entry and its changes of tickets are recorded together."""

    def __init__(self, lock: threading.Lock, now: Callable[[], float], traffic: Traffic) -> None:
        self._lock, self._now, self._traffic = lock, now, traffic
        self._slots: dict[str, Slot] = {}
        self._lines: dict[tuple[str, str], Line] = {}
        """The waiting tickets of each agent, by team and agent."""
        self._trees: dict[str, dict[str, Slot]] = {}
        """The tickets of each root, in the order of their turns."""
        self._tried: dict[str, Slot] = {}
        """The tickets that were claimed at least once."""
        self._leases: list[Lease] = []
        self._numbers = count()
        self._listeners = Listeners()

    async def take(self, take: Take) -> list[Taken]:
        with self._lock:
            self._free_lapsed()
            wanted = [(take.team, agent) for agent in dict.fromkeys(take.agents)]
            lines = [line for key in wanted if (line := self._lines.get(key))]
            taken: list[Slot] = []
            skipped: list[Slot] = []
            while len(taken) < take.limit and (slot := _most_urgent(lines)):
                fit = slot.attempts < take.most and (slot.attempts > 0 or slot.order[1] > take.now)
                (taken if fit else skipped).append(slot)
            for slot in skipped:
                self._line_up(slot)
            return [self._claim(slot, take.token, take.lease) for slot in taken]

    async def renew(self, claims: Sequence[Claim], lease: float) -> list[str]:
        with self._lock:
            held = [slot for claim in claims if (slot := self._held(claim))]
            for slot in held:
                self._hold(slot, lease)
            return [slot.ticket.id for slot in held]

    async def give_back(self, claim: Claim, counted: bool) -> bool:
        with self._lock:
            if (slot := self._held(claim)) is None:
                return False
            self._count(slot, slot.attempts if counted else max(0, slot.attempts - 1))
            slot.clear_owner()
            self._announce(slot)
            return True

    async def lapsed(self, least: int, team: str | None = None) -> list[Queued]:
        with self._lock:
            now = self._now()
            free = [each for each in self._tried.values() if each.attempts >= least and each.idle(now)]
            return _listed((each for each in free if team in (None, each.ticket.team)), now)

    async def lease_left(self) -> float | None:
        with self._lock:
            now = self._now()
            ends = (lease[0] - now for lease in self._leases if lease[0] > now and _is_current(lease))
            return min(ends, default=None)

    async def retry(self, ticket: str, offered: bool = False) -> bool:
        with self._lock:
            if (slot := self._slots.get(ticket)) is None:
                return False
            slot.rests = False
            self._count(slot, 0)
            if offered:
                slot.clear_owner()
            else:
                slot.reopen()
            self._announce(slot)
            return True

    async def tickets(self, ticket: str | None = None) -> list[Queued]:
        with self._lock:
            wanted = self._slots.values() if ticket is None else [self._slots.get(ticket)]
            return _listed((each for each in wanted if each), self._now())

    def listening(self, agents: Sequence[str]) -> AbstractContextManager[Bell]:
        return self._listeners.listening(agents)

    # The log calls the following methods while it holds the lock.

    def check(self, claim: Claim) -> None:
        """Raise ClaimLost if the claim does not hold any more."""
        if self._held(claim) is None:
            slot = self._slots.get(claim.ticket)
            raise lost(claim, slot is not None, slot.owner if slot else None)

    def note(self, head: Head | None, claim: Claim | None) -> None:
        """Apply what an entry, which is recorded, does to tickets."""
        if head is not None:
            for id in head.gone:
                self._remove(id)
            for ticket in head.tickets:
                self._open(ticket)
            for id in head.rests:
                self.rest(id)
        if claim is not None and claim.ends and (slot := self._held(claim)):
            self._count(slot, 0)
            slot.reopen()
            self._announce(slot)

    def rest(self, ticket: str) -> None:
        """Clear the owner; the ticket cannot be claimed until its rest ends."""
        if slot := self._slots.get(ticket):
            slot.reopen()
            slot.rests = True
            self._count(slot, 0)
            self._leave(slot)

    def first_of(self, root: str) -> Ticket | None:
        """The first open ticket of a tree."""
        return next((slot.ticket for slot in self._trees.get(root, {}).values()), None)

    def _open(self, ticket: Ticket) -> None:
        slot = self._slots.get(ticket.id)
        if slot is None:
            tree = self._trees.setdefault(ticket.root, {})
            last = next(reversed(tree.values())).turn + SPACING if tree else -inf
            slot = self._slots[ticket.id] = tree[ticket.id] = Slot(ticket, max(ticket.at, last))
        elif not slot.rests:
            return
        slot.rests = False
        self._announce(slot)

    def _remove(self, ticket: str) -> None:
        if slot := self._slots.pop(ticket, None):
            slot.over = True
            self._tried.pop(ticket, None)
            self._leave(slot)
            tree = self._trees[slot.ticket.root]
            del tree[ticket]
            if not tree:
                del self._trees[slot.ticket.root]

    def _claim(self, slot: Slot, token: str, lease: float) -> Taken:
        slot.owner = token
        self._hold(slot, lease)
        self._count(slot, slot.attempts + 1)
        self._traffic.claims[slot.ticket.agent] += 1
        return Taken(slot.ticket, token, slot.attempts)

    def _hold(self, slot: Slot, lease: float) -> None:
        slot.until = self._now() + lease
        heappush(self._leases, (slot.until, next(self._numbers), slot))
        while not _is_current(self._leases[0]):
            heappop(self._leases)

    def _held(self, claim: Claim) -> Slot | None:
        slot = self._slots.get(claim.ticket)
        return slot if slot and slot.owner == claim.token else None

    def _count(self, slot: Slot, attempts: int) -> None:
        slot.attempts = attempts
        if attempts:
            self._tried[slot.ticket.id] = slot
        else:
            self._tried.pop(slot.ticket.id, None)

    def _announce(self, slot: Slot) -> None:
        if slot.free:
            self._line_up(slot)
            self._listeners.tell((slot.ticket.agent,))

    def _line_up(self, slot: Slot) -> None:
        self._lines.setdefault(slot.line, Line()).join(slot)

    def _leave(self, slot: Slot) -> None:
        if slot.in_line:
            self._lines[slot.line].note_left()

    def _free_lapsed(self) -> None:
        now = self._now()
        while self._leases and self._leases[0][0] <= now:
            lease = heappop(self._leases)
            if _is_current(lease):
                lease[2].clear_owner()
                self._traffic.leases_lost[lease[2].ticket.agent] += 1
                self._line_up(lease[2])


def _most_urgent(lines: Iterable[Line]) -> Slot | None:
    """Remove the most urgent ticket from these lines."""
    firsts = [(first, line) for line in lines if (first := line.first())]
    return min(firsts, key=lambda each: each[0])[1].next() if firsts else None


def _is_current(lease: Lease) -> bool:
    """False if the lease was renewed or given back since, or its ticket is over."""
    until, _, slot = lease
    return slot.until == until and not slot.over


def _listed(slots: Iterable[Slot], now: float) -> list[Queued]:
    return [slot.queued(now) for slot in sorted(slots, key=lambda each: each.order)]

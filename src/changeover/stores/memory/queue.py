"""MemoryQueue: tickets in memory, ordered by urgency for each agent."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from heapq import heappop, heappush, merge
from itertools import count, islice
from math import inf

from msgspec.structs import replace

from changeover.facts import Ticket
from changeover.relay.ports import Head
from changeover.relay.projection.admission import lost
from changeover.relay.queue import SPACING, Bell, Claim, Queued, Taken
from changeover.stores.feed import Listeners

Order = tuple[int, float, float, str]
"""The sort key of tickets: the most urgent comes first."""
Lease = tuple[float, int, "Slot"]
"""The end of a lease, a number that breaks ties, and the ticket."""


class Slot:
    """A ticket and its claim."""

    __slots__ = ("attempts", "order", "owner", "rests", "ticket", "until")

    def __init__(self, ticket: Ticket, turn: float) -> None:
        self.ticket = ticket
        deadline = inf if ticket.deadline is None else ticket.deadline
        self.order: Order = (-ticket.priority, deadline, turn, ticket.id)
        self.attempts = 0
        self.owner: str | None = None
        self.until: float | None = None
        self.rests = False

    @property
    def turn(self) -> float:
        return self.order[2]

    @property
    def free(self) -> bool:
        return self.owner is None and not self.rests

    def clear_owner(self) -> None:
        self.owner = self.until = None

    def reopen(self) -> None:
        """Clear the owner and the claim deadline."""
        self.clear_owner()
        if self.ticket.deadline is not None:
            priority, _, turn, id = self.order
            self.order, self.ticket = (priority, inf, turn, id), replace(self.ticket, deadline=None)

    def idle(self, now: float) -> bool:
        """True if it has no owner, or the owner's lease has run out."""
        return self.until is None or self.until <= now

    def queued(self, now: float) -> Queued:
        owner, until = ("", None) if self.idle(now) else (self.owner or "", self.until)
        return Queued(self.ticket, self.attempts, owner, until, self.rests)


class MemoryQueue:
    """Tickets in memory. The lock is the log's: an entry and its changes of tickets are recorded together."""

    def __init__(self, lock: threading.Lock, now: Callable[[], float]) -> None:
        self._lock, self._now = lock, now
        self._slots: dict[str, Slot] = {}
        self._lines: dict[str, list[Order]] = {}
        """The free tickets of each agent, sorted."""
        self._trees: dict[str, dict[str, Slot]] = {}
        """The tickets of each root, in the order of their turns."""
        self._tried: dict[str, Slot] = {}
        """The tickets that were claimed at least once."""
        self._leases: list[Lease] = []
        self._numbers = count()
        self._listeners = Listeners()

    async def take(
        self, agents: Sequence[str], token: str, lease: float, limit: int, most: int, now: float
    ) -> list[Taken]:
        with self._lock:
            self._free_lapsed()
            waiting = merge(*(self._lines.get(agent, ()) for agent in dict.fromkeys(agents)))
            slots = (self._slots[id] for *_, id in waiting)
            fitting = (each for each in slots if each.attempts < most and (each.attempts or each.order[1] > now))
            taken = list(islice(fitting, limit))
            return [self._claim(slot, token, lease) for slot in taken]

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

    async def worn_out(self, most: int) -> list[Queued]:
        with self._lock:
            now = self._now()
            return _listed((each for each in self._tried.values() if each.attempts >= most and each.idle(now)), now)

    async def retry(self, ticket: str, offered: bool = False) -> bool:
        with self._lock:
            if (slot := self._slots.get(ticket)) is None:
                return False
            self._leave(slot)
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
            self._leave(slot)
            slot.reopen()
            slot.rests = True
            self._count(slot, 0)

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
            self._leave(slot)
            slot.clear_owner()
            self._tried.pop(ticket, None)
            tree = self._trees[slot.ticket.root]
            del tree[ticket]
            if not tree:
                del self._trees[slot.ticket.root]

    def _claim(self, slot: Slot, token: str, lease: float) -> Taken:
        self._leave(slot)
        slot.owner = token
        self._hold(slot, lease)
        self._count(slot, slot.attempts + 1)
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
        self._line_up(slot)
        self._listeners.tell((slot.ticket.agent,))

    def _line_up(self, slot: Slot) -> None:
        """Add a ticket that has become free to the line of its agent."""
        insort(self._lines.setdefault(slot.ticket.agent, []), slot.order)

    def _leave(self, slot: Slot) -> None:
        """Remove a ticket that will not be free, or changes its order, from its line."""
        if slot.free:
            line = self._lines[slot.ticket.agent]
            del line[bisect_left(line, slot.order)]

    def _free_lapsed(self) -> None:
        now = self._now()
        while self._leases and self._leases[0][0] <= now:
            lease = heappop(self._leases)
            if _is_current(lease):
                lease[2].clear_owner()
                self._line_up(lease[2])


def _is_current(lease: Lease) -> bool:
    """False if the lease was renewed or ended since."""
    until, _, slot = lease
    return slot.until == until


def _listed(slots: Iterable[Slot], now: float) -> list[Queued]:
    return [slot.queued(now) for slot in sorted(slots, key=lambda each: each.order)]

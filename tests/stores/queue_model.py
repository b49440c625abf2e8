"""The simplest queue: lists, searched whole at every step."""

from dataclasses import dataclass, field
from math import inf

from msgspec.structs import replace

from changeover.facts import Ticket
from changeover.relay.ports.queue import SPACING, Claim, Queued, Taken


@dataclass
class Row:
    ticket: Ticket
    turn: float
    attempts: int = 0
    owner: str | None = None
    until: float = inf
    rests: bool = False

    @property
    def order(self) -> tuple[int, float, float, str]:
        deadline = inf if self.ticket.deadline is None else self.ticket.deadline
        return -self.ticket.priority, deadline, self.turn, self.ticket.id

    def let_go(self) -> None:
        self.owner, self.until = None, inf


@dataclass
class QueueModel:
    """All tickets, and the time by which leases run."""

    now: float = 0.0
    rows: dict[str, Row] = field(default_factory=dict)

    def take(self, agents: list[str], token: str, lease: float, limit: int, most: int, now: float) -> list[Taken]:
        for row in self.rows.values():
            if row.owner is not None and row.until <= self.now:
                row.let_go()
        fit = [
            row
            for row in sorted(self.rows.values(), key=lambda row: row.order)
            if row.ticket.agent in agents and row.owner is None and not row.rests
            if row.attempts < most and (row.attempts or row.ticket.deadline is None or row.ticket.deadline > now)
        ]
        for row in fit[:limit]:
            row.owner, row.until, row.attempts = token, self.now + lease, row.attempts + 1
        return [Taken(row.ticket, token, row.attempts) for row in fit[:limit]]

    def renew(self, claims: list[Claim], lease: float) -> list[str]:
        held = [claim.ticket for claim in claims if self.holds(claim)]
        for id in held:
            self.rows[id].until = self.now + lease
        return held

    def give_back(self, claim: Claim, counted: bool) -> bool:
        if not self.holds(claim):
            return False
        row = self.rows[claim.ticket]
        row.attempts -= 0 if counted else 1
        row.let_go()
        return True

    def retry(self, id: str, offered: bool) -> bool:
        if id in self.rows:
            ticket = self.rows[id].ticket
            self.rows[id] = Row(ticket if offered else replace(ticket, deadline=None), self.rows[id].turn)
        return id in self.rows

    def holds(self, claim: Claim) -> bool:
        return claim.ticket in self.rows and self.rows[claim.ticket].owner == claim.token

    def record(self, tickets: list[Ticket], rests: list[str], gone: list[str], claim: Claim | None) -> bool:
        """An entry; False if its claim does not hold."""
        if claim and not self.holds(claim):
            return False
        for id in gone:
            self.rows.pop(id, None)
        for ticket in tickets:
            if ticket.id not in self.rows:
                turns = [row.turn + SPACING for row in self.rows.values() if row.ticket.root == ticket.root]
                self.rows[ticket.id] = Row(ticket, max([ticket.at, *turns]))
            self.rows[ticket.id].rests = False
        for id in rests:
            if id in self.rows:
                self.rows[id] = Row(replace(self.rows[id].ticket, deadline=None), self.rows[id].turn, rests=True)
        if claim and claim.ends and self.holds(claim):
            self.retry(claim.ticket, offered=False)
        return True

    def tickets(self) -> list[Queued]:
        return [self._seen(row) for row in sorted(self.rows.values(), key=lambda row: row.order)]

    def lapsed(self, least: int) -> list[Queued]:
        return [each for each in self.tickets() if each.attempts >= least and not each.owner]

    def _seen(self, row: Row) -> Queued:
        held = row.owner is not None and row.until > self.now
        return Queued(row.ticket, row.attempts, (row.owner or "") if held else "", None, row.rests)

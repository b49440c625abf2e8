"""Admission: the checks of an entry against budget and claims, and the counters after it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from changeover.errors import ClaimLost, EngineError, Exhausted
from changeover.faults import LimitName
from changeover.relay.ports.log import Head, Reserve
from changeover.relay.ports.queue import Claim


class Tally(NamedTuple):
    """The counters of a root's tree; they restart with each run of the root."""

    turns: int = 0
    handoffs: int = 0
    tokens: int = 0
    cost: float | None = 0.0
    agents: str = ""
    """The agents of the tree as JSON; "" if there are none."""

    @property
    def crowd(self) -> frozenset[str]:
        """The agents of the tree."""
        return frozenset(msgspec.json.decode(self.agents, type=list[str]) if self.agents else ())

    def refusal(self, reserve: Reserve) -> Exhausted | None:
        """The refusal of a reserve; None if the budget allows it."""
        spent = UNSPENT if reserve.anew else self
        if 0 < reserve.handoffs > reserve.max_handoffs - spent.handoffs:
            return _lack("max_handoffs", reserve.max_handoffs, spent.handoffs)
        if reserve.max_agents is not None and reserve.agents and (refusal := spent.crowding(reserve)):
            return refusal
        if 0 < reserve.turns > reserve.max_turns - spent.turns:
            return _lack("max_turns", reserve.max_turns, spent.turns)
        return spent.shortage(reserve) if reserve.turns > 0 else None

    def crowding(self, reserve: Reserve) -> Exhausted | None:
        """The refusal of further agents; agents that already work in the tree are free."""
        most, crowd = reserve.max_agents, self.crowd
        if most is None or len(crowd) == (together := len(crowd.union(reserve.agents))) or together <= most:
            return None
        return Exhausted("max_agents", most, max(0, most - len(crowd)), agents=sorted(crowd))

    def shortage(self, reserve: Reserve) -> Exhausted | None:
        """The refusal of a further model call because tokens or cost are used up."""
        tokens = self.tokens + reserve.tokens
        if reserve.max_tokens is not None and tokens >= reserve.max_tokens:
            return Exhausted("max_tokens", reserve.max_tokens, spent=tokens)
        cost = None if self.cost is None or reserve.cost is None else self.cost + reserve.cost
        if reserve.max_cost is not None and (cost is None or cost >= reserve.max_cost):
            return Exhausted("max_cost", reserve.max_cost, spent=cost)
        return None

    def after(self, reserve: Reserve) -> Tally:
        """The counters after this reserve."""
        spent = UNSPENT if reserve.anew else self
        together = spent.crowd.union(reserve.agents) if reserve.agents else ()
        return Tally(
            spent.turns + reserve.turns,
            spent.handoffs + reserve.handoffs,
            spent.tokens + reserve.tokens,
            None if spent.cost is None or reserve.cost is None else spent.cost + reserve.cost,
            msgspec.json.encode(sorted(together)).decode() if together else spent.agents,
        )


UNSPENT = Tally()


def _lack(limit: LimitName, most: int, spent: int) -> Exhausted:
    return Exhausted(limit, most, max(0, most - spent))


def about_tickets(head: Head | None, claim: Claim | None) -> bool:
    """True if an entry touches tickets; most do not, and skip the queries for them."""
    return claim is not None or (head is not None and bool(head.tickets or head.rests or head.gone))


def lost(claim: Claim, open_: bool, owner: str | None) -> ClaimLost:
    """The error of a claim that does not hold; `owner` is the current holder of the ticket, if any."""
    if not open_:
        return ClaimLost(claim.ticket, "there is nothing left to do")
    return ClaimLost(
        claim.ticket, "another worker holds it" if owner else "it was released and waits to be claimed again"
    )


ENDED = ("completed", "failed", "cancelled")
"""Statuses of a conversation without work under way."""
UNFINISHED = "a run has not ended"
CLAIMABLE = "something waits to be claimed"


def forgotten(root: str) -> EngineError:
    """The error of a stream whose conversation was removed; a new one may begin under its id."""
    return EngineError(f"the conversation {root!r} was forgotten")

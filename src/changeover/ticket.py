"""TicketClaim: a claimed ticket, through which a worker answers, reports progress and concludes."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial
from math import inf
from typing import Protocol, TypeVar

from msgspec.structs import replace

from changeover.engines.local import claims
from changeover.engines.local.claims import kept, take
from changeover.engines.local.engine import LocalEngine
from changeover.errors import UNREADABLE, ClaimLost, MisconfiguredError
from changeover.facts import Ticket
from changeover.handoffs.answers import Accepted, Answer, Conditional, Rejected, checked
from changeover.handoffs.package import HandoffPackage
from changeover.inputs import check_texts
from changeover.relay.commands import AskReceiver
from changeover.relay.events import Event, HandoffAccepted
from changeover.relay.perform.handoffs import Answered, answered
from changeover.relay.queue import Claim, Taken

T = TypeVar("T")
LEASE = 60.0
"""For how many seconds a claim holds unless it is renewed."""


class OnEngine(Protocol):
    """Does something with a team's engine, on the loop on which that lives."""

    def __call__(self, work: Callable[[LocalEngine], Awaitable[T]], /) -> Awaitable[T]: ...


class TicketClaim:
    """The right to work on a ticket, for as long as it is renewed. What another has by now raises ClaimLost."""

    def __init__(
        self, on: OnEngine, taken: Taken, package: Callable[[], HandoffPackage], by: str, lease: float
    ) -> None:
        self._on, self._taken, self._package, self._by, self._lease = on, taken, package, by, lease
        self.ticket: Ticket = taken.ticket
        self.attempt = taken.attempt
        """The how-manieth claim of this ticket this is."""

    @cached_property
    def package(self) -> HandoffPackage:
        """What is to be done, and all that comes with it."""
        return self._package()

    def __repr__(self) -> str:
        return f"TicketClaim({self.ticket.id!r}, attempt={self.attempt})"

    async def accept(self, *, estimated_completion: float | None = None) -> None:
        """Take the task: from now on it is the receiver's. What was accepted before is simply taken up."""
        if await self._is_offered():
            await self._answer(Accepted(estimated_completion=estimated_completion))
        else:
            await self._on(lambda engine: claims.take_up(engine, self._taken, self._by))

    async def reject(self, reason: str, *, suggested_alternative: str | None = None) -> None:
        """Say that the receiver does not take the task; the next candidate is asked, then a person."""
        await self._answer(Rejected(reason, suggested_alternative=suggested_alternative))

    async def conditional(
        self, *, needs_more_context: Sequence[str] = (), needs_permission: Sequence[str] = ()
    ) -> None:
        """Say what the receiver would need before it takes the task."""
        await self._answer(Conditional(tuple(needs_more_context), tuple(needs_permission)))

    async def heartbeat(self) -> None:
        """Hold the claim for another lease."""
        claim = Claim(self.ticket.id, self._taken.token)
        held: list[str] = await self._on(lambda engine: engine.log.queue.renew([claim], self._lease))
        if self.ticket.id not in held:
            raise ClaimLost(self.ticket.id, "the lease ran out, or there is nothing left to do")

    async def complete(self, result: str) -> None:
        """Bring the result: the conversation goes on with it."""
        check_texts(result=result)
        await self._conclude(claims.returned(result, self._by))

    async def fail(self, reason: str) -> None:
        """Say that the task cannot be done; whoever waits for it is told."""
        check_texts(reason=reason)
        await self._conclude(claims.failed(reason, self._by))

    async def give_back(self, reason: str = "") -> None:
        """Let somebody else take it."""
        check_texts(reason=reason)
        await self._on(lambda engine: claims.give_back(engine, self._taken, self._by, reason))

    async def _conclude(self, give: Callable[[str, int], Event]) -> None:
        await self._on(lambda engine: claims.conclude(engine, self._taken, self._by, give))

    async def _is_offered(self) -> bool:
        return await self._on(lambda engine: claims.offered(engine, self.ticket)) is not None

    async def _answer(self, answer: Answer) -> None:
        try:
            checked(answer, "the offer was answered by")
        except TypeError as error:
            raise MisconfiguredError(str(error)) from None
        await self._on(lambda engine: claims.answer(engine, self._taken, lambda asked: self._said(asked, answer)))

    def _said(self, asked: AskReceiver, answer: Answer) -> Answered:
        said = answered(asked, answer)
        return replace(said, by=self._by) if isinstance(said, HandoffAccepted) else said


async def claimed(on: OnEngine, agent: str, by: str, lease: float, limit: int) -> list[TicketClaim]:
    """Claim what waits for an agent; what was over before anybody could look at it is left out, and let go,
    and what cannot be read here is left out until its lease runs out."""
    found = await on(partial(_claimed, agent=agent, by=by, lease=lease, limit=limit))
    return [TicketClaim(on, taken, package, by, lease) for taken, package in found]


async def _claimed(
    engine: LocalEngine, agent: str, by: str, lease: float, limit: int
) -> list[tuple[Taken, Callable[[], HandoffPackage]]]:
    all_taken = await take(engine, [agent], by, lease, limit)
    async with kept(engine, all_taken):
        packages = await asyncio.gather(*(_package(engine, taken) for taken in all_taken))
    return [(taken, package) for taken, package in zip(all_taken, packages, strict=True) if package]


async def _package(engine: LocalEngine, taken: Taken) -> Callable[[], HandoffPackage] | None:
    try:
        return await claims.package(engine, taken)
    except ClaimLost:
        await engine.log.queue.give_back(Claim(taken.ticket.id, taken.token), counted=True)
        return None
    except UNREADABLE:
        return None  # not given back: it would be the first to be taken again, before all that can be done here


def lease_faults(lease: float) -> list[str]:
    """What is wrong with the length of a lease."""
    return [] if 0 < lease < inf else [f"lease={lease!r} must be a number of seconds, more than 0"]


def worker_name() -> str:
    """This process, as it is named where it holds a claim."""
    return f"{socket.gethostname()}-{os.getpid()}"

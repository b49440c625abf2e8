"""The protocol as a table: every verb on every state of a handoff, in both modes, for claims and for offers.

What is allowed is derived from the transition table; everything else raises and records nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import pytest

from changeover import Agent, Team
from changeover.errors import ChangeoverError, ClaimLost, HandoffTimeoutError, IllegalTransition
from changeover.handoffs.protocol import TRANSITIONS, Signal
from changeover.protocol import Expectations, HandoffPackage, Metadata, Rejected, State, Task, TicketClaim
from changeover.testing import ManualClock, ScriptedModel, fails, says

MODES = ("delegate", "transfer")
CONVERSATION = "story"

VERBS: dict[str, tuple[Callable[[TicketClaim], Awaitable[None]], Signal | None]] = {
    "accept": (lambda claim: claim.accept(), Signal.ACCEPT),
    "reject": (lambda claim: claim.reject("no"), Signal.REJECT),
    "conditional": (lambda claim: claim.conditional(needs_permission=["it"]), Signal.ACCEPT),
    "complete": (lambda claim: claim.complete("Nine."), Signal.COMPLETE),
    "fail": (lambda claim: claim.fail("no"), Signal.FAIL),
    "give_back": (lambda claim: claim.give_back("no"), Signal.LAPSE),
    "heartbeat": (lambda claim: claim.heartbeat(), None),
}
"""What a worker can do with a claim, and what that does to the handoff. A heartbeat does nothing to it."""

IMPLIED = {"complete", "fail"}
"""Whoever brings a result, or gives up, has accepted."""
OVER = {State.COMPLETE, State.FAILED, State.TIMEOUT, State.RETURNED, State.REJECTED}
"""A claim does not outlive these."""


def is_legal(verb: str, state: State) -> bool:
    """Whether the transition table lets a worker who holds a claim do this."""
    signal = VERBS[verb][1]
    if state in OVER:
        return False
    if signal is None or signal in TRANSITIONS[state]:
        return True
    if state is State.PENDING and verb in IMPLIED:
        return signal in TRANSITIONS[State.WORKING]
    # What was never accepted has nowhere to lapse to: it stays as it is. Accepting twice is accepting once.
    return (verb, state) in {("give_back", State.PENDING), ("accept", State.WORKING)}


def expected_error(verb: str, state: State) -> type[ChangeoverError]:
    return ClaimLost if state in OVER else IllegalTransition


def package(mode: str, **expectations: Any) -> HandoffPackage:
    about = Metadata(receiver="clerk", mode=mode, conversation=CONVERSATION)  # type: ignore[arg-type]
    return HandoffPackage(Task("count"), metadata=about, expectations=Expectations(**expectations))


class Claimed:
    """A ticket that a worker holds, brought into a state."""

    def __init__(self, store: str | None = None) -> None:
        self.clock = ManualClock()
        self.team = Team([Agent("clerk", pull=True)], store=store, clock=self.clock)

    async def brought(self, mode: str, state: State) -> TicketClaim:
        ticket = await self.team.submit(package(mode, timeout=60.0))
        [claim] = await self.team.claim("clerk", by="worker")
        for step in STEPS[state]:
            await step(self, claim)
        found = (await self.team.status(ticket)).state
        assert found == (State.RETURNED if (mode, state) == ("delegate", State.COMPLETE) else state)
        return claim

    async def recorded(self) -> int:
        return len(await self.team.history(CONVERSATION))


async def accept(own: Claimed, claim: TicketClaim) -> None:
    await claim.accept()


async def time_out(own: Claimed, claim: TicketClaim) -> None:
    await own.clock.advance(61)
    with pytest.raises(HandoffTimeoutError):
        await own.team.result(claim.ticket, timeout=0.5)


async def roll_back(own: Claimed, claim: TicketClaim) -> None:
    await own.team.rollback(claim.ticket.id)
    await own.team.result(claim.ticket, timeout=0.5)


async def complete(own: Claimed, claim: TicketClaim) -> None:
    await claim.complete("Three.")
    await own.team.result(claim.ticket, timeout=2)


async def fail(own: Claimed, claim: TicketClaim) -> None:
    await claim.fail("broken")
    await own.team.result(claim.ticket, timeout=2)


Step = Callable[[Claimed, TicketClaim], Awaitable[None]]
STEPS: dict[State, list[Step]] = {
    State.PENDING: [],
    State.WORKING: [accept],
    State.COMPLETE: [accept, complete],
    State.FAILED: [accept, fail],
    State.REJECTED: [lambda own, claim: claim.reject("closed")],
    State.RETURNED: [accept, roll_back],
    State.TIMEOUT: [time_out],
}
"""How a claimed handoff comes into each state. ACCEPTED is never seen: whoever accepts begins in the same append."""

TABLE = [pytest.param(*each, id="-".join(each)) for each in product(MODES, STEPS, VERBS)]
TICKETS = [pytest.param(*each, id="-".join(each)) for each in product(MODES, STEPS)]


@pytest.mark.parametrize(("mode", "state", "verb"), TABLE)
async def test_a_claim_allows_in_each_state_what_the_table_allows_and_nothing_else(mode: str, state: State, verb: str):
    own = Claimed()
    claim = await own.brought(mode, state)
    do = VERBS[verb][0]
    if is_legal(verb, state):
        await do(claim)
        return
    before = await own.recorded()
    with pytest.raises(expected_error(verb, state)):
        await do(claim)
    assert await own.recorded() == before


@pytest.mark.parametrize("verb", ["reject", "conditional"])
async def test_the_table_holds_on_databases_too(verb: str, shared_store: str):
    own = Claimed(shared_store)
    try:
        claim = await own.brought("delegate", State.WORKING)
        with pytest.raises(IllegalTransition):
            await VERBS[verb][0](claim)
        await claim.complete("Three.")
    finally:
        await own.team.close()


async def test_accepting_twice_is_accepting_once():
    own = Claimed()
    claim = await own.brought("delegate", State.WORKING)
    before = await own.recorded()
    await claim.accept()
    assert await own.recorded() == before


class Offered:
    """A package that code offered, brought into a state by an agent that works in this process."""

    def __init__(self, state: State) -> None:
        self.held, self.clock = asyncio.Event(), ManualClock()
        self._state = state
        clerk = Agent("clerk", accepts=self._accepts)
        self.team = Team([clerk], model=ScriptedModel(self._reply), clock=self.clock, guards=())
        self.offering: asyncio.Future[Any] | None = None

    async def _accepts(self, package: HandoffPackage) -> Any:
        if self._state in (State.PENDING, State.TIMEOUT):
            await self._hold()
        return Rejected("closed") if self._state is State.REJECTED else True

    async def _reply(self, *_: Any) -> Any:
        if self._state is State.WORKING:
            await self._hold()
        return fails("broken", retryable=False) if self._state is State.FAILED else says("Three.")

    async def _hold(self) -> None:
        self.held.set()
        await asyncio.Event().wait()

    async def brought(self, mode: str) -> str:
        """The id of the handoff, once it is in its state."""
        self.offering = asyncio.ensure_future(self.team.offer(package(mode, timeout=60.0)))
        if self._state in (State.PENDING, State.WORKING, State.TIMEOUT):
            await asyncio.wait_for(self.held.wait(), 10)
        if self._state is State.TIMEOUT:
            await self.clock.advance(61)
        if self._state not in (State.PENDING, State.WORKING):
            await asyncio.gather(self.offering, return_exceptions=True)
        [handoff] = await self.team.handoffs(CONVERSATION)
        if self._state is State.RETURNED and handoff.state is not State.RETURNED:
            await self.team.rollback(handoff.id)
        return handoff.id

    async def recorded(self) -> int:
        return len(await self.team.history(CONVERSATION))

    async def leave(self) -> None:
        assert self.offering is not None
        self.offering.cancel()
        await asyncio.gather(self.offering, return_exceptions=True)
        await self.team.close()


def reached(mode: str, state: State) -> State:
    """A delegate that has completed has come back in the same append."""
    return State.RETURNED if (mode, state) == ("delegate", State.COMPLETE) else state


ENDS = [State.PENDING, State.WORKING, State.COMPLETE, State.FAILED, State.REJECTED, State.RETURNED, State.TIMEOUT]


@pytest.mark.parametrize(("mode", "state"), list(product(MODES, ENDS)))
async def test_a_rollback_is_allowed_where_the_table_lets_a_task_return(mode: str, state: State):
    own = Offered(state)
    id, before = await own.brought(mode), await own.recorded()
    try:
        if Signal.RETURN in TRANSITIONS[reached(mode, state)]:
            await own.team.rollback(id, reason="not now")
        else:
            with pytest.raises(IllegalTransition):
                await own.team.rollback(id, reason="not now")
            assert await own.recorded() == before
    finally:
        await own.leave()


@pytest.mark.parametrize(("mode", "state"), list(product(MODES, ENDS)))
async def test_a_cancellation_ends_what_is_under_way_and_is_nothing_to_what_is_over(mode: str, state: State):
    own = Offered(state)
    id, before = await own.brought(mode), await own.recorded()
    try:
        assert await own.team.cancel(id) == (state not in OVER)
        if state in OVER:
            assert await own.recorded() == before
        else:
            [handoff] = await own.team.handoffs(CONVERSATION)
            assert handoff.state == "RETURNED"
    finally:
        await own.leave()


@pytest.mark.parametrize(("mode", "state"), list(product(MODES, ENDS)))
async def test_an_offer_is_in_the_state_that_its_record_says(mode: str, state: State):
    own = Offered(state)
    id = await own.brought(mode)
    try:
        [handoff] = await own.team.handoffs(CONVERSATION)
        assert (handoff.id, handoff.state) == (id, reached(mode, state))
    finally:
        await own.leave()


@pytest.mark.parametrize(("mode", "state"), TICKETS)
async def test_a_rollback_and_a_cancellation_of_a_ticket_follow_the_table(mode: str, state: State):
    for verb in ("rollback", "cancel"):
        own = Claimed()
        claim = await own.brought(mode, state)
        before = await own.recorded()
        if verb == "cancel":
            assert await own.team.cancel(claim.ticket) == (state not in OVER)
        elif Signal.RETURN in TRANSITIONS[reached(mode, state)]:
            await own.team.rollback(claim.ticket.id)
        else:
            with pytest.raises(IllegalTransition):
                await own.team.rollback(claim.ticket.id)
            assert await own.recorded() == before

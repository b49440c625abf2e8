"""Tickets: TicketClaim, through which a worker answers and concludes, and the status and result of a ticket."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from functools import cached_property
from hmac import compare_digest
from math import inf, isfinite

from msgspec.structs import replace

from changeover.agent.roster import Roster
from changeover.errors import UNREADABLE, ClaimLost, EngineError, HandoffNotFound, MisconfiguredError
from changeover.facts import HandoffRecord, HandoffResult, Mode, Ticket, TicketStatus
from changeover.facts import State as HandoffState
from changeover.handoffs.answers import Accepted, Answer, Conditional, Rejected, checked
from changeover.handoffs.package import HandoffPackage
from changeover.handoffs.protocol import TRANSITIONS, Signal
from changeover.ids import child_id, split_handoff, worker_of
from changeover.inputs import check_texts
from changeover.relay.inputs.claims import Accept, AnswerOffer, Finish, GiveBack
from changeover.relay.package import handoff_of
from changeover.relay.ports.engine import Engine
from changeover.relay.ports.log import Log
from changeover.relay.ports.queue import Taken
from changeover.relay.result import attempts_of, error_of, handoff_in, result_of, typed
from changeover.relay.run import Outcome, Run
from changeover.relay.state import State
from changeover.relay.tickets import is_offered

LEASE = 60.0
"""Seconds for which a claim holds unless it is renewed."""


class HeldTicket:
    """A ticket that a worker holds, by the token of its claim. The methods raise ClaimLost once the claim has run out,
    and IllegalTransition for what the state of the handoff does not allow."""

    def __init__(self, engine: Engine, log: Callable[[], Log], taken: Taken, by: str, lease: float) -> None:
        self._engine, self._log, self._taken = engine, log, taken
        self._by, self._lease = by, lease
        self.ticket: Ticket = taken.ticket
        self.attempt = taken.attempt
        """Claim number of this ticket, from 1."""
        self._accepted = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ticket.id!r}, attempt={self.attempt})"

    @property
    def handle(self) -> str:
        """A text with which a worker in another process shows that it holds the ticket; see `held`."""
        return f"{self._taken.at!r}~{self._taken.token}"

    async def accept(self, *, estimated_completion: float | None = None) -> None:
        """Accept the task. One that was accepted under an earlier claim is continued; a second call records nothing.
        `estimated_completion` is in seconds."""
        accepted = Accepted(estimated_completion=estimated_completion)
        _check(accepted)
        await self._engine.put(Accept(self._taken, self._by, accepted, self._accepted))
        self._accepted = True

    async def reject(self, reason: str, *, suggested_alternative: str | None = None) -> None:
        """Reject the task for a `reason`; the next candidate is asked, `suggested_alternative` first, then a person."""
        await self._answer(Rejected(reason, suggested_alternative=suggested_alternative))

    async def conditional(
        self, *, needs_more_context: Sequence[str] = (), needs_permission: Sequence[str] = ()
    ) -> None:
        """Say what the receiver needs before it accepts the task: `needs_more_context` goes back to the sender, and a
        person is asked for `needs_permission`."""
        await self._answer(Conditional(tuple(needs_more_context), tuple(needs_permission)))

    async def heartbeat(self) -> None:
        """Renew the claim for another lease."""
        if self.ticket.id not in await self._log().queue.renew([self._taken.claim], self._lease):
            raise ClaimLost(self.ticket.id, "the lease ran out, or there is nothing left to do")

    async def complete(self, result: str) -> None:
        """Record the `result`; the conversation goes on with it.

        Raises ExpectationError if the result does not fit what the sender expects. The first time, the claim holds and
        the worker may bring another result; the second time, the task has failed.
        """
        check_texts(result=result)
        await self._engine.put(Finish(self._taken, self._by, result))

    async def fail(self, reason: str) -> None:
        """Record that the task cannot be done; the sender is told the `reason`."""
        check_texts(reason=reason)
        await self._engine.put(Finish(self._taken, self._by, reason, ok=False))

    async def give_back(self, reason: str = "") -> None:
        """Release the claim, so that another worker can take the ticket; `reason` is recorded."""
        check_texts(reason=reason)
        await self._engine.put(GiveBack(self._taken, self._by, reason))

    async def _answer(self, answer: Answer) -> None:
        _check(answer)
        await self._engine.put(AnswerOffer(self._taken, answer, self._by))


class TicketClaim(HeldTicket):
    """The right to work on a ticket, for as long as it is renewed, and the package of its task."""

    def __init__(
        self,
        engine: Engine,
        log: Callable[[], Log],
        taken: Taken,
        package: Callable[[], HandoffPackage],
        by: str,
        lease: float,
    ) -> None:
        super().__init__(engine, log, taken, by, lease)
        self._package = package

    @cached_property
    def package(self) -> HandoffPackage:
        """The task, with all that the sender hands over."""
        return self._package()


async def held(engine: Engine, log: Callable[[], Log], id: str, handle: str, lease: float = LEASE) -> HeldTicket:
    """The ticket that a worker claimed through any process on the store, found by the `handle` of the claim.

    Raises ClaimLost if the claim is no longer valid, and MisconfiguredError if the lease is not a number of seconds.
    """
    if faults := lease_faults(lease):
        raise MisconfiguredError(*faults)
    at, _, token = handle.partition("~")
    found = await log().queue.tickets(id)
    if not found or not token or not compare_digest(*map(_bytes, (found[0].owner, token))):
        raise ClaimLost(id, "the lease ran out, or there is nothing left to do")
    taken = Taken(found[0].ticket, token, found[0].attempts, _seconds(at))
    return HeldTicket(engine, log, taken, worker_of(token), lease)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _seconds(text: str) -> float:
    """The time in a handle; 0 if a client has damaged it, so that every answer is late."""
    try:
        found = float(text)
    except ValueError:
        return 0.0
    return found if isfinite(found) else 0.0


def _check(answer: Answer) -> None:
    """Raise MisconfiguredError if an answer holds values of wrong types."""
    try:
        checked(answer, "the offer was answered by")
    except TypeError as error:
        raise MisconfiguredError(str(error)) from None


async def claimed(
    engine: Engine, log: Callable[[], Log], agent: str, by: str, lease: float, limit: int
) -> list[TicketClaim]:
    """Claim tickets of an agent. Those that ended meanwhile are released and left out; those that this version cannot
    read are left out until their lease runs out."""
    all_taken = await engine.claim([agent], by, lease, limit)
    try:
        packages = await asyncio.gather(*(_package(engine, log(), taken) for taken in all_taken))
    except BaseException:
        backs = (log().queue.give_back(each.claim, counted=False) for each in all_taken)
        await asyncio.gather(*backs, return_exceptions=True)  # the lease frees what cannot be given back
        raise
    return [
        TicketClaim(engine, log, taken, package, by, lease)
        for taken, package in zip(all_taken, packages, strict=True)
        if package
    ]


async def _package(engine: Engine, log: Log, taken: Taken) -> Callable[[], HandoffPackage] | None:
    try:
        return await engine.package(taken)
    except ClaimLost:
        await log.queue.give_back(taken.claim, counted=True)
        return None
    except UNREADABLE:
        return None  # kept until its lease runs out: if it were given back, it would be the next one claimed


def lease_faults(lease: object) -> list[str]:
    """Faults of the length of a lease."""
    if isinstance(lease, int | float) and 0 < lease < inf:
        return []
    return [f"lease={lease!r} must be a number of seconds, more than 0"]


def whole_faults(**given: object) -> list[str]:
    """Faults of values that must be whole numbers, 1 or more."""
    fits = (isinstance(each, int) and not isinstance(each, bool) and each >= 1 for each in given.values())
    pairs = zip(given.items(), fits, strict=True)
    return [f"{name}={value!r} must be a whole number, 1 or more" for (name, value), fit in pairs if not fit]


def worker_name() -> str:
    """The default name of a worker in this process."""
    return f"{socket.gethostname()}-{os.getpid()}"


async def retry(log: Log, id: str) -> bool:
    """Let any worker claim a ticket now, and reset its count of claims; False if there is no such ticket."""
    return await log.queue.retry(id, is_offered(await _state(log, id), id))


async def status_of(log: Log, id: str) -> TicketStatus:
    """The status of a ticket by the log and the queue; raises HandoffNotFound if there never was such a ticket."""
    state = await _state(log, id)
    chain = attempts_of(state, id)
    record = chain[-1] if chain else None
    found = await log.queue.tickets(record.id if record else id)
    queued = found[0] if found else None
    return TicketStatus(
        id=id,
        agent=record.receiver if record else state.agent,
        state=record.state if record else _state_of_message(state, id),
        conversation_id=state.id,
        owner=worker_of(queued.owner) if queued else "",
        attempts=queued.attempts if queued else 0,
        rests=queued.rests if queued else False,
        at=queued.ticket.at if queued else record.at if record else 0.0,
        deadline=queued.ticket.deadline if queued else None,
        reason=record.error if record else "",
        chain=chain,
    )


async def result_of_ticket(log: Log, roster: Roster, id: str, timeout: float | None = None) -> HandoffResult:
    """Wait until a ticket's work has ended, in any process; raises TimeoutError after `timeout` seconds."""
    try:
        return await asyncio.wait_for(_awaited(log, roster, id), timeout)
    except TimeoutError:
        raise TimeoutError(f"{id} did not end within {timeout} s; it goes on, and can be asked for again") from None


async def _state(log: Log, id: str) -> State:
    conversation, _ = split_handoff(id)
    return State(conversation).fold(await log.read(conversation))


async def _awaited(log: Log, roster: Roster, id: str) -> HandoffResult:
    state = await _state(log, id)
    if handoff_in(state, id) is None:
        _state_of_message(state, id)  # raises HandoffNotFound
    changes = log.changes(state.root, state.seq)
    while (found := await _result(log, roster, state, id)) is None:
        if (entry := await anext(changes, None)) is None:
            raise EngineError(f"the store was closed while {id} was awaited; it goes on, and can be asked for again")
        if entry.conversation == state.id and entry.position >= state.position:
            state = await _state(log, id)
    return found


async def _result(log: Log, roster: Roster, state: State, id: str) -> HandoffResult | None:
    """The result, if the work has ended."""
    outcome = _outcome(state, id)
    if outcome is not None and outcome.run.spoken.package is not None:
        package = HandoffPackage.from_dict(outcome.run.spoken.package)
        run = typed(result_of(state.id, outcome), roster)
        result = handoff_of(run, package, outcome.run.spoken.no_takers is not None)
        return result if result.error or result.reason else replace(result, error=_error(state.id, outcome))
    if not (attempts := attempts_of(state, id)):
        return _of_message(state, id, outcome, roster) if outcome else None
    record = attempts[-1]
    if record.mode is Mode.TRANSFER:
        return _of_handoff(record, state.id, outcome, roster) if outcome else None
    if set(TRANSITIONS[record.state]) - {Signal.RETURN} or (_run(state, id) and record.state is HandoffState.REJECTED):
        return None
    child = State(child_id(state.id, split_handoff(record.id)[1]))
    child.fold(await log.read(child.id))
    return _of_handoff(record, state.id, child.last, roster)


def _of_handoff(record: HandoffRecord, conversation: str, outcome: Outcome | None, roster: Roster) -> HandoffResult:
    return HandoffResult(
        handoff_id=record.id,
        agent=record.receiver,
        agent_name=record.receiver_name,
        state=record.state,
        result=outcome.output if outcome else "",
        output=roster.value(outcome.agent, outcome.output) if outcome else "",
        error=record.error or (_error(conversation, outcome) if outcome else ""),
        iterations=outcome.run.turns if outcome else 0,
        duration=outcome.at - record.at if outcome else 0.0,
        conversation_id=conversation,
    )


def _of_message(state: State, id: str, outcome: Outcome, roster: Roster) -> HandoffResult:
    return HandoffResult(
        handoff_id=id,
        agent=outcome.agent,
        agent_name=outcome.name,
        state=_state_of(outcome),
        result=outcome.output,
        output=roster.value(outcome.agent, outcome.output),
        error=_error(state.id, outcome),
        iterations=outcome.run.turns,
        duration=outcome.at - outcome.run.at,
        conversation_id=state.id,
    )


def _error(conversation: str, outcome: Outcome) -> str:
    return str(error_of(outcome.fault, result_of(conversation, outcome))) if outcome.fault else ""


def _run(state: State, id: str) -> Run | None:
    """The current run, if the ticket belongs to it."""
    record, run = handoff_in(state, id), state.run
    return run if run is not None and (run.ticket == id or (record is not None and record.run_id == run.ref)) else None


def _outcome(state: State, id: str) -> Outcome | None:
    """The outcome of the run that the ticket belongs to."""
    record = handoff_in(state, id)
    for outcome in reversed(state.outcomes.values()):
        if outcome.run.ticket == id or (record is not None and record.run_id == outcome.run.ref):
            return outcome
    return None


def _state_of_message(state: State, id: str) -> HandoffState:
    """The state of a user's message to an agent that workers serve; raises HandoffNotFound."""
    if state.run is not None and state.run.ticket == id:
        return HandoffState.WORKING
    outcome = _outcome(state, id)
    if outcome is None:
        raise HandoffNotFound(id)
    return _state_of(outcome)


def _state_of(outcome: Outcome) -> HandoffState:
    if outcome.cancelled:
        return HandoffState.RETURNED
    return HandoffState.FAILED if outcome.fault else HandoffState.COMPLETE

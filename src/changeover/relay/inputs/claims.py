"""What submitters and workers put into the conversations of a ticket, as pure values like those in `requests`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from changeover.errors import (
    ClaimLost,
    HandoffNotFound,
    IllegalTransition,
    MisconfiguredError,
    UnknownAgentError,
)
from changeover.facts import Expected, Mode, Ticket
from changeover.facts import State as Standing
from changeover.handoffs.answers import Accepted, Answer, Rejected
from changeover.handoffs.package import HandoffPackage
from changeover.handoffs.protocol import TRANSITIONS, Signal
from changeover.ids import Mark, Topic, child_id, claim_cause, command_id, input_cause, run_id, split_handoff, topic_id
from changeover.messages import User
from changeover.relay.commands import AskReceiver, JudgeResult
from changeover.relay.decide.answers import question
from changeover.relay.events import (
    ENGINE,
    Entry,
    Event,
    FunctionFailed,
    FunctionReturned,
    HandoffAccepted,
    HandoffExpired,
    HandoffRejected,
    ResultJudged,
    TicketLapsed,
)
from changeover.relay.inputs.requests import Append, Once, Say, Settled
from changeover.relay.package import continued, task_of
from changeover.relay.perform.handoffs import Answered, answered
from changeover.relay.ports.queue import Claim, Taken
from changeover.relay.ports.world import World
from changeover.relay.result import handoff_in, handoffs_of
from changeover.relay.run import Run, Thinking, declared_by
from changeover.relay.state import State
from changeover.relay.turn import Offered, Turn

ENDED = "it has ended, or was taken back"


class End(StrEnum):
    """How a worker's work under a claim ended."""

    DONE = "done"
    RESTS = "rests"
    """It waits for a person or a delegate; the next worker that claims the ticket goes on."""
    LOST = "lost"
    """The lease ran out, and another worker may have the ticket."""
    BACK = "given back"


class Submit(Struct, frozen=True, gc=False):
    """A package for the queue of its receiver. The outcome is its ticket, in any state."""

    rereads: ClassVar[bool] = False

    say: Say

    @property
    def conversation(self) -> str:
        return self.say.conversation

    def key(self, state: State) -> str:
        return self.say.key(state)

    def step(self, state: State, world: World) -> Append:
        return self.say.step(state, world)

    def outcome(self, state: State, append: Append) -> Ticket:
        return _ticket_of_run(state, append.run)

    def repeated(self, state: State, position: int, entry: Entry | None) -> Ticket:
        return _ticket_of_run(state, self.say.repeated(state, position, entry).run)


def _ticket_of_run(state: State, run: int) -> Ticket:
    """The ticket of the first offer of a run; if its receiver rejected it, others follow it."""
    ref = run_id(state.id, run)
    record = next((each for each in handoffs_of(state) if each.run_id == ref), None)
    if record is None:
        raise HandoffNotFound(ref)
    place = child_id(state.id, split_handoff(record.id)[1]) if record.mode is Mode.DELEGATE else state.id
    ticket = Ticket(
        id=record.id,
        agent=record.receiver,
        conversation=state.id,
        place=place,
        root=state.root,
        team=state.team,
        at=record.at,
    )
    if (found := offer_in(state, ticket)) is None or not found[2].offer.queued:
        return ticket
    return replace(ticket, priority=found[2].offer.priority, deadline=found[2].until)


class Accept(Struct, frozen=True, gc=False):
    """Take the task of a claimed ticket, which may have been accepted under an earlier claim."""

    taken: Taken
    by: str
    answer: Accepted = Accepted()
    again: bool = False
    """True if the same claim has accepted it before; then nothing is recorded."""


class GiveBack(Struct, frozen=True, gc=False):
    """Release a claim so that another worker can take the ticket; raises ClaimLost if one already did."""

    taken: Taken
    by: str
    reason: str = ""


class AnswerOffer(Once, Struct, frozen=True, gc=False):
    """The receiver's answer to the offer of a claimed ticket; the outcome is the event that was recorded."""

    taken: Taken
    answer: Answer | Answered | HandoffExpired
    by: str = ""

    @property
    def conversation(self) -> str:
        return self.taken.ticket.conversation

    def step(self, state: State, world: World) -> Append:
        if (found := offer_in(state, self.taken.ticket)) is None:
            raise ClaimLost(self.taken.ticket.id, ENDED)
        asked = question(state, *found)
        event = in_time(self._event(asked), asked, self.taken, world.clock.now())
        ends = not isinstance(event, HandoffAccepted)
        return Append(
            command_id(found[2].offer.call, Mark.QUESTION), [event], claim=replace(self.taken.claim, ends=ends)
        )

    def outcome(self, state: State, append: Append) -> Event:
        return append.events[0]

    def _event(self, asked: AskReceiver) -> Answered | HandoffExpired:
        if isinstance(self.answer, Answer):
            return signed(answered(asked, self.answer, own=True), self.by)
        return self.answer


def refused(answer: Answer) -> IllegalTransition:
    """Why an answer is not allowed under a claim that holds: the task was accepted before."""
    signal = Signal.REJECT if isinstance(answer, Rejected) else Signal.ACCEPT
    return IllegalTransition(Standing.WORKING, signal, list(TRANSITIONS[Standing.WORKING]))


def signed(answer: Answered, by: str) -> Answered:
    """The answer with the name of the worker that gives it."""
    return replace(answer, by=by) if by else answer


def answer_by(asked: AskReceiver, taken: Taken) -> float | None:
    """Deadline for the answer of a claim's holder and for the return of a delegate; a timeout begins with the claim."""
    if asked.offer.timeout is None:
        return asked.deadline
    until = taken.at + asked.offer.timeout
    return until if asked.deadline is None else min(until, asked.deadline)


def in_time(
    answer: Answered | HandoffExpired, asked: AskReceiver, taken: Taken, now: float
) -> Answered | HandoffExpired:
    """The answer, or an expiry if the time of the claim is over; a delegate has the rest of it."""
    offer, until = asked.offer, answer_by(asked, taken)
    if until is not None and now >= until and not isinstance(answer, HandoffExpired):
        reason = "it was not answered before the deadline"
        return HandoffExpired(offer.call, offer.task, offer.receiver, reason, by=ENGINE)
    if isinstance(answer, HandoffAccepted) and answer.mode is Mode.DELEGATE:
        return replace(answer, deadline=until)
    return answer


class Finish(Once, Struct, frozen=True, gc=False):
    """The result of a claimed task, or why it failed. A transfer that is still offered is accepted with it."""

    taken: Taken
    by: str
    text: str
    ok: bool = True
    judged: ResultJudged | None = None
    """The outcome of the check of the result, if something is expected: a misfit is recorded, and the claim goes on."""

    @property
    def conversation(self) -> str:
        return self.taken.ticket.place

    def step(self, state: State, world: World) -> Append:
        ticket, claim = self.taken.ticket, replace(self.taken.claim, ends=not (self.judged and self.judged.problem))
        if (found := offer_in(state, ticket)) is not None and found[2].offer.mode is Mode.TRANSFER:
            asked = question(state, *found)
            event = in_time(signed(answered(asked, Accepted()), self.by), asked, self.taken, world.clock.now())
            both = isinstance(event, HandoffAccepted)
            events = [event, *self._events(event.receiver, state.position)] if both else [event]
            return Append(command_id(event.call, Mark.QUESTION), events, claim=claim)
        phase = leg_of(state, ticket).phase
        if not isinstance(phase, Thinking):
            raise ClaimLost(ticket.id, "another process is at work on it")
        return Append(phase.due, self._events(state.agent, state.task), claim=claim)

    def outcome(self, state: State, append: Append) -> Event:
        return append.events[0]

    def check(self, state: State) -> JudgeResult | None:
        """The check of the result that comes first, if something is expected of it."""
        found = offer_in(state, self.taken.ticket) if self.ok else None
        if found is not None and (offer := found[2].offer).expected is not None:
            wish: Expected | None = declared_by(offer.expected, offer.sender, "")
        else:
            wish = leg_of(state, self.taken.ticket).wish if self.ok and found is None else None
        return JudgeResult(topic_id(state.position, Topic.RESULT), state.task, self.text, wish) if wish else None

    def _events(self, agent: str, task: int) -> list[Event]:
        if not self.ok:
            return [FunctionFailed(agent, task, self.text, self.by)]
        returned = FunctionReturned(agent, task, self.text, by=self.by)
        return [returned, replace(self.judged, task=task)] if self.judged else [returned]


class NoteTicket(Struct, frozen=True, gc=False):
    """Note that a ticket was taken or given back; recorded once per cause, and only while a run is under way."""

    rereads: ClassVar[bool] = False

    conversation: str
    cause: str
    event: Event
    claim: Claim | None = None

    def key(self, state: State) -> str:
        return self.cause if state.run is not None else ""

    def step(self, state: State, world: World) -> Append | Settled[None]:
        return Append(self.cause, [self.event], claim=self.claim) if state.run is not None else Settled(None)

    def outcome(self, state: State, append: Append) -> None:
        return None

    def repeated(self, state: State, position: int, entry: Entry | None) -> None:
        return None


class Lapse(Once, Struct, frozen=True, gc=False):
    """Note that the claim of an accepted task lapsed, or that this happened too often. Nothing is recorded if the log
    says so already."""

    conversation: str
    ticket: Ticket
    reason: str
    worn_out: bool = False

    def step(self, state: State, world: World) -> Append | Settled[None]:
        if not self._is_news(state):
            return Settled(None)
        lapsed = TicketLapsed(self.ticket.id, self.reason, ENGINE, self.worn_out)
        # The cause names the end of the log: of several processes that sweep at once, one records it.
        return Append(claim_cause("lapsed", input_cause(self.ticket.id, state.position)), [lapsed])

    def outcome(self, state: State, append: Append) -> None:
        return None

    def _is_news(self, state: State) -> bool:
        if state.run is None:
            return False
        mine = state.run.ticket == self.ticket.id
        if mine and self.worn_out:
            return not state.run.worn_out
        if (record := handoff_in(state, self.ticket.id)) is not None:
            return Signal.LAPSE in TRANSITIONS[record.state]
        return mine and state.work.status == "running"


class DeclineOffer(Once, Struct, frozen=True, gc=False):
    """End an offer whose ticket was claimed too often without an answer."""

    ticket: Ticket
    reason: str

    @property
    def conversation(self) -> str:
        return self.ticket.conversation

    def step(self, state: State, world: World) -> Append | Settled[None]:
        if (found := offer_in(state, self.ticket)) is None:
            return Settled(None)
        offer = found[2].offer
        who = (offer.call, state.task, offer.receiver)
        declined = HandoffRejected(*who, self.reason, by=ENGINE, worn_out=True)
        return Append(command_id(offer.call, Mark.QUESTION), [declined])

    def outcome(self, state: State, append: Append) -> None:
        return None


class HandOn(Once, Struct, frozen=True, gc=False):
    """A person declines the offer of a ticket for its receiver, so that another one is asked next.

    Raises IllegalTransition if it was accepted before, UnknownAgentError if the team has no such receiver, and
    MisconfiguredError if that receiver has it or declined it before.
    """

    ticket: Ticket
    receiver: str
    reason: str
    by: str

    @property
    def conversation(self) -> str:
        return self.ticket.conversation

    def step(self, state: State, world: World) -> Append:
        if (found := offer_in(state, self.ticket)) is None:
            raise self._late(state)
        offer, present = found[2].offer, world.current_roster.present
        if self.receiver not in present:
            raise UnknownAgentError(self.receiver, present)
        if self.receiver in (*offer.declined_by, offer.receiver):
            raise MisconfiguredError(f"{self.receiver} has it or declined it; no receiver is asked twice")
        declined = HandoffRejected(offer.call, state.task, offer.receiver, self.reason, self.receiver, self.by)
        return Append(command_id(offer.call, Mark.QUESTION), [declined])

    def outcome(self, state: State, append: Append) -> None:
        return None

    def _late(self, state: State) -> Exception:
        record = handoff_in(state, self.ticket.id)
        if record is None:
            return HandoffNotFound(self.ticket.id)
        return IllegalTransition(record.state, Signal.REJECT, list(TRANSITIONS[record.state]))


def offer_in(state: State, ticket: Ticket) -> tuple[Run, Turn, Offered] | None:
    """The offer of a ticket, if it has no answer yet."""
    call, run = split_handoff(ticket.id)[1], state.run
    found = run.offered(call) if run is not None and state.id == ticket.conversation else None
    return (run, found[0], found[2]) if run is not None and found is not None else None


def leg_of(state: State, ticket: Ticket) -> Run:
    """The run in which the agent works on a ticket; raises ClaimLost if there is none."""
    if state.run is None or state.run.ticket != ticket.id:
        raise ClaimLost(ticket.id, ENDED)
    return state.run


def accepted_offer(entries: Iterable[Entry], ticket: Ticket) -> tuple[AskReceiver, State] | None:
    """The offer of a ticket as its receiver was asked, and the state in which its acceptance left the conversation;
    None if the log has no acceptance: a message, or a task that came back, was never offered."""
    call, state = split_handoff(ticket.id)[1], State(ticket.conversation)
    for entry in entries:
        state.at = entry.at
        for event in entry.events:
            accepts = isinstance(event, HandoffAccepted) and event.call == call
            found = offer_in(state, ticket) if accepts else None
            asked = question(state, *found) if found else None
            state.apply(event)
            if asked is not None:
                return asked, state
    return None


def package_again(entries: Iterable[Entry], ticket: Ticket, state: State) -> HandoffPackage:
    """The package of a task that was accepted, as its offer had it, with what was done since; `entries` are the log of
    the conversation that offered it, `state` is that of the place where its agent works."""
    run = leg_of(state, ticket)
    if (found := accepted_offer(entries, ticket)) is None:
        return task_of(state, run)
    asked, begun = found
    if ticket.place == ticket.conversation:
        return continued(asked, state.record[len(begun.record) :], begun.travelling, state.travelling)
    given, said = run.spoken.given, state.record
    first = next((index for index, each in enumerate(said, 1) if isinstance(each, User)), 0)
    before = (run.spoken.context, given.artifacts, given.workflow_state) if given else begun.travelling
    return continued(asked, said[first:], before, state.travelling)

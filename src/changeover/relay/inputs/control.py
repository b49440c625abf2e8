"""Control: requests about work under way. They end it, roll it back, decide about it, or let it expire."""

from __future__ import annotations

import re
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from changeover.errors import ApprovalError, ConversationNotFound, HandoffNotFound
from changeover.facts import HandoffRecord, Mode
from changeover.facts import State as HandoffState
from changeover.guards.approval import Decision, unauthorised, verdict_words
from changeover.handoffs.protocol import Signal, advance
from changeover.ids import Mark, child_id, command_id, input_cause, request_id, split_handoff, split_request, split_run
from changeover.relay.events import (
    ApprovalDecided,
    CancelRequested,
    Entry,
    Event,
    LimitReached,
    Renamed,
    RollbackRequested,
    Started,
)
from changeover.relay.fold.approvals import pending_request
from changeover.relay.fold.rollback import is_back, under_way
from changeover.relay.inputs.requests import Append, Later, Once, Settled, signed_opening
from changeover.relay.perform.approvals import misfit
from changeover.relay.ports.world import World
from changeover.relay.result import handoff_in
from changeover.relay.run import Stopping
from changeover.relay.state import State
from changeover.relay.tickets import delegated


class CancelRun(Once, Struct, frozen=True, gc=False):
    """End one run, or all if `request.run` is 0. The answer is the run that ends first, None if none was under way.

    With an `opening`, a delegate that has not begun is opened as cancelled, so that its sender does not begin it.
    """

    conversation: str
    request: CancelRequested
    opening: Started | None = None

    def step(self, state: State, world: World) -> Append | Settled[None]:
        run = self.request.run
        under_way = [*([state.run.id] if state.run else ()), *state.inbox]
        if state.position and not (run in under_way or (not run and under_way)):
            return Settled(None)
        if not state.position and self.opening is None:
            raise ConversationNotFound(state.id)
        events: list[Event] = [self.request]
        if self.opening is not None and not state.position:
            events = [signed_opening(self.opening, world), self.request]
        return Append(input_cause("cancel", state.position), events, run or (under_way[0] if under_way else 0))

    def outcome(self, state: State, append: Append) -> int | None:
        return append.run


UNDER_WAY = (HandoffState.PENDING, HandoffState.ACCEPTED, HandoffState.WORKING)
RUN = re.compile(r"[1-9][0-9]{0,17}")
"""The number of a run in its id."""


class Cancel(Struct, frozen=True, gc=False):
    """End what an id names: a conversation, a run, a handoff or a ticket. The answer is False if nothing was under way.

    An engine looks at the conversation, and puts the request that `target` gives in place of this one.
    """

    id: str
    by: str = ""
    reason: str = ""
    after_turn: bool = False

    @property
    def conversation(self) -> str:
        return split_handoff(self.id)[0] or split_run(self.id)[0]

    def target(self, state: State) -> CancelRun | RollBack | None:
        """The request that ends it; None if nothing is under way. Raises ConversationNotFound for an unknown id."""
        request = CancelRequested(by=self.by, reason=self.reason, after_turn=self.after_turn)
        if split_handoff(self.id)[0]:
            return self._handoff(state, request)
        run = split_run(self.id)[1]
        if not state.position or (self.id != state.id and not RUN.fullmatch(run)):
            raise ConversationNotFound(self.id)
        return CancelRun(state.id, replace(request, run=int(run or 0)))

    def _handoff(self, state: State, request: CancelRequested) -> CancelRun | RollBack | None:
        """A delegate is called back. Under a transfer the run ends. An offer without an answer goes back to its sender,
        unless that is code: then the run ends."""
        record = handoff_in(state, self.id)
        if record is None:
            return self._message(state, request)
        if record.state not in UNDER_WAY:
            return None
        call, taken = split_handoff(self.id)[1], record in state.handoffs
        if taken and state.run and any(offer.call == call for offer in delegated(state.run)):
            return CancelRun(child_id(state.id, call), request, Started(state.root, state.id, state.depth + 1))
        # A person's answer may still have to be judged, so such a delegate may be over although its handoff is not.
        if (not taken or record.mode is Mode.DELEGATE) and not (state.run and state.run.spoken.package):
            return RollBack(self.id, self.reason or "cancelled", self.by)
        return CancelRun(state.id, replace(request, run=int(split_run(record.run_id)[1])))

    def is_over(self, state: State) -> bool:
        """True if the handoff that the id names has ended."""
        record = handoff_in(state, self.id)
        return record is None or record.state not in UNDER_WAY

    def _message(self, state: State, request: CancelRequested) -> CancelRun | None:
        """The run of a message to an agent that workers serve, whose ticket has this id."""
        if state.run is not None and state.run.ticket == self.id:
            return CancelRun(state.id, replace(request, run=state.run.id))
        if any(outcome.run.ticket == self.id for outcome in state.outcomes.values()):
            return None
        raise ConversationNotFound(self.id)


class RollBack(Once, Struct, frozen=True, gc=False):
    """Undo a handoff. Raises HandoffNotFound, or IllegalTransition if it cannot be undone. The answer is its record: an
    engine waits until it `is_over`."""

    id: str
    reason: str = ""
    by: str = ""

    @property
    def conversation(self) -> str:
        return split_handoff(self.id)[0]

    def step(self, state: State, world: World) -> Append | Settled[HandoffRecord] | Later:
        record, call = self.record(state), split_handoff(self.id)[1]
        advance(record.state, Signal.RETURN)
        if not self.is_over(state):
            return Settled(record)
        if state.run is not None and isinstance(state.run.phase, Stopping):
            return Later()  # a run that is stopping ignores the request
        cause = input_cause(command_id(call, Mark.CLEANUP), state.position)
        return Append(cause, [RollbackRequested(call, self.reason, self.by, is_back(record))])

    def outcome(self, state: State, append: Append) -> HandoffRecord:
        return self.record(state)

    def is_over(self, state: State) -> bool:
        """True if no rollback of this handoff is under way."""
        return not under_way(state, split_handoff(self.id)[1])

    def record(self, state: State) -> HandoffRecord:
        """The handoff as it is now; raises HandoffNotFound."""
        if (record := handoff_in(state, self.id)) is None:
            raise HandoffNotFound(self.id)
        return record


class Rename(Once, Struct, frozen=True, gc=False):
    """Give a conversation another title. Raises ConversationNotFound."""

    conversation: str
    title: str
    by: str = ""

    def step(self, state: State, world: World) -> Append:
        if not state.position:
            raise ConversationNotFound(state.id)
        return Append(input_cause("rename", state.position), [Renamed(self.title, self.by)])

    def outcome(self, state: State, append: Append) -> None:
        return None


class Decide(Struct, frozen=True, gc=False):
    """A person's decision about an approval request. The first decision holds; a later one raises ApprovalError."""

    rereads: ClassVar[bool] = True

    id: str
    decision: Decision
    by: str = ""
    roles: tuple[str, ...] = ()

    @property
    def conversation(self) -> str:
        return self._split()[0]

    def _split(self) -> tuple[str, str]:
        """The conversation and the call of the request."""
        if (found := split_request(self.id)) is None:
            raise ApprovalError(f"{self.id!r} is not the id of an approval", approval=self.id)
        return found

    def _event(self, digest: str) -> ApprovalDecided:
        return ApprovalDecided(self._split()[1], digest, self.decision, self.by)

    def key(self, state: State) -> str:
        call = self._split()[1]
        return "" if pending_request(state, call) else command_id(call, Mark.DECISION)

    def step(self, state: State, world: World) -> Append:
        request = pending_request(state, self._split()[1])
        if request is None:
            raise self._unasked()
        if request.id != self.id:
            raise ApprovalError(f"this is not what awaits a decision: that is {request.id}", approval=self.id)
        if wrong := unauthorised(request, self.by, self.roles) or misfit(world, request, self.decision):
            raise ApprovalError(f"this decision cannot hold: {wrong}", approval=self.id)
        roles = tuple(role for role in request.roles if role in self.roles)
        return Append(command_id(request.call, Mark.DECISION), [replace(self._event(request.digest), roles=roles)])

    def outcome(self, state: State, append: Append) -> None:
        return None

    def repeated(self, state: State, position: int, entry: Entry | None) -> None:
        """The same decision once more is no error."""
        events = entry.events if entry else ()
        before = next((event for event in events if isinstance(event, ApprovalDecided)), None)
        if before is None:
            raise self._unasked()
        same = request_id(*self._split(), before.digest) == self.id
        if not same or replace(before, roles=()) != self._event(before.digest):
            by = "when it expired" if before.expired else f"by {before.by or 'an unnamed person'}"
            raise ApprovalError(f"this was {verdict_words(before.decision)} already, {by}", approval=self.id)

    def _unasked(self) -> ApprovalError:
        return ApprovalError(
            f"nothing awaits a decision as {self.id}: it was never requested, or the run ended", approval=self.id
        )


AGAIN = 0.05
"""Least number of seconds between two looks at a run that waited for people meanwhile."""


class Expire(Once, Struct, frozen=True, gc=False):
    """The timeout of a run. The answer is when to look again; 0 if it is recorded, or the run has ended."""

    conversation: str
    run: int
    timeout: float
    waited: float
    """Seconds that the run waited for people, which do not count."""

    def step(self, state: State, world: World) -> Append | Settled[float]:
        run, now = state.run, world.clock.now()
        if run is None or run.id != self.run or "timeout" in state.limits:
            return Settled(0.0)
        elapsed = now - run.at - self.waited
        if elapsed < self.timeout:
            return Settled(now + max(self.timeout - elapsed, AGAIN))
        # The cause names the position: a run that is resumed may run out of time again.
        return Append(
            input_cause("timeout", state.position), [LimitReached("timeout", self.timeout, 0, round(elapsed, 3))]
        )

    def outcome(self, state: State, append: Append) -> float:
        return 0.0

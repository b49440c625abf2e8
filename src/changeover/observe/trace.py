"""Trace: the spans of a conversation, found in its recorded events. It names no library, reads no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from changeover.facts import Mode, Usage
from changeover.ids import FIRST_TASK, child_id, handoff_id, run_id, span_id, split_child, split_trace, task_id
from changeover.observe import semconv as names
from changeover.relay.events import (
    ApprovalDecided,
    ApprovalRequested,
    FellBack,
    HandoffAccepted,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    HandoffRolledBack,
    ModelReplied,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    TicketLapsed,
    TicketTaken,
    UserSpoke,
)
from changeover.relay.stream import Recorded


class FinishedSpan(Struct, frozen=True, gc=False):
    """A span whose end is recorded."""

    name: str
    trace: str
    """The place in the trace at which its run began."""
    id: str
    parent: str
    """The span above it; empty if it begins the trace."""
    start: float
    end: float
    attributes: dict[str, Any]
    links: tuple[str, ...] = ()
    """Spans of the same trace."""
    error: str = ""
    """What kind of fault ended it; empty if none did."""


class _Open(Struct, gc=False):
    """Something that goes on."""

    name: str
    id: str
    start: float
    parent: str
    attributes: dict[str, Any]
    links: tuple[str, ...] = ()


class Trace:
    """The open spans of one conversation: its run, the active agent's leg, handoffs and waits."""

    def __init__(self, conversation: str) -> None:
        self.conversation, self.position = conversation, 0
        """`position` is that of the next event."""
        self._said: dict[int, tuple[float, UserSpoke]] = {}
        self._context = ""
        """The place in a trace at which the run under way began; empty if it is not traced."""
        self._run: _Open | None = None
        self._leg: _Open | None = None
        self._handoffs: dict[str, _Open] = {}
        self._waits: dict[str, _Open] = {}
        self._ended: dict[int, tuple[str, str]] = {}
        """The trace and the span of runs that failed and may be resumed."""

    @property
    def idle(self) -> bool:
        """True if no run is under way and none waits."""
        return self._run is None and not self._said

    def apply(self, record: Recorded) -> Iterator[FinishedSpan]:
        """Apply an event; gives the spans that end with it."""
        self.position = record.position + 1
        event = record.event
        if isinstance(event, UserSpoke):
            self._said[record.position] = record.at, event
        elif isinstance(event, RunStarted):
            self._begin(event, record)
        elif isinstance(event, RunResumed):
            self._resume(event, record)
        elif self._run is not None and (handle := HANDLERS.get(type(event))) is not None:
            yield from handle(self, event, record)

    def _begin(self, event: RunStarted, record: Recorded) -> None:
        at, said = self._said.pop(event.run, (record.at, UserSpoke("")))
        self._context = said.trace
        if not said.trace:
            self._run = None
            return
        _, above, _ = split_trace(said.trace)
        run = run_id(self.conversation, event.run)
        self._run = _Open(names.INVOKE_WORKFLOW, span_id(run), at, above, {**self._about(), names.RUN: run})
        links = (span_id(handoff_id(*split_child(self.conversation))),) if said.given is not None else ()
        self._enter(event.agent, record, links)
        if event.queued:
            self._wait(handoff_id(self.conversation, record.position), names.QUEUE_WAIT, record.at)

    def _resume(self, event: RunResumed, record: Recorded) -> None:
        if (found := self._ended.pop(event.run, None)) is None:
            return
        self._context, first = found
        run = run_id(self.conversation, event.run)
        attributes = {**self._about(), names.RUN: run, names.RESUMED: True}
        _, above, _ = split_trace(self._context)
        again = span_id(f"{run}+{record.position}")
        self._run = _Open(names.INVOKE_WORKFLOW, again, record.at, above, attributes, (first,))

    def _note_reply(self, event: ModelReplied, record: Recorded) -> Iterator[FinishedSpan]:
        if event.usage is not None:
            self._count(event.usage)
        yield from ()

    def _decline(self, event: HandoffRejected | HandoffExpired, record: Recorded) -> Iterator[FinishedSpan]:
        outcome = "rejected" if isinstance(event, HandoffRejected) else "timeout"
        yield from self._answer(event.call, record, outcome, outcome)

    def _take_back(self, event: HandoffReturned, record: Recorded) -> Iterator[FinishedSpan]:
        outcome = "done" if event.success else "cancelled" if event.cancelled else "failed"
        yield from self._answer(event.call, record, outcome, "" if event.success else outcome)

    def _roll_back(self, event: HandoffRolledBack | FellBack, record: Recorded) -> Iterator[FinishedSpan]:
        if event.agent:
            yield from self._leave(record, "rolled_back")
            self._enter(event.agent, record)

    def _ask(self, event: ApprovalRequested, record: Recorded) -> Iterator[FinishedSpan]:
        self._wait(event.call, names.APPROVAL_WAIT, record.at, {names.TOOL_NAME: event.tool})
        yield from ()

    def _decide(self, event: ApprovalDecided, record: Recorded) -> Iterator[FinishedSpan]:
        decided = "expired" if event.expired else type(event.decision).__name__.lower()
        yield from self._resolve(event.call, record, {names.APPROVAL: decided})

    def _take(self, event: TicketTaken, record: Recorded) -> Iterator[FinishedSpan]:
        yield from self._resolve(event.ticket, record, {})

    def _lapse(self, event: TicketLapsed, record: Recorded) -> Iterator[FinishedSpan]:
        self._wait(event.ticket, names.QUEUE_WAIT, record.at)
        yield from ()

    def _about(self) -> dict[str, Any]:
        return {names.CONVERSATION: self.conversation}

    def _enter(self, agent: str, record: Recorded, links: tuple[str, ...] = ()) -> None:
        """An agent becomes active: the event's position names its task, and so its span."""
        assert self._run is not None
        own = {**self._about(), names.OPERATION: names.INVOKE_AGENT, names.AGENT_ID: agent, names.AGENT_NAME: agent}
        id = span_id(task_id(self.conversation, record.position))
        self._leg = _Open(f"{names.INVOKE_AGENT} {agent}", id, record.at, self._run.id, own, links)

    def _leave(self, record: Recorded, error: str = "") -> Iterator[FinishedSpan]:
        if self._leg is not None:
            yield self._finished(self._leg, record.at, error)
            self._leg = None

    def _offer(self, event: HandoffOffered, record: Recorded) -> Iterator[FinishedSpan]:
        handoff = handoff_id(self.conversation, event.call)
        attributes = {
            **self._about(),
            names.OPERATION: names.HANDOFF,
            names.HANDOFF_ID: handoff,
            names.SENDER: event.sender,
            names.RECEIVER: event.receiver,
            names.MODE: str(event.mode),
            names.ATTEMPT: event.attempt,
            names.MESSAGE: event.message,
        }
        name = f"{names.HANDOFF} {event.receiver}"
        self._handoffs[event.call] = _Open(name, span_id(handoff), record.at, self._above, attributes)
        if event.queued:
            self._wait(handoff, names.QUEUE_WAIT, record.at)
        yield from ()

    @property
    def _above(self) -> str:
        """The span under which something begins now."""
        assert self._run is not None
        return self._leg.id if self._leg is not None else self._run.id

    def _accept(self, event: HandoffAccepted, record: Recorded) -> Iterator[FinishedSpan]:
        offered = self._handoffs.get(event.call)
        if event.mode is Mode.DELEGATE:
            if offered is not None:
                child = task_id(child_id(self.conversation, event.call), FIRST_TASK)
                offered.links = () if event.answered else (span_id(child),)
            return
        receiver = span_id(task_id(self.conversation, record.position))
        if offered is not None:
            offered.links = (receiver,)
        yield from self._answer(event.call, record, "accepted")
        yield from self._leave(record)
        self._enter(event.receiver, record, (offered.id,) if offered else ())

    def _answer(self, call: str, record: Recorded, outcome: str, error: str = "") -> Iterator[FinishedSpan]:
        if (found := self._handoffs.pop(call, None)) is not None:
            yield from self._resolve(handoff_id(self.conversation, call), record, {}, error)
            found.attributes[names.OUTCOME] = outcome
            yield self._finished(found, record.at, error)

    def _wait(self, key: str, name: str, at: float, more: dict[str, Any] | None = None) -> None:
        above = self._handoffs.get(key.rpartition(":")[2])
        id = span_id(f"{self.conversation}:{key}:{name}:{at}")
        attributes = {**self._about(), names.OPERATION: name, **(more or {names.TICKET: key})}
        self._waits[key] = _Open(name, id, at, above.id if above else self._above, attributes)

    def _resolve(self, key: str, record: Recorded, more: dict[str, Any], error: str = "") -> Iterator[FinishedSpan]:
        if (found := self._waits.pop(key, None)) is not None:
            found.attributes |= more
            yield self._finished(found, record.at, error)

    def _count(self, usage: Usage) -> None:
        counted = {names.INPUT_TOKENS: usage.input_tokens, names.OUTPUT_TOKENS: usage.output_tokens}
        for open in (self._run, self._leg):
            if open is not None:
                open.attributes |= {name: open.attributes.get(name, 0) + figure for name, figure in counted.items()}

    def _end(self, event: RunCompleted | RunFailed | RunCancelled, record: Recorded) -> Iterator[FinishedSpan]:
        assert self._run is not None
        status, error = ENDS[type(event)]
        if isinstance(event, RunFailed):
            error = type(event.fault).__name__
            self._ended[event.run] = self._context, self._run.id
        for open in (*self._waits.values(), *self._handoffs.values()):
            yield self._finished(open, record.at, error or "abandoned")
        self._waits, self._handoffs = {}, {}
        yield from self._leave(record, error)
        self._run.attributes[names.STATUS] = status
        yield self._finished(self._run, record.at, error)
        self._run = None

    def _finished(self, open: _Open, end: float, error: str) -> FinishedSpan:
        return FinishedSpan(
            open.name,
            self._context,
            open.id,
            open.parent,
            open.start,
            end,
            open.attributes,
            open.links,
            error,
        )


ENDS: dict[type, tuple[str, str]] = {
    RunCompleted: ("completed", ""),
    RunFailed: ("failed", "failed"),
    RunCancelled: ("cancelled", "cancelled"),
}
"""The status of a run, and its error, by the event that ends it."""

HANDLERS: dict[type, Callable[[Trace, Any, Recorded], Iterator[FinishedSpan]]] = {
    ModelReplied: Trace._note_reply,
    HandoffOffered: Trace._offer,
    HandoffAccepted: Trace._accept,
    HandoffRejected: Trace._decline,
    HandoffExpired: Trace._decline,
    HandoffReturned: Trace._take_back,
    HandoffRolledBack: Trace._roll_back,
    FellBack: Trace._roll_back,
    ApprovalRequested: Trace._ask,
    ApprovalDecided: Trace._decide,
    TicketTaken: Trace._take,
    TicketLapsed: Trace._lapse,
    RunCompleted: Trace._end,
    RunFailed: Trace._end,
    RunCancelled: Trace._end,
}
"""What each event does to the spans of a run under way; others do nothing."""

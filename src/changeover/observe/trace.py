"""Trace: the spans of a conversation, found in its recorded events. It names no library, reads no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


class TraceSpan(Struct, gc=False):
    """A span that recorded events begin and end."""

    name: str
    trace: str
    """The place in the trace at which its run began."""
    id: str
    parent: str
    """The span above it; empty if it begins the trace."""
    start: float
    attributes: dict[str, Any]
    link: str = ""
    """The span of the same trace that it is linked with; empty if there is none."""
    message: str = ""
    """What the sender of a handoff said."""
    end: float = 0.0
    error: str = ""
    """The kind of the fault that ended it; empty if none did."""


class Trace:
    """The open spans of one conversation: its run, the active agent's leg, handoffs and waits."""

    def __init__(self, conversation: str) -> None:
        self.conversation, self.position = conversation, 0
        """`position` is that of the next event."""
        self._said: dict[int, tuple[float, UserSpoke]] = {}
        self._context = ""
        """The place in a trace at which the run under way began; empty if it is not traced."""
        self._run: TraceSpan | None = None
        self._leg: TraceSpan | None = None
        self._handoffs: dict[str, TraceSpan] = {}
        self._waits: dict[str, TraceSpan] = {}
        self._finished: list[TraceSpan] = []
        """Spans that the events under way ended."""
        self._ended: dict[int, tuple[str, str]] = {}
        """The trace and the span of runs that failed and may be resumed."""

    @property
    def idle(self) -> bool:
        """True if no run is under way and none waits."""
        return self._run is None and not self._said

    def apply(self, recorded: Iterable[Recorded]) -> Sequence[TraceSpan]:
        """Apply events in the order of their positions; returns the spans that end with them."""
        for record in recorded:
            self.position = record.position + 1
            handlers = BEGINNINGS if self._run is None else HANDLERS
            if (handle := handlers.get(type(record.event))) is not None:
                handle(self, record.event, record)
        finished, self._finished = self._finished, []
        return finished

    def _hear(self, event: UserSpoke, record: Recorded) -> None:
        self._said[record.position] = record.at, event

    def _begin(self, event: RunStarted, record: Recorded) -> None:
        at, said = self._said.pop(event.run, (record.at, UserSpoke("")))
        self._context = said.trace
        if not said.trace:
            self._run = None
            return
        run = run_id(self.conversation, event.run)
        self._run = self._open_run(span_id(run), at, {names.CONVERSATION: self.conversation, names.RUN: run})
        self._enter(event.agent, record, span_id(handoff_id(*split_child(self.conversation))) if said.given else "")
        if event.queued:
            self._wait(handoff_id(self.conversation, record.position), names.QUEUE_WAIT, record.at)

    def _resume(self, event: RunResumed, record: Recorded) -> None:
        if (found := self._ended.pop(event.run, None)) is None:
            return
        self._context, first = found
        run = run_id(self.conversation, event.run)
        attributes = {names.CONVERSATION: self.conversation, names.RUN: run, names.RESUMED: True}
        self._run = self._open_run(span_id(f"{run}+{record.position}"), record.at, attributes, first)

    def _open_run(self, id: str, at: float, attributes: dict[str, Any], link: str = "") -> TraceSpan:
        _, above, _ = split_trace(self._context)
        return TraceSpan(names.INVOKE_WORKFLOW, self._context, id, above, at, attributes, link)

    def _note_reply(self, event: ModelReplied, record: Recorded) -> None:
        if event.usage is not None:
            self._count(event.usage)

    def _decline(self, event: HandoffRejected | HandoffExpired, record: Recorded) -> None:
        outcome = "rejected" if isinstance(event, HandoffRejected) else "timeout"
        self._answer(event.call, record, outcome, outcome)

    def _take_back(self, event: HandoffReturned, record: Recorded) -> None:
        outcome = "done" if event.success else "cancelled" if event.cancelled else "failed"
        self._answer(event.call, record, outcome, "" if event.success else outcome)

    def _roll_back(self, event: HandoffRolledBack | FellBack, record: Recorded) -> None:
        if event.agent:
            self._leave(record, "rolled_back")
            self._enter(event.agent, record)

    def _ask(self, event: ApprovalRequested, record: Recorded) -> None:
        self._wait(event.call, names.APPROVAL_WAIT, record.at, {names.TOOL_NAME: event.tool})

    def _decide(self, event: ApprovalDecided, record: Recorded) -> None:
        decided = "expired" if event.expired else type(event.decision).__name__.lower()
        self._resolve(event.call, record, {names.APPROVAL: decided})

    def _take(self, event: TicketTaken, record: Recorded) -> None:
        self._resolve(event.ticket, record, {})

    def _lapse(self, event: TicketLapsed, record: Recorded) -> None:
        self._wait(event.ticket, names.QUEUE_WAIT, record.at)

    def _enter(self, agent: str, record: Recorded, link: str = "") -> TraceSpan:
        """Begin the leg of an agent that becomes active: the event's position names its task, and so its span."""
        assert self._run is not None
        own = {
            names.CONVERSATION: self.conversation,
            names.OPERATION: names.INVOKE_AGENT,
            names.AGENT_ID: agent,
            names.AGENT_NAME: agent,
        }
        id = span_id(task_id(self.conversation, record.position))
        leg = TraceSpan(f"{names.INVOKE_AGENT} {agent}", self._context, id, self._run.id, record.at, own, link)
        self._leg = leg
        return leg

    def _leave(self, record: Recorded, error: str = "") -> None:
        if self._leg is not None:
            self._finish(self._leg, record.at, error)
            self._leg = None

    def _offer(self, event: HandoffOffered, record: Recorded) -> None:
        handoff = handoff_id(self.conversation, event.call)
        attributes = {
            names.CONVERSATION: self.conversation,
            names.OPERATION: names.HANDOFF,
            names.HANDOFF_ID: handoff,
            names.SENDER: event.sender,
            names.RECEIVER: event.receiver,
            names.MODE: str(event.mode),
            names.ATTEMPT: event.attempt,
        }
        name, id = f"{names.HANDOFF} {event.receiver}", span_id(handoff)
        offered = TraceSpan(name, self._context, id, self._above, record.at, attributes, message=event.message)
        self._handoffs[event.call] = offered
        if event.queued:
            self._wait(handoff, names.QUEUE_WAIT, record.at)

    @property
    def _above(self) -> str:
        """The span under which something begins now."""
        assert self._run is not None
        return self._leg.id if self._leg is not None else self._run.id

    def _accept(self, event: HandoffAccepted, record: Recorded) -> None:
        offered = self._handoffs.get(event.call)
        if event.mode is Mode.DELEGATE:
            if offered is not None:
                child = task_id(child_id(self.conversation, event.call), FIRST_TASK)
                offered.link = "" if event.answered else span_id(child)
            return
        self._answer(event.call, record, "accepted")
        self._leave(record)
        leg = self._enter(event.receiver, record, offered.id if offered else "")
        if offered is not None:
            offered.link = leg.id

    def _answer(self, call: str, record: Recorded, outcome: str, error: str = "") -> None:
        if (found := self._handoffs.pop(call, None)) is not None:
            if self._waits:
                self._resolve(handoff_id(self.conversation, call), record, {}, error)
            found.attributes[names.OUTCOME] = outcome
            self._finish(found, record.at, error)

    def _wait(self, key: str, name: str, at: float, more: dict[str, Any] | None = None) -> None:
        above = self._handoffs.get(key.rpartition(":")[2])
        id = span_id(f"{self.conversation}:{key}:{name}:{at}")
        attributes = {names.CONVERSATION: self.conversation, names.OPERATION: name, **(more or {names.TICKET: key})}
        parent = above.id if above else self._above
        self._waits[key] = TraceSpan(name, self._context, id, parent, at, attributes)

    def _resolve(self, key: str, record: Recorded, more: dict[str, Any], error: str = "") -> None:
        if (found := self._waits.pop(key, None)) is not None:
            found.attributes |= more
            self._finish(found, record.at, error)

    def _count(self, usage: Usage) -> None:
        counted = {names.INPUT_TOKENS: usage.input_tokens, names.OUTPUT_TOKENS: usage.output_tokens}
        for open in (self._run, self._leg):
            if open is not None:
                open.attributes |= {name: open.attributes.get(name, 0) + figure for name, figure in counted.items()}

    def _end(self, event: RunCompleted | RunFailed | RunCancelled, record: Recorded) -> None:
        assert self._run is not None
        status, error = ENDS[type(event)]
        if isinstance(event, RunFailed):
            error = type(event.fault).__name__
            self._ended[event.run] = self._context, self._run.id
        for open in (*self._waits.values(), *self._handoffs.values()):
            self._finish(open, record.at, error or "abandoned")
        self._waits, self._handoffs = {}, {}
        self._leave(record, error)
        self._run.attributes[names.STATUS] = status
        self._finish(self._run, record.at, error)
        self._run = None

    def _finish(self, span: TraceSpan, end: float, error: str) -> None:
        span.end, span.error = end, error
        self._finished.append(span)


ENDS: dict[type, tuple[str, str]] = {
    RunCompleted: ("completed", ""),
    RunFailed: ("failed", "failed"),
    RunCancelled: ("cancelled", "cancelled"),
}
"""The status of a run, and its error, by the event that ends it."""

Handler = Callable[[Trace, Any, Recorded], None]
BEGINNINGS: dict[type, Handler] = {UserSpoke: Trace._hear, RunStarted: Trace._begin, RunResumed: Trace._resume}
"""What each event that leads to a run does to the spans; others do nothing while no run is under way."""
HANDLERS: dict[type, Handler] = {
    **BEGINNINGS,
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

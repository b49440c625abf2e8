"""Chain: a run as hops, each the time in which an agent has the work, and the handoffs between them.

Nodes are hops, not agents, so work that comes back to an agent makes another hop, and the graph has no cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, assert_never

from msgspec import Struct

from changeover.facts import HandoffRecord, Mode
from changeover.facts import State as HandoffState
from changeover.guards.approval import Reject
from changeover.ids import call_of, handoff_id, split_child, task_id
from changeover.relay.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallRefused,
    CircuitFound,
    ContextPacked,
    Event,
    FellBack,
    FunctionFailed,
    FunctionReturned,
    HandoffAccepted,
    HandoffConditional,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    HandoffRolledBack,
    ModelFailed,
    ModelReplied,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    ToolFinished,
    Unreadable,
)
from changeover.relay.stream import Recorded

Lost: TypeAlias = HandoffRejected | CircuitFound | HandoffExpired | HandoffConditional
Kind: TypeAlias = Literal["transfer", "delegate", "return", "message", "rollback"]
BAD = frozenset({"rejected", "refused", "failed", "expired"})
"""The states of a handoff that did not lead to a result."""
ENDS: dict[type[Event | Unreadable], str] = {
    RunCompleted: "completed",
    RunFailed: "failed",
    RunCancelled: "cancelled",
}
ENDED = {
    HandoffState.FAILED: "failed",
    HandoffState.TIMEOUT: "expired",
    HandoffState.REJECTED: "rejected",
    HandoffState.RETURNED: "returned",
}
"""The ends of handoffs that no event of their own ends: they end with the run."""


class Hop(Struct):
    """The time in which an agent has the work, or would have had it."""

    id: str
    conversation: str
    agent: str
    seq: int
    """The seq of the event with which it began."""
    began: float
    until: int = 0
    """The seq of its last event; 0 while it is under way."""
    ended: float | None = None
    status: str = "running"
    """offered, running, waiting, completed, failed, cancelled; or how the offer ended: rejected, refused, expired."""
    ghost: bool = False
    """True if the agent never got the work."""
    tokens: int = 0
    replies: int = 0
    errors: int = 0


class Edge(Struct):
    """How the work came to a hop."""

    kind: Kind
    source: str
    target: str
    """The ids of two hops."""
    seq: int
    handoff: str = ""
    """The id of the handoff, if it is one."""
    state: str = "offered"
    reason: str = ""
    """Why it was made or, if it came to nothing, why it failed."""
    tokens: int = 0
    """The tokens of the context that went along."""
    seconds: float | None = None
    """Seconds until the receiver accepted it."""
    attempt: int = 1
    at: float = 0.0

    @property
    def bad(self) -> bool:
        """True if the handoff came to nothing."""
        return self.state in BAD


class Strand:
    """The hops of one conversation. A stage is what stands in one column: one hop, or those that run side by side."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.stages: list[list[Hop]] = []
        self.current: Hop | None = None
        self.open: list[Hop] | None = None
        """The stage of the offers that the current hop has made."""
        self.offered = 0.0
        """When the first of them was made."""


class Chain:
    """The hops and edges of a conversation and its delegates."""

    def __init__(self) -> None:
        self.strands: dict[str, Strand] = {}
        self.hops: list[Hop] = []
        self.edges: list[Edge] = []
        self._offers: dict[str, tuple[Edge, Hop]] = {}
        self._tried: set[tuple[str, str]] = set()
        """The conversations and calls of all offers."""
        self._asked: dict[str, ApprovalRequested] = {}
        self._faults: dict[str, str] = {}
        """Why members failed, by hop."""

    def offer_of(self, conversation: str) -> Hop | None:
        """The hop of the delegate that works in this conversation."""
        parent, call = split_child(conversation)
        found = self._offers.get(handoff_id(parent, call))
        return found[1] if found else None

    def add(self, item: Recorded) -> None:
        """Add the next event."""
        strand = self.strands.setdefault(item.conversation, Strand(item.conversation))
        if (step := STEPS.get(type(item.event))) is not None:
            step(self, strand, item, item.event)

    def finish(self, handoffs: Iterable[HandoffRecord]) -> None:
        """Set the ends of handoffs that no event of their own ends, from their records."""
        for record in handoffs:
            edge, hop = self._offers.get(record.id, (None, None))
            if edge is None or hop is None or edge.bad:
                continue
            edge.state = ENDED.get(record.state, edge.state)
            if edge.bad:
                edge.reason = record.error or self._faults.get(hop.id) or edge.reason
            elif edge.state == "offered" and record.state is HandoffState.RETURNED:
                hop.status = edge.state = "cancelled"

    def _start(self, strand: Strand, item: Recorded, event: RunStarted) -> None:
        """Begin a run: the hop of a delegate's offer is there already."""
        given = self.offer_of(strand.id)
        if given is None or strand.stages:
            self._begin(strand, item, event.agent, "message")
            return
        given.conversation, given.seq, given.began = strand.id, item.seq, item.at
        given.status, given.ghost = "running", False
        strand.stages.append([given])
        strand.current = given

    def _go_back(self, strand: Strand, item: Recorded, event: HandoffRolledBack | FellBack) -> None:
        if event.agent:
            self._begin(strand, item, event.agent, "rollback", event.reason)

    def _begin(self, strand: Strand, item: Recorded, agent: str, kind: Kind, reason: str = "") -> None:
        """Begin a hop of this agent behind the current one."""
        before = strand.current
        self._close(strand, item)
        hop = self._hop(item, agent, "running")
        strand.stages.append([hop])
        strand.current, strand.open = hop, None
        if before is not None:
            self.edges.append(Edge(kind, before.id, hop.id, item.seq, "", "accepted", reason, at=item.at))

    def _hop(self, item: Recorded, agent: str, status: str, suffix: str = "") -> Hop:
        hop = Hop(f"{task_id(item.conversation, item.position)}{suffix}", item.conversation, agent, item.seq, item.at)
        hop.status = status
        self.hops.append(hop)
        return hop

    def _close(self, strand: Strand, item: Recorded, status: str = "completed") -> None:
        if (hop := strand.current) is not None and hop.ended is None:
            hop.ended, hop.until, hop.status = item.at, item.seq, status

    def _aside(self, strand: Strand, item: Recorded, agent: str, delegate: bool) -> Hop:
        """A hop that the current one offers work to; offers of one turn stand in one column."""
        mixed = strand.open and not delegate and any(self._is_delegate(each) for each in strand.open)
        if strand.open is None or mixed:
            strand.open, strand.offered = [], item.at
            strand.stages.append(strand.open)
        hop = self._hop(item, agent, "offered", f"+{len(strand.open)}")
        hop.ghost = True
        strand.open.append(hop)
        return hop

    def _is_delegate(self, hop: Hop) -> bool:
        return any(edge.target == hop.id and edge.kind == "delegate" for edge in reversed(self.edges))

    def _offer(self, strand: Strand, item: Recorded, offer: HandoffOffered) -> None:
        source = strand.current or self._sender(strand, item, offer.sender)
        delegates = offer.mode is Mode.DELEGATE
        hop = self._aside(strand, item, offer.receiver, delegates)
        reason = offer.reason or str(offer.variables.get("reason") or "") or offer.message
        edge = Edge("delegate" if delegates else "transfer", source.id, hop.id, item.seq)
        edge.handoff, edge.reason, edge.tokens = handoff_id(strand.id, offer.call), reason, offer.after
        edge.attempt, edge.at = offer.attempt, item.at
        self.edges.append(edge)
        self._offers[edge.handoff] = (edge, hop)
        self._tried.add((strand.id, call_of(offer.call)))
        source.until = item.seq

    def _sender(self, strand: Strand, item: Recorded, sender: str) -> Hop:
        """The hop of code that makes an offer."""
        hop = strand.current = self._hop(item, sender, "completed")
        strand.stages.append([hop])
        return hop

    def _accept(self, strand: Strand, item: Recorded, accepted: HandoffAccepted) -> None:
        edge, hop = self._offers.get(handoff_id(strand.id, accepted.call), (None, None))
        if edge is None or hop is None:
            return
        edge.state, edge.seconds = "accepted", item.at - edge.at
        hop.ghost, hop.status, hop.seq, hop.began = False, "running", item.seq, item.at
        if edge.kind == "transfer":
            self._close(strand, item)
            strand.current, strand.open = hop, None

    def _work(self, strand: Strand, item: Recorded, event: Event) -> None:
        """Add a piece of work of a member; after its delegates, the work begins another hop."""
        if strand.open is not None and strand.current is not None:
            self._again(strand, item, strand.current, strand.open)
            strand.current.began = getattr(event, "began", 0.0) or item.at
        if (hop := strand.current) is None:
            return
        if isinstance(event, ModelReplied):
            hop.replies += 1
            hop.tokens += event.usage.total_tokens if event.usage else 0
        if isinstance(event, ModelFailed | FunctionFailed):
            hop.errors += 1
            self._faults[hop.id] = event.reason

    def _err(self, strand: Strand, item: Recorded, event: ToolFinished) -> None:
        if strand.current is not None:
            strand.current.errors += not event.ok

    def _again(self, strand: Strand, item: Recorded, before: Hop, aside: Sequence[Hop]) -> None:
        """Begin another hop of the current agent, which goes on after what it offered to others."""
        before.ended, before.status = before.ended or strand.offered, "completed"
        hop = self._hop(item, before.agent, "running", "again")
        strand.stages.append([hop])
        strand.current, strand.open = hop, None
        for each in aside:
            last = self._last(each)
            edge = Edge("return", last.id, hop.id, item.seq, "", "accepted", at=item.at)
            self.edges.append(edge)

    def _last(self, hop: Hop) -> Hop:
        """The hop with which the work of a delegate ended: it may have handed the task on."""
        strand = self.strands.get(hop.conversation)
        begun = strand is not None and bool(strand.stages) and strand.stages[0][0] is hop
        return strand.current or hop if strand is not None and begun else hop

    def _lose(self, strand: Strand, item: Recorded, event: Lost) -> None:
        """End an offer that came to nothing; a condition counts only if other receivers are asked first."""
        edge, hop = self._offers.get(handoff_id(strand.id, event.call), (None, None))
        if edge is None or hop is None or (isinstance(event, HandoffConditional) and not event.put_off):
            return
        match event:
            case HandoffConditional():
                edge.reason = event.words
            case CircuitFound():
                edge.reason = f"its circuit is open after {event.failures} failures in a row"
            case HandoffRejected() | HandoffExpired():
                edge.reason = event.reason
            case _:
                assert_never(event)
        edge.state = "expired" if isinstance(event, HandoffExpired) else "rejected"
        edge.seconds = item.at - edge.at
        hop.status, hop.ended, hop.until = edge.state, item.at, item.seq

    def _return(self, strand: Strand, item: Recorded, returned: HandoffReturned) -> None:
        edge, hop = self._offers.get(handoff_id(strand.id, returned.call), (None, None))
        if edge is None or hop is None or edge.bad:
            return
        failed = "cancelled" if returned.cancelled else "failed"
        edge.state = "returned" if returned.success else failed
        if not returned.success:
            edge.reason = returned.error or edge.reason
        if hop.ended is None:
            done = "completed" if returned.success else failed
            hop.status, hop.ended, hop.until = done, item.at, item.seq

    def _weigh(self, strand: Strand, item: Recorded, event: ContextPacked) -> None:
        if (found := self._offers.get(handoff_id(strand.id, event.call))) and event.after:
            found[0].tokens = event.after

    def _deny(self, strand: Strand, item: Recorded, event: CallRefused) -> None:
        if event.receiver:
            self._refuse(strand, item, event.call, event.receiver, event.reason)

    def _refuse(self, strand: Strand, item: Recorded, call: str, receiver: str, reason: str) -> None:
        """Add a handoff that was refused before an offer; the end of one that was offered is known already."""
        if (source := strand.current) is None or (strand.id, call_of(call)) in self._tried:
            return
        hop = self._aside(strand, item, receiver, False)
        hop.status, hop.ended, hop.until = "refused", item.at, item.seq
        edge = Edge("transfer", source.id, hop.id, item.seq, handoff_id(strand.id, call), "refused", reason, at=item.at)
        self.edges.append(edge)
        self._offers[edge.handoff] = (edge, hop)

    def _ask(self, strand: Strand, item: Recorded, asked: ApprovalRequested) -> None:
        self._asked[handoff_id(strand.id, asked.call)] = asked
        if strand.current is not None:
            strand.current.status = "waiting"

    def _decide(self, strand: Strand, item: Recorded, decided: ApprovalDecided) -> None:
        asked = self._asked.pop(handoff_id(strand.id, decided.call), None)
        if strand.current is not None and strand.current.ended is None:
            strand.current.status = "running"
        if asked is None or not asked.receiver or asked.kind != "approval":
            return
        if isinstance(decided.decision, Reject):
            said = f": {decided.decision.note}" if decided.decision.note else ""
            by = "no person decided in time" if decided.expired else f"rejected by {decided.by or 'a person'}"
            self._refuse(strand, item, decided.call, asked.receiver, f"{by}{said}")

    def _end(self, strand: Strand, item: Recorded, event: Event) -> None:
        self._close(strand, item, ENDS[type(event)])
        strand.open = None


STEPS: dict[type[Event | Unreadable], Callable[[Chain, Strand, Recorded, Any], None]] = {
    RunStarted: Chain._start,
    HandoffRolledBack: Chain._go_back,
    FellBack: Chain._go_back,
    HandoffOffered: Chain._offer,
    HandoffAccepted: Chain._accept,
    ContextPacked: Chain._weigh,
    HandoffRejected: Chain._lose,
    CircuitFound: Chain._lose,
    HandoffExpired: Chain._lose,
    HandoffConditional: Chain._lose,
    HandoffReturned: Chain._return,
    CallRefused: Chain._deny,
    ApprovalRequested: Chain._ask,
    ApprovalDecided: Chain._decide,
    ModelReplied: Chain._work,
    ModelFailed: Chain._work,
    FunctionReturned: Chain._work,
    FunctionFailed: Chain._work,
    ToolFinished: Chain._err,
    **dict.fromkeys(ENDS, Chain._end),
}
"""What each event means for the chain; others mean nothing."""


def chain_of(events: Iterable[Recorded], handoffs: Iterable[HandoffRecord] = ()) -> Chain:
    """The chain of a conversation by its events, which may include those of delegates, and its handoffs."""
    chain = Chain()
    for each in events:
        chain.add(each)
    chain.finish(handoffs)
    return chain

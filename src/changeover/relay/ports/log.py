"""The port of a log: entries, ownership of conversations, side tables, and what goes to the store with an append."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from changeover.bus.delivery import Outbox, Publication, Timetable
from changeover.facts import ApprovalRequest, Share, Ticket
from changeover.faults import Circuit
from changeover.guards.breaker import Ended
from changeover.relay.events import Entry
from changeover.relay.ports.declarations import Declarations
from changeover.relay.ports.health import StoreHealth, Traffic
from changeover.relay.ports.lists import Lists
from changeover.relay.ports.queue import Claim, Queue, Workers
from changeover.relay.ports.tables import Agents, Contexts, Lessons, Measures, Trials
from changeover.relay.ports.tokens import Audit, Tokens
from changeover.relay.stream import Deltas

if TYPE_CHECKING:
    from changeover.relay.projection.rows import Rows


class Spending(Struct, frozen=True, gc=False):
    """The spending of one agent in an ended run."""

    run: int
    agent: str
    elapsed: float
    """Seconds that the whole run took."""
    share: Share


class Head(Struct, frozen=True, gc=False):
    """The status of a conversation after an entry, as the store needs it."""

    status: Literal["running", "waiting", "completed", "failed", "cancelled"]
    agent: str
    working: bool
    """True if this process goes on working on the conversation and so owns it; else it has no owner."""
    due: float | None = None
    """The next time at which a process has to take up the conversation although it has no owner."""
    tickets: tuple[Ticket, ...] = ()
    """Tickets that must be in the queue from now on; one that is there already keeps its claim, and its rest ends."""
    rests: tuple[str, ...] = ()
    """Open tickets that wait for a person or a delegate: they have no owner, cannot be claimed, and their count of
    claims restarts."""
    gone: tuple[str, ...] = ()
    """Tickets that are done and leave the queue."""
    spent: tuple[Spending, ...] = ()
    """The spending of the runs that end with the entry, without their delegates."""
    edition: int | None = None
    """The last edition of the declarations that this process has seen, if a run begins with the entry."""


class Reserve(Struct, frozen=True, gc=False):
    """The part of the tree's budget that an entry reserves; negative figures release."""

    turns: int
    handoffs: int
    max_turns: int
    max_handoffs: int
    anew: bool = False
    """True if these figures are the total of a new run, so that the counters of the run before it restart."""
    tokens: int = 0
    cost: float | None = 0.0
    """Tokens and cost are already spent, so they are always counted; once over a limit, further turns are refused."""
    agents: tuple[str, ...] = ()
    """Agents that start to work in the tree."""
    max_tokens: int | None = None
    max_cost: float | None = None
    max_agents: int | None = None


class Circuits(Struct, frozen=True, gc=False):
    """The report of an entry to the circuit breakers of receivers."""

    offers: tuple[tuple[str, str], ...] = ()
    """Offered handoffs, each as (id, receiver)."""
    ended: tuple[Ended, ...] = ()
    """Handoffs that end with the entry."""
    tell: Callable[[Circuit, float], Publication | None] | None = None
    """Makes the event that tells of a circuit which the entry opens at this time, if a subscriber wants it."""


class Breakers(Protocol):
    """The circuit breakers of all receivers, shared by all processes on the store."""

    @property
    def calm(self) -> bool:
        """True if no receiver has failed yet, so that entries need to report only failures."""
        ...

    async def listed(self) -> list[Circuit]:
        """The circuits of all receivers that ever failed or were opened by hand, by name."""
        ...

    async def force(self, receiver: str, at: float) -> None:
        """Open a circuit: this receiver gets no handoffs until it is reset."""
        ...

    async def reset(self, receiver: str, at: float) -> bool:
        """Close a circuit and forget its failures; False if there were none."""
        ...


class Log(Protocol):
    """The append-only log of events, one row per append. In a store that several processes share, a process owns the
    conversations it works on for as long as it renews its lease."""

    @property
    def projects(self) -> bool:
        """True if appends have to bring rows of the read models; else lists compute them when they are read."""
        ...

    async def read(self, conversation: str, after: int = 0) -> list[Entry]:
        """The entries of a conversation from a position on."""
        ...

    async def tree(self, conversation: str) -> list[Entry]:
        """The entries of a conversation and of its delegates, by seq."""
        ...

    async def append(
        self,
        entry: Entry,
        head: Head | None,
        reserve: Reserve | None = None,
        claim: Claim | None = None,
        circuits: Circuits | None = None,
        rows: Rows | None = None,
    ) -> None:
        """Store the entry, its rows of the read models and the events that it publishes, all or nothing; and fill in
        the entry's seq.

        Raises Conflict if its position is taken or its cause is recorded already, Owned if another live process works
        on the conversation, LeaseLost if the lease of this process has run out, Exhausted if the budget of the tree
        does not allow `reserve`, CircuitsOpen if the circuit of an offer's receiver is open, EditionMoved if the
        declarations are not at the edition of the head, and ClaimLost if `claim` does not hold. Without a head it is
        an input, which any process may append: ownership stays as it is.
        """
        ...

    async def find(self, conversation: str, cause: str) -> int | None:
        """The position at which a cause was recorded; None if it was not."""
        ...

    async def unfinished(self, team: str | None = None) -> list[str]:
        """The conversations of a team, or of all, that have outstanding work and no live owner, and their roots."""
        ...

    async def approvals(self, team: str | None = None) -> list[ApprovalRequest]:
        """The approval requests that await a decision, in all conversations of a team or of all, oldest first."""
        ...

    async def at_work(self, agent: str, team: str | None = None) -> list[str]:
        """The conversations in which this agent of a team, or of any, is active now."""
        ...

    async def claim(self, conversation: str) -> bool:
        """Own a conversation from now on; False if another live process owns it."""
        ...

    async def release(self, conversation: str, position: int, rests: str = "", due: float | None = None) -> bool:
        """Give up the ownership of a conversation that waits for a person's decision or a worker's claim; `rests` names
        a ticket that rests, and `due` is as in a Head. False if its log does not end at `position` any more: another
        process appended an input, and this one still owns it."""
        ...

    async def owned(self) -> dict[str, int]:
        """The conversations that this process owns, each with the end of its log, which includes inputs of others."""
        ...

    @property
    def queue(self) -> Queue:
        """The tickets that wait to be claimed or are claimed."""
        ...

    @property
    def contexts(self) -> Contexts:
        """Stored contexts, which receivers of handoffs can fetch later."""
        ...

    @property
    def agents(self) -> Agents:
        """Profiles and switches of agents that override the declared ones."""
        ...

    @property
    def declarations(self) -> Declarations:
        """Agents, tools, skills and team settings that are declared as data."""
        ...

    @property
    def breakers(self) -> Breakers:
        """Circuit breaker state per receiver."""
        ...

    @property
    def lists(self) -> Lists:
        """The read models: conversations, tasks, messages, handoffs, approvals, and their figures."""
        ...

    @property
    def deltas(self) -> Deltas:
        """Pieces of replies on their way to readers, which are not stored."""
        ...

    @property
    def measures(self) -> Measures:
        """Figures of handoffs, for metrics."""
        ...

    @property
    def trials(self) -> Trials:
        """Results of experiments."""
        ...

    @property
    def experience(self) -> Lessons:
        """Outcomes of tasks for which the router chose the receiver."""
        ...

    @property
    def tokens(self) -> Tokens:
        """The tokens of a server's callers."""
        ...

    @property
    def audit(self) -> Audit:
        """The audit of changes to declarations and tokens."""
        ...

    @property
    def workers(self) -> Workers:
        """The workers that claim tickets."""
        ...

    @property
    def outbox(self) -> Outbox:
        """Events of the bus, and their deliveries."""
        ...

    @property
    def timetable(self) -> Timetable:
        """The state of the schedules."""
        ...

    @property
    def traffic(self) -> Traffic:
        """Counters of this process's work with the store, for metrics."""
        ...

    async def health(self) -> StoreHealth:
        """What the store holds, how fast it answers, and which processes use it."""
        ...

    async def forget(self, root: str) -> bool:
        """Remove a root conversation, its delegates, and all their rows, so that its id can be used again. False if
        there is no such root. Raises UnderWay if work in it is under way or waits in the queue."""
        ...

    def may_begin(self) -> bool:
        """True while the lease of this process holds, so that it may begin effects."""
        ...

    @property
    def epoch(self) -> int:
        """Number of times that this process acquired its lease; what it owned in an earlier epoch may have another
        owner now."""
        ...

    def changes(self, root: str, after_seq: int = 0) -> AsyncIterator[Entry]:
        """The entries of a root's tree with events after this seq, in order, then each new one as it is recorded. The
        first entry may begin before that seq."""
        ...

    async def close(self) -> None:
        """Write pending appends, give up ownership and lease, and disconnect from the store."""
        ...

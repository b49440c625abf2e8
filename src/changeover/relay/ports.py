"""Ports: the protocols of log, model, toolkit, clock and directory, and the World that effects act upon."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from changeover.agent.roster import Roster
from changeover.facts import ApprovalRequest, Share, Ticket
from changeover.guards.approval import Decision
from changeover.guards.breaker import Circuit, Ended
from changeover.messages import Message, Reply
from changeover.relay.events import Entry, Event
from changeover.relay.lists import Lists
from changeover.relay.queue import Claim, Queue
from changeover.relay.stream import Recorded, TextDelta, ThinkingDelta
from changeover.relay.tables import Agents, Contexts, Lessons, Measures, Trials
from changeover.routing.experience import Learned
from changeover.routing.load import Load
from changeover.routing.registry import Registry
from changeover.routing.routing import Routing
from changeover.tools.command import Directive
from changeover.tools.run_context import RunContext
from changeover.tools.tool import ToolDefinition

if TYPE_CHECKING:
    from changeover.relay.projection.rows import Rows


class Request(Struct, frozen=True, kw_only=True, gc=False):
    """One call of a model: what it is told, and where it stands in the conversation."""

    agent: str
    instructions: str
    messages: Sequence[Message]
    tools: tuple[ToolDefinition, ...]
    settings: Mapping[str, Any]
    conversation: str
    command: str
    attempt: int
    turn: int
    """How often this agent's model was called in this conversation before."""
    own_instructions: str | None = None
    """The agent's instructions without the briefing below them; None if there is no briefing."""
    context: RunContext | None = None
    """The facts that the briefing tells in words: the variables, and the handoff under which the agent works."""


class Model(Protocol):
    """Whatever can think."""

    async def reply(self, request: Request) -> Reply: ...

    def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        """The reply in pieces, then the same reply whole."""
        ...


class ToolOutcome(Struct, frozen=True):
    """What came of a call: a text for the model, and perhaps where to go."""

    text: str
    ok: bool = True
    directive: Directive | None = None


class Toolkit(Protocol):
    """Whatever can carry out calls."""

    def definitions(self) -> Sequence[ToolDefinition]: ...

    def misfit(self, name: str, args: dict[str, Any], context: RunContext) -> str:
        """What is wrong with these arguments, in words for the model; nothing if they fit."""
        ...

    async def call(self, name: str, args: dict[str, Any], context: RunContext) -> ToolOutcome: ...


class Clock(Protocol):
    """Time, as tests may move it."""

    def now(self) -> float: ...

    async def sleep_until(self, at: float) -> None:
        """Let time pass until then: nothing is to happen before."""
        ...

    async def alarm(self, at: float) -> None:
        """Return if it comes to be then: something else may happen before, and is wished for."""
        ...


class Spending(Struct, frozen=True, gc=False):
    """What one agent spent in a run that has ended."""

    run: int
    agent: str
    elapsed: float
    """How long the whole run took."""
    share: Share


class Head(Struct, frozen=True, gc=False):
    """How a conversation stands after an entry, for those who look from outside."""

    status: Literal["running", "waiting", "completed", "failed", "cancelled"]
    agent: str
    working: bool
    """Whether this process goes on working on it: then it owns the conversation, else nobody does."""
    due: float | None = None
    """When something happens of itself although nobody works on it."""
    tickets: tuple[Ticket, ...] = ()
    """What has to be in the queue from now on; what is there already stays as it is, and rests no longer."""
    rests: tuple[str, ...] = ()
    """Tickets that are open, and about which there is nothing to do until a person or a delegate is done: they are
    nobody's, not to be taken, and as if nobody had ever taken them."""
    gone: tuple[str, ...] = ()
    """Tickets about which there is nothing left to do."""
    spent: tuple[Spending, ...] = ()
    """What was spent in the runs that end with the entry, here and not below."""


class Reserve(Struct, frozen=True, gc=False):
    """What an entry takes of what the whole tree of a run may spend; less than nothing gives back."""

    turns: int
    handoffs: int
    max_turns: int
    max_handoffs: int
    anew: bool = False
    """This is all that the run has taken by now; whatever was counted before was another's."""
    tokens: int = 0
    cost: float | None = 0.0
    """What was spent, which nothing forbids any more; but no turn is granted if it has become too much."""
    agents: tuple[str, ...] = ()
    """Who works in it from now on."""
    max_tokens: int | None = None
    max_cost: float | None = None
    max_agents: int | None = None


class Circuits(Struct, frozen=True, gc=False):
    """What an entry means for the circuits of receivers."""

    offers: tuple[tuple[str, str], ...] = ()
    """The handoffs that it offers, each with its receiver."""
    ended: tuple[Ended, ...] = ()
    """Those that are over with it."""


class Breakers(Protocol):
    """The circuits of all receivers, as everybody sees them who shares the store."""

    @property
    def calm(self) -> bool:
        """Whether certainly nobody has failed yet: then it is enough to hear of failures."""
        ...

    async def listed(self) -> list[Circuit]:
        """Of all who ever failed, or were left alone; by their names."""
        ...

    async def force(self, receiver: str, at: float) -> None:
        """Open it: nothing is handed to this receiver until somebody resets it."""
        ...

    async def reset(self, receiver: str, at: float) -> bool:
        """Close it, and forget its failures; False if there were none."""
        ...


class Log(Protocol):
    """Where events live: append-only, one row an append. A store that several processes share also says whose turn
    it is: a process owns the conversations it works on for as long as its lease is renewed."""

    @property
    def projects(self) -> bool:
        """Whether appends have to bring rows. A log that keeps none computes them when a list is read."""
        ...

    async def read(self, conversation: str, after: int = 0) -> list[Entry]:
        """The entries from this position on."""
        ...

    async def tree(self, conversation: str) -> list[Entry]:
        """The entries of a conversation and of all below it, by seq."""
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
        """Store the entry and its rows of the read models, all or nothing, and fill in the entry's seq.

        Raise Conflict if somebody was at its position before or its cause is recorded already, Owned if another live
        process works on the conversation, LeaseLost if this process may not write any more, Exhausted if the tree may
        not spend what is to be reserved, CircuitsOpen if receivers are left alone to whom it offers something,
        ClaimLost if the claim by which it is written does not hold. Without a head it is an input to a conversation
        that somebody else works on: ownership is neither needed nor changed.
        """
        ...

    async def find(self, conversation: str, cause: str) -> int | None:
        """The position at which this cause was recorded."""
        ...

    async def unfinished(self) -> list[str]:
        """The conversations in which something is outstanding and on which no live process works, and their roots."""
        ...

    async def approvals(self) -> list[ApprovalRequest]:
        """What waits for a person's decision, in all conversations, the oldest first."""
        ...

    async def at_work(self, agent: str) -> list[str]:
        """The conversations in which this agent works now."""
        ...

    async def claim(self, conversation: str) -> bool:
        """Own this conversation from now on, unless another live process does: then False."""
        ...

    async def release(self, conversation: str, position: int, rests: str = "", due: float | None = None) -> bool:
        """Own it no longer, if its log still ends there: nothing goes on in it until a person decides, or somebody
        claims a ticket. The ticket that `rests` is as in a Head, and so is when it is `due`.
        False if it is still owned, because somebody left word meanwhile."""
        ...

    async def owned(self) -> dict[str, int]:
        """Where the logs end of the conversations that this process owns: beyond what it wrote, if others left word."""
        ...

    @property
    def queue(self) -> Queue:
        """The tickets of what is outstanding here and waits to be claimed."""
        ...

    @property
    def contexts(self) -> Contexts:
        """What is kept beside the log, for those who may ask for it later."""
        ...

    @property
    def agents(self) -> Agents:
        """What people say of agents, beside what was declared."""
        ...

    @property
    def breakers(self) -> Breakers:
        """How the receivers of handoffs do."""
        ...

    @property
    def lists(self) -> Lists:
        """The read models: conversations, tasks, messages, handoffs, approvals, and their figures."""
        ...

    @property
    def measures(self) -> Measures:
        """How handoffs went."""
        ...

    @property
    def trials(self) -> Trials:
        """What came of experiments."""
        ...

    @property
    def experience(self) -> Lessons:
        """What became of tasks whose receivers were looked for."""
        ...

    async def forget(self, root: str) -> bool:
        """Remove a conversation, all below it, and everything that was kept of them: its id is as if it had never been
        used. False if there is no such root. Raise UnderWay if anything in it is at work, or waits to be done."""
        ...

    def may_begin(self) -> bool:
        """Whether this process may begin effects: False once its lease has run out."""
        ...

    @property
    def epoch(self) -> int:
        """How often this process took its lease: what it owned under another one may be somebody else's by now."""
        ...

    def changes(self, root: str, after_seq: int = 0) -> AsyncIterator[Entry]:
        """The entries of a root's tree that hold events of a higher seq, in order, and then each new one as it is
        recorded; the first may begin before that seq."""
        ...

    async def close(self) -> None:
        """Write what is still to be written, give up what this process owns, and let go of the store."""
        ...


class Observer(Protocol):
    """Whoever is told of events after they are recorded."""

    async def noticed(self, recorded: Sequence[Recorded]) -> None: ...


Emit = Callable[[TextDelta | ThinkingDelta], None]
Intend = Callable[[Event], Awaitable[None]]
"""Commits an intent before an effect that must not happen twice."""


class Directory(Protocol):
    """What lies outside a conversation's log: it is read by an effect, and what was chosen by it is an event."""

    @property
    def registry(self) -> Registry:
        """Everybody who can be found now."""
        ...

    async def loads(self, agents: Sequence[str]) -> Mapping[str, Load]:
        """How much these have to do now."""
        ...

    async def learned(self, capability: str) -> Learned:
        """What is known of those who did tasks that needed this."""
        ...


Ask = Callable[[ApprovalRequest], Decision | Awaitable[Decision | None] | None]
"""Decides about a request on the spot; None leaves it to a person."""


class World(Struct, frozen=True):
    """What effects act upon."""

    roster: Roster
    models: Mapping[str, Model]
    toolkits: Mapping[str, Toolkit]
    clock: Clock
    ask: Ask | None = None
    """Decides about approvals on the spot."""
    attempts: int = 3
    """How often a model call is tried."""
    backoff: float = 0.5
    helper: Model | None = None
    """What sums up; else the sender's own model does."""
    contexts: Contexts | None = None
    """Where what is not sent along can be fetched."""
    registry: Registry = Registry()
    """Everybody who was declared, as somebody sees them who looks for one."""
    directory: Directory | None = None
    """What is known of them now."""
    routing: Routing = Routing()

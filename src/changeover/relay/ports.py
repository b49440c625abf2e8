"""Ports: the protocols of log, model, toolkit, clock and directory, and the World that effects act upon."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from changeover.agent.moves import UseTool
from changeover.agent.roster import Roster, retooled
from changeover.bus.delivery import KEPT, Outbox, Publication, Timetable
from changeover.bus.schedule import Schedule
from changeover.bus.subscription import Subscription
from changeover.copies import copied, copy_of
from changeover.facts import ApprovalRequest, Share, Ticket
from changeover.faults import Circuit
from changeover.guards.approval import Decision
from changeover.guards.breaker import Ended
from changeover.handoffs.strategies import Strategy
from changeover.messages import File, Message, Reply, own_messages
from changeover.relay.declarations import Declarations
from changeover.relay.events import Entry, Event
from changeover.relay.health import StoreHealth, Traffic
from changeover.relay.lists import Lists
from changeover.relay.queue import Claim, Queue, Workers
from changeover.relay.stream import Delta, Deltas, Recorded
from changeover.relay.tables import Agents, Contexts, Lessons, Measures, Trials
from changeover.relay.tokens import Audit, Tokens
from changeover.routing.experience import Learned
from changeover.routing.load import Load
from changeover.routing.registry import Registry
from changeover.routing.routing import Routing
from changeover.tools.command import Directive
from changeover.tools.run_context import RunContext
from changeover.tools.tool import ToolDefinition

if TYPE_CHECKING:
    from changeover.relay.projection.rows import Rows


@copied("messages", copy=own_messages)
@copied("settings", copy=lambda settings: copy_of(dict(settings)))
class Request(Struct, frozen=True, kw_only=True, gc=False):
    """One call of a model: its input, and its place in the conversation. What a model does with it changes neither the
    conversation nor the team's declarations."""

    agent: str
    instructions: str
    messages: Sequence[Message]
    tools: tuple[ToolDefinition, ...]
    settings: Mapping[str, Any]
    conversation: str
    command: str
    attempt: int
    turn: int
    """Number of earlier calls of this agent's model in this conversation."""
    own_instructions: str | None = None
    """The agent's instructions without the briefing below them; None if there is no briefing."""
    context: RunContext | None = None
    """The data behind the briefing: the variables, and the handoff under which the agent works."""


class Model(Protocol):
    """Replies for agents: an LLM provider, or a scripted stand-in."""

    async def reply(self, request: Request) -> Reply:
        """Answer a `request`; a ModelError says whether a retry can succeed."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Delta | Reply]:
        """The reply to a `request` in pieces, then the whole reply."""
        ...


class ToolOutcome(Struct, frozen=True):
    """The result of a tool call: a text for the model, and the directive if the tool returned one."""

    text: str
    ok: bool = True
    directive: Directive | None = None
    files: tuple[File, ...] = ()
    """Images and other files that the model reads beside the text."""
    skill: str = ""
    """The skill whose instructions the text is, if the call loaded one."""


class Toolkit(Protocol):
    """Runs the tools of one agent."""

    def tools(self) -> Sequence[UseTool]:
        """The tools that it offers now, each with the options of its declaration."""
        ...

    def misfit(self, name: str, args: dict[str, Any], context: RunContext) -> str:
        """Why these arguments do not fit the tool, in words for the model; empty if they fit."""
        ...

    async def call(self, name: str, args: dict[str, Any], context: RunContext) -> ToolOutcome: ...


class Connections(Protocol):
    """What tools reach out with: connection pools, and sessions with servers."""

    @property
    def serves(self) -> bool:
        """True if tools come from servers, which have to be asked for them."""
        ...

    @property
    def version(self) -> int:
        """Grows whenever the tools that servers offer have changed."""
        ...

    async def open(self, changed: Callable[[], None]) -> None:
        """Connect to the servers and list their tools; `changed` is called, in any thread, when these have changed."""
        ...

    async def keep(self, rosters: Iterable[Roster]) -> None:
        """End the sessions with servers that no agent of these rosters has; a call of one of their tools begins them
        again."""
        ...

    async def close(self) -> None:
        """Close all of them; the next call opens what it needs."""
        ...


class Clock(Protocol):
    """A source of time, which tests can replace."""

    def now(self) -> float: ...

    async def sleep_until(self, at: float) -> None:
        """Wait until a time, while the caller has nothing else to wait for; a test clock may jump to it."""
        ...

    async def alarm(self, at: float) -> None:
        """Return when a time is reached. The caller waits for other events too, so a test clock does not jump."""
        ...


class Spending(Struct, frozen=True, gc=False):
    """What one agent spent in an ended run."""

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
    """What was spent in the runs that end with the entry, without their delegates."""
    edition: int | None = None
    """The last edition of the declarations that this process has seen, if a run begins with the entry."""


class Reserve(Struct, frozen=True, gc=False):
    """What an entry takes from the budget that the tree of a run shares; negative figures give back."""

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
    """What an entry reports to the circuit breakers of receivers."""

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
        """Who changed declarations and tokens."""
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
        """What is known of schedules."""
        ...

    @property
    def traffic(self) -> Traffic:
        """What this process did with the store, for metrics."""
        ...

    async def health(self) -> StoreHealth:
        """What the store holds, and how it is."""
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
        """How often this process acquired its lease; what it owned in an earlier epoch may have another owner now."""
        ...

    def changes(self, root: str, after_seq: int = 0) -> AsyncIterator[Entry]:
        """The entries of a root's tree with events after this seq, in order, then each new one as it is recorded. The
        first entry may begin before that seq."""
        ...

    async def close(self) -> None:
        """Write pending appends, give up ownership and lease, and disconnect from the store."""
        ...


class Observer(Protocol):
    """Receives events after they are recorded."""

    @property
    def reads_handoffs(self) -> bool:
        """True if it reads `Recorded.handoff`, which is None for other observers."""
        ...

    def ready(self, recorded: Sequence[Recorded]) -> bool:
        """True if `noticed` would wait for nothing now; it is then called without a task of its own."""
        ...

    async def noticed(self, recorded: Sequence[Recorded]) -> None: ...


Emit = Callable[[Delta], None]
Intend = Callable[[Event], Awaitable[None]]
"""Commits the intent of an effect that must not happen twice, before it begins."""


class Directory(Protocol):
    """Facts about agents that are not in a conversation's log. Only effects read them; their choices are events."""

    async def loads(self, agents: Sequence[str]) -> Mapping[str, Load]:
        """The current load of these agents."""
        ...

    async def learned(self, capability: str) -> Learned:
        """Experience with the agents that did tasks of this capability."""
        ...


Ask = Callable[[ApprovalRequest], Decision | Awaitable[Decision | None] | None]
"""Decides about a request at once; None leaves it to a person."""


class World(Struct, frozen=True):
    """What effects act upon: the team's declarations and its ports."""

    roster: Roster
    models: Mapping[str, Model]
    toolkits: Mapping[str, Toolkit]
    clock: Clock
    ask: Ask | None = None
    """Decides about approval requests at once, if given."""
    attempts: int = 3
    """Attempts per model call."""
    backoff: float = 0.5
    """Seconds before the first retry; they double with each retry."""
    helper: Model | None = None
    """The model that summarizes and judges; without it, the sender's model summarizes."""
    contexts: Contexts | None = None
    """Where contexts are stored that a package only refers to."""
    registry: Registry = Registry()
    """The profiles of all members: the declared ones, in an engine with the overrides of the store."""
    directory: Directory | None = None
    """Current loads and experience; None outside an engine."""
    routing: Routing = Routing()
    connections: Connections | None = None
    """What the toolkits reach out with, if the team has tools that do."""
    subscriptions: tuple[Subscription, ...] = ()
    """Who gets which events of the bus."""
    schedules: tuple[Schedule, ...] = ()
    """What starts at times."""
    keep_events: float = KEPT
    """Seconds for which events are kept that all subscribers have handled."""
    trace: Callable[[], str] | None = None
    """Gives the caller's place in a trace, in which the run begins; None without telemetry."""

    @property
    def subscribers(self) -> tuple[Subscription, ...]:
        """All subscriptions, with those by which schedules start what they start."""
        return *self.subscriptions, *(each.subscription for each in self.schedules)

    @property
    def current_roster(self) -> Roster:
        """The roster with the tools that servers offer now."""
        if self.connections is None or not self.connections.serves:
            return self.roster
        return retooled(self.roster, {id: toolkit.tools() for id, toolkit in self.toolkits.items()})


class Override(Struct, frozen=True, gc=False):
    """What the caller of one run gives in place of the team's declarations. It is not recorded: a process that takes
    up the run later goes on with what the team declares."""

    strategy: Strategy | None = None
    models: Mapping[str, Model] = {}
    """The models of agents that declare none of their own."""

    def applied_to(self, world: World) -> World:
        """The world in which the run is performed."""
        return replace(world, models={**world.models, **self.models}) if self.models else world

"""The ports that effects use: model, toolkit, clock, directory and observer; and the World that holds them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from changeover.agent.moves import UseTool
from changeover.agent.roster import Roster, retooled
from changeover.bus.delivery import KEPT
from changeover.bus.schedule import Schedule
from changeover.bus.subscription import Subscription
from changeover.copies import copied, copy_of
from changeover.facts import ApprovalRequest
from changeover.guards.approval import Decision
from changeover.handoffs.strategies import Strategy
from changeover.messages import File, Message, Reply, own_messages
from changeover.relay.events import Event
from changeover.relay.ports.tables import Contexts
from changeover.relay.stream import Delta, Recorded
from changeover.routing.experience import Learned
from changeover.routing.load import Load
from changeover.routing.registry import Registry
from changeover.routing.routing import Routing
from changeover.tools.command import Directive
from changeover.tools.run_context import RunContext
from changeover.tools.tool import ToolDefinition

if TYPE_CHECKING:
    pass


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
    """The connection pools and the sessions with servers that tools use."""

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
    """The connections of the toolkits, if the team has tools that need some."""
    subscriptions: tuple[Subscription, ...] = ()
    """The team's subscriptions to events of the bus."""
    schedules: tuple[Schedule, ...] = ()
    """The team's schedules."""
    keep_events: float = KEPT
    """Seconds for which events are kept that all subscribers have handled."""
    trace: Callable[[], str] | None = None
    """Gives the caller's place in a trace, in which the run begins; None without telemetry."""

    @property
    def subscribers(self) -> tuple[Subscription, ...]:
        """All subscriptions, with one for each schedule, by which it starts its work."""
        return *self.subscriptions, *(each.subscription for each in self.schedules)

    @property
    def current_roster(self) -> Roster:
        """The roster with the tools that servers offer now."""
        if self.connections is None or not self.connections.serves:
            return self.roster
        return retooled(self.roster, {id: toolkit.tools() for id, toolkit in self.toolkits.items()})


class Override(Struct, frozen=True, gc=False):
    """Overrides of the team's declarations that the caller of one run gives. They are not recorded: a process that
    takes up the run later goes on with what the team declares."""

    strategy: Strategy | None = None
    models: Mapping[str, Model] = {}
    """The models of agents that declare none of their own."""

    def applied_to(self, world: World) -> World:
        """The world in which the run is performed."""
        return replace(world, models={**world.models, **self.models}) if self.models else world

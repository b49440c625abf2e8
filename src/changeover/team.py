"""Team: agents plus policy, the main class for users. It wires declarations, store, engine and observers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from msgspec.structs import replace

from changeover.agent.agent import Agent, Function, Member, Person
from changeover.agent.roster import Roster
from changeover.assembly import Declared, assemble, joined, override_of
from changeover.bus.delivery import KEPT
from changeover.bus.schedule import Schedule
from changeover.bus.subscription import Subscription
from changeover.conductor import Conductor, read_along
from changeover.dispatch.bus import Bus
from changeover.dispatch.dispatcher import LEASE as LEASED
from changeover.dispatch.dispatcher import BusDispatcher
from changeover.dispatch.scheduler import Schedules
from changeover.dispatch.starter import Starter
from changeover.engines.local import open_engine
from changeover.errors import ConversationNotFound, HandoffTimeoutError, MisconfiguredError, UnknownAgentError
from changeover.facts import HandoffResult, NoTakers, RunResult, T_co, Ticket, TicketStatus
from changeover.facts import State as HandoffState
from changeover.guards.guard import Guard
from changeover.guards.limits import Limits
from changeover.guards.rules import Rule
from changeover.guards.switch import Enabled
from changeover.handoffs.briefing import Briefing
from changeover.handoffs.package import HandoffPackage
from changeover.handoffs.strategies import Strategy
from changeover.handoffs.tokens import load
from changeover.ids import DEFAULT_TEAM
from changeover.inputs import (
    RunOptions,
    brokered,
    check_id,
    check_seq,
    check_texts,
    message,
    offered,
    package_of,
    with_options,
)
from changeover.observe.experiment_results import verdicts
from changeover.observe.hooks import TIMEOUT, Hook, Hooks, Observers
from changeover.observe.logs import Narrator
from changeover.observe.telemetry import Telemetry, tracing_of
from changeover.relay.editions import Editions
from changeover.relay.inputs.claims import Submit
from changeover.relay.inputs.requests import Resume, Say
from changeover.relay.package import handoff_of
from changeover.relay.ports.declarations import Declaration, Declarations
from changeover.relay.ports.engine import Engine, EngineFactory, EngineSetup
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Ask, Clock, Observer, World
from changeover.relay.prompt import Moment, Prompt
from changeover.relay.stream import StreamItem
from changeover.router import Router
from changeover.routing.experiment import Experiment
from changeover.routing.routing import Routing
from changeover.routing.verdict import Verdict
from changeover.ticket import (
    LEASE,
    TicketClaim,
    claimed,
    lease_faults,
    result_of_ticket,
    status_of,
    whole_faults,
    worker_name,
)
from changeover.union import Union
from changeover.workflows.workflow import Workflow

if TYPE_CHECKING:
    from changeover.observe.drawing.svg import Format
    from changeover.stores.store import Store


class Team(Conductor, Generic[T_co]):
    """Agents plus policy. Raises one MisconfiguredError with all faults of the declarations.

    - `members`: Agent(…), Function(…) and Person(…). `start` is the id of the one that gets the first message (default:
      the first).
    - `name`: several teams may share a store; each works only on conversations with its own name.
    - `model`: for agents without one of their own, such as "openai:gpt-5". `helper_model` writes summaries and chooses
      specialists (default: the model of the agent concerned).
    - `store`: "sqlite:///desk.db", "postgresql://…" or Store(…) (default: in memory, lost with the process).
    - `limits`: Limits(…) of a run. `guards` judge each handoff (default: Deadlock() and CircuitBreaker()), and `rules`
      act before the model does.
    - `hooks`: functions by the name of an event, each of which has `hook_timeout` seconds.
    - `telemetry`: True or Telemetry(…) for OpenTelemetry spans; needs the extra `otel`.
    - `ask`: a function of an ApprovalRequest that decides at once; by default requests wait for `Team.decide`.
    - `handoffs_enabled`: True, False, the share of conversations between 0 and 1, or a dict of those by agent.
      With `fallback=True` a sender goes on alone if its handoff cannot be made.
    - `strategy` and `briefing`: what receivers see of a conversation, unless a handoff or an agent declares its own.
    - `routing`: Routing(…), how specialists are found. `experiments` try variants in shares of the conversations.
    - `workflows`: Workflow(…)s, steps in an order that is known beforehand; see `start` and `run_workflow`.
    - `model_retries` and `tool_retries`: how often a call that fails is tried again; `tool(retries=…)` wins.
    - `clock`: a ManualClock() in tests. `engine` makes the engine from an `EngineSetup` (default: this process works).
    - `tool_modules`: the modules whose functions declarations in the store may name; data never names other code.
    - `subscriptions`: Subscription(…), which events of `team.bus` start what. `schedules`: Schedule(…), what starts at
      which times. `keep_events`: seconds for which events are kept once all subscribers handled them (30 days).
    """

    def __init__(
        self,
        members: Sequence[Agent[T_co] | Function | Person] = (),
        *,
        name: str = DEFAULT_TEAM,
        start: str | None = None,
        model: Any = None,
        helper_model: Any = None,
        limits: Limits | None = None,
        guards: Sequence[Guard] | None = None,
        rules: Sequence[Rule] = (),
        hooks: Mapping[str, Hook] | None = None,
        hook_timeout: float = TIMEOUT,
        telemetry: bool | Telemetry | None = None,
        store: str | Store | Log | None = None,
        engine: EngineFactory | None = None,
        handoffs_enabled: Enabled = True,
        fallback: bool = False,
        ask: Ask | None = None,
        clock: Clock | None = None,
        strategy: Strategy | None = None,
        briefing: Briefing | None = None,
        routing: Routing | None = None,
        experiments: Sequence[Experiment] = (),
        workflows: Sequence[Workflow] = (),
        model_retries: int = 2,
        tool_retries: int = 0,
        tool_modules: Sequence[str | ModuleType] = (),
        subscriptions: Sequence[Subscription] = (),
        schedules: Sequence[Schedule] = (),
        keep_events: float = KEPT,
    ) -> None:
        self._declared = Declared(
            members=tuple(members) if isinstance(members, list) else members,
            name=name,
            start=start,
            model=model,
            helper_model=helper_model,
            limits=limits,
            guards=guards,
            rules=tuple(rules) if isinstance(rules, list) else rules,
            hooks=hooks,
            hook_timeout=hook_timeout,
            telemetry=telemetry,
            store=store,
            engine=engine,
            handoffs_enabled=handoffs_enabled,
            fallback=fallback,
            ask=ask,
            clock=clock,
            strategy=strategy,
            briefing=briefing,
            routing=routing,
            experiments=tuple(experiments) if isinstance(experiments, list) else experiments,
            workflows=tuple(workflows) if isinstance(workflows, list) else workflows,
            model_retries=model_retries,
            tool_retries=tool_retries,
            tool_modules=tuple(tool_modules) if isinstance(tool_modules, list) else tool_modules,
            subscriptions=tuple(subscriptions) if isinstance(subscriptions, list) else subscriptions,
            schedules=tuple(schedules) if isinstance(schedules, list) else schedules,
            keep_events=keep_events,
        )
        self._set_up(assemble(self._declared))

    def _set_up(self, world: World, watch: Callable[[World], World] | None = None) -> None:
        declared, self._watch = self._declared, watch
        self._tracing = tracing_of(declared.telemetry, self._opened, lambda: self._log)
        self._bus = Bus(self._opened, world.clock, self._current_world, self._subscribe)
        self._declare(world)
        world = self._watched(world)
        self._editions = Editions(world, self._united)
        self._open, patience = _opener(declared.store)
        self._log: Log | None = None
        self._is_open = False
        self._opening = threading.Lock()
        setup = EngineSetup(self._opened, world, self._observer(), patience, self._editions)
        self._engine = (declared.engine or open_engine)(setup)
        lease = LEASED if patience is None else 3 * patience
        starter = Starter(self._engine, self._opened, world.clock, self._bus)
        self._dispatcher = BusDispatcher(self._opened, world.clock, self._engine.world, starter, lease)

    def _observer(self) -> Observer | None:
        """Receives what is recorded: telemetry, the log, and last the hooks, which may take long."""
        declared = self._declared
        hooks = Hooks(declared.hooks, declared.hook_timeout) if declared.hooks else None
        all_of_them = (self._tracing, Narrator() if declared.narrated else None, hooks)
        found: list[Observer] = [each for each in all_of_them if each is not None]
        return Observers(found) if len(found) > 1 else next(iter(found), None)

    def _declare(self, world: World) -> None:
        """Use this world as the one that code declares."""
        self._world, self._union = world, Union(self._declared, world, self._watched)

    def _united(self, edition: int, rows: Sequence[Declaration]) -> World:
        world = self._union.world(edition, rows)
        self._dispatcher.refresh(world)
        return world

    async def _current_world(self) -> World:
        return await self._engine.world()

    def _subscribe(self, subscription: Subscription) -> None:
        """Add a subscription; raises MisconfiguredError."""
        more = replace(self._declared, subscriptions=(*self._declared.subscriptions, subscription))
        self._declared, world = joined(more, (), self._world)
        self._declare(world)
        self._engine.declare(self._watched(world))
        self._dispatcher.refresh(world)

    def _watched(self, world: World) -> World:
        if self._tracing is not None:
            world = self._tracing.watched(world)
        return self._watch(world) if self._watch else world

    def _opened(self) -> Log:
        """The log, opened when it is first needed; calls may come from several threads."""
        if (log := self._log) is not None:
            return log
        with self._opening:
            if self._log is None:
                if len(self.roster.seats) > 1:
                    load()
                self._log = self._open()
            return self._log

    @property
    def name(self) -> str:
        """The name of the team, which its conversations have."""
        return self.roster.team

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def log(self) -> Log:
        return self._opened()

    @property
    def clock(self) -> Clock:
        return self._world.clock

    def on(
        self,
        store: str | Store | Log | None,
        watch: Callable[[World], World] | None = None,
        telemetry: bool | Telemetry | None = None,
        narrated: bool = False,
        engine: EngineFactory | None = None,
    ) -> Team[T_co]:
        """The same team on another store, and on another `engine` if given; `watch` may wrap the world that its effects
        act upon. `telemetry` is for a team that declares none; with `narrated` it logs the events of conversations."""
        twin, own = object.__new__(type(self)), self._declared
        told = own.telemetry if own.telemetry is not None else telemetry
        twin._declared = replace(
            own, store=store, telemetry=told, narrated=own.narrated or narrated, engine=engine or own.engine
        )
        first = self._watch
        twin._set_up(self._world, (lambda world: watch(first(world))) if watch and first else watch or first)
        return twin

    @property
    def declared(self) -> Declared:
        """The declarations that this team was built from."""
        return self._declared

    @property
    def roster(self) -> Roster:
        """The members of the team, and the handoffs that lead from one to another, as far as this process knows them:
        what another process has declared in the store is read when the next run begins."""
        return self._editions.newest.roster

    @property
    def router(self) -> Router:
        """Finds members for tasks, and changes their profiles in the store."""
        return Router(self._engine, self._opened)

    @property
    def bus(self) -> Bus:
        """The event bus: publishes events, and shows their deliveries."""
        return self._bus

    @property
    def schedules(self) -> Schedules:
        """The schedules, with their next runs; they can be run now, paused and resumed."""
        return Schedules(self._opened, self.clock, self._engine.world)

    @property
    def declarations(self) -> Declarations:
        """The agents, tools, skills and settings that the store declares for this team. What is written here is checked
        together with the code first, and holds from the next run on, in every process."""
        return self.log.declarations.checked_by(self._union.check)

    def draft(self, rows: Sequence[Declaration]) -> World:
        """The team that the code and these rows of a store would make. Nothing is written, opened or run.

        Raises MisconfiguredError with all faults.
        """
        return self._union.draft(rows)

    def register(self, *members: Member) -> None:
        """Add `members`, as if they had been declared from the start; work under way goes on.

        Raises MisconfiguredError, and then adds none of them.
        """
        self._declared, world = joined(self._declared, members, self._world)
        self._declare(world)
        self._engine.declare(self._watched(world))

    async def graph(self, conversation: str | None = None, *, format: Format = "text") -> str:
        """A drawing of the team, or of the handoffs of a `conversation`; `format` is "text", "mermaid" or "svg".
        Raises ConversationNotFound."""
        from changeover.observe.drawing.course import course_of
        from changeover.observe.drawing.diagram import plan_of
        from changeover.observe.drawing.svg import drawn

        if conversation is None:
            return drawn(plan_of(self.roster), format)
        handoffs, flows = await self.handoffs(conversation), await self.context_flow(conversation)
        events = await self.history(conversation)
        return drawn(course_of(conversation, self.roster.start, handoffs, flows, events), format)

    def thinks(self, agent: str) -> bool:
        """True if an agent has a model; one whose tickets only other programs claim may have none."""
        return agent in self._editions.newest.models

    @with_options
    async def run(self, text: str, **options: Unpack[RunOptions]) -> RunResult[T_co]:
        """Send the message `text` to the team and wait for its answer.

        - `agent`: the agent that answers (default: the active one). `conversation`: one that goes on, or a new id.
        - `context`: context variables to start with, by name; values that JSON can hold.
        - `files`: files that go with the text: paths, addresses, or bytes as File(…).
        - `limits`, `strategy` and `model`: in the place of the team's, in this run.
        - `user` and `correlation_id`: recorded, and shown to tools. `key`: the same key gives the same run.

        Raises MisconfiguredError before anything is recorded, and a ChangeoverError if the run fails, which carries the
        result so far. If a person or a worker has to act first, the result has the status "waiting".
        """
        return await self._engine.result(self._message(text, options))

    @with_options
    def run_sync(self, text: str, **options: Unpack[RunOptions]) -> RunResult[T_co]:
        """`run` for synchronous code: scripts, threads, notebooks. `text`, `agent`, `conversation`, `context`,
        `limits`, `user`, `correlation_id`, `key`, `files`, `strategy`, `model` and errors are as in `run`."""
        return self._engine.result_sync(self._message(text, options))

    @with_options
    def stream(self, text: str, **options: Unpack[RunOptions]) -> AsyncGenerator[StreamItem, None]:
        """`run` as a stream: pieces of text, recorded events, changes of the active agent, and last the result. Closing
        it cancels nothing. `text`, `agent`, `conversation`, `context`, `limits`, `user`, `correlation_id`, `key`,
        `files`, `strategy`, `model` and errors are as in `run`."""
        return read_along(self._engine.stream(self._message(text, options)))

    async def offer(self, package: HandoffPackage | Mapping[str, Any] | str) -> HandoffResult:
        """Hand a package, which may be given as JSON, to its receiver and wait for the result.

        Raises HandoffTimeoutError if the receiver takes too long. If a person has to decide first, the result says so;
        the same package with the same idempotency key gives the result later.
        """
        whole = package_of(package)
        roster = await self._roster_with(whole.metadata.receiver)
        return await self._handed(offered(roster, whole, self.clock.now()), whole)

    async def broker(
        self, capability: str, package: HandoffPackage | Mapping[str, Any] | str, *, no_takers: NoTakers | None = None
    ) -> HandoffResult:
        """`offer` to the members that have a capability, the best fit first, until one accepts. If none does, the
        package comes back or waits in the queue of the best; `no_takers` says which, by default the team's `Routing`.
        """
        whole, otherwise = package_of(package), no_takers or self._world.routing.no_takers
        return await self._handed(brokered(self.roster, capability, whole, self.clock.now(), otherwise), whole)

    async def submit(self, package: HandoffPackage | Mapping[str, Any] | str, *, key: str | None = None) -> Ticket:
        """Put a package into the queue of its receiver, where it waits until a worker claims it.

        The same key gives the same ticket; with another package it raises KeyConflict. A conversation that is at work
        on something else raises Busy.
        """
        whole = package_of(package)
        whole = replace(whole, metadata=replace(whole.metadata, idempotency_key=key)) if key else whole
        roster = await self._roster_with(whole.metadata.receiver)
        say = offered(roster, whole, self.clock.now(), queued=True)
        return await self._engine.put(Submit(replace(say, alone=True)))

    async def claim(self, agent: str, *, limit: int = 1, lease: float = LEASE, by: str = "") -> list[TicketClaim]:
        """Claim up to `limit` tickets of an `agent`, the most urgent first, each for `lease` seconds and as long as it
        is renewed; none if none waits. `by` names the worker (default: host and process). Raises UnknownAgentError."""
        if agent not in (await self._roster_with(agent)).seats:
            raise UnknownAgentError(agent, list(self.roster.seats))
        check_texts(by=by)
        if faults := [*lease_faults(lease), *whole_faults(limit=limit)]:
            raise MisconfiguredError(*faults)
        return await claimed(self._engine, self._opened, agent, by or worker_name(), lease, limit)

    async def status(self, ticket: Ticket | str) -> TicketStatus:
        """The status of a ticket; raises HandoffNotFound."""
        id = ticket.id if isinstance(ticket, Ticket) else ticket
        check_id(ticket=id)
        return await status_of(self.log, id)

    async def result(
        self, ticket: Ticket | str, *, timeout: float | None = None, cancel: bool = False
    ) -> HandoffResult:
        """Wait for the result of a ticket, which any process may work on.

        Raises TimeoutError after `timeout` seconds, and with `cancel=True` cancels the ticket then. Raises
        HandoffNotFound, and HandoffTimeoutError if no worker took it before its deadline or the worker took too long.
        """
        id = ticket.id if isinstance(ticket, Ticket) else ticket
        check_id(ticket=id)
        try:
            return _in_time(await result_of_ticket(self.log, self.roster, id, timeout))
        except TimeoutError:
            if not cancel:
                raise
        if await self.cancel(id, reason="its result did not come in time"):
            raise TimeoutError(f"{id} did not end within {timeout} s and is cancelled")
        # It ended just before it was to be cancelled.
        return _in_time(await result_of_ticket(self.log, self.roster, id))

    async def resume(self, conversation: str) -> RunResult[T_co]:
        """Wait for the current run of a `conversation`, in any process; else return its last result. A failed run
        retries its failed step. Raises ConversationNotFound."""
        check_id(conversation=conversation)
        return await self._engine.result(Resume(conversation))

    def follow(
        self, conversation: str, first: Callable[[], Awaitable[None]] | None = None, *, after: int = 0
    ) -> AsyncGenerator[StreamItem, None]:
        """`resume` of a `conversation` as a stream: the run from its beginning, new events, and last the result. A
        reader that has read a part of the run gives the `seq` of its last event as `after`, and gets the events that
        follow. `first` is awaited once no event can be missed; a decision belongs there."""
        check_id(conversation=conversation)
        check_seq(after=after)
        return read_along(self._engine.stream(Resume(conversation), first), after)

    async def prompt(self, conversation: str, seq: int) -> Prompt | None:
        """The prompt that a model got in a `conversation` for the reply with this `seq`, or for a failed attempt at
        one; None if that event is neither. It is rebuilt from the log and from the recorded versions of the store's
        declarations. Raises ConversationNotFound."""
        check_id(conversation=conversation)
        check_seq(seq=seq)
        if not (entries := await self.log.read(conversation)):
            raise ConversationNotFound(conversation)
        moment = Moment(entries, seq)
        if moment.reply is None:
            return None
        world = await self._engine.world()
        if moment.edition != world.roster.edition:
            world = await self._editions.at(moment.edition, self.log.declarations)
        return moment.prompt(world)

    async def experiments(self, measure: str = "success") -> list[Verdict]:
        """The verdicts of the team's experiments so far, by success, tokens, cost, seconds, or your own measure."""
        check_texts(measure=measure)
        return await verdicts(self.log.trials, self._declared.experiments, measure)

    @property
    def is_open(self) -> bool:
        """True from `open` to `close`."""
        return self._is_open

    async def open(self) -> None:
        """Take up unfinished work, and hand events of the bus to their subscribers until `close`; `async with` does so
        on entry."""
        self._is_open = True
        await self._engine.take_up()
        await self._dispatcher.start()

    async def close(self) -> None:
        """Stop working. Nothing that was recorded is lost; work under way can be taken up again."""
        self._is_open = False
        await self._dispatcher.stop()
        await self._engine.close()
        if self._log is not None:
            await self._log.close()
            await asyncio.sleep(0)  # so that callers that wait for the log go on before this returns
        self._log = None

    async def __aenter__(self) -> Self:
        """Open the team, take up unfinished work, and go on taking up what dead processes leave behind."""
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _roster_with(self, agent: str) -> Roster:
        """The roster; the store is asked for new declarations if it lacks this agent."""
        if agent not in self.roster.seats:
            await self._engine.world()
        return self.roster

    def _message(self, text: str, options: RunOptions) -> Say:
        """The input of a run with these options."""
        strategy, model = options.pop("strategy", None), options.pop("model", None)
        say = message(text, **options)
        if strategy is None and model is None:
            return say
        return replace(say, override=override_of(self._declared, strategy, model))

    async def _handed(self, say: Say, package: HandoffPackage) -> HandoffResult:
        run = await self._engine.result(say)
        return _in_time(handoff_of(run, package, say.spoken.no_takers is not None))


def _in_time(handoff: HandoffResult) -> HandoffResult:
    """The result; raises HandoffTimeoutError if the handoff timed out."""
    if handoff.state is HandoffState.TIMEOUT:
        raise HandoffTimeoutError(handoff)
    return handoff


def _opener(store: str | Store | Log | None) -> tuple[Callable[[], Log], float | None]:
    """A function that opens the log, and the interval in seconds at which to look for work of dead processes."""
    if store is None:
        from changeover.stores.memory.log import MemoryLog

        memory: Log = MemoryLog()
        return lambda: memory, None
    from changeover.stores.store import Store, open_log

    if isinstance(store, str):
        store = Store(store)
    if isinstance(store, Store):
        return partial(open_log, store), store.lease / 3
    given: Log = store
    return lambda: given, None

"""Team: what a user holds. It wires declarations, store, engine and observers together; it never decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace as redeclare
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from msgspec.structs import replace

from changeover.agent.agent import Member
from changeover.agent.roster import Roster
from changeover.assembly import Declared, assemble, joined
from changeover.control import Overseer
from changeover.engines.local.engine import LocalEngine
from changeover.engines.local.followers import Reading, read_along
from changeover.engines.local.home_loop import Home
from changeover.engines.local.tickets import id_of, in_time, status, submit
from changeover.errors import (
    HandoffTimeoutError,
    MisconfiguredError,
    UnknownAgentError,
)
from changeover.facts import HandoffResult, NoTakers, RunResult, Ticket, TicketStatus
from changeover.facts import State as Standing
from changeover.guards.guard import Guard
from changeover.guards.limits import Limits
from changeover.guards.rules import Rule
from changeover.guards.switch import Enabled
from changeover.handoffs.briefing import Briefing
from changeover.handoffs.package import HandoffPackage
from changeover.handoffs.strategies import Strategy
from changeover.handoffs.tokens import load
from changeover.inputs import RunOptions, Said, brokered, check_texts, offered, package_of, said
from changeover.observe.experiment_results import verdicts
from changeover.observe.hooks import Hook, Hooks
from changeover.relay.events import UserSpoke
from changeover.relay.package import handoff_of
from changeover.relay.ports import Ask, Clock, Log, World
from changeover.relay.stream import StreamItem
from changeover.router import Router
from changeover.routing.experiment import Experiment
from changeover.routing.routing import Routing
from changeover.routing.verdict import Verdict
from changeover.stores.memory.log import MemoryLog
from changeover.ticket import LEASE, TicketClaim, claimed, lease_faults, worker_name

if TYPE_CHECKING:
    from changeover.stores.store import Store

T = TypeVar("T")


class Team(Overseer):
    """Agents plus policy."""

    def __init__(
        self,
        members: Sequence[Member],
        *,
        start: str | None = None,
        model: Any = None,
        helper_model: Any = None,
        limits: Limits | None = None,
        guards: Sequence[Guard] | None = None,
        rules: Sequence[Rule] = (),
        hooks: Mapping[str, Hook] | None = None,
        store: str | Store | Log | None = None,
        engine: Any = None,
        handoffs_enabled: Enabled = True,
        fallback: bool = False,
        ask: Ask | None = None,
        clock: Clock | None = None,
        strategy: Strategy | None = None,
        briefing: Briefing | None = None,
        routing: Routing | None = None,
        experiments: Sequence[Experiment] = (),
    ) -> None:
        self._declared = Declared(
            tuple(members) if isinstance(members, list) else members,
            start=start,
            model=model,
            helper_model=helper_model,
            limits=limits,
            guards=guards,
            rules=tuple(rules) if isinstance(rules, list) else rules,
            hooks=hooks,
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
        )
        self._set_up(assemble(self._declared))

    def _set_up(self, world: World) -> None:
        hooks, store = self._declared.hooks, self._declared.store
        self._world = world
        self._hooks = Hooks(hooks) if hooks else None
        self._open, self._patience = _opener(store)
        self._log: Log | None = None
        self._engine: LocalEngine | None = None
        self._engines: list[LocalEngine] = []
        self._home = Home()

    def on(self, store: str | Store | Log | None, watch: Callable[[World], World] | None = None) -> Team:
        """The same team on another store; `watch` may wrap what its effects act upon."""
        twin = object.__new__(type(self))
        twin._declared = redeclare(self._declared, store=store)
        twin._set_up(watch(self._world) if watch else self._world)
        return twin

    @property
    def roster(self) -> Roster:
        """Who is in the team, and which ways lead from one member to another."""
        return self._world.roster

    @property
    def router(self) -> Router:
        """Who fits a task, who there is, and what the store says of them."""
        return Router(self.on_engine)

    def register(self, member: Member) -> None:
        """Take in one more member, as if it had been there from the start; what is under way goes on."""
        self._declared, self._world = joined(self._declared, member, self._world)
        for engine in self._engines:
            engine.directory.declare(self._world)

    def thinks(self, agent: str) -> bool:
        """Whether an agent has a model of its own; one that only others serve may have none."""
        return agent in self._world.models

    async def run(self, text: str, **options: Unpack[RunOptions]) -> RunResult:
        """Say something to the team and wait for its answer."""
        return await self._home.carry(partial(self._run, *said(self.roster, text, **options)))

    def run_sync(self, text: str, **options: Unpack[RunOptions]) -> RunResult:
        """`run` for code that does not await: scripts, threads, notebooks."""
        return self._home.wait(partial(self._run, *said(self.roster, text, **options)))

    async def stream(self, text: str, **options: Unpack[RunOptions]) -> AsyncGenerator[StreamItem, None]:
        """`run`, read along: pieces of text, recorded events, and last the result. Leaving it cancels nothing."""
        told, reading = said(self.roster, text, **options), Reading()
        answer = asyncio.ensure_future(self._home.carry(partial(self._run, *told, reading)))
        try:
            async for item in reading.items(answer):
                yield item
        finally:
            reading.leave(answer)

    async def offer(self, package: HandoffPackage | Mapping[str, Any] | str) -> HandoffResult:
        """Hand a package to its receiver and wait for what comes of it; its JSON form will do.

        Raise HandoffTimeoutError if the receiver takes too long. Where somebody has to decide first, the result says
        so, and the same package with the same idempotency key gives what came of it later.
        """
        whole = package_of(package)
        return await self._handed(offered(self.roster, whole, self._world.clock.now()), whole)

    async def broker(
        self, capability: str, package: HandoffPackage | Mapping[str, Any] | str, *, no_takers: NoTakers | None = None
    ) -> HandoffResult:
        """`offer` to whoever can do it: all who have the capability are asked in turn, those who fit best first, until
        one takes it. If nobody does it comes back, or waits in the queue of the best; what `no_takers` leaves open is
        said by the team's `Routing`."""
        whole, otherwise = package_of(package), no_takers or self._world.routing.no_takers
        told = brokered(self.roster, capability, whole, self._world.clock.now(), otherwise)
        return await self._handed(told, whole)

    async def submit(self, package: HandoffPackage | Mapping[str, Any] | str, *, key: str | None = None) -> Ticket:
        """Put a package into the queue of its receiver, where it waits until somebody claims it.

        The same key gives the same ticket; with another package it raises KeyConflict. A conversation that is at work
        on something else raises Busy.
        """
        whole = package_of(package)
        whole = replace(whole, metadata=replace(whole.metadata, idempotency_key=key)) if key else whole
        told = offered(self.roster, whole, self._world.clock.now(), queued=True)
        return await self.on_engine(lambda engine: submit(engine, *told))

    async def claim(self, agent: str, *, limit: int = 1, lease: float = LEASE, by: str = "") -> list[TicketClaim]:
        """Claim up to so many tickets of an agent, the most urgent first; each is ours for `lease` seconds, and for as
        long as it is renewed. Nothing to do gives an empty list."""
        if agent not in self.roster.seats:
            raise UnknownAgentError(agent, list(self.roster.seats))
        check_texts(by=by)
        if faults := [*lease_faults(lease), *([] if limit >= 1 else [f"limit={limit!r} must be 1 or more"])]:
            raise MisconfiguredError(*faults)
        return await claimed(self.on_engine, agent, by or worker_name(), lease, limit)

    async def status(self, ticket: Ticket | str) -> TicketStatus:
        """How a ticket stands; raises HandoffNotFound if there is none of this id."""
        return await self.on_engine(lambda engine: status(engine, id_of(ticket)))

    async def result(self, ticket: Ticket | str, *, timeout: float | None = None) -> HandoffResult:
        """Wait for what comes of a ticket, in whatever process. Raise TimeoutError if that takes longer than `timeout`
        seconds, HandoffTimeoutError if nobody took it before its deadline or whoever did took too long."""
        handoff = await self.on_engine(lambda engine: in_time(engine, id_of(ticket), timeout))
        if handoff.state is Standing.TIMEOUT:
            raise HandoffTimeoutError(handoff)
        return handoff

    async def resume(self, conversation: str) -> RunResult:
        """Wait for the run under way, wherever it is; else the last result. A run that failed tries its step again."""
        return await self.on_engine(lambda engine: _resumed(engine, conversation))

    async def follow(
        self, conversation: str, first: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncGenerator[StreamItem, None]:
        """`resume`, read along: the run from its beginning, what happens now, and last the result.

        `first` is awaited when nothing can be missed any more; a decision belongs there.
        """
        reading = Reading()
        await self.on_engine(lambda engine: read_along(engine, conversation, reading))
        answer = asyncio.ensure_future(self._followed(conversation, first, reading))
        try:
            async for item in reading.items(answer):
                yield item
        finally:
            reading.leave(answer)

    async def experiments(self, measure: str = "success") -> list[Verdict]:
        """What the team's experiments say so far, by success, tokens, cost, seconds, or a measure of your own."""
        return await self.on_engine(lambda engine: verdicts(engine.log.trials, self._declared.experiments, measure))

    async def close(self) -> None:
        """Stop working. Nothing that was recorded is lost; what was under way can be taken up again."""
        await self._home.carry(self._stop)
        self._home.leave()

    async def __aenter__(self) -> Self:
        """Open the team, take up what was left unfinished, and go on taking up what dead processes leave behind."""
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def on_engine(self, work: Callable[[LocalEngine], Awaitable[T]], /) -> T:
        """Do something with the engine, on the loop on which it lives; for the rooms that are built upon this one."""

        async def done() -> T:
            return await work(self._running())

        return await self._home.carry(done)

    async def open(self) -> None:
        """What `async with` does first: take up what was left unfinished, now and from now on."""
        await self._home.carry(self._recover)

    def _running(self) -> LocalEngine:
        """The engine of this loop, with which it lives and dies; the store is opened when it is first needed."""
        if self._engine is None or self._engine.loop is not self._home.loop:
            if len(self.roster.seats) > 1:
                load()
            self._log = self._log or self._open()
            patience = self._patience or 1.0
            self._engine = LocalEngine(self._log, self._world, self._hooks, patience, self._elsewhere)
            self._engines = [*(other for other in self._engines if not other.loop.is_closed()), self._engine]
            if self._patience is not None:
                self._engine.keep_watch(recover=False)
        return self._engine

    def _elsewhere(self, conversation: str) -> bool:
        """Whether another loop of this process works on a conversation, and is free to go on."""
        if len(self._engines) < 2:
            return False
        others = [other for other in self._engines if other is not self._engine]
        return any(other.busy(conversation) and other.loop not in self._home.blocked for other in others)

    async def _handed(self, told: Said, package: HandoffPackage) -> HandoffResult:
        run = await self._home.carry(partial(self._run, *told))
        handoff = handoff_of(run, package, told.spoken.no_takers is not None)
        if handoff.state is Standing.TIMEOUT:
            raise HandoffTimeoutError(handoff)
        return handoff

    async def _run(self, conversation: str, spoken: UserSpoke, key: str, reading: Reading | None = None) -> RunResult:
        engine = self._running()
        if reading is None:
            _, answer = await engine.speak(conversation, spoken, key)
            return await answer
        where, answer = await engine.speak(conversation, spoken, key, reading.put)
        reading.put(where)
        try:
            return await answer
        finally:
            engine.leave(where[0], reading.put)

    async def _followed(
        self, conversation: str, first: Callable[[], Awaitable[None]] | None, reading: Reading
    ) -> RunResult:
        try:
            if first is not None:
                await first()
            return await self.resume(conversation)
        finally:
            await self.on_engine(lambda engine: _left(engine, conversation, reading))

    async def _recover(self) -> None:
        await self._running().recover()
        if self._patience is not None:
            self._running().keep_watch(recover=True)

    async def _stop(self) -> None:
        if self._engine is not None:
            await self._engine.close()
        if self._log is not None:
            await self._log.close()
            await asyncio.sleep(0)  # whoever waited is told before this returns
        for model in (*self._world.models.values(), self._world.helper):
            if close_clients := getattr(model, "close_clients", None):
                await close_clients()
        self._engine = self._log = None


async def _resumed(engine: LocalEngine, conversation: str) -> RunResult:
    return await (await engine.resume(conversation))


async def _left(engine: LocalEngine, conversation: str, reading: Reading) -> None:
    engine.leave(conversation, reading.put)


def _opener(store: str | Store | Log | None) -> tuple[Callable[[], Log], float | None]:
    """How to get at the log, without opening it yet; and how long other processes that share it may be silent."""
    if store is None:
        memory: Log = MemoryLog()
        return lambda: memory, None
    from changeover.stores.store import Store, open_log

    if isinstance(store, str):
        store = Store(store)
    if isinstance(store, Store):
        return partial(open_log, store), store.lease / 3
    given: Log = store
    return lambda: given, None

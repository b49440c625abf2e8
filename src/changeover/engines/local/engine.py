"""LocalEngine: the Engine port in this process, on an event loop to which it carries all calls itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from changeover.engines.local.dispatcher import Dispatcher
from changeover.engines.local.home_loop import HomeLoop
from changeover.engines.local.stream import Reading
from changeover.engines.placement import InProcess, Placement
from changeover.facts import RunResult
from changeover.handoffs.package import HandoffPackage
from changeover.relay.commands import Effect
from changeover.relay.editions import Editions
from changeover.relay.events import Event
from changeover.relay.inputs.claims import Accept, AnswerOffer, End, Finish, GiveBack
from changeover.relay.inputs.control import Cancel, RollBack
from changeover.relay.inputs.requests import Resume, Say
from changeover.relay.perform.calls import perform
from changeover.relay.ports.engine import EngineSetup
from changeover.relay.ports.queue import Taken
from changeover.relay.ports.world import World
from changeover.relay.stream import StreamItem

P = ParamSpec("P")
T = TypeVar("T")


def at_home(
    method: Callable[Concatenate[LocalEngine, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[LocalEngine, P], Awaitable[T]]:
    """Run a method on the engine's home loop, whichever loop calls it."""

    @wraps(method)
    def carried(self: LocalEngine, *args: P.args, **named: P.kwargs) -> Awaitable[T]:
        return self._home.carry(partial(method, self, *args, **named))

    return cast("Callable[Concatenate[LocalEngine, P], Awaitable[T]]", carried)


class LocalEngine:
    """Performs conversations in this process. There is one dispatcher per event loop that was the home loop."""

    def __init__(self, setup: EngineSetup) -> None:
        self._setup = setup
        self._editions = setup.editions or Editions(setup.world)
        self._home = HomeLoop()
        self._dispatcher: Dispatcher | None = None
        self._dispatchers: list[Dispatcher] = []

    @at_home
    async def put(self, input: Any, /) -> Any:
        """Record an input and go on from it."""
        here = self._here()
        if isinstance(input, Cancel):
            return await here.withdrawals.cancel(input)
        if isinstance(input, RollBack):
            return await here.withdrawals.roll_back(input)
        if isinstance(input, Accept | AnswerOffer | Finish | GiveBack):
            return await here.claims.put(input)
        return await here.put(input)

    @at_home
    async def result(self, input: Say | Resume, /, reading: Reading | None = None) -> RunResult:
        """Put an input, and wait until its run has ended or waits for a person or a worker."""
        return await self._here().result(input, reading)

    def result_sync(self, input: Say | Resume, /) -> RunResult:
        """`result` for code that cannot await."""
        return self._home.wait(partial(self._result, input))

    async def _result(self, input: Say | Resume) -> RunResult:
        return await self._here().result(input)

    async def stream(
        self, input: Say | Resume, /, first: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncGenerator[StreamItem, None]:
        """`result` as a stream."""
        reading = Reading()
        if isinstance(input, Resume):
            await self._attach(input.conversation, reading)
        answer = asyncio.ensure_future(self._streamed(input, first, reading))
        try:
            async for item in reading.items(answer):
                yield item
        finally:
            reading.leave(answer)

    async def _streamed(
        self, input: Say | Resume, first: Callable[[], Awaitable[None]] | None, reading: Reading
    ) -> RunResult:
        try:
            if first is not None:
                await first()
            return await self.result(input, reading)
        finally:
            if isinstance(input, Resume):
                await self._leave(reading)

    @at_home
    async def _attach(self, conversation: str, reading: Reading) -> None:
        here = self._here()
        await reading.attach(await here.conversations.get(conversation), here.log)

    @at_home
    async def _leave(self, reading: Reading) -> None:
        reading.part()

    @at_home
    async def take_up(self) -> None:
        """Go on with unfinished conversations, now and until `close`."""
        await self._here().take_up()

    @at_home
    async def claim(self, agents: Sequence[str], by: str, lease: float, limit: int) -> list[Taken]:
        """Claim tickets of these agents."""
        return await self._here().claims.take(agents, by, lease, limit)

    @at_home
    async def package(self, taken: Taken) -> Callable[[], HandoffPackage]:
        """A function that builds the package of a claimed ticket."""
        return await self._here().claims.package(taken)

    @at_home
    async def serve(self, taken: Taken, by: str) -> End:
        """Work on a claimed ticket."""
        return await self._here().claims.serve(taken, by)

    @at_home
    async def release(self, taken: Taken, by: str, reason: str | None) -> None:
        """Stop serving a ticket."""
        await self._here().claims.release(taken, by, reason)

    @at_home
    async def room(self, agent: str) -> float:
        """Number of further tasks that an agent can take now."""
        return await self._here().directory.room(agent)

    @at_home
    async def perform(self, effect: Effect) -> Event:
        """The outcome of an effect that belongs to no conversation."""
        return await perform(await self._here().directory.look(), effect, _unrecorded)

    @at_home
    async def world(self) -> World:
        """The declared team, with the store's changes to its agents."""
        return await self._here().directory.look()

    def declare(self, world: World) -> None:
        """Use this world from now on."""
        self._editions.declare(world)
        for dispatcher in self._dispatchers:
            dispatcher.directory.declare()

    @at_home
    async def forget(self, conversation: str) -> bool:
        """Remove a conversation."""
        return await self._here().forget(conversation)

    async def close(self) -> None:
        """Stop performing, release models and connections, and stop the engine's own loop, if it has one."""
        await self._home.carry(self._stop)
        self._home.leave()

    async def _stop(self) -> None:
        if self._dispatcher is not None:
            await self._dispatcher.close()
            await asyncio.sleep(0)  # callers that waited are told before the loop ends
        self._dispatcher = None
        worlds = self._editions.worlds
        for model in {
            id(model): model for world in worlds for model in (*world.models.values(), world.helper)
        }.values():
            if close_clients := getattr(model, "close_clients", None):
                await close_clients()
        if (connections := self._editions.newest.connections) is not None:
            await connections.close()

    def _here(self) -> Dispatcher:
        """The dispatcher of the home loop; the store is opened when one is first needed."""
        if self._dispatcher is None or self._dispatcher.loop is not self._home.loop:
            setup, place = self._setup, self._placement()
            self._dispatcher = Dispatcher(setup.log(), self._editions, setup.observer, setup.patience, place)
            alive = [other for other in self._dispatchers if not other.loop.is_closed()]
            self._dispatchers = [*alive, self._dispatcher]
        return self._dispatcher

    def _placement(self) -> Placement:
        """The placement of the next dispatcher."""
        return InProcess(self._is_elsewhere)

    def _is_elsewhere(self, conversation: str) -> bool:
        """True if another loop of this process works on a conversation, and is not blocked."""
        if len(self._dispatchers) < 2:
            return False
        others = [other for other in self._dispatchers if other is not self._dispatcher]
        return any(other.busy(conversation) and other.loop not in self._home.blocked for other in others)


async def _unrecorded(event: Event) -> None:
    raise AssertionError("only tools have intents, and they belong to conversations")

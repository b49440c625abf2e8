"""The port of an engine: what teams, claims, workers and commands speak to, and what an engine is made from."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar, overload

from msgspec import Struct

from changeover.facts import RunResult
from changeover.handoffs.package import HandoffPackage
from changeover.relay.commands import Effect
from changeover.relay.editions import Editions
from changeover.relay.events import Event
from changeover.relay.inputs.claims import Accept, End, GiveBack
from changeover.relay.inputs.control import Cancel
from changeover.relay.inputs.requests import Input, Resume, Say
from changeover.relay.ports.log import Log
from changeover.relay.ports.queue import Taken
from changeover.relay.ports.world import Observer, World
from changeover.relay.stream import StreamItem

T = TypeVar("T")


class Engine(Protocol):
    """Performs the commands that conversations have outstanding, and records what callers put into them.

    Callers may be on any event loop; an engine that lives on one carries calls there itself. Whatever only reads or
    writes the store takes a `Log` and no engine.
    """

    @overload
    def put(self, input: Input[T], /) -> Awaitable[T]: ...
    @overload
    def put(self, input: Cancel, /) -> Awaitable[bool]: ...
    @overload
    def put(self, input: Accept | GiveBack, /) -> Awaitable[None]: ...
    def put(self, input: Any, /) -> Awaitable[Any]:
        """Record an input, go on from it, and return its outcome; of a cancellation when the run has ended.

        Raises what the input raises, ClaimLost if the claim under which it comes does not hold, and WrittenByNewer if
        a newer version wrote the conversation.
        """
        ...

    def result(self, input: Say | Resume, /) -> Awaitable[RunResult]:
        """Put an input, and wait until its run has ended or waits for a person or a worker."""
        ...

    def result_sync(self, input: Say | Resume, /) -> RunResult:
        """`result` for code that cannot await: blocks the calling thread."""
        ...

    def stream(
        self, input: Say | Resume, /, first: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncGenerator[StreamItem, None]:
        """`result`, read along: deltas, recorded events, and last the result. A resumed run is read from its start.

        `first` is awaited once no event can be missed, before the input is put.
        """
        ...

    def take_up(self) -> Awaitable[None]:
        """Go on with all unfinished conversations that no live process works on, now and until `close`."""
        ...

    def claim(self, agents: Sequence[str], by: str, lease: float, limit: int) -> Awaitable[list[Taken]]:
        """Claim up to `limit` tickets of these agents for `lease` seconds, the most urgent first."""
        ...

    def package(self, taken: Taken) -> Awaitable[Callable[[], HandoffPackage]]:
        """A function that builds the package of a claimed ticket; raises ClaimLost if nothing is left to do."""
        ...

    def serve(self, taken: Taken, by: str) -> Awaitable[End]:
        """Let this engine's agent work on a claimed ticket until it is done, rests, or is lost."""
        ...

    def release(self, taken: Taken, by: str, reason: str | None) -> Awaitable[None]:
        """Stop serving a ticket: give it back with a reason, or drop it because another worker has it (None)."""
        ...

    def room(self, agent: str) -> Awaitable[float]:
        """Number of further tasks that an agent can take now; infinite if it declares no limit."""
        ...

    def perform(self, effect: Effect) -> Awaitable[Event]:
        """The outcome of an effect that belongs to no conversation, such as finding a receiver."""
        ...

    def world(self) -> Awaitable[World]:
        """The team as code and store declare it now, with the current changes that the store holds for its agents."""
        ...

    def declare(self, world: World) -> None:
        """Use this world from now on."""
        ...

    def forget(self, conversation: str) -> Awaitable[bool]:
        """Remove a conversation; False if there is none. Raises UnderWay while something goes on in it."""
        ...

    def close(self) -> Awaitable[None]:
        """Stop performing, and release models and connections. What is recorded stays; what was in flight is
        outstanding again."""
        ...


class EngineSetup(Struct, frozen=True):
    """What a team gives to the function that makes its engine."""

    log: Callable[[], Log]
    """Opens the log when it is first called; the team closes it."""
    world: World
    observer: Observer | None = None
    patience: float | None = None
    """Seconds that other processes on the store may be silent before their work is taken over; None if the store is not
    shared."""
    editions: Editions | None = None
    """`world` with what the store declares; None if code alone declares the team."""


EngineFactory = Callable[[EngineSetup], Engine]

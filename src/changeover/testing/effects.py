"""Effects: records which effects a team began and under which key, and checks the histories its models receive."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from msgspec.structs import replace

from changeover.agent.agent import Function, Person
from changeover.agent.moves import UseTool
from changeover.agent.roster import Seat
from changeover.ids import effect_key
from changeover.messages import Reply
from changeover.relay.events import ToolFinished
from changeover.relay.perform.callbacks import called
from changeover.relay.ports.log import Log
from changeover.relay.ports.world import Model, Request, Toolkit, ToolOutcome, World
from changeover.relay.stream import TextDelta, ThinkingDelta
from changeover.testing.checkers import assert_valid_history
from changeover.tools.run_context import RunContext


class Effects:
    """The effects that one life of a process began. A key is `conversation:command`, the same in every life."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.once: set[str] = set()
        """Keys of at-most-once tools."""
        self.conversations: set[str] = set()
        self._requests: list[Request] = []

    def watch(self, world: World) -> World:
        """The same world, with every effect recorded here."""
        seats = {id: self._watched(seat) for id, seat in world.roster.seats.items()}
        steps = {id: self._watched_function(each) for id, each in world.roster.steps.items()}
        return replace(
            world,
            roster=replace(world.roster, seats=seats, steps=steps),
            models={id: WatchedModel(model, self) for id, model in world.models.items()},
            helper=WatchedModel(world.helper, self) if world.helper else None,
            toolkits={id: WatchedToolkit(kit, _once(seats[id]), self) for id, kit in world.toolkits.items()},
        )

    def note(self, conversation: str, command: str, once: bool = False) -> None:
        self.conversations.add(conversation)
        key = effect_key(conversation, command)
        self.keys.add(key)
        if once:
            self.once.add(key)

    def note_request(self, request: Request) -> None:
        self.note(request.conversation, request.command)
        self._requests.append(request)

    def check_histories(self) -> None:
        for request in self._requests:
            assert_valid_history(request)

    async def done(self, log: Log) -> set[str]:
        """The keys of commands whose outcome is in the log."""
        entries = [entry for id in self.conversations for entry in await log.read(id)]
        return {effect_key(entry.conversation, entry.cause) for entry in entries}

    async def unknown(self, log: Log) -> bool:
        """True if the log holds a tool call with an unknown outcome."""
        entries = [entry for id in self.conversations for entry in await log.read(id)]
        return any(isinstance(event, ToolFinished) and event.unknown for entry in entries for event in entry.events)

    def _watched(self, seat: Seat | Function | Person) -> Seat | Function | Person:
        return self._watched_function(seat) if isinstance(seat, Function) else seat

    def _watched_function(self, seat: Function) -> Function:
        fn = seat.fn

        async def call(context: RunContext) -> Any:
            self.note(context.conversation, context.command)
            return await called(fn, context)

        return Function(seat.id, call, name=seat.name, description=seat.description)


class WatchedModel:
    """A model whose calls are recorded."""

    def __init__(self, model: Model, effects: Effects) -> None:
        self._model, self._effects = model, effects

    async def reply(self, request: Request) -> Reply:
        self._effects.note_request(request)
        return await self._model.reply(request)

    def stream(self, request: Request) -> AsyncIterator[TextDelta | ThinkingDelta | Reply]:
        self._effects.note_request(request)
        return self._model.stream(request)


class WatchedToolkit:
    """A toolkit whose calls are recorded."""

    def __init__(self, toolkit: Toolkit, once: frozenset[str], effects: Effects) -> None:
        self._toolkit, self._once, self._effects = toolkit, once, effects

    def tools(self) -> Sequence[UseTool]:
        return self._toolkit.tools()

    def misfit(self, name: str, args: dict[str, Any], context: RunContext) -> str:
        return self._toolkit.misfit(name, args, context)

    async def call(self, name: str, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        self._effects.note(context.conversation, context.command, name in self._once)
        return await self._toolkit.call(name, args, context)


def _once(seat: Seat | Function | Person) -> frozenset[str]:
    """Names of the at-most-once tools of an agent."""
    moves = seat.moves.items() if isinstance(seat, Seat) else ()
    return frozenset(name for name, move in moves if isinstance(move, UseTool) and move.declared.at_most_once)

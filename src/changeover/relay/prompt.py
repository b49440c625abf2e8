"""Prompt: what a model was sent for a reply, rebuilt from the log and from the declarations of the run's edition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from changeover.messages import Message, ToolResult, User
from changeover.relay.commands import CallModel
from changeover.relay.decide.decision import decide
from changeover.relay.events import Entry, ModelFailed, ModelReplied
from changeover.relay.perform.request import declared_for, request_of
from changeover.relay.ports.world import World
from changeover.relay.state import State
from changeover.tools.tool import ToolDefinition

M = TypeVar("M", bound=Message)

CHANGED = "the team's code no longer calls a model here, so the request cannot be rebuilt"
UNKNOWN = "a function wrote the instructions, and its text was not recorded"
CONDITIONS = "conditions of tools were judged again, by the recorded context"


class Prompt(Struct, frozen=True, kw_only=True):
    """The request that a model was sent for one reply. It is rebuilt from the declarations: those of code as they are
    now, those of the store as they were then."""

    agent: str
    attempt: int = 1
    """The number of this attempt at the reply, from 1."""
    edition: int = 0
    """The edition of the store's declarations; 0 if code alone declares the team."""
    instructions: str = ""
    messages: tuple[Message, ...] = ()
    """The messages, without the bytes of files."""
    tools: tuple[ToolDefinition, ...] = ()
    gaps: tuple[str, ...] = ()
    """Possible differences from what was sent, in words."""
    rebuilt: bool = True


class Moment:
    """A conversation just before the event of this seq: a reply of a model, or a failed attempt at one."""

    def __init__(self, entries: Sequence[Entry], seq: int) -> None:
        self.reply: ModelReplied | ModelFailed | None = None
        """The recorded reply or failure; None if another event was recorded there."""
        self._texts: dict[int, str] = {}
        self._state = State(entries[0].conversation)
        for entry in entries:
            self._state.at = entry.at
            for place, event in enumerate(entry.events, entry.seq):
                if place == seq:
                    self.reply = event if isinstance(event, ModelReplied | ModelFailed) else None
                    return
                if isinstance(event, ModelReplied) and event.instructions:
                    self._texts[self._state.position] = event.instructions
                self._state.apply(event)

    @property
    def edition(self) -> int:
        """The edition of the store's declarations that the run works with."""
        return self._state.run.edition if self._state.run else 0

    def prompt(self, world: World) -> Prompt:
        """The request that the model was sent, by the declarations of this world."""
        assert self.reply is not None
        agent, edition = self.reply.agent, self.edition
        due = decide(self._state, world.roster) if agent in world.roster.seats else ()
        command = next((each for each in due if isinstance(each, CallModel)), None) if isinstance(due, list) else None
        if command is None:
            return Prompt(agent=agent, edition=edition, gaps=(CHANGED,))
        declared, model = declared_for(world, command)
        recorded = declared if isinstance(declared, str) else self._recorded()
        request = request_of(world, command, recorded or "", model)
        unsure = {UNKNOWN: recorded is None, CONDITIONS: bool(getattr(world.roster.seats[agent], "conditional", ()))}
        return Prompt(
            agent=agent,
            attempt=command.attempt,
            edition=edition,
            instructions=request.instructions,
            messages=tuple(_light(each) for each in request.messages),
            tools=request.tools,
            gaps=tuple(words for words, holds in unsure.items() if holds),
        )

    def _recorded(self) -> str | None:
        """The text that the function of the agent wrote for this call; None if it was not recorded."""
        if not isinstance(self.reply, ModelReplied):
            return None
        return self.reply.instructions or self._texts.get(self.reply.instructions_at)


def _light(message: M) -> M:
    """The message without the bytes of its files."""
    if not isinstance(message, User | ToolResult) or not message.files:
        return message
    return replace(message, files=tuple(replace(each, data=b"") for each in message.files))

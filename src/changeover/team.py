"""Team: what a user holds. It wires declarations, store, engine and observers together; it never decides."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar, Unpack

import msgspec

from changeover.agent.agent import Agent, Function, Member
from changeover.agent.faults import team_faults
from changeover.agent.roster import Roster, Seat, seat
from changeover.engines.clock import SystemClock
from changeover.engines.home import Home
from changeover.engines.local import LocalEngine
from changeover.engines.reading import Reading
from changeover.errors import ConversationNotFound, MisconfiguredError, UnknownAgentError
from changeover.facts import HandoffRecord, RunResult
from changeover.guards.limits import Limits
from changeover.handoffs.context import METADATA
from changeover.handoffs.strategies import Strategy
from changeover.observe.hooks import Hook, Hooks, hook_faults
from changeover.relay.events import Entry, UserSpoke
from changeover.relay.perform import World
from changeover.relay.ports import Clock, Model
from changeover.relay.state import State
from changeover.relay.stream import Recorded, StreamItem, recorded
from changeover.stores.memory import MemoryLog
from changeover.toolkits.function import FunctionToolkit

CONVERSATION_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")

T = TypeVar("T")


class RunOptions(TypedDict, total=False):
    """What may be said beside the text of a run."""

    agent: str | None
    """Who is to answer, if not the agent that is active."""
    conversation: str | None
    """A known one goes on, an unknown one begins under this id."""
    context: Mapping[str, Any] | None
    """Context variables to begin with."""
    limits: Limits | None
    user: str | None
    correlation_id: str | None
    key: str | None
    """Makes the call idempotent: the same key gives the same run."""


class Team:
    """Agents plus policy."""

    def __init__(
        self,
        members: Sequence[Member],
        *,
        start: str | None = None,
        model: Model | None = None,
        helper_model: Any = None,
        limits: Limits | None = None,
        guards: Sequence[Any] | None = None,
        rules: Sequence[Any] = (),
        hooks: Mapping[str, Hook] | None = None,
        store: str | None = None,
        engine: Any = None,
        handoffs_enabled: bool = True,
        fallback: bool = False,
        ask: Callable[..., Any] | None = None,
        clock: Clock | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        members = tuple(members)
        models: dict[str, Any] = {m.id: m.model or model for m in members if isinstance(m, Agent)}
        toolkits = {member.id: FunctionToolkit(member.tools) for member in members if isinstance(member, Agent)}
        faults = [
            *team_faults(members, start),
            *(limits or Limits()).faults(),
            *hook_faults(hooks or {}),
            *(fault for id, model in models.items() for fault in _model_faults(id, model)),
            *(f"agent {id!r}: {fault}" for id, toolkit in toolkits.items() for fault in toolkit.faults),
            *_unbuilt(helper_model=helper_model, guards=guards, rules=rules, store=store, engine=engine),
            *_unbuilt(fallback=fallback, ask=ask),
        ]
        if faults:
            raise MisconfiguredError(*faults)
        by_id = {member.id: member for member in members}
        roster = Roster(
            {id: _seat(member, by_id, toolkits, handoffs_enabled) for id, member in by_id.items()},
            start or members[0].id,
            limits or Limits(),
            strategy,
        )
        self._world = World(roster, models, toolkits, clock or SystemClock())
        self._hooks = Hooks(hooks) if hooks else None
        self._log = MemoryLog()
        self._home = Home()
        self._engine = LocalEngine(self._log, self._world, self._hooks)

    async def run(self, text: str, **options: Unpack[RunOptions]) -> RunResult:
        """Say something to the team and wait for its answer."""
        said = self._said(text, **options)
        return await self._here(self._run(*said))

    def run_sync(self, text: str, **options: Unpack[RunOptions]) -> RunResult:
        """`run` for code that does not await: scripts, threads, notebooks."""
        return self._home.wait(self.run(text, **options))

    async def stream(self, text: str, **options: Unpack[RunOptions]) -> AsyncIterator[StreamItem]:
        """`run`, read along: pieces of text, recorded events, and last the result. Leaving it cancels nothing."""
        said, reading = self._said(text, **options), Reading()
        run = await self._here(self._follow(*said, reading))
        try:
            async for item in reading.items(run):
                yield item
        finally:
            await self._here(self._leave(said[0], reading))

    async def history(self, conversation: str) -> list[Recorded]:
        """Everything that was recorded of a conversation, in order."""
        return list(recorded(await self._entries(conversation)))

    async def handoffs(self, conversation: str) -> list[HandoffRecord]:
        """Every handoff of a conversation, in order."""
        return State(conversation).fold(await self._entries(conversation)).handoffs

    async def close(self) -> None:
        """Stop working. Nothing that was recorded is lost; what was under way can be taken up again."""
        await self._here(self._stop())
        self._home.leave()

    async def __aenter__(self) -> Self:
        """Open the team and take up what was left unfinished."""
        await self._here(self._recover())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _here(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """This work, done on the loop where the team lives."""
        if self._home.arrive():
            self._engine = LocalEngine(self._log, self._world, self._hooks)
        return self._home.carry(work)

    async def _run(self, conversation: str, spoken: UserSpoke, key: str) -> RunResult:
        _, answer = await self._engine.speak(conversation, spoken, key)
        return await answer

    async def _follow(self, conversation: str, spoken: UserSpoke, key: str, reading: Reading) -> int:
        run, answer = await self._engine.speak(conversation, spoken, key, reading.put)
        answer.add_done_callback(reading.finish)
        return run

    async def _leave(self, conversation: str, reading: Reading) -> None:
        self._engine.leave(conversation, reading.put)

    async def _recover(self) -> None:
        await self._engine.recover()

    async def _stop(self) -> None:
        await self._engine.close()
        await self._log.close()

    async def _entries(self, conversation: str) -> list[Entry]:
        entries = await self._log.read(conversation)
        if not entries:
            raise ConversationNotFound(conversation)
        return entries

    def _said(
        self,
        text: str,
        *,
        agent: str | None = None,
        conversation: str | None = None,
        context: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        user: str | None = None,
        correlation_id: str | None = None,
        key: str | None = None,
    ) -> tuple[str, UserSpoke, str]:
        """What the caller wants recorded, and where; all that is wrong with it is raised before anything is."""
        seats = self._world.roster.seats
        if agent is not None and agent not in seats:
            raise UnknownAgentError(agent, list(seats))
        if not isinstance(text, str):
            raise MisconfiguredError(f"what the user says must be a str, not {type(text).__name__}")
        if faults := [*_context_faults(context), *(limits.faults() if limits else ())]:
            raise MisconfiguredError(*faults)
        spoken = UserSpoke(text, user or "", agent or "", dict(context or {}), limits, correlation_id or "")
        return _conversation(conversation, key), spoken, key or ""


def _conversation(id: str | None, key: str | None) -> str:
    if id is None:
        return os.urandom(8).hex() if key is None else f"key-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    if not CONVERSATION_ID.fullmatch(id):
        raise MisconfiguredError(f"{id!r} cannot be a conversation's id; use 1 to 128 letters, digits, '.', '_', '-'")
    return id


def _context_faults(context: Mapping[str, Any] | None) -> list[str]:
    if not context:
        return []
    found = [f"the context variable {name!r} is reserved; rename it" for name in sorted(METADATA & context.keys())]
    try:
        msgspec.json.encode(context)
    except TypeError as error:
        found.append(f"the context must be what JSON can hold: {error}")
    return found


def _model_faults(agent: str, model: object) -> list[str]:
    if model is None:
        return [f"agent {agent!r} has no model; give it one with Agent(model=…), or all of them with Team(model=…)"]
    if isinstance(model, str):
        return [f"agent {agent!r} has model={model!r}; this version takes model objects only, no names"]
    if not callable(getattr(model, "reply", None)):
        return [f"agent {agent!r} has a {type(model).__name__} as its model; a model has reply() and stream()"]
    return []


def _unbuilt(**options: object) -> list[str]:
    set_ = [name for name, value in options.items() if value]
    return [f"Team({name}=…) is not supported by this version; leave it out" for name in set_]


def _seat(
    member: Member, members: Mapping[str, Member], toolkits: Mapping[str, FunctionToolkit], handoffs: bool
) -> Seat | Function:
    if isinstance(member, Function):
        return member
    return seat(member, members, toolkits[member.id].definitions(), handoffs)

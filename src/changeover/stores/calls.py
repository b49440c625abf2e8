"""Calls: methods of a store's ports by name, with arguments and answers as MessagePack, for both ends of a connection.

MessagePack, because JSON has no infinity, and windows of time may have no beginning.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from inspect import signature
from typing import Any, Protocol, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from changeover.bus.views import BusCalls, ScheduleCalls
from changeover.errors import MisconfiguredError
from changeover.facts import HandoffRecord, WorkflowRun
from changeover.guards.approval import Decision
from changeover.relay.context_flow import ValueFlow
from changeover.relay.ports.declarations import Declarations
from changeover.relay.ports.lists import ORDERS, Page, Record
from changeover.relay.ports.log import Breakers
from changeover.relay.ports.queue import Queued
from changeover.relay.ports.tables import Agents, Lessons, Measures, Tried
from changeover.relay.ports.tokens import Tokens
from changeover.workflows.plan import Plan

KINDS: Mapping[str, type[Record]] = {kind.__name__: kind for kind in ORDERS}
"""Kinds of records by name."""


class Listed(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `Lists.listed`."""

    kind: str
    wanted: dict[str, str] = {}
    within: str | None = None
    roots: bool = False
    limit: int = 1
    sort: str = ""
    cursor: str | None = None


class ListedPage(Struct, frozen=True):
    """A page with encoded records, whose kind the caller knows."""

    items: list[msgspec.Raw]
    next: str | None

    def read(self, kind: type[Any]) -> Page[Any]:
        """The page with decoded records."""
        page: Page[Any] = Page(msgspec.msgpack.decode(item, type=kind) for item in self.items)
        page.next = self.next
        return page


class Reading(Protocol):
    """Reads conversations, handoffs and flows of context, for commands."""

    async def listed(self, of: Listed) -> ListedPage: ...
    async def handoffs(self, conversation: str) -> list[HandoffRecord]: ...
    async def context_flow(self, conversation: str) -> list[ValueFlow]: ...


class Work(Protocol):
    """Work that waits in a store."""

    async def unfinished(self) -> list[str]:
        """The conversations that have outstanding work and no live owner."""
        ...

    async def tickets(self, ticket: str | None = None) -> list[Queued]:
        """All tickets, or this one."""
        ...

    async def retry(self, ticket: str) -> bool:
        """Let any worker claim a ticket now, and reset its count of claims; False if there is no such ticket."""
        ...


class Decisions(Protocol):
    """Decisions of people about work that waits in a store."""

    async def decide(self, approval: str, decision: Decision, by: str) -> None:
        """Decide about a request; the run goes on at the server. `by` counts only where no token is needed."""
        ...

    async def cancel(self, handoff: str, by: str, reason: str) -> bool:
        """Cancel a handoff that is under way or waits; False if it has ended."""
        ...


class ToolAnswer(Struct, frozen=True):
    """The result of a tool, as a model would read it."""

    ok: bool
    text: str


class ToolTests(Protocol):
    """Calls of tools without a conversation."""

    async def test(self, name: str, arguments: dict[str, Any]) -> ToolAnswer:
        """Call a tool as an agent would."""
        ...


class Workflows(Protocol):
    """The workflows of the team that a server serves."""

    async def listed(self) -> list[Plan]:
        """All of them."""
        ...

    async def start(
        self, workflow: str, inputs: dict[str, Any] | str | None, conversation: str | None, key: str | None
    ) -> WorkflowRun:
        """Start one; the server carries it out."""
        ...

    async def retry(self, conversation: str, step: str) -> None:
        """Repeat a step of the workflow that ended last in a conversation, and all steps after it."""
        ...


PORTS: Mapping[str, type[Any]] = {
    "lists": Reading,
    "measures": Measures,
    "trials": Tried,
    "agents": Agents,
    "breakers": Breakers,
    "bus": BusCalls,
    "declarations": Declarations,
    "decisions": Decisions,
    "experience": Lessons,
    "schedules": ScheduleCalls,
    "tokens": Tokens,
    "tools": ToolTests,
    "work": Work,
    "workflows": Workflows,
}
"""The ports whose methods can be called by name."""


class Call:
    """One method of a port."""

    def __init__(self, port: str, method: str) -> None:
        self.name, self.method = f"{port}.{method}", method
        function = getattr(PORTS[port], method)
        hints = get_type_hints(function)
        self._parameters = [each for name, each in signature(function).parameters.items() if name != "self"]
        fields = [(each.name, hints[each.name], *_default(each.default, each.empty)) for each in self._parameters]
        self._arguments: type[Any] = msgspec.defstruct(method, fields, forbid_unknown_fields=True, kw_only=True)
        self._answer = hints["return"]
        self.in_pages = get_origin(self._answer) is AsyncIterator
        """True if the method yields pages; over a connection, one answer holds them all."""
        if self.in_pages:
            self._answer = list[get_args(self._answer)[0]]  # type: ignore[misc]

    def arguments(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> bytes:
        """Encode arguments."""
        names = (each.name for each in self._parameters)
        return msgspec.msgpack.encode({**dict(zip(names, given, strict=False)), **named})

    def read_arguments(self, body: bytes) -> dict[str, Any]:
        """Decode arguments; raises MisconfiguredError."""
        try:
            read = msgspec.msgpack.decode(body, type=self._arguments)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise MisconfiguredError(f"these are no arguments of {self.name}: {error}") from None
        return {each.name: getattr(read, each.name) for each in self._parameters}

    async def answer(self, method: Callable[..., Any], arguments: Mapping[str, Any]) -> bytes:
        """Call the method, and encode its answer."""
        answered = method(**arguments)
        found = [page async for page in answered] if self.in_pages else await answered
        return msgspec.msgpack.encode(found)

    def read_answer(self, body: bytes) -> Any:
        """Decode an answer; raises msgspec.MsgspecError."""
        return msgspec.msgpack.decode(body, type=self._answer)


@cache
def call_of(port: str, method: str) -> Call:
    """The call of a method; raises MisconfiguredError if there is none."""
    if port not in PORTS or method.startswith("_") or not callable(getattr(PORTS[port], method, None)):
        raise MisconfiguredError(f"no port of a store has a method {port}.{method}")
    return Call(port, method)


def _default(value: Any, empty: Any) -> tuple[Any, ...]:
    return () if value is empty else (value,)

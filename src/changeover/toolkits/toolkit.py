"""AgentToolkit: the tools of one agent, of every kind, called with a timeout, retries, and a text outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from changeover.agent.moves import UseTool
from changeover.errors import MisconfiguredError
from changeover.messages import File, with_labels
from changeover.relay.perform.callbacks import OutOfTime, within
from changeover.relay.ports.world import ToolOutcome
from changeover.toolkits.connections import Connections
from changeover.toolkits.function import FunctionCallee
from changeover.toolkits.http import HttpCallee
from changeover.toolkits.result_text import CallFailed, TemporaryFailure, words
from changeover.toolkits.skills import LoadSkill, ReadSkillFile, read_skills
from changeover.toolkits.sql_function import SqlCallee
from changeover.tools.http_tool import HttpTool
from changeover.tools.mcp_server import McpServer
from changeover.tools.run_context import RunContext
from changeover.tools.sql_function import SqlFunction
from changeover.tools.tool import CallOptions, Fn, Tool, as_tool

if TYPE_CHECKING:
    from changeover.toolkits.mcp import McpConnection

LONGEST_PAUSE = 5.0
LONGEST_WAIT = 60.0
"""Seconds that a retry is put off because a server asks for it; a call that has to wait longer fails."""

Declared = Tool | HttpTool | SqlFunction | McpServer | Fn


class Callee(Protocol):
    """One tool as its kind implements it."""

    @property
    def tool(self) -> UseTool:
        """How the model sees it, and the options of its declaration."""
        ...

    @property
    def repeatable(self) -> bool:
        """True if a call whose outcome is unknown may be repeated even if its declaration does not say so."""
        ...

    def misfit(self, args: dict[str, Any], context: RunContext) -> str:
        """What is wrong with these arguments, for the model; empty if they fit."""
        ...

    async def attempt(self, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        """Call it once. Raises CallFailed if it failed for good; TemporaryFailure and any other exception may be
        retried."""
        ...


class AgentToolkit:
    """The tools of one agent. `faults` says what is wrong with the declarations; check it before a call.

    `retries` is how often the call of a tool that declares none is tried again; never one that is `at_most_once`.
    `backoff` is the pause before the first retry, in seconds; it doubles with each retry, up to LONGEST_PAUSE.
    """

    def __init__(
        self,
        declared: Sequence[Declared],
        *,
        retries: int = 0,
        backoff: float = 0.1,
        connections: Connections | None = None,
        skills: Sequence[Any] = (),
    ) -> None:
        self.faults: list[str] = []
        self._retries, self._backoff = retries, backoff
        self._connections = connections or Connections()
        self._callees: dict[str, Callee] = {}
        self._servers: list[McpConnection] = []
        for each in declared:
            self._declare(each)
        if skills != ():
            self._add_skills(skills)

    def tools(self) -> tuple[UseTool, ...]:
        """The tools that it offers now, in the order of declaration."""
        listed = {name: callee for server in self._servers for name, callee in server.tools.items()}
        # A declared tool wins over one that a server happens to call by the same name.
        return tuple(callee.tool for callee in (self._callees | listed | self._callees).values())

    def _find(self, name: str) -> Callee | None:
        """The tool of this name; None if the server that offered it has withdrawn it."""
        offered = (server.tools[name] for server in self._servers if name in server.tools)
        return self._callees.get(name) or next(offered, None)

    def misfit(self, name: str, args: dict[str, Any], context: RunContext) -> str:
        """What is wrong with these arguments, for the model; empty if they fit."""
        callee = self._find(name)
        return callee.misfit(args, context) if callee else ""

    async def call(self, name: str, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        """Call a tool, with as many retries as its declaration allows; an exception becomes a failed outcome.

        No secret is in the outcome: where the answer of a server repeats one, its reference stands instead.
        """
        if (callee := self._find(name)) is None:
            return ToolOutcome(
                f"{name} is not available any more: the server that offered it has withdrawn it", ok=False
            )
        outcome = await self._called(name, callee, args, context)
        if outcome.files:
            outcome = self._with_files(outcome)
        return self._connections.vault.redacted(outcome)

    def _with_files(self, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome with the files that models read; its text names them, and says why others are left out."""
        files: list[File] = []
        remarks: list[str] = []
        for each in outcome.files:
            try:
                files += self._connections.attach([each])
            except MisconfiguredError as error:
                remarks += [f"[a file is left out: {fault}]" for fault in error.faults]
        text = "\n".join(part for part in (with_labels(outcome.text, files), *remarks) if part)
        return replace(outcome, text=text, files=tuple(files))

    async def _called(self, name: str, callee: Callee, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        options = callee.tool.declared
        retries, attempt = self._retries_of(options, callee), 1
        while True:
            try:
                return await within(options.timeout, partial(callee.attempt, args, context))
            except Exception as error:
                asked = error.retry_after if isinstance(error, TemporaryFailure) else 0.0
                if attempt > retries or asked > LONGEST_WAIT or _is_final(error):
                    return _failed(name, error, attempt)
            await asyncio.sleep(max(asked, min(self._backoff * 2.0 ** (attempt - 1), LONGEST_PAUSE)))
            attempt += 1

    def _retries_of(self, options: CallOptions, callee: Callee) -> int:
        if options.retries is not None:
            return options.retries
        return self._retries if callee.repeatable and not options.at_most_once else 0

    def _declare(self, declared: Declared) -> None:
        if isinstance(declared, McpServer):
            self._connect(declared)
            return
        if isinstance(declared, HttpTool | SqlFunction):
            self._add(declared, _connected(declared, self._connections))
            return
        function = declared.function if isinstance(declared, Tool) else declared
        if not callable(function):
            named = f"{declared.name!r} is {function!r}, which" if isinstance(declared, Tool) else repr(function)
            self.faults.append(f"tool {named} cannot be called; declare a function")
            return
        tool = as_tool(declared)
        self.faults += [f"tool {tool.name!r} {fault}" for fault in tool.option_faults()]
        compiled = FunctionCallee.compiled(tool)
        if isinstance(compiled, FunctionCallee):
            self._callees[tool.name] = compiled
        else:
            self.faults += compiled

    def _add_skills(self, declared: Sequence[Any]) -> None:
        skills, faults = read_skills(declared)
        self.faults += faults
        if skills and not faults:
            self._callees |= {callee.name: callee for callee in (LoadSkill(skills), ReadSkillFile(skills))}

    def _connect(self, declared: McpServer) -> None:
        faults = list(declared.faults())
        if find_spec("fastmcp") is None:
            faults.append("needs the packages of the extra mcp: pip install 'changeover[mcp]'")
        if faults:
            self.faults += [f"MCP server {declared.name!r} {fault}" for fault in faults]
        else:
            self._servers.append(self._connections.server(declared))

    def _add(self, declared: HttpTool | SqlFunction, callee: Callee | list[str]) -> None:
        if isinstance(callee, list):
            self.faults += [f"tool {declared.name!r} {fault}" for fault in callee]
        else:
            self._callees[declared.name] = callee


def _connected(declared: HttpTool | SqlFunction, connections: Connections) -> Callee | list[str]:
    """The tool, or its faults."""
    if faults := list(declared.faults()):
        return faults
    if isinstance(declared, SqlFunction) and not declared.rest:
        return SqlCallee.compiled(declared, connections)
    request = declared.request() if isinstance(declared, SqlFunction) else declared
    return HttpCallee.compiled(request, connections)


def _is_final(error: Exception) -> bool:
    return isinstance(error, CallFailed) and not isinstance(error, TemporaryFailure)


def _failed(name: str, error: Exception, attempts: int) -> ToolOutcome:
    reason = str(error) if isinstance(error, OutOfTime | CallFailed) else words(error)
    tries = f" (tried {attempts} times)" if attempts > 1 else ""
    return ToolOutcome(f"{name} failed: {reason}{tries}", ok=False)


@asynccontextmanager
async def lone_toolkit(declared: Sequence[Declared]) -> AsyncIterator[AgentToolkit]:
    """These tools with connections of their own, to try them without an agent."""
    connections = Connections()
    toolkit = AgentToolkit(declared, connections=connections)
    try:
        await connections.open(lambda: None)
        yield toolkit
    finally:
        await connections.close()

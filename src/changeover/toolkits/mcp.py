"""McpConnection: one session with an MCP server, restarted when it is lost, and its tools as a model sees them."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeVar

from changeover.agent.moves import UseTool, misfit_words
from changeover.handoffs.structured_output import Form, form_of
from changeover.messages import File
from changeover.relay.ports.world import ToolOutcome
from changeover.toolkits.result_text import CallFailed, TemporaryFailure, cut, text_of, words
from changeover.toolkits.vault import Vault
from changeover.tools.mcp_server import McpServer
from changeover.tools.run_context import RunContext, current_trace
from changeover.tools.tool import ToolDefinition

if TYPE_CHECKING:
    from mcp.types import Tool
    from pydantic_ai.mcp import MCPToolset

logger = logging.getLogger("changeover.mcp")

T = TypeVar("T")
Run = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Awaitable[Any]]

CONNECTION_CLOSED = -32000
"""The code of an error that the client itself makes when the connection is lost."""
KEY = "changeover/idempotency-key"
"""The field of a request's `_meta` that carries the idempotency key of the call."""
LARGEST_EVENT = 32_000_000
"""Bytes of the largest message that is read from an HTTP server."""
PROBE = 2.0
"""Seconds in which a server that let a call time out has to list its tools, or it is restarted."""
LEASH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]): os._exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Asks Linux to kill this process when its parent dies, and becomes the server."""


def _without_trace(record: logging.LogRecord) -> bool:
    """Keep what a server wrote out of the logs of the client: it may be anything, and any amount."""
    record.exc_info = record.exc_text = None
    return True


logging.getLogger("mcp.client.stdio").addFilter(_without_trace)


class McpConnection:
    """A session with one server, used on the loop of the connections.

    A server that died is started again by the next call or listing. `changed` is called when its tools have changed.
    """

    def __init__(self, declared: McpServer, vault: Vault, run: Run, changed: Callable[[], None]) -> None:
        """`run` does work on the loop of the connections."""
        self.declared, self.run, self._vault, self._changed = declared, run, vault, changed
        self.tools: dict[str, McpCallee] = {}
        """By the names that models use."""
        self._toolset: MCPToolset[Any] | None = None
        self._opening: asyncio.Task[MCPToolset[Any]] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        """Sessions that are being ended: it takes seconds to stop a server that hangs."""
        self._stderr: Any = None

    async def start(self) -> None:
        """Connect for the first time; a server that is not available is tried again, at growing intervals."""
        try:
            await self.connect()
        except Exception as error:
            why = str(error) if isinstance(error, CallFailed) else words(error)
            logger.warning("MCP server %r offers no tools yet: %s", self.declared.name, self._vault.redact(why))
            _ = self._begin(self._try_again())

    async def _try_again(self) -> None:
        for seconds in chain((1.0, 2.0, 5.0, 10.0), repeat(30.0)):
            await asyncio.sleep(seconds)
            with suppress(Exception):
                await self.connect()
                return

    async def connect(self) -> MCPToolset[Any]:
        """The session, which is opened if there is none; raises TemporaryFailure, or CallFailed."""
        if self._toolset is not None:
            return self._toolset
        if self._opening is None or self._opening.done():
            self._opening = self._begin(self._open())
        # In a task of its own: a caller that gives up must not stop a server that is just starting.
        return await asyncio.shield(self._opening)

    async def call(self, tool: str, args: dict[str, Any], key: str) -> Any:
        """Call a tool. Raises CallFailed with the server's words, and TemporaryFailure if the server is lost."""
        from fastmcp.exceptions import McpError, ToolError

        trace, toolset = current_trace.get(), await self.connect()
        try:
            return await toolset.direct_call_tool(
                tool, args, metadata={KEY: key, "traceparent": trace} if trace else {KEY: key}
            )
        except asyncio.CancelledError:
            _ = self._begin(self._probe(toolset))
            raise
        except ToolError as error:
            raise CallFailed(cut(str(error))) from error
        except McpError as error:
            if error.error.code != CONNECTION_CLOSED:
                raise CallFailed(cut(str(error))) from error
            await self._lose(toolset)
            raise self._lost(error) from error
        except Exception as error:
            await self._lose(toolset)
            raise self._lost(error) from error

    async def close(self) -> None:
        """End the session, and the process of the server."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._toolset is not None:
            await self._lose(self._toolset)
        await asyncio.gather(*self._leaving)

    async def _open(self) -> MCPToolset[Any]:
        toolset = self._made()
        try:
            async with asyncio.timeout(self.declared.connect_timeout):
                await toolset.__aenter__()
                self._toolset = toolset
                await self._list(toolset)
        except BaseException as error:
            self._toolset = None
            await _leave(toolset)
            if not isinstance(error, Exception):
                raise
            why = "it did not answer in time" if isinstance(error, TimeoutError) else words(error)
            raise TemporaryFailure(f"MCP server {self.declared.name!r} is not available: {why}") from error
        finally:
            self._close_stderr()  # the process has inherited it
        _ = self._begin(self._listen(toolset))
        return toolset

    def _made(self) -> MCPToolset[Any]:
        from fastmcp.client.transports import ClientTransport, StreamableHttpTransport
        from pydantic_ai.mcp import MCPToolset

        declared, transport = self.declared, None
        if declared.url:
            headers = {name: self._vault.resolve(value) for name, value in declared.headers.items()}
            transport = StreamableHttpTransport(declared.url, headers, max_sse_event_size=LARGEST_EVENT)
        chosen: ClientTransport = transport or self._process()
        return MCPToolset(
            chosen,
            tool_error_behavior="error",
            cache_tools=False,
            init_timeout=declared.connect_timeout,
            read_timeout=None,
            message_handler=self._hear,
        )

    def _process(self) -> Any:
        from fastmcp.client.transports import StdioTransport

        declared = self.declared
        env = {name: self._vault.resolve(value) for name, value in declared.env.items()}
        program = shutil.which(declared.command[0], path=env.get("PATH") or os.environ.get("PATH"))
        if program is None:
            raise CallFailed(f"it cannot be started: there is no program {declared.command[0]!r}")
        command = [program, *declared.command[1:]]
        if sys.platform == "linux":
            command = [sys.executable, "-ISc", LEASH, str(os.getpid()), *command]
        self._stderr = _logged(declared.name, self._vault)
        # Not kept alive: the process ends with its session.
        return StdioTransport(
            command[0], command[1:], env, declared.cwd or None, keep_alive=False, log_file=self._stderr
        )

    async def _list(self, toolset: MCPToolset[Any]) -> None:
        """Read the list of tools, and tell the team if it has changed."""
        offered = _offered(self.declared, await toolset.list_tools())
        if offered != {callee.name: callee.tool for callee in self.tools.values()}:
            self.tools = {tool.definition.name: McpCallee(self, name, tool) for name, tool in offered.items()}
            self._changed()

    async def _hear(self, message: Any) -> None:
        """A notification of a server that keeps its session open."""
        if type(getattr(message, "root", message)).__name__ == "ToolListChangedNotification" and self._toolset:
            _ = self._begin(self._list(self._toolset))

    async def _listen(self, toolset: MCPToolset[Any]) -> None:
        """Subscribe to changes of the tools; a server that has no subscriptions sends notifications, or nothing."""
        from fastmcp.exceptions import McpError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen

        try:
            async with listen(toolset.client.session, tools_list_changed=True) as changes:
                async for _ in changes:
                    await self._list(toolset)
        except ListenNotSupportedError:
            return
        except McpError as error:
            if error.error.code != CONNECTION_CLOSED:
                return
        except SubscriptionLost:
            pass
        # The next call connects again, and reads the list again.
        _ = self._begin(self._lose(toolset))

    async def _probe(self, toolset: MCPToolset[Any]) -> None:
        """Restart a server that let a call time out, if it does not answer at all."""
        try:
            async with asyncio.timeout(PROBE):
                await toolset.list_tools()
        except Exception:
            await self._lose(toolset)

    async def _lose(self, toolset: MCPToolset[Any]) -> None:
        """Give up a session, unless another has taken its place."""
        if self._toolset is toolset:
            self._toolset = None
            leaving = asyncio.ensure_future(_leave(toolset))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            # Never cancelled: a session that is ended halfway leaves its process, and tasks that nothing can stop.
            await asyncio.shield(leaving)

    def _lost(self, error: Exception) -> TemporaryFailure:
        logger.warning(
            "the MCP server %s was lost during a call: %s", self.declared.name, self._vault.redact(words(error))
        )
        name = self.declared.name
        return TemporaryFailure(f"the MCP server {name!r} broke off during the call, which may have taken effect")

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.debug("MCP server %r: %s", self.declared.name, type(error).__name__)

    def _close_stderr(self) -> None:
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None


class McpCallee:
    """One tool of an MCP server that a model may call."""

    def __init__(self, connection: McpConnection, name: str, tool: UseTool) -> None:
        self._connection, self.name, self.tool = connection, name, tool
        self.repeatable = bool(tool.declared.read_only)
        form = form_of(tool.definition.parameters)
        self._form: Form | None = None if form.fault() else form

    def misfit(self, args: dict[str, Any], context: RunContext) -> str:
        """What is wrong with these arguments, for the model; empty if they fit or only the server can tell."""
        wrong = self._form.fit(args)[1] if self._form else ""
        return misfit_words(self.tool.definition.name, wrong) if wrong else ""

    async def attempt(self, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        """Call the tool once."""
        connection, key = self._connection, context.idempotency_key
        result = await connection.run(lambda: connection.call(self.name, args, key))
        return _outcome(result, self.tool.declared.max_result)


def _offered(declared: McpServer, listed: Sequence[Tool]) -> dict[str, UseTool]:
    """The tools that agents get, by the names that the server has for them."""
    found: dict[str, UseTool] = {}
    taken: set[str] = set()
    for each in listed:
        name = declared.called(each.name)
        if not declared.offers(each.name) or name in taken:
            continue
        reads = bool(each.annotations and each.annotations.read_only_hint)
        options = declared if declared.read_only is not None else replace(declared, read_only=reads)
        schema = {"type": "object", "properties": {}, **each.input_schema}
        about = each.description or each.title or ""
        found[each.name] = UseTool(options, ToolDefinition(name, about, schema, read_only=bool(options.read_only)))
        taken.add(name)
    return found


def _outcome(result: Any, limit: int) -> ToolOutcome:
    """The result of a call as text and files."""
    from pydantic_ai.messages import BinaryContent

    parts = result if isinstance(result, list) else [result]
    files = tuple(File(part.data, part.media_type) for part in parts if isinstance(part, BinaryContent))
    if not files:
        return ToolOutcome(cut(text_of(result), limit))
    texts = [text_of(part) for part in parts if not isinstance(part, BinaryContent)]
    return ToolOutcome(cut("\n".join(texts), limit), files=files)


async def _leave(toolset: MCPToolset[Any]) -> None:
    # A session whose server is gone raises whatever its transport raises.
    with suppress(Exception, asyncio.CancelledError):
        if toolset.is_running:
            await toolset.__aexit__(None, None, None)


def _logged(name: str, vault: Vault) -> Any:
    """A file for what a server writes to its standard error: each line is logged, without secrets."""
    source, sink = os.pipe()

    def read() -> None:
        with os.fdopen(source, errors="replace") as lines:
            for line in lines:
                logger.debug("%s: %s", name, vault.redact(line.rstrip()))

    threading.Thread(target=read, name="changeover-mcp-log", daemon=True).start()
    return os.fdopen(sink, "w")

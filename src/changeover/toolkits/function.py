"""FunctionToolkit: Python functions as tools, called with a timeout, retries, and a text outcome."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from changeover.guards.approval import approval_faults
from changeover.handoffs.callback import condition_faults
from changeover.relay.perform.callbacks import OutOfTime, in_thread, within
from changeover.relay.ports import ToolOutcome
from changeover.toolkits.function_schema import Schema, bare, compile_tool
from changeover.toolkits.result_text import Unserialisable, cut, text_of, words
from changeover.tools.command import BadCommand, Command, directive_of
from changeover.tools.run_context import RunContext
from changeover.tools.tool import Fn, Tool, ToolDefinition, as_tool

LONGEST_PAUSE = 5.0

UPDATED = "done"
"""What a model reads of a Command that only updates the context."""


class FunctionToolkit:
    """The functions that one agent may call. `faults` says what is wrong with the declarations; check it before a call.

    `retries` is how often the call of a function that declares none is tried again; never one that is `at_most_once`.
    `backoff` is the pause before the first retry, in seconds; it doubles with each retry, up to LONGEST_PAUSE.
    """

    def __init__(self, declared: Sequence[Tool | Fn], *, retries: int = 0, backoff: float = 0.1) -> None:
        self.faults: list[str] = []
        self._retries = retries
        self._backoff = backoff
        self._schemas: dict[str, Schema] = {}
        for each in declared:
            self._declare(each)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The definitions for the model, in the order of declaration."""
        return tuple(schema.definition for schema in self._schemas.values())

    def misfit(self, name: str, args: dict[str, Any], context: RunContext) -> str:
        """What is wrong with these arguments, for the model; empty if they fit."""
        ready = self._schemas[name].fit(args, context)
        return ready if isinstance(ready, str) else ""

    async def call(self, name: str, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        """Call a function, with as many retries as its declaration allows; an exception becomes a failed outcome."""
        schema = self._schemas[name]
        retries, attempt = self._retries_of(schema.tool), 1
        while True:
            try:
                return await _attempt(schema, args, context)
            except Exception as error:
                if attempt > retries:
                    return _failed(name, error, attempt)
            await asyncio.sleep(min(self._backoff * 2.0 ** (attempt - 1), LONGEST_PAUSE))
            attempt += 1

    def _retries_of(self, tool: Tool) -> int:
        if tool.retries is not None:
            return tool.retries
        return 0 if tool.at_most_once else self._retries

    def _declare(self, declared: Tool | Fn) -> None:
        function = declared.function if isinstance(declared, Tool) else declared
        if not callable(function):
            named = f"{declared.name!r} is {function!r}, which" if isinstance(declared, Tool) else repr(function)
            self.faults.append(f"tool {named} cannot be called; declare a function")
            return
        tool = as_tool(declared)
        self.faults += [f"tool {tool.name!r} {fault}" for fault in _option_faults(tool)]
        compiled = compile_tool(tool)
        if isinstance(compiled, Schema):
            self._schemas[tool.name] = compiled
        else:
            self.faults += compiled


async def _attempt(schema: Schema, args: dict[str, Any], context: RunContext) -> ToolOutcome:
    # The arguments are built for each attempt: one that failed may have changed them.
    ready = schema.fit(args, context)
    if isinstance(ready, str):
        return ToolOutcome(ready, ok=False)
    result = await within(schema.tool.timeout, partial(_called, ready))
    try:
        return _outcome(result, schema.tool.max_result)
    except (Unserialisable, BadCommand) as error:
        # An outcome, not an exception: the function has run, and must not be retried.
        return ToolOutcome(cut(f"{schema.tool.name} ran, but {error}"), ok=False)


def _outcome(result: Any, limit: int) -> ToolOutcome:
    if not isinstance(result, Command):
        return ToolOutcome(cut(text_of(result), limit))
    try:
        directive = directive_of(result)
    except BadCommand as error:
        raise BadCommand(f"the Command that it returned cannot be carried out: {error}") from error
    # The core writes the text for a Command with a destination, when the outcome is known.
    return ToolOutcome("" if directive.leads else UPDATED, directive=directive)


async def _called(ready: Callable[[], Any]) -> Any:
    """Await an async function; run a plain one in a thread, so that it does not block the event loop."""
    result = ready() if inspect.iscoroutinefunction(bare(ready)) else await in_thread(ready)
    return await result if inspect.isawaitable(result) else result


def _failed(name: str, error: Exception, attempts: int) -> ToolOutcome:
    reason = str(error) if isinstance(error, OutOfTime) else words(error)
    tries = f" (tried {attempts} times)" if attempts > 1 else ""
    return ToolOutcome(f"{name} failed: {reason}{tries}", ok=False)


def _option_faults(tool: Tool) -> Iterator[str]:
    if tool.retries is not None and (not isinstance(tool.retries, int) or tool.retries < 0):
        yield f"has retries={tool.retries!r}; use 0 or a whole number above it"
    elif tool.retries and tool.at_most_once:
        yield f"is at_most_once and has retries={tool.retries}, which contradict each other; leave one of them out"
    if tool.timeout is not None and not (isinstance(tool.timeout, int | float) and tool.timeout > 0):
        yield f"has timeout={tool.timeout!r}; use a number of seconds above 0, or None for no limit"
    if not isinstance(tool.max_result, int) or tool.max_result < 1:
        yield f"has max_result={tool.max_result!r}; use a number of characters, 1 or more"
    yield from approval_faults(tool.approval)
    if tool.when is not None:
        yield from condition_faults("when", tool.when)

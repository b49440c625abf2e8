"""FunctionCallee: a Python function as a tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from changeover.agent.moves import UseTool
from changeover.relay.perform.callbacks import in_thread
from changeover.relay.ports.world import ToolOutcome
from changeover.toolkits.function_schema import Schema, bare, compile_tool
from changeover.toolkits.result_text import Unserialisable, cut, text_of
from changeover.tools.command import BadCommand, Command, directive_of
from changeover.tools.run_context import RunContext
from changeover.tools.tool import Tool

UPDATED = "done"
"""What a model reads of a Command that only updates the context."""


class FunctionCallee:
    """One function that a model may call."""

    repeatable = True

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.tool = UseTool(schema.tool, schema.definition)

    @classmethod
    def compiled(cls, tool: Tool) -> FunctionCallee | list[str]:
        """The callee, or the faults of its function, one text each."""
        schema = compile_tool(tool)
        return cls(schema) if isinstance(schema, Schema) else schema

    def misfit(self, args: dict[str, Any], context: RunContext) -> str:
        """What is wrong with these arguments, for the model; empty if they fit."""
        ready = self._schema.fit(args, context)
        return ready if isinstance(ready, str) else ""

    async def attempt(self, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        """Call the function once; raises what it raises."""
        # The arguments are built for each attempt: one that failed may have changed them.
        ready = self._schema.fit(args, context)
        if isinstance(ready, str):
            return ToolOutcome(ready, ok=False)
        result, tool = await _called(ready), self._schema.tool
        try:
            return _outcome(result, tool.max_result)
        except (Unserialisable, BadCommand) as error:
            # An outcome, not an exception: the function has run, and must not be retried.
            return ToolOutcome(cut(f"{tool.name} ran, but {error}"), ok=False)


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

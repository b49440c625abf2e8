"""CallOptions: what tools of every kind take; Tool: a declared function; ToolDefinition: how a model sees a tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, overload

from msgspec import Struct

from changeover.copies import copied
from changeover.guards.approval import Approvable, approval_faults
from changeover.handoffs.callback import condition_faults

Fn = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """Options of tools of every kind."""

    timeout: float | None = 300.0
    """In seconds, for each try; None for no limit."""
    retries: int | None = None
    """How often a call that failed is tried again. None takes the `tool_retries` of the team, or 0 for a call that is
    not safe to repeat."""
    read_only: bool | None = None
    """It changes nothing, so its calls may run in parallel. None means what the kind of the tool says: a function, an
    HTTP method other than GET and HEAD, and an MCP tool without `readOnlyHint` are not read-only."""
    at_most_once: bool = False
    """Never call it twice for one call of the model, not even after a crash."""
    max_result: int = 50_000
    """How many characters of the result the model reads."""
    approval: Approvable = None
    """Which calls a person has to approve first: True, a function of context and arguments, or Approval(…)."""
    when: Callable[[Any], bool] | None = None
    """A plain function of the RunContext: the model may call the tool only while it is true; None for always."""

    def option_faults(self) -> Iterator[str]:
        """The faults of these options, one text each."""
        retries, seconds, most = self.retries, self.timeout, self.max_result
        if retries is not None and (not isinstance(retries, int) or retries < 0):
            yield f"has retries={retries!r}; use 0 or a whole number above it"
        elif retries and self.at_most_once:
            yield f"is at_most_once and has retries={retries}, which contradict each other; leave one of them out"
        if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
            yield f"has timeout={seconds!r}; use a number of seconds above 0, or None for no limit"
        if not isinstance(most, int) or most < 1:
            yield f"has max_result={most!r}; use a number of characters, 1 or more"
        yield from approval_faults(self.approval)
        if self.when is not None:
            yield from condition_faults("when", self.when)


@dataclass(frozen=True, kw_only=True)
class Tool(CallOptions):
    """A Python function that a model may call; made by `tool`."""

    function: Fn
    name: str
    description: str | None = None
    """What the model reads; None takes the docstring of the function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly, as plain Python."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Fn, /, *, approval: Approvable = None, when: Callable[[Any], bool] | None = None) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = 300.0,
    retries: int | None = None,
    read_only: bool = False,
    at_most_once: bool = False,
    max_result: int = 50_000,
    approval: Approvable = None,
    when: Callable[[Any], bool] | None = None,
) -> Callable[[Fn], Tool]: ...
def tool(
    function: Fn | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = 300.0,
    retries: int | None = None,
    read_only: bool = False,
    at_most_once: bool = False,
    max_result: int = 50_000,
    approval: Approvable = None,
    when: Callable[[Any], bool] | None = None,
) -> Tool | Callable[[Fn], Tool]:
    """Declare a function as a tool, as a decorator with or without options.

    `name` and `description` are what models see (default: the function's own). `timeout` is in seconds, for each try
    (default 300, None for no limit). `retries` is how often a call that raises is tried again (default:
    the `tool_retries` of the team; an `at_most_once` tool is not).
    `read_only` says that it changes nothing. `at_most_once` says that it must not be repeated after a crash.
    `max_result` is how many characters of the result a model reads (default 50,000). `approval` says which calls a
    person has to approve first. `when` is a plain function of the RunContext: while it is not true, the model neither
    sees the tool nor can call it. Options that do not fit are reported by `Team(…)` as a MisconfiguredError.
    """

    def declare(fn: Fn) -> Tool:
        return Tool(
            function=fn,
            name=name or name_of(fn),
            description=description,
            timeout=timeout,
            retries=retries,
            read_only=read_only,
            at_most_once=at_most_once,
            max_result=max_result,
            approval=approval,
            when=when,
        )

    return declare if function is None else declare(function)


def as_tool(declared: Tool | Fn) -> Tool:
    """The tool itself, or a bare function as a tool with default options."""
    return declared if isinstance(declared, Tool) else tool(declared)


def name_of(fn: Fn) -> str:
    """The name by which a model calls this function, unless another is declared."""
    return str(getattr(fn, "__name__", type(fn).__name__))


@copied("parameters")
class ToolDefinition(Struct, frozen=True):
    """A function as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON schema."""
    receivers: tuple[str, ...] = ()
    """The agents to which a call can hand off, or delegate."""
    delegate: bool = False
    """A call asks a receiver for a result, and does not hand over the conversation."""
    read_only: bool = False
    """A call changes nothing."""


def without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema without the titles that only repeat names; a property may well be called `title`."""
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            plain[key] = {name: without_titles(inner) for name, inner in value.items()}
        elif key != "title":
            plain[key] = _without_titles_inside(key, value)
    return plain


def _without_titles_inside(key: str, value: Any) -> Any:
    if key in ("default", "const", "enum", "examples"):
        return value
    if isinstance(value, dict):
        return without_titles(value)
    return [_without_titles_inside(key, each) for each in value] if isinstance(value, list) else value

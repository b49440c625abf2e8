"""Tool: a declared function with its options; ToolDefinition: what a model is told of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

from msgspec import Struct

from changeover.guards.approval import Approvable

Fn = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A Python function that a model may call."""

    function: Fn
    name: str
    description: str | None = None
    timeout: float | None = 300.0
    retries: int = 0
    read_only: bool = False
    at_most_once: bool = False
    max_result: int = 50_000
    approval: Approvable = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself: a decorated tool can still be called in plain code."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Fn, /, *, approval: Approvable = None) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = 300.0,
    retries: int = 0,
    read_only: bool = False,
    at_most_once: bool = False,
    max_result: int = 50_000,
    approval: Approvable = None,
) -> Callable[[Fn], Tool]: ...
def tool(function: Fn | None = None, /, *, name: str | None = None, **options: Any) -> Tool | Callable[[Fn], Tool]:
    """Declare how a function may be called: its time limit, its retries, whether it only reads, who is asked first."""

    def declare(fn: Fn) -> Tool:
        return Tool(function=fn, name=name or name_of(fn), **options)

    return declare if function is None else declare(function)


def as_tool(declared: Tool | Fn) -> Tool:
    """A tool as it is, a bare function with the defaults."""
    return declared if isinstance(declared, Tool) else tool(declared)


def name_of(fn: Fn) -> str:
    """The name a model calls this function by."""
    return str(getattr(fn, "__name__", type(fn).__name__))


class ToolDefinition(Struct, frozen=True):
    """A function as a model sees it; `receivers` are the agents that it hands off to or, as a `delegate`, asks."""

    name: str
    description: str
    parameters: dict[str, Any]
    receivers: tuple[str, ...] = ()
    delegate: bool = False

"""What a model is told of a function it may call."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class ToolDefinition(Struct, frozen=True):
    """A function as a model sees it; `receivers` are the agents that it hands off to or, as a `delegate`, asks."""

    name: str
    description: str
    parameters: dict[str, Any]
    receivers: tuple[str, ...] = ()
    delegate: bool = False

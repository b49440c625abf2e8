"""What effects act upon: a team, its models and tools, and time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from changeover.agent.roster import Roster
from changeover.facts import ApprovalRequest
from changeover.guards.approval import Decision
from changeover.relay.contexts import Contexts
from changeover.relay.directory import Directory
from changeover.relay.ports import Clock, Model, Toolkit
from changeover.routing.registry import Registry
from changeover.routing.routing import Routing

Ask = Callable[[ApprovalRequest], Decision | Awaitable[Decision | None] | None]
"""Decides about a request on the spot; None leaves it to a person."""


class World(Struct, frozen=True):
    """What effects act upon."""

    roster: Roster
    models: Mapping[str, Model]
    toolkits: Mapping[str, Toolkit]
    clock: Clock
    ask: Ask | None = None
    """Decides about approvals on the spot."""
    attempts: int = 3
    """How often a model call is tried."""
    backoff: float = 0.5
    helper: Model | None = None
    """What sums up; else the sender's own model does."""
    contexts: Contexts | None = None
    """Where what is not sent along can be fetched."""
    registry: Registry = Registry()
    """Everybody who was declared, as somebody sees them who looks for one."""
    directory: Directory | None = None
    """What is known of them now."""
    routing: Routing = Routing()

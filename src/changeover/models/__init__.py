"""Models: providers by way of pydantic-ai, a model that works offline, and what a model of your own reads and returns.

A model of your own implements `Model`: it gets a `Request` and returns a `Reply`.
"""

from changeover.facts import Usage
from changeover.messages import Assistant, Call, Message, Note, Reply, ToolResult, User
from changeover.models.wrappers import LimitedModel
from changeover.relay.ports.world import Model, Request
from changeover.tools.tool import ToolDefinition

__all__ = [
    "Assistant",
    "Call",
    "LimitedModel",
    "Message",
    "Model",
    "Note",
    "Reply",
    "Request",
    "ToolDefinition",
    "ToolResult",
    "Usage",
    "User",
]

"""Changeover: AI agents hand work to one another, safely and visibly."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from changeover.agent.agent import AUTO as AUTO
    from changeover.agent.agent import Agent as Agent
    from changeover.agent.agent import Function as Function
    from changeover.agent.agent import Member as Member
    from changeover.agent.agent import Person as Person
    from changeover.agent.handoff import delegate as delegate
    from changeover.agent.handoff import handoff as handoff
    from changeover.agent.specialist import specialist as specialist
    from changeover.engines.temporal import Temporal as Temporal
    from changeover.facts import ApprovalRequest as ApprovalRequest
    from changeover.facts import RunResult as RunResult
    from changeover.guards.approval import Approval as Approval
    from changeover.guards.approval import Approve as Approve
    from changeover.guards.approval import Edit as Edit
    from changeover.guards.approval import Reject as Reject
    from changeover.guards.approval import Respond as Respond
    from changeover.guards.limits import Limits as Limits
    from changeover.handoffs.reference import Reference as Reference
    from changeover.handoffs.strategies import Full as Full
    from changeover.handoffs.strategies import MessageOnly as MessageOnly
    from changeover.handoffs.strategies import Recent as Recent
    from changeover.handoffs.summary import Summary as Summary
    from changeover.messages import File as File
    from changeover.observe.telemetry import Telemetry as Telemetry
    from changeover.stores.store import Store as Store
    from changeover.team import Team as Team
    from changeover.tools.command import END as END
    from changeover.tools.command import Command as Command
    from changeover.tools.command import Send as Send
    from changeover.tools.run_context import RunContext as RunContext
    from changeover.tools.tool import tool as tool
    from changeover.tools.variable import Variable as Variable
    from changeover.worker import Worker as Worker

# The module of each public name. It is imported when the name is first used, so that `import changeover` is fast.
_HOMES = {
    "AUTO": "agent.agent",
    "Agent": "agent.agent",
    "Approval": "guards.approval",
    "ApprovalRequest": "facts",
    "Approve": "guards.approval",
    "Command": "tools.command",
    "END": "tools.command",
    "Edit": "guards.approval",
    "File": "messages",
    "Full": "handoffs.strategies",
    "Function": "agent.agent",
    "Limits": "guards.limits",
    "Member": "agent.agent",
    "MessageOnly": "handoffs.strategies",
    "Person": "agent.agent",
    "Recent": "handoffs.strategies",
    "Reference": "handoffs.reference",
    "Reject": "guards.approval",
    "Respond": "guards.approval",
    "RunContext": "tools.run_context",
    "RunResult": "facts",
    "Send": "tools.command",
    "Store": "stores.store",
    "Summary": "handoffs.summary",
    "Team": "team",
    "Telemetry": "observe.telemetry",
    "Temporal": "engines.temporal",
    "Variable": "tools.variable",
    "Worker": "worker",
    "delegate": "agent.handoff",
    "handoff": "agent.handoff",
    "specialist": "agent.specialist",
    "tool": "tools.tool",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'changeover' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"changeover.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__"])

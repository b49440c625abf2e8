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
    from changeover.agent.moves import GENERIC_TOOL as GENERIC_TOOL
    from changeover.agent.specialist import specialist as specialist
    from changeover.facts import ApprovalRequest as ApprovalRequest
    from changeover.facts import DelegateResult as DelegateResult
    from changeover.facts import HandoffRecord as HandoffRecord
    from changeover.facts import HandoffResult as HandoffResult
    from changeover.facts import Ledger as Ledger
    from changeover.facts import Mode as Mode
    from changeover.facts import RunResult as RunResult
    from changeover.facts import Share as Share
    from changeover.facts import State as State
    from changeover.facts import Ticket as Ticket
    from changeover.facts import TicketStatus as TicketStatus
    from changeover.facts import Usage as Usage
    from changeover.faults import Circuit as Circuit
    from changeover.guards.approval import Approval as Approval
    from changeover.guards.approval import Approve as Approve
    from changeover.guards.approval import Edit as Edit
    from changeover.guards.approval import Reject as Reject
    from changeover.guards.approval import Respond as Respond
    from changeover.guards.breaker import CircuitBreaker as CircuitBreaker
    from changeover.guards.checks import Content as Content
    from changeover.guards.checks import Replace as Replace
    from changeover.guards.deadlock import Deadlock as Deadlock
    from changeover.guards.guard import Allow as Allow
    from changeover.guards.guard import Ask as Ask
    from changeover.guards.guard import Deny as Deny
    from changeover.guards.guard import Guard as Guard
    from changeover.guards.limits import Limits as Limits
    from changeover.guards.rules import Rule as Rule
    from changeover.handoffs.answers import Accepted as Accepted
    from changeover.handoffs.answers import Conditional as Conditional
    from changeover.handoffs.answers import Rejected as Rejected
    from changeover.handoffs.briefing import Brief as Brief
    from changeover.handoffs.callback import Acceptance as Acceptance
    from changeover.handoffs.callback import Rollback as Rollback
    from changeover.handoffs.expectations import Expects as Expects
    from changeover.handoffs.package import Context as Context
    from changeover.handoffs.package import Expectations as Expectations
    from changeover.handoffs.package import FileReference as FileReference
    from changeover.handoffs.package import HandoffPackage as HandoffPackage
    from changeover.handoffs.package import Metadata as Metadata
    from changeover.handoffs.package import Priority as Priority
    from changeover.handoffs.package import Progress as Progress
    from changeover.handoffs.package import Step as Step
    from changeover.handoffs.package import Task as Task
    from changeover.handoffs.reference import Reference as Reference
    from changeover.handoffs.strategies import Chapter as Chapter
    from changeover.handoffs.strategies import Full as Full
    from changeover.handoffs.strategies import Handover as Handover
    from changeover.handoffs.strategies import MessageOnly as MessageOnly
    from changeover.handoffs.strategies import Recent as Recent
    from changeover.handoffs.summary import Summary as Summary
    from changeover.messages import File as File
    from changeover.models.wrappers import LimitedModel as LimitedModel
    from changeover.observe.metrics import AgentMetrics as AgentMetrics
    from changeover.observe.metrics import Metrics as Metrics
    from changeover.observe.metrics import PairMetrics as PairMetrics
    from changeover.observe.metrics import Times as Times
    from changeover.relay.stream import AgentChanged as AgentChanged
    from changeover.relay.stream import Recorded as Recorded
    from changeover.relay.stream import RunFinished as RunFinished
    from changeover.relay.stream import TextDelta as TextDelta
    from changeover.relay.stream import ThinkingDelta as ThinkingDelta
    from changeover.routing.broker import Recommendation as Recommendation
    from changeover.routing.experience import Learning as Learning
    from changeover.routing.experiment import Experiment as Experiment
    from changeover.routing.profile import Profile as Profile
    from changeover.routing.routing import Routing as Routing
    from changeover.stores.store import Store as Store
    from changeover.team import Team as Team
    from changeover.ticket import TicketClaim as TicketClaim
    from changeover.tools.command import END as END
    from changeover.tools.command import Command as Command
    from changeover.tools.command import Send as Send
    from changeover.tools.command import WorkflowState as WorkflowState
    from changeover.tools.http_tool import ApiKey as ApiKey
    from changeover.tools.http_tool import Basic as Basic
    from changeover.tools.http_tool import Bearer as Bearer
    from changeover.tools.http_tool import HttpTool as HttpTool
    from changeover.tools.mcp_server import McpServer as McpServer
    from changeover.tools.run_context import Received as Received
    from changeover.tools.run_context import RunContext as RunContext
    from changeover.tools.skill import Skill as Skill
    from changeover.tools.sql_function import SqlFunction as SqlFunction
    from changeover.tools.tool import tool as tool
    from changeover.tools.variable import Variable as Variable
    from changeover.worker import Worker as Worker

# The module of each public name. It is imported when the name is first used, so that `import changeover` is fast.
_HOMES = {
    "AUTO": "agent.agent",
    "Acceptance": "handoffs.callback",
    "Accepted": "handoffs.answers",
    "Agent": "agent.agent",
    "AgentChanged": "relay.stream",
    "AgentMetrics": "observe.metrics",
    "Allow": "guards.guard",
    "ApiKey": "tools.http_tool",
    "Approval": "guards.approval",
    "ApprovalRequest": "facts",
    "Approve": "guards.approval",
    "Ask": "guards.guard",
    "Basic": "tools.http_tool",
    "Bearer": "tools.http_tool",
    "Brief": "handoffs.briefing",
    "Chapter": "handoffs.strategies",
    "Circuit": "faults",
    "CircuitBreaker": "guards.breaker",
    "Command": "tools.command",
    "Conditional": "handoffs.answers",
    "Content": "guards.checks",
    "Context": "handoffs.package",
    "Deadlock": "guards.deadlock",
    "DelegateResult": "facts",
    "Deny": "guards.guard",
    "END": "tools.command",
    "Edit": "guards.approval",
    "Expectations": "handoffs.package",
    "Expects": "handoffs.expectations",
    "Experiment": "routing.experiment",
    "File": "messages",
    "FileReference": "handoffs.package",
    "Full": "handoffs.strategies",
    "Function": "agent.agent",
    "GENERIC_TOOL": "agent.moves",
    "Guard": "guards.guard",
    "HandoffPackage": "handoffs.package",
    "HandoffRecord": "facts",
    "HandoffResult": "facts",
    "Handover": "handoffs.strategies",
    "HttpTool": "tools.http_tool",
    "Learning": "routing.experience",
    "Ledger": "facts",
    "LimitedModel": "models.wrappers",
    "Limits": "guards.limits",
    "McpServer": "tools.mcp_server",
    "Member": "agent.agent",
    "MessageOnly": "handoffs.strategies",
    "Metadata": "handoffs.package",
    "Metrics": "observe.metrics",
    "Mode": "facts",
    "PairMetrics": "observe.metrics",
    "Person": "agent.agent",
    "Priority": "handoffs.package",
    "Profile": "routing.profile",
    "Progress": "handoffs.package",
    "Received": "tools.run_context",
    "Recent": "handoffs.strategies",
    "Recommendation": "routing.broker",
    "Recorded": "relay.stream",
    "Reference": "handoffs.reference",
    "Reject": "guards.approval",
    "Rejected": "handoffs.answers",
    "Replace": "guards.checks",
    "Respond": "guards.approval",
    "Rollback": "handoffs.callback",
    "Routing": "routing.routing",
    "Rule": "guards.rules",
    "RunContext": "tools.run_context",
    "RunFinished": "relay.stream",
    "RunResult": "facts",
    "Send": "tools.command",
    "Share": "facts",
    "Skill": "tools.skill",
    "SqlFunction": "tools.sql_function",
    "State": "facts",
    "Step": "handoffs.package",
    "Store": "stores.store",
    "Summary": "handoffs.summary",
    "Task": "handoffs.package",
    "Team": "team",
    "TextDelta": "relay.stream",
    "ThinkingDelta": "relay.stream",
    "Ticket": "facts",
    "TicketClaim": "ticket",
    "TicketStatus": "facts",
    "Times": "observe.metrics",
    "Usage": "facts",
    "Variable": "tools.variable",
    "Worker": "worker",
    "WorkflowState": "tools.command",
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

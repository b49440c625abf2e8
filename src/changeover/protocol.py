"""The protocol of handoffs: parts of packages, answers, states, tickets, and records of what was handed over."""

from changeover.facts import DelegateResult, HandoffRecord, HandoffResult, Mode, State, Ticket, TicketStatus
from changeover.handoffs.answers import Accepted, Conditional, Rejected
from changeover.handoffs.briefing import Brief
from changeover.handoffs.callback import Acceptance, Rollback
from changeover.handoffs.expectations import Expects
from changeover.handoffs.package import (
    Context,
    Decision,
    Expectations,
    FileReference,
    HandoffPackage,
    Metadata,
    Priority,
    Progress,
    Said,
    Step,
    Task,
    ToolCall,
)
from changeover.handoffs.strategies import Chapter, Handover
from changeover.relay.context_flow import Change, ValueFlow
from changeover.ticket import TicketClaim
from changeover.tools.command import WorkflowState
from changeover.tools.run_context import Received

__all__ = [
    "Acceptance",
    "Accepted",
    "Brief",
    "Change",
    "Chapter",
    "Conditional",
    "Context",
    "Decision",
    "DelegateResult",
    "Expectations",
    "Expects",
    "FileReference",
    "HandoffPackage",
    "HandoffRecord",
    "HandoffResult",
    "Handover",
    "Metadata",
    "Mode",
    "Priority",
    "Progress",
    "Received",
    "Rejected",
    "Rollback",
    "Said",
    "State",
    "Step",
    "Task",
    "Ticket",
    "TicketClaim",
    "TicketStatus",
    "ToolCall",
    "ValueFlow",
    "WorkflowState",
]

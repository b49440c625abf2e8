"""Texts: faults, results and decisions as people read them in the read models."""

from __future__ import annotations

from typing import assert_never

import msgspec

from changeover.errors import limit_words
from changeover.faults import (
    AgentFault,
    Fault,
    FunctionFault,
    LimitFault,
    ModelFault,
    ReceiverFault,
    RefusalFault,
    ResultFault,
    StepFault,
    WorkerFault,
)
from changeover.guards.approval import Approve, Decision, Edit, Reject, Respond
from changeover.relay.events import (
    HandoffReturned,
    LimitReached,
    ToolFinished,
)

_ENCODER = msgspec.json.Encoder()


def fault_words(fault: Fault) -> str:
    """The reason why a run failed."""
    match fault:
        case LimitFault():
            return limit_words(fault.limit, fault.figure, fault.spent)
        case ReceiverFault():
            return f"{fault.sender} kept naming {fault.receiver!r} as a receiver, and no agent is called that"
        case AgentFault():
            return f"{fault.agent} is no longer in the team"
        case StepFault():
            return f"the step {fault.step} failed: {fault.reason}"
        case _:
            return FAILURES[type(fault)].format(agent=fault.agent, reason=fault.reason)


FAILURES: dict[type[Fault], str] = {
    ModelFault: "{agent} got no usable reply from its model: {reason}",
    FunctionFault: "the function of {agent} raised {reason}",
    WorkerFault: "the worker of {agent} gave up: {reason}",
    RefusalFault: "{agent} does not go on: {reason}",
    ResultFault: "what {agent} answered is not what was expected: {reason}",
}
"""The texts of faults that name an agent and a reason."""


def result_words(event: ToolFinished) -> str:
    """The result of a call."""
    return "unknown: it was begun before a crash, and may have taken effect" if event.unknown else event.text


def returned_words(event: HandoffReturned) -> str:
    """The response of a delegate, or the reason why it has none."""
    if event.success:
        return event.response
    return event.error or ("cancelled" if event.cancelled else "failed")


def reached_words(event: LimitReached) -> str:
    """What was left of a limit, or by how much it was exceeded."""
    if event.spent is not None:
        return limit_words(event.limit, event.figure, event.spent)
    return f"the whole run has {event.left} left of {event.limit}={event.figure}"


def decision_words(decision: Decision) -> str:
    """The note, the result or the edit (as JSON) of a decision."""
    match decision:
        case Approve():
            return ""
        case Reject():
            return decision.note
        case Respond():
            return decision.text
        case Edit():
            edited = {} if decision.arguments is None else {"arguments": decision.arguments}
            return _ENCODER.encode(edited | ({"receiver": decision.receiver} if decision.receiver else {})).decode()
        case _:
            assert_never(decision)

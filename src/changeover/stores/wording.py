"""Events as people read them."""

from __future__ import annotations

from typing import assert_never

from changeover.facts import AgentFault, Fault, FunctionFault, LimitFault, ModelFault, ReceiverFault
from changeover.relay.events import ToolFinished


def fault_words(fault: Fault) -> str:
    """Why a run could not go on."""
    match fault:
        case LimitFault():
            return f"the run needs more than {fault.limit}={fault.figure}"
        case ReceiverFault():
            return f"{fault.sender} kept naming {fault.receiver!r} as a receiver, and nobody is called that"
        case ModelFault():
            return f"{fault.agent} got no usable reply from its model: {fault.reason}"
        case FunctionFault():
            return f"the function of {fault.agent} raised {fault.reason}"
        case AgentFault():
            return f"{fault.agent} is no longer in the team"
        case _:
            assert_never(fault)


def result_words(event: ToolFinished) -> str:
    """What came of a call."""
    return "unknown: it was begun before a crash, and may have taken effect" if event.unknown else event.text

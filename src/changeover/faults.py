"""Why runs could not go on: stored, and turned into exceptions where a caller waits."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class ModelFault(Struct, frozen=True, tag="model"):
    """A model gave no usable reply."""

    agent: str
    reason: str


class FunctionFault(Struct, frozen=True, tag="function"):
    """A Function member raised."""

    agent: str
    reason: str


class WorkerFault(Struct, frozen=True, tag="worker"):
    """Whoever had claimed the task gave it up."""

    agent: str
    reason: str


class ResultFault(Struct, frozen=True, tag="result"):
    """What came of a handoff is not what was expected of it, also not after a second try."""

    agent: str
    reason: str


class RefusalFault(Struct, frozen=True, tag="refusal"):
    """Nobody takes what this member would hand over, or it does not go on itself."""

    agent: str
    reason: str


class ReceiverFault(Struct, frozen=True, tag="receiver"):
    """A model kept naming receivers that do not exist."""

    sender: str
    receiver: str
    available: tuple[str, ...]


LimitName = Literal[
    "max_handoffs", "max_turns", "max_depth", "max_iterations", "max_tokens", "max_cost", "max_agents", "timeout"
]


class LimitFault(Struct, frozen=True, omit_defaults=True, tag="limit"):
    """A limit of the run was reached."""

    limit: LimitName
    figure: int | float
    spent: int | float | None = None
    """How much had been spent by then, where that can be more than may be; None also if nobody knows."""


class AgentFault(Struct, frozen=True, tag="agent"):
    """The agent that should act is no longer in the team."""

    agent: str
    available: tuple[str, ...]


Fault = ModelFault | FunctionFault | WorkerFault | ResultFault | RefusalFault | ReceiverFault | LimitFault | AgentFault
"""Why a run could not go on."""

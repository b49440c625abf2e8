"""Faults: the reasons for which runs fail, as events store them; `errors.error_of` makes exceptions of them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class ModelFault(Struct, frozen=True, tag="model"):
    """The model of an agent gave no usable reply."""

    agent: str
    reason: str


class FunctionFault(Struct, frozen=True, tag="function"):
    """The function of a Function member raised."""

    agent: str
    reason: str


class WorkerFault(Struct, frozen=True, tag="worker"):
    """The worker that had claimed the task gave it up."""

    agent: str
    reason: str


class ResultFault(Struct, frozen=True, tag="result"):
    """The result of a handoff does not fit what its sender expects, also after a second try."""

    agent: str
    reason: str


class RefusalFault(Struct, frozen=True, tag="refusal"):
    """No receiver accepts what this member has to hand over, or a person stopped it."""

    agent: str
    reason: str


class ReceiverFault(Struct, frozen=True, tag="receiver"):
    """A model repeatedly named a receiver that does not exist."""

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
    """What was spent, for limits that can be overshot; None if unknown."""


class AgentFault(Struct, frozen=True, tag="agent"):
    """The active agent is no longer in the team."""

    agent: str
    available: tuple[str, ...]


Fault = ModelFault | FunctionFault | WorkerFault | ResultFault | RefusalFault | ReceiverFault | LimitFault | AgentFault
"""Why a run failed."""

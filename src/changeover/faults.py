"""Faults: the reasons for which runs fail, as events store them; `relay.result.error_of` makes exceptions of them.

A Circuit says how often a receiver failed.
"""

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


class Circuit(Struct, frozen=True, gc=False):
    """The circuit breaker state of a receiver, shared by all conversations of a store."""

    receiver: str
    failures: int = 0
    """Failures in a row."""
    openings: int = 0
    """How often the circuit opened; failed probes in between do not count."""
    opened_at: float | None = None
    """When it opened, in seconds since the epoch; None while it is closed."""
    until: float | None = None
    """When the next probe is let through; also the deadline of a probe that does not report. None if the circuit is
    closed, or open until a person resets it."""
    probe: str = ""
    """The id of the handoff that was let through as the last probe."""
    cooldown: float = 0.0
    """How long it stays open, in seconds."""
    closed_at: float = 0.0
    """When it last closed; outcomes of handoffs that began before do not count."""
    forced: bool = False
    """True if a person opened it."""

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        """Half-open while a probe is under way."""
        if self.opened_at is None:
            return "closed"
        return "half-open" if self.probe else "open"

    @property
    def clean(self) -> bool:
        """True if there is nothing to reset."""
        return not self.failures and self.opened_at is None


class RefusalFault(Struct, frozen=True, omit_defaults=True, tag="refusal"):
    """No receiver accepts what this member has to hand over, or a person or a guard stopped it."""

    agent: str
    reason: str
    cycle: tuple[str, ...] = ()
    """The agents of the circle in which the task goes, if that is why."""
    circuit: Circuit | None = None
    """The open circuit of the receiver, if that is why."""


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


class StepFault(Struct, frozen=True, omit_defaults=True, tag="step"):
    """A step of a workflow failed for good."""

    workflow: str
    step: str
    reason: str
    """Why its last attempt failed, or it could not begin."""


Fault = (
    ModelFault
    | FunctionFault
    | WorkerFault
    | ResultFault
    | RefusalFault
    | ReceiverFault
    | LimitFault
    | AgentFault
    | StepFault
)
"""Why a run failed."""

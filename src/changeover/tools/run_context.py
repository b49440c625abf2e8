"""RunContext: what a tool, a Function member or an instructions callable may read of its run."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from changeover.facts import DelegateResult, Handed, whole_context
from changeover.ids import effect_key


class Metrics(Struct, frozen=True):
    """What the run had spent when the task was handed over."""

    tokens: int = 0
    elapsed: float = 0.0
    retries: int = 0


class Received(Struct, frozen=True, kw_only=True):
    """What was handed over to the agent that works now."""

    sender: str
    message: str
    context: dict[str, Any]
    artifacts: Mapping[str, str | None] = field(default_factory=dict)
    workflow_state: Mapping[str, Any] = field(default_factory=dict)
    metrics: Metrics = Metrics()


class RunContext(Struct, frozen=True, dict=True):
    """The run as a tool sees it. Reading it never changes the run."""

    conversation: str
    run: str
    agent: str
    command: str
    input: str = ""
    user: str = ""
    correlation_id: str = ""
    variables: Mapping[str, Any] = {}
    handed: Handed | None = None
    artifacts: Mapping[str, str | None] = {}
    workflow_state: Mapping[str, Any] = {}
    returned: tuple[DelegateResult, ...] = ()
    """What came back of the branches that this Function member sent out last, in their order."""

    @cached_property
    def context(self) -> dict[str, Any]:
        """The context variables, with the metadata of the last handoff beside them."""
        return whole_context(self.variables, self.handed)

    @property
    def idempotency_key(self) -> str:
        """The same over retries and restarts of this very call: hand it to whatever must not happen twice."""
        return effect_key(self.conversation, self.command)

    def accept_handoff(self) -> Received | None:
        """What was handed over to this agent, or None if the user came to it directly."""
        handed = self.handed
        if handed is None:
            return None
        metrics = Metrics(handed.tokens, handed.elapsed, handed.retries)
        return Received(
            sender=handed.sender,
            message=handed.message,
            context=self.context,
            artifacts=dict(self.artifacts),
            workflow_state=deepcopy(dict(self.workflow_state)),
            metrics=metrics,
        )

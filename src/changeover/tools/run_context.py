"""RunContext: what a tool, a Function member or an instructions callable may read of its run."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from msgspec import Struct, field

from changeover.copies import copied, copy_of, original
from changeover.facts import DelegateResult, Handed, whole_context
from changeover.ids import effect_key

current_trace: ContextVar[str] = ContextVar("current_trace", default="")
"""The span of the tool call under way, as in the header `traceparent`, for requests that the tool makes."""


class Metrics(Struct, frozen=True):
    """What the run had spent when the task was handed over."""

    tokens: int = 0
    elapsed: float = 0.0
    """Seconds since the run began."""
    retries: int = 0


class Received(Struct, frozen=True, kw_only=True):
    """What the active agent received with its last handoff."""

    sender: str
    message: str
    context: dict[str, Any]
    """The context variables, with the metadata of the handoff (`_handoff_from`, `_handoff_chain`, …)."""
    artifacts: Mapping[str, str | None] = field(default_factory=dict)
    workflow_state: Mapping[str, Any] = field(default_factory=dict)
    metrics: Metrics = Metrics()


@copied("artifacts", "workflow_state")
@copied("context", copy=whole_context, beside="handed")
class RunContext(Struct, frozen=True, dict=True):
    """The run as a tool, a rule or a Function member sees it: a snapshot, which never changes the run."""

    conversation: str
    run: str
    agent: str
    """The id of the active agent."""
    command: str
    """The id of the call, unique in its conversation."""
    input: str = ""
    """What the user said last."""
    user: str = ""
    correlation_id: str = ""
    context: Mapping[str, Any] = {}
    """A copy of the context variables, with the metadata of the last handoff (`_handoff_from`, …)."""
    handed: Handed | None = None
    artifacts: Mapping[str, str | None] = {}
    workflow_state: Mapping[str, Any] = {}
    returned: tuple[DelegateResult, ...] = ()
    """The results of the branches (`Send`) that this Function member started last, in their order."""
    trace: str = ""
    """The agent's span, as in the header `traceparent`; empty if the run is not traced."""

    @property
    def idempotency_key(self) -> str:
        """A key that stays the same over retries and restarts of this call; pass it to services that deduplicate."""
        return effect_key(self.conversation, self.command)

    def accept_handoff(self) -> Received | None:
        """What this agent received with the last handoff, or None if there was none."""
        handed = self.handed
        if handed is None:
            return None
        metrics = Metrics(handed.tokens, handed.elapsed, handed.retries)
        return Received(
            sender=handed.sender,
            message=handed.message,
            context=whole_context(original(self, "context"), handed),
            artifacts=copy_of(original(self, "artifacts")),
            workflow_state=copy_of(original(self, "workflow_state")),
            metrics=metrics,
        )

"""What comes back of a delegate, as its sender's log keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from changeover.errors import error_of
from changeover.messages import Message
from changeover.relay.commands import CancelChild, RunChild
from changeover.relay.events import HandoffReturned
from changeover.relay.passing import last_words
from changeover.relay.result import result_of
from changeover.relay.run import Outcome


def returned_of(command: RunChild | CancelChild, outcome: Outcome, record: Sequence[Message] = ()) -> HandoffReturned:
    """The end of a delegate's run; of one that was called back, what it had said last."""
    run, given = outcome.run, outcome.run.spoken.given
    _, artifacts, workflow_state = outcome.travelling
    return HandoffReturned(
        command.id.removesuffix("~"),
        command.task,
        command.receiver,
        success=not (outcome.fault or outcome.cancelled),
        response=last_words(record) if outcome.cancelled else outcome.output,
        author="" if outcome.agent == command.receiver else outcome.agent,
        error=_error(command, outcome),
        fault=outcome.fault,
        cancelled=outcome.cancelled,
        iterations=run.turns,
        tool_calls=run.tool_calls,
        duration=outcome.at - run.at,
        spent=run.spent(),
        artifacts=_new(artifacts, given.artifacts if given else {}),
        workflow_state=_new(workflow_state, given.workflow_state if given else {}),
    )


def _error(command: RunChild | CancelChild, outcome: Outcome) -> str:
    if outcome.cancelled:
        return command.reason if isinstance(command, CancelChild) else "cancelled"
    return str(error_of(outcome.fault, result_of(command.child, outcome))) if outcome.fault else ""


def _new(after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    return {} if after is before else {name: value for name, value in after.items() if before.get(name, ...) != value}

"""Packages: a handoff as the HandoffPackage its receiver reads, and packages that code offers, with their results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from changeover.copies import copy_of, original
from changeover.errors import UnknownAgentError
from changeover.facts import DelegateResult, Expected, HandoffRecord, HandoffResult, Mode, RunResult, dated
from changeover.facts import State as HandoffState
from changeover.handoffs.context import changed, merge_variables
from changeover.handoffs.package import Context, Expectations, HandoffPackage, Metadata, Progress, Task, history_of
from changeover.handoffs.tokens import count
from changeover.ids import call_of, handoff_id, split_handoff
from changeover.messages import Message, View
from changeover.relay.commands import AskReceiver
from changeover.relay.events import UserSpoke
from changeover.relay.run import Run
from changeover.relay.state import State
from changeover.relay.turn import Travelling


def package_of(command: AskReceiver) -> HandoffPackage:
    """The package of an offer, as its receiver reads it."""
    offer, context = command.offer, command.context
    if command.package is not None:
        return _given(command, command.package)
    described, packed = offer.message or context.input, command.packed
    made = packed is not None and bool(packed.briefing or packed.messages)
    said = packed.messages if packed is not None and made else command.thread
    return HandoffPackage(
        Task(described or offer.receiver, id=handoff_id(context.conversation, offer.call)),
        Context(
            original_request=context.input,
            summary=packed.briefing if packed is not None else "",
            current_state=offer.about,
            history=history_of(said),
            reference=packed.chapter.ref if packed is not None and packed.chapter else "",
            variables=merge_variables(copy_of(original(context, "context")), offer.variables, offer.merge),
            artifacts=dict(context.artifacts),
            workflow_state=Progress.from_dict(dict(context.workflow_state)),
        ),
        Metadata(
            sender=offer.sender,
            receiver=offer.receiver,
            mode=offer.mode,
            reason=offer.reason or offer.message,
            required_capabilities=offer.required,
            instructions=offer.instructions,
            deadline=None if command.deadline is None else dated(command.deadline),
            attempt=offer.attempt,
            max_iterations=offer.max_iterations or None,
            estimated_tokens=count(described or offer.receiver) + (packed.after if packed is not None else offer.after),
            conversation=context.conversation,
            correlation_id=context.correlation_id,
            user=context.user,
            **_follows(offer.retry_of),
        ),
        _expectations(offer.expected, offer.timeout),
    )


def task_of(state: State, run: Run) -> HandoffPackage:
    """The package of a message to the active agent, or of a task that a rollback gave back to it, for a worker that
    claims it."""
    spoken, given = run.spoken, run.spoken.given
    if spoken.package is not None:
        whole = _with(spoken.package, {"receiver": state.agent, "conversation": state.id}, {})
        return replace(whole, context=replace(whole.context, history=history_of(View(state.thread))))
    return HandoffPackage(
        Task(spoken.text or state.agent, id=run.ticket),
        Context(
            original_request=spoken.text,
            current_state=given.briefing if given else "",
            history=history_of(View(state.thread)),
            variables=state.variables,
            artifacts=dict(state.artifacts),
            workflow_state=Progress.from_dict(dict(state.workflow_state)),
        ),
        Metadata(
            sender=given.sender if given else spoken.user or "user",
            receiver=state.agent,
            mode=Mode.DELEGATE if given else Mode.TRANSFER,
            instructions=given.instructions if given else "",
            conversation=state.id,
            correlation_id=spoken.correlation_id,
            user=spoken.user,
        ),
        _expectations(run.wish),
    )


def _expectations(expected: Expected | None, timeout: float | None = None) -> Expectations:
    """The expectations of the result, as a package holds them."""
    if expected is None:
        return Expectations(timeout=timeout)
    return Expectations(output_schema=expected.schema, success_criteria=expected.criteria, timeout=timeout)


def continued(asked: AskReceiver, since: Sequence[Message], before: Travelling, now: Travelling) -> HandoffPackage:
    """The package of an offer that was accepted, with what was done since: later messages, and what changed in the
    shared context."""
    package = package_of(asked)
    known = package.context
    variables, artifacts, progress = (changed(after, old) for after, old in zip(now, before, strict=True))
    context = replace(
        known,
        history=(*known.history, *history_of(since)),
        variables={**known.variables, **variables},
        artifacts={**known.artifacts, **artifacts},
        workflow_state=Progress.from_dict({**known.workflow_state.to_dict(), **progress}),
    )
    return replace(package, context=context)


def _given(command: AskReceiver, given: dict[str, Any]) -> HandoffPackage:
    """The package that code offers, with the figures of this attempt."""
    offer, where, task = command.offer, command.context.conversation, given["task"]
    who = {"sender": offer.sender, "receiver": offer.receiver, "attempt": offer.attempt, "conversation": where}
    if given.get("metadata", {}).get("estimated_tokens") is None:
        known = given.get("context")
        context = json.dumps(known, ensure_ascii=False) if known else ""
        who["estimated_tokens"] = max(1, count(f"{task['description']}\n{context}"))
    return _with(given, who, {"id": task.get("id") or handoff_id(where, offer.call)})


def _with(given: dict[str, Any], metadata: dict[str, Any], task: dict[str, Any]) -> HandoffPackage:
    """The package with these fields, set before it is parsed: each later change would be validated again."""
    return HandoffPackage.from_dict(
        {**given, "task": {**given["task"], **task}, "metadata": {**given.get("metadata", {}), **metadata}}
    )


def _follows(handoff: str) -> dict[str, Any]:
    return {"extra": {"retry_of": handoff}} if handoff else {}


def offer_of(package: HandoffPackage, available: list[str] | None, now: float) -> UserSpoke:
    """The event that records an offer by code; raises if its receiver is not `available`, before anything is recorded.
    `available` is None if a broker finds the receiver."""
    receiver, metadata = package.metadata.receiver, package.metadata
    if available is not None and receiver not in available:
        raise UnknownAgentError(receiver, available)
    stamped = replace(package, metadata=replace(metadata, timestamp=metadata.timestamp or dated(now)))
    return UserSpoke(
        package.task.description,
        metadata.user,
        context=package.context.variables,
        correlation_id=metadata.correlation_id,
        package=stamped.to_dict(),
    )


def handoff_of(result: RunResult, package: HandoffPackage, brokered: bool = False) -> HandoffResult:
    """The handoff of the package that a run is about; `brokered` if a broker found the receiver."""
    back, tries = result.returned[0] if result.returned else None, _tries(result)
    if not tries:
        return _unoffered(result, package.metadata.receiver, back)
    record = tries[-1]
    declined = record.state in (HandoffState.REJECTED, HandoffState.RETURNED, HandoffState.TIMEOUT) and not (
        back and back.success
    )
    refused = brokered and record.state is HandoffState.REJECTED
    why = "; ".join(f"{each.receiver}: {each.error}" for each in tries) if refused else _why(record, back)
    asked = declined and _is_escalated(result)
    awaited = ", ".join(request.receiver or request.kind for request in result.pending)
    waits = f"a person is asked: {record.receiver} did not take it: {record.error}" if asked else f"waits for {awaited}"
    return HandoffResult(
        handoff_id=record.id,
        agent=record.receiver,
        agent_name=record.receiver_name,
        state=HandoffState.PENDING if asked else record.state,
        result=back.response if back else result.text,
        output=back.output if back else result.output,
        reason=waits if awaited else why if declined else "",
        error="" if declined else record.error or (back.error if back else ""),
        summary=back.summary if back else "",
        iterations=back.iterations if back else result.ledger.turns,
        duration=back.duration if back else result.ledger.elapsed,
        conversation_id=result.conversation_id,
        pending=result.pending,
    )


def _unoffered(result: RunResult, receiver: str, back: DelegateResult | None) -> HandoffResult:
    """The handoff of a package that was not offered to any receiver."""
    state, reason = HandoffState.RETURNED, "cancelled"
    if back:
        state, reason = HandoffState.REJECTED, back.error
    elif result.status == "waiting":
        state, reason = HandoffState.PENDING, "waits until what was wanted before it is done"
    return HandoffResult(
        handoff_id="",
        agent=receiver,
        agent_name=receiver,
        state=state,
        reason=reason,
        conversation_id=result.conversation_id,
        pending=result.pending,
    )


def _is_escalated(result: RunResult) -> bool:
    """True if a person is asked about the package itself, and not about work that its receiver handed on."""
    return any(each.kind == "escalation" and each.conversation == result.conversation_id for each in result.pending)


def _why(record: HandoffRecord, back: DelegateResult | None) -> str:
    """Why no receiver accepted: the reason of the person who was asked last, else the receiver's."""
    settled = back is not None and back.agent != record.receiver
    return back.error if back and settled else record.error


def _tries(result: RunResult) -> list[HandoffRecord]:
    """All attempts of an offer by code: the first handoff of the run and its retries; empty if it was cancelled before
    a receiver was asked, or no receiver was found."""
    chain = result.handoff_chain
    if not chain:
        return []
    first = _call_of(chain[0])
    return [record for record in chain if _call_of(record) == first]


def _call_of(record: HandoffRecord) -> tuple[str, str]:
    """The conversation and the call in which a handoff was offered; all its retries have the same."""
    conversation, offer = split_handoff(record.id)
    return conversation, call_of(offer)

"""Approvals, limits and cancellations in the read models."""

from __future__ import annotations

from changeover.faults import LimitFault, RefusalFault
from changeover.guards.approval import Reject, Respond, verdict_words
from changeover.guards.deadlock import DEADLOCK
from changeover.ids import call_of, request_id, topic_of
from changeover.relay.events import (
    ApprovalDecided,
    ApprovalRequested,
    CancelRequested,
    LimitReached,
    RunCancelled,
    RunFailed,
    RunStopped,
)
from changeover.relay.fold.approvals import refusal, settled
from changeover.relay.projection.sheet import Sheet
from changeover.relay.projection.texts import decision_words, fault_words, reached_words


def ask(sheet: Sheet, event: ApprovalRequested) -> None:
    sheet.rows.add_approval(sheet.id, sheet.state.root, sheet.at, event)
    sheet.say(("status_change", "waiting", sheet.task(event.task), sheet.agent, call_of(event.call)))
    sheet.touch()


def decide(sheet: Sheet, event: ApprovalDecided) -> None:
    status = "expired" if event.expired else verdict_words(event.decision)
    note = decision_words(event.decision) or None
    id = request_id(sheet.id, event.call, event.digest)
    sheet.rows["decided_approvals"].append((status, sheet.at, event.by or None, note, id))
    if sheet.state.work.status == "waiting":
        sheet.note("status_change", "running")
        sheet.touch()
    if (text := _result(event)) is not None:
        sheet.say(("tool_result", text, sheet.current_task, sheet.agent, call_of(event.call)), part=1)


def _result(event: ApprovalDecided) -> str | None:
    """The result of the call, if the decision is its result; a decision about a handoff is not."""
    kind = topic_of(event.call)
    about_the_call = not kind or kind.startswith("rule")
    match event.decision:
        case Reject() | Respond() if kind == "escalation":
            return settled(event)
        case Respond(text=text) if about_the_call:
            return text
        case Reject(note=note) if about_the_call:
            return refusal(event, note)
        case _:
            return None


def reach(sheet: Sheet, event: LimitReached) -> None:
    sheet.note("error", reached_words(event))
    sheet.reach(event.limit)


def want_cancelled(sheet: Sheet, event: CancelRequested) -> None:
    sheet.note("status_change", "cancelling after this turn" if event.after_turn else "cancelling")
    if not event.after_turn:  # else the turn may still need its approvals
        _withdraw(sheet, event.run)


def stop(sheet: Sheet, event: RunStopped) -> None:
    sheet.note("error", f"stopping: {fault_words(event.fault)}")
    if isinstance(event.fault, LimitFault):
        sheet.reach(event.fault.limit)
    _withdraw(sheet, event.run)


def cancel(sheet: Sheet, event: RunCancelled) -> None:
    _withdraw(sheet, event.run)
    if sheet.is_at(event.run):
        sheet.note("status_change", "cancelled")
        sheet.end_steps()
        sheet.touch()


def fail(sheet: Sheet, event: RunFailed) -> None:
    sheet.note("error", fault_words(event.fault))
    if isinstance(event.fault, RefusalFault) and event.fault.reason.startswith(DEADLOCK):
        sheet.refuse("", event.fault.reason)
    elif isinstance(event.fault, LimitFault):
        sheet.reach(event.fault.limit)
    sheet.end_steps()
    sheet.touch()
    _withdraw(sheet, event.run)


def _withdraw(sheet: Sheet, run: int) -> None:
    """Withdraw the requests of this run."""
    # A run that has not begun has no requests: its cancellation leaves those of the current run.
    if sheet.is_at(run):
        sheet.rows["withdrawn_approvals"].append((sheet.id,))

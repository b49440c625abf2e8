"""Messages and tickets of handoffs and rollbacks in the read models; their rows come from `changes`."""

from __future__ import annotations

from changeover.facts import Mode
from changeover.ids import Topic, call_of, child_id, handoff_id, topic_id
from changeover.relay.events import (
    ENGINE,
    AlternativeRefused,
    ContextPacked,
    FollowUpFailed,
    HandoffAccepted,
    HandoffConditional,
    HandoffExpired,
    HandoffRejected,
    HandoffReturned,
    HandoffRolledBack,
    ResultJudged,
    RollbackFailed,
    RollbackRequested,
    TicketLapsed,
    TicketTaken,
)
from changeover.relay.projection.rows import Message
from changeover.relay.projection.sheet import Sheet
from changeover.relay.projection.texts import returned_words


def pack(sheet: Sheet, event: ContextPacked) -> None:
    sheet.rows["packed_handoffs"].append(
        (event.strategy, event.after, event.error or None, handoff_id(sheet.id, event.call))
    )
    if event.error:
        sheet.say(("error", event.error, sheet.task(event.task), sheet.agent, call_of(event.call)))


def accept(sheet: Sheet, event: HandoffAccepted) -> None:
    run = sheet.state.run
    if run is None or (found := run.offered(event.call)) is None:
        return
    task, call = sheet.task(event.task), call_of(event.call)
    if found[2].offer.mode is Mode.TRANSFER:
        sheet.say(("handoff", handoff_id(sheet.id, event.call), task, sheet.agent, call))
        sheet.touch()
    elif not event.answered:
        sheet.say(("subtask_created", child_id(sheet.id, event.call), task, sheet.agent, call))


def come_back(sheet: Sheet, event: HandoffReturned) -> None:
    if event.declined:
        sheet.say(_result(sheet, event.call, event.task, event.error))
    else:
        sheet.say(_result(sheet, event.call, event.task, returned_words(event)))


def reject(sheet: Sheet, event: HandoffRejected) -> None:
    _note(sheet, event.call, event.task, f"{event.receiver} rejected it: {event.reason}")


def pass_over(sheet: Sheet, event: AlternativeRefused) -> None:
    _note(sheet, event.call, event.task, f"{event.receiver} was not asked: {event.reason}")
    sheet.refuse(event.receiver, event.reason)


def condition(sheet: Sheet, event: HandoffConditional) -> None:
    _note(sheet, event.call, event.task, f"{event.receiver} did not accept yet: {event.words}")


def expire(sheet: Sheet, event: HandoffExpired) -> None:
    sheet.say(_result(sheet, event.call, event.task, f"{event.receiver}: {event.reason}"))


def take_up(sheet: Sheet, event: TicketTaken) -> None:
    sheet.rows["retaken_handoffs"].append((event.ticket,))
    if _is_current(sheet, event.ticket):
        sheet.touch()
    sheet.note("status_change", f"{event.by} took it up")


def fall_back(sheet: Sheet, event: TicketLapsed) -> None:
    sheet.rows["fallen_handoffs"].append((event.ticket,))
    if _is_current(sheet, event.ticket):
        sheet.touch()
    who = "it fell back" if event.by in ("", ENGINE) else f"{event.by} let go of it"
    sheet.note("status_change", f"{who}: {event.reason}")


def judge(sheet: Sheet, event: ResultJudged) -> None:
    if event.problem:
        sheet.say(("error", event.problem, sheet.task(event.task), sheet.agent, None))


def _note(sheet: Sheet, call: str, task: int, text: str) -> None:
    sheet.say(("status_change", text, sheet.task(task), sheet.agent, call_of(call)))


def _result(sheet: Sheet, call: str, task: int, text: str) -> Message:
    return "tool_result", text, sheet.task(task), sheet.agent, call_of(call)


def _is_current(sheet: Sheet, ticket: str) -> bool:
    """True if the current task is claimed by this ticket."""
    return sheet.state.run is not None and sheet.state.run.ticket == ticket


ASIDE = ("task", "permission", "escalation", Topic.REPAIR)
"""The topics of requests to people about a handoff."""


def want(sheet: Sheet, event: RollbackRequested) -> None:
    by = f" by {event.by}" if event.by else ""
    sheet.note("status_change", f"rollback of {sheet.id}:{event.call} wanted{by}: {event.reason}".rstrip(": "))
    for kind in ASIDE:
        sheet.rows["recalled_approvals"].append((sheet.id, topic_id(event.call, kind)))


def roll_back(sheet: Sheet, event: HandoffRolledBack) -> None:
    sheet.note("handoff", f"back to {event.sender}: {event.reason}".rstrip(": "))
    sheet.rows["withdrawn_approvals"].append((sheet.id,))
    if sheet.state.run is not None and event.agent == event.sender:
        sheet.touch()


def fail(sheet: Sheet, event: RollbackFailed) -> None:
    sheet.note("error", f"cleaning up after {sheet.id}:{event.call} failed: {event.reason}")


def fail_to_follow(sheet: Sheet, event: FollowUpFailed) -> None:
    sheet.note("error", f"on_accepted of {sheet.id}:{event.call} failed: {event.reason}")

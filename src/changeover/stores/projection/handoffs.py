"""Handoffs and rollbacks in the read models."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from changeover.facts import Mode
from changeover.facts import State as Standing
from changeover.ids import FIRST_TASK, call_of, child_id, handoff_id, task_id, topic_id
from changeover.relay.events import (
    AlternativeRefused,
    ContextPacked,
    HandoffAccepted,
    HandoffConditional,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    HandoffRolledBack,
    ResultJudged,
    RollbackFailed,
    RollbackRequested,
    TicketLapsed,
    TicketTaken,
)
from changeover.relay.fold.handoffs import undone_words
from changeover.stores.projection.rows import Leg, Offered, Said, as_json
from changeover.stores.projection.sheet import Sheet, merged
from changeover.stores.projection.texts import returned_words


def offer(sheet: Sheet, event: HandoffOffered) -> None:
    sheet.offers[event.call] = event


def pack(sheet: Sheet, event: ContextPacked) -> None:
    sheet.rows["packed_handoffs"].append(
        (event.strategy, event.after, event.error or None, handoff_id(sheet.id, event.call))
    )
    if event.error:
        sheet.say(("error", event.error, sheet.task(event.task), sheet.agent, call_of(event.call)))


def accept(sheet: Sheet, event: HandoffAccepted) -> None:
    id, made = handoff_id(sheet.id, event.call), sheet.offers.pop(event.call, None)
    offered = Offered(made.merge, as_json(made.variables), made.mode) if made else sheet.past.offer(id)
    if sheet.leg is None or offered is None:
        return None
    delegated = offered.mode == Mode.DELEGATE
    if delegated and event.answered:
        return sheet.rows["accepted_handoffs"].append((Standing.WORKING, None, sheet.at, id))
    task = task_id(child_id(sheet.id, event.call), FIRST_TASK) if delegated else sheet.task(sheet.position)
    if made:
        sheet.add_handoff(made, task)
    else:
        sheet.rows["accepted_handoffs"].append((Standing.WORKING, task, sheet.at, id))
    if delegated:
        child = child_id(sheet.id, event.call)
        sheet.say(("subtask_created", child, sheet.task(event.task), sheet.agent, call_of(event.call)))
    else:
        _transfer(sheet, event, id, sheet.leg, offered)
    return None


def come_back(sheet: Sheet, event: HandoffReturned) -> None:
    if event.declined:
        return sheet.say(_result(sheet, event.call, event.task, event.error))
    state = Standing.RETURNED if event.success or event.cancelled else Standing.FAILED
    sheet.end_handoff(event.call, state, event.error)
    return sheet.say(_result(sheet, event.call, event.task, returned_words(event)))


def reject(sheet: Sheet, event: HandoffRejected) -> None:
    sheet.end_handoff(event.call, Standing.REJECTED, event.reason)
    _note(sheet, event.call, event.task, f"{event.receiver} rejected it: {event.reason}")


def pass_over(sheet: Sheet, event: AlternativeRefused) -> None:
    _note(sheet, event.call, event.task, f"{event.receiver} was not asked: {event.reason}")
    sheet.refuse(event.receiver, event.reason)


def condition(sheet: Sheet, event: HandoffConditional) -> None:
    if event.needs_context or event.put_off:
        sheet.end_handoff(event.call, Standing.RETURNED, event.words)
    _note(sheet, event.call, event.task, f"{event.receiver} did not accept yet: {event.words}")


def expire(sheet: Sheet, event: HandoffExpired) -> None:
    sheet.end_handoff(event.call, Standing.TIMEOUT, event.reason)
    sheet.say(_result(sheet, event.call, event.task, f"{event.receiver}: {event.reason}"))


def take_up(sheet: Sheet, event: TicketTaken) -> None:
    sheet.rows["retaken_handoffs"].append((event.ticket,))
    if sheet.ticket == event.ticket:
        sheet.move("running")
    sheet.note("status_change", f"{event.by} took it up")


def fall_back(sheet: Sheet, event: TicketLapsed) -> None:
    sheet.rows["fallen_handoffs"].append((event.ticket,))
    if sheet.ticket == event.ticket:
        sheet.move("pending")
    who = f"{event.by} let go of it" if event.by else "it fell back"
    sheet.note("status_change", f"{who}: {event.reason}")


def judge(sheet: Sheet, event: ResultJudged) -> None:
    if event.problem:
        sheet.say(("error", event.problem, sheet.task(event.task), sheet.agent, None))


def _note(sheet: Sheet, call: str, task: int, text: str) -> None:
    sheet.say(("status_change", text, sheet.task(task), sheet.agent, call_of(call)))


def _result(sheet: Sheet, call: str, task: int, text: str) -> Said:
    return "tool_result", text, sheet.task(task), sheet.agent, call_of(call)


def _transfer(sheet: Sheet, event: HandoffAccepted, id: str, sender: Leg, offered: Offered) -> None:
    sheet.say(("handoff", id, sheet.task(event.task), sender.agent, call_of(event.call)))
    sheet.end_leg("completed", Standing.COMPLETE)
    context = _context(sender.context, offered)
    leg = Leg(sheet.position, sender.run_id, id, event.receiver, "pending", context, sender.input)
    sheet.take_on(leg, sheet.task(sender.position))


def _context(before: str, offered: Offered) -> str:
    """The variables of the receiver's task."""
    if offered.merge == "replace":
        return offered.variables
    return before if offered.variables == "{}" else merged(before, msgspec.json.decode(offered.variables))


ASIDE = ("task", "permission", "escalation")
"""What people are asked about a handoff."""


def want(sheet: Sheet, event: RollbackRequested) -> None:
    by = f" by {event.by}" if event.by else ""
    sheet.note("status_change", f"rollback of {sheet.id}:{event.call} wanted{by}: {event.reason}".rstrip(": "))
    sheet.rows["recalled_handoffs"].append((sheet.at, undone_words(event.reason), handoff_id(sheet.id, event.call)))
    for kind in ASIDE:
        sheet.rows["recalled_approvals"].append((sheet.id, topic_id(event.call, kind)))


def roll_back(sheet: Sheet, event: HandoffRolledBack) -> None:
    sheet.note("handoff", f"back to {event.sender}: {event.reason}".rstrip(": "))
    for call in event.undone:
        sheet.end_handoff(call, Standing.RETURNED, event.reason)
    sheet.rows["withdrawn_approvals"].append((sheet.id,))
    sheet.rows["withdrawn_handoffs"].append((sheet.at, undone_words(event.reason), sheet.id))
    leg = sheet.leg
    if leg is None or leg.status not in ("pending", "running", "waiting"):
        return  # no run is under way: the sender has a task when the user speaks again
    if event.agent != event.sender:
        sheet.leg = replace(leg, handoff_id=None)  # code has it back, and the run ends without it
        return
    sheet.move("cancelled")
    new = Leg(sheet.position, leg.run_id, None, event.sender, "running", leg.context, leg.input)
    sheet.take_on(new, sheet.task(leg.position))


def fail(sheet: Sheet, event: RollbackFailed) -> None:
    sheet.note("error", f"cleaning up after {sheet.id}:{event.call} failed: {event.reason}")

"""Rollbacks in the read models: the receiver's task ends undone, and the sender has one again."""

from __future__ import annotations

from msgspec.structs import replace

from changeover.facts import State as Standing
from changeover.relay.events import HandoffRolledBack, RollbackFailed, RollbackRequested
from changeover.relay.passing import undone_words
from changeover.stores.legs import Leg
from changeover.stores.projection.sheet import Sheet

ASIDE = ("task", "permission", "escalation")
"""What people are asked about a handoff."""


def want(sheet: Sheet, event: RollbackRequested) -> None:
    by = f" by {event.by}" if event.by else ""
    sheet.note("status_change", f"rollback of {sheet.id}:{event.call} wanted{by}: {event.reason}".rstrip(": "))
    sheet.rows["recalled_handoffs"].append((sheet.at, undone_words(event.reason), f"{sheet.id}:{event.call}"))
    for kind in ASIDE:
        sheet.rows["recalled_approvals"].append((sheet.id, f"{event.call}={kind}"))


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

"""Handoffs in the read models: a transfer ends one task and begins the next, a delegate has tasks of its own."""

from __future__ import annotations

import msgspec

from changeover.facts import Mode
from changeover.facts import State as Standing
from changeover.relay.events import HandoffAccepted, HandoffOffered, HandoffReturned
from changeover.stores.legs import Leg, Offered
from changeover.stores.rows import as_json
from changeover.stores.sheet import Sheet, merged
from changeover.stores.wording import returned_words

FIRST_TASK = 2
"""Where a delegate's first task begins: after Started and UserSpoke."""


def offer(sheet: Sheet, event: HandoffOffered) -> None:
    sheet.offers[event.call] = event


def accept(sheet: Sheet, event: HandoffAccepted) -> None:
    id, made = f"{sheet.id}:{event.call}", sheet.offers.pop(event.call, None)
    offered = Offered(made.merge, as_json(made.variables), made.mode) if made else sheet.past.offer(id)
    if sheet.leg is None or offered is None:
        return
    delegated = offered.mode == Mode.DELEGATE
    task = f"{sheet.id}/{event.call}#{FIRST_TASK}" if delegated else sheet.task(sheet.position)
    if made:
        sheet.add_handoff(made, task)
    else:
        sheet.rows.accepted_handoffs.append((Standing.WORKING, task, sheet.at, id))
    if delegated:
        child = f"{sheet.id}/{event.call}"
        sheet.say(("subtask_created", child, sheet.task(event.task), sheet.agent, event.call))
    else:
        _transfer(sheet, event, sheet.leg, offered)


def come_back(sheet: Sheet, event: HandoffReturned) -> None:
    state = Standing.RETURNED if event.success or event.cancelled else Standing.FAILED
    sheet.rows.ended_handoffs.append((state, sheet.at, f"{sheet.id}:{event.call}"))
    sheet.say(("tool_result", returned_words(event), sheet.task(event.task), sheet.agent, event.call))


def _transfer(sheet: Sheet, event: HandoffAccepted, sender: Leg, offered: Offered) -> None:
    id = f"{sheet.id}:{event.call}"
    sheet.say(("handoff", id, sheet.task(event.task), sender.agent, event.call))
    sheet.end_leg("completed", Standing.COMPLETE)
    context = _context(sender.context, offered)
    leg = Leg(sheet.position, sender.run_id, id, event.receiver, "pending", context, sender.input)
    sheet.take_on(leg, sheet.task(sender.position))


def _context(before: str, offered: Offered) -> str:
    """The variables of the receiver's task."""
    if offered.merge == "replace":
        return offered.variables
    return before if offered.variables == "{}" else merged(before, msgspec.json.decode(offered.variables))

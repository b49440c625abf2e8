"""Who is asked when a model wants a specialist: first the router chooses, then it is a delegate like any other."""

from __future__ import annotations

from changeover.agent.moves import BadArguments
from changeover.agent.roster import Roster
from changeover.agent.specialist import ToSpecialist
from changeover.handoffs.context import strip_forged
from changeover.relay.commands import FindReceiver, Record, SeekApproval
from changeover.relay.decide import delegates
from changeover.relay.events import CallRefused
from changeover.relay.run import Run
from changeover.relay.state import State
from changeover.relay.turn import OpenCall, Turn


def seek(
    state: State, run: Run, turn: Turn, call: OpenCall, move: ToSpecialist, roster: Roster
) -> Record | SeekApproval | FindReceiver:
    """Find somebody, then offer the task; if nobody fits, the model is told so."""
    chosen = call.chosen
    if chosen is not None:
        if chosen.receiver:
            return delegates.delegate(state, run, turn, call, move, roster)
        return Record(CallRefused(call.id, state.task, f"no specialist: {chosen.why}", "declined"))
    args, _ = strip_forged(call.call.args)
    wish = BadArguments(delegates.not_json(call.call)) if call.call.malformed else move.read(args)
    if isinstance(wish, BadArguments):
        reason = f"the arguments of {call.call.name} do not fit: {wish.reason}"
        return Record(CallRefused(call.id, state.task, reason, "arguments"))
    if refusal := delegates.too_much(state, run, (call.id, ""), roster):
        return refusal
    return FindReceiver(f"{call.id}@", state.task, state.id, turn.agent, wish, move.among)

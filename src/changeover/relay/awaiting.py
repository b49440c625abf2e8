"""Whether the outcome of a command is still wanted; O(1), where `decide` would list all that is outstanding."""

from __future__ import annotations

from changeover.relay.deciding import tiering
from changeover.relay.ids import call_of
from changeover.relay.run import Acting, Awaiting, Replied, Stopping, Thinking
from changeover.relay.state import State
from changeover.relay.turn import Asked, Begun, Delegated, Directed, Fresh, Offered, OpenCall, Turn


def awaits(state: State, command: str) -> bool:
    """Whether this command is outstanding."""
    if "<" in command:
        return any(wanted.id == command for wanted in state.rollbacks.values())
    if command.endswith("=tier"):
        return tiering.awaited(state, command)
    match state.run.phase if state.run else None:
        case Thinking(due=due):
            return due == command
        case Acting(turn=turn):
            return _in_turn(turn, command)
        case Replied(at=at):
            return f"{at}=result" == command
        case Awaiting(request=request):
            return f"{request.call}!" == command
        case Stopping(turn=turn) if turn and command.endswith("~"):
            return isinstance(turn.calls[call_of(command)].phase, Delegated)
        case _:
            return False


def _in_turn(turn: Turn, command: str) -> bool:
    call = turn.calls.get(call_of(command))
    if call is not None and command.endswith("=result"):
        return isinstance(call.phase, Offered) and call.phase.problem is None
    if call is not None and command.endswith("=end"):
        return isinstance(call.phase, Directed) and turn.judged is None
    return call is not None and _wanted(call, command)


def _wanted(call: OpenCall, command: str) -> bool:
    phase = call.phase
    match command[-1]:
        case "?":
            return isinstance(phase, Fresh | Directed)
        case "@":
            return isinstance(phase, Fresh | Directed) and call.chosen is None
        case "!":
            return isinstance(phase, Asked) and f"{phase.request.call}!" == command
        case "^":
            return isinstance(phase, Offered) and f"{phase.offer.call}^" == command
        case "%":
            mine = isinstance(phase, Offered) and f"{phase.offer.call}%" == command
            return mine and isinstance(phase, Offered) and phase.packed is None
        case "~":
            return isinstance(phase, Delegated) and phase.recalled is not None
        case _:
            mine = isinstance(phase, Delegated) and phase.offer.call == command and phase.recalled is None
            return mine or isinstance(phase, Fresh | Begun)

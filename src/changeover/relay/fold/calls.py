"""The fold of the calls of a turn: begun, finished, refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from changeover.facts import DelegateResult
from changeover.ids import handoff_id
from changeover.relay.events import CallRefused, ReceiverChosen, SkillLoaded, ToolFinished, ToolStarted
from changeover.relay.run import Acting, Run, Stopping
from changeover.relay.turn import BEGUN, Declined, Directed, Fanned, Fresh, OpenCall, Travelling, Turn
from changeover.tools.command import Directive

if TYPE_CHECKING:
    from changeover.relay.state import State

MISTAKES = frozenset({"arguments", "tool", "receiver", "command", "guard"})
"""Refusals that count as mistakes of the model."""
UNKNOWN = "unknown: this call was begun before a crash, and it cannot be known whether it took effect"


def intend(state: State, run: Run, event: ToolStarted) -> None:
    if found := run.find(event.call, Fresh):
        found[1].phase = BEGUN


def finish(state: State, run: Run, event: ToolFinished) -> None:
    if isinstance(run.phase, Stopping) or not (found := run.find(event.call)):
        return
    turn, call = found
    run.tool_calls += 1
    run.progress += event.ok
    directive, before = event.directive, state.travelling
    text = UNKNOWN if event.unknown else event.text + dropped(event.dropped) + edited(call)
    if directive is not None:
        state.update(turn, call, directive)
    run.news += _is_news(state, run, call, event, before)
    if directive is not None and directive.leads:
        turn.move(call, Directed(directive, text, turn.agent))
        return
    state.answer(run, turn, call, text, event.ok, event.files)


def load_skill(state: State, run: Run, event: SkillLoaded) -> None:
    finish(state, run, ToolFinished(event.call, event.task, event.text, read_only=True))


def _is_news(state: State, run: Run, call: OpenCall, event: ToolFinished, before: Travelling) -> bool:
    """True if a tool took effect or gave a new answer. A Command that leads elsewhere counts only if it changed the
    context: the handoff itself is judged elsewhere."""
    if event.directive is not None and event.directive.leads:
        return state.travelling != before
    if not event.read_only or not event.ok:
        return event.ok
    asked = msgspec.json.encode(call.call.args).decode()
    return run.hears(call.call.name, asked, event.text)


def refuse(state: State, run: Run, event: CallRefused) -> None:
    if not isinstance(run.phase, Acting):
        return
    turn = run.phase.turn
    if not turn.rule:  # a model asked for it
        _hold_against(run, turn, event)
    if event.call not in turn.calls:
        turn.send_out(event.call)  # a branch that was not sent
    if found := run.find(event.call):
        call = found[1]
        if call.branch_of:
            call.result = DelegateResult(handoff_id(state.id, call.id), event.receiver, False, error=event.reason)
        elif turn.code and not event.receiver:  # no receiver was asked, so no handoff holds the reason
            state.returned = (DelegateResult("", "", False, error=event.reason),)
        state.answer(run, turn, call, event.reason, ok=False)


def choose(state: State, run: Run, event: ReceiverChosen) -> None:
    if event.usage is not None:
        run.charge(state.agent, event.usage)
    if not (found := run.find(event.call, (Fresh, Directed, Declined))):
        return
    turn, call = found
    if isinstance(phase := call.phase, Directed):
        if not run.brokers(turn):
            return
        call.phase = replace(phase, directive=_towards(event.receiver, phase.directive))
    call.chosen = event
    turn.idle[call.id] = call


def _towards(receiver: str, directive: Directive) -> Directive:
    """The directive of code with the receiver that the broker found."""
    if not directive.sends:
        return replace(directive, goto=receiver)
    return replace(directive, sends=tuple(replace(errand, receiver=receiver) for errand in directive.sends))


def _hold_against(run: Run, turn: Turn, event: CallRefused) -> None:
    """Count a refusal against the agent, or note that it has no handoffs left."""
    if event.why in MISTAKES:
        turn.faulty, run.mistake = True, event
    elif event.why == "limit":
        run.told = True
    elif event.why == "result":
        run.repairs, turn.judged = run.repairs + 1, None


def gather(state: State, run: Run, turn: Turn, sender: OpenCall) -> None:
    """Answer a call with the results of its branches once all have returned."""
    if sender.out or not isinstance(sender.phase, Fanned) or sender.phase.sent < len(sender.phase.directive.sends):
        return
    branches = turn.branches(sender)
    results = tuple(branch.result for branch in branches if branch.result)
    if turn.quiet:
        state.returned = results
    state.answer(run, turn, sender, msgspec.json.encode(results).decode())


def dropped(names: tuple[str, ...]) -> str:
    """The text that a model reads about reserved arguments that it set."""
    return f" (ignored the reserved arguments {', '.join(names)})" if names else ""


def edited(call: OpenCall) -> str:
    """The text that a model reads about a call that a person edited."""
    if call.edit is None:
        return ""
    arguments = call.edit.arguments
    return (
        "" if arguments is None else f" (a person changed the arguments to {msgspec.json.encode(arguments).decode()})"
    )

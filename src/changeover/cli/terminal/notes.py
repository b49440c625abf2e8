"""Notes: events that a transcript shows as one line, and the answers of receivers in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, assert_never

from changeover.errors import limit_words
from changeover.relay.events import (
    ENGINE,
    AlternativeRefused,
    ContentChecked,
    ContextPacked,
    FellBack,
    HandoffConditional,
    HandoffExpired,
    HandoffRejected,
    HandoffRolledBack,
    LimitReached,
    ModelFailed,
    ReceiverChosen,
    RepairAsked,
    RollbackBegan,
    RuleFailed,
    RuleFired,
    StepBegan,
    StepFailed,
    StepSkipped,
    TicketLapsed,
    TicketTaken,
    TierChosen,
)

Declined = HandoffRejected | HandoffConditional | HandoffExpired


class Note(NamedTuple):
    """A line about an event, and its colour; without a text nothing is shown."""

    text: str
    colour: str = "dim"


def _chosen(agent: str, event: ReceiverChosen) -> Note:
    if not event.receiver:
        return Note(f"{agent} finds no specialist: {event.why}", "yellow")
    return Note(f"{event.receiver} fits: {event.why}")


def _limited(agent: str, event: LimitReached) -> Note:
    return Note(f"{agent} is told: {limit_words(event.limit, event.figure, event.spent)}", "yellow")


def _packed(agent: str, event: ContextPacked) -> Note:
    if event.error:
        return Note(f"the context could not be packed ({event.error}); the last messages are passed on", "yellow")
    return Note(f"context packed: {event.strategy}, {event.after:,} tokens")


def _rolled_back(agent: str, event: HandoffRolledBack) -> Note:
    why = f": {event.reason}" if event.reason else ""
    return Note(f"rolled back from {event.receiver} to {event.sender}{why}", "red")


def _lapsed(agent: str, event: TicketLapsed) -> Note:
    return Note(event.reason if event.by in ("", ENGINE) else f"{event.by} gave it back: {event.reason}")


def _failed(agent: str, event: ModelFailed) -> Note:
    return Note(f"the model failed ({event.reason}); it is called again" if event.retry_at else "")


def _step_began(agent: str, event: StepBegan) -> Note:
    what = f"undoes the step {event.step}" if event.undo else f"step {event.step}"
    item = f", item {event.item + 1}" if event.item else ""
    return Note(f"{what}{item}{f', attempt {event.attempt}' if event.attempt > 1 else ''}")


def _step_failed(agent: str, event: StepFailed) -> Note:
    what = f"undoing {event.step}" if event.undo else f"step {event.step}"
    return Note(f"{what} failed{'' if event.final else ', and is tried again'}: {event.reason}", "red")


NOTES: dict[type[Any], Callable[[str, Any], Note]] = {
    AlternativeRefused: lambda agent, event: Note(f"{event.receiver} is not asked: {event.reason}", "yellow"),
    HandoffRolledBack: _rolled_back,
    ContextPacked: _packed,
    ReceiverChosen: _chosen,
    LimitReached: _limited,
    ModelFailed: _failed,
    TicketTaken: lambda agent, event: Note(f"{event.by} works on it"),
    TicketLapsed: _lapsed,
    TierChosen: lambda agent, event: Note(f"a {event.tier} task: {event.reason}"),
    RuleFired: lambda agent, event: Note(event.words),
    ContentChecked: lambda agent, event: Note(event.words, "yellow"),
    RuleFailed: lambda agent, event: Note(event.words, "red"),
    FellBack: lambda agent, event: Note(f"{event.agent or agent} continues alone: {event.reason}", "yellow"),
    StepBegan: _step_began,
    StepSkipped: lambda agent, event: Note(f"step {event.step} is skipped: {event.reason}"),
    StepFailed: _step_failed,
    RollbackBegan: lambda agent, event: Note("the steps that are done are undone", "red"),
    RepairAsked: lambda agent, event: Note(f"{agent} is told what is wrong with its answer: {event.problem}"),
}
"""The note about an event of each type, given the agent that works."""
LABELS: dict[type[Declined], str] = {
    HandoffRejected: "REJECTED",
    HandoffConditional: "CONDITION",
    HandoffExpired: "TIMEOUT",
}


def answer_words(answer: Declined) -> str:
    """A receiver's answer to an offer, if it is not an acceptance."""
    match answer:
        case HandoffRejected(receiver=receiver, reason=reason, suggested=suggested):
            return f"{receiver} rejects it: {reason}{f' (suggests {suggested})' if suggested else ''}"
        case HandoffExpired(receiver=receiver, reason=reason):
            return f"time is up for {receiver}: {reason}"
        case HandoffConditional(receiver=receiver, needs_context=missing) if missing:
            return f"{receiver} accepts only if it knows {', '.join(missing)}"
        case HandoffConditional(receiver=receiver, needs_permission=needed):
            return f"{receiver} accepts only with permission for {', '.join(needed)}"
        case _:
            assert_never(answer)

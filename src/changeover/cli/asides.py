"""What happens beside handoffs, and is good to know, in words for the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from changeover.errors import limit_words
from changeover.relay.events import (
    FellBack,
    LimitReached,
    ReceiverChosen,
    RepairAsked,
    RuleFailed,
    RuleFired,
    TierChosen,
)


class Aside(NamedTuple):
    """A line, and its colour; without one it is only a note."""

    text: str
    colour: str = ""


def aside(agent: str, event: object) -> Aside | None:
    """What to say of an event while this agent works; nothing, if nobody has to know of it at once."""
    words = WORDS.get(type(event))
    return words(agent, event) if words else None


def _chosen(agent: str, event: ReceiverChosen) -> Aside:
    if not event.receiver:
        return Aside(f"{agent} finds no specialist: {event.why}", "yellow")
    return Aside(f"{event.receiver} fits: {event.why}")


def _limited(agent: str, event: LimitReached) -> Aside:
    return Aside(f"{agent} is told: {limit_words(event.limit, event.figure, event.spent)}", "yellow")


WORDS: dict[type[Any], Callable[[str, Any], Aside]] = {
    ReceiverChosen: _chosen,
    LimitReached: _limited,
    TierChosen: lambda agent, event: Aside(f"a {event.tier} task: {event.reason}"),
    RuleFired: lambda agent, event: Aside(event.words),
    RuleFailed: lambda agent, event: Aside(event.words, "red"),
    FellBack: lambda agent, event: Aside(f"{agent} goes on alone: {event.reason}", "yellow"),
    RepairAsked: lambda agent, event: Aside(f"{agent} is told what is wrong with its answer: {event.problem}"),
}

"""Strategies: how much of a conversation a receiver sees. What is left out of its view stays in the log.

Every strategy takes selectors: `exclude=("tool:search", "variable:card_*")` hides the results of a tool and some
context variables, `include=("author:user",)` shows only what the user said.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from changeover.handoffs.context import selector_faults
from changeover.messages import Message

FETCH = "fetch_context"
"""The tool by which an agent reads what was said before it took over."""


class Chapter(Struct, frozen=True, omit_defaults=True):
    """A stretch of a conversation as those who come after are told of it."""

    text: str = ""
    """A summary, in prose."""
    facts: tuple[str, ...] = ()
    """Word for word: decisions, numbers, ids, file names, open questions."""
    ref: str = ""
    """By what the whole of it can be fetched, if it can."""
    sections: tuple[str, ...] = ()
    """What can be fetched of it by name."""
    messages: int = 0
    """How many messages it covers."""
    prompt: int = 0
    """By which version of our prompt it was summed up, if it was."""


def can_fetch(chapters: Iterable[Chapter]) -> bool:
    """Whether there is anything of which more can be read."""
    return any(chapter.ref for chapter in chapters)


class Handover(Struct, frozen=True, kw_only=True):
    """What the sender has, and who is to get it."""

    sender: str
    receiver: str
    purpose: str = ""
    """What the receiver is there for, as it was declared."""
    capabilities: tuple[str, ...] = ()
    message: str = ""
    """What the sender says to the receiver."""
    request: str = ""
    """What the user asked for."""
    messages: Sequence[Message] = ()
    """What was said since the last chapter, oldest first."""
    chapters: tuple[Chapter, ...] = ()
    """What was packed before, oldest first."""
    variables: Mapping[str, Any] = {}
    artifacts: Mapping[str, str | None] = {}
    workflow_state: Mapping[str, Any] = {}


FALLBACK = 5
"""How many of the last messages a receiver gets if what its strategy makes of them could not be made."""


class Selective(Struct, frozen=True, kw_only=True):
    """What every strategy can leave out beside what it is there for."""

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def faults(self) -> list[str]:
        """What is wrong with it as it was declared."""
        return selector_faults(self.include, self.exclude)


class Full(Selective, frozen=True):
    """Everything the sender saw."""

    name = "full"


class MessageOnly(Selective, frozen=True):
    """The user's request and the sender's message, nothing else."""

    name = "message_only"


class Recent(Selective, frozen=True):
    """The user's request, the last messages, as many as it says, and the sender's message."""

    messages: int = FALLBACK

    name = "recent"

    def faults(self) -> list[str]:
        return [*super().faults(), *_count_faults("messages", self.messages)]


class Kept(Selective, frozen=True, kw_only=True):
    """What is said of what stays in the team's store, where the receiver can read it."""

    max_facts: int = 300
    """How many tokens what is told word for word may take."""
    expires: float | None = None
    """After how many seconds the rest can no longer be fetched; None is as long as the conversation is kept."""
    max_bytes: int = 1_000_000
    """How large what is kept may be."""

    def faults(self) -> list[str]:
        found = [*super().faults(), *_count_faults("max_bytes", self.max_bytes)]
        found += _count_faults("max_facts", self.max_facts)
        if self.expires is not None and not self.expires > 0:
            found.append(f"expires={self.expires!r} must be a number of seconds above 0, or None")
        return found


class Summary(Kept, frozen=True):
    """The user's request, and what went before as the team's helper model sums it up for this receiver; decisions,
    numbers, ids, file names and open questions stand beside that word for word, and the rest can be fetched."""

    needs: Sequence[str] = ()
    """What the receiver has to know, in words for whoever sums up."""
    max_tokens: int = 500
    """How long the summary may be."""
    timeout: float = 60.0
    """For how many seconds the summary is awaited."""

    name = "summary"

    def faults(self) -> list[str]:
        found = [*super().faults(), *_count_faults("max_tokens", self.max_tokens)]
        if isinstance(self.needs, str) or not all(isinstance(need, str) for need in self.needs):
            found.append(f"needs={self.needs!r} must be a list of texts")
        return found if self.timeout > 0 else [*found, f"timeout={self.timeout!r} must be a number of seconds above 0"]


class Reference(Kept, frozen=True):
    """The user's request, key points, and an address by which the receiver can fetch the rest when it needs it."""

    name = "reference"


Packed: TypeAlias = str | Sequence[Message]
"""What a strategy of your own gives: a text for the receiver, or the messages that it sees."""
Custom: TypeAlias = Callable[[Handover], Packed | Awaitable[Packed]]
BuiltIn: TypeAlias = Full | MessageOnly | Recent | Summary | Reference
Strategy: TypeAlias = BuiltIn | Custom

BUILT_IN = (Full, MessageOnly, Recent, Summary, Reference)
PURE = (Full, MessageOnly, Recent)
"""Those that make the receiver's view of what is there, and nothing else."""


def name_of(strategy: Strategy) -> str:
    """How a strategy is called in the log."""
    if isinstance(strategy, BUILT_IN):
        return strategy.name
    return getattr(strategy, "__name__", "") or type(strategy).__name__


def recent_of(strategy: Strategy) -> int:
    """How many of the last messages are shown by it as they are; all, if it is negative."""
    match strategy:
        case Full():
            return -1
        case Recent():
            return strategy.messages
        case MessageOnly():
            return 0
        case _:
            return FALLBACK


def strategy_faults(strategy: Any) -> list[str]:
    """What is wrong with what was declared as a strategy."""
    if strategy is None:
        return []
    if isinstance(strategy, BUILT_IN):
        return [f"has strategy {strategy.name}: {fault}" for fault in strategy.faults()]
    if callable(strategy) and not isinstance(strategy, type):
        return []
    known = ", ".join(f"{each.__name__}()" for each in BUILT_IN)
    return [f"has strategy={strategy!r}; give {known}, or a function of a Handover"]


def _count_faults(name: str, value: object) -> list[str]:
    whole = isinstance(value, int) and value is not True and value >= 1
    return [] if whole else [f"{name}={value!r} must be a whole number, 1 or more"]

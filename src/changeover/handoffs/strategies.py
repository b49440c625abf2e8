"""Strategies: how much of a conversation a receiver sees. What is left out of its view stays in the log.

A strategy is a class: its attributes and methods say what it shows and how that is made, so that a new one needs no
change elsewhere. Every strategy takes selectors: `exclude=("tool:search", "variable:card_*")` hides the results of a
tool and some context variables, `include=("author:user",)` shows only the user's messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from changeover.copies import copied
from changeover.handoffs.callback import arity_faults
from changeover.handoffs.context import selector_faults
from changeover.messages import Message, Reply, copied_messages

FETCH = "fetch_context"
"""The tool with which an agent reads the messages from before it took over."""


class Chapter(Struct, frozen=True, omit_defaults=True):
    """A short form of earlier messages, for later receivers."""

    text: str = ""
    """A summary, in prose."""
    facts: tuple[str, ...] = ()
    """Quoted word for word: decisions, numbers, ids, file names, open questions."""
    ref: str = ""
    """The address of the full text, if it is stored."""
    sections: tuple[str, ...] = ()
    """Sections of the full text that can be fetched by name."""
    messages: int = 0
    """Number of messages that it covers."""
    prompt: int = 0
    """Version of the prompt that made the summary; 0 without one."""


def refs_of(chapters: Iterable[Chapter]) -> tuple[str, ...]:
    """Addresses at which the full text of chapters is stored."""
    return tuple(chapter.ref for chapter in chapters if chapter.ref)


@copied("variables", "artifacts", "workflow_state")
@copied("messages", copy=copied_messages)
class Handover(Struct, frozen=True, kw_only=True, dict=True):
    """The input of a strategy: the sender's context, and its receiver."""

    sender: str
    receiver: str
    purpose: str = ""
    """The receiver's description or instructions, as declared."""
    capabilities: tuple[str, ...] = ()
    message: str = ""
    """The sender's message to the receiver."""
    request: str = ""
    """The user's request."""
    messages: Sequence[Message] = ()
    """The messages since the last chapter, oldest first."""
    chapters: tuple[Chapter, ...] = ()
    """The chapters that were made before, oldest first."""
    variables: Mapping[str, Any] = {}
    artifacts: Mapping[str, str | None] = {}
    workflow_state: Mapping[str, Any] = {}


T = TypeVar("T")
ALL = -1
FALLBACK = 5
"""Number of last messages that a receiver gets if its strategy failed."""


class Effects(Protocol):
    """What a strategy may do while it packs; the core carries it out."""

    async def ask_model(self, instructions: str, text: str, timeout: float) -> Reply:
        """Ask the team's helper model, or else the sender's model; raises ModelError if there is none."""
        ...

    async def store(self, body: str, expires: float | None) -> str:
        """Store a text with the conversation and return its id; it can be read for `expires` seconds, None for no
        limit."""
        ...

    async def run(self, work: Callable[[], T]) -> T:
        """Do long work in a thread, beside the event loop."""
        ...

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call the user's function, plain or async; raises TimeoutError if it takes too long."""
        ...


class PackedContext(Struct, frozen=True):
    """The output of a strategy that makes the context: a chapter, a text or messages."""

    chapter: Chapter | None = None
    text: str = ""
    messages: tuple[Message, ...] = ()


class ContextStrategy(Struct, frozen=True, kw_only=True):
    """How much of a conversation a receiver sees.

    A subclass sets `name`. One that shows messages as they are overrides `recent`; one that makes something of them
    sets `made = True` and overrides `pack`. If `pack` raises, the receiver gets the last messages instead.
    """

    include: Sequence[str] = ()
    """Selectors of what the receiver sees, such as "variable:order_*", "tool:search" or "author:user"; empty for
    everything."""
    exclude: Sequence[str] = ()
    """Selectors of what the receiver does not see."""

    name: ClassVar[str] = ""
    made: ClassVar[bool] = False
    """True if `pack` makes the context; if False, the receiver sees a part of the sender's thread."""
    retells: ClassVar[bool] = False
    """True if the receiver reads all chapters, the new one and those before."""

    @property
    def logged_as(self) -> str:
        """The name of the strategy in events and tables."""
        return self.name or type(self).__name__

    @property
    def recent(self) -> int:
        """Number of last messages that the receiver sees as they are; negative for all."""
        return FALLBACK

    @property
    def whole(self) -> bool:
        """True if the receiver reads the sender's thread unchanged."""
        return False

    def for_size(self, tokens: int) -> ContextStrategy:
        """The strategy for a context of this many `tokens`."""
        return self

    @property
    def fallback(self) -> ContextStrategy | None:
        """The strategy that packs if this one fails; None for the last messages."""
        return None

    def faults(self) -> list[str]:
        """The faults of the declaration, one text each."""
        return selector_faults(self.include, self.exclude)

    async def pack(self, handover: Handover, effects: Effects) -> PackedContext:
        """Make the receiver's context from the `handover`; `effects` ask models and store contexts."""
        return PackedContext()


class Full(ContextStrategy, frozen=True):
    """Everything the sender saw."""

    name = "full"

    @property
    def recent(self) -> int:
        return ALL

    @property
    def whole(self) -> bool:
        return not self.include and not self.exclude


class MessageOnly(ContextStrategy, frozen=True):
    """The user's request and the sender's message, nothing else."""

    name = "message_only"

    @property
    def recent(self) -> int:
        return 0


class Recent(ContextStrategy, frozen=True):
    """The user's request, the last `messages` messages, and the sender's message."""

    messages: int = FALLBACK

    name = "recent"

    @property
    def recent(self) -> int:
        return self.messages

    def faults(self) -> list[str]:
        return [*super().faults(), *count_faults("messages", self.messages)]


Packed: TypeAlias = str | Sequence[Message]
"""What a function of your own returns as a strategy: a text for the receiver, or the messages that it sees."""
Function: TypeAlias = Callable[[Handover], Packed | Awaitable[Packed]]
Strategy: TypeAlias = ContextStrategy | Function


class Custom(ContextStrategy, frozen=True):
    """A function of the user's as a strategy."""

    function: Function

    made = True

    @property
    def logged_as(self) -> str:
        return getattr(self.function, "__name__", "") or type(self.function).__name__

    async def pack(self, handover: Handover, effects: Effects) -> PackedContext:
        packed = await effects.call(self.function, handover)
        return PackedContext(text=packed) if isinstance(packed, str) else PackedContext(messages=_checked(packed))


def _checked(packed: Any) -> tuple[Message, ...]:
    """The messages that a function returned, if a log can store them."""
    if not isinstance(packed, Sequence) or not all(isinstance(each, Message) for each in packed):
        raise TypeError(f"a strategy must give a text or a list of messages, not {type(packed).__name__}")
    if not packed:
        raise ValueError("the strategy left nothing")
    return msgspec.json.decode(msgspec.json.encode(list(packed)), type=tuple[Message, ...])


def as_strategy(declared: Strategy) -> ContextStrategy:
    """A declared strategy, with a function wrapped."""
    return declared if isinstance(declared, ContextStrategy) else Custom(function=declared)


def strategy_faults(strategy: Any) -> list[str]:
    """The faults of a value that was declared as a strategy."""
    if strategy is None:
        return []
    if isinstance(strategy, ContextStrategy):
        return [f"has strategy {strategy.logged_as}: {fault}" for fault in strategy.faults()]
    if callable(strategy) and not isinstance(strategy, type):
        return arity_faults("strategy", strategy, "handover")
    known = "Full(), MessageOnly(), Recent(), Summary(), Reference()"
    return [f"has strategy={strategy!r}; give {known}, or a function of a Handover"]


def count_faults(name: str, value: object, least: int = 1) -> list[str]:
    """The faults of an option that has to be a whole number."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
    return [] if whole else [f"{name}={value!r} must be a whole number, {least} or more"]

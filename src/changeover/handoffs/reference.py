"""Reference: a strategy that stores the conversation and gives the receiver an address."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from changeover.handoffs.document import Document, body_of, document_of, sections_of
from changeover.handoffs.essentials import essentials
from changeover.handoffs.passages import statements
from changeover.handoffs.strategies import (
    Chapter,
    ContextStrategy,
    Effects,
    Full,
    Handover,
    PackedContext,
    count_faults,
)
from changeover.handoffs.tokens import weight
from changeover.messages import Note, User

SCHEME = "context://"
SHARE, LEAST = 8, 60
"""Quoted facts may take one token in SHARE of all messages, and LEAST tokens in any case."""


class Kept(ContextStrategy, frozen=True, kw_only=True):
    """A strategy that stores the messages where the receiver can read them, and quotes facts from them."""

    max_facts: int = 400
    """Tokens that the quoted facts may take."""
    expires: float | None = None
    """Seconds after which the stored text can no longer be fetched; None keeps it as long as the conversation."""
    max_bytes: int = 20_000_000
    """Size that the stored text may have."""
    whole_up_to: int = 2_000
    """Tokens up to which the messages are passed on whole, as by Full(): to fetch what is left out would cost more."""

    made = True
    retells = True
    must_store: ClassVar[bool] = True
    """True if a text above `max_bytes` is an error; if False, the chapter then has no address."""

    def faults(self) -> list[str]:
        found = [*super().faults(), *count_faults("max_bytes", self.max_bytes)]
        found += [*count_faults("max_facts", self.max_facts), *count_faults("whole_up_to", self.whole_up_to, 0)]
        if self.expires is not None and not self.expires > 0:
            found.append(f"expires={self.expires!r} must be a number of seconds above 0, or None")
        return found

    def for_size(self, tokens: int) -> ContextStrategy:
        return Full(include=self.include, exclude=self.exclude) if tokens <= self.whole_up_to else self

    async def pack(self, handover: Handover, effects: Effects) -> PackedContext:
        return await self.pack_news(handover, effects) if _has_news(handover) else PackedContext()

    async def pack_news(self, handover: Handover, effects: Effects) -> PackedContext:
        """Pack a `handover` that holds more than the request and the sender's message, with these `effects`."""
        return PackedContext(await self.store(handover, effects))

    async def store(self, handover: Handover, effects: Effects) -> Chapter:
        """Store the messages of a `handover` with `effects`; the chapter has their facts, address and sections."""
        # In a thread, because it is slow for a long conversation.
        facts, document, body = await effects.run(partial(self._kept, handover))
        if (size := len(body.encode())) > self.max_bytes:
            if self.must_store:
                raise ValueError(f"the messages take {size:,} bytes, and max_bytes={self.max_bytes:,}")
            return Chapter(facts=facts, messages=len(handover.messages))
        id = await effects.store(body, self.expires)
        return Chapter("", facts, f"{SCHEME}{id}", sections_of(document), len(handover.messages))

    def _kept(self, handover: Handover) -> tuple[tuple[str, ...], Document, str]:
        """The facts that the receiver does not read elsewhere, the document, and the text in which it is stored."""
        room = min(self.max_facts, max(LEAST, weight(*handover.messages) // SHARE))
        known = [fact for chapter in handover.chapters for fact in (*chapter.facts, *statements(chapter.text))]
        facts = essentials(handover.messages, room, known)
        read = f"{handover.request}\n{handover.message}"
        news = (fact for fact in facts if fact not in known and fact.partition(": ")[2] not in read)
        return tuple(news), (document := document_of(handover.messages)), body_of(document)


def _has_news(handover: Handover) -> bool:
    """True if there are messages beside the request and the sender's message, which the receiver always reads."""
    known = {handover.request, handover.message}
    return any(
        not isinstance(each, User | Note) or each.text not in known or (isinstance(each, User) and each.files)
        for each in handover.messages
    )


class Reference(Kept, frozen=True):
    """The user's request, key facts, and an address with which the receiver can fetch the rest when it needs it."""

    name = "reference"

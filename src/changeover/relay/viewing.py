"""What a receiver's model reads of what was said before it took over."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from changeover.handoffs.selecting import select_messages
from changeover.handoffs.strategies import FALLBACK, Full, MessageOnly
from changeover.messages import Assistant, Message, Note, ToolResult, User
from changeover.relay.events import ContextPacked, HandoffOffered, UserSpoke
from changeover.relay.turn import OpenCall, Turn

LEFT_OUT = "[this result is not shown to you]"


def is_whole(offer: HandoffOffered) -> bool:
    """Whether the receiver reads on where the sender stopped."""
    return offer.strategy == Full.name and not offer.include and not offer.exclude and not offer.packs


def said_before(thread: Sequence[Message], turn: Turn, call: OpenCall) -> list[Message]:
    """All that the sender knew and said, without the call by which it hands over. The thread ends with the sender's
    reply, if that has one."""
    if turn.quiet:
        return list(thread)
    *before, reply = thread
    assert isinstance(reply, Assistant)
    others = [
        (other.call, result) for other, result in zip(turn.asked, turn.results(), strict=True) if other is not call
    ]
    if not others and not reply.text:
        return before
    # Without what its provider wants back: that is of the whole reply.
    kept = replace(reply, calls=tuple(asked for asked, _ in others), extra={})
    return [*before, kept, *(result for _, result in others)]


def view_of(
    offer: HandoffOffered, packed: ContextPacked | None, spoken: UserSpoke, said: Sequence[Message]
) -> list[Message]:
    """A new thread, for whoever gets less than all: what the user asked for is always in it."""
    request = User(spoken.text, author_of(spoken), spoken.files)
    if packed is not None and packed.messages:
        return list(packed.messages)
    if packed is not None and packed.briefing:
        return [request, Note(packed.briefing, offer.sender)]
    shown = completed(last_of(select_messages(said, offer.include, offer.exclude), shown_by(offer)))
    if not any(isinstance(each, User) and each.text == request.text for each in shown):
        shown = [request, *shown]
    return [*shown, Note(offer.message, offer.sender)] if offer.message else shown


def shown_by(offer: HandoffOffered) -> int:
    """How many of the last messages its receiver sees; all, if it is negative."""
    if offer.packs:  # which did not succeed
        return FALLBACK
    if offer.strategy == Full.name:
        return -1
    return 0 if offer.strategy == MessageOnly.name else offer.recent


def last_of(messages: Sequence[Message], most: int) -> list[Message]:
    """The last ones, and of a turn that would be cut all of it; all, if it is negative."""
    first = 0 if most < 0 else max(0, len(messages) - most)
    while 0 < first < len(messages) and isinstance(messages[first], ToolResult):
        first -= 1
    return list(messages[first:])


def completed(messages: Sequence[Message]) -> list[Message]:
    """The messages with a result for every call: of what is not shown, only that it is not."""
    shown: list[Message] = []
    answered = {message.call for message in messages if isinstance(message, ToolResult)}
    for message in messages:
        shown.append(message)
        if isinstance(message, Assistant):
            missing = [call for call in message.calls if call.id not in answered]
            shown += [ToolResult(call.id, call.name, message.agent, LEFT_OUT) for call in missing]
    return shown


def author_of(spoken: UserSpoke) -> str:
    """Who said it: the user, by name if it is known, or the agent that gave the task."""
    return spoken.given.sender if spoken.given else spoken.user or "user"

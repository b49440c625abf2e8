"""Codec: the events of an entry as JSON text, and entries from rows of the log."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from changeover.errors import StoreDamaged
from changeover.relay.events import Entry, Event, Unreadable
from changeover.relay.sanitize import whole
from changeover.stores.sql.database import Row

Events = tuple[Event | Unreadable, ...]

_ENCODER = msgspec.json.Encoder()
_EVENTS = msgspec.json.Decoder(tuple[Event, ...])
_EVENT: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_PIECES = msgspec.json.Decoder(list[msgspec.Raw])


class _Named(msgspec.Struct):
    event: str = ""


_NAME = msgspec.json.Decoder(_Named)


def encode(events: Events) -> tuple[str, Events]:
    """The events as text, and as they will be read back; unreadable events are written as they were."""
    pieces: Sequence[Event | Unreadable | msgspec.Raw] = events
    if Unreadable in map(type, events):
        pieces = [msgspec.Raw(event.raw) if isinstance(event, Unreadable) else event for event in events]
    try:
        return _ENCODER.encode(pieces).decode(), events
    except UnicodeEncodeError:
        # A model may write a lone surrogate, which cannot be encoded.
        body = _ENCODER.encode([whole(msgspec.to_builtins(piece)) for piece in pieces]).decode()
        return body, decode(body)


def decode(body: str) -> Events:
    """The events of an entry; those that this version does not know stay raw."""
    try:
        return _EVENTS.decode(body)
    except msgspec.ValidationError:
        return tuple(_read(bytes(piece)) for piece in _PIECES.decode(body))
    except msgspec.DecodeError as error:
        raise StoreDamaged(f"the store is damaged: an entry cannot be read ({error})") from error


def entry_of(row: Row) -> Entry:
    """The entry of a row of the log."""
    conversation, root, position, cause, at, body, seq, schema = row
    return Entry(conversation, root, position, cause, at, decode(body), seq, schema)


def _read(piece: bytes) -> Event | Unreadable:
    try:
        return _EVENT.decode(piece)
    except msgspec.ValidationError:
        return Unreadable(_NAME.decode(piece).event, piece)

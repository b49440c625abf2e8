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

_OF_THE_FUTURE = ("Invalid value ", "Invalid enum value ")
"""Beginnings of msgspec's errors about a tag or an enum value that is not declared; a newer version may declare it."""


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


def decode(body: str, conversation: str = "", position: int = 0) -> Events:
    """The events of the entry at this position; those that this version does not know stay raw.

    Raises StoreDamaged if the text is no list of events, or a known event lacks a field or has a value of another type.
    """
    try:
        try:
            return _EVENTS.decode(body)
        except msgspec.ValidationError:
            return tuple(_read(bytes(piece)) for piece in _PIECES.decode(body))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise StoreDamaged(conversation, f"the entry at {position} cannot be decoded ({error})") from error


def entry_of(row: Row) -> Entry:
    """The entry of a row of the log; raises StoreDamaged if it cannot be decoded."""
    conversation, root, position, cause, at, body, seq, schema, *_ = row
    return Entry(conversation, root, position, cause, at, decode(body, conversation, position), seq, schema)


def log_of(rows: Sequence[Row], after: int = 0) -> list[Entry]:
    """The entries of a log, from rows that end with the position of its head; without entries it has one such row.

    Raises StoreDamaged if an entry cannot be decoded or is missing, or if the log does not end at its head.
    """
    if not rows:
        return []
    conversation, *_, head = rows[0]
    entries = [entry_of(row) for row in rows if row[2] is not None]
    if (after and not entries) or any(Unreadable in map(type, entry.events) for entry in entries):
        return entries  # a log of a newer version is not judged
    end = check_order(conversation, entries, entries[0].position if after else 0)
    if end != head:
        raise StoreDamaged(conversation, f"the log ends at {end}, and its table says {head}")
    return entries


def check_order(conversation: str, entries: Sequence[Entry], position: int = 0) -> int:
    """The position after these entries of a conversation; raises StoreDamaged if one does not begin where it has to."""
    for entry in entries:
        if entry.position != position:
            raise StoreDamaged(conversation, f"the log goes on at {entry.position}, and should at {position}")
        position += len(entry.events)
    return position


def _read(piece: bytes) -> Event | Unreadable:
    try:
        return _EVENT.decode(piece)
    except msgspec.ValidationError as error:
        if not str(error).startswith(_OF_THE_FUTURE):
            raise
        return Unreadable(_NAME.decode(piece).event, piece)

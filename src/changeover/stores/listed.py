"""Lists on their way to PostgreSQL: as one JSON text, which costs the driver no more than a single value."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import msgspec

from changeover.stores.sql.database import Row

_ENCODER = msgspec.json.Encoder()

NOTHING = b"\\u0000"
"""As JSON writes the one character that no text of PostgreSQL can hold."""


class Listed(bytes):
    """A list as JSON."""


def texts(values: Sequence[str]) -> Listed:
    """A list of texts."""
    listed = _ENCODER.encode(values)
    return Listed(_ENCODER.encode([holdable(value) for value in values]) if NOTHING in listed else listed)


def rows(fields: Sequence[str], values: Sequence[Row]) -> Listed:
    """A list of rows, in which each field says its name."""
    listed = _ENCODER.encode([dict(zip(fields, row, strict=True)) for row in values])
    if NOTHING in listed or any(inf in row or -inf in row for row in values):
        listed = _ENCODER.encode([dict(zip(fields, map(_sayable, row), strict=True)) for row in values])
    return Listed(listed)


def holdable(text: str) -> str:
    """A text as PostgreSQL can hold it."""
    return text.replace("\0", "\ufffd")


def _sayable(value: object) -> object:
    if isinstance(value, str):
        return holdable(value)
    # JSON has no word for what is without end; PostgreSQL takes the one of Python.
    return str(value) if value in (inf, -inf) else value

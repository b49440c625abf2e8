"""What every event has in common."""

from __future__ import annotations

from msgspec import Struct


class Recordable(Struct, frozen=True, omit_defaults=True, gc=False, tag_field="event"):
    """What every event has in common: its name in the log."""

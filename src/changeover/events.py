"""The classes of recorded events, for readers of streams, histories and hooks."""

from changeover.relay import events
from changeover.relay.events import *  # noqa: F403

__all__ = events.__all__

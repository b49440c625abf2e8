"""The items of `team.stream(…)` and `team.follow(…)`; `team.history(…)` and hooks have `Recorded`, too."""

from changeover.relay.stream import AgentChanged, Recorded, RunFinished, StreamItem, TextDelta, ThinkingDelta

__all__ = [
    "AgentChanged",
    "Recorded",
    "RunFinished",
    "StreamItem",
    "TextDelta",
    "ThinkingDelta",
]

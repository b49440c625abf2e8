"""Limits of one run, its handoffs and delegates included."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Limits(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How far a run may go; past it the run raises, or the agent is told and answers itself."""

    max_handoffs: int = 10
    max_turns: int = 50
    max_depth: int = 5
    """How deep delegates may delegate in turn."""
    on_limit: Literal["raise", "tell"] = "raise"

    def faults(self) -> list[str]:
        """What is wrong with these limits."""
        found = []
        if not isinstance(self.max_handoffs, int) or self.max_handoffs < 0:
            found.append(f"max_handoffs is {self.max_handoffs!r}; give 0 (no handoffs) or more")
        if not isinstance(self.max_turns, int) or self.max_turns < 1:
            found.append(f"max_turns is {self.max_turns!r}; give 1 or more")
        if not isinstance(self.max_depth, int) or self.max_depth < 0:
            found.append(f"max_depth is {self.max_depth!r}; give 0 (no delegates) or more")
        if self.on_limit not in ("raise", "tell"):
            found.append(f"on_limit is {self.on_limit!r}; give 'raise' or 'tell'")
        return found

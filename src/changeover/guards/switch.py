"""Switch: where handoffs are enabled; everywhere, nowhere, for a share of conversations, or by agent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

Enabled: TypeAlias = bool | float | Mapping[str, bool | float]
"""A declaration `handoffs_enabled=…`: on or off, a share of conversations from 0 to 1, or these by agent."""

WORDS = {"on": 1.0, "off": 0.0}


class Switch(Struct, frozen=True):
    """The share of conversations, from 0 to 1, in which agents may hand off."""

    default: float = 1.0
    """The share for agents that are not in `own`."""
    own: Mapping[str, float] = {}
    """The shares of single agents, by id."""

    def is_on(self, root: str, agent: str) -> bool:
        """True if an agent may hand off in the tree with this root id; the same in every process, at any time."""
        share = self.own.get(agent, self.default)
        return share >= 1 or (share > 0 and place_of(root) < share)

    @property
    def is_off(self) -> bool:
        """True if no agent ever hands off."""
        return self.default <= 0 and not any(self.own.values())


ON = Switch()


def place_of(root: str) -> float:
    """A fixed number from 0 to 1 for a conversation: if a share grows, no conversation loses its handoffs."""
    return int.from_bytes(hashlib.sha256(root.encode()).digest()[:8], "big") / 2**64


def switch_of(declared: Enabled, override: str = "") -> Switch:
    """The declaration `handoffs_enabled=…` as a Switch; `override`, from the environment, wins if it is not empty."""
    if override:
        return Switch(_share_in(override) or 0.0)
    if isinstance(declared, Mapping):
        return Switch(own={agent: float(share) for agent, share in declared.items()})
    return Switch(float(declared))


def switch_faults(declared: object, ids: Sequence[str]) -> list[str]:
    """The faults of the declaration `handoffs_enabled=…`, one text each."""
    if not isinstance(declared, Mapping):
        return [] if _is_share(declared) else [f"the team has handoffs_enabled={declared!r}; {WHAT}"]
    unknown = [f"handoffs_enabled names {agent!r}, which is not in the team" for agent in declared if agent not in ids]
    wrong = [agent for agent, share in declared.items() if not _is_share(share)]
    return unknown + [f"handoffs_enabled of {agent!r} is {declared[agent]!r}; {WHAT_EACH}" for agent in wrong]


def override_faults(variable: str, value: str) -> list[str]:
    """The faults of the environment variable that overrides `handoffs_enabled`."""
    if not value or _share_in(value) is not None:
        return []
    return [f"{variable}={value!r} in the environment; give on, off, or the share of conversations between 0 and 1"]


def _share_in(text: str) -> float | None:
    word = text.strip().lower()
    if word in WORDS:
        return WORDS[word]
    try:
        share = float(word)
    except ValueError:
        return None
    return share if _is_share(share) else None


def _is_share(value: object) -> bool:
    return isinstance(value, bool | int | float) and 0 <= value <= 1


WHAT_EACH = "give True, False, or the share of conversations between 0 and 1"
WHAT = f"{WHAT_EACH}; or a dict of those by agent"

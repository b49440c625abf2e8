"""Trials: what a team tries in several variants, compiled for those who decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct


class Trial(Struct, frozen=True):
    """Variants of one thing, and who gets which."""

    name: str
    variants: dict[str, Any]
    choose: Callable[[str], str]
    """The variant for the tree of a root, by the root's id."""

    def chosen(self, root: str, recorded: Mapping[str, str]) -> str:
        """The variant of a tree: the one that was recorded, else the one that is its."""
        return recorded.get(self.name) or self.choose(root)


Trials: TypeAlias = dict[tuple[str, str], Trial]
"""By what is tried and the agent that it is about; there is at most one for both."""


def tried_model(agent: str, trial: str, variant: str) -> str:
    """Under which name the model is found that an agent has in a variant; no agent can be called so."""
    return f"{agent}@{trial}={variant}"

"""Agents as `agents` lists them: the team's declarations joined with what the store says."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from changeover.relay.tables import KeptAgent
from changeover.routing.profile import Profile
from changeover.routing.registry import Registry, registry_over


class Enrolled(Struct, frozen=True):
    """One agent."""

    id: str
    handoffs: str
    """Whether it gets any: yes, or why not."""
    source: str
    """Who describes it: code, or the store."""
    profile: Profile
    updated_at: float | None = None
    """When the store was last told something of it."""


def enrolled(declared: Sequence[Profile] | None, kept: Sequence[KeptAgent]) -> list[Enrolled]:
    """Everybody of whom something is known, by their ids; without a team, only those of whom the store says
    something."""
    said = {each.id: each.profile for each in kept if each.profile is not None}
    registry = registry_over(Registry(declared or ()), said, frozenset())
    by_id = {each.id: each for each in kept}
    team = None if declared is None else {profile.id for profile in declared}
    known = sorted({*by_id, *(profile.id for profile in registry)})
    return [_one(id, registry.get(id) or Profile(id), by_id.get(id), team) for id in known]


def _one(id: str, profile: Profile, kept: KeptAgent | None, team: set[str] | None) -> Enrolled:
    said = kept is not None and kept.profile is not None
    source = "store" if said else "code" if team is None or id in team else "nobody"
    return Enrolled(id, _handoffs(id, profile, kept, team), source, profile, kept.updated_at if kept else None)


def _handoffs(id: str, profile: Profile, kept: KeptAgent | None, team: set[str] | None) -> str:
    if kept is not None and kept.removed:
        return "removed"
    if kept is not None and not kept.enabled:
        return "disabled"
    if team is not None and id not in team:
        return "not in the team"
    return "yes" if profile.accepts_handoffs else "it takes none"

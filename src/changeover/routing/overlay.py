"""What is said of agents later, laid over what was declared: profiles, and who is there at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from changeover.agent.agent import Agent, Function, Member, Person
from changeover.agent.roster import Roster, Seat, seat
from changeover.routing.profile import Profile
from changeover.routing.registry import Registry

SAID = ("description", "specialization", "capabilities", "examples", "max_concurrency")
"""What a profile says where the declaration says nothing: what is said in code holds."""


def registry_over(declared: Registry, said: Mapping[str, Profile], absent: frozenset[str]) -> Registry:
    """Everybody who was declared, as they are described now, and those who were only described."""
    registry = declared
    for id, profile in said.items():
        before = registry.get(id)
        registry = registry.with_profile(replace(before, **_told(profile, before)) if before else profile)
    for id in absent:
        if id in registry:
            registry = registry.disabled(id)
    return registry


def roster_over(declared: Roster, said: Mapping[str, Profile], absent: frozenset[str]) -> Roster:
    """The same team, whose models are told of everybody who is there as they are described now."""
    if not said and not absent:
        return declared
    members = {id: _member(seat, said.get(id)) for id, seat in declared.seats.items()}
    seats: dict[str, Seat | Function | Person] = {}
    for id, before in declared.seats.items():
        member = members[id]
        if isinstance(before, Seat) and isinstance(member, Agent):
            seats[id] = seat(member, members, before.alone, declared.handoffs_enabled, absent)
        elif not isinstance(member, Agent):
            seats[id] = member
    return replace(declared, seats=seats, absent=absent & declared.seats.keys())


def overruled(declared: Registry, said: Mapping[str, Profile]) -> dict[str, list[str]]:
    """What profiles say of agents and is not heard, since the code says something else."""
    found = {id: _overruled(profile, before) for id, profile in said.items() if (before := declared.get(id))}
    return {id: names for id, names in found.items() if names}


def _overruled(profile: Profile, before: Profile) -> list[str]:
    pairs = {name: (getattr(profile, name), getattr(before, name)) for name in SAID}
    return [name for name, (said, declared) in pairs.items() if said and declared and said != declared]


def _told(profile: Profile, before: Profile | Agent) -> dict[str, Any]:
    return {name: getattr(before, name) or getattr(profile, name) for name in SAID}


def _member(seat: Seat | Function | Person, profile: Profile | None) -> Member:
    """A member as it is described now."""
    if isinstance(seat, Seat):
        return dataclasses.replace(seat.agent, **_told(profile, seat.agent)) if profile else seat.agent
    said = seat.description or (profile.description if profile else "")
    return dataclasses.replace(seat, description=said) if said else seat

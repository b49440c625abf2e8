"""Registry: all profiles to choose from, and the profiles registered later that complete the declared ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from changeover.agent.agent import Agent, Function, Member, Person
from changeover.agent.roster import Roster, Seat, seat
from changeover.errors import UnknownAgentError
from changeover.routing.match import TextMatch, WordMatch
from changeover.routing.profile import Profile, abilities, key


class Registry:
    """Profiles by their id and by what they can do. Never changed: each change gives another registry."""

    def __init__(self, profiles: Iterable[Profile] = (), match: TextMatch | None = None) -> None:
        """`match` says how texts are compared; without one, by their words."""
        self._profiles = {profile.id: profile for profile in profiles}
        self._match = WordMatch() if match is None else match

    def __len__(self) -> int:
        return len(self._profiles)

    def __iter__(self) -> Iterator[Profile]:
        return iter(sorted(self._profiles.values(), key=lambda profile: profile.id))

    def __contains__(self, id: str) -> bool:
        return id in self._profiles

    def get(self, id: str) -> Profile | None:
        """The profile with this id, if there is one."""
        return self._profiles.get(id)

    def with_profile(self, profile: Profile) -> Registry:
        """The same with this profile, which takes the place of one with the same id."""
        return self._with(self._profiles | {profile.id: profile})

    def without(self, id: str) -> Registry:
        """The same without this profile."""
        self._known(id)
        return self._with({other: profile for other, profile in self._profiles.items() if other != id})

    def only(self, ids: Collection[str]) -> Registry:
        """The same with nobody but these."""
        return self._with({id: profile for id, profile in self._profiles.items() if id in ids})

    def enabled(self, id: str) -> Registry:
        """The same, and this one may be chosen."""
        return self.with_profile(replace(self._known(id), enabled=True))

    def disabled(self, id: str) -> Registry:
        """The same, and this one is not chosen."""
        return self.with_profile(replace(self._known(id), enabled=False))

    @cached_property
    def available(self) -> tuple[Profile, ...]:
        """All to whom something may be handed, by their ids."""
        return tuple(profile for profile in self if profile.available)

    @cached_property
    def match(self) -> TextMatch:
        """What compares the available profiles with a task; it is made when it is first asked for, and kept."""
        return self._match.over(self.available)

    def holding(self, *capabilities: str) -> tuple[Profile, ...]:
        """The available ones that have all of these capabilities, by their ids; all of them if none is asked for."""
        if not capabilities:
            return self.available
        holders = sorted((self._holders.get(key(each), {}) for each in capabilities), key=len)
        return tuple(profile for id, profile in holders[0].items() if all(id in others for others in holders[1:]))

    @cached_property
    def _holders(self) -> dict[str, dict[str, Profile]]:
        found: dict[str, dict[str, Profile]] = {}
        for profile in self.available:
            for ability in abilities(profile):
                found.setdefault(ability, {})[profile.id] = profile
        return found

    def _known(self, id: str) -> Profile:
        if id not in self._profiles:
            raise UnknownAgentError(id, tuple(self._profiles))
        return self._profiles[id]

    def _with(self, profiles: dict[str, Profile]) -> Registry:
        # What was made for this registry is brought up to date for the next; what was not, need not be.
        return Registry(profiles.values(), self.__dict__.get("match", self._match))


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

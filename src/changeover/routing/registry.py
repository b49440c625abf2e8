"""Registry: the profiles to choose from, and the merge of declared profiles with those registered at run time."""

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
    """An immutable set of profiles, by id and by capability; each change returns a new registry."""

    def __init__(self, profiles: Iterable[Profile] = (), match: TextMatch | None = None) -> None:
        """`match` compares texts; None takes WordMatch."""
        self._profiles = {profile.id: profile for profile in profiles}
        self._match = WordMatch() if match is None else match

    def __len__(self) -> int:
        return len(self._profiles)

    def __iter__(self) -> Iterator[Profile]:
        return iter(sorted(self._profiles.values(), key=lambda profile: profile.id))

    def __contains__(self, id: str) -> bool:
        return id in self._profiles

    def get(self, id: str) -> Profile | None:
        """The profile with this id, or None."""
        return self._profiles.get(id)

    def with_profile(self, profile: Profile) -> Registry:
        """A registry with this profile; it replaces one with the same id."""
        return self._with(self._profiles | {profile.id: profile})

    def without(self, id: str) -> Registry:
        """A registry without this profile; raises UnknownAgentError."""
        self._known(id)
        return self._with({other: profile for other, profile in self._profiles.items() if other != id})

    def only(self, ids: Collection[str]) -> Registry:
        """A registry of the profiles with these ids only."""
        return self._with({id: profile for id, profile in self._profiles.items() if id in ids})

    def enabled(self, id: str) -> Registry:
        """A registry in which this agent is enabled; raises UnknownAgentError."""
        return self.with_profile(replace(self._known(id), enabled=True))

    def disabled(self, id: str) -> Registry:
        """A registry in which this agent is disabled; raises UnknownAgentError."""
        return self.with_profile(replace(self._known(id), enabled=False))

    @cached_property
    def available(self) -> tuple[Profile, ...]:
        """The profiles that can get handoffs, by id."""
        return tuple(profile for profile in self if profile.available)

    @cached_property
    def match(self) -> TextMatch:
        """The text match over the available profiles; built at the first use."""
        return self._match.over(self.available)

    def holding(self, *capabilities: str) -> tuple[Profile, ...]:
        """The available profiles that have all of these capabilities, by id; all of them if none is given."""
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
        # The match of this registry, if it was built, is the base of the next, so that only changes are read.
        return Registry(profiles.values(), self.__dict__.get("match", self._match))


COMPLETED = ("description", "specialization", "capabilities", "examples", "max_concurrency")
"""The fields that a registered profile fills in where the declaration is empty; a declared value wins."""


def registry_over(declared: Registry, registered: Mapping[str, Profile], absent: frozenset[str]) -> Registry:
    """The declared profiles completed by the registered ones, and those that are only registered."""
    registry = declared
    for id, profile in registered.items():
        before = registry.get(id)
        registry = registry.with_profile(replace(before, **_completed(profile, before)) if before else profile)
    for id in absent:
        if id in registry:
            registry = registry.disabled(id)
    return registry


def roster_over(declared: Roster, registered: Mapping[str, Profile], absent: frozenset[str]) -> Roster:
    """The roster with descriptions completed by registered profiles, and without handoffs to absent members."""
    if not registered and not absent:
        return declared
    absent = (absent & declared.seats.keys()) | declared.absent
    members = {id: _member(seat, registered.get(id)) for id, seat in declared.seats.items()}
    seats: dict[str, Seat | Function | Person] = {}
    for id, before in declared.seats.items():
        member = members[id]
        if isinstance(before, Seat) and isinstance(member, Agent):
            seats[id] = seat(member, members, before.tools.values(), declared.handoffs_enabled, absent)
        elif not isinstance(member, Agent):
            seats[id] = member
    return replace(declared, seats=seats, absent=absent)


def overruled(declared: Registry, registered: Mapping[str, Profile]) -> dict[str, list[str]]:
    """By id: the fields of registered profiles that have no effect, because the declaration has another value."""
    found = {id: _overruled(profile, before) for id, profile in registered.items() if (before := declared.get(id))}
    return {id: names for id, names in found.items() if names}


def _overruled(profile: Profile, before: Profile) -> list[str]:
    pairs = {name: (getattr(profile, name), getattr(before, name)) for name in COMPLETED}
    return [name for name, (new, declared) in pairs.items() if new and declared and new != declared]


def _completed(profile: Profile, before: Profile | Agent) -> dict[str, Any]:
    return {name: getattr(before, name) or getattr(profile, name) for name in COMPLETED}


def _member(seat: Seat | Function | Person, profile: Profile | None) -> Member:
    """The member, completed by its registered profile."""
    if isinstance(seat, Seat):
        return dataclasses.replace(seat.agent, **_completed(profile, seat.agent)) if profile else seat.agent
    description = seat.description or (profile.description if profile else "")
    return dataclasses.replace(seat, description=description) if description else seat

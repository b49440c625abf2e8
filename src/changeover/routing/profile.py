"""Profile: what an agent can do, as the registry and the broker read it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from changeover.agent.agent import Agent, Member, purpose
from changeover.ids import SLUG

APART = re.compile(r"[\s_-]+")
DIGITS = re.compile(r"\d+")


class Profile(Struct, frozen=True, omit_defaults=True):
    """What an agent can do, for routing. Stores keep it as JSON.

    `id`, `name`, `description`, `specialization`, `capabilities`, `examples`, `accepts_handoffs` and `max_concurrency`
    are those of an Agent. An agent that is not `enabled` gets no handoffs.
    """

    id: str
    name: str = ""
    description: str = ""
    specialization: str = ""
    capabilities: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    """Tasks for it, as a user would write them."""
    accepts_handoffs: bool = True
    max_concurrency: int | None = None
    """How many tasks it works on at a time; None for no limit."""
    enabled: bool = True

    @property
    def available(self) -> bool:
        """True if it can get handoffs."""
        return self.enabled and self.accepts_handoffs


def profile_of(member: Member) -> Profile:
    """The profile of a declared member."""
    if not isinstance(member, Agent):
        return Profile(member.id, member.name, purpose(member))
    return Profile(
        member.id,
        member.name,
        member.description,
        member.specialization,
        tuple(member.capabilities),
        tuple(member.examples),
        member.accepts_handoffs,
        member.max_concurrency,
    )


def profile_faults(profile: Profile) -> list[str]:
    """The faults of a profile that was registered at run time, one text each."""
    found = []
    if not SLUG.fullmatch(profile.id):
        found.append(f"{profile.id!r} is not a valid id; use letters, digits, '-' and '_', at most 64")
    if profile.max_concurrency is not None and profile.max_concurrency < 1:
        found.append(f"max_concurrency={profile.max_concurrency!r}; give 1 or more, or None for no limit")
    return found


def key(capability: str) -> str:
    """A capability in the form for comparison: without capitals, hyphens, underscores and spaces."""
    return APART.sub("", capability.casefold())


def abilities(profile: Profile) -> dict[str, str]:
    """The capabilities and the specialization of a profile, by key, in its own words."""
    named = (profile.specialization, *profile.capabilities)
    return {key(each): each for each in named if key(each)}


def parts_of(profile: Profile) -> Iterator[tuple[str, str]]:
    """The texts of a profile, each with the name of its part."""
    # Digits only number agents of one kind; they do not describe them.
    yield "name", DIGITS.sub(" ", f"{profile.id} {profile.name}")
    yield "specialization", profile.specialization
    yield "description", profile.description
    yield "capabilities", ", ".join(profile.capabilities)
    yield "examples", "; ".join(profile.examples)


def text_of(profile: Profile) -> str:
    """All texts of a profile."""
    return "\n".join(text for _, text in parts_of(profile) if text)

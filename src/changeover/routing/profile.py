"""Profile: what an agent can do, as the registry and the broker read it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from changeover.agent.agent import SLUG, Agent, Member, purpose

APART = re.compile(r"[\s_-]+")
DIGITS = re.compile(r"\d+")


class Profile(Struct, frozen=True, omit_defaults=True):
    """An agent as others see it. It can be stored as JSON."""

    id: str
    name: str = ""
    description: str = ""
    specialization: str = ""
    capabilities: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    """Tasks that it is there for, as somebody would say them."""
    accepts_handoffs: bool = True
    max_concurrency: int | None = None
    enabled: bool = True

    @property
    def available(self) -> bool:
        """Whether anything may be handed to it."""
        return self.enabled and self.accepts_handoffs


def profile_of(member: Member) -> Profile:
    """The profile of a member as it was declared."""
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
    """What is wrong with a profile that was not declared in code."""
    most = profile.max_concurrency
    return [
        *(
            []
            if SLUG.fullmatch(profile.id)
            else [f"{profile.id!r} is no id; use letters, digits, '-' and '_', at most 64"]
        ),
        *([] if most is None or most >= 1 else [f"max_concurrency={most!r}; give 1 or more, or None for no limit"]),
    ]


def key(capability: str) -> str:
    """A capability as it is compared: without capitals, hyphens, underscores and spaces."""
    return APART.sub("", capability.casefold())


def abilities(profile: Profile) -> dict[str, str]:
    """All that a profile says it can do, by its key, in its own words; its specialization is one of them."""
    named = (profile.specialization, *profile.capabilities)
    return {key(each): each for each in named if key(each)}


def parts_of(profile: Profile) -> Iterator[tuple[str, str]]:
    """What there is to read in a profile, and what it is called."""
    # An id of two agents of a kind ends in a number, which is no word about them.
    yield "name", DIGITS.sub(" ", f"{profile.id} {profile.name}")
    yield "specialization", profile.specialization
    yield "description", profile.description
    yield "capabilities", ", ".join(profile.capabilities)
    yield "examples", "; ".join(profile.examples)


def text_of(profile: Profile) -> str:
    """All that there is to read in a profile."""
    return "\n".join(text for _, text in parts_of(profile) if text)

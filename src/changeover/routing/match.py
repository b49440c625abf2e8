"""Which of a few texts fit a request."""

from __future__ import annotations

from collections.abc import Mapping

from changeover.routing.index import Index


def rank(request: str, profiles: Mapping[str, str]) -> list[tuple[str, float]]:
    """The profiles that share something telling with the request, the best first; ties in the order given."""
    index = Index().changed((), profiles)
    return sorted(index.scores(index.asked(request)).items(), key=lambda each: -each[1])


def shared(request: str, profile: str) -> set[str]:
    """What the request and a profile have in common: stems, and families with a tilde."""
    index = Index().changed((), {"": profile})
    return {term for term in index.asked(request) if term in index}

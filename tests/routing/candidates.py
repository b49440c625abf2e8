"""Somebody who could take a task."""

from changeover.routing.broker import Recommendation


def candidate(agent: str, score: float = 1.0, why: str = "") -> Recommendation:
    return Recommendation(agent, score, why, "text")

"""All stories, of every theme, for whoever tells them: on memory, on a database, through crashes."""

import os

from tests.stories import (
    absence,
    alternatives,
    answers,
    approvals,
    branches,
    breakers,
    brokering,
    budgets,
    busy,
    cancelling,
    claiming,
    cleaning,
    commands,
    conditions,
    conversations,
    declining,
    delegates,
    escalations,
    expectations,
    functions,
    guards,
    inboxes,
    lapsing,
    lateness,
    learning,
    limits,
    mistakes,
    modes,
    occupied,
    offers,
    overdue,
    packages,
    packing,
    patience,
    people,
    queued,
    referring,
    rollbacks,
    ruled,
    rules,
    shifts,
    specialists,
    submitting,
    thinking,
    timeouts,
    tools,
    transfers,
    trees,
    trials,
    turns,
    variables,
    withdrawing,
    workers,
)
from tests.stories.stage import STORIES, Stage, Story

THEMES = (
    *(transfers, variables, turns, limits, budgets, guards, rules, ruled, modes),
    *(mistakes, tools, functions, thinking, conversations, trials),
    *(delegates, trees, commands, branches, approvals, breakers, cancelling),
    *(answers, busy, declining, alternatives, conditions, escalations, people, inboxes, timeouts, patience),
    *(specialists, absence, occupied, brokering),
    *(packing, referring, offers, packages, lateness, expectations, rollbacks, cleaning),
    *(learning, queued, submitting, claiming, lapsing, overdue, withdrawing, workers, shifts),
)

STRESS = "CHANGEOVER_STRESS" in os.environ


def stores_for(turn: int) -> list[tuple[str, str]]:
    """On which database each story is told: under stress on both, else by two suites in turn, so that together they
    tell it on both."""
    names = list(STORIES)
    databases = ("sqlite", "postgresql")
    if STRESS:
        return [(database, name) for database in databases for name in names]
    return [(databases[(number + turn) % 2], name) for number, name in enumerate(names)]


__all__ = ["STORIES", "THEMES", "Stage", "Story", "stores_for"]

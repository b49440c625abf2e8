"""All stories, of every theme, for whoever tells them: on memory, on a database, through crashes."""

from tests.stories import (
    answers,
    approvals,
    branches,
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
    inboxes,
    lapsing,
    lateness,
    limits,
    mistakes,
    offers,
    overdue,
    packages,
    patience,
    people,
    queued,
    rollbacks,
    shifts,
    submitting,
    thinking,
    timeouts,
    tools,
    transfers,
    trees,
    turns,
    variables,
    withdrawing,
    workers,
)
from tests.stories.stage import STORIES, Stage, Story

THEMES = (
    *(transfers, variables, turns, limits, mistakes, tools, functions, thinking, conversations),
    *(delegates, trees, commands, branches, approvals, cancelling),
    *(answers, busy, declining, conditions, escalations, people, inboxes, timeouts, patience),
    *(offers, packages, lateness, expectations, rollbacks, cleaning),
    *(queued, submitting, claiming, lapsing, overdue, withdrawing, workers, shifts),
)

__all__ = ["STORIES", "THEMES", "Stage", "Story"]

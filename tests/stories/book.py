"""All stories by theme, for the suites that run them: in memory, on a database, through crashes."""

import os

from tests.stories import (
    absence,
    alternatives,
    answers,
    approvals,
    binding_expectations,
    bound_approvals,
    branches,
    breakers,
    broker,
    budgets,
    cancellation,
    checks,
    claims,
    cleanup,
    commands,
    concurrency,
    conditions,
    context,
    conversations,
    deadlines,
    declarations,
    delegates,
    escalations,
    expectations,
    experience,
    fallbacks,
    functions,
    guards,
    happenings,
    honest_loops,
    inboxes,
    lapses,
    lasting_packages,
    lateness,
    limits,
    load,
    mistakes,
    models,
    modes,
    next_candidates,
    offers,
    packages,
    patience,
    people,
    policies,
    queue,
    references,
    rejections,
    rollbacks,
    rules,
    settled_tickets,
    shifts,
    skills,
    specialists,
    submissions,
    successors,
    timeouts,
    tool_kinds,
    tools,
    transfers,
    trees,
    trials,
    turns,
    variables,
    verdicts,
    withdrawals,
    workers,
    workflows,
)
from tests.stories.stage import STORIES, Stage, Story

THEMES = (
    *(transfers, variables, turns, limits, budgets, guards, honest_loops, rules, verdicts, modes),
    *(mistakes, tools, tool_kinds, skills, functions, models, conversations, trials, declarations),
    *(delegates, trees, commands, branches, approvals, bound_approvals, breakers, cancellation),
    *(answers, concurrency, rejections, alternatives, conditions, escalations, people, inboxes, timeouts, patience),
    *(specialists, successors, next_candidates, fallbacks, absence, load, broker),
    *(context, references, offers, packages, lateness, expectations, rollbacks, cleanup),
    *(experience, queue, submissions, claims, lapses, deadlines, withdrawals, workers, shifts),
    *(settled_tickets, lasting_packages, binding_expectations, policies, checks, workflows, happenings),
)

STRESS = "CHANGEOVER_STRESS" in os.environ


def stores_for(turn: int) -> list[tuple[str, str]]:
    """The database of each story: under stress both, else alternating, so that two suites together cover both."""
    names = list(STORIES)
    databases = ("sqlite", "postgresql")
    if STRESS:
        return [(database, name) for database in databases for name in names]
    return [(databases[(number + turn) % 2], name) for number, name in enumerate(names)]


__all__ = ["STORIES", "THEMES", "Stage", "Story", "stores_for"]

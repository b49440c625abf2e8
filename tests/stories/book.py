"""All stories, of every theme, for whoever tells them: on memory, on a database, through crashes."""

from tests.stories import (
    approvals,
    branches,
    cancelling,
    commands,
    conversations,
    delegates,
    functions,
    limits,
    mistakes,
    thinking,
    tools,
    transfers,
    trees,
    turns,
    variables,
)
from tests.stories.stage import STORIES, Stage, Story

THEMES = (
    *(transfers, variables, turns, limits, mistakes, tools, functions, thinking, conversations),
    *(delegates, trees, commands, branches, approvals, cancelling),
)

__all__ = ["STORIES", "THEMES", "Stage", "Story"]

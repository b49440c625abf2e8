"""All stories, of every theme, for whoever tells them: on memory, on a database, through crashes."""

from tests.stories import conversations, functions, limits, mistakes, thinking, tools, transfers, turns, variables
from tests.stories.stage import STORIES, Stage, Story

THEMES = (transfers, variables, turns, limits, mistakes, tools, functions, thinking, conversations)

__all__ = ["STORIES", "THEMES", "Stage", "Story"]

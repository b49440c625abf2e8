"""Stories of behaviour that the library does not have yet.

Each is told on every kind of store and fails there. A change that makes one hold replaces `@wanted(…)` with `@story`
and lists its module in `book.py`: then the crash harness tells it through deaths as well.
"""

from typing import NamedTuple

from tests.stories.stage import STORIES, Story


class Wanted(NamedTuple):
    """A story that does not hold yet, and why."""

    tell: Story
    reason: str
    stores: tuple[str, ...]


WANTED: dict[str, Wanted] = {}


def wanted(reason: str, *stores: str) -> "Marked":
    """Tell this story, and expect that it fails: on all stores, or only on those that are named."""
    return Marked(reason, stores or ("memory", "sqlite", "postgresql"))


class Marked(NamedTuple):
    """Why stories fail, and on which stores."""

    reason: str
    stores: tuple[str, ...]

    def __call__(self, tell: Story) -> Story:
        assert tell.__name__ not in {*WANTED, *STORIES}, f"two stories are called {tell.__name__}"
        WANTED[tell.__name__] = Wanted(tell, self.reason, self.stores)
        return tell

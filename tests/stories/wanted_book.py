"""All themes of wanted stories."""

from tests.stories import (
    honest_loops,
    next_candidates,
    policies,
)

THEMES = (
    honest_loops,
    next_candidates,
    policies,
)

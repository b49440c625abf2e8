"""All themes of wanted stories."""

from tests.stories import (
    next_candidates,
    policies,
)

THEMES = (
    next_candidates,
    policies,
)

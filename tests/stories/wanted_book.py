"""All themes of wanted stories."""

from tests.stories import (
    binding_expectations,
    honest_loops,
    next_candidates,
    policies,
)

THEMES = (
    binding_expectations,
    honest_loops,
    next_candidates,
    policies,
)

"""All themes of wanted stories."""

from tests.stories import (
    binding_expectations,
    honest_loops,
    next_candidates,
    policies,
    settled_tickets,
)

THEMES = (
    binding_expectations,
    settled_tickets,
    honest_loops,
    next_candidates,
    policies,
)

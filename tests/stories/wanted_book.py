"""All themes of wanted stories."""

from tests.stories import (
    binding_expectations,
    bound_approvals,
    honest_loops,
    lasting_packages,
    next_candidates,
    policies,
    settled_tickets,
)

THEMES = (
    bound_approvals,
    lasting_packages,
    binding_expectations,
    settled_tickets,
    honest_loops,
    next_candidates,
    policies,
)

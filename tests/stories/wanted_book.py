"""All themes of wanted stories."""

from tests.stories import (
    binding_expectations,
    lasting_packages,
    policies,
    settled_tickets,
)

THEMES = (
    lasting_packages,
    binding_expectations,
    settled_tickets,
    policies,
)

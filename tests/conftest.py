"""How Hypothesis runs here: no deadline per example, and the same examples each time in CI.

Assertions in stories are explained as those in tests are; this has to be said before anybody imports them.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("changeover", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("changeover")

for path in (Path(__file__).parent / "stories").glob("[a-z]*.py"):
    pytest.register_assert_rewrite(f"tests.stories.{path.stem}")

"""How Hypothesis runs here: no deadline per example, and the same examples each time in CI."""

import os

from hypothesis import settings

settings.register_profile("changeover", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("changeover")

"""Assertions in stories are explained as those in tests are."""

from pathlib import Path

import pytest

for path in Path(__file__).parent.glob("[a-z]*.py"):
    if path.stem != "conftest":
        pytest.register_assert_rewrite(f"tests.stories.{path.stem}")

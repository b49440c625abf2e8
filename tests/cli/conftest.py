"""A folder with a team, and a conversation that waits for a person; created once per module."""

from pathlib import Path

import pytest

from tests.cli.process import DESK, PLAIN, Done, changeover


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("desk")
    (made / "desk.py").write_text(DESK)
    (made / "plain.py").write_text(PLAIN)
    return made


@pytest.fixture(scope="module")
def waiting(folder: Path) -> Done:
    """The run that started the conversation `ada`."""
    return changeover("run", "desk.py", "I was charged twice", "--conversation", "ada", at=folder)

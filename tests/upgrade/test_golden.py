"""Logs that earlier releases wrote are read by this version."""

from pathlib import Path

import msgspec
import pytest

from changeover.relay.decide.decision import decide
from changeover.relay.state import State
from tests.relay.test_fold import ROSTER
from tests.upgrade.write_golden import GOLDEN, Kept, entry_of, summary_of

FILES = sorted(GOLDEN.glob("*.jsonl"))


def test_there_is_a_golden_file():
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_log_of_a_release_still_folds_to_the_same_state(path: Path):
    lines = path.read_bytes().splitlines()
    assert len(lines) > 100
    for line in lines:
        kept = msgspec.json.decode(line, type=Kept)
        entries = [entry_of(entry) for entry in kept.entries]
        state = State(entries[0].conversation).fold(entries)
        assert summary_of(state) == kept.summary, kept.story
        decide(state, ROSTER)

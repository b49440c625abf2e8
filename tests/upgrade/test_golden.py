"""Logs that earlier releases wrote are read by this version."""

from pathlib import Path
from typing import Any

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
        assert _as_known(summary_of(state), kept.summary) == kept.summary, kept.story
        decide(state, ROSTER)


def _as_known(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """A summary with those fields of its handoffs that the release had; later releases add some."""
    pairs = zip(now["handoffs"], before["handoffs"], strict=True)
    return {**now, "handoffs": [{name: new[name] for name in old} for new, old in pairs]}

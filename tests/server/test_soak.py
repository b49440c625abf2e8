"""A server under load for long: every event arrives once and in order, and memory does not grow."""

import os

import pytest

from bench.server import Process, listening, loaded, serving

STRESS = "CHANGEOVER_STRESS" in os.environ
ROUNDS, SECONDS = (20, 60.0) if STRESS else (2, 1.0)
READERS, RATE = (200, 40.0) if STRESS else (6, 8.0)
WARM = ROUNDS // 4
"""Rounds after which caches are full."""


@pytest.mark.stress
@pytest.mark.timeout(1_800)
def test_memory_stays_flat_and_no_event_is_lost(shared_store: str):
    with listening(*serving(shared_store, "team" if STRESS else "quick")) as server:
        memory = [_round(server) for _ in range(ROUNDS)]
    print(shared_store.partition(":")[0], [f"{each:.0f} MB" for each in memory])
    assert memory[-1] <= memory[WARM] * 1.1 + 5


def _round(server: Process) -> float:
    """The memory of the server after a round."""
    report = loaded(server.url, READERS, RATE, SECONDS)
    assert report.conversations == int(RATE * SECONDS)
    assert report.wrong == []
    return server.memory

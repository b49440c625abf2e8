"""The comparison with other libraries: the contenders that need nothing to be installed do the work, tables compare."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench import ring
from bench.peers import adapters, worker
from bench.peers.environment import FLOOR, OURS, PEERS, Peer
from bench.peers.report import compared, crashes, relays

HERE = ("changeover", "floor", "pydantic_ai")
"""The adapters whose libraries are in the development environment."""


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ring, "CONDITIONS", ring.Conditions())
    monkeypatch.setattr(Peer, "version", lambda peer: "1.0")


def test_every_adapter_is_a_contender_and_every_contender_has_an_adapter():
    modules = {file.stem for file in Path(adapters.__file__).parent.glob("*.py")} - {"__init__"}
    assert sorted(peer.adapter for peer in PEERS) == sorted(modules)


@pytest.mark.parametrize("adapter", HERE)
async def test_a_contender_hands_over_as_often_as_the_script_says(adapter: str):
    peer = worker.contender(adapter)
    for hops in (1, 5):
        run = ring.begin(hops)
        assert await peer.relay() == ring.ANSWER
        if adapter != "floor":
            assert run.calls == [ring.RING[each % 3] for each in range(hops + 1)]


@pytest.mark.parametrize("adapter", HERE)
async def test_a_contender_writes_its_runs_to_disk(adapter: str):
    figures = await worker.durable(adapter, runs=20)
    assert figures["bytes"] > 0
    assert figures["cpu"] > 0


async def test_a_long_conversation_is_measured_at_its_marks_until_its_time_is_up():
    figures = await worker.long("changeover", marks=[2, 4], budget=60)
    assert sorted(figures) == ["2", "4"]
    assert figures["4"]["bytes"] >= figures["2"]["bytes"] > 0
    assert await worker.long("changeover", marks=[2, 4], budget=0) == {}


async def test_concurrent_runs_wait_for_their_models_together():
    figures = await worker.many("changeover", runs=20, latency=0.05)
    assert 0.1 <= figures["wall"] < 20 * 0.1


def test_after_a_kill_changeover_goes_on_at_the_receiver(tmp_path: Path):
    def run(scenario: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bench.peers.worker", "changeover", scenario, f'{{"folder": "{tmp_path}"}}']
        return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=50, check=False)

    assert run("crash").returncode == -9
    resumed = run("resume")
    assert '"agents": ["billing"], "answered": true' in resumed.stdout, resumed.stderr


OTHER = Peer("Other", "other", ("other==1.0",), "import other", relays=False)


def test_a_table_has_the_median_of_the_repetitions_and_its_ratio_to_ours():
    measured = {OURS: [{"cpu": 10.0}, {"cpu": 90.0}, {"cpu": 20.0}], FLOOR: [{"cpu": 5.0}], OTHER: [{"cpu": 3_000.0}]}
    grid = compared("Title", measured, {"CPU": lambda figures: figures["cpu"]})
    assert list(grid.head) == ["library", "release", "CPU", "/ ours"]
    assert [[row[0], *row[2:]] for row in grid.rows] == [
        ["Changeover", "20", "1.0x"],
        ["a loop by hand", "5.0", "0.25x"],
        ["Other", "3,000", "150x"],
    ]


def test_a_figure_that_a_library_does_not_have_is_left_out():
    grid = relays({OURS: [{"1": 100.0, "20": 1_050.0}], OTHER: [{"1": 200.0}]})
    assert [list(row[2:]) for row in grid.rows] == [["100", "1.0x", "50", "1.0x"], ["200", "2.0x", "-", "-"]]


def test_the_table_of_kills_says_which_agents_were_asked_and_if_there_was_an_answer():
    grid = crashes({OURS: [{"agents": ["billing"], "answered": True}], OTHER: [{"agents": [], "answered": False}]})
    assert [list(row[2:]) for row in grid.rows] == [["billing", "yes"], ["-", "no"]]

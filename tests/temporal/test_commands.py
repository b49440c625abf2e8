"""`changeover serve --engine` and `changeover worker --engine`, as processes."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from changeover import Temporal
from tests.cli.process import PLAIN, Started, changeover
from tests.server.process import serving


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(PLAIN)
    return tmp_path


def test_a_server_takes_inputs_and_a_worker_works_until_it_is_stopped(
    shop: Path, postgres: str, temporal: Callable[..., Temporal]
):
    given = temporal()
    address, store = f"temporal://{given.address}/default?queue={given.queue}", ("--store", postgres)
    with (
        Started(
            "worker", "shop.py:one", *store, "--engine", address, "--concurrency", "5", "--grace", "1", at=shop
        ) as every,
        Started("worker", "shop.py:one", *store, "--engine", address, "--agents", "echo", at=shop) as own,
        serving(postgres, "--engine", f"{address}&worker=false", team=f"{shop / 'shop.py'}:one") as server,
    ):
        every.until("serves all agents on")
        own.until("serves echo on")
        said = {"id": "c1", "text": "hi", "agent": "front"}
        with server.client(token=None) as client:
            answer = client.post("/conversations", params={"wait": True}, json=said, timeout=60)
        assert (answer.status_code, "I am here." in answer.text) == (200, True), answer.text
        for worker in (every, own):
            worker.hears(signal.SIGTERM)
            code, shown = worker.ends()
            assert (code, "It takes no more work, and finishes what it has." in shown) == (0, True), shown


def test_wrong_options_of_an_engine_are_told(shop: Path, postgres: str):
    def told(*args: str) -> str:
        done = changeover(*args, "--store", postgres, at=shop)
        assert done.returncode in (1, 2), done
        return done.stderr

    assert "'redis://x' is not the address of an engine" in told("serve", "shop.py:one", "--engine", "redis://x")
    assert "unknown option 'speed'" in told("worker", "shop.py:one", "--engine", "temporal://x:1?speed=9")
    agents = told("worker", "shop.py:one", "--engine", "temporal://x:1", "--agents", "nobody")
    assert "shop.py:one has no agent nobody; there are: front, echo, broken" in agents

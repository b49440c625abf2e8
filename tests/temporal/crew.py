"""Worker processes on one task queue of Temporal."""

from changeover.engines.temporal import Temporal
from tests.crash.nursery import Nursery, Worker, wait_for
from tests.crash.worker import Order

LEASE = 3.0
"""With the engine's own defaults, the settings that the documentation gives for a takeover within five seconds."""


def address(engine: Temporal) -> str:
    return f"temporal://{engine.address}/?queue={engine.queue}"


class Crew:
    """Worker processes on one queue."""

    def __init__(self, url: str, engine: Temporal, nursery: Nursery, longest: float) -> None:
        self._order = Order(url=url, lease=LEASE, longest=longest, stay=True, engine=address(engine))
        self._nursery, self.workers = nursery, list[Worker]()

    def hire(self, count: int = 1) -> None:
        before = len(self._nursery.notes.read("opened"))
        self.workers += [self._nursery.start(self._order) for _ in range(count)]
        assert wait_for(lambda: len(self._nursery.notes.read("opened")) == before + count, 60), "no worker came"

    def lose(self, worker: Worker) -> int:
        worker.kill()
        self.workers.remove(worker)
        return worker.pid

"""The engine for many machines: Temporal says which worker goes on with a conversation; the log stays the truth."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from changeover.errors import MisconfiguredError
from changeover.relay.ports.engine import Engine, EngineSetup
from changeover.tools.secret import REFERENCE, reference_faults

MOST = 900
"""Largest number of characters in the ids of the agents that a worker serves: Temporal limits the name of a worker."""
LEAST = {"concurrency": 1, "history": 20}
SECONDS = ("heartbeat", "task", "sticky", "leg", "unclaimed", "grace")


@dataclass(frozen=True)
class Temporal:
    """Runs the conversations of a team on Temporal: `Team(…, store="postgresql://…", engine=Temporal("host:7233"))`.

    Raises MisconfiguredError. All processes of a team give the same `address`, `namespace` and `queue`.

    - `tls`: True, or a `temporalio.client.TLSConfig`. `api_key`: a reference such as "${TEMPORAL_API_KEY}".
    - `queue`: the prefix of task queues and workflow ids; one per store.
    - `worker`: False for a process that only takes inputs and reads along. `agents`: the ids of the agents that this
      worker serves (default: all). `concurrency`: the most conversations that it works on at once.
    """

    address: str = "localhost:7233"
    namespace: str = "default"
    tls: Any = False
    api_key: str | None = field(default=None, repr=False)
    queue: str = "changeover"
    worker: bool = True
    agents: tuple[str, ...] = ()
    concurrency: int = 100
    history: int = 2_000
    """Events of a workflow after which it goes on with a new history."""
    heartbeat: float = 3.0
    """Seconds without a heartbeat after which another worker takes over."""
    task: float = 3.0
    """Seconds that a worker may take to say what comes next, before another worker is asked."""
    sticky: float = 0.5
    """Seconds for which the worker that ran a workflow last is asked first."""
    leg: float = 86_400.0
    """The most seconds that a worker may work on a conversation without a pause."""
    unclaimed: float = 30.0
    """Seconds after which work for an agent's own worker, if none takes it, goes to the default queue."""
    grace: float = 10.0
    """Seconds that a worker may go on working when it is stopped."""

    def __post_init__(self) -> None:
        if faults := list(_faults(self)):
            raise MisconfiguredError(*faults)

    @property
    def key(self) -> str | None:
        """The API key, from the environment."""
        return REFERENCE.sub(lambda found: _variable(found[1]), self.api_key) if self.api_key else None

    def __call__(self, setup: EngineSetup) -> Engine:
        """Make the engine of a team."""
        try:
            from changeover.engines.temporal.engine import TemporalEngine
        except ImportError as error:
            if not (error.name or "").startswith("temporalio"):
                raise
            raise MisconfiguredError(
                "the Temporal engine needs temporalio; install it with: pip install 'changeover[temporal]'"
            ) from error
        return TemporalEngine(setup, self)


def _variable(name: str) -> str:
    if name not in os.environ:
        raise MisconfiguredError(f"the environment variable {name}, which holds the API key of Temporal, is not set")
    return os.environ[name]


def _faults(given: Temporal) -> Iterator[str]:
    for name in ("address", "namespace", "queue"):
        if not isinstance(value := getattr(given, name), str) or not value.strip():
            yield f"{name}={value!r} is not a text"
    if given.api_key is not None:
        yield from (f"the Temporal engine {fault}" for fault in reference_faults("api_key", given.api_key))
    yield from _number_faults(given)
    if isinstance(given.agents, str) or not all(isinstance(each, str) for each in given.agents):
        yield f"agents={given.agents!r} is not a tuple of ids"
    elif len(",".join(given.agents)) > MOST:
        yield f"agents names {len(given.agents)} agents; their ids may have {MOST} characters: start several workers"
    if not isinstance(given.worker, bool):
        yield f"worker={given.worker!r} is not True or False"


def _number_faults(given: Temporal) -> Iterator[str]:
    for name in SECONDS:
        value = getattr(given, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not (isfinite(value) and value > 0):
            yield f"{name}={value!r} is not a number of seconds above 0"
    for name, least in LEAST.items():
        value = getattr(given, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            yield f"{name}={value!r} is not a whole number of {least} or more"

"""The engine that performs conversations in the process of their team."""

from __future__ import annotations

from changeover.relay.ports.engine import Engine, EngineSetup


def open_engine(setup: EngineSetup) -> Engine:
    """The engine of a team that names no other."""
    from changeover.engines.local.engine import LocalEngine

    return LocalEngine(setup)

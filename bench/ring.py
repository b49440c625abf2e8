"""The work of every contender: a ring of three agents that hand over a number of times, then answer.

Only the standard library is imported here: the adapters of other libraries run in environments without Changeover.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextvars import ContextVar
from dataclasses import dataclass, field

RING = ("front", "billing", "refunds")
LINE = tuple(f"desk-{number}" for number in range(21))
"""Agents that hand over one after the other: a ring looks like a loop to a guard, a line does not."""
NEXT = dict(zip((*RING, *LINE), (*RING[1:], RING[0], *LINE[1:], LINE[0]), strict=True))
ASKED = "The parcel came twice and I paid for both; please take one of them back and return the money."
REASON = "The customer paid for two parcels and wants to give one of them back."
ANSWER = "One parcel is picked up tomorrow, and its price goes back to your card within five days."
INSTRUCTIONS = "You work at the desk of a mail-order shop. Answer the customer, or hand on to a colleague."


@dataclass(slots=True)
class Run:
    """One run of the script: the handoffs that are left, and the agents whose model was called."""

    left: int = 0
    calls: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Conditions:
    """What a scenario changes about all model calls of the process."""

    latency: float = 0.0
    killed_at: int = 0
    """The process kills itself when this model call of a run begins; 0 means never."""


RUN: ContextVar[Run] = ContextVar("run")
CONDITIONS = Conditions()


def begin(hops: int) -> Run:
    """Start the script of one run, for this task and those that it starts."""
    run = Run(hops)
    RUN.set(run)
    return run


async def called(agent: str) -> Run:
    """Note a call of an agent's model, and let the conditions act on it."""
    run = RUN.get()
    run.calls.append(agent)
    if len(run.calls) == CONDITIONS.killed_at:
        os.kill(os.getpid(), signal.SIGKILL)
    if CONDITIONS.latency:
        await asyncio.sleep(CONDITIONS.latency)
    return run


async def decide(agent: str) -> str | None:
    """What the agent's model does: the agent it hands over to, or None to answer."""
    run = await called(agent)
    if run.left <= 0:
        return None
    run.left -= 1
    return NEXT[agent]


def call_id() -> str:
    """An id for the tool call that the model makes now."""
    return f"call_{len(RUN.get().calls)}"

"""One run under way: who works, what it has spent, and the phase it is in."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from changeover.facts import Fault, Handed, HandoffRecord, Ledger, Usage
from changeover.relay.events import CallRefused, UserSpoke
from changeover.relay.turn import Turn


class Thinking(Struct, frozen=True, gc=False):
    """The active agent owes a reply; `due` is the id of the command that gets it."""

    due: str
    attempt: int = 1
    not_before: float = 0.0


class Acting(Struct, frozen=True, gc=False):
    """The calls of a reply are being answered."""

    turn: Turn


class Replied(Struct, frozen=True, gc=False):
    """The active agent said its last word."""

    text: str


class Broken(Struct, frozen=True, gc=False):
    """The run cannot go on."""

    fault: Fault


Phase = Thinking | Acting | Replied | Broken


class Run:
    """From one user message to its answer."""

    __slots__ = (
        "agents",
        "at",
        "first",
        "handoffs",
        "id",
        "input_tokens",
        "mistake",
        "output_tokens",
        "phase",
        "ref",
        "requests",
        "retries",
        "spoken",
        "strikes",
        "told",
        "turns",
    )

    def __init__(self, conversation: str, id: int, spoken: UserSpoke, at: float, first: int, phase: Phase) -> None:
        self.id, self.ref = id, f"{conversation}@{id}"
        self.spoken, self.at, self.phase = spoken, at, phase
        self.first = first
        """How many handoffs the conversation had before."""
        self.agents: set[str] = set()
        self.handoffs = 0
        self.turns = self.retries = self.strikes = 0
        self.input_tokens = self.output_tokens = self.requests = 0
        self.mistake: CallRefused | None = None
        """The last call that could not work."""
        self.told = False
        """Whether the agent was told that no handoff is left."""

    def spend(self, usage: Usage) -> None:
        """Count one reply."""
        self.turns += 1
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.requests += usage.requests

    @property
    def usage(self) -> Usage:
        return Usage(self.input_tokens, self.output_tokens, self.requests)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def ledger(self, now: float) -> Ledger:
        """What the run has spent by `now`."""
        return Ledger(self.handoffs, self.turns, self.tokens, None, len(self.agents), self.retries, now - self.at)


class Outcome(Struct, frozen=True, gc=False):
    """How a run ended, with all that its result is made of."""

    run: Run
    agent: str
    output: str
    handoffs: list[HandoffRecord]
    fault: Fault | None
    at: float
    variables: dict[str, Any]
    handed: Handed | None

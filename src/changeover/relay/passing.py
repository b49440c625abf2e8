"""What a handoff leaves behind: the record that people read, and what its receiver may know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from changeover.facts import Handed, HandoffRecord
from changeover.facts import State as Standing
from changeover.handoffs.protocol import Signal, advance
from changeover.messages import Assistant, Message
from changeover.relay.events import Given, HandoffOffered, UserSpoke
from changeover.relay.run import Run
from changeover.relay.turn import Offered, OpenCall

CODE = "code"
"""Who hands over what a program offers, unless the package says so."""
OFFERED = Standing.PENDING
IN_WORK = advance(OFFERED, Signal.ACCEPT, Signal.START)
"""In process, a receiver begins in the very append that records its acceptance."""


def record_of(conversation: str, task: str, run: Run, call: OpenCall, offered: Offered) -> HandoffRecord:
    """The handoff that was accepted, as people read it; its receiver got this task."""
    offer, packed = offered.offer, offered.packed
    return HandoffRecord(
        f"{conversation}:{offer.call}",
        offer.sender,
        offer.receiver,
        offer.message,
        offer.mode,
        IN_WORK,
        offered.at,
        call.call.name,
        offer.variables,
        packed.strategy if packed else offer.strategy,
        run.ref,
        task,
        "",
        offer.attempt,
        offer.retry_of,
        offer.before,
        packed.after if packed else offer.after,
        packed.error if packed else "",
    )


def handed_of(offer: HandoffOffered, tool: str, run: Run, now: float, path: list[str]) -> Handed:
    """The handoff as its receiver finds it, with what the run had spent by then."""
    return Handed(
        offer.sender,
        offer.message,
        tool,
        offer.instructions,
        run.tokens,
        now - run.at,
        run.retries,
        path,
        len(path),
        offer.expected,
        offer.include,
        offer.exclude,
    )


def sender_of(package: Mapping[str, Any]) -> str:
    """Who hands over what a program offers."""
    return package.get("metadata", {}).get("sender") or CODE


def last_words(record: Sequence[Message], agent: str = "") -> str:
    """What an agent, or anybody, said last."""
    texts = (each.text for each in reversed(record) if isinstance(each, Assistant) and agent in ("", each.agent))
    return next((text for text in texts if text), "")


def undone_words(reason: str) -> str:
    """Why a handoff came to nothing that somebody took back."""
    return f"rolled back: {reason}" if reason else "rolled back"


def given_of(given: Given, spoken: UserSpoke, path: list[str]) -> Handed:
    """The task of a delegate as it finds it."""
    return Handed(
        given.sender,
        spoken.text,
        given.tool,
        given.instructions,
        given.tokens,
        given.elapsed,
        given.retries,
        path,
        len(path),
        given.expected,
        given.include,
        given.exclude,
        asked=True,
    )

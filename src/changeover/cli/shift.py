"""What a worker does, told as it happens: a line for people, or a JSON object for programs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import typer
from rich.text import Text

from changeover.cli.terminal.render import console, hang, json_time, line_of, when
from changeover.facts import Ticket

COLOURS = {
    "takes": "cyan",
    "done": "green",
    **dict.fromkeys(("failed", "lost", "too late"), "red"),
    **dict.fromkeys(("waits", "declined", "given back", "cancelled"), "yellow"),
}
"""What can be said of a ticket, and how it looks."""
WIDTH = max(map(len, COLOURS))


class Shift:
    """Tells, and counts what there was."""

    def __init__(self, serves: Mapping[str, Any], as_json: bool) -> None:
        self._serves = serves
        self._out = None if as_json else console()
        self._room = max(map(len, serves["agents"]))
        self._ends: Counter[str] = Counter()
        self._begun = time.monotonic()
        self.held = 0
        """How many tickets are worked on now."""

    def begins(self) -> None:
        """Who serves whom, where, and on which terms."""
        serves = self._serves
        terms = f"{serves['concurrency']} at once, lease {serves['lease']:g} s, grace {serves['grace']:g} s"
        where = f" on {serves['store']}" if serves["store"] else ""
        head = Text.assemble(
            (f"{serves['worker']} serves {', '.join(serves['agents'])}", "bold"), (f"{where}; {terms}", "dim")
        )
        facts = {name: value for name, value in serves.items() if name != "name"}
        self._tell("serving", (Text(""), head), facts)

    def takes(self, ticket: Ticket, attempt: int) -> None:
        """A ticket was claimed."""
        self.held += 1
        self._tell("taken", self._line("takes", ticket, _again(attempt)), _facts(ticket, attempt))

    def ends(self, ticket: Ticket, attempt: int, seconds: float, ended: tuple[str, str]) -> None:
        """The work on it is over, for this worker: how, and why if it was not simply done."""
        self.held -= 1
        end, reason = ended
        self._ends[end] += 1
        told = f"after {seconds:.1f} s{f': {line_of(reason)}' if reason else ''}"
        facts = {**_facts(ticket, attempt), "end": end, "seconds": round(seconds, 3), "reason": reason}
        self._tell("ended", self._line(end, ticket, told), facts)

    def stops(self, why: str) -> None:
        """It claims nothing more."""
        most = f"{self._serves['grace']:g} s"
        held = f"; {self.held} at work, for {most} at most; once more: give back at once" if self.held else ""
        self._tell("stopping", _plain(f"stops: {why}{held}"), {"why": why, "held": self.held})

    def is_over(self) -> None:
        """The totals."""
        seconds = time.monotonic() - self._begun
        ends = {end: self._ends[end] for end in COLOURS if end in self._ends}
        told = ", ".join(f"{count} {end}" for end, count in ends.items()) or "nothing was to be done"
        facts = {"ends": ends, "seconds": round(seconds, 3)}
        self._tell("stopped", _plain(f"{told}, in {seconds:.1f} s"), facts)

    def _line(self, what: str, ticket: Ticket, more: str) -> tuple[Text, Text]:
        """What stands on the left, each in a column of its own, and the rest."""
        watched = self._out is not None and self._out.is_terminal
        now = when(time.time()).split()[-1] if watched else when(time.time())  # who reads along knows which day it is
        agent = f"{ticket.agent:<{self._room}}  "
        lead = Text.assemble((f"{now}  ", "dim"), (f"{what:<{WIDTH}}  ", COLOURS[what]), agent)
        return lead, Text.assemble(ticket.id, (f"  {more}", "dim") if more else "")

    def _tell(self, event: str, line: tuple[Text, Text], facts: Mapping[str, Any]) -> None:
        # Whoever read along may have gone; that is no reason to leave work undone.
        with suppress(BrokenPipeError, SystemExit):
            if self._out is not None:
                hang(self._out, *line, line[0].cell_len)
            else:
                typer.echo(json.dumps({"event": event, "at": json_time(time.time()), **facts}))


def _plain(text: str) -> tuple[Text, Text]:
    """A line without columns."""
    return Text(""), Text(text, "bold")


def _again(attempt: int) -> str:
    return f"attempt {attempt}" if attempt > 1 else ""


def _facts(ticket: Ticket, attempt: int) -> dict[str, Any]:
    return {"ticket": ticket.id, "agent": ticket.agent, "conversation": ticket.conversation, "attempt": attempt}

"""ToolCalls: the tool calls of a conversation on a page: a line when a call begins, and its outcome below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rich.text import Text

from changeover.agent.roster import Roster, Seat
from changeover.cli.exits import one_line, short
from changeover.cli.terminal.page import Page
from changeover.cli.terminal.prompt import call_arguments
from changeover.guards.approval import Approve, Edit
from changeover.ids import call_id, call_of, handoff_id, is_root
from changeover.messages import Call
from changeover.relay.events import ApprovalDecided, CallRefused, ModelReplied, SkillLoaded, ToolFinished
from changeover.relay.stream import Recorded

SLOW = 1.0
"""Seconds from which on the duration of a call is shown."""


class Begun(NamedTuple):
    """A tool call under way."""

    conversation: str
    agent: str
    call: Call
    at: float
    """When it began, in seconds since the epoch."""


class ToolCalls:
    """Writes tool calls on a page. `roster` tells tools from handoffs."""

    def __init__(self, page: Page, roster: Roster) -> None:
        self._page, self._roster = page, roster
        self._calls: dict[str, Call] = {}
        self._new: dict[str, Begun] = {}
        """Calls that are not on the page yet: the next event may say that a person has to approve them."""
        self._open: dict[str, Begun] = {}
        self._last = ("", 0)
        """The call that was written last, and the number of lines on the page then."""

    def read(self, recorded: Recorded, reply: ModelReplied) -> None:
        """Take in the calls of a reply."""
        for index, call in enumerate(reply.calls):
            self._calls[key := handoff_id(recorded.conversation, call_id(recorded.position, index))] = call
            self._expect(key, Begun(recorded.conversation, reply.agent, call, recorded.at))

    def find(self, conversation: str, id: str) -> Call | None:
        """The call of this id, if its reply was read."""
        return self._calls.get(handoff_id(conversation, call_of(id)))

    def withhold(self, conversation: str, id: str) -> None:
        """Drop a call that does not begin: it waits for a person, or it ended before."""
        self._new.pop(handoff_id(conversation, id), None)

    def approve(self, recorded: Recorded, decided: ApprovalDecided) -> None:
        """Take in a call that a person approved, with its arguments or with others."""
        decision, at = decided.decision, recorded.conversation
        call = self.find(at, decided.call)
        if call is not None and isinstance(decision, Approve | Edit):
            args = decision.arguments if isinstance(decision, Edit) and decision.arguments is not None else call.args
            begun = Begun(at, recorded.agent, Call(call.id, call.name, args), recorded.at)
            self._expect(handoff_id(at, decided.call), begun)

    def begin(self, speak: Callable[[str], None]) -> None:
        """Write the calls that have begun; `speak` writes the name of an agent above them."""
        for key, (at, agent, call, _) in self._new.items():
            who: list[Text | str] = [] if is_root(at) else [self._page.name(agent), ": "]
            if is_root(at):
                speak(agent)
            what = one_line(f"{call.name}({call_arguments(call.args)})")
            self._page.nested(at.count("/"), "", *who, Text(what, "bold"))
            self._last = key, self._page.lines
        self._open |= self._new
        self._new.clear()

    def end(self, recorded: Recorded, outcome: ToolFinished | SkillLoaded | CallRefused) -> None:
        """Write the outcome of a call below it; if other lines came between, with its name."""
        key, at = handoff_id(recorded.conversation, outcome.call), recorded.conversation
        begun, call = self._open.pop(key, None), self.find(at, outcome.call)
        seconds = recorded.at - begun.at if begun else 0.0
        text = f"refused: {outcome.reason}" if isinstance(outcome, CallRefused) else outcome.text
        fine = isinstance(outcome, SkillLoaded) or (isinstance(outcome, ToolFinished) and outcome.ok)
        lead = "" if self._last == (key, self._page.lines) or call is None else f"{call.name}: "
        parts = Text(f"{lead}{short(text)}", "dim" if fine else "red"), Text(f"  {seconds:.1f} s", "dim")
        self._page.nested(at.count("/"), f"{self._page.marks.elbow} ", *parts[: 1 + (seconds >= SLOW)])

    @property
    def under_way(self) -> list[Begun]:
        """The calls that have not ended."""
        return list(self._open.values())

    def _expect(self, key: str, begun: Begun) -> None:
        seat = self._roster.seats.get(begun.agent)
        if isinstance(seat, Seat) and begun.call.name in seat.tools:
            self._new[key] = begun

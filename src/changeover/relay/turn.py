"""The calls of one model turn, each in a phase of its own, answered in call order."""

from __future__ import annotations

from msgspec import Struct

from changeover.messages import Call, Message, ToolResult
from changeover.relay.events import HandoffOffered


class Fresh(Struct, frozen=True, gc=False):
    """Nothing was recorded of this call yet."""


class Begun(Struct, frozen=True, gc=False):
    """Its intent is recorded, its outcome is not."""


class Offered(Struct, frozen=True, gc=False):
    """It became a handoff that awaits its answer."""

    offer: HandoffOffered
    at: float


class Answered(Struct, frozen=True, gc=False):
    """It has the result that the model will read."""

    text: str
    ok: bool = True


Phase = Fresh | Begun | Offered | Answered
FRESH, BEGUN = Fresh(), Begun()


class OpenCall(Struct, gc=False):
    """One call of the current turn."""

    id: str
    call: Call
    phase: Phase = FRESH


class Turn:
    """What a model asked for in one reply, until every call is answered."""

    __slots__ = ("agent", "calls", "faulty", "offered", "text", "unanswered")

    def __init__(self, position: int, agent: str, text: str, calls: tuple[Call, ...]) -> None:
        self.agent, self.text = agent, text
        self.calls = {(id := f"{position}.{index}"): OpenCall(id, call) for index, call in enumerate(calls)}
        self.unanswered = len(calls)
        self.faulty = False
        self.offered: OpenCall | None = None
        """The call that became a handoff."""

    def outstanding(self) -> list[OpenCall]:
        """The calls that have no answer yet, in call order."""
        return [call for call in self.calls.values() if not isinstance(call.phase, Answered)]

    def answer(self, call: OpenCall, text: str, ok: bool = True) -> None:
        """Give a call its one answer; a second is ignored."""
        if not isinstance(call.phase, Answered):
            call.phase = Answered(text, ok)
            self.unanswered -= 1
            if call is self.offered:
                self.offered = None

    def results(self) -> list[Message]:
        """The answers, in call order; a call that was abandoned is answered too."""
        return [_result(self.agent, call) for call in self.calls.values()]


def _result(agent: str, call: OpenCall) -> ToolResult:
    phase = call.phase
    if isinstance(phase, Answered):
        return ToolResult(call.call.id, call.call.name, agent, phase.text, phase.ok)
    return ToolResult(call.call.id, call.call.name, agent, "abandoned: the run ended before this call did", False)

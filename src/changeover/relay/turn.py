"""Turn: the calls of one reply, each in its own phase, answered in the order of the reply."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from changeover.facts import ApprovalRequest, DelegateResult, Mode
from changeover.guards.approval import Edit
from changeover.ids import branching_call, call_id
from changeover.messages import Call, Message, ToolResult
from changeover.relay.events import (
    ApprovalDecided,
    CircuitFound,
    ContextPacked,
    HandoffConditional,
    HandoffOffered,
    ReceiverChosen,
    RollbackRequested,
)
from changeover.tools.command import Directive


class Fresh(Struct, frozen=True, gc=False):
    """Nothing was recorded of this call yet, or only that it may be carried out."""


class Begun(Struct, frozen=True, gc=False):
    """Its intent is recorded, its outcome is not."""


class Offered(Struct, frozen=True, gc=False):
    """It became a handoff that awaits its answer."""

    offer: HandoffOffered
    at: float
    commanded: bool = False
    """By code, so that the message for the receiver stands nowhere else."""
    index: int = -1
    """Where its record stands among the conversation's handoffs, once it was answered."""
    needs: tuple[str, ...] = ()
    """What its receiver needs permission for."""
    waited: float = 0.0
    """For how long people were awaited, which does not count."""
    verdict: ApprovalDecided | None = None
    """What a person said to it: the permission, or the answer of a person who is the receiver."""
    problem: str | None = None
    """What is wrong with that answer, by what was expected; None while nobody has said."""
    packed: ContextPacked | None = None
    """What its receiver gets of the context, if that had to be made."""
    tripped: CircuitFound | None = None
    """Why nothing is handed to its receiver now."""

    @property
    def lasts(self) -> float | None:
        """For how long it stands, or would from its claim on."""
        if self.offer.queued:
            return self.offer.timeout
        return None if self.offer.deadline is None else self.offer.deadline - self.at

    @property
    def until(self) -> float | None:
        """Its deadline, and as much longer as people were awaited."""
        return None if self.offer.deadline is None else self.offer.deadline + self.waited


class Declined(Struct, frozen=True, gc=False):
    """It became a handoff that its receiver did not want, at least not as it was."""

    offer: HandoffOffered
    timeout: float | None
    """How long it stood."""
    reason: str
    needs: tuple[str, ...] = ()
    """What its receiver would have to know."""
    suggested: str = ""
    by: str = ""
    """The person who declined, if it was one: whom it suggests is asked."""
    commanded: bool = False
    worn_out: bool = False
    """Nobody said no, but nobody said anything."""
    verdict: ApprovalDecided | None = None
    """What a person said who was asked when nobody wanted it."""
    refused: tuple[str, ...] = ()
    """Who was to be asked next, and must not be."""


class Directed(Struct, frozen=True, gc=False):
    """Its work is done, and it says where to go; that comes after every other call of the turn."""

    directive: Directive
    text: str
    agent: str
    """Whose words the output is, if it ends the run."""


class Asked(Struct, frozen=True, gc=False):
    """A person has to decide about it."""

    request: ApprovalRequest
    before: Offered | Declined | Directed | None = None
    """The handoff that it is about, or what would lead to one."""
    rule: str = ""
    """The rule that wants it."""


class Delegated(Struct, frozen=True, gc=False):
    """Another agent works on it, in a conversation of its own."""

    offer: HandoffOffered
    index: int
    """Where its record stands among the conversation's handoffs."""
    deadline: float | None = None
    recalled: RollbackRequested | None = None
    """Who wants it back."""
    packed: ContextPacked | None = None


class Fanned(Struct, frozen=True, gc=False):
    """It sends out branches; so many are sent."""

    directive: Directive
    sent: int


class Answered(Struct, frozen=True, gc=False):
    """It has the result that the model will read."""

    text: str
    ok: bool = True


Phase = Fresh | Asked | Begun | Offered | Declined | Delegated | Directed | Fanned | Answered
FRESH, BEGUN = Fresh(), Begun()
DONE = (Answered, Directed, Fanned)
"""Phases in which the call itself has been carried out."""
HANDED = (Offered, Declined, Delegated)
"""Phases of a call that became a handoff."""
DECIDED = (Asked, Delegated)
"""Phases in which somebody else goes on with it."""

Travelling = tuple[dict[str, Any], dict[str, str | None], dict[str, Any]]
"""Context variables, artifacts and workflow state."""


class OpenCall(Struct, gc=False):
    """One call of the current turn, or one branch that a call sent out."""

    id: str
    call: Call
    place: tuple[int, int] = (0, 0)
    """Where it stands in the turn: which call, and which of its branches."""
    phase: Phase = FRESH
    cleared: bool = False
    """Nobody has to be asked about it any more, as far as its own declaration goes."""
    permitted: bool = False
    """A person said yes to it."""
    chosen: ReceiverChosen | None = None
    """Who was found for it, if it names nobody."""
    conditions: tuple[HandoffConditional, ...] = ()
    """On what conditions somebody would take it, to be weighed when nobody else is left to ask."""
    ruled: tuple[tuple[str, str], ...] = ()
    """The rules that have judged it, each with the receiver that it was about."""
    passed: tuple[str, ...] = ()
    """Of those the ones that wanted a person asked, and let it pass."""
    edit: Edit | None = None
    branch_of: str = ""
    out: int = 0
    """How many of its branches are not back yet."""
    result: DelegateResult | None = None


def handoff_of(call: OpenCall) -> Offered | Declined | Delegated | None:
    """How the handoff stands that a call became, also while a person is asked about it."""
    phase = call.phase.before if isinstance(call.phase, Asked) else call.phase
    return phase if isinstance(phase, HANDED) else None


def way_of(mode: Mode, call: OpenCall) -> str:
    """What two handoffs have in common of which the second may be another try: any transfer, or the same delegate."""
    return "" if mode is Mode.TRANSFER else call.call.name


class Turn:
    """One reply of an agent, until every call is answered."""

    __slots__ = (
        "agent",
        "asked",
        "base",
        "calls",
        "code",
        "delegated",
        "faulty",
        "frontier",
        "idle",
        "judged",
        "latest",
        "offered",
        "quiet",
        "ready",
        "rule",
        "sending",
        "text",
        "unanswered",
        "updates",
    )

    def __init__(self, agent: str, text: str, calls: list[OpenCall], quiet: bool = False, code: bool = False) -> None:
        self.agent, self.text, self.quiet = agent, text, quiet
        self.code = code
        """Nobody of the team asks, but whoever called `Team.offer`."""
        self.rule = ""
        """No member asks, but this rule of the team."""
        self.asked = calls
        self.calls = {call.id: call for call in calls}
        """All by their ids, branches too."""
        self.idle = dict(self.calls)
        """Those about which something may have to be decided; the others are answered, or in work."""
        self.ready: dict[str, OpenCall] = {}
        """Those that are decided about, and whose command was not given out yet."""
        self.unanswered = len(calls)
        self.frontier = 0
        """Up to where all calls have been carried out."""
        self.delegated = 0
        self.faulty = False
        self.offered: OpenCall | None = None
        """The call that became a transfer."""
        self.sending: OpenCall | None = None
        """The call that has branches yet to send out."""
        self.judged: str | None = None
        """What is wrong with the answer by which a call ends the run; None while nobody has said."""
        self.base: Travelling | None = None
        self.updates: dict[tuple[int, int], Directive] = {}
        self.latest = (-1, 0)
        """The last call, in call order, of those that added something to what travels; it was `base` before."""

    @property
    def deaf(self) -> bool:
        """Whether who asks cannot be told that it is not to be, and would ask again: a Function member, or code."""
        return self.quiet and not self.rule

    def answer(self, call: OpenCall, text: str, ok: bool = True) -> None:
        """Give a call its one answer; a second is ignored."""
        before = type(call.phase)
        if before is Answered:
            return
        call.phase = Answered(text, ok)
        self.give_out(call.id)
        self.delegated -= before is Delegated
        self.unanswered -= 1
        if call.branch_of:
            self.calls[call.branch_of].out -= 1
        elif call is self.offered:
            self.offered = None
        self._advance()

    def move(self, call: OpenCall, phase: Phase) -> None:
        """Let a call enter another phase, in which something else may be due."""
        self.delegated += (type(phase) is Delegated) - (type(call.phase) is Delegated)
        call.phase = phase
        if isinstance(phase, DECIDED):
            self.idle.pop(call.id, None)
            self.ready[call.id] = call
        else:
            self.ready.pop(call.id, None)
            self.idle[call.id] = call
        self._advance()

    def _advance(self) -> None:
        while self.frontier < len(self.asked) and isinstance(self.asked[self.frontier].phase, DONE):
            self.frontier += 1

    def send_out(self, branch: str) -> None:
        """Open the next branch of the call that it belongs to."""
        id = branching_call(branch)
        sender = self.calls.get(id)
        if sender is None or not isinstance(phase := sender.phase, Directed | Fanned):
            return
        sent = phase.sent if isinstance(phase, Fanned) else 0
        self.move(sender, Fanned(phase.directive, sent + 1))
        self.sending = sender
        if sent + 1 == len(phase.directive.sends):
            self.sending = None
            del self.idle[id]  # nothing is due for it until all are back
        self.calls[branch] = self.idle[branch] = OpenCall(
            branch, Call("", sender.call.name), (sender.place[0], sent + 1), branch_of=id
        )
        sender.out += 1
        self.unanswered += 1

    def branches(self, sender: OpenCall) -> list[OpenCall]:
        """The branches of a call, in the order in which they were sent."""
        sent = sender.phase.sent if isinstance(sender.phase, Fanned) else 0
        return [self.calls[call_id(sender.id, index)] for index in range(sent)]

    def withdraw(self) -> None:
        """Nothing is due any more but to call the delegates back."""
        self.idle = {}
        self.ready = {id: call for id, call in self.calls.items() if isinstance(call.phase, Delegated)}

    def give_out(self, call: str) -> None:
        """There is nothing to do about this call until something is recorded of it."""
        self.idle.pop(call, None)
        self.ready.pop(call, None)

    def results(self) -> list[Message]:
        """The answers, in call order; a call that was abandoned is answered too."""
        return [] if self.quiet else [_result(self.agent, call) for call in self.asked]


def model_turn(position: int, agent: str, text: str, calls: tuple[Call, ...]) -> Turn:
    """What a model asked for in the reply at this position."""
    return Turn(agent, text, [OpenCall(call_id(position, index), call, (index, 0)) for index, call in enumerate(calls)])


def function_turn(id: str, agent: str, directive: Directive, code: bool = False) -> Turn:
    """What a Function member or code asked for: one thing, which no model reads about."""
    call = OpenCall(id, Call("", ""))
    turn = Turn(agent, "", [call], quiet=True, code=code)
    turn.move(call, Directed(directive, "", agent))
    return turn


def rule_turn(id: str, agent: str, directive: Directive, rule: str) -> Turn:
    """What a rule of the team asks for in an agent's stead."""
    turn = function_turn(id, agent, directive)
    turn.rule = rule
    return turn


def _result(agent: str, call: OpenCall) -> ToolResult:
    phase = call.phase
    if isinstance(phase, Answered):
        return ToolResult(call.call.id, call.call.name, agent, phase.text, phase.ok)
    return ToolResult(call.call.id, call.call.name, agent, "abandoned: the run ended before this call did", False)

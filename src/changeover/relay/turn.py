"""Turn: the calls of one reply, each in its own phase, answered in the order of the reply."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from changeover.facts import ApprovalRequest, DelegateResult, Mode
from changeover.guards.approval import Edit
from changeover.ids import branching_call, call_id, call_of, topic_id
from changeover.messages import Call, File, Message, ToolResult
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
from changeover.workflows.flow import Flow


class Fresh(Struct, frozen=True, gc=False):
    """Nothing is recorded of this call yet, or only its approval."""


class Begun(Struct, frozen=True, gc=False):
    """The intent is recorded, the outcome is not."""


class Offered(Struct, frozen=True, gc=False):
    """The call became a handoff that waits for its answer."""

    offer: HandoffOffered
    at: float
    commanded: bool = False
    """True if code asked for it, so that the thread does not hold the message for the receiver."""
    index: int = -1
    """Index of its record among the conversation's handoffs, once a person accepted it with the answer; else -1."""
    needs: tuple[str, ...] = ()
    """Permissions that the receiver needs."""
    waited: float = 0.0
    """Seconds that people took to decide; they do not count against the deadline."""
    verdict: ApprovalDecided | None = None
    """A person's decision: about a permission, or as the receiver."""
    problem: str | None = None
    """Why that answer does not meet the expectations, empty if it does; None until it is checked."""
    repair: str = ""
    """Why a person has to answer once more, if the first answer did not meet the expectations."""
    packed: ContextPacked | None = None
    """The receiver's context, if it had to be made."""
    tripped: CircuitFound | None = None
    """The open circuit of the receiver, if the store found one."""

    @property
    def is_fresh(self) -> bool:
        """True if the receiver can answer: its context is there, no person has decided, and the store found no open
        circuit."""
        return self.verdict is None and self.tripped is None and (self.packed is not None or not self.offer.packs)

    @property
    def lasts(self) -> float | None:
        """Seconds that the receiver has, counted from the claim if it is queued."""
        if self.offer.queued:
            return self.offer.timeout
        return None if self.offer.deadline is None else self.offer.deadline - self.at

    @property
    def until(self) -> float | None:
        """The deadline, extended by the time that people took to decide."""
        return None if self.offer.deadline is None else self.offer.deadline + self.waited


class Declined(Struct, frozen=True, gc=False):
    """The call became a handoff that its receiver rejected, or accepts only on a condition."""

    offer: HandoffOffered
    timeout: float | None
    """Seconds that the receiver had."""
    reason: str
    needs: tuple[str, ...] = ()
    """Context variables that the receiver lacks."""
    suggested: str = ""
    by: str = ""
    """The person who declined, if a person did; then the suggested receiver is asked next."""
    commanded: bool = False
    worn_out: bool = False
    """True if workers claimed it too often without an answer."""
    verdict: ApprovalDecided | None = None
    """A person's decision after no receiver accepted."""
    refused: tuple[str, ...] = ()
    """Alternatives that a limit, a guard or a rule refused."""
    misfits: str = ""
    """Faults of needed context variables that are there, but of another type."""
    tripped: CircuitFound | None = None
    """The open circuit of the receiver, if it was not asked for that reason."""


class Refusal(Struct, frozen=True, gc=False):
    """A declined handoff, which the next one of the same task follows."""

    task: int
    handoff: str
    attempt: int
    by: tuple[str, ...]
    """All receivers that declined so far."""
    refused: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    """Offers that receivers refused themselves since a person decided last: receiver, message, context variables."""


class Directed(Struct, frozen=True, gc=False):
    """The call is done and leads elsewhere, which comes after every other call of the turn."""

    directive: Directive
    text: str
    agent: str
    """Author of the output, if the call ends the run."""


class Asked(Struct, frozen=True, gc=False):
    """The call waits for a person's decision."""

    request: ApprovalRequest
    before: Offered | Declined | Directed | None = None
    """The phase to go back to: the handoff, or what leads to one."""
    rule: str = ""
    """The rule that demands the approval, if one does."""


class Delegated(Struct, frozen=True, gc=False):
    """A delegate works on the call in a child conversation."""

    offer: HandoffOffered
    index: int
    """Index of its record among the conversation's handoffs."""
    deadline: float | None = None
    recalled: RollbackRequested | None = None
    """The request that recalls the delegate, if there is one."""
    packed: ContextPacked | None = None


class Fanned(Struct, frozen=True, gc=False):
    """The call sends out branches, `sent` of them so far."""

    directive: Directive
    sent: int


class Answered(Struct, frozen=True, gc=False):
    """The call has its result, which the model reads next."""

    text: str
    ok: bool = True
    files: tuple[File, ...] = ()


Phase = Fresh | Asked | Begun | Offered | Declined | Delegated | Directed | Fanned | Answered
FRESH, BEGUN = Fresh(), Begun()
DONE = (Answered, Directed, Fanned)
"""Phases in which the call itself is done."""
HANDED = (Offered, Declined, Delegated)
"""Phases of a call that became a handoff."""
DECIDED = (Asked, Delegated)
"""Phases in which a person or a delegate goes on with the call."""

Travelling = tuple[dict[str, Any], dict[str, str | None], dict[str, Any]]
"""Context variables, artifacts and workflow state."""


class OpenCall(Struct, gc=False):
    """One call of the current turn, or one branch that a call sent out."""

    id: str
    call: Call
    place: tuple[int, int] = (0, 0)
    """Index of the call in the turn, and of the branch in the call."""
    phase: Phase = FRESH
    cleared: bool = False
    """True if the approval that its declaration demands is settled."""
    permitted: bool = False
    """True if a person approved it."""
    chosen: ReceiverChosen | None = None
    """The receiver that the router found, if the call names none."""
    conditions: tuple[HandoffConditional, ...] = ()
    """Conditions of receivers, compared when no other candidate is left."""
    ruled: tuple[tuple[str, str], ...] = ()
    """Rules that were applied to it, each with the receiver."""
    passed: tuple[str, ...] = ()
    """Rules among them whose approval was given."""
    bound: str | None = None
    """The receiver that approvals of people hold for, "" for a tool; None if no person approved."""
    voided: int = 0
    """Number of times that approvals became void, because the call leads elsewhere since a redeploy."""
    edit: Edit | None = None
    branch_of: str = ""
    out: int = 0
    """Number of its branches that have not returned."""
    result: DelegateResult | None = None
    since: tuple[int, int, int] = (0, 0, 0)
    """Progress and news of the run, and the length of its trail, when the task was offered to a delegate."""

    def holds_for(self, receiver: str) -> bool:
        """True if the approvals so far hold if the call leads to this receiver."""
        return self.bound is None or self.bound == receiver

    def void_unless(self, receiver: str) -> None:
        """Drop approvals that were given for another receiver."""
        if not self.holds_for(receiver):
            self.bound, self.voided = None, self.voided + 1
            self.cleared = self.permitted = False
            self.passed = ()

    def request_id(self, receiver: str, topic: str = "") -> str:
        """Id of the next request to approve this call; a request after void approvals has an id of its own."""
        again = self.voided + (not self.holds_for(receiver))
        topic = f"{topic}again{again}" if again else topic
        return topic_id(self.id, topic) if topic else self.id


def handoff_of(call: OpenCall) -> Offered | Declined | Delegated | None:
    """The handoff phase of a call, also while a person decides about it."""
    phase = call.phase.before if isinstance(call.phase, Asked) else call.phase
    return phase if isinstance(phase, HANDED) else None


def way_of(mode: Mode, call: OpenCall) -> str:
    """Key under which a later handoff counts as a retry: one for all transfers, one for each delegate tool."""
    return "" if mode is Mode.TRANSFER else call.call.name


class Turn(Struct, eq=False):
    """One reply of an agent, until every call is answered."""

    agent: str
    text: str
    asked: list[OpenCall]
    calls: dict[str, OpenCall]
    """All calls and branches by id."""
    idle: dict[str, OpenCall]
    """Calls that may need a decision; the others are answered or in work."""
    unanswered: int
    quiet: bool = False
    code: bool = False
    """True if the caller of `Team.offer` asks, not a member of the team."""
    rule: str = ""
    """The rule of the team that asks, if one does."""
    flow: Flow | None = None
    """The workflow that asks, if one does: its turn gets a call for each attempt at a step, and stays open."""
    ready: dict[str, OpenCall] = {}
    """Calls that wait for a person or a delegate, and whose command was not given out yet."""
    frontier: int = 0
    """Index of the first call that is not done."""
    delegated: int = 0
    faulty: bool = False
    offered: OpenCall | None = None
    """The call that became a transfer."""
    sending: OpenCall | None = None
    """The call that still has branches to send out."""
    judged: str | None = None
    """Why the output that ends the run misses the expectations, empty if it does not; None until it is checked."""
    base: Travelling | None = None
    updates: dict[tuple[int, int], Directive] = {}
    latest: tuple[int, int] = (-1, 0)
    """Place of the last call that updated the shared context; `base` is that context without the updates."""

    @property
    def deaf(self) -> bool:
        """True if a refusal cannot be delivered to the asker, a Function member or code, so it would retry forever."""
        return self.quiet and not self.rule and self.flow is None

    def answer(self, call: OpenCall, text: str, ok: bool = True, files: tuple[File, ...] = (), at: float = 0.0) -> None:
        """Give a call its only answer; a second one is ignored. A workflow notes the time."""
        before = type(call.phase)
        if before is Answered:
            return
        call.phase = Answered(text, ok, files)
        self.give_out(call.id)
        self.delegated -= before is Delegated
        self.unanswered -= 1
        if call.branch_of:
            self.calls[call.branch_of].out -= 1
        elif call is self.offered:
            self.offered = None
        if self.flow is not None:
            result = call.result
            said = text if result is None else result.response if ok else result.error
            self.flow.settle(call.id, ok, said, result is None, at)
        self._advance()

    def find(self, id: str) -> OpenCall | None:
        """The call or branch that an id belongs to."""
        return self.calls.get(id) or self.calls.get(call_of(id))

    def open(self, call: OpenCall) -> None:
        """Add a call: the workflow begins an attempt at a step."""
        self.asked.append(call)
        self.calls[call.id] = self.idle[call.id] = call
        self.unanswered += 1

    def move(self, call: OpenCall, phase: Phase) -> None:
        """Move a call to another phase."""
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
        """Open the next branch of the call that sends it out."""
        id = branching_call(branch)
        sender = self.calls.get(id)
        if sender is None or not isinstance(phase := sender.phase, Directed | Fanned):
            return
        sent = phase.sent if isinstance(phase, Fanned) else 0
        self.move(sender, Fanned(phase.directive, sent + 1))
        self.sending = sender
        if sent + 1 == len(phase.directive.sends):
            self.sending = None
            del self.idle[id]  # nothing is due until all branches return
        self.calls[branch] = self.idle[branch] = OpenCall(
            branch, Call("", sender.call.name), (sender.place[0], sent + 1), branch_of=id
        )
        sender.out += 1
        self.unanswered += 1

    def branches(self, sender: OpenCall) -> list[OpenCall]:
        """The branches of a call, in sending order."""
        sent = sender.phase.sent if isinstance(sender.phase, Fanned) else 0
        return [self.calls[call_id(sender.id, index)] for index in range(sent)]

    def withdraw(self) -> None:
        """Drop everything that is due but the recall of delegates."""
        self.idle = {}
        self.ready = {id: call for id, call in self.calls.items() if isinstance(call.phase, Delegated)}

    def give_out(self, call: str) -> None:
        """Mark a call as given out: nothing is due for it until an outcome is recorded."""
        self.idle.pop(call, None)
        self.ready.pop(call, None)

    def results(self) -> list[Message]:
        """The results in call order; an abandoned call has one too."""
        return [] if self.quiet else [_result(self.agent, call) for call in self.asked]


def turn_of(agent: str, text: str, calls: dict[str, OpenCall], quiet: bool = False, code: bool = False) -> Turn:
    """A turn in which nothing is done yet; `calls` are in call order."""
    return Turn(agent, text, list(calls.values()), calls, calls.copy(), len(calls), quiet, code)


def model_turn(position: int, agent: str, text: str, calls: tuple[Call, ...]) -> Turn:
    """The turn of a model's reply at this position."""
    opened: dict[str, OpenCall] = {}
    for index, call in enumerate(calls):
        id = call_id(position, index)
        opened[id] = OpenCall(id, call, (index, 0))
    return turn_of(agent, text, opened)


def function_turn(id: str, agent: str, directive: Directive, code: bool = False) -> Turn:
    """The turn of a Function member or of code: one call, whose result no model reads."""
    call = OpenCall(id, Call("", ""))
    turn = turn_of(agent, "", {id: call}, quiet=True, code=code)
    turn.move(call, Directed(directive, "", agent))
    return turn


def flow_turn(workflow: str, flow: Flow) -> Turn:
    """The turn of a workflow, which has no calls yet."""
    turn = turn_of(workflow, "", {}, quiet=True)
    turn.flow = flow
    turn.unanswered = 1  # the workflow itself
    return turn


def rule_turn(id: str, agent: str, directive: Directive, rule: str) -> Turn:
    """The turn of a rule that hands off in place of the agent."""
    turn = function_turn(id, agent, directive)
    turn.rule = rule
    return turn


def _result(agent: str, call: OpenCall) -> ToolResult:
    phase = call.phase
    if isinstance(phase, Answered):
        return ToolResult(call.call.id, call.call.name, agent, phase.text, phase.ok, phase.files)
    return ToolResult(call.call.id, call.call.name, agent, "abandoned: the run ended before this call did", False)

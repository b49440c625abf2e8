"""State: the fold of one conversation's log. `apply` is total, O(1), and reads no policy, clock or configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from changeover.facts import ONE_REQUEST, Fault, FunctionFault, Handed, HandoffRecord, ModelFault
from changeover.handoffs.context import merge_variables
from changeover.handoffs.protocol import Signal, advance
from changeover.messages import Assistant, Message, User
from changeover.relay.events import (
    CallRefused,
    Entry,
    Event,
    FunctionFailed,
    FunctionReturned,
    HandoffAccepted,
    HandoffOffered,
    ModelFailed,
    ModelReplied,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    Started,
    ToolFinished,
    ToolStarted,
    Unreadable,
    UserSpoke,
)
from changeover.relay.passing import IN_WORK, handed_of, record_of, thread_of
from changeover.relay.run import Acting, Broken, Outcome, Replied, Run, Thinking
from changeover.relay.turn import BEGUN, Fresh, Offered, OpenCall, Turn


class State:
    """Everything a decision may depend on."""

    __slots__ = (
        "agent",
        "at",
        "handed",
        "handoffs",
        "id",
        "inbox",
        "model_calls",
        "outcomes",
        "path",
        "position",
        "record",
        "return_to",
        "root",
        "run",
        "seq",
        "task",
        "thread",
        "unreadable",
        "variables",
    )

    def __init__(self, id: str) -> None:
        self.id = self.root = id
        self.position = self.task = 0
        self.seq = 0
        """Where its last event stands among all of the root's tree."""
        self.at = 0.0
        self.agent = self.return_to = ""
        self.record: list[Message] = []
        """Everything that was said, in order."""
        self.thread = self.record
        """What the active agent's model reads: the record, or what a handoff left of it. It only grows."""
        self.inbox: list[tuple[int, UserSpoke]] = []
        self.run: Run | None = None
        self.variables: dict[str, Any] = {}
        self.handed: Handed | None = None
        self.handoffs: list[HandoffRecord] = []
        self.path: list[str] = []
        self.model_calls: dict[str, int] = {}
        self.outcomes: dict[int, Outcome] = {}
        self.unreadable = ""
        """The tag of an event that only a newer version understands."""

    @property
    def last(self) -> Outcome | None:
        """How the last run ended."""
        return next(reversed(self.outcomes.values()), None)

    def fold(self, entries: Iterable[Entry]) -> State:
        for entry in entries:
            self.at, self.seq = entry.at, entry.seq + len(entry.events) - 1
            for event in entry.events:
                self.apply(event)
        return self

    def apply(self, event: Event | Unreadable) -> None:
        """Take in one event. What does not fit the state changes nothing but the position."""
        if (run := self.run) is None:
            IDLE[type(event)](self, event)
        else:
            WORKING[type(event)](self, run, event)
        self.position += 1

    def _open(self, event: Started) -> None:
        self.root = event.root

    def _hear(self, event: UserSpoke) -> None:
        self.inbox.append((self.position, event))

    def _begin(self, event: RunStarted) -> None:
        if not self.inbox or self.inbox[0][0] != event.run:
            return
        id, spoken = self.inbox.pop(0)
        if event.agent != self.agent:
            # Whoever comes without a handoff has nothing left out.
            self.agent, self.handed, self.thread = event.agent, None, self.record
            self.path.append(event.agent)
        self.return_to, self.task = "", self.position
        self.variables = merge_variables(self.variables, spoken.context, "merge")
        self._add(User(spoken.text, spoken.user or "user"))
        self.run = Run(self.id, id, spoken, self.at, len(self.handoffs), Thinking(str(self.position)))
        self.run.agents.add(event.agent)

    def _take_up(self, event: RunResumed) -> None:
        outcome = self.outcomes.get(event.run)
        if outcome is None or outcome.fault is None or self.last is not outcome:
            return
        del self.outcomes[event.run]
        run = self.run = outcome.run
        run.strikes, run.phase = 0, Thinking(str(self.position))
        if run.handoffs:
            # Its failure is withdrawn: the receiver works on.
            self.handoffs[-1] = replace(self.handoffs[-1], state=IN_WORK)

    def _leave(self, event: Unreadable) -> None:
        self.unreadable = event.tag

    def _give_up(self, run: Run, event: Unreadable) -> None:
        self.unreadable = event.tag

    def _hear_meanwhile(self, run: Run, event: UserSpoke) -> None:
        self.inbox.append((self.position, event))

    def _reply(self, run: Run, event: ModelReplied) -> None:
        if not isinstance(run.phase, Thinking):
            return
        run.spend(event.usage or ONE_REQUEST)
        self.model_calls[event.agent] = self.model_calls.get(event.agent, 0) + 1
        self._add(Assistant(event.agent, event.text, event.thinking, event.calls))
        if event.calls:
            run.phase = Acting(Turn(self.position, event.agent, event.text, event.calls))
        else:
            run.phase = Replied(event.text)

    def _retry_or_break(self, run: Run, event: ModelFailed) -> None:
        if not isinstance(run.phase, Thinking):
            return
        self.model_calls[event.agent] = self.model_calls.get(event.agent, 0) + 1
        if event.retry_at is None:
            run.phase = Broken(ModelFault(event.agent, event.reason))
        else:
            run.retries += 1
            run.phase = Thinking(str(self.position), run.phase.attempt + 1, event.retry_at)

    def _return(self, run: Run, event: FunctionReturned) -> None:
        if isinstance(run.phase, Thinking):
            self._add(Assistant(event.agent, event.text))
            run.phase = Replied(event.text)

    def _break(self, run: Run, event: FunctionFailed) -> None:
        if isinstance(run.phase, Thinking):
            run.phase = Broken(FunctionFault(event.agent, event.reason))

    def _intend(self, run: Run, event: ToolStarted) -> None:
        if found := _find(run, event.call, Fresh):
            found[1].phase = BEGUN

    def _finish_tool(self, run: Run, event: ToolFinished) -> None:
        self._answer(run, event.call, _result_text(event), event.ok)

    def _refuse(self, run: Run, event: CallRefused) -> None:
        if not isinstance(run.phase, Acting):
            return
        if event.why in ("arguments", "tool", "receiver"):
            run.phase.turn.faulty, run.mistake = True, event
        elif event.why == "limit":
            run.told = True
        self._answer(run, event.call, event.reason, ok=False)

    def _answer(self, run: Run, call: str, text: str, ok: bool) -> None:
        """Answer one call; when the turn has all its answers, the model reads on."""
        if not (found := _find(run, call)):
            return
        turn, open_call = found
        turn.answer(open_call, text, ok)
        if turn.unanswered == 0:
            self._close(run, turn)

    def _add(self, *messages: Message) -> None:
        self.record.extend(messages)
        if self.thread is not self.record:
            self.thread.extend(messages)

    def _close(self, run: Run, turn: Turn) -> None:
        self._add(*turn.results())
        run.strikes = run.strikes + 1 if turn.faulty else 0
        run.phase = Thinking(str(self.position))

    def _offer(self, run: Run, event: HandoffOffered) -> None:
        if found := _find(run, event.call, Fresh):
            turn, call = found
            if turn.offered is None:
                call.phase, turn.offered = Offered(event, self.at), call

    def _hand_over(self, run: Run, event: HandoffAccepted) -> None:
        found = _find(run, event.call, Offered)
        if not found or not isinstance(offered := found[1].phase, Offered):
            return
        turn, call = found
        offer = offered.offer
        turn.answer(call, f"transferred to {offer.receiver}{_dropped(offer.dropped)}")
        self._close(run, turn)
        run.strikes = 0
        self._end_leg(run, Signal.COMPLETE)
        self.handoffs.append(record_of(self.id, self.position, run, call, offered))
        run.handoffs += 1
        run.agents.add(offer.receiver)
        self.variables = merge_variables(self.variables, offer.variables, offer.merge)
        self.agent, self.task, self.return_to = offer.receiver, self.position, offer.return_to
        self.path.append(offer.receiver)
        self.handed = handed_of(offer, call.call.name, run, self.at, self.path)
        self.thread = thread_of(offer, run, self.thread)

    def _complete(self, run: Run, event: RunCompleted) -> None:
        if isinstance(run.phase, Replied):
            self._end(run, run.phase.text, None)

    def _fail(self, run: Run, event: RunFailed) -> None:
        self._end(run, "", event.fault)

    def _ignore(self, run: Run, event: Event) -> None:
        """It does not belong here while somebody works."""

    def _end(self, run: Run, output: str, fault: Fault | None) -> None:
        if isinstance(run.phase, Acting):
            self._add(*run.phase.turn.results())
        self._end_leg(run, Signal.FAIL if fault else Signal.COMPLETE)
        chain = self.handoffs[run.first :]
        self.outcomes[run.id] = Outcome(run, self.agent, output, chain, fault, self.at, self.variables, self.handed)
        self.run = None

    def _end_leg(self, run: Run, signal: Signal) -> None:
        """The work under the last handoff of this run is over."""
        if run.handoffs:
            last = self.handoffs[-1]
            self.handoffs[-1] = replace(last, state=advance(last.state, signal))


WORKING: dict[type[Event | Unreadable], Callable[[State, Run, Any], None]] = {
    UserSpoke: State._hear_meanwhile,
    ModelReplied: State._reply,
    ModelFailed: State._retry_or_break,
    FunctionReturned: State._return,
    FunctionFailed: State._break,
    ToolStarted: State._intend,
    ToolFinished: State._finish_tool,
    CallRefused: State._refuse,
    HandoffOffered: State._offer,
    HandoffAccepted: State._hand_over,
    RunCompleted: State._complete,
    RunFailed: State._fail,
    RunStarted: State._ignore,
    RunResumed: State._ignore,
    Started: State._ignore,
    Unreadable: State._give_up,
}
"""What each event means while an agent works. A table: the fold is the hottest path there is."""

IDLE: dict[type[Event | Unreadable], Callable[[State, Any], None]] = {
    **dict.fromkeys(WORKING, lambda state, event: None),
    Started: State._open,
    UserSpoke: State._hear,
    RunStarted: State._begin,
    RunResumed: State._take_up,
    Unreadable: State._leave,
}
"""What each event means while nobody works."""


def _find(run: Run, call: str, phase: type = object) -> tuple[Turn, OpenCall] | None:
    """The call of this id in the current turn, if it is in this phase."""
    if not isinstance(run.phase, Acting):
        return None
    turn = run.phase.turn
    found = turn.calls.get(call)
    return (turn, found) if found is not None and isinstance(found.phase, phase) else None


def _result_text(event: ToolFinished) -> str:
    if event.unknown:
        return "unknown: this call was begun before a crash, and it cannot be known whether it took effect"
    return event.text + _dropped(event.dropped)


def _dropped(names: tuple[str, ...]) -> str:
    return f" (ignored the reserved arguments {', '.join(names)})" if names else ""

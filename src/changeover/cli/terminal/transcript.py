"""Transcript: the events of a conversation, printed line by line as they are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, assert_never

from rich.console import Console
from rich.text import Text

from changeover.cli.exits import clean, one_line
from changeover.cli.terminal.prompt import call_arguments
from changeover.cli.terminal.render import is_unicode
from changeover.errors import limit_words
from changeover.facts import Mode, RunResult
from changeover.ids import call_id, call_of, handoff_id, is_root
from changeover.messages import Call
from changeover.relay.events import (
    AlternativeRefused,
    CallRefused,
    ContentChecked,
    ContextPacked,
    FellBack,
    HandoffConditional,
    HandoffExpired,
    HandoffOffered,
    HandoffRejected,
    HandoffReturned,
    HandoffRolledBack,
    LimitReached,
    ModelFailed,
    ModelReplied,
    ReceiverChosen,
    RepairAsked,
    RuleFailed,
    RuleFired,
    RunCancelled,
    RunCompleted,
    RunFailed,
    TicketLapsed,
    TicketTaken,
    TierChosen,
    ToolFinished,
)
from changeover.relay.stream import AgentChanged, Recorded, RunFinished, StreamItem, TextDelta, ThinkingDelta

RUN_ENDED = (RunCompleted, RunFailed, RunCancelled)
LONGEST = 400
"""How many characters of a text are shown on a line of ours; the log has all of it."""


class Note(NamedTuple):
    """A line about an event, and its colour."""

    text: str
    colour: str = "dim"


def _chosen(agent: str, event: ReceiverChosen) -> Note:
    if not event.receiver:
        return Note(f"{agent} finds no specialist: {event.why}", "yellow")
    return Note(f"{event.receiver} fits: {event.why}")


def _limited(agent: str, event: LimitReached) -> Note:
    return Note(f"{agent} is told: {limit_words(event.limit, event.figure, event.spent)}", "yellow")


def _packed(agent: str, event: ContextPacked) -> Note:
    if event.error:
        return Note(f"the context could not be packed ({event.error}); the last messages are passed on", "yellow")
    return Note(f"context packed: {event.strategy}, {event.after:,} tokens")


def _returned(agent: str, event: HandoffReturned) -> Note:
    if event.declined:
        return Note(f"{agent} is told, and continues")
    return Note(f"{event.receiver} returned: {event.response or event.error or 'nothing'}")


def _rolled_back(agent: str, event: HandoffRolledBack) -> Note:
    why = f": {event.reason}" if event.reason else ""
    return Note(f"rolled back from {event.receiver} to {event.sender}{why}", "red")


NOTES: dict[type[Any], Callable[[str, Any], Note]] = {
    HandoffRejected: lambda agent, event: Note(answer_words(event), "red"),
    HandoffExpired: lambda agent, event: Note(answer_words(event), "red"),
    HandoffConditional: lambda agent, event: Note(answer_words(event), "yellow"),
    AlternativeRefused: lambda agent, event: Note(f"{event.receiver} is not asked: {event.reason}", "yellow"),
    HandoffReturned: _returned,
    HandoffRolledBack: _rolled_back,
    ContextPacked: _packed,
    ReceiverChosen: _chosen,
    LimitReached: _limited,
    TierChosen: lambda agent, event: Note(f"a {event.tier} task: {event.reason}"),
    RuleFired: lambda agent, event: Note(event.words),
    ContentChecked: lambda agent, event: Note(event.words, "yellow"),
    RuleFailed: lambda agent, event: Note(event.words, "red"),
    FellBack: lambda agent, event: Note(f"{event.agent or agent} continues alone: {event.reason}", "yellow"),
    RepairAsked: lambda agent, event: Note(f"{agent} is told what is wrong with its answer: {event.problem}"),
}
"""The events that are shown as one line, given the agent that works."""


class CallIndex:
    """The calls of the replies seen so far, by id, and the `seq` of the last event."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self.seq = 0

    def add(self, recorded: Recorded) -> None:
        self.seq = max(self.seq, recorded.seq)
        if isinstance(recorded.event, ModelReplied):
            for index, call in enumerate(recorded.event.calls):
                self._calls[handoff_id(recorded.conversation, call_id(recorded.position, index))] = call

    def find(self, conversation: str, id: str) -> Call | None:
        return self._calls.get(handoff_id(conversation, id))


class Transcript:
    """Prints downwards only, so that a terminal and a file look alike; `texts=False` leaves out the replies."""

    def __init__(self, out: Console, texts: bool = True) -> None:
        self._out, self._texts = out, texts
        self._arrows = ("→", "⇄") if is_unicode(out) else ("->", "<->")
        self._calls = CallIndex()
        self._streaming: tuple[str, str, int] | None = None
        """The agent, command and attempt of the reply on the current line."""
        self._last_text = ""

    @property
    def seq(self) -> int:
        """The `seq` of the last event."""
        return self._calls.seq

    @seq.setter
    def seq(self, seq: int) -> None:
        self._calls.seq = seq

    def item(self, item: StreamItem) -> None:
        """Print an item of a stream."""
        match item:
            case TextDelta():
                self._delta(item)
            case Recorded():
                self._event(item)
            case RunFinished():
                self._end(item.result)
            case ThinkingDelta() | AgentChanged():
                pass  # the log has it

    def recall(self, recorded: Recorded) -> None:
        """Take in an event without printing it."""
        self._calls.add(recorded)

    def end_line(self) -> None:
        """End the line of a streamed reply."""
        if self._streaming is not None:
            self._out.print()
            self._streaming = None

    def _event(self, recorded: Recorded) -> None:
        self.recall(recorded)
        conversation, agent = recorded.conversation, recorded.agent
        match recorded.event:
            case ModelReplied() as reply:
                self._reply(conversation, reply)
            case ToolFinished(call=id) as done if call := self._calls.find(conversation, id):
                self._note(f"{call.name}({call_arguments(call.args)}) {self._arrows[0]} {done.text}")
            case HandoffOffered() as offer:
                self._offer(offer)
            case ModelFailed(reason=reason, retry_at=again) if again:
                self._note(f"the model failed ({reason}); it is called again")
            case TicketTaken() | TicketLapsed() as moved if is_root(conversation):
                self._note(_ticket_words(moved))  # the sender's log has the tickets of its delegates too
            case CallRefused(why="declined"):
                self._note(f"{agent} is told, and continues")
            case event:
                if describe := NOTES.get(type(event)):
                    self._note(*describe(agent, event))

    def _end(self, result: RunResult) -> None:
        """Print the answer, unless it was printed as it was streamed."""
        self.end_line()
        if self._texts and result.text.strip() and result.text.strip() != self._last_text.strip():
            self._speak(result.final_agent, result.text)
        self._last_text = ""

    def _delta(self, delta: TextDelta) -> None:
        # Delegates may work in parallel; of their texts only the result is printed.
        if not self._texts or not is_root(delta.conversation):
            return
        streaming = (delta.agent, delta.command, delta.attempt)
        if self._streaming != streaming:
            self.end_line()
            self._name(delta.agent)
            self._streaming, self._last_text = streaming, ""
        self._last_text += delta.text
        self._out.print(Text(clean(delta.text)), end="", soft_wrap=True)

    def _reply(self, conversation: str, reply: ModelReplied) -> None:
        self.end_line()
        if self._texts and is_root(conversation) and reply.text.strip() not in ("", self._last_text.strip()):
            self._speak(reply.agent, reply.text)

    def _speak(self, agent: str, text: str) -> None:
        self._name(agent)
        self._out.print(Text(clean(text.strip())), soft_wrap=True)
        self._last_text = text

    def _name(self, agent: str) -> None:
        self._out.print(Text(f"{one_line(agent)}: ", "bold"), end="")

    def _offer(self, offer: HandoffOffered) -> None:
        self.end_line()
        arrow = self._arrows[offer.mode is Mode.DELEGATE]
        lead = Text(f"  {one_line(f'{offer.sender} {arrow} {offer.receiver}')}", "yellow")
        if offer.attempt > 1:
            lead.append(f" (try {offer.attempt})")
        if is_retry(offer):
            self._out.print(lead, soft_wrap=True)
            return
        printed = offer.message.strip() == self._last_text.strip()
        about = "" if printed or not offer.message else f": {one_line(offer.message)[:LONGEST]}"
        values = f" ({one_line(call_arguments(offer.variables))[:LONGEST]})" if offer.variables else ""
        self._out.print(Text.assemble(lead, about, values), soft_wrap=True)

    def _note(self, text: str, colour: str = "dim") -> None:
        self.end_line()
        self._out.print(Text(f"  {one_line(text)[:LONGEST]}", colour), soft_wrap=True)


def is_retry(offer: HandoffOffered) -> bool:
    """True if another receiver declined the same call; its message was shown with the first offer."""
    return call_of(offer.call) != offer.call


def _ticket_words(event: TicketTaken | TicketLapsed) -> str:
    if isinstance(event, TicketTaken):
        return f"{event.by} works on it"
    return f"{event.by} gave it back: {event.reason}" if event.by else event.reason


def answer_words(answer: HandoffRejected | HandoffConditional | HandoffExpired) -> str:
    """A receiver's answer to an offer, if it is not an acceptance."""
    match answer:
        case HandoffRejected(receiver=receiver, reason=reason, suggested=suggested):
            return f"{receiver} rejects it: {reason}{f' (suggests {suggested})' if suggested else ''}"
        case HandoffExpired(receiver=receiver, reason=reason):
            return f"time is up for {receiver}: {reason}"
        case HandoffConditional(receiver=receiver, needs_context=missing) if missing:
            return f"{receiver} accepts only if it knows {', '.join(missing)}"
        case HandoffConditional(receiver=receiver, needs_permission=needed):
            return f"{receiver} accepts only with permission for {', '.join(needed)}"
        case _:
            assert_never(answer)

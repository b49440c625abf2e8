"""Transcript: the events of a running conversation, printed line by line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, assert_never

from rich.console import Console
from rich.text import Text

from changeover.cli.terminal.prompt import listed
from changeover.cli.terminal.render import clean, line_of
from changeover.errors import limit_words
from changeover.facts import Mode, RunResult
from changeover.ids import call_of
from changeover.messages import Call
from changeover.relay.events import (
    AlternativeRefused,
    CallRefused,
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
    TicketLapsed,
    TicketTaken,
    TierChosen,
    ToolFinished,
)
from changeover.relay.stream import Recorded, RunFinished, StreamItem, TextDelta, ThinkingDelta


class Aside(NamedTuple):
    """A line, and its colour; without one it is only a note."""

    text: str
    colour: str = ""


def aside(agent: str, event: object) -> Aside | None:
    """What to say of an event while this agent works; nothing, if nobody has to know of it at once."""
    words = WORDS.get(type(event))
    return words(agent, event) if words else None


def _chosen(agent: str, event: ReceiverChosen) -> Aside:
    if not event.receiver:
        return Aside(f"{agent} finds no specialist: {event.why}", "yellow")
    return Aside(f"{event.receiver} fits: {event.why}")


def _limited(agent: str, event: LimitReached) -> Aside:
    return Aside(f"{agent} is told: {limit_words(event.limit, event.figure, event.spent)}", "yellow")


WORDS: dict[type[Any], Callable[[str, Any], Aside]] = {
    ReceiverChosen: _chosen,
    LimitReached: _limited,
    TierChosen: lambda agent, event: Aside(f"a {event.tier} task: {event.reason}"),
    RuleFired: lambda agent, event: Aside(event.words),
    RuleFailed: lambda agent, event: Aside(event.words, "red"),
    FellBack: lambda agent, event: Aside(f"{agent} goes on alone: {event.reason}", "yellow"),
    RepairAsked: lambda agent, event: Aside(f"{agent} is told what is wrong with its answer: {event.problem}"),
}


FULL = 400
"""How much of a text stands on one of our own lines; the log has all of it."""


class Show:
    """Writes downwards only, so that a terminal and a file look alike."""

    def __init__(self, out: Console, texts: bool = True) -> None:
        self._out, self._texts = out, texts
        self._fancy = out.encoding.lower().startswith("utf")
        self._calls: dict[str, Call] = {}
        self._speaking: tuple[str, str, int] | None = None
        self._streamed: set[tuple[str, str]] = set()
        self._said = ""
        self.seq = 0
        """Of the last event that was shown."""

    def item(self, item: StreamItem) -> None:
        """Show what a stream gives."""
        match item:
            case TextDelta():
                self._delta(item)
            case Recorded():
                self.event(item)
            case RunFinished():
                self.end(item.result)
            case ThinkingDelta():
                pass  # what a model thinks by itself is in the log

    def event(self, recorded: Recorded) -> None:
        """Show what was recorded, if a user would want to see it."""
        self.recall(recorded)
        at = recorded.conversation
        match recorded.event:
            case ModelReplied() as reply:
                self._reply(at, reply)
            case ToolFinished(call=id) as done if call := self._calls.get(f"{at}:{id}"):
                self._note(f"{call.name}({listed(call.args)}) {self._mark('→', '->')} {done.text}")
            case HandoffOffered() as offer:
                self._handoff(offer)
            case ModelFailed(reason=reason, retry_at=again) if again:
                self._note(f"the model failed ({reason}); trying again")
            case TicketTaken() | TicketLapsed() as moved if "/" not in at:  # a delegate's are in its sender's log too
                self._note(_moved(moved))
            case event:
                self._answered(recorded.agent, event)

    def _answered(self, agent: str, event: object) -> None:
        """What receivers said to what they were offered, and what came of it."""
        match event:
            case HandoffRejected() | HandoffExpired() as answer:
                self._line(answer_words(answer), "red")
            case HandoffConditional() as answer:
                self._line(answer_words(answer), "yellow")
            case AlternativeRefused(receiver=receiver, reason=reason):
                self._line(f"{receiver} is not asked: {reason}", "yellow")
            case HandoffReturned(declined=True) | CallRefused(why="declined"):
                self._note(f"{agent} is told, and goes on")
            case HandoffReturned() as back:
                self._note(f"{back.receiver} came back: {back.response or back.error or 'with nothing'}")
            case HandoffRolledBack() as undone:
                why = f": {undone.reason}" if undone.reason else ""
                self._line(f"{undone.sender} has it again, {undone.receiver} has not{why}", "red")
            case _:
                self._aside(agent, event)

    def _aside(self, agent: str, event: object) -> None:
        """What happens beside handoffs, and is good to know."""
        if isinstance(event, ContextPacked):
            self._packed(event)
        elif told := aside(agent, event):
            if told.colour:
                self._line(*told)
            else:
                self._note(told.text)

    def recall(self, recorded: Recorded) -> None:
        """Know what was recorded, without showing it."""
        self.seq = max(self.seq, recorded.seq)
        if isinstance(recorded.event, ModelReplied):
            # The log names a call by its place: the position of the reply, and its number there.
            at = f"{recorded.conversation}:{recorded.position}"
            self._calls |= {f"{at}.{index}": call for index, call in enumerate(recorded.event.calls)}

    def end(self, result: RunResult) -> None:
        """Show the answer, unless it was shown while it was written."""
        self.rest()
        if self._texts and result.output.strip() and result.output.strip() != self._said.strip():
            self._speak(result.final_agent, result.output)
        self._said = ""

    def rest(self) -> None:
        """End the line."""
        if self._speaking is not None:
            self._out.print()
            self._speaking = None

    def _delta(self, delta: TextDelta) -> None:
        # Delegates may work at once; of what they say, what they come back with is shown.
        if not self._texts or "/" in delta.conversation:
            return
        speaking = (delta.agent, delta.command, delta.attempt)
        if self._speaking != speaking:
            self.rest()
            self._lead(delta.agent)
            self._speaking, self._said = speaking, ""
        self._streamed.add((delta.conversation, delta.command))
        self._said += delta.text
        self._out.print(Text(clean(delta.text)), end="", soft_wrap=True)

    def _reply(self, conversation: str, reply: ModelReplied) -> None:
        self.rest()
        if self._texts and "/" not in conversation and reply.text.strip() not in ("", self._said.strip()):
            self._speak(reply.agent, reply.text)

    def _speak(self, agent: str, text: str) -> None:
        self._lead(agent)
        self._out.print(Text(clean(text.strip())), soft_wrap=True)
        self._said = text

    def _lead(self, agent: str) -> None:
        self._out.print(Text(f"{agent}: ", "bold"), end="")

    def _handoff(self, offer: HandoffOffered) -> None:
        self.rest()
        asks = offer.mode is Mode.DELEGATE
        arrow = self._mark("⇄" if asks else "→", "<->" if asks else "->")
        lead = Text(f"  {offer.sender} {arrow} {offer.receiver}", "yellow")
        if offer.attempt > 1:
            lead.append(f" (try {offer.attempt})")
        if next_offer(offer):
            self._out.print(lead, soft_wrap=True)
            return
        same = offer.message.strip() == self._said.strip()
        about = "" if same or not offer.message else f": {line_of(offer.message)[:FULL]}"
        values = f" ({line_of(listed(offer.variables))[:FULL]})" if offer.variables else ""
        self._out.print(Text.assemble(lead, about, values), soft_wrap=True)

    def _packed(self, packed: ContextPacked) -> None:
        """What the receiver gets in place of what was said, or why it gets only the end of that."""
        if packed.error:
            self._line(f"the context could not be packed ({packed.error}); the last messages go along", "yellow")
        else:
            self._note(f"context packed: {packed.strategy}, {packed.after:,} tokens")

    def _note(self, text: str) -> None:
        self._line(text, "dim")

    def _line(self, text: str, colour: str) -> None:
        self.rest()
        self._out.print(Text(f"  {line_of(text)[:FULL]}", colour), soft_wrap=True)

    def _mark(self, drawn: str, typed: str) -> str:
        return drawn if self._fancy else typed


def next_offer(offer: HandoffOffered) -> bool:
    """Whether it is the very call that others declined before; whatever it says was read then."""
    return call_of(offer.call) != offer.call


def _moved(event: TicketTaken | TicketLapsed) -> str:
    """Which worker has it now, or why none has."""
    if isinstance(event, TicketTaken):
        return f"{event.by} works on it"
    return f"{event.by} gave it back: {event.reason}" if event.by else event.reason


def answer_words(answer: HandoffRejected | HandoffConditional | HandoffExpired) -> str:
    """What a receiver said to an offer that it did not simply accept."""
    match answer:
        case HandoffRejected(receiver=receiver, reason=reason, suggested=suggested):
            return f"{receiver} does not take it: {reason}{f' (better: {suggested})' if suggested else ''}"
        case HandoffExpired(receiver=receiver, reason=reason):
            return f"no more time for {receiver}: {reason}"
        case HandoffConditional(receiver=receiver, needs_context=missing) if missing:
            return f"{receiver} takes it only if it knows {', '.join(missing)}"
        case HandoffConditional(receiver=receiver, needs_permission=needed):
            return f"{receiver} takes it only with permission for {', '.join(needed)}"
        case _:
            assert_never(answer)

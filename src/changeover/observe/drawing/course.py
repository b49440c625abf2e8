"""Course: the handoffs of a conversation, with those of its delegates and with calls that were refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from changeover.facts import HandoffRecord, Mode
from changeover.facts import State as HandoffState
from changeover.ids import child_id, split_handoff
from changeover.observe.drawing.chain import chain_of
from changeover.relay.context_flow import ValueFlow
from changeover.relay.stream import Recorded

BROKEN = (HandoffState.REJECTED, HandoffState.FAILED, HandoffState.TIMEOUT)
"""The states of handoffs that came to nothing."""
NOT_OFFERED = "not offered"
"""The label of a call that was refused before it became a handoff."""


class Step(Struct, frozen=True):
    """One handoff of a conversation; a delegate's has the steps of its own conversation."""

    sender: str
    receiver: str
    label: str
    state: str
    """Its state, with the reason if it failed."""
    delegate: bool = False
    inner: tuple[Step, ...] = ()
    id: str = ""
    declined: bool = False
    """True if the receiver did not accept it: the task stayed with the sender."""
    retry_of: str = ""
    """The id of the step that was declined before."""
    undone: bool = False
    """True if it was accepted, then rolled back."""
    broken: bool = False
    """True if it came to nothing: it was refused or rejected, it failed, or its time ran out."""
    attempt: int = 1
    reason: str = ""
    variables: tuple[str, ...] = ()
    """What it carried, such as "order=7"."""
    artifacts: tuple[str, ...] = ()
    """The names of the artifacts that the sender made before it."""

    @property
    def whole(self) -> str:
        """All that is known about it, in lines."""
        lines = (
            f"{self.sender} {'asks' if self.delegate else 'to'} {self.receiver}: {self.state}",
            self.reason,
            *self.variables,
            f"artifacts: {', '.join(self.artifacts)}" if self.artifacts else "",
        )
        return "\n".join(line for line in lines if line)


class Course(Struct, frozen=True):
    """A conversation: its first agent and its handoffs."""

    title: str
    first: str
    steps: tuple[Step, ...] = ()

    @property
    def agents(self) -> list[str]:
        """All agents, in the order of their first appearance."""
        names = (name for step in walk(self.steps) for name in (step.sender, step.receiver))
        return list(dict.fromkeys([self.first, *names]))


def course_of(
    title: str,
    first: str,
    handoffs: Sequence[HandoffRecord],
    flows: Iterable[ValueFlow] = (),
    events: Iterable[Recorded] = (),
) -> Course:
    """The course of a conversation by its handoffs, the flow of its artifacts, and its events, which tell what was
    refused; the steps of delegates are nested."""
    within: dict[str, list[HandoffRecord]] = {}
    for record in handoffs:
        within.setdefault(split_handoff(record.id)[0], []).append(record)
    steps = _steps(title, within, _made(within, flows), _refused(events, handoffs))
    return Course(title, steps[0].sender if steps else first, steps)


def _steps(
    conversation: str,
    within: Mapping[str, Sequence[HandoffRecord]],
    made: Mapping[str, list[str]],
    refused: Mapping[str, Sequence[tuple[float, Step]]],
) -> tuple[Step, ...]:
    """The steps of one conversation, in order."""
    found = list(refused.get(conversation, ()))
    for record in within.get(conversation, ()):
        child = child_id(conversation, split_handoff(record.id)[1])
        inner = _steps(child, within, made, refused) if record.mode is Mode.DELEGATE else ()
        found.append((record.at, _step(record, within[conversation], made, inner)))
    # Sorted by time only: what one entry refuses comes before what it offers.
    return tuple(step for _, step in sorted(found, key=lambda each: each[0]))


def _refused(events: Iterable[Recorded], handoffs: Iterable[HandoffRecord]) -> dict[str, list[tuple[float, Step]]]:
    """The calls that were refused before anything was offered, by conversation, each with its time."""
    chain = chain_of(events, handoffs)
    agents = {hop.id: hop.agent for hop in chain.hops}
    found: dict[str, list[tuple[float, Step]]] = {}
    for edge in chain.edges:
        if edge.state == "refused":
            who, state = (_name(agents[edge.source]), agents[edge.target]), f"refused: {one_line(edge.reason)}"
            step = Step(*who, NOT_OFFERED, state, id=edge.handoff, declined=True, broken=True, reason=NOT_OFFERED)
            found.setdefault(split_handoff(edge.handoff)[0], []).append((edge.at, step))
    return found


def _made(within: Mapping[str, Sequence[HandoffRecord]], flows: Iterable[ValueFlow]) -> dict[str, list[str]]:
    """The names of artifacts by the first handoff after each was set or changed, in the same conversation."""
    found: dict[str, list[str]] = {}
    for flow in flows:
        for change in flow.changes if flow.kind == "artifact" else ():
            later = (each for each in within.get(change.conversation, ()) if each.at >= change.at)
            if change.effect != "removed" and (record := next(later, None)) is not None:
                found.setdefault(record.id, []).append(one_line(flow.name))
    return found


def walk(steps: Iterable[Step]) -> Iterator[Step]:
    """All steps, each before those within it."""
    for step in steps:
        yield step
        yield from walk(step.inner)


def _step(
    record: HandoffRecord, others: Sequence[HandoffRecord], made: Mapping[str, list[str]], inner: tuple[Step, ...]
) -> Step:
    artifacts = tuple(dict.fromkeys(made.get(record.id, ())))
    return Step(
        _name(record.sender),
        record.receiver,
        _label(record, others, artifacts),
        f"{record.state}{f': {one_line(record.error)}' if record.error else ''}",
        record.mode is Mode.DELEGATE,
        inner,
        record.id,
        declined(record),
        record.retry_of,
        bool(record.task_id) and record.mode is Mode.TRANSFER and record.state is HandoffState.RETURNED,
        declined(record) or record.state in BROKEN,
        record.attempt,
        one_line(record.message) or record.tool,
        _values(record),
        artifacts,
    )


def declined(record: HandoffRecord) -> bool:
    """True if the receiver never had the task. A person who answers at once has no task either, but accepted."""
    taken = bool(record.task_id) or (record.mode is Mode.DELEGATE and not record.error)
    return not taken or record.state is HandoffState.REJECTED


def _label(record: HandoffRecord, others: Sequence[HandoffRecord], artifacts: Sequence[str]) -> str:
    before = next((each.receiver for each in others if each.id == record.retry_of), "")
    again = f"(try {record.attempt}{f', after {before}' if before else ''})" if record.attempt > 1 else ""
    values, made = ", ".join(_values(record)), ", ".join(artifacts)
    said = [one_line(record.message) or record.tool, values and f"({values})", made and f"+ {made}", again]
    return " ".join(part for part in said if part)


def _values(record: HandoffRecord) -> tuple[str, ...]:
    named = record.variables.items()
    return tuple(one_line(f"{name}={json.dumps(value, ensure_ascii=False)}") for name, value in named)


def _name(sender: str) -> str:
    """The sender in one line: a program may use any name."""
    return one_line(sender) or "?"


def one_line(text: str) -> str:
    """A text without breaks, and without what would steer a terminal or break an XML document."""
    return "".join(sign for sign in " ".join(text.split()) if sign.isprintable())

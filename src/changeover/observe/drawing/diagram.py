"""Diagrams of a team or of a conversation, as plain text or in Mermaid."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile, zip_longest
from typing import Any

from msgspec import Struct

from changeover.agent.agent import Agent, Function, Person, first_line, purpose
from changeover.agent.moves import EVERY_DELEGATE, DelegateTo, Move, Transfer, TransferToAny, UseTool
from changeover.agent.roster import Roster, Seat
from changeover.agent.specialist import ToSpecialist
from changeover.guards.rules import Rule, VariablesAre
from changeover.observe.drawing.course import Course, Step, one_line

AFTER_APPROVAL = "after approval"


class Way(Struct, frozen=True):
    """One way from an agent to another: its tool and its variables."""

    tool: str
    receivers: tuple[str, ...]
    delegate: bool = False
    variables: tuple[str, ...] = ()
    approval: bool = False
    alternatives: tuple[str, ...] = ()
    """Agents that are asked if the receiver declines."""
    condition: str = ""
    """When it is open, in words; empty if it always is."""

    @property
    def label(self) -> str:
        """All details in one line."""
        tool, *more = self.details
        return f"{tool}{''.join(f' ({each})' if each == AFTER_APPROVAL else f', {each}' for each in more)}"

    @property
    def details(self) -> tuple[str, ...]:
        """The tool and its variables, its condition, whether it needs approval, and the alternatives."""
        found = (
            f"{self.tool}({', '.join(self.variables)})" if self.variables else self.tool,
            AFTER_APPROVAL if self.approval else "",
            f"when {self.condition}" if self.condition else "",
            f"else {', '.join(self.alternatives)}" if self.alternatives else "",
        )
        return tuple(each for each in found if each)

    @property
    def reaches(self) -> tuple[str, ...]:
        """All members that may get the work."""
        return (*self.receivers, *self.alternatives)

    def others(self, sender: str) -> tuple[str, ...]:
        """The receivers without the sender; one that names itself alone stays."""
        return tuple(id for id in self.receivers if id != sender or len(self.receivers) == 1)


class Place(Struct, frozen=True):
    """One member of a team."""

    id: str
    about: str
    start: bool
    tools: tuple[str, ...] = ()
    ways: tuple[Way, ...] = ()
    person: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """Person, start, both or neither, as words."""
        return tuple(word for word, holds in (("person", self.person), ("start", self.start)) if holds)

    @property
    def title(self) -> str:
        """Id, kind and purpose."""
        is_what = ", ".join(self.kinds)
        return f"{self.id}{f' ({is_what})' if is_what else ''}{f': {self.about}' if self.about else ''}"


class RuleLine(Struct, frozen=True):
    """One rule of a team, in words."""

    name: str
    effect: str
    """Its effect in words; empty if its name says so."""
    condition: str
    agents: tuple[str, ...] = ()
    """The active agents for which it holds; empty for all."""
    goto: str = ""

    @property
    def label(self) -> str:
        """All details in one line."""
        agents = f" (while {' or '.join(self.agents)} is active)" if self.agents else ""
        return f"{self.name}{f': {self.effect}' if self.effect else ''} when {self.condition}{agents}"


class Plan(Struct, frozen=True):
    """A team: its members and its rules."""

    places: tuple[Place, ...]
    rules: tuple[RuleLine, ...] = ()


def plan_of(roster: Roster) -> Plan:
    """The plan of a team."""
    places = tuple(_place(id, seat, roster) for id, seat in roster.seats.items())
    return Plan(places, tuple(_rule(rule) for rule in (*roster.leads, *roster.judges)))


def team_text(plan: Plan) -> str:
    """A team for a terminal."""
    lines = []
    for place in plan.places:
        rows = [f"tool      {tool}" for tool in place.tools] + [_way_text(place, way) for way in place.ways]
        lines += [place.title, *branches(rows), ""]
    if plan.rules:
        lines += ["rules", *branches([rule.label for rule in plan.rules]), ""]
    return "\n".join(lines[:-1])


def branches(rows: Sequence[str]) -> Iterator[str]:
    """Rows that hang below a title."""
    return (f"  {'└' if index + 1 == len(rows) else '├'}─ {row}" for index, row in enumerate(rows))


def course_text(course: Course) -> str:
    """A conversation for a terminal."""
    return "\n".join([f"conversation {course.title}", "", *_legs(course.first, course.steps)])


def _legs(first: str, steps: Sequence[Step]) -> Iterator[str]:
    """Each agent in turn, with its delegates, its declined offers and its transfer; what came to nothing is dashed."""
    current = first
    yield current
    for step, following in zip_longest(steps, steps[1:]):
        if step.sender != current:
            yield (current := step.sender)
        if not step.delegate and not step.declined:
            yield f"  └{'╌' if step.broken else '─'}▶ {step.receiver}: {step.label} [{step.state}]"
            yield (current := step.receiver)
            continue
        more = following is not None and following.sender == current
        verb = "tried" if step.declined else "asks"
        line = "╌▶" if step.broken else "─▶"
        yield f"  {'├' if more else '└'}{line} {verb} {step.receiver}: {step.label} [{step.state}]"
        if step.inner:
            yield from (f"  {'│' if more else ' '}    {line}" for line in _legs(step.receiver, step.inner))
    moves = [step for step in steps if not step.delegate and not step.declined]
    undone = list(takewhile(lambda step: step.undone, reversed(moves)))
    if undone and steps[-1] is undone[0]:
        yield undone[-1].sender


def _way_text(place: Place, way: Way) -> str:
    others = ", ".join(way.others(place.id)) or "no agent"
    return f"{'asks    ' if way.delegate else 'hands to'}  {others} by {way.label}"


def _place(id: str, seat: Seat | Function | Person, roster: Roster) -> Place:
    start = id == roster.start
    if isinstance(seat, Person):
        return Place(id, one_line(seat.description or seat.name), start, person=True)
    if not isinstance(seat, Seat):
        ways = (Way("Command", tuple(seat.goto)),) if seat.goto else ()
        return Place(id, one_line(purpose(seat)), start, ways=ways)
    agent: Agent = seat.agent
    moves = list(seat.moves.values())
    tools = tuple(_tool(move) for move in moves if isinstance(move, UseTool))
    return Place(id, one_line(purpose(agent)), start, tools, tuple(_ways(id, moves, roster)))


def _rule(rule: Rule) -> RuleLine:
    return RuleLine(one_line(rule.name), _effect(rule), described(rule.if_), tuple(rule.agents), rule.goto)


def _effect(rule: Rule) -> str:
    """The effect of a rule, unless its name says so: a rule without a name of its own is named by its effect."""
    approved = AFTER_APPROVAL if rule.approval else ""
    if (found := rule.goto or rule.end or rule.deny) and rule.name.endswith(found):
        return approved
    if rule.goto:
        return f"goes to {rule.goto} {approved}".rstrip()
    if rule.end:
        return "ends the run"
    return f"refuses handoffs ({one_line(rule.deny)})" if rule.deny else "has a person approve handoffs"


def _tool(move: UseTool) -> str:
    return f"{move.definition.name}{' (after approval)' if move.approval else ''}"


def _ways(sender: str, moves: Iterable[Move], roster: Roster) -> Iterator[Way]:
    for move in moves:
        name, approval = move.definition.name, move.approval is not None
        match move:
            case TransferToAny():
                yield Way(name, move.receivers)
            case Transfer():
                properties = move.definition.parameters.get("properties", {})
                yield _declared(name, move, tuple(properties))
            case ToSpecialist():
                yield Way(name, tuple(_specialists(sender, move, roster)), True, (), approval)
            case DelegateTo():
                taken = tuple(each for each in move.definition.parameters["properties"] if each not in EVERY_DELEGATE)
                yield _declared(name, move, taken)
            case UseTool():
                pass  # it has no receiver


def _declared(name: str, move: Transfer | DelegateTo, variables: tuple[str, ...]) -> Way:
    declared = move.declared
    return Way(
        name,
        (declared.receiver,),
        isinstance(move, DelegateTo),
        variables,
        move.approval is not None,
        declared.alternatives,
        described(declared.when),
    )


def described(condition: Callable[..., Any] | None) -> str:
    """A condition in words: the first line of its docstring, else its name."""
    if condition is None:
        return ""
    if isinstance(condition, VariablesAre):
        return one_line(", ".join(f"{name} is {value}" for name, value in condition.values.items()))
    name = str(getattr(condition, "__name__", type(condition).__name__))
    about = first_line(condition.__doc__) if inspect.isroutine(condition) else ""
    return one_line(about).rstrip(".") or ("a condition holds" if name == "<lambda>" else name.replace("_", " "))


def _specialists(sender: str, move: ToSpecialist, roster: Roster) -> Iterator[str]:
    """The candidates of a sender that names no receiver."""
    for id in roster.present:
        seat = roster.seats[id]
        takes = not isinstance(seat, Seat) or seat.agent.accepts_handoffs
        if id != sender and takes and (not move.among or id in move.among):
            yield id


LONG = 90
"""The longest label, in characters; Mermaid does not break lines."""


def team_mermaid(plan: Plan) -> str:
    """A team; dashed lines are delegates, which come back; people stand in hexagons, and rules in a flag."""
    names = {place.id: f"a{index}" for index, place in enumerate(plan.places)}
    nodes = [f"  {names[place.id]}{_box(place)}" for place in plan.places]
    edges = [edge for place in plan.places for edge in _edges(place, names)]
    rules = "<br/>".join(_escaped(rule.label) for rule in plan.rules)
    return "\n".join(["flowchart LR", *nodes, *edges, *([f'  rules>"{rules}"]'] if rules else [])])


def course_mermaid(course: Course) -> str:
    """A conversation; a delegate is active between its task and its return, and what was declined ends in a
    cross; lines of what came to nothing are dashed."""
    names = {id: f"a{index}" for index, id in enumerate(course.agents)}
    people = [f"  participant {name} as {_escaped(id)}" for id, name in names.items()]
    return "\n".join(["sequenceDiagram", *people, *_messages(course.steps, names)])


def _box(place: Place) -> str:
    lines = [_escaped(place.id), *map(_escaped, place.tools)]
    text = "<br/>".join(lines)
    if place.person:
        return f'{{{{"{text}"}}}}'
    return f'(["{text}"])' if place.start else f'["{text}"]'


def _edges(place: Place, names: dict[str, str]) -> Iterator[str]:
    for way in place.ways:
        line = "-.->" if way.delegate else "-->"
        for receiver in way.others(place.id):
            yield f'  {names[place.id]} {line}|"{_escaped(way.label)}"| {names[receiver]}'


def _messages(steps: Sequence[Step], names: dict[str, str]) -> Iterator[str]:
    for step in steps:
        sender, receiver = names[step.sender], names[step.receiver]
        line, label = "-->>" if step.broken else "->>", _escaped(f"{step.receiver}: {step.label}")
        if step.declined:
            yield f"  {sender}--x{receiver}: {label}"
            yield f"  Note over {receiver}: {_escaped(step.state)}"
        elif step.delegate:
            yield f"  {sender}{line}+{receiver}: {label}"
            yield from _messages(step.inner, names)
            yield f"  {receiver}-->>-{sender}: {_escaped(f'{step.sender}: {step.state}')}"
        else:
            yield f"  {sender}{line}{receiver}: {label}"


def _escaped(text: str) -> str:
    """Text that means nothing to Mermaid."""
    short = text if len(text) <= LONG else f"{text[: LONG - 1]}…"
    # A code for whatever is neither a letter nor harmless: Mermaid reads # and ; as the ends of codes of its own.
    return "".join(sign if sign.isalnum() or sign in " .,_-…/()=:?!" else f"#{ord(sign)};" for sign in short)

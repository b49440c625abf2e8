"""Drawings in Mermaid: a team as a flowchart, a conversation as a sequence diagram."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from changeover.observe.drawing import Course, Place, Plan, Step

LONG = 90
"""From how many characters on a label is cut; Mermaid breaks no lines by itself."""


def team_mermaid(plan: Plan) -> str:
    """A team; dashed lines are delegates, which come back; people stand in hexagons."""
    names = {place.id: f"a{index}" for index, place in enumerate(plan)}
    nodes = [f"  {names[place.id]}{_box(place)}" for place in plan]
    edges = [edge for place in plan for edge in _edges(place, names)]
    return "\n".join(["flowchart LR", *nodes, *edges])


def course_mermaid(course: Course) -> str:
    """A conversation; a delegate is active between its task and its return, and what was declined ends in a cross."""
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
        for receiver in way.receivers:
            if receiver != place.id or len(way.receivers) == 1:
                yield f'  {names[place.id]} {line}|"{_escaped(way.label)}"| {names[receiver]}'


def _messages(steps: Sequence[Step], names: dict[str, str]) -> Iterator[str]:
    for step in steps:
        sender, receiver = names[step.sender], names[step.receiver]
        if step.declined:
            yield f"  {sender}-x{receiver}: {_escaped(step.label)}"
            yield f"  Note over {receiver}: {_escaped(step.state)}"
        elif step.delegate:
            yield f"  {sender}->>+{receiver}: {_escaped(step.label)}"
            yield from _messages(step.inner, names)
            yield f"  {receiver}-->>-{sender}: {_escaped(step.state)}"
        else:
            yield f"  {sender}->>{receiver}: {_escaped(step.label)}"


def _escaped(text: str) -> str:
    """Text that means nothing to Mermaid."""
    short = text if len(text) <= LONG else f"{text[: LONG - 1]}…"
    # A code for whatever is neither a letter nor harmless: Mermaid reads # and ; as the ends of codes of its own.
    return "".join(sign if sign.isalnum() or sign in " .,_-…/()=:?!" else f"#{ord(sign)};" for sign in short)

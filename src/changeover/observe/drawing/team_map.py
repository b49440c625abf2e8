"""TeamMap: a team as a drawing, with places of members and routes of the arrows between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from msgspec import Struct

from changeover.observe.drawing.diagram import Place, Plan, Way
from changeover.observe.drawing.layers import Box, Link
from changeover.observe.drawing.layout import Point, Rect, laid_out

LETTER, LINE, PAD = 7.3, 18.0, 12.0
"""Width of a letter, height of a line, and free space within a box, in pixels."""
SMALL = 6.7
"""Width of a letter in a label."""
NARROW = 156.0
"""The width of a box whose text is short."""
LONG = 30
"""Largest number of letters in a line."""
WIDE = 60
"""Largest number of letters in a line of a rule."""
MANY = 6
"""A way to more receivers than this is written in the box of its sender, not drawn."""


Pair = tuple[str, str, bool]
"""Sender and receiver of an arrow, and whether it delegates."""
Arrows = dict[Pair, list[Way]]


class PlacedMember(Struct, frozen=True):
    """A member and its box."""

    place: Place
    lines: tuple[str, ...]
    """The text of its box."""
    box: Rect
    reachable: bool
    """False if no way leads to it, not even as an alternative, and no conversation begins with it."""


class PlacedArrow(Struct, frozen=True):
    """All ways of one kind from a member to another, as one arrow."""

    sender: str
    receiver: str
    delegate: bool
    """True if it leads to a delegate, which gives the work back."""
    ways: tuple[Way, ...]
    lines: tuple[str, ...]
    """The text of its label; unless the map is brief, the first line names the receiver."""
    points: tuple[Point, ...]
    """The corners of its line, from the sender to the receiver."""
    label: Rect
    both: bool = False
    """True if the receiver hands to the sender in the same way; a brief map draws one arrow for both."""


class TeamMap(Struct, frozen=True):
    """Members and arrows, in pixels from the top left."""

    width: float
    height: float
    members: tuple[PlacedMember, ...]
    arrows: tuple[PlacedArrow, ...]
    rules: tuple[str, ...] = ()
    """The lines about rules, which stand below the members."""


def team_map(plan: Plan, *, brief: bool = False) -> TeamMap:
    """The members of a team in rows below the start agent, and the ways between them.

    A brief map is smaller: its boxes name no tools, its labels no receivers, and equal ways there and back are one
    arrow.
    """
    places = sorted(plan.places, key=lambda place: not place.start)
    drawn = _drawn(places)
    labels = {pair: tuple(_label("" if brief else pair[1], found)) for pair, found in drawn.items()}
    ways = _merged(drawn, labels) if brief else drawn
    merged = drawn.keys() - ways.keys()
    texts = {place.id: tuple(_lines(place, brief)) for place in places}
    boxes = [Box(id, _width(lines, LETTER, NARROW), LINE * len(lines) + PAD) for id, lines in texts.items()]
    links = [Link(*pair[:2], _width(labels[pair], SMALL), LINE * len(labels[pair])) for pair in ways]
    layout = laid_out(boxes, links)
    reached = {id for place in places for way in place.ways for id in way.reaches if id != place.id}
    reached |= {rule.goto for rule in plan.rules}
    rules = tuple(line for rule in plan.rules for line in wrap(f"rule {rule.label}", WIDE, subsequent_indent="  "))
    return TeamMap(
        max(layout.width, _width(rules, SMALL) + 2 * PAD if rules else 0.0),
        layout.height + (LINE * len(rules) + PAD if rules else 0.0),
        tuple(
            PlacedMember(place, texts[place.id], layout.boxes[place.id], place.start or place.id in reached)
            for place in places
        ),
        tuple(
            PlacedArrow(*pair, tuple(found), labels[pair], route.points, route.label, _back(pair) in merged)
            for (pair, found), route in zip(ways.items(), layout.routes, strict=True)
        ),
        rules,
    )


def _drawn(places: Sequence[Place]) -> Arrows:
    """The ways that are arrows; all ways to oneself are one arrow."""
    found: Arrows = {}
    for place in places:
        for way in place.ways:
            if len(way.receivers) > MANY:
                continue
            for receiver in way.others(place.id):
                kind = way.delegate and receiver != place.id
                found.setdefault((place.id, receiver, kind), []).append(way)
    return found


def _merged(drawn: Arrows, labels: Mapping[Pair, tuple[str, ...]]) -> Arrows:
    """One arrow for each two that lead there and back and have the same label."""
    kept: Arrows = {}
    for pair, ways in drawn.items():
        if _back(pair) not in kept or labels[_back(pair)] != labels[pair]:
            kept[pair] = ways
    return kept


def _back(pair: Pair) -> Pair:
    sender, receiver, delegate = pair
    return receiver, sender, delegate


def _lines(place: Place, brief: bool) -> Iterator[str]:
    yield _short(place.id)
    kind = ", ".join(place.kinds)
    yield from _wrapped(" · ".join(part for part in (kind, place.about) if part) or "agent")
    if place.tools and not brief:
        yield from _wrapped(f"tools: {', '.join(place.tools)}")
    for way in place.ways:
        if len(way.receivers) > MANY:
            verb = "asks" if way.delegate else "hands to"
            yield _short(f"{verb} {len(way.others(place.id))} others: {way.tool}")


def _label(receiver: str, ways: Sequence[Way]) -> Iterator[str]:
    if receiver:
        yield _short(f"to {receiver}")
    for way in ways:
        for detail in way.details:
            yield from _wrapped(detail)


def _wrapped(text: str) -> list[str]:
    """A text in at most two lines; a long call breaks before its arguments, not within a name."""
    first, _, _ = text.partition(" ")
    broken = text.replace("(", " (", 1) if len(first) > LONG else text
    return wrap(broken, LONG, max_lines=2, placeholder="…") or [""]


def _short(text: str) -> str:
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


def _width(lines: Sequence[str], letter: float, least: float = 0.0) -> float:
    return max(least, letter * max(map(len, lines)) + 2 * PAD if least else letter * max(map(len, lines)))

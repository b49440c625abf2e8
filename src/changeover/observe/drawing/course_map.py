"""CourseMap: a conversation as a drawing, with a box each time an agent has the work, and an arrow for each handoff.

Time runs to the right in columns, which wrap into rows. Labels stand before the boxes to which their arrows lead. Lines
turn only beside the boxes, and in free space below the rows, so they cross neither boxes nor labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from msgspec import Struct

from changeover.ids import split_handoff
from changeover.observe.drawing.course import Course, Step
from changeover.observe.drawing.lanes import place_stages
from changeover.observe.drawing.layout import Point, Rect

COLUMNS = 4
"""Largest number of columns in a row."""
WIDTH, HEIGHT = 150.0, 34.0
"""The size of a box."""
TURN, WORDS = 56.0, 206.0
"""Before each column: the space in which lines turn, and the space of labels."""
LINE, PAD, APART, SLOT = 14.0, 16.0, 14.0, 6.0
"""The height of a line of a label, free space at the edges, between boxes, and between lines side by side."""
LONG, NAME = 30, 17
"""Largest number of letters in a line of a label, and in a line of the name in a box."""
PITCH = TURN + WORDS + WIDTH


class Stop(Struct, eq=False):
    """A time in which an agent has the work, or would have had it."""

    agent: str
    column: int = 0
    ghost: bool = False
    """True if the agent never got the work."""
    step: Step | None = None
    """The handoff that led to it."""
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    """The lines above and below its arrow."""
    y: float = 0.0
    """The middle of its box."""

    @property
    def row(self) -> int:
        """The row in which its column stands."""
        return self.column // COLUMNS

    @property
    def names(self) -> list[str]:
        """The text of its box, in at most two lines."""
        return wrap(self.agent, NAME, max_lines=2, placeholder="…") or [""]

    @property
    def box(self) -> Rect:
        """The rectangle of its box."""
        return Rect(PAD + (self.column % COLUMNS) * PITCH + TURN + WORDS, self.y - HEIGHT / 2, WIDTH, HEIGHT)

    @property
    def words(self) -> Rect:
        """The rectangle of the label of its arrow."""
        height = LINE * (len(self.above) + len(self.below))
        return Rect(self.box.x - WORDS, self.y - LINE * len(self.above) - 4, WORDS - 8, height + 8)

    @property
    def up(self) -> float:
        """Space that it takes above its middle."""
        return max(HEIGHT / 2, LINE * len(self.above) + 6)

    @property
    def down(self) -> float:
        """Space that it takes below its middle."""
        return max(HEIGHT / 2, LINE * len(self.below) + 6)


class Hop(Struct, frozen=True):
    """An arrow between two stops; without a handoff the work came back, or another message came."""

    source: Stop
    target: Stop
    step: Step | None = None


class PlacedHop(Struct, frozen=True):
    """An arrow, and the corners of its line."""

    hop: Hop
    points: tuple[Point, ...]


class CourseMap(Struct, frozen=True):
    """Stops and arrows, in pixels from the top left."""

    width: float
    height: float
    stops: tuple[Stop, ...]
    arrows: tuple[PlacedHop, ...]


def course_map(course: Course) -> CourseMap:
    """The places of all boxes, labels and lines of a conversation."""
    walk = _Walk()
    walk.follow(walk.stop(course.first), course.steps)
    walk.place()
    bottoms, height = _stack(walk.stops, walk.hops)
    router = _Router(bottoms)
    columns = min(COLUMNS, max(stop.column for stop in walk.stops) + 1)
    arrows = tuple(PlacedHop(hop, tuple(router.route(hop))) for hop in walk.hops)
    return CourseMap(PAD + columns * PITCH + TURN + PAD, height, tuple(walk.stops), arrows)


class _Walk:
    """Follows the handoffs of a conversation, and puts its stops into stages."""

    def __init__(self) -> None:
        self.stops: list[Stop] = []
        self.hops: list[Hop] = []
        self._inside: dict[Stop, list[list[Stop]]] = {}
        """The stages behind a stop: those of its own conversation."""

    def stop(self, agent: str, label: Step | str = "") -> Stop:
        """Add a stop with the label of the arrow that leads to it."""
        if isinstance(label, Step):
            found = Stop(agent, 0, label.declined, label, tuple(_above(label)), tuple(_below(label)))
        else:
            found = Stop(agent, above=(_short(label),) if label else ())
        self.stops.append(found)
        return found

    def place(self) -> None:
        """Give all stops their columns."""

        def put(stop: Stop, column: int) -> None:
            stop.column = column

        place_stages([self.stops[:1]], lambda stop: self._inside.get(stop, ()), put)

    def follow(self, first: Stop, steps: Sequence[Step]) -> Stop:
        """Add the stops of a conversation that begins with this one; returns the last one."""
        current, stages = first, self._inside.setdefault(first, [])
        for stage in _stages(steps):
            if stage[0].sender != current.agent:
                current = self._come(current, stage[0].sender)
                stages.append([current])
            asked, ends = self._offer(current, stage)
            stages.append(asked)
            if not stage[-1].delegate and not stage[-1].declined:
                current = asked[-1]
            elif back := [end for end, step in zip(ends, stage, strict=True) if step.delegate and not step.declined]:
                again = self.stop(current.agent, f"back to {current.agent}")
                self.hops += [Hop(end, again) for end in back]
                current = again
                stages.append([again])
        return current

    def _come(self, before: Stop, agent: str) -> Stop:
        """The stop of a sender that got the work by no handoff: by another message, or a rollback."""
        stop = self.stop(agent, f"then {agent}")
        self.hops.append(Hop(before, stop))
        return stop

    def _offer(self, source: Stop, stage: Sequence[Step]) -> tuple[list[Stop], list[Stop]]:
        """Offers that stand in one column: the stop of each, and the one with which its work ends."""
        asked, ends = [], []
        for step in stage:
            stop = self.stop(step.receiver, step)
            self.hops.append(Hop(source, stop, step))
            asked.append(stop)
            ends.append(self.follow(stop, step.inner))
        return asked, ends


def _stages(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """The steps of each column: delegates of one turn, and offers that were declined with the one that followed."""
    stage: list[Step] = []
    for step in steps:
        if stage and not (stage[-1].sender == step.sender and (stage[-1].declined or _beside(stage[-1], step))):
            yield stage
            stage = []
        stage.append(step)
    if stage:
        yield stage


def _beside(one: Step, other: Step) -> bool:
    """True if an agent asked two delegates in one turn."""
    turns = {split_handoff(step.id)[1].partition(".")[0] for step in (one, other)}
    return one.delegate and other.delegate and len(turns) == 1


def _above(step: Step) -> Iterator[str]:
    yield _short(f"{'asks' if step.delegate else 'to'} {step.receiver}{f' (try {step.attempt})' * (step.attempt > 1)}")
    yield from wrap(step.reason, LONG, max_lines=2, placeholder="…")


def _below(step: Step) -> Iterator[str]:
    if step.broken:
        yield from wrap(step.state, LONG, max_lines=2, placeholder="…")
    if step.variables:
        yield _short(", ".join(step.variables))
    if step.artifacts:
        yield _short(f"+ {', '.join(step.artifacts)}")


def _short(text: str) -> str:
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


def _stack(stops: Sequence[Stop], hops: Sequence[Hop]) -> tuple[list[float], float]:
    """Give all stops their y; returns the bottom of each row, and of the drawing. Below a row there is room for the
    lines that run there."""
    below = Counter(row for hop in hops for row in _channels(hop))
    top, bottoms = PAD, []
    for _, in_row in groupby(sorted(stops, key=lambda stop: stop.column), key=lambda stop: stop.row):
        columns = [list(column) for _, column in groupby(in_row, key=lambda stop: stop.column)]
        middle, bottom = top + max(column[0].up for column in columns), top
        for column in columns:
            y = middle
            for index, stop in enumerate(column):
                y += stop.up if index else 0.0
                stop.y = y
                y += stop.down + APART
            bottom = max(bottom, y)
        bottoms.append(bottom)
        top = bottom + SLOT * below[len(bottoms) - 1] + APART
    return bottoms, top + PAD


def _channels(hop: Hop) -> list[int]:
    """The rows below which a line runs."""
    source, target = hop.source, hop.target
    if target.column == source.column + 1 and source.row == target.row:
        return []
    if target.row > source.row + 1 and target.column % COLUMNS:
        return [source.row, target.row - 1]
    return [source.row]


class _Router:
    """Finds the way of each line, with a slot of its own where several run side by side."""

    def __init__(self, bottoms: Sequence[float]) -> None:
        self._bottoms = bottoms
        self._slots: dict[tuple[str, int], dict[Stop | Hop, int]] = {}

    def route(self, hop: Hop) -> list[Point]:
        """The corners of a line."""
        (start, sy), (end, ty) = (hop.source.box.x + WIDTH, hop.source.y), (hop.target.box.x, hop.target.y)
        points, channels = [(start, sy)], _channels(hop)
        x = start + self._slot("turn", hop.source.column, hop.source)
        for row in channels:
            y = self._bottoms[row] + self._slot("below", row, hop) - SLOT
            points += [(x, points[-1][1]), (x, y)]
            aside = row != channels[-1]
            x = PAD / 2 if aside else end - WORDS - TURN + self._slot("turn", hop.target.column - 1, hop)
        points += [(x, points[-1][1]), (x, ty), (end, ty)]
        return [point for index, point in enumerate(points) if index == 0 or point != points[index - 1]]

    def _slot(self, kind: str, at: int, what: Stop | Hop) -> float:
        """The offset of a line among those of its kind at this place; the lines of one stop share a slot."""
        taken = self._slots.setdefault((kind, at), {})
        number = taken.setdefault(what, len(taken) + 1)
        return SLOT * (number if kind == "below" else (number - 1) % 8 + 1)

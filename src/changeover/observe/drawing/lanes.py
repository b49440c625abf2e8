"""Lanes: the places of a chain's hops and the lines of its edges, in pixels.

Time runs to the right, and each agent has a lane. What runs side by side shares a column; hops of one agent in one
column get sub-columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, inf, sqrt
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from changeover.observe.drawing.chain import Chain, Edge, Hop

T = TypeVar("T")

MANY_HOPS = 8
"""With more hops than this the drawing is compact."""
MANY_LANES = 4
"""With more lanes than this they stand closer together."""
PAD = 16
HEAD = 34
"""Height of the row with the numbers of the columns."""
SUB = 14
"""Pixels between two hops of one agent in one column."""
SHIFT = 8
"""Pixels between the lines of handoffs that came to nothing and the others."""
NAMES = {2: "two", 3: "three", 4: "four", 5: "five"}

Point = tuple[float, float]
Cell = tuple[int, str]
"""A column and an agent."""


class Size(Struct, frozen=True):
    """The measures of a drawing."""

    width: int
    height: int
    gap: int
    """Pixels between two columns."""
    lane: int
    """Pixels between two lanes."""
    compact: bool = False


COMPACT = Size(104, 34, 40, 22, True)
ROOMY = Size(150, 46, 64, 36)
CLOSE = Size(150, 46, 64, 20)


class PlacedHop(Struct, frozen=True):
    """A hop with its place."""

    id: str
    conversation: str
    agent: str
    seq: int
    until: int
    began: float
    ended: float | None
    status: str
    ghost: bool
    tokens: int
    replies: int
    errors: int
    column: int
    x: float
    y: float


class PlacedEdge(Struct, frozen=True):
    """An edge with the corners of its line, and the place of its words if there is room for them."""

    kind: str
    source: str
    target: str
    seq: int
    handoff: str
    state: str
    bad: bool
    reason: str
    tokens: int
    seconds: float | None
    attempt: int
    points: list[Point]
    label: Point | None = None


class Column(Struct, frozen=True):
    """A column and its title."""

    x: float
    width: float
    label: str


class Lane(Struct, frozen=True):
    """The lane of an agent; `y` is its middle."""

    agent: str
    y: float


class Drawing(Struct, frozen=True):
    """A chain, ready to be drawn."""

    width: float
    height: float
    size: Size
    columns: list[Column]
    lanes: list[Lane]
    hops: list[PlacedHop]
    edges: list[PlacedEdge]


def drawing_of(chain: Chain) -> Drawing:
    """The drawing of a chain."""
    return _Canvas(chain).drawing()


class _Canvas:
    """Places hops in columns and lanes, then draws the lines."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._columns = _columns(chain)
        self._hops = [hop for hop in chain.hops if hop.id in self._columns]
        self._agents = list(dict.fromkeys(hop.agent for hop in self._hops))
        self._size = COMPACT if len(self._hops) > MANY_HOPS else ROOMY if len(self._agents) <= MANY_LANES else CLOSE
        self._cells: dict[Cell, list[Hop]] = {}
        for hop in self._hops:
            self._cells.setdefault((self._columns[hop.id], hop.agent), []).append(hop)
        self._lefts, self._widths = self._across()
        self._tops, self._heights = self._down()
        self._places = {hop.id: self._place(cell, index) for cell, hop, index in self._each()}

    def drawing(self) -> Drawing:
        size = self._size
        columns = [
            Column(left, width, label)
            for left, width, label in zip(self._lefts, self._widths, self._labels(), strict=True)
        ]
        lanes = [Lane(agent, self._tops[agent] + self._heights[agent] / 2) for agent in self._agents]
        bottom = max((self._tops[agent] + self._heights[agent] for agent in self._agents), default=HEAD)
        right = max((left + width for left, width in zip(self._lefts, self._widths, strict=True)), default=0)
        return Drawing(
            right + (PAD if size.compact else size.gap),
            bottom + (PAD if size.compact else size.lane),
            size,
            columns,
            lanes,
            [self._placed(hop) for hop in self._hops],
            [self._line(edge) for edge in self._chain.edges if {edge.source, edge.target} <= self._places.keys()],
        )

    def _each(self) -> Iterable[tuple[Cell, Hop, int]]:
        return ((cell, hop, index) for cell, hops in self._cells.items() for index, hop in enumerate(hops))

    def _across(self) -> tuple[list[float], list[float]]:
        """The left edge and the width of each column."""
        count = max(self._columns.values(), default=-1) + 1
        subs = [
            max((_subs(len(hops)) for (at, _), hops in self._cells.items() if at == c), default=1) for c in range(count)
        ]
        widths = [_extent(each, self._size.width) for each in subs]
        lefts = [PAD + sum(widths[:index]) + self._size.gap * index for index in range(count)]
        return lefts, widths

    def _down(self) -> tuple[dict[str, float], dict[str, float]]:
        """The top and the height of each lane."""
        rows = dict.fromkeys(self._agents, 1)
        for (_, agent), hops in self._cells.items():
            rows[agent] = max(rows[agent], ceil(len(hops) / _subs(len(hops))))
        heights = {agent: _extent(rows[agent], self._size.height) for agent in self._agents}
        tops, top = {}, float(HEAD + (0 if self._size.compact else self._size.lane - SUB))
        for agent in self._agents:
            tops[agent] = top
            top += heights[agent] + self._size.lane
        return tops, heights

    def _place(self, cell: Cell, index: int) -> Point:
        """The upper left corner of the hop with this index in its cell."""
        column, agent = cell
        row, sub = divmod(index, _subs(len(self._cells[cell])))
        return (
            self._lefts[column] + sub * (self._size.width + SUB),
            self._tops[agent] + row * (self._size.height + SUB),
        )

    def _placed(self, hop: Hop) -> PlacedHop:
        x, y = self._places[hop.id]
        return PlacedHop(**asdict(hop), column=self._columns[hop.id], x=x, y=y)

    def _line(self, edge: Edge) -> PlacedEdge:
        size, shift = self._size, SHIFT if edge.bad else 0
        (sx, sy), (tx, ty) = self._places[edge.source], self._places[edge.target]
        start, end = (sx + size.width, sy + size.height / 2 + shift), (tx, ty + size.height / 2)
        left = self._lefts[self._columns[edge.target]]
        turn = left - size.gap / 2 - shift
        label = self._label(edge) if not size.compact and edge.kind == "transfer" else None
        known = asdict(edge)
        del known["at"]
        return PlacedEdge(**known, bad=edge.bad, points=_corners(start, end, turn, left, ty - SUB / 2), label=label)

    def _label(self, edge: Edge) -> Point | None:
        """Where the words of an edge begin: above its target if the line comes from above, else below; None if there is
        no room."""
        (_, sy), (tx, ty) = self._places[edge.source], self._places[edge.target]
        above, below = (tx, ty - 22), (tx, ty + self._size.height + 16)
        wanted = [(above, -1), (below, 1)] if sy <= ty else [(below, 1), (above, -1)]
        return next((point for point, side in wanted if self._is_free(edge.target, side)), None)

    def _is_free(self, hop: str, side: int) -> bool:
        """True if there is room for words above (-1) or below (1) a hop."""
        if self._size.lane >= ROOMY.lane:
            return True
        found = next(each for each in self._hops if each.id == hop)
        lane = self._agents.index(found.agent) + side
        inside = 0 <= lane < len(self._agents)
        return not inside or (self._columns[hop], self._agents[lane]) not in self._cells

    def _labels(self) -> list[str]:
        """The titles of the columns: their number, and what stands side by side in them."""
        kinds = {edge.target: edge.kind for edge in self._chain.edges if edge.kind in ("delegate", "transfer")}
        found: dict[int, dict[str, list[Hop]]] = {}
        for hop in self._hops:
            found.setdefault(self._columns[hop.id], {}).setdefault(kinds.get(hop.id, ""), []).append(hop)
        return [f"{index + 1}{_beside(found.get(index, {}))}" for index in range(len(self._lefts))]


def _beside(hops: Mapping[str, Sequence[Hop]]) -> str:
    delegates, attempts = hops.get("delegate", ()), len(hops.get("transfer", ()))
    if len(delegates) > 1:
        if max(hop.seq for hop in delegates) > min(hop.until or inf for hop in delegates):
            return f" · {len(delegates)} delegates"  # the steps of a workflow: some begin when others have ended
        return f" · {len(delegates)} in parallel" if len(delegates) > 5 else " · in parallel"
    return f" · {NAMES.get(attempts, attempts)} attempts" if attempts > 1 else ""


def _columns(chain: Chain) -> dict[str, int]:
    """The column of each hop, by its id."""
    begun = [strand for strand in chain.strands.values() if strand.stages]
    inside = {strand.stages[0][0].id: strand.stages[1:] for strand in begun if chain.offer_of(strand.id) is not None}
    found: dict[str, int] = {}
    roots = [stage for strand in begun if chain.offer_of(strand.id) is None for stage in strand.stages]
    place_stages(roots, lambda hop: inside.get(hop.id, ()), lambda hop, column: found.setdefault(hop.id, column))
    return found


def place_stages(
    stages: Iterable[Sequence[T]],
    inside: Callable[[T], Iterable[Sequence[T]]],
    place: Callable[[T, int], object],
    first: int = 0,
) -> int:
    """Give columns to the items of these stages, from `first` on; returns the number of columns. What happens inside an
    item, in the conversation of a delegate, stands in the columns behind it and before the next stage."""
    column = first
    for stage in stages:
        width = 1
        for item in stage:
            place(item, column)
            width = max(width, 1 + place_stages(inside(item), inside, place, column + 1))
        column += width
    return column - first


def _subs(count: int) -> int:
    """Number of sub-columns for so many hops."""
    return count if count <= 3 else ceil(sqrt(count))


def _extent(count: int, each: int) -> float:
    return float(count * each + (count - 1) * SUB)


def _corners(start: Point, end: Point, turn: float, left: float, above: float) -> list[Point]:
    """The corners of a line: it turns before the column of its end; to a further sub-column it comes from above."""
    (sx, sy), (ex, ey) = start, end
    if ex > left:
        middle = ex + SUB
        return _straightened([(sx, sy), (turn, sy), (turn, above), (middle, above), (middle, above + SUB / 2)])
    return _straightened([(sx, sy), (turn, sy), (turn, ey), (ex, ey)])


def _straightened(points: Sequence[Point]) -> list[Point]:
    """The points without those at which the line does not turn."""
    kept = [points[0]]
    for before, point, after in zip(points, points[1:], points[2:], strict=False):
        if not (before[1] == point[1] == after[1] or before[0] == point[0] == after[0]):
            kept.append(point)
    return [*kept, points[-1]]

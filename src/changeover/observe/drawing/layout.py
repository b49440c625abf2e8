"""Layout of a directed graph: places of boxes, routes of arrows, and places of labels. No label lies upon a box."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from msgspec import Struct

from changeover.observe.drawing.layers import APART, LANE, Box, Layers, Link, Node, Segment, layered

TRACK = 10.0
"""Distance between lines that run sideways between two rows."""
CLEAR = 12.0
"""Free space below and above such lines: room for an arrowhead."""
EDGE = 16.0
"""Free space around the drawing."""
LOOP = 26.0
"""Distance from a box that an arrow to itself reaches."""
ROUNDS = 10
SAME = 1.5
"""Two places that differ by less count as one."""

Point = tuple[float, float]


class Rect(Struct, frozen=True, gc=False):
    """Where a box or a label is, in pixels from the top left."""

    x: float
    y: float
    width: float
    height: float


class Route(Struct, frozen=True, gc=False):
    """The course of an arrow: corners of a line that runs down, up and sideways only, and the place of its label."""

    points: tuple[Point, ...]
    label: Rect


class Layout(Struct, frozen=True):
    """A drawing as numbers: boxes by id, and routes in the order of the links."""

    width: float
    height: float
    boxes: dict[str, Rect]
    routes: tuple[Route, ...]


def laid_out(boxes: Sequence[Box], links: Sequence[Link]) -> Layout:
    """Place boxes and links in rows from top to bottom, the first box at the top.

    Lines keep clear of boxes and labels, and labels of boxes and of each other. A box becomes wider than asked for if
    more arrows begin or end at it than have room. Equal input gives an equal layout.
    """
    loops = {link.source: link for link in links if link.source == link.target}
    roomy = [_with_loop(box, loops.get(box.id)) for box in boxes]
    layers = layered(roomy, links)
    _place_sideways(layers)
    bottom = _place_rows(layers.rows)
    placed = {id: _rect(node) for id, node in layers.boxes.items()}
    routes = tuple(
        _loop(placed[link.source], link) if link.source == link.target else _route(layers, index, link)
        for index, link in enumerate(links)
    )
    right = max((node.x + node.width for node in layers.nodes), default=0.0)
    return Layout(right + EDGE, bottom + EDGE, placed, routes)


def _with_loop(box: Box, loop: Link | None) -> Box:
    if loop is None:
        return box
    return Box(box.id, box.width, max(box.height, loop.height), LOOP + loop.width)


def _place_sideways(layers: Layers) -> None:
    """Give every node its x and every segment its ends."""
    for row in layers.rows:
        _center(row)
    for node in layers.nodes:
        _connect(node)
    for _ in range(ROUNDS):
        _sweep(layers.rows)
    for _ in range(2):
        for chain in layers.chains.values():
            _straighten(layers.rows, [segment.lower for segment in chain[:-1]])
    _center_unlinked(layers)
    left = min((node.x for node in layers.nodes), default=0.0)
    for node in layers.nodes:
        node.x = round(node.x - left + EDGE)
    _settle_ends(layers)


def _sweep(rows: Sequence[Sequence[Node]]) -> None:
    """Align all rows with those above them, then with those below them, then with both."""
    for row in rows:
        _align(row, above=True)
    for row in reversed(rows):
        _align(row, below=True)
    for row in rows:
        _align(row, above=True, below=True)


def _center_unlinked(layers: Layers) -> None:
    """Place rows of boxes that no arrow reaches in the middle below the others."""
    linked = [node for node in layers.nodes if node.above or node.below]
    left = min((node.x for node in linked), default=0.0)
    right = max((node.x + node.width for node in linked), default=0.0)
    for row in layers.rows:
        if not any(node.above or node.below for node in row):
            _center(row, (left + right) / 2)


def _center(row: Sequence[Node], middle: float = 0.0) -> None:
    """Place the nodes side by side around the middle."""
    x = middle - sum(node.width for node in row) / 2
    for node in row:
        node.x = x
        x += node.width


def _straighten(rows: Sequence[Sequence[Node]], passing: Sequence[Node]) -> None:
    """Move the places of a link to one x, for as many rows at once as its neighbours there leave room."""
    run: list[Node] = []
    low, high = -inf, inf
    for node in passing:
        start, end = _room(rows[node.rank], node)
        if max(low, start) > min(high, end):
            _shift(run, low, high)
            run, low, high = [], -inf, inf
        run.append(node)
        low, high = max(low, start), min(high, end)
    _shift(run, low, high)


def _room(row: Sequence[Node], node: Node) -> tuple[float, float]:
    """The lowest and highest x that a node can move to."""
    index = next(index for index, each in enumerate(row) if each is node)
    low = row[index - 1].x + row[index - 1].width if index else -inf
    return low, (row[index + 1].x - node.width if index + 1 < len(row) else inf)


def _shift(run: Sequence[Node], low: float, high: float) -> None:
    if run:
        x = min(max(sum(node.x for node in run) / len(run), low), high)
        for node in run:
            node.x = x


def _align(row: Sequence[Node], *, above: bool = False, below: bool = False) -> None:
    """Move the nodes of a row towards their neighbours above, below or both, as far as the others leave room."""
    wanted: dict[int, float] = {}
    weights: dict[int, float] = {}
    for node in row:
        pulls = [(each.top - each.bottom, each.weight) for each in node.above] if above else []
        pulls += [(each.bottom - each.top, each.weight) for each in node.below] if below else []
        if pulls:
            weights[id(node)] = total = sum(weight for _, weight in pulls)
            wanted[id(node)] = node.x + sum(pull * weight for pull, weight in pulls) / total
    _spread(row, wanted, weights)
    for node in row:
        _connect(node)


def _spread(row: Sequence[Node], wanted: dict[int, float], weights: dict[int, float]) -> None:
    """Place the nodes as near as possible to where they want to be, in order and without overlap."""
    goals = [(wanted.get(id(node), node.x), weights.get(id(node), 0.1), node.width) for node in row]
    for node, x in zip(row, apart(goals), strict=True):
        node.x = x


def apart(goals: Sequence[tuple[float, float, float]]) -> list[float]:
    """The nearest places, by least squares, of things that each have a goal, a weight and a width, side by side."""
    # Isotonic regression: neighbours that would overlap move as one block to the mean of their goals.
    blocks: list[tuple[float, float, int]] = []
    shifts, shift = [], 0.0
    for goal, weight, width in goals:
        mean, total, count = goal - shift, weight, 1
        while blocks and blocks[-1][0] >= mean:
            other, others, members = blocks.pop()
            mean = (mean * total + other * others) / (total + others)
            total, count = total + others, count + members
        blocks.append((mean, total, count))
        shifts.append(shift)
        shift += width
    places = [mean for mean, _, count in blocks for _ in range(count)]
    return [place + shift for place, shift in zip(places, shifts, strict=True)]


def _connect(node: Node) -> None:
    """Set the ends of a node's segments: at its line, or spread over the edge of its box."""
    for segments, above in ((node.above, True), (node.below, False)):
        ordered = segments if node.line is not None else _by_neighbour(segments, above)
        for index, segment in enumerate(ordered):
            share = (index + 1) / (len(ordered) + 1)
            x = node.x + (APART + (node.width - node.reach - 2 * APART) * share if node.line is None else node.line)
            if above:
                segment.bottom = x
            else:
                segment.top = x


def _by_neighbour(segments: Sequence[Segment], above: bool) -> list[Segment]:
    return sorted(segments, key=lambda each: each.upper.x if above else each.lower.x)


def _settle_ends(layers: Layers) -> None:
    """Give every segment the ends that it keeps."""
    for chain in layers.chains.values():
        _meet_ends(layers.rows, chain)
    for node in layers.nodes:
        _connect(node)
    for node in layers.boxes.values():
        _fit_ports(node)


def _meet_ends(rows: Sequence[Sequence[Node]], chain: Sequence[Segment]) -> None:
    """Move the places of a link by a little if it can then run straight from the one box to the other."""
    (low, high), (start, end) = _ports(chain[0].upper), _ports(chain[-1].lower)
    for node in (segment.lower for segment in chain[:-1]):
        line = node.x + (node.line or 0.0)
        shift = min(max(line, low, start), high, end) - line
        before, after = _room(rows[node.rank], node)
        if max(low, start) <= min(high, end) and abs(shift) < LANE and before <= node.x + shift <= after:
            node.x += shift


def _ports(node: Node) -> tuple[float, float]:
    """The lowest and highest x at which a line can begin or end at a box."""
    return node.x + APART + LANE / 2, node.x + node.width - node.reach - APART - LANE / 2


def _fit_ports(node: Node) -> None:
    """Move the ends at a box straight above or below the other ends of their segments, where the box allows it."""
    low, high = _ports(node)
    for segments, above in ((node.above, True), (node.below, False)):
        ordered = _by_neighbour(segments, above)
        others = [each.top if above else each.bottom for each in ordered]
        places = apart([(min(max(other, low), high), 1.0, LANE) for other in others])
        # A block at the edge of the box may reach past it: push it back from both sides.
        for index, place in enumerate(places):
            places[index] = min(max(place, low + LANE * index), high - LANE * (len(places) - 1 - index))
        for segment, place in zip(ordered, places, strict=True):
            if above:
                segment.bottom = round(place)
            else:
                segment.top = round(place)


def _place_rows(rows: Sequence[Sequence[Node]]) -> float:
    """Give every node its y and every segment its track; returns the bottom of the last row."""
    y = EDGE
    for row in rows:
        height = max((node.height for node in row), default=0.0)
        for node in row:
            node.y = y + (height - node.height) / 2 if node.line is None else y
        y += height
        crossing = [segment for node in row for segment in node.below]
        tracks = _tracks([each for each in crossing if abs(each.top - each.bottom) >= SAME])
        for number, segments in enumerate(tracks):
            for segment in segments:
                segment.track = y + CLEAR + TRACK * number
        if crossing:
            y += 2 * CLEAR + TRACK * max(len(tracks) - 1, 0)
        elif row and row is not rows[-1]:
            y += CLEAR
    return y


def _tracks(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Segments by the height at which they run sideways, so that none lies upon another and few cross."""
    order: list[Segment] = []
    for segment in sorted(segments, key=lambda each: abs(each.top - each.bottom)):
        costs = [sum(_cost(segment, each) for each in order)]
        for each in order:
            costs.append(costs[-1] - _cost(segment, each) + _cost(each, segment))
        order.insert(costs.index(min(costs)), segment)
    tracks: list[list[Segment]] = []
    for segment in order:
        free = len(tracks)
        while free and not any(_overlap(segment, each) for each in tracks[free - 1]):
            free -= 1
        if free == len(tracks):
            tracks.append([])
        tracks[free].append(segment)
    return tracks


def _span(segment: Segment) -> tuple[float, float]:
    return min(segment.top, segment.bottom), max(segment.top, segment.bottom)


def _overlap(one: Segment, other: Segment) -> bool:
    (low, high), (start, end) = _span(one), _span(other)
    return low - LANE / 2 < end and start - LANE / 2 < high


def _cost(upper: Segment, lower: Segment) -> int:
    """The crossings if `upper` runs above `lower`; lines upon one another are as bad as many crossings."""
    (low, high), (start, end) = _span(upper), _span(lower)
    crossings = (low < lower.top < high) + (start < upper.bottom < end)
    return crossings + (20 if abs(lower.top - upper.bottom) < LANE / 2 else 0)


def _rect(node: Node) -> Rect:
    return Rect(node.x + APART, node.y, node.width - node.reach - 2 * APART, node.height)


def _route(layers: Layers, index: int, link: Link) -> Route:
    chain = layers.chains[index]
    points: list[Point] = [(chain[0].top, chain[0].upper.y + chain[0].upper.height)]
    label = Rect(*points[0], 0.0, 0.0)
    for segment in chain:
        if abs(segment.top - segment.bottom) >= SAME:
            points += [(segment.top, segment.track), (segment.bottom, segment.track)]
        elif segment.top != segment.bottom:
            points.append((segment.bottom, points[-1][1]))
        if segment.lower.label:
            label = Rect(segment.lower.x + LANE, segment.lower.y, link.width, link.height)
    points.append((chain[-1].bottom, chain[-1].lower.y))
    corners = (
        points[0],
        *(at for before, at, after in _triples(points) if not before[0] == at[0] == after[0]),
        points[-1],
    )
    return Route(corners[::-1] if index in layers.upward else corners, label)


def _triples(points: Sequence[Point]) -> Iterator[tuple[Point, Point, Point]]:
    return zip(points, points[1:], points[2:], strict=False)


def _loop(box: Rect, link: Link) -> Route:
    right, upper, lower = box.x + box.width, box.y + box.height * 0.3, box.y + box.height * 0.7
    out = right + LOOP - LANE
    label = Rect(right + LOOP - LANE / 2, box.y + (box.height - link.height) / 2, link.width, link.height)
    return Route(((right, upper), (out, upper), (out, lower), (right, lower)), label)

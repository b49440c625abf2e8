"""Layers of a directed graph: boxes in rows without cycles, links cut into segments, and few crossings."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import sqrt

from msgspec import Struct

BREADTH = 1100.0
"""Largest width of all boxes of one row, in pixels; further boxes go into rows below."""
FEW = 15
"""A team of more boxes than this gets wider rows, so that it grows in both directions."""
APART = 14.0
"""Free space on each side of a box."""
LANE = 14.0
"""Distance between two lines that run side by side."""
SWEEPS = 12


class Box(Struct, frozen=True):
    """A box to be placed, with its size in pixels."""

    id: str
    width: float
    height: float
    reach: float = 0.0
    """Space to its right for an arrow that leads back to it; no other arrow ends there."""


class Link(Struct, frozen=True):
    """An arrow from a box to another, with the size of its label in pixels."""

    source: str
    target: str
    width: float = 0.0
    height: float = 0.0


class Node(Struct, eq=False):
    """A box, or the place where a link passes a row; a link has its label at one of these places."""

    rank: int
    width: float
    """With the free space around it."""
    height: float
    line: float | None = None
    """Distance from its left edge at which the link passes; None for a box."""
    label: bool = False
    reach: float = 0.0
    x: float = 0.0
    y: float = 0.0
    above: list[Segment] = []
    below: list[Segment] = []


class Segment(Struct, eq=False):
    """The part of a link between two rows that follow one another; it leaves at `top` and arrives at `bottom`."""

    upper: Node
    lower: Node
    top: float = 0.0
    bottom: float = 0.0
    track: float = 0.0
    """The height at which it runs sideways."""

    @property
    def weight(self) -> int:
        """Weight of the segment when rows are aligned: links that pass several rows get the highest."""
        return (1, 3, 8)[(self.upper.line is not None) + (self.lower.line is not None)]


class Layers(Struct):
    """Rows of nodes from top to bottom. Boxes are in even rows, labels in odd rows."""

    rows: list[list[Node]]
    boxes: dict[str, Node]
    chains: dict[int, list[Segment]]
    """The segments of each link from top to bottom, by its index; links from a box to itself have none."""
    upward: set[int]
    """Links whose target is above their source."""

    @property
    def nodes(self) -> list[Node]:
        """All nodes, row by row."""
        return [node for row in self.rows for node in row]


def layered(boxes: Sequence[Box], links: Sequence[Link]) -> Layers:
    """The boxes and links in rows, with the order of each row such that few links cross."""
    between = {index: link for index, link in enumerate(links) if link.source != link.target}
    upward = _back(boxes, between)
    ends = {
        index: (link.target, link.source) if index in upward else (link.source, link.target)
        for index, link in between.items()
    }
    ranks = _ranks(boxes, set(ends.values()))
    degrees: defaultdict[tuple[str, bool], int] = defaultdict(int)
    for upper, lower in ends.values():
        degrees[upper, True] += 1
        degrees[lower, False] += 1
    nodes = {
        box.id: Node(
            ranks[box.id] * 2,
            max(box.width, LANE * (1 + max(degrees[box.id, True], degrees[box.id, False]))) + box.reach + 2 * APART,
            box.height,
            reach=box.reach,
        )
        for box in boxes
    }
    layers = Layers([[] for _ in range(2 * max(ranks.values(), default=0) + 1)], nodes, {}, upward)
    for node in nodes.values():
        layers.rows[node.rank].append(node)
    _cut(layers, between, ends)
    _range(layers, _families(boxes, set(ends.values()), ranks), ends)
    _order(layers.rows)
    return layers


def _back(boxes: Sequence[Box], links: Mapping[int, Link]) -> set[int]:
    """Links to the first box, which stays on top, and links that close a cycle, found by a search in depth."""
    found = {index for index, link in links.items() if link.target == boxes[0].id}
    leaving: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for index, link in links.items():
        if index not in found:
            leaving[link.source].append((index, link.target))
    state: dict[str, bool] = {}  # True while the search is below the box
    for root in boxes:
        stack = [] if root.id in state else [(root.id, iter(leaving[root.id]))]
        while stack:
            id, rest = stack[-1]
            state[id] = True
            index, target = next(rest, (-1, ""))
            if index < 0:
                state[id] = False
                stack.pop()
            elif state.get(target):
                found.add(index)
            elif target not in state:
                stack.append((target, iter(leaving[target])))
    return found


def _ranks(boxes: Sequence[Box], ends: set[tuple[str, str]]) -> dict[str, int]:
    """The row of each box: below all boxes that lead to it, in the first row with room."""
    before: defaultdict[str, set[str]] = defaultdict(set)
    for upper, lower in ends:
        before[lower].add(upper)
    linked = {id for pair in ends for id in pair}
    ranks: dict[str, int] = {}
    filled: defaultdict[int, float] = defaultdict(float)
    most = BREADTH * max(1.0, sqrt(len(boxes) / FEW))
    waiting = [box for box in boxes if box.id in linked]
    while waiting:
        ready = [box for box in waiting if before[box.id] <= ranks.keys()]
        for box in _by_turns(ready, before):
            rank = max((ranks[id] + 1 for id in before[box.id]), default=0)
            _seat(box, rank, ranks, filled, most)
        waiting = [box for box in waiting if box.id not in ranks]
    # Boxes without a link stand below all others.
    last = max(ranks.values(), default=-1) + 1
    for box in boxes:
        if box.id not in ranks:
            _seat(box, last, ranks, filled, most)
    return ranks


def _by_turns(boxes: Sequence[Box], before: Mapping[str, set[str]]) -> list[Box]:
    """The first box below each other box, then the second, so that every box has some of its own in the next row."""
    nth = Counter[str]()
    turns = {}
    for box in boxes:
        upper = min(before[box.id], default="")
        turns[box.id] = nth[upper]
        nth[upper] += 1
    return sorted(boxes, key=lambda box: turns[box.id])


def _seat(box: Box, rank: int, ranks: dict[str, int], filled: defaultdict[int, float], most: float) -> None:
    breadth = box.width + box.reach + 2 * APART
    while filled[rank] and filled[rank] + breadth > most:
        rank += 1
    ranks[box.id] = rank
    filled[rank] += breadth


def _cut(layers: Layers, links: Mapping[int, Link], ends: Mapping[int, tuple[str, str]]) -> None:
    """Cut each link into segments; its label goes to the row between boxes that has most room."""
    taken: defaultdict[int, float] = defaultdict(float)
    span = {index: (layers.boxes[upper].rank, layers.boxes[lower].rank) for index, (upper, lower) in ends.items()}
    for index in sorted(span, key=lambda index: span[index][1] - span[index][0]):
        link, (first, last) = links[index], span[index]
        upper, lower = (layers.boxes[id] for id in ends[index])
        chosen = min(range(first + 1, last, 2), key=lambda rank: (taken[rank], -rank))
        taken[chosen] += link.width + 2 * LANE
        passing = [
            Node(rank, link.width + 2 * LANE, link.height, LANE / 2, True)
            if rank == chosen and link.width
            else Node(rank, LANE, 0.0, LANE / 2)
            for rank in range(first + 1, last)
        ]
        for node in passing:
            layers.rows[node.rank].append(node)
        chain = [Segment(*pair) for pair in pairwise([upper, *passing, lower])]
        for segment in chain:
            segment.upper.below.append(segment)
            segment.lower.above.append(segment)
        layers.chains[index] = chain


Family = tuple[tuple[int, int], ...]
"""The path to a box from above: for each box on it, its column among those below the same box, and its row."""


def _families(boxes: Sequence[Box], ends: set[tuple[str, str]], ranks: Mapping[str, int]) -> dict[str, Family]:
    uppers: defaultdict[str, list[str]] = defaultdict(list)
    for upper, lower in sorted(ends):
        uppers[lower].append(upper)
    found: dict[str, Family] = {}
    columns = Counter[tuple[str, int]]()
    place = {box.id: index for index, box in enumerate(boxes)}
    for id in sorted(ranks, key=lambda id: (ranks[id], place[id])):
        parent = max(uppers[id], key=lambda upper: (ranks[upper], -place[upper]), default="")
        found[id] = (*found.get(parent, ()), (columns[parent, ranks[id]], ranks[id]))
        columns[parent, ranks[id]] += 1
    return found


def _range(layers: Layers, families: Mapping[str, Family], ends: Mapping[int, tuple[str, str]]) -> None:
    """Put the lines to lower rows beside the boxes of the same column."""
    keys = {id(node): families[name] for name, node in layers.boxes.items()}
    for index, chain in layers.chains.items():
        keys |= {id(segment.lower): families[ends[index][1]] for segment in chain[:-1]}
    for row in layers.rows:
        row.sort(key=lambda node: keys[id(node)])


def _order(rows: list[list[Node]]) -> None:
    """Sort each row by the places of its neighbours, downwards and upwards by turns, and keep the best order."""
    best, fewest = [list(row) for row in rows], _crossings(rows)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        pairs = list(pairwise(rows)) if down else [(lower, upper) for upper, lower in reversed(list(pairwise(rows)))]
        for fixed, free in pairs:
            _sort(fixed, free, down)
        if (found := _crossings(rows)) < fewest:
            best, fewest = [list(row) for row in rows], found
    rows[:] = best


def _sort(fixed: Sequence[Node], free: list[Node], down: bool) -> None:
    at = {id(node): index for index, node in enumerate(fixed)}
    wanted = {}
    for index, node in enumerate(free):
        near = [at[id(each.upper)] for each in node.above] if down else [at[id(each.lower)] for each in node.below]
        wanted[id(node)] = sum(near) / len(near) if near else index * len(fixed) / len(free)
    free.sort(key=lambda node: wanted[id(node)])


def _crossings(rows: Sequence[Sequence[Node]]) -> int:
    return sum(_between(upper, lower) for upper, lower in pairwise(rows))


def _between(upper: Sequence[Node], lower: Sequence[Node]) -> int:
    at = {id(node): index for index, node in enumerate(lower)}
    seen: list[int] = []
    count = 0
    for node in upper:
        ends = sorted(at[id(segment.lower)] for segment in node.below)
        count += sum(len(seen) - bisect_right(seen, end) for end in ends)
        for end in ends:
            insort(seen, end)
    return count

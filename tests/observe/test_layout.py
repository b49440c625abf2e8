"""The layered layout of a graph: nothing lies upon anything else, and arrows lead from box to box."""

from collections.abc import Iterator
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changeover.observe.drawing.layers import BREADTH, FEW, Box, Link, layered
from changeover.observe.drawing.layout import Layout, Point, Rect, apart, laid_out

Pairs = list[tuple[str, str]]


def graph(pairs: Pairs, alone: str = "") -> tuple[list[Box], list[Link]]:
    names = dict.fromkeys([*(name for pair in pairs for name in pair), *alone])
    return [Box(name, 150, 50) for name in names], [Link(*pair, 110, 28) for pair in pairs]


def drawn(pairs: Pairs, alone: str = "") -> Layout:
    return laid_out(*graph(pairs, alone))


def overlap(one: Rect, other: Rect) -> bool:
    apart = one.x + one.width <= other.x or other.x + other.width <= one.x
    return not (apart or one.y + one.height <= other.y or other.y + other.height <= one.y)


def lines(layout: Layout) -> Iterator[Rect]:
    """The straight parts of all routes, as rectangles without area."""
    for route in layout.routes:
        for (x, y), (to_x, to_y) in pairwise(route.points):
            yield Rect(min(x, to_x), min(y, to_y), abs(to_x - x), abs(to_y - y))


def on_edge(point: Point, box: Rect) -> bool:
    x, y = point
    inside = box.x <= x <= box.x + box.width and box.y <= y <= box.y + box.height
    return inside and (x in (box.x, box.x + box.width) or y in (box.y, box.y + box.height))


HUB: Pairs = [("a", chr(ord("a") + number)) for number in range(1, 26)]
TREE: Pairs = [(chr(97 + upper), chr(98 + 3 * upper + number)) for upper in range(9) for number in range(3)]
CHAIN: Pairs = list(pairwise("abcdefgh"))
EACH: Pairs = [(one, other) for one in "abcde" for other in "abcde" if one != other]
DESK: Pairs = [*zip("aaabbccdb", "bcdcefegg", strict=True), ("g", "a"), ("e", "e")]

names = st.sampled_from("abcdefghij")
graphs = st.lists(st.tuples(names, names), max_size=25, unique=True)


def assert_readable(pairs: Pairs, alone: str = "") -> None:
    layout = drawn(pairs, alone)
    labels = [route.label for route in layout.routes]
    solid = [*layout.boxes.values(), *labels]
    assert not [(one, other) for one, other in combinations(solid, 2) if overlap(one, other)]
    assert not [(line, each) for line in lines(layout) for each in solid if overlap(line, each)]
    for (source, target), route in zip(pairs, layout.routes, strict=True):
        assert on_edge(route.points[0], layout.boxes[source])
        assert on_edge(route.points[-1], layout.boxes[target])
        assert all(x == to_x or y == to_y for (x, y), (to_x, to_y) in pairwise(route.points))
        assert (route.label.width, route.label.height) == (110, 28)
    for each in (*solid, *lines(layout)):
        assert each.x >= 0
        assert each.y >= 0
        assert each.x + each.width <= layout.width
        assert each.y + each.height <= layout.height


@pytest.mark.parametrize("pairs", [HUB, CHAIN, EACH, DESK, []], ids=["hub", "chain", "each", "desk", "none"])
def test_no_box_label_or_line_lies_upon_another_box_or_label(pairs: Pairs):
    assert_readable(pairs, "xyz")


@settings(max_examples=40)
@given(graphs)
def test_no_graph_makes_anything_lie_upon_a_box_or_a_label(pairs: Pairs):
    assert_readable(pairs, "z")


@settings(max_examples=10)
@given(graphs)
def test_the_same_graph_is_always_drawn_the_same(pairs: Pairs):
    assert drawn(pairs) == drawn(pairs)


def test_a_receiver_is_below_its_sender_and_a_way_back_leads_up():
    layout = drawn([("a", "b"), ("b", "c"), ("c", "a")])
    tops = [layout.boxes[name].y for name in "abc"]
    assert tops == sorted(tops)
    back = layout.routes[2].points
    assert back[0][1] == layout.boxes["c"].y
    assert back[-1][1] == layout.boxes["a"].y + layout.boxes["a"].height


def test_the_first_box_is_on_top_also_if_others_lead_to_it():
    layout = drawn([("a", "b"), ("c", "a"), ("c", "d")])
    assert layout.boxes["a"].y == min(box.y for box in layout.boxes.values())


def test_a_row_with_too_many_boxes_goes_on_in_the_next_row():
    layout = drawn(HUB)
    rows: dict[float, float] = {}
    for box in layout.boxes.values():
        rows[box.y] = rows.get(box.y, 0.0) + box.width
    assert len(rows) == 5
    assert max(rows.values()) <= BREADTH * (26 / FEW) ** 0.5


@pytest.mark.parametrize(("pairs", "widest", "longest"), [(HUB, 2200, 800), (TREE, 2300, 250)], ids=["hub", "tree"])
def test_a_wide_team_has_its_boxes_below_those_that_lead_to_them(pairs: Pairs, widest: float, longest: float):
    layout = drawn(pairs)
    assert layout.width <= widest
    assert sum(each.width + each.height for each in lines(layout)) / len(pairs) <= longest


def test_a_box_without_arrows_stands_below_the_others():
    layout = drawn(CHAIN, "x")
    assert layout.boxes["x"].y > max(layout.boxes[name].y for name in "abcdefgh")


def test_boxes_are_ordered_so_that_few_arrows_cross():
    # Drawn in the order of the links, all three arrows would cross.
    pairs = [("s", "a"), ("s", "b"), ("s", "c"), ("c", "x"), ("b", "y"), ("a", "z")]
    layout = drawn(pairs)
    upper = sorted("abc", key=lambda name: layout.boxes[name].x)
    lower = sorted("xyz", key=lambda name: layout.boxes[name].x)
    assert [dict(pairs)[name] for name in upper] == lower


def test_a_box_with_many_arrows_is_wide_enough_for_all_of_them():
    layout = drawn(HUB)
    starts = sorted(route.points[0][0] for route in layout.routes)
    assert layout.boxes["a"].width > 150
    assert min(after - before for before, after in pairwise(starts)) >= 10


def test_every_row_of_boxes_is_followed_by_a_row_of_labels():
    layers = layered(*graph(DESK))
    for number, row in enumerate(layers.rows):
        assert all((node.line is None) == (number % 2 == 0) or not node.label for node in row)
    assert sum(node.label for row in layers.rows for node in row) == len([pair for pair in DESK if pair[0] != pair[1]])


def test_a_link_runs_straight_where_two_boxes_lie_side_by_side():
    boxes, links = graph([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
    layout = laid_out([Box(box.id, 62, 184) for box in boxes], [Link(link.source, link.target) for link in links])
    assert [len(route.points) for route in layout.routes] == [2, 2, 2, 2]


def test_things_that_would_overlap_move_apart_around_their_goals():
    assert apart([(0.0, 1.0, 10.0), (0.0, 1.0, 10.0), (50.0, 1.0, 10.0)]) == [-5.0, 5.0, 50.0]

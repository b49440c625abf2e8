"""The map of a conversation: what stands in one column, and that nothing hides anything."""

from itertools import combinations, pairwise

import pytest

from changeover.observe.drawing.course import course_of
from changeover.observe.drawing.course_map import COLUMNS, NAME, CourseMap, course_map
from changeover.observe.drawing.layout import Point, Rect
from changeover.protocol import HandoffRecord, Mode, State
from tests.observe.test_team_map import overlap

AGENTS = ["triage", "billing", "research", "an-agent-with-a-very-long-name-that-fits-nowhere", "legal", "archive"]
REASON = "The customer was charged twice and would like to have the money back as soon as possible."


def offer(id: str, sender: str, receiver: str, mode: Mode = Mode.TRANSFER, error: str = "") -> HandoffRecord:
    state = State.REJECTED if error else State.COMPLETE
    task, variables = "" if error else "t", {"order": id, "amount": 24.95}
    return HandoffRecord(id, sender, receiver, REASON, mode, state, 1.0, "tool", variables, "full", "r", task, error)


def mapped(*handoffs: HandoffRecord) -> CourseMap:
    return course_map(course_of("c", "triage", handoffs))


def columns(drawn: CourseMap) -> list[tuple[str, int]]:
    return [(stop.agent, stop.column) for stop in drawn.stops]


def test_each_transfer_begins_a_column():
    drawn = mapped(offer("c:3.0", "triage", "billing"), offer("c:6.0", "billing", "triage"))
    assert columns(drawn) == [("triage", 0), ("billing", 1), ("triage", 2)]


def test_an_offer_that_was_declined_shares_its_column_with_the_next_one():
    drawn = mapped(offer("c:3.0", "triage", "billing", error="no time"), offer("c:4.0", "triage", "legal"))
    assert columns(drawn) == [("triage", 0), ("billing", 1), ("legal", 1)]
    assert [stop.ghost for stop in drawn.stops] == [False, True, False]


def test_delegates_of_one_turn_share_a_column_and_their_sender_goes_on_behind_them():
    asked = [offer(f"c:3.{index}", "triage", id, Mode.DELEGATE) for index, id in enumerate(["legal", "archive"])]
    drawn = mapped(*asked, offer("c/3.0:3.0", "legal", "billing"))
    assert columns(drawn) == [("triage", 0), ("legal", 1), ("billing", 2), ("archive", 1), ("triage", 3)]
    assert [(arrow.hop.source.agent, arrow.hop.target.agent) for arrow in drawn.arrows if arrow.hop.step is None] == [
        *(("billing", "triage"), ("archive", "triage"))
    ]


def test_a_sender_that_got_the_work_by_another_message_is_named_too():
    drawn = mapped(offer("c:3.0", "triage", "billing"), offer("c:9.0", "legal", "archive"))
    assert columns(drawn) == [("triage", 0), ("billing", 1), ("legal", 2), ("archive", 3)]
    assert drawn.stops[2].above == ("then legal",)


def test_a_long_name_has_two_lines_in_its_box():
    drawn = mapped(offer("c:3.0", "triage", "a-specialist-with-a-long-name"), offer("c:4.0", "triage", "x" * 60))
    found = [stop.names for stop in drawn.stops]
    assert found[:2] == [["triage"], ["a-specialist-", "with-a-long-name"]]
    assert max(len(line) for names in found for line in names) <= NAME


@pytest.fixture
def sixty() -> CourseMap:
    """Sixty hops with offers that are declined, and delegates that hand on."""
    handoffs, current = [], "triage"
    for number in range(60):
        receiver = AGENTS[(AGENTS.index(current) + 1 + number % 4) % len(AGENTS)]
        if number % 9 == 4:
            handoffs += [offer(f"c:{number}.{each}", current, AGENTS[each], Mode.DELEGATE) for each in range(3)]
            handoffs += [offer(f"c/{number}.1:{each}.0", AGENTS[each], AGENTS[each + 1]) for each in range(1, 5)]
            continue
        if number % 9 == 7:
            handoffs.append(offer(f"c:{number}.0", current, "legal", error="It has no time before tomorrow morning."))
        handoffs.append(offer(f"c:{number}.1", current, receiver))
        current = receiver
    return mapped(*handoffs)


def test_sixty_hops_wrap_into_rows_of_a_readable_width(sixty: CourseMap):
    assert len(sixty.stops) > 60
    assert {stop.box.x for stop in sixty.stops} == {sixty.stops[0].box.x + index * 412 for index in range(COLUMNS)}
    assert sixty.width < 1800


def test_no_label_and_no_line_crosses_a_box_or_another_label(sixty: CourseMap):
    boxes = [stop.box for stop in sixty.stops]
    labels = [stop.words for stop in sixty.stops if stop.above]
    assert not [pair for pair in combinations(boxes + labels, 2) if overlap(*pair)]
    lines = [_thin(*ends) for arrow in sixty.arrows for ends in pairwise(arrow.points)]
    assert not [(line, box) for line in lines for box in boxes if overlap(line, box)]
    upright = [line for line in lines if line.width < line.height]
    assert not [(line, label) for line in upright for label in labels if overlap(line, label)]
    inside = Rect(0, 0, sixty.width, sixty.height)
    assert all(line.y + line.height <= inside.height and line.x + line.width <= inside.width for line in lines)


def _thin(start: Point, end: Point) -> Rect:
    (x, y), (to_x, to_y) = start, end
    return Rect(min(x, to_x), min(y, to_y), max(abs(to_x - x), 0.01), max(abs(to_y - y), 0.01))

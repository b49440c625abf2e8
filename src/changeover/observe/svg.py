"""Drawings in SVG: boxes with arrows for a team, lifelines with arrows for a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from math import dist
from typing import Literal

from msgspec import Struct

from changeover.observe.diagram import (
    Course,
    Place,
    Plan,
    Step,
    course_mermaid,
    course_text,
    team_mermaid,
    team_text,
)
from changeover.observe.layout import Point
from changeover.observe.team_map import LETTER, LINE, PAD, PlacedArrow, PlacedMember, team_map

ROUND = 6.0
"""The radius of the corners of lines."""
WIDE = 64
"""How many letters of a text are shown."""

STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1f2937}.b{font-weight:bold}.d{fill:#6b7280}"
    ".t{font-size:11px}.a{fill:#1d4ed8}.u{stroke-dasharray:4 3}"
    ".c{fill:#f9fafb;stroke:#9ca3af}.s{stroke:#047857;stroke-width:2}"
    ".e{fill:none;stroke:#2563eb;stroke-width:1.3;marker-end:url(#p)}.r{stroke-dasharray:5 3}"
    ".l{stroke:#d1d5db}.h{fill:#fef3c7}.x{stroke:#b91c1c;marker-end:url(#x)}.n{fill:#b91c1c}"
    ".k{fill:none;stroke:#b91c1c;stroke-dasharray:2 3}"
)
HEAD = '<defs><marker id="p" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
TIP = '<path d="M0 0L8 4L0 8z" fill="#2563eb"/></marker>'
CROSS = (
    '<marker id="x" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8">'
    '<path d="M1 1L7 7M7 1L1 7" stroke="#b91c1c" stroke-width="1.5"/></marker></defs>'
)


Format = Literal["text", "mermaid", "svg"]


def drawn(what: Plan | Course, format: Format) -> str:
    """A team or a conversation in a format."""
    if isinstance(what, Course):
        return {"text": course_text, "mermaid": course_mermaid, "svg": course_svg}[format](what)
    return {"text": team_text, "mermaid": team_mermaid, "svg": team_svg}[format](what)


class Arrow(Struct, frozen=True):
    """One arrow of a conversation."""

    sender: str
    receiver: str
    label: str
    step: Step
    back: bool = False
    """It is a delegate that comes back."""

    @property
    def styles(self) -> tuple[str, str]:
        """Of its line, and of its text."""
        if self.back:
            return "e r", "d"
        return ("e x", "n") if self.step.declined else ("e", "")


def team_svg(plan: Plan) -> str:
    """A team: a box for each member, and a labelled arrow for each way to another; those of delegates are dashed."""
    drawing = team_map(plan)
    parts = [part for member in drawing.members for part in _card(member)]
    parts += [part for arrow in drawing.arrows for part in _connection(arrow)]
    return _page(drawing.width, drawing.height, parts)


def course_svg(course: Course) -> str:
    """A conversation: time runs down, each agent has a line, each handoff is an arrow with its reason; one that was
    declined ends in a cross, and is joined with the next try by dots."""
    agents = course.agents
    apart = max(200.0, LETTER * max(map(len, agents)) + 40)
    places = {id: 60 + apart * index for index, id in enumerate(agents)}
    arrows = list(_arrows(course.steps))
    heights = [84 + 46.0 * index for index in range(len(arrows))]
    bottom = 70 + 46.0 * len(arrows)
    parts = [f'<line class="l" x1="{x}" y1="40" x2="{x}" y2="{bottom}"/>' for x in places.values()]
    parts += [_text(x, 26, id, "b", "middle") for id, x in places.items()]
    longest = 0.0
    for arrow, y in zip(arrows, heights, strict=True):
        start, end, (line, letters) = places[arrow.sender], places[arrow.receiver], arrow.styles
        parts += [_arrow(start, end, y, line), _text(min(start, end) + 8, y - 8, arrow.label, letters)]
        longest = max(longest, min(start, end) + 8 + LETTER * min(len(arrow.label), WIDE))
    parts += _links(arrows, heights, places)
    return _page(max(60 + apart * len(agents), longest + PAD), bottom + PAD, parts)


def _card(member: PlacedMember) -> Iterator[str]:
    place, box = member.place, member.box
    looks = "c" + " s" * place.start + " h" * place.person + " u" * (not member.reachable)
    corner = box.height / 2 if place.person else 6
    size = f'x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}"'
    yield f'<rect class="{looks}" {size} rx="{corner:g}"/>'
    yield f"<g>{_tooltip(place)}"
    left = box.x + (box.height / 3 if place.person else PAD)
    for index, line in enumerate(member.lines):
        yield _text(left, box.y + LINE * (index + 1), line, "d" if index else "b")
    yield "</g>"


def _tooltip(place: Place) -> str:
    rows = [place.title, *place.tools, *(f"{', '.join(way.receivers)}: {way.label}" for way in place.ways)]
    return f"<title>{escape(chr(10).join(rows))}</title>"


def _connection(arrow: PlacedArrow) -> Iterator[str]:
    """Its line with rounded corners, and its label."""
    whole = escape("\n".join(f"{arrow.sender} to {arrow.receiver}: {way.label}" for way in arrow.ways))
    yield f'<path class="e{" r" if arrow.delegate else ""}" d="{_rounded(arrow.points)}"/>'
    yield f"<g><title>{whole}</title>"
    for index, line in enumerate(arrow.lines):
        yield _text(arrow.label.x, arrow.label.y + LINE * index + 13, line, "t" if index else "t a")
    yield "</g>"


def _rounded(points: Sequence[Point]) -> str:
    """A path through the points, with corners as round as the lines beside them are long."""
    parts = ["M{:g} {:g}".format(*points[0])]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        turn = min(ROUND, dist(before, corner) / 2, dist(corner, after) / 2)
        leave, arrive = (_towards(corner, end, turn) for end in (before, after))
        parts.append("L{:g} {:g}Q{:g} {:g} {:g} {:g}".format(*leave, *corner, *arrive))
    return "".join(parts) + "L{:g} {:g}".format(*points[-1])


def _towards(start: Point, end: Point, length: float) -> Point:
    share = length / (dist(start, end) or 1)
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def _arrows(steps: Iterable[Step]) -> Iterator[Arrow]:
    """There, and of a delegate back again."""
    for step in steps:
        label = f"{step.label} [{step.state}]" if step.declined else step.label
        yield Arrow(step.sender, step.receiver, label, step)
        if step.delegate and not step.declined:
            yield from _arrows(step.inner)
            yield Arrow(step.receiver, step.sender, step.state, step, back=True)


def _links(arrows: Sequence[Arrow], heights: Sequence[float], places: dict[str, float]) -> Iterator[str]:
    """Dots beside the sender's line, from what was declined down to the next try."""
    there = [(arrow.step, y) for arrow, y in zip(arrows, heights, strict=True) if not arrow.back]
    at = {step.id: y for step, y in there}
    for step, y in there:
        if (before := at.get(step.retry_of)) is not None:
            x = places[step.sender]
            yield f'<path class="k" d="M{x:g} {before:g}h-10V{y:g}h10"/>'


def _arrow(start: float, end: float, y: float, style: str) -> str:
    if start == end:
        return f'<path class="{style}" d="M{start:g} {y:g}h40v14h-40"/>'
    return f'<path class="{style}" d="M{start:g} {y:g}H{end:g}"/>'


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    # The full text is shown as a tooltip.
    short, whole = _short(text), f"<title>{escape(text)}</title>" if len(text) > WIDE else ""
    return f'<text class="{style}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{whole}{escape(short)}</text>'


def _short(text: str) -> str:
    return text if len(text) <= WIDE else f"{text[: WIDE - 1]}…"


def _page(width: float, height: float, parts: Iterable[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f'<style>{STYLE}</style>{HEAD}{TIP}{CROSS}<rect width="100%" height="100%" fill="white"/>',
            *parts,
            "</svg>",
        ]
    )

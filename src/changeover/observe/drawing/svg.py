"""Drawings in SVG: boxes with arrows, for a team and for a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from math import dist
from typing import Literal

from changeover.observe.drawing.course import Course
from changeover.observe.drawing.course_map import LINE as ROW
from changeover.observe.drawing.course_map import PlacedHop, Stop, course_map
from changeover.observe.drawing.diagram import (
    Place,
    Plan,
    course_mermaid,
    course_text,
    team_mermaid,
    team_text,
)
from changeover.observe.drawing.layout import Point
from changeover.observe.drawing.team_map import LINE, PAD, PlacedArrow, PlacedMember, team_map

ROUND = 6.0
"""The radius of the corners of lines."""
WIDE = 64
"""Largest number of letters of a text that are shown."""

STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1f2937;white-space:pre}"
    ".b{font-weight:bold}.d{fill:#6b7280}.t{font-size:11px}.a{fill:#1d4ed8}.u{stroke-dasharray:4 3}"
    ".c{fill:#f9fafb;stroke:#9ca3af}.s{stroke:#047857;stroke-width:2}"
    ".e{fill:none;stroke:#2563eb;stroke-width:1.3;marker-end:url(#p)}.r{stroke-dasharray:5 3}"
    ".g{stroke:#9ca3af;marker-end:url(#g)}.h{fill:#fef3c7}.x{stroke:#b91c1c;marker-end:url(#x)}.t.n{fill:#b91c1c}"
)
TIPS = "".join(
    f'<marker id="{id}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    f'<path d="M0 0L8 4L0 8z" fill="{color}"/></marker>'
    for id, color in (("p", "#2563eb"), ("g", "#9ca3af"))
)
CROSS = (
    '<marker id="x" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8">'
    '<path d="M1 1L7 7M7 1L1 7" stroke="#b91c1c" stroke-width="1.5"/></marker>'
)


Format = Literal["text", "mermaid", "svg"]


def drawn(what: Plan | Course, format: Format) -> str:
    """A team or a conversation in a format."""
    if isinstance(what, Course):
        return {"text": course_text, "mermaid": course_mermaid, "svg": course_svg}[format](what)
    return {"text": team_text, "mermaid": team_mermaid, "svg": team_svg}[format](what)


def team_svg(plan: Plan) -> str:
    """A team: a box for each member, and a labelled arrow for each way to another; those of delegates are dashed. Rules
    stand below."""
    drawing = team_map(plan)
    parts = [part for member in drawing.members for part in _card(member)]
    parts += [part for arrow in drawing.arrows for part in _connection(arrow)]
    first = drawing.height - LINE * len(drawing.rules) - PAD
    parts += [_text(PAD, first + LINE * (index + 1), line, "t") for index, line in enumerate(drawing.rules)]
    return _page(drawing.width, drawing.height, parts)


def course_svg(course: Course) -> str:
    """A conversation: time runs to the right and wraps into rows. There is a box each time an agent has the work, and
    an arrow with its reason, variables and artifacts for each handoff. One that came to nothing is dashed."""
    drawing = course_map(course)
    parts = [part for arrow in drawing.arrows for part in _handoff(arrow)]
    parts += [part for stop in drawing.stops for part in _stop(stop)]
    return _page(drawing.width, drawing.height, parts)


def _handoff(arrow: PlacedHop) -> Iterator[str]:
    step = arrow.hop.step
    looks = "e g" if step is None else "e x r" if step.broken else "e"
    yield f'<path class="{looks}" d="{_rounded(arrow.points)}"/>'


def _stop(stop: Stop) -> Iterator[str]:
    """Its box, and the label of the arrow that leads to it."""
    box, step = stop.box, stop.step
    size = f'x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}"'
    yield f'<rect class="c{" u" if stop.ghost else ""}" {size} rx="6"/>'
    yield f"<g><title>{escape(stop.agent)}</title>"
    for index, name in enumerate(stop.names):
        yield _text(box.x + PAD, stop.y + 5 - ROW * (len(stop.names) - 1) / 2 + ROW * index, name, "b")
    yield "</g>"
    broken = step is not None and step.broken
    yield f"<g>{f'<title>{escape(step.whole)}</title>' if step else ''}"
    for index, line in enumerate(stop.above):
        y = stop.y - ROW * (len(stop.above) - index) + 8
        yield _text(stop.words.x, y, line, "t" if index else "t n" if broken else "t a" if step else "t d")
    for index, line in enumerate(stop.below):
        yield _text(stop.words.x, stop.y + ROW * (index + 1), line, "t d")
    yield "</g>"


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
            f'<style>{STYLE}</style><defs>{TIPS}{CROSS}</defs><rect width="100%" height="100%" fill="white"/>',
            *parts,
            "</svg>",
        ]
    )

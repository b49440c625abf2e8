"""Drawings in SVG: cards with lines for a team, lifelines with arrows for a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from msgspec import Struct

from changeover.observe.diagram import Course, Place, Plan, Step, Way

LETTER, LINE, PAD, GAP = 7.3, 20, 12, 28
"""How wide a letter is, how high a line, how much is free within a card and between two, in pixels."""
LANE = 14
"""How far lines are apart that run beside one another."""
WIDE = 64
"""How many letters of a text are shown."""

STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1f2937}.b{font-weight:bold}.d{fill:#6b7280}"
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
    """A team: each card lists what its agent can do, and a line leads from each way to its receivers."""
    width = PAD * 2 + LETTER * max(len(row) for place in plan for row in (_short(place.title), *_rows(place)))
    tops: dict[str, float] = {}
    bottom = float(PAD)
    for place in plan:
        tops[place.id] = bottom
        bottom += LINE * (1 + len(_rows(place))) + PAD + GAP
    cards = [part for place in plan for part in _card(place, tops[place.id], width)]
    lines = list(_lines(plan, tops, PAD + width))
    return _page(PAD + width + LANE * (len(lines) + 2), bottom, [*cards, *lines])


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


def _rows(place: Place) -> list[str]:
    return [*place.tools, *(_way(way) for way in place.ways)]


def _way(way: Way) -> str:
    return _short(f"{'asks' if way.delegate else 'hands to'} {', '.join(way.receivers) or 'nobody'}: {way.label}")


def _card(place: Place, top: float, width: float) -> Iterator[str]:
    rows = _rows(place)
    height = LINE * (1 + len(rows)) + PAD
    looks = f"c{' s' if place.start else ''}{' h' if place.person else ''}"
    corner = height / 2 if place.person else 6
    yield f'<rect class="{looks}" x="{PAD}" y="{top:g}" width="{width:g}" height="{height}" rx="{corner:g}"/>'
    yield _text(2 * PAD, top + LINE, _short(place.title), "b")
    for index, row in enumerate(rows):
        yield _text(2 * PAD, top + LINE * (index + 2), row, "d" if index < len(place.tools) else "")


def _lines(plan: Plan, tops: dict[str, float], right: float) -> Iterator[str]:
    """Each in a lane of its own, so that no two lie upon one another."""
    lane, arriving = right, dict.fromkeys(tops, 0)
    for place in plan:
        for index, way in enumerate(place.ways):
            y = tops[place.id] + LINE * (len(place.tools) + index + 2) - 4
            for receiver in way.receivers:
                if receiver == place.id and len(way.receivers) > 1:
                    continue
                lane += LANE
                # What arrives at one card does so at different heights, as long as there is room.
                end = tops[receiver] + 6 + 3 * (arriving[receiver] % 7)
                arriving[receiver] += 1
                back = " r" if way.delegate else ""
                yield f'<path class="e{back}" d="M{right:g} {y:g}H{lane:g}V{end:g}H{right:g}"/>'


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

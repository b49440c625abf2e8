"""Drawings in SVG: cards with lines between them for a team, lifelines with arrows for a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from changeover.observe.drawing import Course, Place, Plan, Step, Way

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
    ".l{stroke:#d1d5db}"
)
HEAD = '<defs><marker id="p" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
TIP = '<path d="M0 0L8 4L0 8z" fill="#2563eb"/></marker></defs>'


def team_svg(plan: Plan) -> str:
    """A team: each card lists what its agent can do, and a line leads from each way to its receivers."""
    width = PAD * 2 + LETTER * max(len(row) for place in plan for row in (_title(place), *_rows(place)))
    tops: dict[str, float] = {}
    bottom = float(PAD)
    for place in plan:
        tops[place.id] = bottom
        bottom += LINE * (1 + len(_rows(place))) + PAD + GAP
    cards = [part for place in plan for part in _card(place, tops[place.id], width)]
    lines = list(_lines(plan, tops, PAD + width))
    return _page(PAD + width + LANE * (len(lines) + 2), bottom, [*cards, *lines])


def course_svg(course: Course) -> str:
    """A conversation: time runs down, each agent has a line, each handoff is an arrow with its reason."""
    agents = course.agents
    apart = max(200.0, LETTER * max(map(len, agents)) + 40)
    places = {id: 60 + apart * index for index, id in enumerate(agents)}
    arrows = list(_arrows(course.steps))
    bottom = 70 + 46.0 * len(arrows)
    parts = [f'<line class="l" x1="{x}" y1="40" x2="{x}" y2="{bottom}"/>' for x in places.values()]
    parts += [_text(x, 26, id, "b", "middle") for id, x in places.items()]
    longest = 0.0
    for index, (sender, receiver, label, back) in enumerate(arrows):
        start, end, y = places[sender], places[receiver], 84 + 46.0 * index
        parts += [_arrow(start, end, y, back), _text(min(start, end) + 8, y - 8, label, "d" if back else "")]
        longest = max(longest, min(start, end) + 8 + LETTER * min(len(label), WIDE))
    return _page(max(60 + apart * len(agents), longest + PAD), bottom + PAD, parts)


def _title(place: Place) -> str:
    return _short(f"{place.id}{' (start)' if place.start else ''}{f': {place.about}' if place.about else ''}")


def _rows(place: Place) -> list[str]:
    return [*place.tools, *(_way(way) for way in place.ways)]


def _way(way: Way) -> str:
    return _short(f"{'asks' if way.delegate else 'hands to'} {', '.join(way.receivers)}: {way.label}")


def _card(place: Place, top: float, width: float) -> Iterator[str]:
    rows = _rows(place)
    height = LINE * (1 + len(rows)) + PAD
    start = " s" if place.start else ""
    yield f'<rect class="c{start}" x="{PAD}" y="{top:g}" width="{width:g}" height="{height}" rx="6"/>'
    yield _text(2 * PAD, top + LINE, _title(place), "b")
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


def _arrows(steps: Iterable[Step]) -> Iterator[tuple[str, str, str, bool]]:
    """Sender, receiver, label, and whether it is a delegate coming back."""
    for step in steps:
        yield step.sender, step.receiver, step.label, False
        if step.delegate:
            yield from _arrows(step.inner)
            yield step.receiver, step.sender, step.state, True


def _arrow(start: float, end: float, y: float, back: bool) -> str:
    style = "e r" if back else "e"
    if start == end:
        return f'<path class="{style}" d="M{start:g} {y:g}h40v14h-40"/>'
    return f'<path class="{style}" d="M{start:g} {y:g}H{end:g}"/>'


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    # The whole of it is shown to whoever points at it.
    short, whole = _short(text), f"<title>{escape(text)}</title>" if len(text) > WIDE else ""
    return f'<text class="{style}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{whole}{escape(short)}</text>'


def _short(text: str) -> str:
    return text if len(text) <= WIDE else f"{text[: WIDE - 1]}…"


def _page(width: float, height: float, parts: Iterable[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f'<style>{STYLE}</style>{HEAD}{TIP}<rect width="100%" height="100%" fill="white"/>',
            *parts,
            "</svg>",
        ]
    )

"""Icons: the Lucide icons that the pages use, as one SVG sprite."""

from __future__ import annotations

import re
from functools import cache

from lucide.jinja import lucide

ICONS = (
    "arrow-right",
    "arrow-right-left",
    "arrow-up",
    "ban",
    "book-open",
    "bot",
    "brain",
    "calendar-clock",
    "chart-column",
    "check",
    "chevron-right",
    "circle",
    "circle-check",
    "circle-x",
    "corner-down-right",
    "database",
    "download",
    "file",
    "flask-conical",
    "git-fork",
    "globe",
    "history",
    "hourglass",
    "inbox",
    "keyboard",
    "layers",
    "loader",
    "lock",
    "log-out",
    "maximize",
    "menu",
    "minus",
    "messages-square",
    "moon",
    "panel-right",
    "paperclip",
    "pause",
    "pencil",
    "play",
    "plug",
    "plus",
    "radio",
    "rotate-ccw",
    "search",
    "settings",
    "shield-check",
    "skip-back",
    "skip-forward",
    "sparkles",
    "split",
    "square",
    "square-function",
    "terminal",
    "trash-2",
    "triangle-alert",
    "undo-2",
    "upload",
    "user-round",
    "workflow",
    "wrench",
    "x",
)
"""Every icon that a page names; a test compares them with the pages."""
_OUTER = re.compile(r"^<svg[^>]*>|</svg>$|\n\s*")


@cache
def sprite() -> str:
    """The sprite: a page draws an icon with `<use href="…/icons.svg#name">`."""
    symbols = (f'<symbol id="{name}" viewBox="0 0 24 24">{_OUTER.sub("", lucide(name))}</symbol>' for name in ICONS)
    return f'<svg xmlns="http://www.w3.org/2000/svg">{"".join(symbols)}</svg>'

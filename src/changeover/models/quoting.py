"""What others said, as a model reads it: in blocks that nothing inside can end, and that nobody else can begin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from changeover.messages import Assistant, Note, ToolResult
from changeover.models.quotation import Marks

PLAIN = re.compile(r"[\w.@+-]+")
SAID = "said"


def quoted(marks: Marks, agent: str, leg: Iterable[Assistant | ToolResult]) -> str:
    """One leg of another agent in one block: every line is marked, and what was called and answered has our sign."""
    lines: list[str] = []
    for what, text in (item for turn in leg for item in _items(turn)):
        head = f"{marks.line(what)} " if lines or what != SAID else ""
        lines.append(f"> {head}{_marked(text)}")
    return marks.block(f"quotes {_named(agent)}", "\n".join(lines))


def noted(marks: Marks, note: Note) -> str:
    """What an agent, or Changeover itself, says to the agent that reads on."""
    return marks.block(f"note from {_named(note.author)}", note.text)


def _items(turn: Assistant | ToolResult) -> Iterator[tuple[str, str]]:
    """What happened, and what was said with it."""
    if isinstance(turn, ToolResult):
        yield f"{'answer' if turn.ok else 'failure'} of {_named(turn.name)}", turn.text
        return
    if turn.text:
        yield SAID, turn.text
    for call in turn.calls:
        yield f"called {_named(call.name)}", call.malformed or json.dumps(call.args, ensure_ascii=False)


def _marked(text: str) -> str:
    """The text, marked wherever somebody may take a line to begin; where lines end stays as it is."""
    # The full stop keeps a line apart that is empty and the last.
    return "> ".join(f"{text}.".splitlines(keepends=True))[:-1]


def _named(name: str) -> str:
    """A name as it stands in a line of ours: what could end that line, or what it says, is escaped."""
    return name if PLAIN.fullmatch(name) else repr(name)

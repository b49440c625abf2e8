"""What a strategy picks from a context by name: variables, results of tools, what somebody said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from changeover.messages import Message, ToolResult

KINDS = ("variable", "tool", "author")

ALLOWED = "a selector is 'variable:NAME', 'tool:NAME' or 'author:NAME', and in a name * and ? stand for any characters"

Admits = Callable[[str], bool]


def selector_faults(include: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """What is wrong with the selectors of a strategy."""
    return [*_faults("include", include), *_faults("exclude", exclude)]


def select_messages(messages: Sequence[Message], include: Sequence[str], exclude: Sequence[str]) -> Sequence[Message]:
    """The messages that are shown: the very same sequence, if that is all of them."""
    if not any(_patterns(kind, [*include, *exclude]) for kind in ("author", "tool")):
        return messages
    said_by, came_from = _admits("author", include, exclude), _admits("tool", include, exclude)
    shown = [message for message in messages if said_by(_speaker(message)) and _admitted(message, came_from)]
    return messages if len(shown) == len(messages) else shown


def select_variables(variables: Mapping[str, Any], include: Sequence[str], exclude: Sequence[str]) -> Mapping[str, Any]:
    """The variables that are shown: the very same mapping, if that is all of them."""
    admits = _admits("variable", include, exclude)
    shown = {name: value for name, value in variables.items() if admits(name)}
    return variables if len(shown) == len(variables) else shown


def _speaker(message: Message) -> str:
    # A result is part of the turn of the agent that called for it.
    return message.agent if isinstance(message, ToolResult) else message.author


def _admitted(message: Message, came_from: Admits) -> bool:
    return not isinstance(message, ToolResult) or came_from(message.name)


def _admits(kind: str, include: Sequence[str], exclude: Sequence[str]) -> Admits:
    """Whether a name is shown by what the selectors say of its kind."""
    wanted, unwanted = _patterns(kind, include), _patterns(kind, exclude)
    return cache(lambda name: (not wanted or _fits(name, wanted)) and not _fits(name, unwanted))


def _patterns(kind: str, selectors: Sequence[str]) -> list[str]:
    return [selector[len(kind) + 1 :] for selector in selectors if selector.startswith(f"{kind}:")]


def _fits(name: str, patterns: list[str]) -> bool:
    # A name may hold brackets, and then it is no pattern that fits itself.
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def _faults(which: str, selectors: object) -> list[str]:
    if isinstance(selectors, str) or not isinstance(selectors, Sequence):
        return [f"{which} is {selectors!r:.200}, and not a list of selectors; {ALLOWED}"]
    return [f"{which} has {selector!r:.200}, {fault}" for selector in selectors if (fault := _fault(selector))]


def _fault(selector: object) -> str:
    if not isinstance(selector, str):
        return f"which is no text; {ALLOWED}"
    kind, colon, name = selector.partition(":")
    if kind not in KINDS:
        close = get_close_matches(kind.strip().lower(), KINDS, n=1) if colon else []
        return f"did you mean {f'{close[0]}:{name}'!r}? {ALLOWED}" if close else f"which selects nothing; {ALLOWED}"
    return "" if name.strip() else f"which names nothing; {ALLOWED}"

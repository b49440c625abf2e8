"""How a YAML file says what receivers see: a name, a name with options, or a function by its import path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from changeover.cli.documents.yaml_nodes import Place, Read
from changeover.handoffs.strategies import BUILT_IN, BuiltIn, Full, MessageOnly, Recent, Reference, Strategy, Summary

SELECTORS: dict[str, Read] = {"include": Place.texts, "exclude": Place.texts}
KEPT: dict[str, Read] = {
    **SELECTORS,
    "expires": Place.seconds,
    **dict.fromkeys(("max_bytes", "max_facts"), Place.whole),
}
OPTIONS: dict[type[Any], dict[str, Read]] = {
    Full: SELECTORS,
    MessageOnly: SELECTORS,
    Recent: {**SELECTORS, "messages": Place.whole},
    Summary: {**KEPT, "needs": Place.texts, "max_tokens": Place.whole, "timeout": Place.seconds},
    Reference: KEPT,
}
NAMES = {kind.name: kind for kind in BUILT_IN}


def strategy_at(place: Place, function: Callable[[Place], Any]) -> Strategy:
    """`summary`, `{recent: {messages: 3}}`, or `package.module:function`."""
    if place.is_mapping():
        [(name, inner)] = _only(place).items()
        kind = NAMES[name]
        options = {} if inner.anything() is None else inner.mapping(f"options of {name}", OPTIONS[kind])
        strategy: BuiltIn = kind(**options)
        if faults := strategy.faults():
            raise inner.wrong(faults[0])
        return strategy
    name = place.text()
    if name in NAMES:
        return NAMES[name]()
    if ":" not in name and "." not in name:
        raise place.wrong(f"expected {', '.join(NAMES)}, or a function by its import path, found {name!r}")
    made: Strategy = function(place)
    return made


def _only(place: Place) -> dict[str, Place]:
    found = place.entries("one strategy with its options", dict.fromkeys(NAMES, Place.anything))
    if len(found) != 1:
        raise place.wrong(f"expected one of {', '.join(NAMES)}, found {len(found)}")
    return found

"""Engines by address: `temporal://host:7233/namespace?queue=desk&tls=true&api_key=${KEY}`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from changeover.engines.temporal import Temporal
from changeover.errors import MisconfiguredError
from changeover.relay.ports.engine import EngineFactory

SCHEMES = {"temporal": Temporal}
ELSEWHERE = ("address", "namespace", "agents")
"""Settings that an address names by its host and path, or not at all."""


def engine_at(address: str, **options: Any) -> EngineFactory:
    """The engine at an address; `options` win over those in the address. Raises MisconfiguredError."""
    parts = urlsplit(address)
    kind = SCHEMES.get(parts.scheme)
    if kind is None or not parts.netloc:
        forms = ", ".join(f"{each}://host:port" for each in SCHEMES)
        raise MisconfiguredError(f"{address!r} is not the address of an engine, such as {forms}")
    kinds = {each.name: str(each.type) for each in fields(kind) if each.name not in ELSEWHERE}
    given: dict[str, Any] = {}
    for name, text in parse_qsl(parts.query):
        if name not in kinds:
            raise MisconfiguredError(f"{address!r} has an unknown option {name!r}; there are: {', '.join(kinds)}")
        given[name] = _value(name, text, kinds[name])
    if namespace := unquote(parts.path.strip("/")):
        given["namespace"] = namespace
    return kind(parts.netloc, **{**given, **options})


def _value(name: str, text: str, kind: str) -> Any:
    try:
        if kind == "bool" or name == "tls":
            return {"true": True, "false": False}[text.lower()]
        return float(text) if kind == "float" else int(text) if kind == "int" else text
    except (KeyError, ValueError):
        wanted = {"float": "a number", "int": "a whole number"}.get(kind, "true or false")
        raise MisconfiguredError(f"{name}={text!r} in the address of the engine is not {wanted}") from None

"""Arguments for the offline model's calls: values in the user's words, found by schema type and parameter name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from changeover.routing.words import WORD, stem

EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
TIME = re.compile(r"\b\d{1,2}:\d{2}\b")
QUOTED = re.compile(r"[\"“]([^\"”]+)[\"”]")
PROPER = re.compile(r"(?<=[a-z,:] )[A-Z][\w-]+(?:\s+[A-Z][\w-]+)*")
CURRENCY = r"(?:[€$£]|\b(?:eur|usd|gbp|euros?|dollars?|pounds?)\b)"
AMOUNT = re.compile(rf"{CURRENCY}\s?(\d+(?:[.,]\d+)?)|(\d+(?:[.,]\d+)?)\s?{CURRENCY}|(?<![\w.,])(\d+\.\d\d)\b", re.I)
NUMBER = re.compile(r"(?<![\w.,:#-])-?\d{1,15}(?:\.\d{1,9})?(?![\w:-]|[.,]\d)")
IDENTIFIER = re.compile(r"(?<![\w.,:@/-])#?((?:[A-Za-z]+[-_]?)?\d[\w-]{0,40})(?![\w@:/]|[.,]\d)")


def stems(text: str) -> set[str]:
    """The word stems of a text or of a name: of `orderId` and `order_id` alike, `order` and `id`."""
    return {stem(word) for word in WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())}


THINGS = stems("order invoice payment ticket customer account case booking parcel error version page")
"""Nouns that a number may belong to: the number of an order is not the number of a payment."""
FILLERS = {"number", "no", "nr", "id", "code", "is", "was", "the", "my", "a", "of"}
IDS = stems("id number no nr code ref reference key")
MONEY = stems("amount price total sum cost fee")
TEXTS = stems("query question search topic task reason description problem request message text note summary")
"""Parameters that take the user's whole message."""
SECOND = {"second", "twice", "double", "duplicate", "last", "latest"}
"""Words that select the last of several values; of what was done twice, that one was too many."""
KINDS: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "number": (int, float), "boolean": bool}


class Known(Struct, frozen=True):
    """The sources of values: the user's words, results of tools, and context variables."""

    words: str
    results: str = ""
    variables: Mapping[str, Any] = {}


def fill(parameters: Mapping[str, Any], known: Known) -> tuple[dict[str, Any], list[str]]:
    """The arguments that were found, and the names of the required ones that were not."""
    required = parameters.get("required", ())
    args = {}
    for name, declared in parameters.get("properties", {}).items():
        schema = _resolved(declared, parameters)
        if (value := _value(name, schema, name in required, known)) is not None:
            args[name] = value
    return args, [name for name in required if name not in args]


def _resolved(schema: dict[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """The schema behind a reference, and of a choice the first alternative that is not null."""
    if choices := schema.get("anyOf"):
        schema = next((each for each in choices if each != {"type": "null"}), {})
    found: dict[str, Any] = root.get("$defs", {}).get(str(schema.get("$ref")).rpartition("/")[2], schema)
    return found


def _value(name: str, schema: dict[str, Any], required: bool, known: Known) -> Any:
    # What the user clearly says counts more than a variable, and a variable more than a guess.
    values, given = _found(name, schema, False, known.words), known.variables.get(name)
    if not values and given is not None:
        fits = given in schema["enum"] if "enum" in schema else isinstance(given, KINDS.get(schema["type"], object))
        return given if fits else None
    if required and not values:
        values = _found(name, schema, True, known.words) or _found(name, schema, True, known.results)
    return values[-1 if SECOND & set(WORD.findall(known.words.lower())) else 0] if values else None


def _found(name: str, schema: dict[str, Any], guess: bool, text: str) -> list[Any]:
    """Every value in a text that this parameter may take; a `guess` only if nothing else is known of it."""
    wanted = stems(name)
    if "enum" in schema:
        return [value for value in schema["enum"] if stems(str(value)) and stems(str(value)) <= stems(text)]
    match schema.get("type"):
        case "string":
            return _strings(wanted, guess, text)
        case "number":
            return _numbers(wanted, guess, text)
        case "integer":
            return [int(value) for value in _numbers(wanted, guess, text) if value == int(value)]
        case "boolean" if wanted & stems(text):
            return [not {"no", "not", "without"} & set(text.lower().split())]
        case _:
            return []


def _strings(wanted: set[str], guess: bool, text: str) -> list[str]:
    for pattern, names in ((EMAIL, {"email", "mail"}), (DATE, {"dat", "day"})):
        if wanted & names:
            return pattern.findall(text)
    if wanted & IDS:
        return _identifiers(text, wanted - IDS)
    if not guess:
        found = re.findall(r"\b(\w+)(?:\s+is\s+|\s*[:=]\s*)([\w-]+)", text)
        return [value for label, value in found if stem(label.lower()) in wanted - TEXTS]
    if wanted & TEXTS:
        return [text.strip()] if text.strip() else []
    # A parameter that is named after a thing may take its id: track(order) takes A-1042.
    return QUOTED.findall(text) or PROPER.findall(text) or _identifiers(text, wanted)


def _numbers(wanted: set[str], guess: bool, text: str) -> list[float]:
    if wanted & MONEY and (sums := AMOUNT.findall(_blanked(text, DATE, TIME))):
        return [float("".join(groups).replace(",", ".")) for groups in sums]
    if wanted & IDS:
        return [float(id) for id in _identifiers(text, wanted - IDS) if id.isdecimal()]
    plain = _blanked(text, DATE, TIME, EMAIL)
    found = [(_label(plain[: match.start()]), float(match[0])) for match in NUMBER.finditer(plain)]
    beside = [value for label, value in found if label in wanted]
    return beside or [value for label, value in found if guess and label not in THINGS]


def _identifiers(text: str, wanted: set[str]) -> list[str]:
    """Ids such as A-1042 or #1042: those of a wanted noun, else those that belong to no other noun."""
    sure, loose = [], []
    text = _blanked(text, DATE, TIME, EMAIL, AMOUNT)
    for match in IDENTIFIER.finditer(text):
        label, prefix = _label(text[: match.start()]), match[1].lower().rstrip("-_0123456789")
        if label in wanted or (len(prefix) > 1 and any(noun.startswith(prefix) for noun in wanted)):
            sure.append(match[1])
        elif label not in THINGS and not (len(prefix) > 1 and any(noun.startswith(prefix) for noun in THINGS)):
            loose.append(match[1])
    return list(dict.fromkeys(sure or [id for id in loose if len(id) > 2]))


def _label(before: str) -> str:
    """The noun that a number belongs to: the last word before it that is not a filler such as `number` or `is`."""
    last = [word.lower() for word in WORD.findall(before[-60:])[-4:]]
    return next((stem(word) for word in reversed(last) if word not in FILLERS), "")


def _blanked(text: str, *patterns: re.Pattern[str]) -> str:
    """The text with every match of these patterns replaced by spaces, so that no part of a match is read again."""
    for pattern in patterns:
        text = pattern.sub(lambda found: " " * len(found[0]), text)
    return text

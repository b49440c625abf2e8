"""Arguments for the offline model's calls: values in the user's words, found by schema type and parameter name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from changeover.routing.words import WORD, stem

AMOUNT = r"\d{1,12}(?:[.,]\d{1,9})?"
CURRENCY = r"(?:[€$£]|\b(?:eur|usd|gbp|euros?|dollars?|pounds?)\b)"
VALUE = re.compile(
    r"(?P<email>(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+)|(?P<date>\b\d{4}-\d\d-\d\d\b)|(?P<time>\b\d?\d:\d\d\b)"
    rf"|(?P<money>(?i:{CURRENCY}\s?{AMOUNT}|{AMOUNT}\s?{CURRENCY}))|[\"“](?P<quoted>[^\"“”]+)[\"”]"
    r"|(?<![\w.,:@/-])(?P<number>\d\d?|\d{1,15}\.\d{1,9})(?![\w@:/-]|[.,]\d)"
    r"|(?<![\w.,:@/-])#?(?P<id>(?:[A-Za-z]+[-_]?)?\d[\w-]{0,40})(?![\w@:/]|[.,]\d)"
    r"|(?<=[a-z,:] )(?P<proper>[A-Z][\w-]+(?:\s+[A-Z][\w-]+)*)"
)
"""A value in a text. What one kind of value takes, such as the digits of a date, is not read as another one."""
NUMERAL = re.compile(r"\d{1,15}(?:\.\d+)?")


def stems(text: str) -> set[str]:
    """The word stems of a text or of a name: of `orderId` and `order_id` alike, `order` and `id`."""
    return {stem(word) for word in WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())}


IDS = stems("id number no nr code ref reference key")
NAMES = {"email": stems("email mail"), "date": stems("date day"), "money": stems("amount price total sum cost fee")}
"""Words in the name of a parameter that takes this kind of value."""
GUESSES = {"string": ({"quoted"}, {"proper"}, {"id"}), "number": ({"id", "number"},), "integer": ({"id", "number"},)}
"""The kinds of values that a parameter of this type takes if nothing else is known of it, the likeliest first."""
TEXTS = stems("query question search topic task reason description problem request message text note summary")
"""Parameters that take the user's whole message."""
THINGS = sorted(stems("order invoice payment ticket customer account case booking parcel error version page"))
"""Nouns that a number may belong to: the number of an order is not the number of a payment."""
FILLERS = {"number", "no", "nr", "id", "code", "is", "was", "the", "my", "a", "of"}
SECOND = {"second", "twice", "double", "duplicate", "last", "latest"}
"""Words that select the last of several values; of what was done twice, that one was too many."""
TYPES: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "number": (int, float), "boolean": bool}


class Known(Struct, frozen=True):
    """The sources of values: the user's words, results of tools, and context variables."""

    words: str
    results: str = ""
    variables: Mapping[str, Any] = {}


class Value(Struct, frozen=True):
    """A value in a text, and the noun that it belongs to."""

    kind: str
    text: str
    noun: str


def fill(parameters: Mapping[str, Any], known: Known) -> tuple[dict[str, Any], list[str]]:
    """The arguments that were found, and the names of the required ones that were not."""
    required = parameters.get("required", ())
    args = {}
    for name, declared in parameters.get("properties", {}).items():
        schema = _resolved(declared, parameters)
        if (value := _argument(name, schema, name in required, known)) is not None:
            args[name] = value
    return args, [name for name in required if name not in args]


def _resolved(schema: dict[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """The schema behind a reference, and of a choice the first alternative that is not null."""
    if choices := schema.get("anyOf"):
        schema = next((each for each in choices if each != {"type": "null"}), {})
    found: dict[str, Any] = root.get("$defs", {}).get(str(schema.get("$ref")).rpartition("/")[2], schema)
    return found


def _argument(name: str, schema: dict[str, Any], required: bool, known: Known) -> Any:
    # What the user clearly says counts more than a variable, and a variable more than a guess.
    found, given = _found(name, schema, False, known.words), known.variables.get(name)
    if not found and given is not None:
        fits = given in schema["enum"] if "enum" in schema else isinstance(given, TYPES.get(schema["type"], object))
        return given if fits else None
    if required and not found:
        found = _found(name, schema, True, known.words) or _found(name, schema, True, known.results)
    return found[-1 if SECOND & set(WORD.findall(known.words.lower())) else 0] if found else None


def _found(name: str, schema: dict[str, Any], guess: bool, text: str) -> list[Any]:
    """Every value in a text that this parameter may take; a `guess` only if nothing else is known of it."""
    wanted, type = stems(name), schema.get("type", "")
    if "enum" in schema:
        return [value for value in schema["enum"] if stems(str(value)) and stems(str(value)) <= stems(text)]
    if type == "boolean" and wanted & stems(text):
        return [not {"no", "not", "without"} & set(text.lower().split())]
    if type == "string":
        whole = [text.strip()] if guess and text.strip() else []
        return whole if wanted & TEXTS else _fitting(wanted, list(_values(text)), type, guess)
    numerals = [each for each in _values(text) if NUMERAL.fullmatch(each.text)]
    numbers = [float(each) if "." in each else int(each) for each in _fitting(wanted, numerals, type, guess)]
    return [number for number in numbers if isinstance(number, TYPES[type])]


def _fitting(wanted: set[str], values: list[Value], type: str, guess: bool) -> list[str]:
    """The values for a parameter: of the kind in its name, else beside the noun in its name, else of a likely kind."""
    kind = next((kind for kind, names in NAMES.items() if wanted & names), "")
    named = [each.text for each in values if each.kind == kind]
    if named or kind in ("email", "date"):
        return named
    kinds = ({"id"},) if wanted & IDS else GUESSES.get(type, ()) if guess else ()
    beside = [each.text for each in values if each.noun in wanted - IDS and each.kind not in (*NAMES, "time")]
    loose = ([each.text for each in values if each.kind in some and each.noun not in THINGS] for some in kinds)
    return beside or next(filter(None, loose), [])


def _values(text: str) -> Iterator[Value]:
    """The values in a text. `pay_72` belongs to a payment; others to the last word before them, fillers apart."""
    for match in VALUE.finditer(text):
        kind = match.lastgroup or ""
        value = re.sub(r"[^\d.]", "", match[kind].replace(",", ".")) if kind == "money" else match[kind]
        prefix = value.lower().rstrip("-_0123456789")
        last = WORD.findall(text[max(0, match.start() - 60) : match.start()].lower())[-4:]
        before = [stem(word) for word in reversed(last) if word not in FILLERS]
        meant = [thing for thing in THINGS if len(prefix) > 1 and thing.startswith(prefix)]
        yield Value(kind, value, next(iter(meant + before), ""))

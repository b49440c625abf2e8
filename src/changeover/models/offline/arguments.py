"""Arguments for the offline model's calls: values in the user's words, found by schema type and parameter name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from changeover.routing.words import WORD, stem

EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
URL = re.compile(r"https?://[^\s<>\"”]+[^\s<>\"”.,;:!?)]")
DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?\b")
TIME = re.compile(r"\b\d{1,2}:\d{2}(?::\d{2})?\b")
QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|\u2018([^\u2019]+)\u2019|(?<!\w)'([^']+)'(?!\w)")
CURRENCY = r"(?:[€$£]|\b(?:eur|usd|gbp|euros?|dollars?|pounds?|cents?)\b)"
FIGURE = r"\d{1,12}(?:[.,]\d{1,12}){0,4}"
AMOUNT = re.compile(rf"{CURRENCY}\s?({FIGURE})|({FIGURE})\s?{CURRENCY}|(?<![\w.,])(\d+[.,]\d\d)(?![\w.,]*\d)", re.I)
NUMBER = re.compile(r"(?<![\w.,:#-])(-?\d{1,15}(?:\.\d{1,9})?)(?![\w:-]|[.,]\d)")
IDENTIFIER = re.compile(r"(?<![\w.,:@/-])#?((?:[A-Za-z]+[-_]?)?\d[\w-]{0,40})(?![\w@:/]|[.,]\d)")
PROPER = re.compile(r"(?<=[a-z,:] )[A-Z][\w'\u2019-]+(?:\s+[A-Z][\w'\u2019-]+)*")

_SPELT = "two three four five six seven eight nine ten"
SPELT = {word: value for value, word in enumerate(_SPELT.split(), 2)}
_FILLERS = "number no nr id code ref reference is was the my with a an of has"
FILLERS = frozenset(_FILLERS.split())
_THINGS = "order invoice payment ticket customer account case booking error version page status step"
THINGS = frozenset(map(stem, _THINGS.split()))
"""Nouns that a number may belong to: the number of an order is not the number of a payment."""


def blanked(text: str, *patterns: re.Pattern[str]) -> str:
    """The text with every match of these patterns replaced by spaces, so that no part of a match is read again."""
    for pattern in patterns:
        text = pattern.sub(lambda found: " " * len(found[0]), text)
    return text


def quotations(text: str) -> list[str]:
    """The texts in quotation marks."""
    return [next(filter(None, groups)) for groups in QUOTED.findall(text)]


def amounts(text: str) -> list[float]:
    """Sums of money: figures with a currency, or with two decimals."""
    plain = blanked(text, DATE, TIME)
    return [_figure(next(filter(None, groups))) for groups in AMOUNT.findall(plain)]


def numbers(text: str, names: set[str], only_beside: bool = False) -> list[float]:
    """Numbers that are not part of a date, an id and the like; those beside one of the names come first."""
    plain = blanked(text, DATE, TIME, EMAIL, URL)
    written = [(match, float(match[1])) for match in NUMBER.finditer(plain)]
    spelt = [(match, SPELT[match[0].lower()]) for match in WORD.finditer(plain) if match[0].lower() in SPELT]
    free = [each for each in (*written, *spelt) if _label(plain[: each[0].start()]) not in THINGS - names]
    beside = [value for match, value in free if _beside(plain, match, names)]
    return beside if only_beside else beside + [value for match, value in free if not _beside(plain, match, names)]


def identifiers(text: str, names: set[str]) -> list[str]:
    """Ids such as A-1042 or #1042: those of one of the names, else those without another noun before them."""
    ranked = list(_ranked(blanked(text, DATE, TIME, EMAIL, URL, AMOUNT), names))
    best = max((rank for rank, _ in ranked), default=0)
    return list(dict.fromkeys(id for rank, id in ranked if rank == best > 0))


def named(text: str, names: set[str]) -> list[str]:
    """The words after one of the names: `city: Rome`, `the topic is tea`."""
    found = re.finditer(r"\b(\w+)(?:\s+is\s+|\s*[:=]\s*)([\w'\u2019-]+)", text)
    return [match[2] for match in found if stem(match[1].lower()) in names]


def _ranked(text: str, names: set[str]) -> Iterator[tuple[int, str]]:
    for match in IDENTIFIER.finditer(text):
        label, prefix = _label(text[: match.start()]), match[1].lower().rstrip("-_0123456789")
        if label in names or (len(prefix) > 1 and any(name.startswith(prefix) for name in names)):
            yield 2, match[1]
        elif not names or (label not in THINGS and _looks_like_id(match, prefix)):
            yield 1, match[1]


def _looks_like_id(match: re.Match[str], prefix: str) -> bool:
    """True if it looks like an id even without a noun: not a count, a year, or an id with another noun's prefix."""
    if len(prefix) > 1 and any(thing.startswith(prefix) for thing in THINGS):
        return False
    return match[0].startswith("#") or (len(match[1]) > 2 and not re.fullmatch(r"(?:19|20)\d\d", match[1]))


def _label(before: str) -> str:
    """The noun that an id belongs to: the last word before it that is not a filler such as `number` or `is`."""
    last = [word.lower() for word in WORD.findall(before[-60:])[-4:]]
    return next((stem(word) for word in reversed(last) if word not in FILLERS), "")


def _beside(text: str, match: re.Match[str], names: set[str]) -> bool:
    after = WORD.search(text, match.end())
    return _label(text[: match.start()]) in names or (after is not None and stem(after[0].lower()) in names)


def _figure(text: str) -> float:
    """Parse `1,299.50`, `1.299,50` and `24,95`: the last separator is decimal if at most two digits follow it."""
    cut = max(text.rfind("."), text.rfind(","))
    if cut < 0 or len(text) - cut > 3:
        return float(re.sub(r"[.,]", "", text))
    return float(f"{re.sub(r'[.,]', '', text[:cut])}.{text[cut + 1 :]}")


def _stems(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(stem, names))


LOOKUPS = frozenset({"query", "question", "search", "topic", "q", "term", "terms", "keywords", "subject"})
"""Parameters of tools that only look something up."""
WHOLE = LOOKUPS | {"task", "reason", "description", "details", "problem", "issue", "request", "prompt", "summary"}
"""Parameters that take the user's whole message."""
FREE = WHOLE | {"message", "text", "note", "content", "body", "comment", "title"}
"""Parameters that take the whole message if it contains no quotation."""
WHOLE_NOUNS, FREE_NOUNS = _stems(WHOLE), _stems(FREE)
ID_NOUNS = _stems(("id", "number", "no", "nr", "code", "ref", "reference", "sku", "key"))
MONEY_NOUNS = _stems(("amount", "price", "total", "sum", "cost", "fee", "value", "money"))
NEGATIONS = frozenset({"no", "not", "without", "don", "never"})
PLACES = {stem(name): "from" for name in ("origin", "from")} | {stem(name): "to" for name in ("destination", "to")}
"""The preposition before an origin and before a destination."""
ORDINALS = {"first": 0, "second": 1, "third": 2, "last": -1, "latest": -1, "twice": 1, "double": 1, "duplicate": 1}
"""Words that select one of several values; `twice` selects the second, which was one too many."""
LONGEST = 4_000
"""Characters of a text that are searched for values."""


class Known(Struct, frozen=True):
    """The sources of values: the user's words, results of tools, and context variables."""

    words: str
    results: str = ""
    variables: Mapping[str, Any] = {}


class Wanted(Struct, frozen=True):
    """A parameter to fill: its schema and the nouns of its name. Guesses count only if it is required."""

    schema: dict[str, Any]
    nouns: set[str]
    required: bool
    many: bool
    """True if the parameter takes a list of all values found."""


def fill(parameters: Mapping[str, Any], known: Known) -> tuple[dict[str, Any], list[str]]:
    """The arguments that were found, and the names of the required ones that were not."""
    required = parameters.get("required", ())
    args: dict[str, Any] = {}
    for name, declared in parameters.get("properties", {}).items():
        wanted = _wanted(name, declared, parameters)
        value = _value(name, wanted, known)
        # An optional parameter never takes the whole message, except a reason, which always helps.
        if value is None and (wanted.required or name == "reason") and _is_free(name, wanted):
            value = known.words.strip() or None
        if value is not None:
            args[name] = value
    return args, [name for name in required if name not in args]


def looks_up(parameters: Mapping[str, Any]) -> bool:
    """True if the only thing that a tool requires is a query."""
    required = parameters.get("required", ())
    return bool(required) and LOOKUPS.issuperset(required)


def _wanted(name: str, declared: Any, root: Mapping[str, Any]) -> Wanted:
    schema = _resolved(declared, root)
    many = schema.get("type") == "array"
    return Wanted(
        _resolved(schema.get("items", {}), root) if many else schema,
        _nouns(name),
        name in root.get("required", ()),
        many,
    )


def _resolved(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """The schema behind references, and of a choice the first alternative that is not null."""
    for _ in range(5):  # references may lead in a circle
        if not isinstance(schema, dict):
            return {}
        if "$ref" in schema:
            schema = root.get("$defs", {}).get(str(schema["$ref"]).rpartition("/")[2], {})
        elif choices := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
            schema = next((each for each in choices if each != {"type": "null"}), {})
        elif isinstance(kinds := schema.get("type"), list):
            schema = {**schema, "type": next((kind for kind in kinds if kind != "null"), "null")}
        else:
            return schema
    return {}


def _value(name: str, wanted: Wanted, known: Known) -> Any:
    if "const" in wanted.schema:
        return wanted.schema["const"]
    # What the user clearly says counts more than a variable, and a variable more than a guess.
    values = _found(replace(wanted, required=False), known.words)
    given = known.variables.get(name)
    if not values and given is not None and _fits(given, wanted):
        return given
    values = values or _found(wanted, known.words) or _found(wanted, known.results)
    if not values or wanted.many:
        return values or None
    return values[_which(known.words, len(values))]


def _fits(value: Any, wanted: Wanted) -> bool:
    schema = wanted.schema
    kinds: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
    if wanted.many:
        return isinstance(value, list)
    if "enum" in schema:
        return value in schema["enum"]
    return isinstance(value, kinds.get(schema.get("type", ""), object))


def _which(words: str, count: int) -> int:
    for word in WORD.findall(words.lower()):
        if word in ORDINALS and ORDINALS[word] < count:
            return ORDINALS[word]
    return 0


def _found(wanted: Wanted, text: str) -> list[Any]:
    """Every value in a text that this parameter may take, the likeliest first."""
    schema, text = wanted.schema, text[:LONGEST]
    if "enum" in schema:
        return _choices(schema["enum"], text)
    find = FINDERS.get(schema.get("type", "string"))
    values = find(wanted, text) if find else []
    return [value for value in values if _matches(value, schema.get("pattern"))]


def _matches(value: Any, pattern: str | None) -> bool:
    try:
        return pattern is None or re.search(pattern, str(value)) is not None
    except re.error:  # a pattern in another dialect of regular expressions
        return True


def _nouns(name: str) -> set[str]:
    """The word stems of a parameter's name: of `orderId` and `order_id` alike, `order` and `id`."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return {stem(word) for word in WORD.findall(spaced.lower())}


def _choices(values: list[Any], text: str) -> list[Any]:
    said = [stem(word) for word in WORD.findall(text.lower())]
    spelt = {index: [stem(word) for word in WORD.findall(str(value).lower())] for index, value in enumerate(values)}
    return [values[index] for index, parts in spelt.items() if parts and all(part in said for part in parts)]


def _flags(wanted: Wanted, text: str) -> list[bool]:
    said = [stem(word) for word in WORD.findall(text.lower())]
    place = next((index for index, word in enumerate(said) if word in wanted.nouns), None)
    if place is not None:
        return [not NEGATIONS & set(said[max(0, place - 3) : place])]
    answers = [word == "yes" for word in said[:1] if word in ("yes", "no")]
    return answers if wanted.required else []


def _figures(wanted: Wanted, text: str) -> list[float]:
    money = amounts(text) if wanted.nouns & MONEY_NOUNS else []
    return money or numbers(text, wanted.nouns, only_beside=not wanted.required)


def _integers(wanted: Wanted, text: str) -> list[int]:
    if wanted.nouns & ID_NOUNS:
        return [int(id) for id in identifiers(text, wanted.nouns - ID_NOUNS) if id.isdecimal()]
    return [int(value) for value in _figures(wanted, text) if value == int(value)]


def _strings(wanted: Wanted, text: str) -> list[str]:
    kind, nouns = str(wanted.schema.get("format", "")), wanted.nouns
    for pattern, formats, names in WRITTEN:
        if kind in formats or nouns & names:
            return pattern.findall(text)
    if nouns & ID_NOUNS:
        return identifiers(text, nouns - ID_NOUNS)
    return _texts(wanted, text)


def _texts(wanted: Wanted, text: str) -> list[str]:
    """Plain strings: a quotation, the word after the parameter's name, or a proper name."""
    nouns = wanted.nouns
    if nouns & WHOLE_NOUNS:
        return []
    if place := next((PLACES[noun] for noun in sorted(nouns) if noun in PLACES), None):
        return EMAIL.findall(text) or re.findall(rf"\b{place}\s+([A-Z][\w'\u2019-]+)", text)
    said = quotations(text) if wanted.required else []
    if said := said or named(text, nouns):
        return said
    # A parameter that is named after a thing may take its id: track(order) takes A-1042.
    guessed = wanted.required and not nouns & FREE_NOUNS
    return (PROPER.findall(text) or identifiers(text, nouns)) if guessed else []


def _is_free(name: str, wanted: Wanted) -> bool:
    plain = wanted.schema.get("type", "string") == "string" and "enum" not in wanted.schema
    return plain and not wanted.many and name.lower() in FREE


WRITTEN = (
    (EMAIL, ("email",), _stems(("email", "mail"))),
    (URL, ("uri", "url"), _stems(("url", "link", "website"))),
    (DATE, ("date", "date-time"), _stems(("date", "day", "when", "since", "until"))),
)
"""Strings that a pattern recognises, with the schema formats and the parameter names that ask for them."""
FINDERS: dict[str, Callable[[Wanted, str], list[Any]]] = {
    "string": _strings,
    "integer": _integers,
    "number": _figures,
    "boolean": _flags,
}

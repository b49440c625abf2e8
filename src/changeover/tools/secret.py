"""Secrets by reference: `${NAME}` in a declaration stands for an environment variable of the process that calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to a secret."""
SLOT = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to a secret, or the slot of a parameter: `${NAME}` or `{name}`."""

SECRET_NAMES = re.compile(r"authorization|cookie|passw|secret|token|api[-_]?key|access[-_]?key|private[-_]?key", re.I)
"""Names of headers, variables and parameters whose values are secrets."""
KEY_FORMS = re.compile(
    r"(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?:Bearer|Basic)\s+\S{8,}"
)
"""Texts that are keys of well-known services, or credentials of HTTP."""
ADVICE = "name an environment variable that holds it, such as ${TOKEN}"
LONG = re.compile(r"[A-Za-z0-9_+/=-]{32,}")


def reference_faults(place: str, text: object) -> Iterator[str]:
    """The faults of a value that has to be a secret by reference."""
    if not isinstance(text, str) or not REFERENCE.search(text):
        yield f"has a literal {place}; {ADVICE}"


def literal_faults(place: str, value: Any, named: str = "") -> Iterator[str]:
    """A fault for each literal in a value, however nested, that looks like a key; `named` is the name of the value."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from literal_faults(place, inner, str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from literal_faults(place, inner, named)
    elif isinstance(value, str) and _looks_like_a_key(value, named):
        where = f"{place} {named!r}" if named else place
        yield f"has what looks like a key in its {where}; {ADVICE}"


def url_faults(place: str, url: str) -> Iterator[str]:
    """A fault for each password or key that is written into a URL."""
    try:
        parts = urlsplit(url)
        password, query = parts.password or "", parse_qsl(parts.query)
    except ValueError:  # which is a fault of the URL itself
        return
    if password and not REFERENCE.search(password):
        yield f"has a password in its {place}; {ADVICE}"
    yield from literal_faults(place, dict(query))


def filled(template: Any, resolve: Callable[[str], str], values: Mapping[str, Any]) -> Any:
    """The template with secrets and arguments filled in, in one pass: neither can bring in a further reference.

    A text that is one slot becomes the argument itself, of any type. What depends on an argument that is missing or
    None is left out of mappings and lists, and is None at the top.
    """
    if isinstance(template, Mapping):
        pairs = {name: filled(inner, resolve, values) for name, inner in template.items()}
        return {name: value for name, value in pairs.items() if value is not None or template[name] is None}
    if isinstance(template, list | tuple):
        items = [(inner, filled(inner, resolve, values)) for inner in template]
        return [value for inner, value in items if value is not None or inner is None]
    if not isinstance(template, str):
        return template
    if (whole := SLOT.fullmatch(template)) and whole[2]:
        return values.get(whole[2])
    if any(values.get(found[2]) is None for found in SLOT.finditer(template) if found[2]):
        return None
    return SLOT.sub(lambda found: resolve(found[1]) if found[1] else text_form(values[found[2]]), template)


def slots(template: Any) -> Iterator[str]:
    """The names of the parameters that a template uses."""
    if isinstance(template, Mapping):
        template = list(template.values())
    if isinstance(template, list | tuple):
        for inner in template:
            yield from slots(inner)
    elif isinstance(template, str):
        yield from (found[2] for found in SLOT.finditer(template) if found[2])


def text_form(value: Any) -> str:
    """An argument as it stands inside a longer text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    from msgspec.json import encode

    return encode(value).decode()


def _looks_like_a_key(text: str, named: str) -> bool:
    plain = SLOT.sub("", text)
    if not plain.strip() or (plain != text and not KEY_FORMS.search(plain)):
        return False  # the secret part of it is a reference, or the whole of it comes from the model
    return bool(SECRET_NAMES.search(named) or KEY_FORMS.search(plain) or _is_random(plain))


def _is_random(text: str) -> bool:
    """True if the text is one long word with capitals, small letters and digits mixed, as generated keys are."""
    if not LONG.fullmatch(text):
        return False
    return all(any(test(letter) for letter in text) for test in (str.isupper, str.islower, str.isdigit))

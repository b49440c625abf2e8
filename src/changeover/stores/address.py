"""The URL of a store: its faults, and the form without passwords in which it is shown."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

USER = re.compile(r"^([^:/]*://[^/@:]*):[^/@]*@")
"""User and password as libpq reads them: everything before an @, unless a slash comes first."""
CARELESS = re.compile(r"^([^:/]*://[^/@:]*):.*@")
"""User and a password with characters that should have been encoded."""
PARAMETERS = re.compile(r"\?[^?=&/@]*=")
"""Where the parameters of an address begin."""
SECRET = re.compile("password|secret", re.IGNORECASE)
QUOTED = re.compile('".*"', re.DOTALL)


def without_password(url: str) -> str:
    """The URL without passwords, to show."""
    if url.startswith("sqlite:"):
        return url
    url = USER.sub(r"\1:***@", url)
    begin = PARAMETERS.search(url)
    end = begin.start() if begin else len(url)
    place, parameters = CARELESS.sub(r"\1:***@", url[:end]), url[end + 1 :]
    return f"{place}?{'&'.join(map(_parameter, parameters.split('&')))}" if parameters else place


def _parameter(given: str) -> str:
    name, equals, _ = given.partition("=")
    if not equals:  # the rest of a value that should have been encoded
        return "***"
    return f"{name}=***" if SECRET.search(unquote(name)) else given


def without_quotes(words: str) -> str:
    """What libpq says about an address, without the parts that it quotes, which may be those of a password."""
    return QUOTED.sub('"…"', words.strip())


def url_faults(url: object) -> list[str]:
    """Faults of the URL of a store."""
    if not isinstance(url, str):
        return [f"a store is a URL, not {type(url).__name__}; for a file write sqlite:///file.db"]
    if url.startswith("sqlite:///") and url.removeprefix("sqlite:///").strip("/") not in ("", ":memory:"):
        return []
    try:
        parts = urlsplit(url)
    except ValueError:  # its text may quote a password
        return [f"{_begin(url)} cannot be read as a URL; write it as in postgresql://user@host/database"]
    if parts.scheme in ("postgresql", "postgres") and "://" in url:
        return []
    if parts.scheme == "sqlite":
        return [f"{url!r} names no file; write sqlite:///file.db, or leave store= out to keep conversations in memory"]
    return [f"{_begin(url)} is no store; there are: sqlite:///file.db, postgresql://user@host/database"]


def _begin(url: str) -> str:
    """The beginning of a text that is no address, without any part that may be a password."""
    if not {"@", "="} & set(url):
        return repr(url)
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:(//)?", url)
    return repr(f"{scheme[0]}…") if scheme else "a connection string"

"""HttpTool: a request to an HTTP API as a tool, declared as a template with parameters and secrets by reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

from changeover.copies import FrozenDict, copy_of
from changeover.tools.secret import REFERENCE, literal_faults, reference_faults, slots, url_faults
from changeover.tools.tool import CallOptions
from changeover.tools.variable import Variable, variable_faults

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
READING = ("GET", "HEAD")
REPEATABLE = ("GET", "HEAD", "PUT", "DELETE")
"""Methods whose requests may be sent again, by their definition."""
BODILESS = ("GET", "HEAD", "DELETE")
"""Methods whose parameters go into the query unless the declaration says otherwise."""
IDEMPOTENCY_HEADER = "Idempotency-Key"


@dataclass(frozen=True)
class Bearer:
    """`Authorization: Bearer …`."""

    token: str
    """A reference, such as "${TOKEN}"."""

    def faults(self) -> Iterator[str]:
        """The faults of this declaration, one text each."""
        yield from reference_faults("token", self.token)


@dataclass(frozen=True)
class Basic:
    """`Authorization: Basic …`: a user name and a password."""

    username: str
    """The user name, or a reference to it."""
    password: str
    """A reference, such as "${PASSWORD}"."""

    def faults(self) -> Iterator[str]:
        """The faults of this declaration, one text each."""
        yield from reference_faults("password", self.password)


@dataclass(frozen=True)
class ApiKey:
    """A key in a header or in the query."""

    name: str
    """The name of the header or of the parameter in the query."""
    value: str
    """A reference, such as "${API_KEY}"."""
    place: Literal["header", "query"] = "header"
    """Where the key goes: "header" or "query"."""

    def faults(self) -> Iterator[str]:
        """The faults of this declaration, one text each."""
        yield from reference_faults("key", self.value)
        if self.place not in ("header", "query"):
            yield f"has an ApiKey in {self.place!r}; use 'header' or 'query'"


Auth = Bearer | Basic | ApiKey


@dataclass(frozen=True)
class HttpTool(CallOptions):
    """A request that a model may have sent. `{name}` stands for a parameter, `${NAME}` for a secret.

    A parameter may stand in the path of the `url`, and in `query`, `headers` and `body`; one that stands nowhere goes
    into the query of a GET, HEAD or DELETE, and into the JSON body of other methods.
    """

    name: str
    _: KW_ONLY
    url: str
    method: str = "GET"
    """GET, HEAD, POST, PUT, PATCH or DELETE."""
    description: str = ""
    """What the model reads of it."""
    parameters: Sequence[Variable] = ()
    """What the model fills in."""
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """JSON or a text; a mapping with the header `Content-Type: application/x-www-form-urlencoded` is sent as a form."""
    auth: Auth | None = None
    """Credentials: Bearer(…), Basic(…) or ApiKey(…)."""
    select: str = ""
    """A JMESPath expression: what the model reads of a JSON answer."""
    hosts: Sequence[str] = ()
    """The hosts that may be reached, also by redirects; by default only the host of the `url`."""
    allow_private: bool = False
    """True if private, loopback and link-local addresses may be reached."""
    idempotency_header: str | None = IDEMPOTENCY_HEADER
    """The header that carries the idempotency key of a write; with None, a POST or PATCH is not tried again."""
    max_bytes: int = 5_000_000
    """The largest answer that is read."""
    timeout: float | None = 30.0

    def __post_init__(self) -> None:
        # Copied: later changes of the caller's lists and dicts must not reach the declaration.
        object.__setattr__(self, "body", copy_of(self.body))
        for name in ("query", "headers"):
            if isinstance(value := getattr(self, name), dict):
                object.__setattr__(self, name, FrozenDict(value))
        for name in ("parameters", "hosts"):
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))

    @property
    def reads(self) -> bool:
        """True if it changes nothing."""
        return self.method in READING if self.read_only is None else self.read_only

    @property
    def repeatable(self) -> bool:
        """True if a request whose outcome is unknown may be sent again."""
        return self.method in REPEATABLE or self.reads or bool(self.idempotency_header)

    @property
    def reachable(self) -> frozenset[str]:
        """The hosts that may be reached, in lower case."""
        return frozenset(host.lower() for host in self.hosts) or frozenset([urlsplit(self.url).hostname or ""])

    def faults(self) -> Iterator[str]:
        """The faults of this declaration, one text each."""
        yield from self.option_faults()
        if self.method not in METHODS:
            yield f"has method={self.method!r}; use one of {', '.join(METHODS)}"
        yield from self._url_faults()
        yield from self._parameter_faults()
        yield from self._secret_faults()
        if not isinstance(self.max_bytes, int) or self.max_bytes < 1:
            yield f"has max_bytes={self.max_bytes!r}; use a number of bytes, 1 or more"
        if self.retries and not self.repeatable:
            yield f"has retries={self.retries}, but a {self.method} without an idempotency key is not safe to repeat"
        if self.body is not None and self.method in READING:
            yield f"has a body, which a {self.method} does not take; use query="

    def _url_faults(self) -> Iterator[str]:
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except (ValueError, TypeError, AttributeError) as error:
            yield f"has a url that cannot be read: {error}"
            return
        if parts.scheme not in ("http", "https") or not host:
            yield f"has url={self.url!r}; give one that begins with https:// or http://"
        elif any(slots(f"{parts.scheme}{parts.netloc}{parts.query}{parts.fragment}")):
            yield "has a parameter in its url outside the path; put it into query="
        elif REFERENCE.search(self.url):
            yield "has a secret in its url; put it into query=, headers= or auth="
        elif self.hosts and host not in self.reachable:
            yield f"has hosts={sorted(self.reachable)}, which do not include the host of its url, {host!r}"
        yield from url_faults("url", self.url)
        yield from _host_faults(self.hosts)

    def _parameter_faults(self) -> Iterator[str]:
        if not isinstance(self.parameters, Sequence) or not all(isinstance(each, Variable) for each in self.parameters):
            yield f"has parameters={self.parameters!r}; give a list of Variable(…)s"
            return
        yield from (fault.replace("variable", "parameter") for fault in variable_faults(self.parameters))
        known = {each.name: each for each in self.parameters}
        used = [*slots(self.url), *slots(self.query), *slots(self.headers), *slots(self.body)]
        for name in sorted(set(used) - known.keys()):
            yield f"uses {{{name}}}, which is not among its parameters"
        for name in slots(_path(self.url)):
            if name in known and not known[name].required:
                yield f"has the optional parameter {name!r} in its path; make it required, or put it into query="

    def _secret_faults(self) -> Iterator[str]:
        if self.auth is not None and not isinstance(self.auth, Auth):
            yield f"has auth of type {type(self.auth).__name__}; give Bearer(…), Basic(…) or ApiKey(…)"
        elif self.auth is not None:
            yield from self.auth.faults()
        for place in ("query", "headers", "body"):
            if place != "body" and not isinstance(getattr(self, place), Mapping):
                yield f"has {place} of type {type(getattr(self, place)).__name__}; give a mapping of names to values"
            else:
                yield from literal_faults(place, getattr(self, place))

    def unplaced(self) -> list[str]:
        """The names of the parameters that stand nowhere in the declaration."""
        used = {*slots(self.url), *slots(self.query), *slots(self.headers), *slots(self.body)}
        return [each.name for each in self.parameters if each.name not in used]


def _path(url: str) -> str:
    """The path of a URL; empty if it cannot be read."""
    try:
        return urlsplit(url).path
    except (ValueError, TypeError, AttributeError):
        return ""


def _host_faults(hosts: Sequence[str]) -> Iterator[str]:
    if isinstance(hosts, str) or not all(isinstance(host, str) for host in hosts):
        yield f"has hosts={hosts!r}; give a list of host names"
        return
    for host in hosts:
        if not host or (any(sign in host for sign in "/:@*{") and not host.count(":") > 1):
            yield f"has the host {host!r}; give a name such as 'api.example.org', without scheme, port or path"


def origin_of(parts: SplitResult) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL: what a secret may be sent to."""
    return parts.scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}.get(parts.scheme)

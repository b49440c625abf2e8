"""HttpCallee: sends the request of an HttpTool, follows redirects that are allowed, and reads the answer."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from changeover.agent.moves import UseTool, misfit_words
from changeover.relay.ports.world import ToolOutcome
from changeover.toolkits.answer import outcome_of
from changeover.toolkits.result_text import CallFailed, TemporaryFailure, words
from changeover.tools.http_tool import BODILESS, ApiKey, Basic, Bearer, HttpTool, origin_of
from changeover.tools.run_context import RunContext, current_trace
from changeover.tools.secret import SLOT, filled, text_form
from changeover.tools.tool import ToolDefinition
from changeover.tools.variable import Check, compile_variables
from changeover.workflows.expression import compiled

if TYPE_CHECKING:
    import httpx2

    from changeover.toolkits.connections import Connections

MOST_REDIRECTS = 5
TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes after which the same request may succeed."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
FORM = "application/x-www-form-urlencoded"
OPEN = {
    "Accept": "application/json, text/*;q=0.9, */*;q=0.5",
    "Accept-Encoding": "identity",
    "User-Agent": "changeover",
}
"""Headers that every request has unless its declaration has others."""


class Prepared(Struct, frozen=True):
    """A request that is ready to be sent, with its secrets."""

    method: str
    url: str
    headers: dict[str, str]
    content: bytes = b""
    private: frozenset[str] = frozenset()
    """Headers with secrets, which go only to the origin of the declared URL."""


class HttpCallee:
    """One HTTP request that a model may have sent."""

    def __init__(self, declared: HttpTool, schema: dict[str, Any], check: Check, connections: Connections) -> None:
        self._declared, self._check, self._connections = declared, check, connections
        definition = ToolDefinition(declared.name, declared.description, schema, read_only=declared.reads)
        self.tool = UseTool(_resolved(declared), definition)
        self.repeatable = declared.repeatable
        self._select: Any = None

    @classmethod
    def compiled(cls, declared: HttpTool, connections: Connections) -> HttpCallee | list[str]:
        """The callee, or the faults of its `select`; `declared` has no faults of its own."""
        callee = cls(declared, *compile_variables(declared.parameters), connections)
        if declared.select:
            try:
                callee._select = compiled(declared.select)
            except ValueError as error:
                return [f"has select={declared.select!r}, which is not JMESPath: {error}"]
        return callee

    def misfit(self, args: dict[str, Any], context: RunContext) -> str:
        """What is wrong with these arguments, for the model; empty if they fit."""
        values = self._check(args)
        wrong = values if isinstance(values, str) else self._unsendable(values)
        return misfit_words(self._declared.name, wrong) if wrong else ""

    def _unsendable(self, values: dict[str, Any]) -> str:
        """Arguments that fit their types but cannot stand where the declaration puts them."""
        in_path = {found[2] for found in SLOT.finditer(urlsplit(self._declared.url).path)}
        for name in sorted(in_path & values.keys()):
            if text_form(values[name]) in ("", ".", ".."):
                return f"{name}: it must not be empty, '.' or '..'"
        for template in self._declared.headers.values():
            for name in (found[2] for found in SLOT.finditer(template) if found[2] in values):
                if not text_form(values[name]).isprintable() or not text_form(values[name]).isascii():
                    return f"{name}: it goes into a header, so use printable ASCII characters"
        return ""

    async def attempt(self, args: dict[str, Any], context: RunContext) -> ToolOutcome:
        """Send the request once. Raises TemporaryFailure, and CallFailed if it would fail again."""
        values = self._check(args)
        if isinstance(values, str):
            return ToolOutcome(misfit_words(self._declared.name, values), ok=False)
        request = self._prepared(values, context.idempotency_key)
        return await self._connections.run(lambda: self._exchange(request))

    def _prepared(self, values: dict[str, Any], key: str) -> Prepared:
        declared, resolve = self._declared, self._connections.vault.get
        extra = {name: values[name] for name in declared.unplaced() if values.get(name) is not None}
        in_query = declared.method in BODILESS
        query = {**filled(declared.query, resolve, values), **(extra if in_query else {})}
        body = filled(declared.body, resolve, values)
        if extra and not in_query:
            body = {**body, **extra} if isinstance(body, Mapping) else extra
        headers: dict[str, str] = {**OPEN, **filled(declared.headers, resolve, values)}
        if declared.idempotency_header and not declared.reads:
            headers.setdefault(declared.idempotency_header, key)
        if trace := current_trace.get():
            headers.setdefault("traceparent", trace)
        private = {name for name, template in declared.headers.items() if "${" in template}
        private |= self._authorize(headers, query)
        url = _url(declared.url, values, query)
        return Prepared(declared.method, url, headers, _encoded(body, headers), frozenset(private))

    def _authorize(self, headers: dict[str, str], query: dict[str, Any]) -> set[str]:
        """Add the credentials; returns the names of the headers that carry them."""
        vault, auth = self._connections.vault, self._declared.auth
        match auth:
            case Bearer():
                headers["Authorization"] = f"Bearer {vault.resolve(auth.token)}"
            case Basic():
                pair = f"{vault.resolve(auth.username)}:{vault.resolve(auth.password)}"
                token = b64encode(pair.encode()).decode()
                vault.hide(auth.password, token)
                headers["Authorization"] = f"Basic {token}"
            case ApiKey(place="query"):
                query[auth.name] = vault.resolve(auth.value)
            case ApiKey():
                headers[auth.name] = vault.resolve(auth.value)
                return {auth.name}
            case None:
                pass
        return {"Authorization"}

    async def _exchange(self, request: Prepared) -> ToolOutcome:
        """Send a request and follow its redirects, on the loop of the connections."""
        declared = self._declared
        for _ in range(MOST_REDIRECTS + 1):
            if (host := urlsplit(request.url).hostname) not in declared.reachable:
                hosts = ", ".join(sorted(declared.reachable))
                raise CallFailed(f"it was redirected to {host}, and it may reach only {hosts}")
            response = await self._sent(request)
            try:
                if response.status_code in REDIRECTS and (target := response.headers.get("location")):
                    request = _redirected(request, response.status_code, target)
                    continue
                return await self._outcome(response)
            finally:
                await response.aclose()
        raise CallFailed(f"it was redirected more than {MOST_REDIRECTS} times")

    async def _sent(self, request: Prepared) -> httpx2.Response:
        import httpx2

        seconds = self._declared.timeout
        # The transport and not a client: a client logs URLs, follows proxies and keeps cookies.
        transport = self._connections.transport(self._declared.allow_private)
        try:
            sent = httpx2.Request(
                request.method,
                request.url,
                headers=request.headers,
                content=request.content or None,
                extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), seconds)},
            )
            return await transport.handle_async_request(sent)
        except httpx2.InvalidURL as error:
            raise CallFailed(f"its address cannot be reached: {words(error)}") from error
        except httpx2.TransportError as error:
            raise TemporaryFailure(f"the server could not be reached or broke off: {words(error)}") from error

    async def _outcome(self, response: httpx2.Response) -> ToolOutcome:
        import httpx2

        from changeover.toolkits.network import read_body

        declared, status = self._declared, response.status_code
        try:
            body = b"" if declared.method == "HEAD" else await read_body(response, declared.max_bytes)
        except httpx2.TransportError as error:
            raise TemporaryFailure(f"the server broke off its answer: {words(error)}") from error
        outcome = outcome_of(response.headers, body, self._select if status < 400 else None, declared.max_result)
        if status < 400:
            return outcome if declared.method != "HEAD" else ToolOutcome(f"{status}: {_shown(response.headers)}")
        reason = f"the server answered {status} {response.reason_phrase}: {outcome.text[:2_000]}".rstrip(": ")
        if status in TEMPORARY:
            raise TemporaryFailure(reason, _seconds(response.headers.get("retry-after", "")))
        raise CallFailed(reason)


def _resolved(declared: HttpTool) -> HttpTool:
    from dataclasses import replace as redeclare

    return redeclare(declared, read_only=declared.reads)


def _url(template: str, values: dict[str, Any], query: Mapping[str, Any]) -> str:
    parts = urlsplit(template)
    path = SLOT.sub(lambda found: quote(text_form(values[found[2]]), safe=""), parts.path)
    pairs = [(name, text_form(item)) for name, value in query.items() for item in _items(value)]
    both = "&".join(part for part in (parts.query, urlencode(pairs)) if part)
    return parts._replace(path=path, query=both, fragment="").geturl()


def _items(value: Any) -> list[Any]:
    """A list stands in a query as the same name several times."""
    return value if isinstance(value, list) else [value]


def _encoded(body: Any, headers: dict[str, str]) -> bytes:
    """The body as bytes; adds its content type unless the declaration has one."""
    if body is None:
        return b""
    declared = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    if isinstance(body, Mapping) and declared.startswith(FORM):
        return urlencode([(name, text_form(item)) for name, value in body.items() for item in _items(value)]).encode()
    if not declared:
        headers["Content-Type"] = "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
    return body.encode() if isinstance(body, str) and "json" not in declared else msgspec.json.encode(body)


def _redirected(request: Prepared, status: int, location: str) -> Prepared:
    """The request that a redirect asks for. Secrets and bodies stay with the origin that they were meant for."""
    url = urljoin(request.url, location)
    before, after = urlsplit(request.url), urlsplit(url)
    if after.scheme not in ("http", "https") or (before.scheme, after.scheme) == ("https", "http"):
        raise CallFailed(f"it was redirected to {after.scheme}://, which is not allowed")
    same = origin_of(before) == origin_of(after)
    if status in (307, 308):
        if request.content and not same:
            raise CallFailed(f"it was redirected to {after.hostname}, where its content may not be sent")
    else:
        request = replace(request, method="HEAD" if request.method == "HEAD" else "GET", content=b"")
    private = set() if same else {name.lower() for name in request.private}
    dropped = private | (set() if request.content else {"content-type"})
    headers = {name: value for name, value in request.headers.items() if name.lower() not in dropped}
    return replace(request, url=url, headers=headers)


def _seconds(text: str) -> float:
    """The seconds that a Retry-After header asks for; 0 if it cannot be read."""
    if text.strip().isdigit():
        return float(text)
    from email.utils import parsedate_to_datetime  # here: few servers send a date

    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _shown(headers: Mapping[str, str]) -> str:
    return msgspec.json.encode({name: value for name, value in headers.items() if name != "set-cookie"}).decode()

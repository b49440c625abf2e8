"""Settings: what the owner of a server decides about its clients."""

from __future__ import annotations

from msgspec import Struct

LOOPBACK = ("localhost", "127.0.0.1", "::1")
API = "/api/v1"
"""The path of the API below that of the app."""


class Settings(Struct, frozen=True, kw_only=True):
    """Options of `create_app`."""

    open_access: bool = False
    """True if callers without a token may do everything. Only for servers that listen on loopback."""
    tokens: tuple[str, ...] = ()
    """Admin tokens that need no entry in the store."""
    webhook_secret: str = ""
    """With it, webhooks may publish events without a token if they sign them with this secret."""
    hosts: tuple[str, ...] = ()
    """Host names by which clients reach the server, beside loopback names and plain addresses; "*" for all."""
    origins: tuple[str, ...] = ()
    """Origins of pages, such as "https://desk.example.org", that may call the API from another host."""
    body: int = 32 * 1024 * 1024
    """Bytes of a request's body; files that go with a message may have 20 MB, which are 27 MB as Base64."""
    head: int = 32 * 1024
    """Bytes of the headers of a request."""
    rate: float = 200.0
    """Requests a second that one client may make over time; 0 for no limit."""
    burst: int = 1_000
    """Requests that a client may make at once."""
    patience: float = 20.0
    """Seconds in which a client has to send its headers, and each piece of its body."""

"""Network addresses that tools may reach, and the transport that connects only to an address that was checked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import httpcore2
import httpx2
from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream, ConnectError

from changeover.toolkits.result_text import CallFailed

FORBIDDEN = tuple(
    ip_network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32"),
        # All of IPv6 outside 2000::/3, which is for global use, and the parts of it that are reserved or map addresses.
        *("::/3", "4000::/2", "8000::/1", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)
"""Networks that are not the public Internet. `ipaddress.is_global` lets some of them pass, such as 64:ff9b::/96."""


class ForbiddenAddress(CallFailed):
    """A host leads to an address that tools may not reach."""


def is_public(address: str) -> bool:
    """True if this is an address of the public Internet; a mapped IPv4 address is none."""
    parsed: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    return not any(parsed in network for network in FORBIDDEN if network.version == parsed.version)


class CheckedBackend(AsyncNetworkBackend):
    """Resolves a host, checks every address, and connects to one of those that were checked."""

    def __init__(self, allow_private: bool) -> None:
        self._beneath: AsyncNetworkBackend = httpcore2.AnyIOBackend()
        self._allow_private = allow_private

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> AsyncNetworkStream:
        failure: Exception = ConnectError(f"{host} has no address")
        for address in await self._addresses(host, port):
            try:
                return await self._beneath.connect_tcp(address, port, timeout, local_address, socket_options)
            except (ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ConnectError(f"the host {host} cannot be found") from error
        addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
        if not self._allow_private and not all(map(is_public, addresses)):
            # All of them: a name with a public and a private address would reach the private one sooner or later.
            raise ForbiddenAddress(f"{host} leads to a private or reserved address, which this tool may not reach")
        return addresses


class CheckedTransport(httpx2.AsyncHTTPTransport):
    """An HTTP transport that reads no proxy settings, and connects through a CheckedBackend."""

    def __init__(self, allow_private: bool) -> None:
        context = httpx2.create_ssl_context()
        super().__init__(verify=context)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=15.0,
            network_backend=CheckedBackend(allow_private),
        )


async def read_body(response: httpx2.Response, most: int) -> bytes:
    """The body of an answer; raises CallFailed if it is larger than `most` bytes."""
    if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise CallFailed("it answered in a compressed form that was not asked for")
    body = bytearray()
    stream: AsyncIterator[bytes] = response.aiter_raw()
    async for chunk in stream:
        body += chunk
        if len(body) > most:
            raise CallFailed(f"its answer is larger than {most} bytes")
    return bytes(body)

"""Addresses that HTTP tools may not reach, however they are written, named or redirected to."""

import re
import socket
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpcore2
import pytest

from changeover.toolkits import network
from changeover.toolkits.connections import Connections
from changeover.toolkits.network import CheckedBackend, ForbiddenAddress, is_public
from changeover.toolkits.toolkit import AgentToolkit
from changeover.tools import HttpTool
from tests.toolkits.function_call import CONTEXT
from tests.toolkits.http_server import serving

PUBLIC = "93.184.215.14"

FORBIDDEN = [
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "127.8.8.8",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.7",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "fc00::1",
    "fd12::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_what_is_not_the_public_internet_is_refused(address: str):
    assert not is_public(address)


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "172.32.0.1", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_public_addresses_are_allowed(address: str):
    assert is_public(address)


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    connections = Connections()
    yield connections
    await connections.close()


WRITTEN = [
    *("127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "0"),
    *("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]"),
]


@pytest.mark.parametrize("host", WRITTEN)
async def test_loopback_is_refused_however_it_is_written(connections: Connections, host: str):
    with serving() as server:
        tool = HttpTool("act", url=f"http://{host}:{server.server_port}/echo", retries=2)
        outcome = await AgentToolkit([tool], backoff=0.001, connections=connections).call("act", {}, CONTEXT)
        assert not outcome.ok
        assert re.search("leads to a private or reserved address|cannot be (found|reached)", outcome.text)
        assert server.seen == []


async def test_a_connection_to_a_private_address_is_not_lent_to_a_tool_that_may_not_have_it(connections: Connections):
    with serving() as server:
        url = f"{server.url}/echo"
        tools = [HttpTool("may", url=url, allow_private=True), HttpTool("may_not", url=url)]
        toolkit = AgentToolkit(tools, connections=connections)
        assert (await toolkit.call("may", {}, CONTEXT)).ok
        assert "private or reserved" in (await toolkit.call("may_not", {}, CONTEXT)).text


class Line(httpcore2.AsyncNetworkBackend):
    """Notes to which addresses connections go, and makes none."""

    def __init__(self) -> None:
        self.connected: list[str] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.connected.append(host)
        return httpcore2.AsyncNetworkStream()


def answers(monkeypatch: pytest.MonkeyPatch, *turns: list[str]) -> list[str]:
    """Let look-ups of names give these addresses, one list after the other; returns the names that were asked for."""
    asked: list[str] = []

    def look_up(host: str, port: int, *more: Any, **named: Any) -> list[Any]:
        asked.append(host)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in turns[(len(asked) - 1) % len(turns)]
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def backend() -> tuple[CheckedBackend, Line]:
    checked, line = CheckedBackend(allow_private=False), Line()
    checked._beneath = line
    return checked, line


async def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch):
    asked = answers(monkeypatch, [PUBLIC], ["127.0.0.1"])
    checked, line = backend()
    await checked.connect_tcp("rebinds.example.org", 443)
    assert (line.connected, asked) == ([PUBLIC], ["rebinds.example.org"])
    with pytest.raises(ForbiddenAddress):
        await checked.connect_tcp("rebinds.example.org", 443)
    assert line.connected == [PUBLIC]


@pytest.mark.parametrize("addresses", [["10.0.0.1"], [PUBLIC, "169.254.169.254"], ["fe80::1"]])
async def test_a_name_that_leads_to_a_private_address_is_refused(monkeypatch: pytest.MonkeyPatch, addresses: list[str]):
    answers(monkeypatch, addresses)
    checked, line = backend()
    with pytest.raises(ForbiddenAddress, match=r"inside\.example\.org leads to a private or reserved address"):
        await checked.connect_tcp("inside.example.org", 80)
    assert line.connected == []


async def test_a_redirect_to_a_listed_name_that_leads_to_link_local_is_refused(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
):
    # Loopback counts as public here, so that the first request gets through.
    monkeypatch.setattr(network, "FORBIDDEN", tuple(each for each in network.FORBIDDEN if str(each) != "127.0.0.0/8"))
    look_up = socket.getaddrinfo

    def lies(host: str, port: int, *more: Any, **named: Any) -> Any:
        return look_up("169.254.169.254" if host == "metadata.example.org" else host, port, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", lies)
    with serving() as server:
        url = f"{server.url}/redirect/302?to=http://metadata.example.org/latest"
        tool = HttpTool("act", url=url, hosts=["127.0.0.1", "metadata.example.org"])
        outcome = await AgentToolkit([tool], connections=connections).call("act", {}, CONTEXT)
        assert len(server.seen) == 1
    reason = "metadata.example.org leads to a private or reserved address, which this tool may not reach"
    assert outcome.text == f"act failed: {reason}"

"""Providers on this machine, and a guard against connections to other machines."""

import socket
from collections.abc import AsyncIterator, Callable, Iterator
from ipaddress import ip_address
from typing import Any

import pytest

from changeover import Team
from tests.models.aimock import Server, serving
from tests.models.provider_script import fixtures
from tests.models.team_talk import NAMES, google


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A third-party LLM server."""
    with serving(fixtures(), tmp_path_factory.mktemp("aimock")) as server:
        yield server


@pytest.fixture
def providers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every provider's address is the server's, and it takes any key."""
    for name in ("OPENAI", "ANTHROPIC", "GOOGLE"):
        monkeypatch.setenv(f"{name}_API_KEY", "any")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections to other machines."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            assert ip_address(address[0]).is_loopback, f"a test tried to reach {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
async def model_of(server: Server, providers: None) -> AsyncIterator[Callable[[str], Any]]:
    """What stands for a provider as Agent(model=…)."""
    clients = []

    def model_of(api: str) -> Any:
        if api != "google":
            return NAMES[api]
        model, client = google(server)
        clients.append(client)
        return model

    yield model_of
    for client in clients:
        await client.aio.aclose()
        client.close()


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., Team]]:
    """Makes teams, and closes them when the test is over."""
    teams: list[Team] = []

    def opened(*args: Any, **options: Any) -> Team:
        teams.append(Team(*args, **options))
        return teams[-1]

    yield opened
    for team in teams:
        await team.close()

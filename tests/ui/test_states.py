"""States of every page: nothing to show, loading, an error, no server, no network. New pages are tested too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, Route, WebSocketRoute, expect

from changeover.ui.pages import PAGES
from tests.databases import empty_file
from tests.server.process import Server, started
from tests.ui.test_safety import STRESS, violations

EMPTY = {
    "chat": "What shall the team do?",
    "runs": "Runs appear here",
    "approvals": "Requests to people appear here",
    "queue": "Work that waits for a worker appears here",
    "agents": "The team appears here",
    "tools": "Tools appear here",
    "workflows": "Workflows appear here",
    "metrics": "Handoffs appear here as soon as an agent offers one",
    "router": "Experiments appear here",
    "bus": "Events appear here",
    "schedules": "Schedules appear here",
    "settings": "Nothing was changed or refused yet",
}
"""What each page says while there is nothing: what will appear. A new page needs its words here."""
ITEMS = {"chat": "/chat/nowhere", "runs": "/runs/nowhere", "agents": "/agents/billing"}
"""Pages of one thing that are pages of their own; others show it on the page of the list."""
PATHS = [*(f"/{page.name}" for page in PAGES), *ITEMS.values()]
HALVES = [PATHS[::2], PATHS[1::2]]
AWAY = {"title": "Service Unavailable", "status": 503, "detail": "the store is away"}


@pytest.fixture(autouse=True)
def still(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose team has no member and whose store is empty."""
    store = f"sqlite:///{empty_file(tmp_path_factory.mktemp('blank') / 'store.db')}"
    with started(store, "--rate", "0", team="tests/ui/blank.py:team", lease=30.0) as found:
        yield found


def accessible(page: Page) -> None:
    """No rule of axe-core is broken; it is asked about states under stress only."""
    if STRESS:
        assert violations(page) == []


def test_a_page_without_anything_says_what_will_appear(page: Page, blank: Server):
    for name in (each.name for each in PAGES):
        page.goto(f"{blank.url}/{name}")
        expect(page.locator("[aria-busy]")).to_have_count(0)
        expect(page.locator("main")).to_contain_text(EMPTY[name])
        accessible(page)
    page.goto(f"{blank.url}/runs")
    page.get_by_role("link", name="Open Chat").click()
    expect(page.locator("main")).to_contain_text(EMPTY["chat"])


class SlowApi:
    """Keeps the requests of a page waiting, but for what every page needs first, until it answers all with a fault."""

    def __init__(self, path: str) -> None:
        # a new conversation needs nothing but the team
        self._whole = ("/me",) if path == "/chat" else ("/me", "/v1/agents")
        self._held: list[Route] | None = []

    def take(self, route: Route) -> None:
        if route.request.url.endswith(self._whole):
            route.fallback()
        elif self._held is None:
            route.fulfill(status=503, json=AWAY, content_type="application/problem+json")
        else:
            self._held.append(route)

    def fail(self) -> None:
        held, self._held = self._held or [], None
        for each in held:
            self.take(each)


@pytest.mark.parametrize("paths", HALVES)
def test_a_page_says_that_it_loads_and_then_what_went_wrong(page: Page, server: Server, paths: list[str]):
    page.route_web_socket("**/api/v1/live", lambda socket: None)  # it opens, and says nothing
    for path in paths:
        api = SlowApi(path)
        page.route("**/api/v1/**", api.take)
        page.goto(f"{server.url}{path}")
        expect(page.locator("[aria-busy]")).to_be_visible()
        expect(page.locator("main")).to_contain_text("Loading…")
        accessible(page)
        api.fail()
        expect(page.locator("main")).to_contain_text("The store is away.")
        expect(page.locator("[aria-busy]")).to_have_count(0)
        accessible(page)
        page.unroute_all()


@pytest.mark.parametrize("path", PATHS if STRESS else ["/chat/nowhere", "/metrics"])
def test_a_page_says_that_it_reconnects_or_is_offline_until_it_is_not(
    page: Page, context: BrowserContext, server: Server, path: str
):
    """The frame that all pages share says it, so that two pages stand for all unless under stress."""
    sockets: list[WebSocketRoute] = []
    cut = False

    def meet(socket: WebSocketRoute) -> None:
        if cut:
            socket.close()
        else:
            socket.connect_to_server()
            sockets.append(socket)

    page.route_web_socket("**/api/v1/live", meet)
    page.goto(f"{server.url}{path}")
    expect(page.locator("[aria-busy]")).to_have_count(0)
    banner = page.locator("#banner")
    expect(banner).to_be_hidden()
    cut = True
    for each in sockets:
        each.close()
    expect(banner).to_contain_text("Reconnecting…")
    accessible(page)
    context.set_offline(True)
    page.evaluate("dispatchEvent(new Event('offline'))")
    expect(banner).to_contain_text("offline")
    accessible(page)
    cut = False
    context.set_offline(False)
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(banner).to_be_hidden()

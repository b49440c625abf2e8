"""One browser and one server for all tests of a worker. Every page is watched: a fault of any kind fails its test.

Playwright's event loop stays in the main thread between tests, where asyncio would take it for one that runs: it is put
aside after each test, so that tests with loops of their own can follow in the same process.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, Request, sync_playwright

from tests.databases import empty_file
from tests.server.process import Server, serving
from tests.ui.people import Person


def chromium() -> str:
    """The path of Chromium, which is installed where the tests run as root on Debian."""
    if not (found := shutil.which("chromium") or shutil.which("chromium-browser")) and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], check=False, capture_output=True)
        found = shutil.which("chromium")
    assert found, "these tests need Chromium on the PATH: install the package `chromium`"
    return found


LOOPS: list[asyncio.AbstractEventLoop] = []
"""The loop of Playwright, once it is started."""


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        LOOPS[:] = [asyncio.get_running_loop()]
        yield started
        LOOPS.clear()


@pytest.fixture(scope="session")
def browser(browser: Browser) -> Iterator[Browser]:
    yield browser
    asyncio._set_running_loop(LOOPS[0])  # to close it, after the last test


@pytest.fixture(autouse=True)
def playwright_loop() -> Iterator[None]:
    """Playwright's loop, for as long as a test of this folder runs."""
    if LOOPS:
        asyncio._set_running_loop(LOOPS[0])
    yield
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def base_url() -> str:
    """In the place of the fixture of pytest-base-url, which pytest warns about."""
    return ""


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_type_launch_args, "executable_path": chromium(), "args": ["--no-sandbox"]}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the test team that needs no token. Tests share its store."""
    store = f"sqlite:///{empty_file(tmp_path_factory.mktemp('ui') / 'store.db')}"
    with serving(store, "--rate", "0", team="tests/ui/desk.py:team") as found:
        yield found


class Watch:
    """What went wrong on the pages of a test."""

    STATUSES = tuple(f"status of {status}" for status in (401, 404, 412, 422, 502, 503))
    EXPECTED = ("WebSocket connection to", "Failed to load resource: net::ERR", *STATUSES)
    """What the browser itself reports while a server is down, or about an answer that the page shows."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def context(self, context: BrowserContext) -> None:
        context.on("page", self.page)

    def page(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("console", lambda said: self._console(said.type, said.text))
        page.on("request", lambda asked: self._request(page, asked))

    def _console(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(each in text for each in self.EXPECTED):
            self.faults.append(f"{kind}: {text}")

    def _request(self, page: Page, asked: Request) -> None:
        if not asked.url.startswith(("http://127.0.0.1:", "data:", "blob:http://127.0.0.1:")):
            self.faults.append(f"request to another host: {asked.url}")


@pytest.fixture
def context(context: BrowserContext) -> Iterator[BrowserContext]:
    """A context whose pages are watched for errors, violations of the CSP, and requests to other hosts."""
    watch = Watch()
    watch.context(context)
    context.set_default_timeout(10_000)
    yield context
    assert not watch.faults


@pytest.fixture
def person(page: Page, server: Server) -> Person:
    """A person in front of the pages of the server."""
    return Person(page, server.url)

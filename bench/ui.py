"""The web UI in a real browser: weight and first paint of pages, live updates, the scrubber, readers beside a page."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median, quantiles
from typing import Any

import httpx2 as httpx
import msgspec
from playwright.async_api import Browser, Page, async_playwright

from bench.audience import Heard
from bench.measure import Figure
from bench.queue import in_a_file
from bench.server import listening, serving

PAGES = ("chat", "runs", "runs/{id}", "approvals", "sign-in")
PAINTS, STEPS = 5, 300
READERS, RATE, SECONDS = 200, 10.0, 15.0
WEIGHT = """['resource', 'navigation'].flatMap(kind => performance.getEntriesByType(kind))
  .filter(each => !each.name.includes('/api/')).reduce((sum, each) => sum + each.transferSize, 0) / 1000"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
TIMED = """
  window.taken = [];
  const measured = (work) => (...given) => {
    const begun = performance.now();
    const result = work(...given);
    document.body?.offsetHeight;  // the layout belongs to it
    window.taken.push(performance.now() - begun);
    return result;
  };
  const draw = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (work) => draw(measured(work));
  const heard = Object.getOwnPropertyDescriptor(WebSocket.prototype, 'onmessage');
  const set = function (work) { heard.set.call(this, measured(work)); };
  Object.defineProperty(WebSocket.prototype, 'onmessage', { ...heard, set });
"""
SCRUB = """steps => {
  const taken = [];
  for (let step = 0; step < steps; step++) {
    const begun = performance.now();
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft', bubbles: true }));
    document.body.offsetHeight;
    taken.push(performance.now() - begun);
  }
  return taken;
}"""


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    """Chromium, which is to be on the PATH."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "the bench of the web UI needs Chromium on the PATH: install the package `chromium`"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


async def ready(page: Page, url: str) -> None:
    await page.goto(url)
    await page.wait_for_selector("body:not(:has([aria-busy]))")


def begun(url: str, text: str = "Go") -> str:
    """A conversation whose run has ended."""
    with httpx.Client(timeout=300) as client:
        answer = client.post(f"{url}/api/v1/conversations", params={"wait": True}, json={"text": text})
        id: str = answer.raise_for_status().json()["conversation"]
        return id


async def weights(browser: Browser) -> list[Figure]:
    """What each page takes over the wire, and how soon something is seen."""
    found: list[Figure] = []
    with in_a_file() as store, listening(*serving(store, "quick")) as server:
        id = await asyncio.to_thread(begun, server.url)
        for name in PAGES:
            paints, weight = [], 0.0
            for _ in range(PAINTS):
                page = await (await browser.new_context()).new_page()
                await ready(page, f"{server.url}/{name.format(id=id)}")
                weight, paint = await page.evaluate(WEIGHT), await page.evaluate(PAINT)
                paints.append(paint)
                await page.context.close()
            found.append(Figure(f"{name}: over the wire, compressed", weight, 60, unit=" KB"))
            found.append(Figure(f"{name}: first contentful paint", median(paints), 500, "nothing cached", unit=" ms"))
    return found


async def updates(browser: Browser) -> list[Figure]:
    """What one live update costs the chat, and the page of the run beside it."""
    with in_a_file() as store, listening(*serving(store, "team")) as server:
        page = await browser.new_page()
        await page.add_init_script(TIMED)
        await ready(page, f"{server.url}/chat")
        for _ in range(6):
            await page.locator("#text").fill("I was charged twice.")
            await page.locator("#text").press("Enter")
            await page.wait_for_timeout(2_500)
        taken: list[float] = await page.evaluate("window.taken")
        await page.context.close()
    return [Figure("live update of the chat, p95", quantiles(taken, n=20)[18], 20, f"{len(taken)} updates", unit=" ms")]


async def scrubbing(browser: Browser) -> list[Figure]:
    """What one step of the scrubber costs on a run of 5,000 events."""
    with in_a_file() as store, listening(*serving(store, "long")) as server:
        id = await asyncio.to_thread(begun, server.url)
        page = await browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(120_000)
        await ready(page, f"{server.url}/runs/{id}")
        count: str = await page.locator(".scrub .at").inner_text()
        taken: list[float] = await page.evaluate(SCRUB, STEPS)
        await page.context.close()
    note = f"p50 {median(taken):.2f} ms, {count.split('/')[1].split(maxsplit=1)[0]} events"
    return [Figure("scrubber step, p95", quantiles(taken, n=20)[18], 2, note, unit=" ms")]


def heard(url: str, id: str) -> Heard:
    command = [sys.executable, "-m", "bench.audience", url, id, str(READERS), str(RATE), str(SECONDS)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    return msgspec.json.decode(done.stdout, type=Heard)


async def readers(browser: Browser) -> list[Figure]:
    """Many WebSocket readers of one conversation beside a real page of it."""
    with in_a_file() as store, listening(*serving(store, "quick")) as server:
        id = await asyncio.to_thread(begun, server.url)
        page = await browser.new_page()
        await ready(page, f"{server.url}/chat/{id}")
        before = server.cpu
        report: Any = await asyncio.to_thread(heard, server.url, id)
        cpu = (server.cpu - before) / (SECONDS + 2)
        await page.context.close()
    note = f"{report.frames:,} of {report.updates * READERS:,} frames, p50 {report.p50 * 1000:.1f} ms; on idle cores"
    return [
        Figure(f"{READERS} readers beside a page: append to reader, p99", report.p99 * 1000, 50, note, unit=" ms"),
        Figure(
            f"{READERS} readers beside a page: CPU of the server", 100 * cpu, 10, f"{RATE:.0f} updates/s", unit=" %"
        ),
    ]


async def figures() -> list[Figure]:
    """All figures."""
    async with browsing() as browser:
        return [figure for each in (weights, updates, scrubbing, readers) for figure in await each(browser)]

"""Pictures of every page: `python -m tests.ui.screens [NAME …]`, of the seeded demo, in both themes and on a phone.

They go to build/screens; `--readme` takes those of the README, and puts them into docs/screens. Inter and JetBrains
Mono are installed where this runs as root on Debian.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2 as httpx
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.databases import empty_file
from tests.server.process import Server, started, until
from tests.ui.conftest import chromium

OUT = Path("build/screens")
WIDE: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
LOOKS = {"light": ("light", WIDE), "dark": ("dark", WIDE), "phone": ("light", PHONE)}
FONTS = ("fonts-inter", "fonts-jetbrains-mono")


def _handoff(page: Page) -> None:
    page.locator("details.hand").first.evaluate("element => (element.open = true)")
    page.locator("#scroll").evaluate("element => (element.scrollTop = 0)")


def _pick(page: Page) -> None:
    page.locator("#pick").click()
    page.wait_for_selector(".talks li")


def _details(page: Page) -> None:
    if page.locator("#details").is_visible():
        page.locator("#details").click()


def _choose(page: Page) -> None:
    if not page.locator("#decide").is_visible():
        page.locator(".rows a").first.click()
    page.wait_for_selector(".excerpt li")


def _edit(page: Page) -> None:
    _choose(page)
    page.get_by_label("amount").fill("20")


def _new_tool(page: Page) -> None:
    page.get_by_label("Name", exact=True).fill("handoff_to_refunds")
    page.get_by_label("Target agent", exact=True).select_option("billing")
    page.get_by_label("When to use it").fill("Charges, refunds and invoices.")
    for name, about in (("customer_id", "Id in the CRM"), ("intent", "What the customer wants")):
        page.get_by_role("button", name="Add variable").click()
        row = page.locator(".vrow").last
        row.get_by_label("Name").fill(name)
        row.get_by_label("Description").fill(about)
    page.wait_for_selector("#seen pre")


def _faults(page: Page) -> None:
    page.get_by_label("Name", exact=True).fill("get_order")
    page.get_by_label("URL").fill("orders/{id}")
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector(".fault:visible")


def _rank(page: Page) -> None:
    page.get_by_label("Ask the router").fill("Send the customer of order 1042 their money back")
    page.get_by_role("button", name="Rank agents").click()
    page.wait_for_selector("meter")


def _new_agent(page: Page) -> None:
    page.get_by_label("Id", exact=True).fill("returns")
    page.get_by_label("System prompt").fill("Ask for the order first.\nThen send a label.")
    page.get_by_label("Tools", exact=True).select_option("payments")
    page.wait_for_selector("#seen pre")


def _cut(page: Page) -> None:
    page.context.set_offline(True)
    page.evaluate("dispatchEvent(new Event('offline'))")


def _rejected(page: Page) -> None:
    page.locator(".edge.bad").first.press("Enter")


def _sent(page: Page) -> None:
    page.get_by_role("button", name="Model", exact=True).click()
    page.locator("#steps .what").nth(1).click()
    page.locator(".promptbox summary").first.click()
    page.wait_for_selector(".sent li")


def _raw(page: Page) -> None:
    page.get_by_role("button", name="Raw events").click()
    page.locator("#steps summary").nth(3).click()


SCREENS: dict[str, tuple[str, Callable[[Page], None] | None]] = {
    "chat-new": ("/chat", None),
    "chat-approval": ("/chat/refund-waits", None),
    "chat-handoff": ("/chat/refund-waits", _handoff),
    "chat-long": ("/chat/order-1042", None),
    "chat-failed": ("/chat/outage", None),
    "chat-context": ("/chat/order-1042", _details),
    "chat-list": ("/chat/order-1042", _pick),
    "chat-missing": ("/chat/nowhere", None),
    "chat-offline": ("/chat/refund-waits", _cut),
    "approvals": ("/approvals", _choose),
    "approvals-edited": ("/approvals", _edit),
    "approvals-list": ("/approvals", None),
    "approvals-decided": ("/approvals?show=decided", None),
    "runs": ("/runs", None),
    "run": ("/runs/refund-waits", None),
    "run-long": ("/runs/order-1042", None),
    "run-step": ("/runs/order-1042?step=24", None),
    "run-handoff": ("/runs/order-1042", _rejected),
    "run-model": ("/runs/refund-waits", _sent),
    "run-failed": ("/runs/outage", None),
    "run-raw": ("/runs/outage", _raw),
    "run-missing": ("/runs/nowhere", None),
    "runs-none": ("/runs?q=nothing-has-this", None),
    "tools": ("/tools/refund", None),
    "tools-list": ("/tools", None),
    "tools-new": ("/tools?new=handoff", _new_tool),
    "tools-faults": ("/tools?new=http_api", _faults),
    "agents-map": ("/agents", _rank),
    "agents-list": ("/agents?show=list", None),
    "agent-code": ("/agents/billing", None),
    "agent-new": ("/agents/?new", _new_agent),
    "sign-in": ("/sign-in", None),
}


def _figure(page: Page) -> None:
    page.get_by_role("region", name="Agents", exact=True).locator("tr", has_text="Goodwill").get_by_role(
        "button"
    ).last.click()
    page.wait_for_selector("dialog li")


def _give(page: Page) -> None:
    page.get_by_role("button", name="Give to another").first.click()


def _event(page: Page) -> None:
    page.locator(".events > li", has_text="payment.double").get_by_role("button").first.click()
    page.wait_for_selector(".deliveries li")


def _token(page: Page) -> None:
    page.get_by_role("button", name="New token").click()


OPERATIONS: dict[str, tuple[str, Callable[[Page], None] | None]] = {
    "metrics": ("/metrics", None),
    "metrics-runs": ("/metrics", _figure),
    "router": ("/router", None),
    "queue": ("/queue", None),
    "queue-give": ("/queue", _give),
    "bus": ("/bus", None),
    "bus-event": ("/bus", _event),
    "schedules": ("/schedules/weekly-report", None),
    "settings": ("/settings", None),
    "settings-token": ("/settings", _token),
}
"""Pages of operators, of a store with a day of conversations."""

EVENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("order.returned", {"order": "987", "parcel": "lost"}),
    ("parcel.late", {"order": "1047", "days": 2}),
    ("account.closed", {"customer": "cus_77Kd"}),
    ("payment.double", {"order": "1042", "amount": 129.0}),
    ("parcel.late", {"order": "1051", "days": 4}),
)
"""Events of a shop; the address that gets returned orders does not answer."""

PEOPLE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("admin on duty", "admin", {"everything": True}),
    ("approver on duty", "approver", {"everything": True, "approval_roles": ["manager"]}),
    ("shop backend", "operator", {}),
    ("fraud workers", "worker", {"agents": ["fraud"]}),
    ("wall screen", "viewer", {"everything": True}),
)
"""Users with tokens: their names, roles and further rights."""

README = {"chat-approval": "chat", "run": "run", "approvals": "approvals"}
"""The pictures of the README, with their names there."""


def install_fonts() -> None:
    """Install the fonts of the pictures, where that is possible; without them the system's own are used."""
    if os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "-qq", *FONTS], check=False, capture_output=True)


def _demo(folder: str) -> AbstractContextManager[Server]:
    return started(f"sqlite:///{empty_file(Path(folder, 'demo.db'))}", team="--demo")


@contextmanager
def _operations(folder: str) -> Iterator[Server]:
    store = f"sqlite:///{empty_file(Path(folder, 'operations.db'))}"
    # In a process of its own: here the loop of the browser runs.
    subprocess.run([sys.executable, "-m", "tests.ui.operations", store, "480"], check=True)
    with started(store, team="tests/ui/operations.py:team") as server:
        _bustle(server)
        yield server


def _bustle(server: Server) -> None:
    """Workers that claim and answer tickets, people with tokens, and changes for the audit."""
    with server.client(None) as api:

        def post(path: str, **given: Any) -> Any:
            answer = api.post(path, json=given).raise_for_status()
            return answer.json() if answer.content else None

        secrets = [post("/tokens", user=user, role=role, **more)["secret"] for user, role, more in PEOPLE]
        for number in range(8):
            task = {"description": f"Check order {3000 + number}: two cards, one address"}
            post("/tickets", protocol="1.0", task=task, metadata={"receiver": "fraud", "priority": 10})
        claims = [
            claim
            for worker, count in (("fraud-1", 3), ("fraud-2", 5))
            for claim in post("/claims", agent="fraud", by=worker, limit=count, lease=3000 / count)
        ]
        for number, claim in enumerate(claims):
            path, held = f"/tickets/{claim['ticket']['id']}", {"claim": claim["claim"], "lease": 60.0 - 7 * number}
            if number % 2:
                post(f"{path}/accept", **held)
            if number == 1:
                post(f"{path}/complete", result="It is the customer's own card.", **held)
            elif number == 3:
                post(f"{path}/fail", reason="The order has no payment.", **held)
        for type, data in EVENTS:
            post("/bus/events", type=type, data=data, source="shop")
        post("/schedules/weekly-report/run")
        post("/schedules/night-check/pause")
        post("/breakers/carrier/reset")
        post("/breakers/goodwill/force")
        with server.client(secrets[-1]) as viewer:
            viewer.post("/breakers/goodwill/reset")


@contextmanager
def _flows(folder: str) -> Iterator[Server]:
    """A team with workflows: of one a run is over, one waits for a person, one for its next attempt, one was undone."""
    store = f"sqlite:///{empty_file(Path(folder) / 'flows.db')}"
    with started(store, "--rate", "0", team="tests/ui/flows.py:team") as server, server.client(None) as api:
        for id, words in FATES.items():
            _claim(api, id, words)
        yield server


def _claim(api: httpx.Client, id: str, words: str) -> None:
    """Start the workflow; the words and the id decide how far it gets."""
    given = {"inputs": {"reader": "Accounts", "words": words}, "conversation": id}
    api.post("/workflows/parcels/runs", json=given).raise_for_status()
    if id == "claims-retry":
        return
    [asked] = until(lambda: api.get("/approvals", params={"conversation": id}).json()["items"])
    if id != "claims-wait":
        api.post(f"/approvals/{asked['id']}/decision", json={"decision": {"type": "approve"}})
        until(lambda: api.get(f"/conversations/{id}").json()["status"] in ("completed", "failed"))


FATES = {
    "claims-done": "please",
    "claims-undone": "please, fail",
    "claims-wait": "please",
    "claims-retry": "please, later",
}
"""Runs of the workflow, and the words that decide what becomes of them."""

FLOWS: dict[str, tuple[str, Callable[[Page], None] | None]] = {
    "workflows": ("/workflows", None),
    "workflow": ("/workflows/parcels", None),
    "workflow-run": ("/runs/claims-done", None),
    "workflow-waits": ("/runs/claims-wait", None),
    "workflow-retries": ("/runs/claims-retry", None),
    "workflow-failed": ("/runs/claims-undone", None),
}


def _shoot(browser: Browser, url: str, name: str, path: str, act: Callable[[Page], None] | None) -> None:
    for look, (theme, size) in LOOKS.items():
        page = browser.new_page(viewport=size, reduced_motion="reduce")
        page.on("pageerror", lambda error: print("error:", error, file=sys.stderr))
        page.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        page.goto(url + path)
        page.wait_for_selector("body:not(:has([aria-busy]))")
        page.wait_for_timeout(300)
        if act is not None:
            act(page)
            page.wait_for_timeout(200)
        page.screenshot(path=OUT / f"{name}-{look}.png")
        page.context.close()


def renew_readme() -> None:
    """Take the pictures of the README again."""
    main(list(README))
    for name, there in README.items():
        shutil.copy(OUT / f"{name}-light.png", Path("docs/screens") / f"{there}.png")


def main(names: list[str]) -> None:
    install_fonts()
    OUT.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for serve, screens in ((_demo, SCREENS), (_operations, OPERATIONS), (_flows, FLOWS)):
            if wanted := [name for name in screens if not names or name in names]:
                with serve(folder) as server:
                    for name in wanted:
                        _shoot(browser, server.url, name, *screens[name])
        browser.close()


if __name__ == "__main__":
    renew_readme() if sys.argv[1:] == ["--readme"] else main(sys.argv[1:])

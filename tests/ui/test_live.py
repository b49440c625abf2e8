"""Pages that lose the server, and many pages at once: nothing is lost, and nothing is shown twice."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from playwright.sync_api import BrowserContext, WebSocketRoute, expect

from tests.databases import empty_file
from tests.server.process import Server, started
from tests.ui.desk import SENTENCE
from tests.ui.people import Person

TEAM = "tests/ui/desk.py:team"


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def test_a_server_that_is_killed_while_a_reply_streams_loses_and_doubles_nothing(
    context: BrowserContext, tmp_path: Path
):
    store, port = f"sqlite:///{empty_file(tmp_path / 'store.db')}?lease=1", free_port()
    page = context.new_page()
    with started(store, "--port", port, team=TEAM) as server:
        person = Person(page, server.url)
        person.begin("Hello there.")
        person.done()
        person.say("Tell me slowly.")
        expect(page.locator(".msg.live")).to_contain_text("One word")
        server.process.kill()
        server.process.wait()
        expect(page.locator("#banner")).to_contain_text("Reconnecting")
        person.say("Are you there?")
        person.reads("Not sent: The server cannot be reached.")
    with started(store, "--port", port, team=TEAM):
        page.get_by_role("button", name="Send again").click()
        expect(page.locator("#banner")).to_be_hidden(timeout=20_000)
        expect(page.locator(".me")).to_have_count(3)
        expect(page.locator(".me.unsent, .me.pending")).to_have_count(0)
        expect(page.locator("#now")).to_contain_text("Answers next", timeout=30_000)
        text = person.log.inner_text()
        assert text.count("One word after another") == 6
        assert [text.count(each) for each in ("Hello there.", "Tell me slowly.", "Are you there?")] == [1, 1, 1]
        shown = person.items()
        page.reload()
        person.done()
        assert person.items() == shown


def test_a_page_that_reconnects_in_the_middle_of_a_reply_shows_it_once(person: Person):
    sockets: list[WebSocketRoute] = []

    def connect(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    person.page.route_web_socket(re.compile("/live$"), connect)
    person.begin("Hello there.")
    person.done()
    person.say("Tell me slowly.")
    reply = person.page.locator(".msg.live")
    expect(reply).to_contain_text("so that a reader")
    before = len(sockets)
    sockets[-1].close()
    expect(reply).to_contain_text(re.compile("written down. One word after.* written down. One word"))
    assert len(sockets) > before
    text = reply.inner_text()
    assert (SENTENCE * 6).startswith(text.split("\n")[-1].strip())


def test_nine_tabs_read_one_conversation(person: Person, server: Server, context: BrowserContext):
    id = person.begin("Hello there.")
    person.done()
    tabs = [Person(context.new_page(), server.url) for _ in range(8)]
    for each in tabs:
        each.open(f"/chat/{id}")
        each.reads("Hello.")
    person.say("I was charged twice for order 1042.")
    for each in (person, *tabs):
        each.reads("Routed to Billing")
        expect(each.request()).to_be_visible()
    person.request().get_by_role("button", name="Approve").click()
    for each in (person, *tabs):
        each.done()
    assert all(each.items() == person.items() for each in tabs)

"""Events over HTTP: CloudEvents that the official SDK reads and writes, and signatures that cannot be forged."""

import json
from collections.abc import AsyncIterator, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

from changeover import Agent, Team
from changeover.bus import Subscription, Webhook
from changeover.bus.cloud_event import binary, received, structured
from changeover.bus.event import BusEvent
from changeover.bus.signature import checked_signature, signed
from changeover.errors import KeyConflict, MisconfiguredError, SignatureRefused
from changeover.testing import ManualClock, ScriptedModel
from tests.public_api import soon

DATA = {"severity": 9, "summary": 'näh, "50 %" more', "list": [1, None, True]}
EVENT = BusEvent(
    id="e1",
    type="security.alert",
    data=DATA,
    source="/sensors/7",
    subject="dööר 4",
    at=1.9e9,
    attributes={"zone": "a b"},
)
NOW = 1.9e9


@pytest.mark.parametrize("write", [structured, binary], ids=["structured", "binary"])
def test_the_official_sdk_reads_what_is_written(write: Callable[..., tuple[dict[str, str], bytes]]):
    headers, body = write(EVENT, "desk")
    read = from_http_event(HTTPMessage(headers, body))
    told = {name: read.get_extension(name) for name in ("zone",)}
    assert (read.get_id(), read.get_type(), read.get_source()) == ("e1", "security.alert", "/sensors/7")
    assert (read.get_subject(), read.get_time().timestamp(), told) == ("dööר 4", 1.9e9, {"zone": "a b"})  # type: ignore[union-attr]
    assert read.get_data() == DATA


@pytest.mark.parametrize("write", [to_structured_event, to_binary_event], ids=["structured", "binary"])
def test_what_the_official_sdk_writes_is_read(write: Callable[..., HTTPMessage]):
    attributes = {"id": "x-1", "source": "/till/3", "type": "order.paid", "subject": "größer", "tenant": "blue"}
    sent = write(CloudEvent({**attributes, "specversion": "1.0", "datacontenttype": "application/json"}, DATA))
    found = received(dict(sent.headers), sent.body if isinstance(sent.body, bytes) else str(sent.body).encode())
    assert (found.type, found.source, found.subject, found.data) == ("order.paid", "/till/3", "größer", DATA)
    assert found.key == "/till/3 x-1"
    assert (found.attributes["tenant"], found.attributes["originid"]) == ("blue", "x-1")


@pytest.mark.parametrize("write", [structured, binary], ids=["structured", "binary"])
def test_what_is_written_is_read_again(write: Callable[..., tuple[dict[str, str], bytes]]):
    found = received(*write(EVENT, "desk"))
    assert (found.type, found.source, found.subject, found.data) == (EVENT.type, EVENT.source, EVENT.subject, DATA)


STRUCTURED = {"content-type": "application/cloudevents+json"}
WHOLE = {"specversion": "1.0", "id": "1", "source": "/s", "type": "a.b"}


@pytest.mark.parametrize(
    ("headers", "body", "fault"),
    [
        ({}, b"{}", "it has neither the content type application/cloudevents+json nor the headers ce-id"),
        (STRUCTURED, b"{", "its body cannot be read as JSON"),
        (STRUCTURED, b"\xff", "its body cannot be read as JSON"),
        (STRUCTURED, b"[]", "its body is not a JSON object"),
        (STRUCTURED, b"{}", "it lacks specversion, id, source, type"),
        (STRUCTURED, json.dumps({**WHOLE, "id": 5}).encode(), "id cannot be the name of an attribute, or has a value"),
        (STRUCTURED, json.dumps({**WHOLE, "Big": 5}).encode(), "Big cannot be the name of an attribute"),
        (STRUCTURED, json.dumps({**WHOLE, "zone": {}}).encode(), "zone cannot be the name of an attribute"),
        (STRUCTURED, json.dumps({**WHOLE, "specversion": "0.3"}).encode(), "its specversion is '0.3'"),
        (STRUCTURED, json.dumps({**WHOLE, "data": 1, "data_base64": "eA=="}).encode(), "it has both data and"),
        ({"content-type": "application/cloudevents-batch+json"}, b"[]", "it is a batch"),
        ({"ce-id": "1", "content-type": "application/json"}, b"{", "its data cannot be read as JSON"),
        ({"ce-id": "1"}, b"", "it lacks specversion, source, type"),
    ],
)
def test_a_request_that_is_no_cloud_event_is_refused_with_its_fault(headers: dict[str, str], body: bytes, fault: str):
    with pytest.raises(MisconfiguredError) as refused:
        received(headers, body)
    assert fault in str(refused.value)


def test_data_that_is_no_json_is_a_text():
    headers = {f"CE-{name}": value for name, value in WHOLE.items()}
    assert received({**headers, "Content-Type": "text/plain; charset=utf-8"}, "grün".encode()).data == "grün"
    assert received({**headers, "Content-Type": "image/png"}, b"\x89PNG").data == "iVBORw=="


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_a_signature_is_that_of_standard_webhooks():
    # The test vector of the specification's own libraries.
    body = b'{"test": 2432232314}'
    headers = signed(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330.0, {}, body)
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def _signed(write: Any = structured, secret: str = SECRET, at: float = NOW) -> tuple[dict[str, str], bytes]:
    headers, body = write(EVENT, "desk")
    return {**headers, **signed(secret, "e1:x", at, headers, body)}, body


@pytest.mark.parametrize("write", [structured, binary], ids=["structured", "binary"])
def test_a_right_signature_passes_also_beside_another_one(write: Any):
    headers, body = _signed(write)
    assert checked_signature(SECRET, NOW, headers, body).startswith("v1,")
    both = {**headers, "webhook-signature": f"v1,other {headers['webhook-signature']}"}
    checked_signature(SECRET, NOW + 299, both, body)


@pytest.mark.parametrize(
    ("header", "value", "fault"),
    [
        ("webhook-id", "other", "does not fit"),
        ("webhook-timestamp", "1900000001", "does not fit"),
        ("webhook-signature", "v1,AAAA", "does not fit"),
        ("webhook-signature", "v1,ä", "does not fit"),
        ("ce-type", "order.paid", "does not fit"),
        ("ce-more", "x", "does not fit"),
        ("webhook-signature", "", "lacks the header webhook-signature"),
        ("webhook-timestamp", "1899999699", "not within 300 s"),
        ("webhook-timestamp", "nan", "not within 300 s"),
    ],
)
def test_a_signature_that_does_not_fit_is_refused(header: str, value: str, fault: str):
    headers, body = _signed(binary)
    with pytest.raises(SignatureRefused, match=fault):
        checked_signature(SECRET, NOW, {**headers, header: value}, body)


def test_a_body_that_was_changed_is_refused():
    headers, body = _signed()
    with pytest.raises(SignatureRefused, match="does not fit"):
        checked_signature(SECRET, NOW, headers, body + b" ")


def test_old_signatures_and_those_with_another_secret_are_refused():
    with pytest.raises(SignatureRefused, match="not within 300 s"):
        checked_signature(SECRET, NOW + 301, *_signed())
    with pytest.raises(SignatureRefused, match="does not fit"):
        checked_signature("another", NOW, *_signed())
    with pytest.raises(SignatureRefused, match="no secret"):
        checked_signature("", NOW, *_signed(secret=""))


async def test_a_request_is_published_once_and_a_replayed_one_is_refused(any_store: str | None):
    clock = ManualClock(NOW)
    async with Team([Agent("a")], model=ScriptedModel({}), store=any_store, clock=clock) as team:
        id = await team.bus.receive(*_signed(), secret=SECRET)
        with pytest.raises(SignatureRefused, match="the signature was used before"):
            await team.bus.receive(*_signed(), secret=SECRET)
        # The sender did not hear the answer, and signs anew.
        assert await team.bus.receive(*_signed(at=NOW + 1), secret=SECRET) == id
        with pytest.raises(SignatureRefused):
            await team.bus.receive(*structured(EVENT, "desk"), secret=SECRET)
        assert [event.id for event in await team.bus.events()] == [id]
        with pytest.raises(KeyConflict):
            await team.bus.receive(*structured(BusEvent(id="e1", type="other", source="/sensors/7"), "desk"))


class Endpoint:
    """A server that keeps what it is sent; it answers with these statuses, then with 200."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                kept.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(kept.statuses.pop(0) if kept.statuses else 200)
                self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *about: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    server = Endpoint()
    yield server
    server.close()


async def test_a_webhook_gets_signed_events_and_is_tried_again(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    endpoint.statuses = [503, 302]
    clock = ManualClock(NOW)
    to = Webhook(endpoint.url, secret="${HOOK_SECRET}", allow_private=True)
    team = Team([Agent("a")], model=ScriptedModel({}), clock=clock, subscriptions=[Subscription("*", to=to)])
    async with team:
        id = await team.bus.publish("order.paid", {"order": 7}, source="/till")

        async def over() -> bool:
            await clock.advance(1.0)
            return (await team.bus.event(id)).deliveries[0].state == "done"  # type: ignore[union-attr]

        assert await soon(over, 20.0)
    assert len(endpoint.requests) == 3
    ids = {headers["webhook-id"] for headers, _ in endpoint.requests}
    assert len(ids) == 1, "the receiver recognizes a repetition"
    headers, body = endpoint.requests[-1]
    checked_signature(SECRET, clock.now(), headers, body)
    read = from_http_event(HTTPMessage(headers, body))
    assert (read.get_id(), read.get_type(), read.get_data()) == (id, "order.paid", {"order": 7})


@pytest.mark.parametrize(
    ("to", "error"),
    [
        (Webhook("http://127.0.0.1:9/hook"), "leads to a private or reserved address"),
        ("http://localhost:9/hook", "leads to a private or reserved address"),
        (Webhook("http://127.0.0.1:9/hook", secret="${NO_SUCH_SECRET}"), "the environment variable NO_SUCH_SECRET"),
        (Webhook("http://127.0.0.1:9/hook", allow_private=True), "could not be reached or broke off"),
    ],
)
async def test_an_address_that_must_or_can_not_be_reached_leaves_a_dead_letter(to: Any, error: str):
    subscription = Subscription("*", to=to, tries=1, name="hook")
    async with Team([Agent("a")], model=ScriptedModel({}), subscriptions=[subscription]) as team:
        await team.bus.publish("order.paid")

        async def dead() -> bool:
            return bool(await team.bus.dead_letters())

        assert await soon(dead, 20.0)
        [letter] = await team.bus.dead_letters()
        assert error in letter.error


@pytest.mark.parametrize(
    ("to", "fault"),
    [
        (Webhook("ftp://example.org"), "has a webhook that has the address 'ftp://example.org'; give one with http"),
        (Webhook("https://"), "has a webhook that has the address 'https://'"),
        (Webhook("https://example.org", secret="plain"), "has a webhook that has a literal secret"),
        (Webhook("https://example.org", timeout=0), "has a webhook that has timeout=0"),
    ],
)
def test_a_webhook_that_cannot_work_is_refused_with_its_fault(to: Webhook, fault: str):
    with pytest.raises(MisconfiguredError) as refused:
        Team([Agent("a")], model=ScriptedModel({}), subscriptions=[Subscription("*", to=to)])
    assert fault in str(refused.value)

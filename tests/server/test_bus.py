"""Events and schedules over HTTP: CloudEvents of the official SDK, signatures, what became of events, and schedules."""

import asyncio
import hmac
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from threading import Event
from typing import Any

import httpx2 as httpx
import pytest
from cloudevents.core.bindings.http import HTTPMessage, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

from changeover import Agent, Team
from changeover.bus import BusEvent, Schedule, Subscription
from changeover.relay.ports.tokens import Audited
from changeover.server import Settings, create_app
from changeover.testing import ScriptedModel, says
from tests.server.door import Door

SECRET = "the-secret-of-the-webhooks-0123456789"
FORMS = {"structured": to_structured_event, "binary": to_binary_event}

LINE = Event()


def pack(event: BusEvent) -> None:
    if not LINE.is_set():
        raise OSError(f"no line for {event.data['order']}")


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    """A server with a secret for webhooks. Alerts go to an agent, orders to a function that fails without a line."""
    LINE.clear()
    team = Team(
        [Agent("security")],
        model=ScriptedModel(lambda agent, messages, tools: says("No attack.")),
        subscriptions=[
            Subscription("security.*", to="security", where="data.severity >= `7`", task="Look at {data.summary}"),
            Subscription("order.*", to=pack, name="packing", tries=2, backoff=0.01),
        ],
        schedules=[Schedule("weekly", cron="0 7 * * 1", timezone="Europe/Berlin", start="security", task="Report.")],
    )
    async with team:
        found = Door(create_app(team, Settings(webhook_secret=SECRET, rate=0)), team)
        for role in ("viewer", "operator"):
            await found.issue(role, role)
        await found.issue("all", "viewer", everything=True)
        yield found


def alert(id: str = "a-1", **attributes: Any) -> CloudEvent:
    told = {"id": id, "source": "/monitors/Köln 3", "type": "security.alert", "datacontenttype": "application/json"}
    return CloudEvent({**told, "specversion": "1.0", **attributes}, {"severity": 9, "summary": "zwei Länder"})


def signature(message: HTTPMessage, at: float, secret: str = SECRET, id: str = "msg-1") -> dict[str, str]:
    """The headers of Standard Webhooks, made without our code; attributes in headers are signed before the body."""
    named = sorted((name.lower(), value) for name, value in message.headers.items() if name.lower().startswith("ce-"))
    attributes = "".join(f"{name}:{value}\n" for name, value in named).encode()
    content = f"{id}.{at:.0f}.".encode() + attributes + message.body
    digest = b64encode(hmac.new(secret.encode(), content, sha256).digest()).decode()
    return {"webhook-id": id, "webhook-timestamp": f"{at:.0f}", "webhook-signature": f"v1,{digest}"}


async def sent(client: httpx.AsyncClient, message: HTTPMessage, more: dict[str, str] | None = None) -> httpx.Response:
    return await client.post("/bus", content=message.body, headers={**message.headers, **(more or {})})


async def settled(client: httpx.AsyncClient, id: str, state: str) -> dict[str, Any]:
    """The event, once all of its deliveries are in this state."""
    async with asyncio.timeout(20):
        while True:
            event: dict[str, Any] = (await client.get(f"/bus/events/{id}")).raise_for_status().json()
            if all(each["state"] == state for each in event["deliveries"]):
                return event
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("form", FORMS)
async def test_a_cloudevent_of_the_sdk_starts_a_handoff_once(door: Door, form: str):
    message = FORMS[form](alert(subject="login", severitytext="high"))
    async with door.client("operator") as client, door.client("all") as reader:
        answers = [await sent(client, message) for _ in range(3)]
        assert [each.status_code for each in answers] == [201] * 3
        [id] = {each.json()["ids"][0] for each in answers}
        event = await settled(reader, id, "done")
        assert (event["type"], event["source"], event["subject"]) == ("security.alert", "/monitors/Köln 3", "login")
        assert event["data"] == {"severity": 9, "summary": "zwei Länder"}
        assert (event["attributes"]["originid"], event["attributes"]["severitytext"]) == ("a-1", "high")
        [delivery] = event["deliveries"]
        handoffs = (await reader.get(f"/conversations/{delivery['started']}/handoffs")).json()["items"]
        assert [(each["receiver"], each["message"]) for each in handoffs] == [("security", "Look at zwei Länder")]
        assert len((await reader.get("/bus/events")).json()["items"]) == 1


@pytest.mark.parametrize("form", FORMS)
async def test_a_webhook_needs_no_token_if_it_signs_and_a_replay_is_refused(door: Door, form: str):
    message = FORMS[form](alert())
    signed = signature(message, time.time())
    async with door.client() as client:
        assert (await sent(client, message, signed)).status_code == 201
        again = await sent(client, message, signed)
        assert (again.status_code, again.headers["content-type"]) == (401, "application/problem+json")
        assert again.json()["type"] == "urn:changeover:problem:signature-refused"
        assert "used before" in again.json()["detail"]
        resent = signature(message, time.time() + 1, id="msg-2")
        assert (await sent(client, message, resent)).status_code == 201  # a sender that got no answer signs again
    assert len(await door.team.bus.events()) == 1


WRONG: dict[str, Callable[[HTTPMessage], dict[str, str]]] = {
    "missing": lambda message: {},
    "another secret": lambda message: signature(message, time.time(), secret="another-secret-0123456789"),
    "another body": lambda message: signature(HTTPMessage(message.headers, message.body + b" "), time.time()),
    "another attribute": lambda message: signature(
        HTTPMessage({**message.headers, "ce-type": "order.paid"}, message.body), time.time()
    ),
    "old": lambda message: signature(message, time.time() - 600),
    "of tomorrow": lambda message: signature(message, time.time() + 86_400),
    "a later time than it signs": lambda message: {
        **signature(message, time.time() - 600),
        "webhook-timestamp": f"{time.time():.0f}",
    },
    "no base64": lambda message: {**signature(message, time.time()), "webhook-signature": "v1,%%%"},
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_or_old_signature_is_refused_and_nothing_is_published(door: Door, wrong: str):
    message = to_binary_event(alert())
    async with door.client() as client:
        answer = await sent(client, message, WRONG[wrong](message))
    assert (answer.status_code, answer.json()["type"]) == (401, "urn:changeover:problem:signature-refused"), wrong
    assert await door.team.bus.events() == []


async def test_without_a_token_nothing_but_the_signed_route_opens(door: Door):
    message = to_structured_event(alert())
    signed = signature(message, time.time())
    async with door.client() as client:
        for path in ("/bus/events", "/schedules/weekly/run"):
            assert (await client.post(path, content=message.body, headers=signed)).status_code == 401
        assert (await client.get("/bus", headers=signed)).status_code == 401
    async with door.client("viewer") as client:
        assert (await sent(client, message, signed)).status_code == 403  # a token that is shown counts


async def test_a_batch_is_published_whole_or_not_at_all(door: Door):
    events = [{"specversion": "1.0", "id": str(n), "source": "till", "type": "stock.low", "data": n} for n in range(3)]
    headers = {"content-type": "application/cloudevents-batch+json"}
    async with door.client("operator", **headers) as client:
        bad = await client.post("/bus", json=[*events, {"specversion": "1.0", "id": "4"}], headers=headers)
        assert (bad.status_code, await door.team.bus.events()) == (422, [])
        answer = await client.post("/bus", json=events, headers=headers)
        assert (answer.status_code, len(answer.json()["ids"])) == (201, 3)
    assert [each.data for each in await door.team.bus.events()] == [2, 1, 0]


async def test_what_is_no_cloudevent_gets_a_problem_that_says_why(door: Door):
    async with door.client("operator") as client:
        for headers, body, why in (
            ({"content-type": "application/cloudevents+json"}, b"{", "JSON"),
            ({"content-type": "application/cloudevents+json"}, b'{"specversion": "1.0"}', "lacks id, source, type"),
            ({"content-type": "application/json"}, b"{}", "ce-id"),
            ({"ce-id": "1", "ce-source": "s", "ce-type": "t", "ce-specversion": "0.3"}, b"", "0.3"),
        ):
            answer = await client.post("/bus", content=body, headers=headers)
            assert (answer.status_code, why in answer.json()["detail"]) == (422, True), answer.text


async def test_plain_json_is_published_once_per_key(door: Door):
    async with door.client("operator") as client:
        event, key = {"type": "stock.low", "data": {"left": 2}}, {"Idempotency-Key": "k-1"}
        first, second = [await client.post("/bus/events", json=event, headers=key) for _ in range(2)]
        assert first.json() == second.json()
        other = await client.post("/bus/events", json={**event, "data": 3}, headers=key)
        assert (other.status_code, other.json()["type"]) == (409, "urn:changeover:problem:key-conflict")
        assert (await client.post("/bus/events", json={"type": "not a type"})).status_code == 422


async def test_a_dead_letter_is_listed_and_sent_again(door: Door):
    async with door.client("operator") as client, door.client("all") as reader:
        [id] = (await client.post("/bus/events", json={"type": "order.paid", "data": {"order": "7"}})).json()["ids"]
        event = await settled(reader, id, "dead")
        assert event["deliveries"][0]["error"] == "OSError: no line for 7"
        [letter] = (await reader.get("/bus/dead-letters")).json()["items"]
        assert (letter["event"], letter["subscriber"], letter["attempts"]) == (id, "packing", 2)
        bus = (await reader.get("/bus")).json()
        packing = bus["subscribers"][1]
        assert (packing["id"], packing["kind"], packing["dead"]) == ("packing", "function", 1)
        assert (await reader.post(f"/bus/events/{id}/resend", json={})).status_code == 403
        LINE.set()
        answer = await client.post(f"/bus/events/{id}/resend", json={"subscriber": "packing"})
        assert answer.json() == {"resent": 1}
        await settled(reader, id, "done")
        nothing = await client.post(f"/bus/events/{id}/resend", json={})
        assert (nothing.status_code, nothing.json()["type"]) == (409, "urn:changeover:problem:not-dead")
        assert (await client.post("/bus/events/nothing/resend", json={})).status_code == 404


async def test_who_sees_the_work_of_one_user_gets_no_content_of_events(door: Door):
    async with door.client("operator") as client, door.client("all") as reader:
        [id] = (await client.post("/bus/events", json={"type": "order.paid", "data": {"order": "7"}})).json()["ids"]
        await settled(reader, id, "dead")
        event = (await client.get(f"/bus/events/{id}")).json()
        assert (event["type"], event["data"]) == ("order.paid", None)
        told = (await client.get("/bus/events")).text + (await client.get("/bus")).text
        assert "no line" not in told
        assert "hidden" in told


async def test_events_are_listed_in_pages_and_by_type(door: Door):
    for number in range(5):
        await door.team.bus.publish("stock.low" if number % 2 else "stock.high", number)
    async with door.client("all") as reader:
        first = (await reader.get("/bus/events", params={"limit": 3})).json()
        second = (await reader.get("/bus/events", params={"limit": 3, "cursor": first["next"]})).json()
        assert [each["data"] for each in (*first["items"], *second["items"])] == [4, 3, 2, 1, 0]
        assert second["next"] is None
        low = (await reader.get("/bus/events", params={"type": "stock.low"})).json()["items"]
        assert [each["data"] for each in low] == [3, 1]


async def test_a_schedule_is_shown_run_paused_and_resumed(door: Door):
    async with door.client("operator") as client, door.client("all") as reader:
        [shown] = (await reader.get("/schedules")).json()["items"]
        assert (shown["name"], shown["start"], shown["paused"], len(shown["next_runs"])) == (
            "weekly", "security", False, 1,
        )  # fmt: skip
        started = await client.post("/schedules/weekly/run")
        event = await settled(reader, started.json()["event"], "done")
        assert (event["type"], event["deliveries"][0]["started"] != "") == ("changeover.schedule.due", True)
        assert (await reader.post("/schedules/weekly/pause")).status_code == 403
        paused = (await client.post("/schedules/weekly/pause")).json()
        assert (paused["paused"], paused["next_runs"]) == (True, [])
        resumed = (await client.post("/schedules/weekly/resume")).json()
        assert (resumed["paused"], len(resumed["next_runs"])) == (False, 5)
        missing = await client.post("/schedules/daily/run")
        assert (missing.status_code, missing.json()["type"]) == (404, "urn:changeover:problem:schedule-not-found")
        assert "weekly" in missing.json()["detail"]
    kinds = [each.action for each in await door.team.log.lists.listed(Audited, limit=20)]
    assert {"schedule.run", "schedule.pause", "schedule.resume"} <= set(kinds)

"""What a server refuses before a route sees it, and what it never tells."""

import asyncio
import gzip
import re
from collections.abc import AsyncIterator

import httpx2 as httpx
import msgspec
import pytest
import pytest_asyncio
import uvicorn

from changeover.errors import StoreUnavailable
from changeover.relay.ports.tokens import digest_of
from changeover.server import Settings
from changeover.server.access import ROUTES, Role
from changeover.server.process import PatientProtocol, Process
from tests.server.door import Door, calling, issue_all, opened
from tests.server.test_access import filled

OPEN = Settings(open_access=True)


@pytest_asyncio.fixture
async def door() -> AsyncIterator[Door]:
    async with opened(OPEN) as found:
        yield found


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example"])
async def test_a_name_that_is_not_the_servers_is_refused(door: Door, host: str):
    async with door.client(Host=host) as client:
        answer = await client.get("/me")
        assert (answer.status_code, answer.json()["type"]) == (421, "urn:changeover:problem:wrong-host")


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1", "[::1]:8765", "192.0.2.7:80"])
async def test_loopback_names_and_plain_addresses_are_answered(door: Door, host: str):
    async with door.client(Host=host) as client:
        assert (await client.get("/me")).status_code == 200


async def test_a_page_of_another_origin_cannot_change_anything(door: Door):
    for origin in ("http://evil.example", "null", "http://localhost.evil.example", "https://localhost:1"):
        async with door.client(Origin=origin) as client:
            answer = await client.post("/conversations", json={"text": "hello"})
            assert (answer.status_code, answer.json()["type"]) == (403, "urn:changeover:problem:wrong-origin")
    assert (await door.client().get("/conversations")).json()["items"] == []


async def test_a_page_sends_its_csrf_token_with_every_change(door: Door):
    async with door.client(Origin="http://localhost") as page:
        refused = await page.post("/conversations", json={"text": "hello"})
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:changeover:problem:csrf")
        cookie = (await page.get("/me")).headers["set-cookie"]
        assert "samesite=strict" in cookie.lower()
        assert "httponly" not in cookie.lower()
        wrong = await page.post("/conversations", json={"text": "hello"}, headers={"X-CSRF-Token": "guessed"})
        assert wrong.status_code == 403
        token = page.cookies["changeover_csrf"]
        fine = await page.post("/conversations", json={"text": "hello"}, headers={"X-CSRF-Token": token})
        assert fine.status_code == 202


async def test_a_page_signs_in_with_a_cookie_that_no_script_reads():
    async with opened() as door:
        await issue_all(door)
        async with door.client(Origin="http://localhost") as page:
            assert (await page.post("/session", json={"token": "wrong"})).status_code == 401
            answer = await page.post("/session", json={"token": door.secrets["operator"]})
            assert answer.json()["role"] == "operator"
            session = next(each for each in answer.headers.get_list("set-cookie") if "session" in each).lower()
            assert "httponly" in session
            assert "samesite=strict" in session
            assert (await page.get("/me")).json()["user"] == "operator"
            assert (await page.post("/conversations", json={"text": "hello"})).status_code == 403
            token = {"X-CSRF-Token": page.cookies["changeover_csrf"]}
            assert (await page.post("/conversations", json={"text": "hello"}, headers=token)).status_code == 202
            assert (await page.delete("/session")).status_code == 204
            assert (await page.get("/me")).status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b'{"text": "\xff"}', 400),
        (b'{"text": 7}', 422),
        (b'{"text": "hello", "unknown": 1}', 422),
        (b"[" * 100_000, 422),
        (b'{"text": "hello", "context": ' + b'{"a":' * 100 + b"1" + b"}" * 101, 422),
        (b'{"text": "hello", "limits": {"max_turns": -1}}', 422),
        (b'{"text": "hello", "files": [{"name": "/etc/passwd"}]}', 422),
        (b'{"text": "\\ud800"}', 422),
        (b'{"text": "hello", "context": {"a": 1e999}}', 400),
    ],
)
async def test_a_body_that_does_not_fit_is_refused_and_nothing_is_recorded(door: Door, body: bytes, status: int):
    async with door.client() as client:
        answer = await client.post("/conversations", content=body)
        assert answer.status_code in (status, 400 if status == 422 else 422), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert (await client.get("/conversations")).json()["items"] == []


async def test_brackets_in_a_text_are_no_depth(door: Door):
    async with door.client() as client:
        assert (await client.post("/conversations", json={"text": '[{"' * 200})).status_code == 202


async def test_a_huge_body_is_refused_by_its_announced_and_by_its_real_size():
    async with opened(Settings(open_access=True, body=1_000)) as door, door.client() as client:

        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 500

        assert (await client.post("/conversations", content=b"x" * 1_001)).status_code == 413
        assert (await client.post("/conversations", content=endless())).status_code == 413


async def test_a_client_that_asks_too_often_has_to_wait():
    async with opened(Settings(open_access=True, rate=0.1, burst=3)) as door, door.client() as client:
        answers = [await client.get("/version") for _ in range(5)]
        assert [each.status_code for each in answers] == [200, 200, 200, 429, 429]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 20


async def test_a_slow_body_and_slow_headers_are_cut_off():
    async with opened(Settings(open_access=True, patience=0.2)) as door:
        patient = type("Patient", (PatientProtocol,), {"patience": 0.2})
        config = uvicorn.Config(door.app, port=0, http=patient, log_config=None, lifespan="off")
        addresses: asyncio.Queue[str] = asyncio.Queue()
        server = Process(config, addresses.put_nowait, door.app.state.live)
        serving = asyncio.create_task(server.serve())
        port = int((await addresses.get()).rpartition(":")[2])
        try:
            head = b"POST /api/v1/conversations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n"
            assert b" 408 " in await said(port, head + b"{")
            assert await said(port, b"GET /api/v1/version HTTP/1.1\r\nHost: loc") == b""
            whole = b"GET /api/v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n"
            assert await said(port, b"GET /api/v1/ver", first=whole) == b""
        finally:
            server.should_exit = True
            await serving


async def said(port: int, request: bytes, first: bytes = b"") -> bytes:
    """All that a server says to a client that then falls silent, until the server hangs up; after a first answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(4):  # an idle connection is closed after five seconds in any case
            if first:
                writer.write(first)
                assert b" 200 " in await reader.readuntil(b"}")
            writer.write(request)
            return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


class Broken:
    """A team whose store fails."""

    name = "broken"

    def __init__(self, error: Exception) -> None:
        self._error = error

    @property
    def log(self) -> object:
        raise self._error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("password=hunter2 at /srv/app.py"), 500),
        (StoreUnavailable("cannot connect to db.internal: password=hunter2"), 503),
    ],
)
async def test_a_failure_tells_the_client_nothing_but_a_request_id(door: Door, error: Exception, status: int):
    door.app.state.team = Broken(error)
    async with door.client() as client:
        answer = await client.get("/conversations")
        assert answer.status_code == status
        assert answer.json()["instance"] == answer.headers["x-request-id"]
        assert not re.search("hunter2|Traceback|/srv|RuntimeError|db.internal", answer.text)
        assert ("retry-after" in answer.headers) is (status == 503)


async def test_the_log_names_requests_and_users_and_no_secret(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "changeover.server")
    async with opened() as door:
        await issue_all(door)
        async with door.client("viewer") as client:
            await client.get("/conversations", params={"text": "private"})
            assert (await client.get("/conversations/nothing")).status_code == 404
            door.app.state.team = Broken(RuntimeError(f"Bearer {door.secrets['viewer']} at postgresql://a:b@db"))
            await client.get("/conversations")
    [first, missing, failed, last] = [each for each in caplog.records if each.name == "changeover.server"]
    assert first.facts | {"ms": 0, "request": ""} == {  # type: ignore[attr-defined]
        "method": "GET",
        "path": "/api/v1/conversations",
        "status": 200,
        "ms": 0,
        "user": "viewer",
        "request": "",
    }
    assert (missing.levelname, last.levelname, failed.levelname) == ("INFO", "INFO", "ERROR")
    assert "RuntimeError" in failed.getMessage()
    assert not re.search(r"chg_|private|a:b@", caplog.text)


async def test_no_answer_holds_a_secret_a_claim_or_a_stack_trace():
    async with opened() as door:
        await issue_all(door)
        secrets, texts = list(door.secrets.values()), []
        digests = [digest_of(each) for each in secrets]
        async with door.client("admin") as admin:
            await admin.post("/conversations", params={"wait": True}, json={"id": "c", "text": "research it"})
            [claimed] = (await admin.post("/claims", json={"agent": "research"})).json()
            for route, role in ROUTES.items():
                method, path = route.split(" ")
                if "stream" in path or method == "WS" or role is Role.PUBLIC:
                    continue
                for id in (
                    "c",
                    claimed["ticket"]["id"],
                    "nothing",
                    "%00",
                    "..%2f..%2fetc%2fpasswd",
                    "'; DROP TABLE x; --",
                ):
                    answer = await admin.request(method, filled(path).replace("nothing", id), json={"claim": "x"})
                    assert answer.status_code < 500 or answer.status_code == 504, (method, path, id, answer.text)
                    texts.append(answer.text)
            tickets = await admin.post("/store/work.tickets", content=msgspec.msgpack.encode({"ticket": None}))
            assert (tickets.status_code, claimed["ticket"]["id"] in tickets.text) == (200, True)
            texts.append(tickets.text)
        whole = "\n".join(texts)
        forbidden = [*secrets, *digests, claimed["claim"], claimed["claim"].partition("~")[2], "Traceback", ".py"]
        assert [each for each in forbidden if each in whole] == []


async def test_every_answer_has_the_headers_that_browsers_heed(door: Door):
    async with door.client() as client:
        for path in ("/version", "/nowhere", "/docs"):
            headers = (await client.get(path)).headers
            assert "script-src 'self'" in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert re.fullmatch("[0-9a-f]{16}", headers["x-request-id"])


async def test_a_file_is_saved_and_never_shown_as_a_page(door: Door):
    async with door.client() as client:
        page = {"name": 'a"\r\n.html', "media_type": "text/html", "data": "PHNjcmlwdD4="}
        said = {"id": "c", "text": "hello", "files": [page]}
        assert (await client.post("/conversations", params={"wait": True}, json=said)).status_code == 200
        [file] = (await client.get("/conversations/c/files")).json()["items"]
        assert (file["size"], file["media_type"]) == (8, "text/html")
        answer = await client.get(f"/conversations/c/files/{file['seq']}/{file['index']}")
        assert answer.content == b"<script>"
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''a%22%0D%0A.html")
        assert "PHNjcmlwdD4" not in (await client.get("/conversations/c/events")).text
        assert (await client.get(f"/conversations/c/files/{file['seq']}/1")).status_code == 404


async def test_answers_are_compressed_if_the_client_reads_that(door: Door):
    async with (
        door.client() as client,
        client.stream("GET", "/openapi.json", headers={"Accept-Encoding": "gzip"}) as got,
    ):
        raw = b"".join([part async for part in got.aiter_raw()])
    assert gzip.decompress(raw).startswith(b'{"openapi":"3.1')


async def test_pages_of_other_origins_are_answered_only_if_they_are_listed():
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    listed = Settings(open_access=True, origins=("https://desk.example",))
    async with opened(listed) as door:
        async with calling(door.app, Origin="https://desk.example") as page:
            assert (await page.options("/conversations", headers=ask)).status_code == 200
            answer = await page.get("/version")
            assert answer.headers["access-control-allow-origin"] == "https://desk.example"
        async with calling(door.app, Origin="https://other.example") as page:
            assert "access-control-allow-origin" not in (await page.get("/version")).headers
    async with opened(OPEN) as door, calling(door.app, Origin="https://desk.example") as page:
        assert "access-control-allow-origin" not in (await page.get("/version")).headers


async def test_the_docs_page_asks_no_other_host(door: Door):
    async with door.client() as client:
        page = (await client.get("/docs")).text
        assert not re.search(r"https?:|//", page.replace("<!doctype", ""))
        for name in re.findall(r'(?:src|href)="([^"]+)"', page):
            answer: httpx.Response = await client.get(f"/{name}")
            assert (answer.status_code, len(answer.content) > 100) == (200, True)

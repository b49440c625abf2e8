"""HTTP tools against a real server: where parameters go, credentials, redirects, retries, and answers of every kind."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from changeover import Agent, Team, Variable
from changeover.errors import MisconfiguredError
from changeover.messages import File
from changeover.models.files import attached
from changeover.relay.ports.world import ToolOutcome
from changeover.testing import ScriptedModel
from changeover.toolkits.connections import Connections
from changeover.toolkits.toolkit import AgentToolkit
from changeover.tools import ApiKey, Basic, Bearer, HttpTool
from changeover.tools.run_context import current_trace
from tests.toolkits.function_call import CONTEXT
from tests.toolkits.http_server import PNG, Seen, Server, serving

ORDER = Variable("order")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def server(shared_server: Server) -> Server:
    shared_server.seen.clear()
    return shared_server


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    connections = Connections(attached)
    yield connections
    await connections.close()


class Caller:
    """Calls one HTTP tool of a server."""

    def __init__(self, server: Server, connections: Connections) -> None:
        self._server, self._connections = server, connections

    async def call(self, path: str, args: dict[str, Any] | None = None, **options: Any) -> ToolOutcome:
        options = {"allow_private": True, **options}
        tool = HttpTool("act", url=self._server.url + path, **options)
        toolkit = AgentToolkit([tool], backoff=0.001, connections=self._connections)
        assert toolkit.faults == []
        if wrong := toolkit.misfit("act", args or {}, CONTEXT):
            return ToolOutcome(wrong, ok=False)
        return await toolkit.call("act", args or {}, CONTEXT)

    async def sent(self, path: str, args: dict[str, Any] | None = None, **options: Any) -> Seen:
        """What the server saw of one call."""
        outcome = await self.call(path, args, **options)
        assert outcome.ok, outcome.text
        return self._server.seen[-1]


@pytest.fixture
def caller(server: Server, connections: Connections) -> Caller:
    return Caller(server, connections)


async def test_a_request_names_the_span_of_its_call(caller: Caller):
    assert "traceparent" not in (await caller.sent("/orders")).headers
    before = current_trace.set(TRACE)
    seen = await caller.sent("/orders")
    current_trace.reset(before)
    assert seen.headers["traceparent"] == TRACE


async def test_a_parameter_goes_into_path_query_header_and_body(caller: Caller):
    seen = await caller.sent(
        "/orders/{order}",
        {"order": "a/b ?", "count": 3, "tags": ["x", "y"], "note": 'says "hi"'},
        method="PUT",
        parameters=[ORDER, Variable("count", "integer"), Variable("tags", "array"), Variable("note")],
        query={"n": "{count}", "tag": "{tags}", "fixed": 1},
        headers={"X-Order": "order {count}"},
        body={"count": "{count}", "deep": [{"note": "{note}", "text": "n={count}"}]},
    )
    assert (seen.method, seen.path) == ("PUT", "/orders/a%2Fb%20%3F")
    assert seen.query == {"n": ["3"], "tag": ["x", "y"], "fixed": ["1"]}
    assert seen.headers["x-order"] == "order 3"
    assert json.loads(seen.body) == {"count": 3, "deep": [{"note": 'says "hi"', "text": "n=3"}]}
    assert seen.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("method", "place"), [("GET", "query"), ("DELETE", "query"), ("POST", "body"), ("PATCH", "body")]
)
async def test_a_parameter_that_stands_nowhere_goes_into_the_query_or_the_body(caller: Caller, method: str, place: str):
    seen = await caller.sent("/echo", {"order": "7"}, method=method, parameters=[ORDER])
    assert (seen.query if place == "query" else json.loads(seen.body))["order"] in ("7", ["7"])


async def test_what_depends_on_an_optional_parameter_is_left_out_with_it(caller: Caller):
    options: dict[str, Any] = {
        "parameters": [Variable("page", "integer", required=False)],
        "query": {"page": "{page}", "all": "yes"},
        "headers": {"X-Page": "page {page}"},
    }
    assert (await caller.sent("/echo", {}, **options)).query == {"all": ["yes"]}
    assert "x-page" not in (await caller.sent("/echo", {"page": None}, **options)).headers
    assert (await caller.sent("/echo", {"page": 2}, **options)).query == {"page": ["2"], "all": ["yes"]}


async def test_a_mapping_is_sent_as_a_form_if_the_declaration_says_so(caller: Caller):
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    seen = await caller.sent("/echo", {"order": "a b&c"}, method="POST", parameters=[ORDER], headers=headers)
    assert seen.body == "order=a+b%26c"


@pytest.mark.parametrize("order", ["..", ".", ""])
async def test_an_argument_cannot_change_the_path(caller: Caller, server: Server, order: str):
    outcome = await caller.call("/orders/{order}/items", {"order": order}, parameters=[ORDER])
    assert outcome.text == "the arguments of act do not fit: order: it must not be empty, '.' or '..'"
    assert server.seen == []


async def test_an_argument_cannot_add_a_header(caller: Caller, server: Server):
    outcome = await caller.call(
        "/echo", {"order": "1\r\nX-Evil: 1"}, parameters=[ORDER], headers={"X-Order": "{order}"}
    )
    assert "printable ASCII" in outcome.text
    assert server.seen == []


async def test_an_argument_cannot_refer_to_a_secret(caller: Caller, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PLANTED", "s3cret-value")
    seen = await caller.sent("/echo", {"order": "${PLANTED}"}, parameters=[ORDER], headers={"X-Order": "{order}"})
    assert seen.headers["x-order"] == "${PLANTED}"


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        (Bearer("${PLANTED}"), "authorization", "Bearer s3cret-value"),
        (Basic("ana", "${PLANTED}"), "authorization", "Basic YW5hOnMzY3JldC12YWx1ZQ=="),
        (ApiKey("X-Key", "${PLANTED}"), "x-key", "s3cret-value"),
    ],
)
async def test_credentials_are_sent_and_never_returned(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, auth: Any, header: str, value: str
):
    monkeypatch.setenv("PLANTED", "s3cret-value")
    outcome = await caller.call("/echo", auth=auth)
    assert caller._server.seen[-1].headers[header] == value
    assert value not in outcome.text  # the server repeats every header
    assert "s3cret-value" not in outcome.text
    assert "${PLANTED}" in outcome.text


async def test_a_key_in_the_query_is_sent_and_never_returned(caller: Caller, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PLANTED", "s3cret value+")
    outcome = await caller.call("/echo", auth=ApiKey("key", "${PLANTED}", "query"))
    assert caller._server.seen[-1].query == {"key": ["s3cret value+"]}
    assert "s3cret" not in outcome.text


async def test_a_secret_that_is_not_set_is_named_and_nothing_is_sent(caller: Caller, server: Server):
    outcome = await caller.call("/echo", auth=Bearer("${NOT_SET}"), retries=3)
    assert (
        outcome.text == "act failed: the environment variable NOT_SET, which its declaration refers to, is not set here"
    )
    assert server.seen == []


async def test_the_idempotency_key_is_sent_with_writes(caller: Caller):
    seen = await caller.sent("/echo", method="POST")
    assert seen.headers["idempotency-key"] == CONTEXT.idempotency_key
    assert (await caller.sent("/echo", method="POST", idempotency_header="X-Once")).headers["x-once"] == "c1:7"
    assert "idempotency-key" not in (await caller.sent("/echo")).headers
    assert "idempotency-key" not in (await caller.sent("/echo", method="POST", idempotency_header=None)).headers


@pytest.mark.parametrize(("method", "read_only"), [("GET", True), ("HEAD", True), ("POST", False), ("DELETE", False)])
def test_get_and_head_are_read_only(method: str, read_only: bool):
    [tool] = AgentToolkit([HttpTool("act", url="https://example.org/", method=method)]).tools()
    assert tool.declared.read_only is read_only
    [declared] = AgentToolkit([HttpTool("act", url="https://example.org/", method=method, read_only=True)]).tools()
    assert declared.declared.read_only is True


async def test_only_what_is_selected_is_read(caller: Caller):
    assert (await caller.call("/echo", select="{m: method, p: path}")).text == '{"m":"GET","p":"/echo"}'
    assert (await caller.call("/text", select="a")).text == "act failed: it answered with text/plain instead of JSON"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/text", "Grüße"),
        ("/empty", "done: it returned nothing"),
        ("/lies", "act failed: it answered with something that is not JSON, though it said so"),
        ("/bytes", "act failed: it answered with application/octet-stream, which a model cannot read"),
        ("/zipped", "act failed: it answered in a compressed form that was not asked for"),
        ("/fails/404/9", 'act failed: the server answered 404 Not Found: {"error": "not now"}'),
        ("/broken", "act failed: the server broke off its answer"),
        ("/mislabelled", "[a file is left out: a File is not image/png]"),
    ],
)
async def test_answers_of_every_kind(caller: Caller, path: str, text: str):
    assert (await caller.call(path)).text.startswith(text)


async def test_an_image_is_given_as_a_file(caller: Caller):
    outcome = await caller.call("/image")
    assert outcome == ToolOutcome("[a file (image/png)]", files=(File(PNG, "image/png"),))


async def test_long_answers_are_cut_and_endless_ones_are_given_up(caller: Caller):
    assert (
        await caller.call("/endless", max_bytes=100_000)
    ).text == "act failed: its answer is larger than 100000 bytes"
    assert (await caller.call("/echo", max_result=10)).text.startswith('{"method":\n[cut: the first 10 of ')


@pytest.mark.parametrize("path", ["/slow", "/drip"])
async def test_slow_answers_time_out(caller: Caller, path: str):
    outcome = await caller.call(path, timeout=0.1)
    assert outcome.text.startswith("act failed: ")
    assert "longer than 0.1 seconds" in outcome.text or "Timeout" in outcome.text


async def test_a_temporary_failure_is_tried_again_with_the_same_key(caller: Caller, server: Server):
    assert (await caller.sent("/fails/503/2", method="POST", retries=2)).path == "/fails/503/2"
    assert [seen.headers["idempotency-key"] for seen in server.seen] == ["c1:7"] * 3


async def test_retry_after_is_honoured(caller: Caller, monkeypatch: pytest.MonkeyPatch):
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("changeover.toolkits.toolkit.asyncio.sleep", sleep)
    assert (await caller.call("/fails/429/1?after=7", retries=1)).ok
    assert waited == [7.0]
    outcome = await caller.call("/fails/429/2?after=3600", retries=1)
    assert outcome.text.startswith("act failed: the server answered 429")
    assert waited == [7.0]


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_a_refusal_is_not_tried_again(caller: Caller, server: Server, status: int):
    assert not (await caller.call(f"/fails/{status}/9", retries=3)).ok
    assert len(server.seen) == 1


async def test_a_write_without_a_key_is_not_tried_again_for_the_team(server: Server, connections: Connections):
    tool = HttpTool("act", url=f"{server.url}/fails/503/9", method="POST", idempotency_header=None, allow_private=True)
    toolkit = AgentToolkit([tool], retries=3, backoff=0.001, connections=connections)
    assert not (await toolkit.call("act", {}, CONTEXT)).ok
    assert len(server.seen) == 1


async def test_a_redirect_within_the_listed_hosts_is_followed(caller: Caller, server: Server):
    seen = await caller.sent(f"/redirect/302?to={server.url}/echo", method="POST", body={"a": 1})
    assert (seen.method, seen.path, seen.body) == ("GET", "/echo", "")
    seen = await caller.sent("/redirect/307?to=/echo", method="POST", body={"a": 1})
    assert (seen.method, seen.body) == ("POST", '{"a":1}')


async def test_a_redirect_loop_ends(caller: Caller, server: Server):
    assert (await caller.call("/loop")).text == "act failed: it was redirected more than 5 times"
    assert len(server.seen) == 6


async def test_the_answer_to_a_head_is_its_headers(caller: Caller):
    outcome = await caller.call("/image", method="HEAD")
    assert outcome.text.startswith("200: {")
    assert '"content-type":"image/png"' in outcome.text


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (
            "http://169.254.169.254/latest/meta-data",
            "it was redirected to 169.254.169.254, and it may reach only 127.0.0.1",
        ),
        ("http://localhost/", "it was redirected to localhost, and it may reach only 127.0.0.1"),
        ("file:///etc/passwd", "it was redirected to file://, which is not allowed"),
    ],
)
async def test_a_redirect_elsewhere_is_refused(caller: Caller, target: str, reason: str):
    assert (await caller.call(f"/redirect/302?to={target}")).text == f"act failed: {reason}"


async def test_secrets_do_not_follow_a_redirect_to_another_origin(
    caller: Caller, server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PLANTED", "s3cret-value")
    headers = {"X-Token": "${PLANTED}", "X-Plain": "yes"}
    with serving() as other:
        outcome = await caller.call(f"/redirect/302?to={other.url}/echo", auth=Bearer("${PLANTED}"), headers=headers)
        assert outcome.ok
        assert server.seen[-1].headers["authorization"] == "Bearer s3cret-value"
        assert other.seen[-1].headers.keys().isdisjoint({"authorization", "x-token"})
        assert other.seen[-1].headers["x-plain"] == "yes"
        outcome = await caller.call(f"/redirect/307?to={other.url}/echo", method="POST", body={"a": "${PLANTED}"})
        assert outcome.text == "act failed: it was redirected to 127.0.0.1, where its content may not be sent"


async def test_proxy_variables_are_ignored(caller: Caller, monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await caller.sent("/echo")).path == "/echo"


FAULTS = [
    ({"url": "ftp://example.org"}, "has url='ftp://example.org'; give one that begins with https:// or http://"),
    ({"url": "https://{host}/"}, "has a parameter in its url outside the path; put it into query="),
    ({"url": "https://example.org/?key=${KEY}"}, "has a secret in its url; put it into query=, headers= or auth="),
    ({"url": "https://ana:pa55word@example.org/"}, "has a password in its url"),
    ({"hosts": ["other.org"]}, "has hosts=['other.org'], which do not include the host of its url, 'example.org'"),
    ({"hosts": ["https://example.org"]}, "has the host 'https://example.org'"),
    ({"method": "FETCH"}, "has method='FETCH'; use one of GET, HEAD, POST, PUT, PATCH, DELETE"),
    ({"query": {"q": "{words}"}}, "uses {words}, which is not among its parameters"),
    ({"auth": Bearer("abc")}, "has a literal token"),
    ({"auth": Basic("ana", "abc")}, "has a literal password"),
    ({"auth": ApiKey("k", "abc")}, "has a literal key"),
    ({"auth": "abc"}, "has auth of type str; give Bearer(…), Basic(…) or ApiKey(…)"),
    ({"headers": {"X-Api-Key": "abc"}}, "has what looks like a key in its headers 'X-Api-Key'"),
    ({"headers": {"X-Id": "ghp_" + "a1" * 18}}, "has what looks like a key in its headers 'X-Id'"),
    ({"body": {"deep": ["sk-" + "aB3" * 12]}, "method": "POST"}, "has what looks like a key in its body 'deep'"),
    ({"body": {}}, "has a body, which a GET does not take; use query="),
    (
        {"method": "POST", "idempotency_header": None, "retries": 1},
        "has retries=1, but a POST without an idempotency key is not safe to repeat",
    ),
    ({"select": "a["}, "has select='a[', which is not JMESPath"),
    ({"at_most_once": True, "retries": 1}, "is at_most_once and has retries=1, which contradict each other"),
    ({"timeout": -1}, "has timeout=-1; use a number of seconds above 0, or None for no limit"),
    ({"approval": 3}, "has approval=3; give True, a function or Approval(…)"),
]


@pytest.mark.parametrize(("options", "fault"), FAULTS)
def test_faults_are_reported_when_the_team_is_built(options: dict[str, Any], fault: str):
    tool = HttpTool("act", **{"url": "https://example.org/", **options})
    with pytest.raises(MisconfiguredError) as caught:
        Team([Agent("solo", tools=[tool])], model=ScriptedModel({}))
    assert any(each.startswith(f"agent 'solo': tool 'act' {fault}") for each in caught.value.faults)
    assert "aB3" not in str(caught.value)
    assert "pa55word" not in str(caught.value)


def test_two_tools_of_different_kinds_cannot_have_one_name():
    def act() -> str:
        return ""

    with pytest.raises(MisconfiguredError, match=r"two tools called 'act' \(a function and an HTTP request\)"):
        Team([Agent("solo", tools=[act, HttpTool("act", url="https://example.org/")])], model=ScriptedModel({}))

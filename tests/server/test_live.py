"""Reading along over HTTP: each event once and in order, text while it is written, lists as they change."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2 as httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.server.process import Server
from tests.server.readers import Frame, events, following, frames, is_finished, live, seqs, text, until


def begun(client: httpx.Client, said: str = "hello") -> str:
    """The id of a conversation that is over or waits."""
    outcome = client.post("/conversations", params={"wait": True}, json={"text": said}).json()
    return str(outcome["conversation"])


def say(client: httpx.Client, id: str, said: str = "hello") -> None:
    assert client.post(f"/conversations/{id}/messages", json={"text": said}).status_code == 202


def test_a_stream_begins_with_what_happened_and_goes_on_after_a_seq(server: Server):
    with server.client() as client:
        id = begun(client)
        recorded = client.get(f"/conversations/{id}/events").json()
        recorded = recorded if isinstance(recorded, list) else recorded["items"]
        last = recorded[-1]["seq"]
        with following(client, id) as found:
            seen = until(is_finished, found)
            assert events(seen) == recorded
            assert (seen[-1]["status"], seen[-1]["text"], seen[-1]["conversation"]) == ("completed", "Hello.", id)
        for query, header in ((3, {}), (0, {"Last-Event-ID": "3"}), (1, {"Last-Event-ID": "3"})):
            with following(client, id, query, **header) as found:
                assert seqs(until(is_finished, found)) == list(range(4, last + 1))
        with following(client, id, last) as found:
            assert next(found)["kind"] == "finished"
            say(client, id)
            assert seqs(until(is_finished, found))[0] == last + 1


def test_a_reader_has_the_text_while_it_is_written_and_before_the_reply(server: Server):
    with server.client() as client, live(server) as socket:
        id = begun(client)
        socket.send(subscribe=id)
        socket.until(is_finished)
        with following(client, id) as found:
            until(is_finished, found)
            say(client, id)
            for seen in (socket.until(is_finished), until(is_finished, found)):
                kinds = [frame["kind"] for frame in seen]
                assert (text(seen), text(seen, "thinking")) == ("Hello.", "A greeting.")
                piece = seen[kinds.index("text")]
                assert (piece["conversation"], piece["agent"], piece["attempt"]) == (id, "triage", 1)
                assert piece["task"].startswith(f"{id}#")
                kinds = [frame["event"]["type"] if frame["kind"] == "event" else frame["kind"] for frame in seen]
                assert kinds.index("text") < kinds.index("model_replied")
                assert "text" not in kinds[kinds.index("model_replied") :]


def test_many_readers_see_each_event_once_and_in_order(server: Server):
    with server.client() as client:
        id = begun(client)
        ready = threading.Barrier(13)

        def follow() -> list[Frame]:
            with server.client() as own, following(own, id) as found:
                seen = until(is_finished, found)
                ready.wait(20)
                return [*seen, *until(is_finished, found)]

        def subscribe() -> list[Frame]:
            with live(server) as socket:
                socket.send(subscribe=id)
                seen = socket.until(is_finished)
                ready.wait(20)
                return [*seen, *socket.until(is_finished)]

        with ThreadPoolExecutor(12) as pool:
            readers = [pool.submit(reads) for _ in range(6) for reads in (follow, subscribe)]
            ready.wait(20)
            say(client, id)
            found = [each.result(20) for each in readers]
        assert [seqs(each) for each in found] == [list(range(1, len(seqs(found[0])) + 1))] * 12
        assert len({str(events(each)) for each in found}) == 1


def test_a_subscription_shows_a_delegate_alone_and_ends_when_it_is_told_to(server: Server):
    with server.client() as client, live(server) as socket:
        id = begun(client, "research it")
        socket.send(subscribe=id)
        [claim] = client.post("/claims", json={"agent": "research", "limit": 1}).json()
        held, ticket = {"claim": claim["claim"]}, claim["ticket"]["id"]
        assert client.post(f"/tickets/{ticket}/accept", json=held).status_code == 204
        child = socket.until(lambda frame: frame["kind"] == "event" and "/" in frame["conversation"])[-1][
            "conversation"
        ]
        socket.send(unsubscribe=id)
        with following(client, child) as found:
            assert next(found)["event"]["conversation"] == child
            assert client.post(f"/tickets/{ticket}/complete", json={**held, "result": "Found."}).status_code == 204
            ended = until(is_finished, found)
        assert {each["conversation"] for each in events(ended)} == {child}
        assert (ended[-1]["conversation"], ended[-1]["status"]) == (child, "completed")
        socket.send(subscribe="nobody")
        left = socket.until(lambda frame: frame["kind"] == "notice")
        assert "run_completed" not in [each["type"] for each in events(left)]


def test_the_socket_says_what_is_wrong_and_goes_on(server: Server):
    with server.client() as client, live(server) as socket:
        socket.send(subscribe="nobody")
        assert socket.read().items() >= {"kind": "notice", "code": "not-found", "conversation": "nobody"}.items()
        for wrong in ("{", "[]", "{}", '{"subscribe": 5}', '{"watch": "money"}', '{"what": 1}', "[" * 5_000):
            socket.connection.send(wrong)
            notice = socket.read()
            assert (notice["kind"], notice["code"]) == ("notice", "bad-message")
            assert notice["message"]
        id = begun(client)
        socket.send(subscribe=id, after=2)
        assert seqs(socket.until(is_finished))[0] == 3


def test_a_socket_needs_a_token_and_a_page_of_the_same_origin(server: Server):
    with live(server, None) as socket:
        socket.send(token="wrong")
        assert socket.read()["code"] == "unauthorized"
        with pytest.raises(ConnectionClosed) as closed:
            socket.read()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
    with live(server, None) as socket:
        socket.send(token="the-token-of-the-tests-0123456789")
        socket.send(subscribe="nobody")
        assert socket.read()["code"] == "not-found"
    with pytest.raises(InvalidStatus), live(server, Origin="https://elsewhere.example"):
        pass


def test_lists_send_a_snapshot_and_then_what_changes(server: Server):
    with server.client() as client, live(server) as socket:
        before = begun(client)
        for name in ("conversations", "approvals", "queue", "tasks", "metrics"):
            socket.send(watch=name)
        snapshots: dict[str, Any] = {}
        while len(snapshots) < 5:
            frame = socket.read()
            if frame["kind"] == "snapshot":
                snapshots[frame["list"]] = frame["items"]
        assert before in [each["id"] for each in snapshots["conversations"]]
        assert snapshots["metrics"][0]["id"] == ""
        id = begun(client, "refund")
        asked = socket.until(lambda frame: frame["kind"] == "change" and frame["list"] == "approvals")[-1]["item"]
        assert (asked["conversation"], asked["tool"]) == (id, "refund")
        decided = client.post(f"/approvals/{asked['id']}/decision", json={"decision": {"type": "approve"}})
        assert decided.status_code == 204
        left = socket.until(lambda frame: frame["kind"] == "gone" and frame["list"] == "approvals")[-1]
        assert left["id"] == asked["id"]
        socket.send(unwatch="conversations")
        with live(server) as another:
            another.send(watch="approvals")
            assert asked["id"] not in [each["id"] for each in another.read()["items"]]


def test_a_message_is_answered_by_a_stream_of_its_run(server: Server):
    stream = {"Accept": "text/event-stream"}
    with server.client() as client:
        with client.stream("POST", "/conversations", json={"text": "hello"}, headers=stream) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            found = list(frames(response))
        assert (text(found), found[-1]["kind"], found[-1]["status"]) == ("Hello.", "finished", "completed")
        id = found[-1]["conversation"]
        with client.stream(
            "POST", f"/conversations/{id}/messages", json={"text": "refund"}, headers=stream
        ) as response:
            found = list(frames(response))
        assert (found[-1]["status"], found[-1]["pending"][0]["tool"]) == ("waiting", "refund")
        with client.stream("POST", "/conversations", json={"text": "fail"}, headers=stream) as response:
            found = list(frames(response))
        assert (found[-1]["kind"], found[-1]["status"]) == ("finished", "failed")
        assert "no line" in found[-1]["error"]
        refused = client.post("/conversations", json={"text": "hello", "agent": "nobody"}, headers=stream)
        assert refused.status_code == 422
        assert client.get("/conversations/nobody/stream").status_code == 404

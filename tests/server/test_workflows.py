"""Workflows over HTTP: read and drawn, started with a key, how far the steps are, and a step retried."""

from pathlib import Path
from typing import Any

import httpx2 as httpx

from tests.cli.process import changeover
from tests.server.process import ADMIN, Server, until

STARTED = {"inputs": {"name": "Ada", "words": "thanks"}}


def steps(client: httpx.Client, id: str) -> dict[str, str]:
    """The status of each step of the workflow in a conversation."""
    [found] = client.get(f"/conversations/{id}/workflows").raise_for_status().json()["items"]
    return {each["id"]: "asks" if each["id"] in found["waits_for"] else each["status"] for each in found["steps"]}


def approve(client: httpx.Client, id: str) -> None:
    [pending] = client.get("/approvals", params={"conversation": id}).json()["items"]
    client.post(f"/approvals/{pending['id']}/decision", json={"decision": {"type": "approve"}}).raise_for_status()


def ended(client: httpx.Client, id: str) -> dict[str, Any]:
    """The workflow in a conversation, once it is over."""
    url = f"/conversations/{id}/workflows"
    over: dict[str, Any] = until(
        lambda: (found := client.get(url).json()["items"][0])["status"] not in ("running", "rolling back") and found
    )
    return over


def test_workflows_are_listed_and_drawn(server: Server):
    with server.client() as client:
        [listed] = client.get("/workflows").json()["items"]
        assert (listed["id"], listed["name"], listed["steps"]) == ("parcel", "Take a parcel back", 4)
        assert listed["inputs"] == ["name", "label", "words"]
        read = client.get("/workflows/parcel").json()
        assert next(each["after"] for each in read["definition"]["steps"] if "after" in each) == ["greet"]
        boxes = {each["id"]: each["box"] for each in read["map"]["steps"]}
        assert boxes["greet"]["x"] < boxes["label"]["x"] == boxes["check"]["x"] < boxes["thank"]["x"]
        assert next((each["source"], each["target"]) for each in read["map"]["links"]) == ("greet", "label")
        missing = client.get("/workflows/none")
        assert (missing.status_code, missing.json()["type"]) == (404, "urn:changeover:problem:workflow-not-found")


def test_a_workflow_is_started_once_per_key_and_shows_how_far_it_is(server: Server):
    with server.client() as client:
        key = {"Idempotency-Key": f"parcel {server.store}"}
        first, again = (client.post("/workflows/parcel/runs", headers=key, json=STARTED) for _ in range(2))
        assert (first.status_code, first.json()) == (202, again.json())
        id = first.json()["conversation"]
        until(lambda: steps(client, id)["check"] == "asks")
        assert steps(client, id) == {"greet": "done", "label": "skipped", "check": "asks", "thank": "pending"}
        refused = client.post(f"/conversations/{id}/steps/greet/retry")
        assert refused.status_code == 409
        approve(client, id)
        over = ended(client, id)
        assert (over["status"], over["workflow"], over["inputs"]) == ("completed", "parcel", STARTED["inputs"])
        assert [each["output"] for each in over["steps"] if each["output"]] == ["Hello."] * 3
        figures = {each["step"]: each for each in client.get("/workflows/parcel/metrics").json()["items"]}
        assert [*figures] == ["greet", "label", "check", "thank"]
        assert min(figures["greet"]["done"], figures["label"]["skipped"], figures["check"]["done"]) >= 1
        assert figures["greet"]["elapsed"]["count"] == figures["greet"]["done"]
        assert figures["greet"] in client.get("/metrics").json()["steps"]
        assert client.get("/workflows/none/metrics").status_code == 404
        other = client.post("/workflows/parcel/runs", headers=key, json={"inputs": {"name": "Eve"}})
        assert other.status_code == 409


def test_a_failed_workflow_tells_why_and_one_step_can_be_retried(server: Server):
    with server.client() as client:
        said = {"inputs": {"name": "Ada", "words": "fail"}}
        id = client.post("/workflows/parcel/runs", json=said).json()["conversation"]
        until(lambda: steps(client, id)["check"] == "asks")
        approve(client, id)
        over = ended(client, id)
        assert (over["status"], "the step 'check'" in over["error"]) == ("failed", True)
        failed = next(each for each in over["steps"] if each["id"] == "check")
        assert (failed["status"], "no line" in failed["error"], failed["attempts"]) == ("failed", True, 1)
        retried = client.post(f"/conversations/{id}/steps/greet/retry")
        assert (retried.status_code, retried.json()["conversation"]) == (202, id)
        until(lambda: steps(client, id) == {"greet": "done", "label": "skipped", "check": "asks", "thank": "pending"})
        unknown = client.post(f"/conversations/{id}/steps/nothing/retry")
        assert unknown.status_code == 409  # it is at work
        talk = client.post("/conversations", params={"wait": True}, json={"text": "hello"}).json()["conversation"]
        assert client.get(f"/conversations/{talk}/workflows").json()["items"] == []


def test_the_command_line_works_with_the_workflows_of_a_server(server: Server, tmp_path: Path):
    at = {"CHANGEOVER_SERVER": server.url, "CHANGEOVER_TOKEN": ADMIN}
    assert "parcel" in changeover("workflows", at=tmp_path, **at).stdout
    assert "greet: triage\n" in changeover("workflows", "show", "parcel", at=tmp_path, **at).stdout
    begun = changeover("workflows", "start", "parcel", "name=Ada", "words=hi", at=tmp_path, **at)
    assert begun.returncode == 0, begun.stderr
    id = begun.stdout.split("the conversation ")[1].split(";")[0]
    with server.client() as client:
        until(lambda: steps(client, id)["check"] == "asks")
        approve(client, id)
        ended(client, id)
        assert changeover("workflows", "retry", id, "thank", at=tmp_path, **at).returncode == 0
        assert ended(client, id)["status"] == "completed"


GREETING = {"steps": [{"id": "greet", "agent": "triage", "input": "Greet {inputs.name}"}]}


def test_a_workflow_is_a_document_of_the_store_with_versions(server: Server):
    path = "/declarations/workflow/greeting"
    with server.client() as client:
        wrong = {"steps": [{"id": "greet", "agent": "nobody", "after": ["gone"]}]}
        drafted = client.post("/drafts/workflow/greeting", json={"document": wrong}).json()
        assert ["nobody" in drafted["faults"][0]["text"], len(drafted["faults"])] == [True, 2]
        assert client.put(path, json=wrong).status_code == 422
        assert client.post("/drafts/workflow/greeting", json={"document": GREETING}).json()["faults"] == []
        made = client.put(path, json=GREETING, headers={"If-None-Match": "*"})
        assert (made.status_code, made.headers["etag"]) == (201, '"1"'), made.text
        given = {"inputs": {"name": "Ada"}}
        begun = client.post("/workflows/greeting/runs", params={"wait": True}, json=given).json()
        assert begun["text"] == "Hello."
        further = {"steps": [*GREETING["steps"], {"id": "thank", "agent": "triage", "after": ["greet"]}]}
        assert client.put(path, json=further, headers={"If-Match": '"7"'}).status_code == 412
        assert client.put(path, json=further, headers={"If-Match": '"1"'}).json()["version"] == 2
        assert client.get("/workflows/greeting").json()["steps"] == 2
        [before] = client.get(f"/conversations/{begun['conversation']}/workflows").json()["items"]
        assert [each["id"] for each in before["steps"]] == ["greet"]
        assert len(client.get(f"{path}/history").json()["items"]) == 2
        assert client.delete(path).status_code == 204
        assert client.get("/workflows/greeting").status_code == 404
